"""A path: the nodes of a solution as rows, and the cubic pieces between them.

A row is an array [2, d]: x and x' at one node. States may have further axes at their
end, for derivatives or for lanes. The rows stand in one buffer, the history first (see
`grid.py`). `WholePath` keeps all of them; `RingPath` keeps the last delay only and
overwrites what is older.

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
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from .._util.arrays import read, take, write
from .grid import Grid


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
