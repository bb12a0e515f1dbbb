"""Priors of the free values, and what they add to the normal equations."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Priors(NamedTuple):
    """Independent priors of the free values, each of which adds
    weight * (g(theta) - mean)^2 to S.

    g is the identity (a Gaussian prior), or the logarithm where `log` is true (a
    log-normal prior). A value whose `weight` is zero has no prior."""

    mean: Any  # [p]
    weight: Any  # [p]
    log: Any  # [p], boolean


def prior_terms(
    priors: Priors, theta: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """What the priors add to S, to J^T r and to the diagonal of J^T J; NaN where a
    value with a log-normal prior is not positive."""
    size = jnp.where(priors.log, jnp.where(theta > 0, theta, jnp.nan), 1.0)
    deviation = jnp.where(priors.log, jnp.log(size), theta) - priors.mean
    weight = priors.weight
    deviation = jnp.where(weight > 0, deviation, 0.0)
    slope = jnp.where(weight > 0, 1 / size, 0.0)
    return (
        jnp.sum(weight * deviation**2),
        weight * deviation * slope,
        weight * slope**2,
    )


def prior_gram(priors: Priors, theta: jax.Array) -> jax.Array:
    """What the priors add to `NormalEquations.gram`."""
    corner, side, diagonal = prior_terms(priors, theta)
    corner, side = corner[None, None], side[None]
    return jnp.block([[corner, side], [side.T, jnp.diag(diagonal)]])
