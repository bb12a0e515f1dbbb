"""Scales and offsets: free values in which what is observed is linear.

If a random start has a wrong scale, its sum of squares says nothing about its other
values. For given other values the best scales and offsets follow from a linear
equation, so that starts are compared with these: a short fit holds all other values."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .normal_equations import LeastSquaresModel

# How far a second difference may be from zero, relative to the values.
_TOLERANCE = 1e-9


def linear_values(model: LeastSquaresModel) -> np.ndarray:
    """Which free values occur in `observe` alone, which is linear in all of them
    together; of values of which only some are, the first ones."""
    free = model.free
    is_linear = np.zeros(len(free.names), bool)
    if not model.observes:
        return is_linear
    elsewhere = {
        source
        for array in free.arrays
        if not array.name.startswith("observe.")
        for source in free.source[array.first : array.first + array.size]
    }
    for j in range(len(free.names)):
        if j in elsewhere:
            continue
        is_linear[j] = True
        is_linear[j] = _is_affine(model, is_linear)
    return is_linear


def _is_affine(model: LeastSquaresModel, moves: np.ndarray) -> bool:
    """Whether moving these values together leaves second differences of zero."""
    random = np.random.default_rng(0)
    theta = np.exp(0.5 * random.normal(size=len(moves)))
    move = np.where(moves, random.normal(size=len(moves)), 0.0)
    x, t = jnp.asarray(np.exp(random.normal(size=model.dimension))), jnp.asarray(0.7)

    def observed(theta: np.ndarray) -> np.ndarray:
        learned = model.free.join_values(jnp.asarray(theta), model.learned)
        problem = eqx.combine(learned, model.fixed)
        assert problem.observe is not None
        return np.asarray(problem.observe(x, t))

    ahead, here, behind = (observed(theta + side * move) for side in (1, 0, -1))
    second = np.abs(ahead - 2 * here + behind)
    return bool(np.all(second <= _TOLERANCE * (np.abs(ahead) + np.abs(behind))))
