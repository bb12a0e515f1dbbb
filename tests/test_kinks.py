"""Minima at kinks of the sum of squares, on data that scipy made."""

import numpy as np
import pytest
from scipy.optimize import minimize

import ddefind as dd
from support.fits import NEAR
from support.method_of_steps import method_of_steps

T = np.linspace(0, 10, 50)


def thermostat(x, y, tau, t):
    return 1.0 - 4.0 * np.maximum(y[0] - 0.4, 0.0) - 0.5 * x


def switch(x, y, tau, t):
    return np.where(y[0] > 0.8, 0.2, 1.5) - x


def measured(rhs, tau, noise, seed):
    x = method_of_steps(rhs, [0.3], [tau], T[-1], 1e-6)(T)
    return dd.Data(T, x + noise * np.random.default_rng(seed).normal(size=x.shape))


def lowest_around(fit):
    """The chi-square that scipy's simplex search reaches from around a fit, less that
    of the fit."""
    u = fit.uncertainty
    gram = fit.search_result.best.gram[0, 1:, 1:] / u.residual_variance
    scale = np.linalg.cholesky(np.linalg.inv(gram))

    def chi_square(z):
        return float(u.losses((fit.best + scale @ z)[None])[0]) / u.residual_variance

    p = len(fit.best)
    simplex = np.vstack([np.zeros(p), np.random.default_rng(0).normal(size=(p, p))])
    options = {"initial_simplex": simplex, "maxfev": 300}
    found = minimize(chi_square, np.zeros(p), method="Nelder-Mead", options=options)
    return found.fun - chi_square(np.zeros(p))


@pytest.mark.parametrize("seed", [1, 6])
def test_a_minimum_at_a_kink_has_converged(seed):
    model = dd.equation("x' = a - r * max(x(t - tau) - c, 0) - d * x")
    data = measured(thermostat, 1.2, 0.03, seed)
    start = {"a": 1.0, "r": 4.0, "c": 0.4, "d": 0.5, "b": 0.3, "tau": 1.2}
    fit = dd.fit(model, data, parameters=start, **NEAR)
    assert fit.status.name == "converged_kink" and fit.status.ok
    assert "Converged: no move of up to a standard error lowers" in str(fit)
    assert lowest_around(fit) > -0.02
    for name, value in start.items():
        assert fit.intervals[name][0] < value < fit.intervals[name][1]


@pytest.mark.slow
def test_where_the_sum_of_squares_jumps_nothing_is_claimed():
    """A threshold that is learned: between two jumps the derivative is zero."""
    model = dd.equation("x' = where(x(t - tau) > c, a, g) - d * x")
    start = {"c": 0.78, "a": 0.2, "g": 1.5, "d": 1.0, "b": 0.3, "tau": 1.0}
    data = measured(switch, 1.0, 0.02, 0)
    fit = dd.fit(model, data, parameters=start, intervals=False, **NEAR)
    assert fit.status.name == "stuck" and not fit.status.ok
