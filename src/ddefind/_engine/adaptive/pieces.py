r"""A solution as polynomials, one for each step, in the rows of a buffer.

On the step from t_i, of length h, the solution is the *piece*

$$x(t_i + u h) = \sum_m c_m u^m, \qquad 0 \le u \le 1.$$

Row i of the path holds the coefficients c_m, the origin t_i and the length h, and how
the step ended. The origin of a step may move with the parameters, so that it is stored
with the piece.

A step reads the past from the history, from the pieces before it, or from its own
piece. A delay may be shorter than the step: the delayed state is then a part of the
step itself, for which there is a guess, and the step is repeated until both agree.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import comb
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ..._util.arrays import read, write

# What a row holds behind the coefficients: the origin, the length, and an `Ending`.
_ORIGIN, _BEHIND = -5, 5


class Ending(NamedTuple):
    """How a step ended: on which breaking point, and which one it made. All are
    numbers, -1 for none; `read` is the number of a tracked read, or their count for a
    switch."""

    read: Any
    entry: Any
    made: Any


def row_size(degree: int, d: int) -> int:
    """Return the length of a row."""
    return (degree + 1) * d + _BEHIND


def pack(
    coefficients: jax.Array, origin: Any, length: Any, ending: Ending
) -> jax.Array:
    """Return the row of a piece with the coefficients [degree + 1, d]."""
    numbers = [jnp.asarray(number, float) for number in ending]
    behind = jnp.stack([origin, length, *numbers])
    return jnp.concatenate([coefficients.ravel(), behind])


def unpack(row: jax.Array, d: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the coefficients, the origin and the length of a piece with `d`
    components."""
    return row[:-_BEHIND].reshape(-1, d), row[_ORIGIN], row[_ORIGIN + 1]


def ending_of(row: jax.Array) -> Ending:
    """Return how the step of a row ended."""
    return Ending(*(row[k].astype(int) for k in (-3, -2, -1)))


def origins(path: jax.Array) -> jax.Array:
    """Return the origins of all rows."""
    return path[:, _ORIGIN]


def origin_of(path: jax.Array, i: Any) -> jax.Array:
    """Return the origin of piece `i`; only this number is read."""
    start = (jnp.asarray(i), jnp.asarray(path.shape[1] + _ORIGIN))
    return lax.dynamic_slice(path, start, (1, 1), allow_negative_indices=False)[0, 0]


def evaluate(coefficients: jax.Array, u: Any) -> tuple[jax.Array, jax.Array]:
    """Return a polynomial at `u`, and its derivative there. The powers of `u` are
    formed first: their derivatives are then the same for all components."""
    powers = [jnp.ones_like(u), u]
    for _ in range(coefficients.shape[0] - 2):
        powers.append(powers[-1] * u)
    value, slope = coefficients[0], jnp.zeros_like(coefficients[0])
    for m in range(1, coefficients.shape[0]):
        value = value + powers[m] * coefficients[m]
        slope = slope + (m * powers[m - 1]) * coefficients[m]
    return value, slope


def continued(coefficients: jax.Array, ratio: Any) -> jax.Array:
    """Return the piece that continues a polynomial over the next step, which is `ratio`
    times as long."""
    n = coefficients.shape[0]
    shifted = [
        sum(comb(k, m) * coefficients[k] for k in range(m, n)) * ratio**m
        for m in range(n)
    ]
    return jnp.stack([jnp.asarray(each) for each in shifted])


def find_piece(path: jax.Array, count: Any, t: Any, hint: Any) -> jax.Array:
    """Return the number of the piece that holds the time `t`, among the first `count`;
    sought from the number `hint` in both directions."""
    top = jnp.maximum(count - 1, 0)

    def is_early(j):
        following = origin_of(path, jnp.minimum(j + 1, path.shape[0] - 1))
        return (j < top) & (following <= t)

    j = lax.while_loop(is_early, lambda j: j + 1, jnp.clip(hint, 0, top))
    return lax.while_loop(
        lambda j: (j > 0) & (origin_of(path, j) > t), lambda j: j - 1, j
    )


def state_at(path: jax.Array, count: Any, t: Any, d: int) -> jax.Array:
    """Return the state at the time `t` of a path of which `count` rows are complete."""
    number = jnp.arange(path.shape[0])
    starts = jnp.where(number < count, lax.stop_gradient(origins(path)), jnp.inf)
    j = jnp.searchsorted(starts, lax.stop_gradient(t), side="right") - 1
    coefficients, origin, length = unpack(path[jnp.clip(j, 0, count - 1)], d)
    return evaluate(coefficients, (t - origin) / length)[0]


def hold(tree: Any) -> Any:
    """Return a tree of arrays and other things, with the arrays without derivatives."""
    return jax.tree.map(
        lambda leaf: lax.stop_gradient(leaf) if eqx.is_array(leaf) else leaf, tree
    )


@dataclass(frozen=True)
class AbstractRows(abc.ABC):
    """Where the rows of the pieces come from that a step reads; the pieces have
    `dimension` components. `in_reverse` says whether JAX differentiates what is
    read in reverse mode."""

    dimension: int
    in_reverse: bool

    @abc.abstractmethod
    def row(self, number: Any, t: Any, hints: Any) -> tuple[jax.Array, Any]:
        """Return the row of the piece at the time `t`, for the read `number` of a
        stage; and the hints for the next search."""

    @abc.abstractmethod
    def held(self) -> "AbstractRows":
        """Return the same rows without their derivatives."""


@final
@dataclass(frozen=True)
class PathRows(AbstractRows):
    """Rows that are sought in a path, of which the first `count` are complete. The
    hints say where each read was found before."""

    path: jax.Array
    count: Any

    def row(self, number, t, hints):
        j = find_piece(self.path, self.count, t, read(hints, number))
        return read(self.path, j), write(hints, number, j)

    def held(self):
        return replace(self, path=lax.stop_gradient(self.path))


@final
@dataclass(frozen=True)
class GivenRows(AbstractRows):
    """Rows that were found before: `rows[number]`."""

    rows: jax.Array

    def row(self, number, t, hints):
        return read(self.rows, number), hints

    def held(self):
        return replace(self, rows=lax.stop_gradient(self.rows))


class Read(NamedTuple):
    """A state of the past, its slope, and whether it is part of the present step."""

    state: jax.Array
    slope: jax.Array
    is_inside: jax.Array


class Sides(NamedTuple):
    """The side of a breaking point on which each read of a step stays, [reads]: between
    `low` and `high` in all stages, and in the stage at the beginning of the step
    between `first_low` and `first_high`. Without a bound they are infinite.

    A step that ends on a breaking point has stages there whose states, and so whose
    delays, are not exact. One that reads beyond the point would get the derivatives of
    the other side, whatever the tolerance is."""

    low: jax.Array
    high: jax.Array
    first_low: jax.Array
    first_high: jax.Array

    def keep(self, number: Any, look: Any, c: Any) -> jax.Array:
        """Return the time `look`, moved to its side for the stage at the fraction
        `c`."""
        low, high, first_low, first_high = (read(each, number) for each in self)
        look = jnp.clip(look, low, high)
        return jnp.where(c == 0, jnp.clip(look, first_low, first_high), look)


@final
@dataclass(frozen=True)
class StagePast:
    """The past of a stage at the fraction `c` of the step from `t`, of the given
    length; `guess` holds the coefficients of the step's own piece.

    `history(t)` returns the state before time zero, and its slope; `sides` is None if
    no delay varies."""

    rows: AbstractRows
    history: Callable[[Any], tuple[jax.Array, jax.Array]]
    t: Any
    length: Any
    guess: jax.Array
    c: Any
    sides: Sides | None

    @property
    def nudge(self) -> Any:
        """How far inside the step a time is read that may be a breaking point:
        forward from the beginning of the step, back from its end."""
        t, length = lax.stop_gradient((self.t, self.length))
        return (1 - 2 * self.c) * (1e-10 * length + 4e-16 * jnp.abs(t))

    def kept(self, number: Any, s: Any) -> Any:
        """Return the time `s` of the past, moved a little to the side on which the read
        `number` looks at it."""
        held = lax.stop_gradient(s)
        look = held + self.nudge
        if self.sides is not None:
            look = self.sides.keep(number, look, self.c)
        return s + (look - held)

    def read(self, number: Any, s: Any, hints: Any) -> tuple[Read, Any]:
        """Return the state at the time `s` of the past."""
        look = lax.stop_gradient(self.kept(number, s))
        is_inside = look > lax.stop_gradient(self.t)
        is_history = look < 0
        row, hints = self.rows.row(number, look, hints)
        coefficients, origin, length = unpack(row, self.guess.shape[1])
        length = jnp.where(length > 0, length, 1.0)
        coefficients = jnp.where(is_inside, self.guess, coefficients)
        origin = jnp.where(is_inside, self.t, origin)
        length = jnp.where(is_inside, self.length, length)
        # A place far from the piece would overflow where the history is taken.
        u = jnp.where(is_history, 0.0, (s - origin) / length)
        state, slope = evaluate(coefficients, u)
        before, slope_before = self.history(
            jnp.where(is_history, self.kept(number, s), 0.0)
        )
        return Read(
            jnp.where(is_history, before, state),
            jnp.where(is_history, slope_before, slope / length),
            is_inside,
        ), hints
