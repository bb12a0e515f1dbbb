"""Grids and paths: where the nodes of a solution are in time, and how they are kept.

The equation has one constant delay tau, and a step has the length h = tau / n. Node k
is at the time k h. This has two consequences:

- the *breaking points* of the solution, the multiples of tau at which one of its
  derivatives jumps, are nodes, so that a solver keeps its order;
- one delay before a node there is another node, n steps earlier.

Two numberings are used throughout this folder. *Row* i >= 0 is the i-th node from time
zero on. A *path* stores the rows in order, after `delay_rows` rows with the history:
row i is at the place i + `delay_rows` of a path. Therefore the place i holds the
state one delay before row i, whatever tau is.

A path has the nodes of a solution as rows, and cubic pieces between them. A row is an
array [2, d]: x and x' at one node. States may have further axes at their end, for
derivatives or for lanes. The rows stand in one buffer, the history first. `WholePath`
keeps all of them; `RingPath` keeps the last delay only and overwrites what is older.

The shapes of these buffers are fixed when a program is compiled, the number of steps is
not. XLA compiles the loops into fast code, without a copy of a buffer, where one row is
written in a step, a row is read only after the write of that step, and no scatter is
used.

The dense output, and the past of a delay, are cubic Hermite pieces. Between two nodes
with states x0 and x1, slopes f0 and f1 and distance h, the state at the fraction u of
the way from the first to the second is

    x(u) = a0(u) x0 + a1(u) x1 + h (b0(u) f0 + b1(u) f1).

The pieces join with continuous states and slopes. The dense output is therefore
continuously differentiable in time, and also in the delay, which moves the nodes.
"""

import abc
import math
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ..._util.arrays import read, take, write


class AbstractRowTimes(abc.ABC):
    """The times of the rows of a march."""

    @abc.abstractmethod
    def node(self, i: Any) -> Any:
        """Return the time of row `i`."""

    @abc.abstractmethod
    def stage(self, i: Any, c: float) -> Any:
        """Return the time at the fraction `c` of the step that begins at row `i`."""

    @abc.abstractmethod
    def length(self, i: Any, h: Any) -> Any:
        """Return the length of the step that begins at row `i`, in the unit of time of
        the slopes; `h` is the usual length of a step, where there is one."""


@final
@dataclass(frozen=True)
class Grid(AbstractRowTimes):
    """Nodes at the multiples of h = tau / n, and the rows in which they are kept.

    - `n`: the number of steps in a delay. It fixes the shape of a stored path and is
      then an integer; a march that keeps its rows in a ring may have a traced one.
    - `jump`: whether x(0) differs from the history at 0. The slope x' then jumps at
      every multiple of tau, and each of these nodes has two rows, one for each side,
      with a step of length zero between them.
    - `capacity`: how many rows a path has room for, beside the history.
    """

    n: Any
    jump: bool
    capacity: int

    @property
    def delay_rows(self) -> Any:
        """The number of rows in one delay."""
        return self.n + 1 if self.jump else self.n

    def step(self, tau: Any) -> Any:
        """Return the step size h."""
        return tau / self.n

    def node(self, i: Any) -> Any:
        """Return the number of the node in row `i`: its time divided by h."""
        return i - i // self.delay_rows if self.jump else i

    def stage(self, i: Any, c: float) -> Any:
        """Return the time at the fraction `c` of the step from row `i`, over h."""
        return self.node(i) + c

    def length(self, i: Any, h: Any) -> Any:
        """Return the length of the step from row `i`: `h`, or zero between the two rows
        of one node."""
        return jnp.where(i % self.delay_rows == self.n, 0.0, h) if self.jump else h

    def last(self, T: Any, tau: Any) -> Any:
        """Return the row of the first node at or after the time `T`."""
        # A T that is a multiple of h up to rounding must not cost a further step.
        steps = jnp.ceil(T / self.step(tau) - 1e-9).astype(int)
        return self.rows(jnp.maximum(steps, 1))

    def rows(self, steps: Any) -> Any:
        """Return the row at which step number `steps` ends, counted from one."""
        return steps + (steps - 1) // self.n if self.jump else steps

    def row(self, node: Any) -> Any:
        """Return the row at which the step after node number `node` begins."""
        return node + node // self.n if self.jump else node


def make_grid(jump: bool, T: float, n: int, tau: float) -> Grid:
    """Make a grid with room for the steps of the delay `tau` up to the time `T`, and of
    somewhat shorter delays."""
    grid = Grid(n, jump, 0)
    needed = grid.rows(max(1, math.ceil(T / tau * n - 1e-9))) + 1
    # A power of two, so that few programs are compiled, however tau varies.
    capacity = 1 << max(needed, grid.delay_rows + 1, 64).bit_length()
    return Grid(n, jump, capacity)


def state_weights(u: Any) -> tuple[Any, Any]:
    """Return `(a0, a1)`, the weights of the two states."""
    return (1 + 2 * u) * (1 - u) ** 2, u * u * (3 - 2 * u)


def slope_weights(u: Any) -> tuple[Any, Any]:
    """Return `(b0, b1)`, the weights of the two slopes, for h = 1."""
    return u * (1 - u) ** 2, u * u * (u - 1)


def hermite(u: Any, left: Any, right: Any, h: Any) -> Any:
    """Return the state at the fraction `u` between two rows `(state, slope)`."""
    (a0, a1), (b0, b1) = state_weights(u), slope_weights(u)
    return a0 * left[0] + a1 * right[0] + h * (b0 * left[1] + b1 * right[1])


def hermite_slope(u: Any, left: Any, right: Any, h: Any) -> Any:
    """Return the derivative of the same piece for time; `h` must not be zero."""
    states = 6 * u * (1 - u) / h * (right[0] - left[0])
    return states + (1 - u) * (1 - 3 * u) * left[1] + u * (3 * u - 2) * right[1]


def hermite_at(s: Any, t0: Any, t1: Any, left: Any, right: Any) -> Any:
    """Return the state at the time `s` of the Hermite piece between two rows, at the
    times `t0` and `t1`. A piece of length zero is never read, but it may be evaluated.
    """
    h = t1 - t0
    safe = jnp.where(h > 0, h, 1.0)
    return hermite((s - t0) / safe, left, right, h)


def pull_hermite(s: Any, ends: jax.Array, rows: jax.Array, cotangent: jax.Array):
    """Return the VJP of `hermite_at`: the cotangents of the two rows [2, 2, d], of
    their times [2], and of `s`, given that of the state.

    With u = (s - t0) / h and x = x0 + a1 (x1 - x0) + h (b0 f0 + b1 f1), the last term
    grows with h, and all else depends on the times by u."""
    (x0, f0), (x1, f1) = rows
    h = ends[1] - ends[0]
    inverse = jnp.where(h > 0, 1 / h, 0.0)
    u = (s - ends[0]) * inverse
    v = 1 - u
    a1, b0, b1 = u * u * (3 - 2 * u), u * v * v, -u * u * v
    slope = 6 * u * v * inverse * (x1 - x0)
    slope = slope + v * (1 - 3 * u) * f0 + u * (3 * u - 2) * f1
    by_s = jnp.sum(cotangent * slope)
    by_h = jnp.sum(cotangent * (b0 * f0 + b1 * f1)) - u * by_s
    weights = jnp.stack([jnp.stack([1 - a1, h * b0]), jnp.stack([a1, h * b1])])
    by_ends = jnp.stack([-by_s - by_h, by_h])
    return weights[:, :, None] * cotangent, by_ends, by_s


def read_two(buffer: jax.Array, i: Any) -> jax.Array:
    """Return the rows i and i + 1."""
    return lax.dynamic_slice_in_dim(buffer, i, 2, 0, allow_negative_indices=False)


def add_two(buffer: jax.Array, i: Any, rows: jax.Array) -> jax.Array:
    """Return the buffer after adding to its rows i and i + 1."""
    return lax.dynamic_update_slice_in_dim(
        buffer, read_two(buffer, i) + rows, i, 0, allow_negative_indices=False
    )


class AbstractPathStorage(abc.ABC):
    """How the rows of a path are kept in a buffer: `index` is the index in the buffer
    of the row at the place `place` of a path."""

    @abc.abstractmethod
    def index(self, place: Any) -> Any: ...

    def read(self, buffer: jax.Array, place: Any) -> jax.Array:
        return read(buffer, self.index(place))

    def write(self, buffer: jax.Array, place: Any, row: jax.Array) -> jax.Array:
        return write(buffer, self.index(place), row)


@final
@dataclass(frozen=True)
class WholePath(AbstractPathStorage):
    """Storage of every row."""

    def index(self, place: Any) -> Any:
        return place


@final
@dataclass(frozen=True)
class RingPath(AbstractPathStorage):
    """Storage of the last rows only: `mask` + 1 of them, a power of two."""

    mask: Any

    @classmethod
    def for_one_delay(cls, grid: Grid) -> "RingPath":
        """Return the smallest ring that holds a delay and the row being written, so
        that it stays in the processor's cache."""
        needed = jnp.asarray(grid.delay_rows + 2)
        bits = jnp.iinfo(needed.dtype).bits
        return cls((1 << (bits - lax.clz(needed))) - 1)

    def index(self, place: Any) -> Any:
        return place & self.mask


@final
@dataclass(frozen=True)
class DenseOutput:
    """A solved path as a function of time on [0, T], made of cubic Hermite pieces.

    `path` keeps all rows up to row `last`, with slopes per unit of time, and
    `step_size` is h. In lanes, `t` holds one time for each lane."""

    grid: Grid
    path: jax.Array
    step_size: Any
    last: Any

    def locate(self, t: Any) -> tuple[Any, Any]:
        """Return the last node at or before the time `t`, and its place in the path:
        the beginning of the piece that contains `t`."""
        node = jnp.floor(t / self.step_size).astype(int)
        node = jnp.clip(node, 0, self.grid.node(self.last) - 1)
        return node, self.grid.row(node) + self.grid.delay_rows

    def __call__(self, t: Any) -> jax.Array:
        """Return the state x(t)."""
        return hermite(*self._piece(t), self.step_size)

    def slope(self, t: Any) -> jax.Array:
        """Return the derivative x'(t) of the Hermite piece."""
        return hermite_slope(*self._piece(t), self.step_size)

    def _piece(self, t):
        """Return the fraction of its step at which `t` is, and the rows around it."""
        node, place = self.locate(t)
        left, right = take(self.path, place), take(self.path, place + 1)
        return t / self.step_size - node, left, right


@final
class MeshPath(eqx.Module):
    """A solved path as a function of time on [0, T], made of cubic Hermite pieces.

    `rows` [capacity, 2, d] are complete up to row `last`."""

    times: jax.Array
    rows: jax.Array
    last: jax.Array

    def __call__(self, t: Any) -> jax.Array:
        """Return the state x(t)."""
        piece = jnp.searchsorted(self.times, t, side="right") - 1
        piece = jnp.clip(piece, 0, self.last - 1)
        t0, t1 = self.times[piece], self.times[piece + 1]
        return hermite_at(t, t0, t1, self.rows[piece], self.rows[piece + 1])
