"""Gradients of a loss at many parameter vectors, compiled at once, and what they are
compared with: central differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import ddefind as dd
from ddefind._engine.aligned.engine import AlignedEngine
from ddefind._engine.aligned.path import Grid
from ddefind._loss.gradients import loss_and_gradient

from .vectors import flatten, tau_index


def grid_for(problem: dd.Problem, T: float, n: int, tau_min: float) -> Grid:
    """A grid with room for every delay from `tau_min` on."""
    grid = Grid(n, problem.initial is not None, 0)
    rows = grid.rows(int(np.ceil(T / tau_min * n)) + 1) + 1
    return Grid(n, grid.jump, max(rows, grid.delay_rows + 1))


def gradients_of(problem, data, loss, solver, n, tau_min, route):
    """The compiled loss and gradient of many parameter vectors `[points, p]`."""
    _, rebuild = flatten(problem)
    grid, target = grid_for(problem, data.T, n, tau_min), loss.prepare(data)
    T = jnp.asarray(data.T)

    def one(vector):
        value, gradient = loss_and_gradient(
            rebuild(vector), target, T, loss, route, AlignedEngine(solver), grid
        )
        gradient = eqx.filter(gradient, eqx.is_inexact_array)
        return value, ravel_pytree(gradient)[0]

    return jax.jit(lambda vectors: jax.lax.map(one, vectors))


def check_gradients(problem, data, loss, solver, n, vectors):
    """Whether `Discrete` agrees with differences, and `Forward` with `Discrete`, at
    each of the vectors `[points, p]`."""
    tau = tau_index(problem)
    case = problem, data, loss, solver, n, 0.99 * vectors[:, tau].min()
    value, discrete, expected = with_differences(
        gradients_of(*case, dd.Discrete()), vectors, tau
    )
    assert relative_error(discrete, expected, vectors) < 1e-6
    value_forward, forward = gradients_of(*case, dd.Forward())(vectors)
    np.testing.assert_allclose(value_forward, value, rtol=1e-12)
    assert relative_error(forward, discrete, vectors) < 1e-10


def with_differences(function, vectors, tau: int):
    """The values and gradients that `function` gives at each vector, and beside them
    the central differences of its values, `[points, p]`.

    Fourth order, but for parameter number `tau`. In the delay a loss is only C1: its
    second derivative jumps wherever a node meets a time of the data. There the step is
    small, and the weights are exact for a jump in the middle (for d |d|, beside d).
    """
    vectors = np.asarray(vectors)
    points, p = vectors.shape
    weights = np.tile(np.array([1, -8, 8, -1])[:, None] / 12, p)
    weights[:, tau] = [0.25, -1, 1, -0.25]
    relative = np.where(np.arange(p) == tau, 3e-6, 1e-4)
    step = relative * np.where(vectors == 0, 1.0, np.abs(vectors))
    places = np.array([-2, -1, 1, 2])
    moves = places[:, None, None, None] * step[None, :, :, None] * np.eye(p)
    shifted = vectors[None, :, None, :] + moves
    # All in one call: another number of points would be compiled again.
    values, gradients = function(np.concatenate([vectors, shifted.reshape(-1, p)]))
    around = np.asarray(values[points:]).reshape(4, points, p)
    differences = np.einsum("kj,kij->ij", weights, around) / step
    return np.asarray(values[:points]), np.asarray(gradients[:points]), differences


def relative_error(found, expected, vectors) -> float:
    """The largest relative error of a derivative, each parameter in units of itself.

    Derivatives below a hundredth of the largest one: relative to that hundredth."""
    size = np.where(vectors == 0, 1.0, np.abs(vectors))
    error, scale = np.abs(found - expected) * size, np.abs(expected) * size
    floor = 1e-2 * np.max(scale, axis=1, keepdims=True)
    return float(np.max(error / np.maximum(scale, floor)))
