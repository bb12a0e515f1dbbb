"""The paper's five experiments, their data, and points near their true parameters."""

from dataclasses import dataclass
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import ddefind as dd
from ddefind._loss.gradients import loss_and_gradient
from ddefind._solve.grid import Grid


@dataclass(frozen=True)
class Experiment:
    """What generates the data, and where the paper's fits start."""

    true: dd.Problem
    start: dd.Problem
    T: float
    n: int  # the paper's N_tau


def _periodic(A, omega, b):
    return dd.Periodic(A=A, omega=omega, b=b)


EXPERIMENTS = {
    "exponential": Experiment(
        dd.Problem(dd.models.Exponential(-2, -2), dd.Affine(1.5, 4), 1.0),
        dd.Problem(dd.models.Exponential(-1.5, -2.5), dd.Affine(2.25, 2.8), 2.0),
        T=10.0,
        n=10,
    ),
    "logistic": Experiment(
        dd.Problem(dd.models.Logistic(2, 1.5), _periodic(-0.5, 3, 2), 1.0),
        dd.Problem(dd.models.Logistic(1, 1), _periodic(-0.25, 6, 2.6), 0.5),
        T=10.0,
        n=10,
    ),
    "enso": Experiment(
        dd.Problem(dd.models.ENSO(1, 1, 0.75), _periodic(-0.25, 1, 1.5), 5.0),
        dd.Problem(dd.models.ENSO(1.5, 0.8, 1.2), _periodic(-0.3, 0.8, 1.95), 6.0),
        T=10.0,
        n=50,
    ),
    "cheyne": Experiment(
        dd.Problem(dd.models.Cheyne(1, 7, 2), dd.Affine(-5, 2), 0.25),
        dd.Problem(dd.models.Cheyne(2, 12, 1.5), dd.Affine(0, 2), 0.5),
        T=3.0,
        n=10,
    ),
    "hiv": Experiment(
        dd.Problem(dd.models.HIV(), _periodic([1, 3, 0], [1, 3, 0], [10, 8, 0]), 1.0),
        dd.Problem(
            dd.models.HIV(), _periodic([1, 1, 1], [1.2, 3.6, 0], [10, 8, 0]), 0.25
        ),
        T=10.0,
        n=10,
    ),
}
MODELS = tuple(EXPERIMENTS)


@cache
def paper_data(model: str) -> dd.Data:
    """The paper's noise-free data: RK2 with its own step."""
    experiment = EXPERIMENTS[model]
    solution = dd.solve(experiment.true, experiment.T, dd.RK2(), experiment.n)
    return dd.Data(solution.t, solution.x)


def flatten(problem: dd.Problem):
    """Every parameter as one vector, and the way back."""
    dynamic, static = eqx.partition(problem, eqx.is_inexact_array)
    flat, unravel = ravel_pytree(dynamic)
    return np.asarray(flat), lambda vector: eqx.combine(unravel(vector), static)


def tau_index(problem: dd.Problem) -> int:
    return len(flatten(problem.rhs)[0]) + len(flatten(problem.history)[0])


def near(problem: dd.Problem, count: int, seed: int) -> np.ndarray:
    """Random parameter vectors within 10% (or 0.1) of a problem's own, tau positive."""
    centre, _ = flatten(problem)
    random = np.random.default_rng(seed)
    spread = 0.1 * np.where(centre == 0, 1.0, np.abs(centre))
    return centre + spread * random.uniform(-1, 1, (count, len(centre)))


def whole_steps(problem: dd.Problem, vectors, T: float, n: int) -> np.ndarray:
    """The vectors with tau moved to the nearest value for which T / h is an integer."""
    at = tau_index(problem)
    moved = np.array(vectors)
    moved[:, at] = T * n / np.round(T * n / moved[:, at])
    return moved


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
            rebuild(vector), target, T, loss, route, solver, grid
        )
        gradient = eqx.filter(gradient, eqx.is_inexact_array)
        return value, ravel_pytree(gradient)[0]

    return jax.jit(lambda vectors: jax.lax.map(one, vectors))


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


def equal_data(data, t, x, names=("x",)):
    """Check what a data set holds; a vector `x` is one quantity."""
    np.testing.assert_array_equal(data.t, t)
    x = np.asarray(x, float)
    np.testing.assert_array_equal(data.x, x[:, None] if x.ndim == 1 else x)
    assert data.names == tuple(names)
