"""Whole fits by least squares: against scipy and closed forms, in any units, and what
they need: robust losses, priors, noise levels, finer steps."""

import numpy as np
import pytest
from scipy.optimize import minimize

import ddefind as dd
from support.fits import Options, simulated
from support.least_squares_problems import LOGISTIC, TRUTH, logistic_data, scipy_minimum

MODEL = dd.equation(LOGISTIC)


def expected_of(fit, **options):
    """scipy's minimum of the same residuals, from the truth."""
    truth = np.array([TRUTH[name] for name in fit.names])
    points, n = fit.search_result.points, fit.steps_per_delay
    return scipy_minimum(fit.setup, points, n, truth, **options)


def away(fit, other) -> float:
    """The largest difference of estimates, in standard errors."""
    errors = np.array(list(fit.standard_errors.values()))
    return float(np.max(np.abs(fit.best - np.asarray(other)) / errors))


class TestAgainstScipy:
    def test_free(self):
        fit = dd.fit(MODEL, logistic_data(), intervals=False)
        expected = expected_of(fit)
        best = float(fit.search_result.best.loss[0])
        np.testing.assert_allclose(best, 2 * expected.cost, rtol=1e-9)
        assert away(fit, expected.x) < 1e-3
        assert away(fit, list(TRUTH.values())) < 4

    def test_on_a_bound(self):
        bounds = {"K": dd.Parameter(upper=1.9), "r": dd.Parameter(lower=0.0)}
        how: Options = {"parameters": bounds, "intervals": False}
        fit = dd.fit(MODEL, logistic_data(), **how)
        assert fit.values["K"] == 1.9
        best = float(fit.search_result.best.loss[0])
        np.testing.assert_allclose(best, 2 * expected_of(fit).cost, rtol=1e-6)
        free = dd.fit(MODEL, logistic_data(), intervals=False)
        assert free.loss < fit.loss
        assert all(minimum.theta[1] <= 1.9 for minimum in fit.minima)


class TestPriors:
    """x = b + c t: everything is known in closed form."""

    line = dd.equation("x' = c")
    t = np.linspace(0, 2, 12)
    x = 1 + 0.7 * t + 0.3 * np.random.default_rng(2).normal(size=12)
    data = dd.Data(t, x, sd=0.3)
    basis = np.stack([t, np.ones(12)], axis=1) / 0.3

    def fit(self, prior, data=None):
        given = {"c": dd.Parameter(lower=0.0, prior=prior)}
        data = self.data if data is None else data
        return dd.fit(self.line, data, parameters=given, intervals=False)

    def test_gaussian(self):
        fit = self.fit(dd.GaussianPrior(mean=2.0, sd=0.1))
        square = self.basis.T @ self.basis + np.diag([0.1**-2, 0])
        right = self.basis.T @ self.x / 0.3 + np.array([2.0 / 0.1**2, 0])
        np.testing.assert_allclose(fit.best, np.linalg.solve(square, right), rtol=1e-6)
        errors = np.sqrt(np.diag(np.linalg.inv(square)))
        np.testing.assert_allclose(
            list(fit.standard_errors.values()), errors, rtol=1e-6
        )

    def test_log_normal(self):
        fit = self.fit(dd.LogNormalPrior(median=2.0, factor=1.2))

        def objective(theta):
            c, b = theta
            squares = np.sum((b + c * self.t - self.x) ** 2) / 0.3**2
            return squares + (np.log(c / 2.0) / np.log(1.2)) ** 2

        found = minimize(objective, [1.0, 1.0], method="Nelder-Mead", tol=1e-10)
        np.testing.assert_allclose(fit.best, found.x, rtol=1e-5)

    def test_it_counts_in_units_of_an_unknown_noise(self):
        fit = self.fit(dd.GaussianPrior(mean=2.0, sd=0.1), dd.Data(self.t, self.x))
        known = dd.Data(self.t, self.x, sd=fit.noise["x"])
        again = self.fit(dd.GaussianPrior(mean=2.0, sd=0.1), known)
        np.testing.assert_allclose(fit.best, again.best, rtol=1e-4)

    def test_a_log_normal_prior_needs_a_positive_parameter(self):
        with pytest.raises(ValueError, match="lower=0"):
            dd.fit(
                self.line,
                self.data,
                parameters={"c": dd.Parameter(prior=dd.LogNormalPrior(1.0, 2.0))},
            )


@pytest.mark.parametrize(
    "size, time", [(1e-9, 1.0), (1e9, 1.0), (1.0, 1e-3), (1.0, 1e3)]
)
def test_units_do_not_matter(size, time):
    plain = dd.fit(MODEL, logistic_data(), intervals=False)
    data, units = logistic_data(), {"r": 1 / time, "K": size, "b": size, "tau": time}
    fit = dd.fit(MODEL, dd.Data(time * data.t, size * data.x), intervals=False)
    found = [fit.values[name] / units[name] for name in plain.names]
    assert away(plain, found) < 1e-2
    assert fit.status.ok
    np.testing.assert_allclose(fit.noise["x"], size * plain.noise["x"], rtol=1e-4)


@pytest.mark.parametrize("far", [1e3, 1e6])
def test_far_from_zero(far):
    model = dd.equation("x' = -a * (x(t - tau) - m)")
    problem = model.problem(a=1.2, m=0.0, b=1.0, tau=1.0)
    data = simulated(problem, np.linspace(0, 10, 50), 0.02, seed=1)
    moved_data = dd.Data(data.t, data.x + far)
    near, fit = (dd.fit(model, each, intervals=False) for each in (data, moved_data))
    moved = [fit.values[n] - far * (n in ("m", "b")) for n in near.names]
    assert away(near, moved) < 0.05 and fit.status.ok


def test_each_quantity_has_its_noise():
    model = dd.equation(LOGISTIC, observe="u = x; w = 100 * x")
    t = np.linspace(0, 10, 50)
    x = np.asarray(dd.solve(MODEL.problem(TRUTH), T=10)(t))[:, 0]
    noise = np.random.default_rng(0).normal(size=(2, 50)) * [[0.2], [0.5]]
    both = np.stack([x + noise[0], 100 * x + noise[1]], axis=1)
    fit = dd.fit(model, dd.Data(t, both, names=("u", "w")), intervals=False)
    assert fit.noise["u"] == pytest.approx(0.2, rel=0.3)
    assert fit.noise["w"] == pytest.approx(0.5, rel=0.3)
    known = dd.Data(t, both, sd=list(fit.noise.values()), names=("u", "w"))
    assert away(fit, dd.fit(model, known, intervals=False).best) < 1e-2
    # Almost all that is known comes from w, whose noise is 0.005 of x.
    assert away(fit, list(TRUTH.values())) < 4
    assert fit.standard_errors["K"] < 0.002


def test_steps_become_finer_where_estimates_feel_them():
    # A fast equation with a long delay: the 50 steps of a first fit are far too few.
    model = dd.equation("x' = -k * (x - c * x(t - tau)); x(t<=0) = cos(w * t)")
    truth = model.problem(k=30.0, c=0.8, w=1.3, tau=2.0)
    t = np.linspace(0, 4, 50)
    x = np.asarray(dd.solve(truth, T=4.0, steps_per_delay=2000)(t))
    data = dd.Data(t, x + 1e-3 * np.random.default_rng(0).normal(size=x.shape))
    near = {
        "k": dd.Parameter(lower=3.0, upper=300.0),
        "w": dd.Parameter(lower=0.3, upper=3.0),
        "c": dd.Parameter(lower=0.0, upper=2.0),
    }
    fit = dd.fit(model, data, parameters=near, intervals=False)
    coarse = int(fit.setup.steps(fit.best[None])[0])
    assert fit.steps_per_delay > 2 * coarse
    assert fit.search_result.step_error < 0.05
    assert away(fit, [30.0, 0.8, 1.3, 2.0]) < 4
    assert fit.noise["x"] == pytest.approx(1e-3, rel=0.3)


def test_an_exact_fit_says_so():
    fit = dd.fit(MODEL, logistic_data(noise=0.0), steps_per_delay=20, intervals=False)
    assert fit.status.ok
    np.testing.assert_allclose(fit.best, list(TRUTH.values()), rtol=1e-3)
