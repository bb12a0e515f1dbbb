r"""Arrays with their derivatives, on a mesh whose nodes move with the delays.

A state on a mesh depends on the free values theta in two ways: through the movers w,
the delays and switches, which move the nodes; and directly, while the nodes rest. Both
kinds of derivatives are kept apart,

$$\frac{dx}{d\theta} = \frac{\partial x}{\partial\theta}
  + \frac{\partial x}{\partial w}\,\frac{dw}{d\theta},$$

because the direct ones, of which there are many, are then as cheap as on a fixed grid.
The two are put together where the solution is compared with the data. In memory all of
them stand in one array, with the value first.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp


@final
class MovingArray(eqx.Module):
    """An array, its derivatives for the movers [..., w], and its direct derivatives
    for the free values [..., q]."""

    value: jax.Array
    by_movers: jax.Array
    direct: jax.Array

    def __add__(self, other: "MovingArray") -> "MovingArray":
        return jax.tree.map(jnp.add, self, other)

    def packed(self) -> jax.Array:
        """All numbers in one array, [..., 1 + w + q]."""
        return jnp.concatenate(
            [self.value[..., None], self.by_movers, self.direct], axis=-1
        )


def unpacked(array: jax.Array, movers: int) -> MovingArray:
    """The opposite of `MovingArray.packed`."""
    return MovingArray(
        array[..., 0], array[..., 1 : 1 + movers], array[..., 1 + movers :]
    )


@final
class MovingTime(eqx.Module):
    """A time or a length of time, and its derivatives for the movers [w]."""

    value: jax.Array
    by_movers: jax.Array

    def __add__(self, other: "MovingTime") -> "MovingTime":
        return jax.tree.map(jnp.add, self, other)

    def __sub__(self, other: "MovingTime") -> "MovingTime":
        return jax.tree.map(jnp.subtract, self, other)

    def __mul__(self, other: Any) -> Any:
        """The product with a number, or with a `MovingArray` of one axis."""
        if not isinstance(other, MovingArray):
            return MovingTime(self.value * other, self.by_movers * other)
        return MovingArray(
            self.value * other.value,
            self.value * other.by_movers + other.value[:, None] * self.by_movers,
            self.value * other.direct,
        )


def between(left: MovingTime, right: MovingTime, c: Any) -> MovingTime:
    """The time at the fraction `c` between two others."""
    return left + (right - left) * c


def hermite_moving(
    s: MovingTime,
    t0: MovingTime,
    t1: MovingTime,
    left: MovingArray,
    right: MovingArray,
) -> MovingArray:
    """The state at the time `s` of the Hermite piece between two rows (x, x'), at the
    times `t0` and `t1`, with all derivatives. The result is not finite for a piece of
    length zero, which is never used."""
    h = t1 - t0
    inverse = 1 / h.value
    u = (s.value - t0.value) * inverse
    v = 1 - u
    a1, b0, b1 = u * u * (3 - 2 * u), h.value * (u * v * v), -h.value * (u * u * v)

    def blend(left, right):
        return left[0] + a1 * (right[0] - left[0]) + b0 * left[1] + b1 * right[1]

    (x0, f0), (x1, f1) = left.value, right.value
    chord = inverse * (x1 - x0)
    slope = 6 * u * v * chord + v * (1 - 3 * u) * f0 + u * (3 * u - 2) * f1
    by_length = u * v * (v * f0 - u * f1)
    # As the ends move, the point moves within its piece, and the piece is stretched.
    moved = s.by_movers - t0.by_movers - u * h.by_movers
    by_movers = (
        blend(left.by_movers, right.by_movers)
        + slope[:, None] * moved
        + by_length[:, None] * h.by_movers
    )
    return MovingArray(
        blend(left.value, right.value), by_movers, blend(left.direct, right.direct)
    )
