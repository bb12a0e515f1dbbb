"""How a step on a mesh gets the delayed states of its stages.

The time t - tau moves forward as the march does. Each delay therefore has a pointer to
the piece of the path in which its delayed time was last, and the pointer only moves
forward. At the end of a step the past is looked at from the left, and after a step of
length zero, which separates the two sides of a jump, from the right.

Every delay is a breaking point: a whole step reads the history, or none of it does.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jax import lax

from .._util.buffers import read, write
from .grid import AbstractRowTimes
from .hermite import hermite
from .mesh import seen_from
from .past import AbstractPast
from .runge_kutta import AbstractSolver


def stage_fractions(solver: AbstractSolver) -> tuple[float, ...]:
    """The fractions of a step at which delayed states are needed: those of the solver,
    and its end, where the next slope is evaluated."""
    return (*(c for c in solver.fractions if c != 1), 1.0)


def stage_time(t0: Any, t1: Any, c: float, side: Any) -> Any:
    """The time at the fraction `c` of a step, on the side from which it is seen: the
    end from the left, and all of a step of length zero from the right."""
    if c == 1:
        return t1 + seen_from(t1 <= t0, side)
    return t0 + c * (t1 - t0) + jnp.where(t1 > t0, 0.0, seen_from(True, side))


@final
@dataclass(frozen=True)
class MeshTimes(AbstractRowTimes):
    """The times of the rows.

    `side` is how far from a jump of the right-hand side its left side is looked at,
    zero without switches."""

    times: jax.Array
    side: Any

    def node(self, i: Any) -> Any:
        """The time of row `i`, on the side from which its slope is seen."""
        time, before = read(self.times, i), read(self.times, jnp.maximum(i - 1, 0))
        return time + seen_from(time <= before, self.side)

    def stage(self, i, c):
        t0, t1 = read(self.times, i), read(self.times, i + 1)
        return stage_time(t0, t1, c, self.side)

    def length(self, i, h):
        return read(self.times, i + 1) - read(self.times, i)


class Cursor(NamedTuple):
    """Where the delayed times are: `pieces` [k] has a pointer for each delay. For the
    way back, `found` [capacity, stages * k] keeps the piece of every read, and `seen`
    [capacity, stages * k, d] what was read."""

    pieces: Any
    found: jax.Array
    seen: jax.Array


@final
@dataclass(frozen=True)
class MeshPast(AbstractPast):
    """Reads the delayed states of a march from its own rows.

    - `delays`, [k].
    - `history`, [capacity, stages, k, d]: the history at the stages of the steps that
      read it.
    - `after_history`, [k]: the first step that reads no history.
    - `side`: how far from a jump of x its left side is looked at.
    - `overlaps`: whether a delay may be shorter than a step.
    """

    times: jax.Array
    fractions: tuple[float, ...]
    delays: jax.Array
    history: jax.Array
    after_history: jax.Array
    side: Any
    overlaps: bool

    def reads_history(self, i: Any, q: int) -> Any:
        """Whether delay `q` leads to the history throughout step `i`."""
        return i < self.after_history[q]

    def is_inside(self, i):
        length = read(self.times, i + 1) - read(self.times, i)
        return jnp.min(self.delays) < length

    def delayed_time(self, i: Any, c: float, q: int) -> Any:
        """The time of the read at the fraction `c` of step `i` with delay `q`."""
        t0, t1 = read(self.times, i), read(self.times, i + 1)
        return (t1 if c == 1 else t0 + c * (t1 - t0)) - self.delays[q]

    def find(self, i: Any, c: float, q: int, piece: Any) -> Any:
        """The piece of this read, at or after `piece`."""
        place = self.delayed_time(i, c, q)
        if c == 1:
            t0, t1 = read(self.times, i), read(self.times, i + 1)
            place = place + seen_from(t1 <= t0, self.side)
        return lax.while_loop(
            lambda j: (j < i) & (read(self.times, j + 1) <= place),
            lambda j: j + 1,
            piece,
        )

    def _reader(self, path: jax.Array, i: Any, stage: int, q: int, piece: Any):
        """The delayed state of this read, whose piece is known, as a function of the
        state and the slope at the end of the step, which take the place of a row that
        is not yet in the path."""
        t0, t1 = read(self.times, piece), read(self.times, piece + 1)
        left, right = read(path, piece), read(path, piece + 1)
        s = self.delayed_time(i, self.fractions[stage], q)
        early = read(self.history, i)[stage, q]

        def state(own):
            end = right if own is None else jnp.where(piece == i, jnp.stack(own), right)
            late = hermite_at(s, t0, t1, left, end)
            return jnp.where(self.reads_history(i, q), early, late)

        return state

    def write(self, path, i, x, slope):
        return write(path, i, jnp.stack([x, slope]))

    def during_step(self, path, i, cursor):
        """The delayed states are lists with one state for each delay."""
        pieces, found, readers = list(cursor.pieces), [], []
        for stage, c in enumerate(self.fractions):
            for q in range(len(pieces)):
                pieces[q] = self.find(i, c, q, pieces[q])
                found.append(pieces[q])
                readers.append(self._reader(path, i, stage, q, pieces[q]))
        k = len(pieces)

        def states(own):
            each = [reader(own) for reader in readers]
            at = [each[begin : begin + k] for begin in range(0, len(each), k)]
            return at, at[-1]

        found = write(cursor.found, i, jnp.stack(found))
        # What is inside the step itself is read again on the way back.
        seen = write(cursor.seen, i, jnp.stack([reader(None) for reader in readers]))
        return states, Cursor(tuple(pieces), found, seen)


def hermite_at(s: Any, t0: Any, t1: Any, left: Any, right: Any) -> Any:
    """The state at the time `s` of the Hermite piece between two rows, at the times
    `t0` and `t1`. A piece of length zero is never read, but it may be evaluated."""
    h = t1 - t0
    safe = jnp.where(h > 0, h, 1.0)
    return hermite((s - t0) / safe, left, right, h)


def pull_hermite(s: Any, ends: jax.Array, rows: jax.Array, cotangent: jax.Array):
    """The VJP of `hermite_at`: the cotangents of the two rows [2, 2, d], of their times
    [2], and of `s`, given that of the state. With u = (s - t0) / h,

        x = x0 + a1 (x1 - x0) + h (b0 f0 + b1 f1),

    where h b0 f0 + h b1 f1 grows with h, and all else depends on the times by u."""
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
    """The rows i and i + 1."""
    return lax.dynamic_slice_in_dim(buffer, i, 2, 0, allow_negative_indices=False)


def add_two(buffer: jax.Array, i: Any, rows: jax.Array) -> jax.Array:
    """The buffer after adding to its rows i and i + 1."""
    return lax.dynamic_update_slice_in_dim(
        buffer, read_two(buffer, i) + rows, i, 0, allow_negative_indices=False
    )
