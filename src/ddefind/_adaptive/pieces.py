r"""A solution as polynomials, one for each step, in the rows of a buffer.

On the step from t_i, of length h, the solution is the *piece*

$$x(t_i + u h) = \sum_m c_m u^m, \qquad 0 \le u \le 1.$$

Row i of the path holds the coefficients c_m, the origin t_i and the length h, and how
the step ended. The origin of a step may move with the parameters, so that it is stored
with the piece.
"""

from math import comb
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

# What a row holds behind the coefficients: the origin, the length, and an `Ending`.
_ORIGIN, _BEHIND = -5, 5


class Ending(NamedTuple):
    """How a step ended: on which breaking point, and which one it made. All are
    numbers, -1 for none; `read` is that of a tracked read, or their number for a
    switch."""

    read: Any
    entry: Any
    made: Any


def row_size(degree: int, d: int) -> int:
    """The length of a row."""
    return (degree + 1) * d + _BEHIND


def pack(
    coefficients: jax.Array, origin: Any, length: Any, ending: Ending
) -> jax.Array:
    """The row of a piece with the coefficients [degree + 1, d]."""
    numbers = [jnp.asarray(number, float) for number in ending]
    return jnp.concatenate(
        [coefficients.ravel(), jnp.stack([origin, length, *numbers])]
    )


def unpack(row: jax.Array, d: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The coefficients, the origin and the length of a piece with `d` components."""
    return row[:-_BEHIND].reshape(-1, d), row[_ORIGIN], row[_ORIGIN + 1]


def ending_of(row: jax.Array) -> Ending:
    """How the step of a row ended."""
    return Ending(*(row[k].astype(int) for k in (-3, -2, -1)))


def origins(path: jax.Array) -> jax.Array:
    """The origins of all rows."""
    return path[:, _ORIGIN]


def origin_of(path: jax.Array, i: Any) -> jax.Array:
    """The origin of piece `i`; only this number is read."""
    start = (jnp.asarray(i), jnp.asarray(path.shape[1] + _ORIGIN))
    return lax.dynamic_slice(path, start, (1, 1), allow_negative_indices=False)[0, 0]


def evaluate(coefficients: jax.Array, u: Any) -> tuple[jax.Array, jax.Array]:
    """A polynomial at `u`, and its derivative there. The powers of `u` are formed
    first: their derivatives are then the same for all components."""
    powers = [jnp.ones_like(u), u]
    for _ in range(coefficients.shape[0] - 2):
        powers.append(powers[-1] * u)
    value, slope = coefficients[0], jnp.zeros_like(coefficients[0])
    for m in range(1, coefficients.shape[0]):
        value = value + powers[m] * coefficients[m]
        slope = slope + (m * powers[m - 1]) * coefficients[m]
    return value, slope


def continued(coefficients: jax.Array, ratio: Any) -> jax.Array:
    """The piece that continues a polynomial over the next step, which is `ratio` times
    as long."""
    n = coefficients.shape[0]
    shifted = [
        sum(comb(k, m) * coefficients[k] for k in range(m, n)) * ratio**m
        for m in range(n)
    ]
    return jnp.stack([jnp.asarray(each) for each in shifted])


def find_piece(path: jax.Array, count: Any, t: Any, hint: Any) -> jax.Array:
    """The number of the piece that holds the time `t`, among the first `count`; sought
    from the number `hint` in both directions."""
    top = jnp.maximum(count - 1, 0)

    def is_early(j):
        following = origin_of(path, jnp.minimum(j + 1, path.shape[0] - 1))
        return (j < top) & (following <= t)

    j = lax.while_loop(is_early, lambda j: j + 1, jnp.clip(hint, 0, top))
    return lax.while_loop(
        lambda j: (j > 0) & (origin_of(path, j) > t), lambda j: j - 1, j
    )


def state_at(path: jax.Array, count: Any, t: Any, d: int) -> jax.Array:
    """The state at the time `t` of a path of which `count` rows are complete."""
    number = jnp.arange(path.shape[0])
    starts = jnp.where(number < count, lax.stop_gradient(origins(path)), jnp.inf)
    j = jnp.searchsorted(starts, lax.stop_gradient(t), side="right") - 1
    coefficients, origin, length = unpack(path[jnp.clip(j, 0, count - 1)], d)
    return evaluate(coefficients, (t - origin) / length)[0]
