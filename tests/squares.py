"""Least-squares problems for tests: a setting, its residuals, and scipy's minimum."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

import ddefind as dd
from ddefind._least_squares import normal_equations
from ddefind._sensitivity import visit
from ddefind._setting import CAPACITY, make_setting

LOGISTIC = "x' = r * x * (1 - x(t - tau) / K)"
TRUTH = dict(r=1.8, K=2.0, b=0.5, tau=1.0)


def logistic_data(count=50, T=10.0, noise=0.02, seed=0, **values):
    """Data of the delayed logistic equation."""
    problem = dd.equation(LOGISTIC).problem(TRUTH | values)
    t = np.linspace(0, T, count)
    x = np.asarray(dd.solve(problem, T=T)(t))
    return dd.Data(t, x + noise * np.random.default_rng(seed).normal(size=x.shape))


def setting_of(problem, data, parameters=None, n=10, solver=None, huber=None):
    solver = dd.RK4() if solver is None else solver
    return make_setting(problem, data, parameters, solver, n, huber)[0]


def normal_function(setting, points=None):
    """A compiled function of (z, n): the normal equations."""
    points = setting.points() if points is None else points
    points = jax.tree.map(jnp.asarray, points)

    @jax.jit
    def found(z, n):
        ring = setting.model.extended(z, n, 0.0).ring(CAPACITY)
        return normal_equations(setting.model, z, points, n, ring)[0]

    return lambda z, n: jax.tree.map(np.asarray, found(jnp.asarray(z), n))


def normal(setting, z, n, points=None):
    """The normal equations at `z`."""
    return normal_function(setting, points)(z, n)


def residual_rows(setting, points, n):
    """A function of z: the weighted residuals, and their Jacobian."""
    points = jax.tree.map(jnp.asarray, points)
    roots = jnp.sqrt(jnp.broadcast_to(points.weights, points.values.shape))

    @jax.jit
    def rows(z):
        extended = setting.model.extended(z, n, points.times[-1])

        def add(total, j, seen):
            return total.at[j].set(seen)

        empty = jnp.zeros((*points.values.shape, 1 + z.shape[0]))
        ring = extended.ring(CAPACITY)
        seen, _ = visit(extended, points, ring, add, empty)
        residual = roots * (seen[..., 0] - points.values)
        return residual.ravel(), (roots[..., None] * seen[..., 1:]).reshape(
            -1, z.shape[0]
        )

    return lambda z: tuple(map(np.asarray, rows(jnp.asarray(z))))


def scipy_minimum(setting, points, n, z, **options):
    """What scipy makes of the same residuals, from `z`."""
    rows = residual_rows(setting, points, n)
    bounds = (setting.lower, setting.upper)
    tight = dict(xtol=1e-14, ftol=1e-14, gtol=1e-14, x_scale="jac", max_nfev=2000)
    inside = np.clip(z, setting.lower, setting.upper)
    return least_squares(
        lambda z: rows(z)[0],
        inside,
        lambda z: rows(z)[1],
        bounds=bounds,
        **(tight | options),
    )
