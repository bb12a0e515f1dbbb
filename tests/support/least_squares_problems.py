"""Least-squares problems for tests: a setup, its residuals, and scipy's minimum."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

import ddefind as dd
from ddefind._engine.aligned.engine import CAPACITY
from ddefind._search.make_setup import make_setup
from ddefind._search.normal_equations import normal_equations

from .fits import Options, simulated

LOGISTIC = "x' = r * x * (1 - x(t - tau) / K)"
TRUTH = dict(r=1.8, K=2.0, b=0.5, tau=1.0)


def logistic_data(count=50, T=10.0, noise=0.02, seed=0, **values):
    """Data of the delayed logistic equation."""
    problem = dd.equation(LOGISTIC).problem(TRUTH | values)
    return simulated(problem, np.linspace(0, T, count), noise, seed)


def setup_of(problem, data, parameters=None, n=10, solver=None):
    solver = dd.RK4() if solver is None else solver
    return make_setup(problem, data, parameters, solver, n)[0]


def normal_function(setup, points=None):
    """A compiled function of (theta, n): the normal equations."""
    points = setup.points() if points is None else points
    points = jax.tree.map(jnp.asarray, points)

    @jax.jit
    def found(theta, n):
        ring = setup.model.marching(theta, n, 0.0).memory(CAPACITY)
        return normal_equations(setup.model, theta, points, n, ring)[0]

    return lambda theta, n: jax.tree.map(np.asarray, found(jnp.asarray(theta), n))


def normal(setup, theta, n, points=None):
    return normal_function(setup, points)(theta, n)


def residual_rows(setup, points, n):
    """A function of theta: the weighted residuals, and their Jacobian."""
    points = jax.tree.map(jnp.asarray, points)
    roots = jnp.sqrt(jnp.broadcast_to(points.weights, points.values.shape))

    @jax.jit
    def rows(theta):
        steps = setup.model.steps(theta, n, points.times[-1], CAPACITY)
        sensitivity = setup.model.sensitivity(theta, steps, points.times[-1])

        def add(total, j, seen):
            return total.at[j].set(seen)

        empty = jnp.zeros((*points.values.shape, 1 + theta.shape[0]))
        memory = sensitivity.memory(CAPACITY)
        seen, _ = sensitivity.visit(points, (0, len(points.times)), memory, add, empty)
        residual = roots * (seen[..., 0] - points.values)
        return residual.ravel(), (roots[..., None] * seen[..., 1:]).reshape(
            -1, theta.shape[0]
        )

    return lambda theta: tuple(map(np.asarray, rows(jnp.asarray(theta))))


def scipy_minimum(setup, points, n, theta, **options):
    """What scipy makes of the same residuals, from `theta`."""
    rows, bounds = residual_rows(setup, points, n), (setup.lower, setup.upper)
    how: Options = dict.fromkeys(("xtol", "ftol", "gtol"), 1e-14)
    how |= {"x_scale": "jac", "max_nfev": 2000, "bounds": bounds, **options}
    how["jac"] = lambda theta: rows(theta)[1]
    return least_squares(lambda theta: rows(theta)[0], np.clip(theta, *bounds), **how)
