"""Huber's loss: residuals beyond some standard deviations count linearly."""

import math

import jax
import jax.numpy as jnp


def huber_rows(huber: float, weight: jax.Array, rows: jax.Array) -> jax.Array:
    r"""Rows [r J] whose squares are Huber's loss.

    Beyond k = `huber` standard deviations the residual r is replaced by the root of the
    loss, $\sqrt{k(2|r| - k)}$, and the Jacobian by the derivatives of that root."""
    size = jnp.sqrt(weight) * jnp.abs(rows[:, 0])
    is_outlier = size > huber
    safe = jnp.where(is_outlier, size, huber)
    root = jnp.sqrt(huber * (2 * safe - huber))
    residual_factor = jnp.where(is_outlier, root / safe, 1.0)
    jacobian_factor = jnp.where(is_outlier, huber / root, 1.0)
    factors = jnp.concatenate(
        [
            residual_factor[:, None],
            jnp.broadcast_to(jacobian_factor[:, None], rows[:, 1:].shape),
        ],
        axis=1,
    )
    return rows * factors


def clipped_variance(huber: float) -> float:
    """The mean square of a standard Gaussian variable that is clipped at `huber`.

    The noise is estimated from clipped residuals; dividing their squares by this number
    makes that estimate unbiased for Gaussian noise (Huber's second proposal)."""
    inside = math.erf(huber / math.sqrt(2))
    density = math.exp(-(huber**2) / 2) / math.sqrt(2 * math.pi)
    return inside - 2 * huber * density + huber**2 * (1 - inside)
