"""Searches where gradient matching is of no help: hidden states, few points, long
delays; natural units, guided fits, and the report of a search that fails.

The data come from the integrator of the study of the search, not the library's."""

from dataclasses import replace

import numpy as np
import pytest
from studies.search_quality.integrate import integrate

import ddefind as dd
from ddefind._search.guide import make_guide
from ddefind._search.symmetries import rate_of
from support.fits import Options
from support.least_squares_problems import LOGISTIC, TRUTH, normal_function, setup_of

PREDATOR = (
    "N' = r * N * (1 - N / K) - a * N * P; P' = e * N(t - tau) * P(t - tau) - m * P"
)
PREDATOR_TRUTH = dict(r=1.0, K=300.0, a=0.05, e=0.007, m=0.5, tau=2.5)
PREDATOR_TRUTH |= {"b[0]": 60.0, "b[1]": 8.0}
HUTCHINSON = "x' = r * (1 - exp(x(t - tau)) / (1000 * K))"
HUTCHINSON_TRUTH = dict(r=1.2, K=2.0, tau=2.0, b=np.log(3500.0))


def record(text, truth, t, noise, seed=0):
    x = integrate(text, truth, t, finer=2)
    assert x is not None
    return x + noise * np.random.default_rng(seed).standard_normal(x.shape)


def prey_only(seed=0):
    t = np.linspace(0, 40, 60)
    return dd.Data(t, record(PREDATOR, PREDATOR_TRUTH, t, 4.0, seed)[:, 0], names="N")


def hidden_setup():
    model = dd.equation(PREDATOR)
    return setup_of(model.blank, prey_only().select(model.observed))


class TestNaturalUnits:
    def exponents(self, text, data):
        model = dd.equation(text)
        setup = setup_of(model.blank, data.select(model.observed))
        assert setup.units is not None
        return dict(zip(setup.model.free.names, setup.units.exponents)), setup.units

    def test_dimensions_of_a_population_model(self):
        # The scales are the size and the level of N, and the time.
        found, _ = self.exponents(PREDATOR, prey_only())
        expected = {
            "r": (0, 0, -1),
            "K": (1, 0, 0),
            "e": (-1, 0, -1),
            "m": (0, 0, -1),
            "tau": (0, 0, 1),
            "b[0]": (1, 0, 0),
        }
        for name, powers in expected.items():
            np.testing.assert_allclose(found[name], powers, atol=1e-5)
        # The unit of the hidden state is free, but a times P is a rate.
        np.testing.assert_allclose(found["a"] + found["b[1]"], (0, 0, -1), atol=1e-5)

    def test_a_logarithm_has_a_level(self):
        t = np.linspace(0, 30, 40)
        data = dd.Data(t, record(HUTCHINSON, HUTCHINSON_TRUTH, t, 0.1), names="x")
        found, units = self.exponents(HUTCHINSON, data)
        np.testing.assert_allclose(found["K"], (0, 1, 0), atol=1e-5)
        np.testing.assert_allclose(found["r"], (0, 0, -1), atol=1e-5)
        # The start of the state is shifted by the level.
        assert units.offsets[2] == pytest.approx(units.logs[1], rel=1e-5)

    def test_a_constant_with_a_unit(self):
        t = np.linspace(0, 20, 40)
        data = dd.Data(t, 5 + np.sin(t), names="x")
        found, units = self.exponents("x' = a * x(t - tau) / (3 + x) - d * x", data)
        assert np.isnan(found["a"][0]) and found["a"][2] == pytest.approx(-1)
        sizes = units.sizes(50, np.random.default_rng(0))
        assert np.all(np.isfinite(sizes)) and np.all(sizes > 0)

    def test_rate_of_a_sine(self):
        t = np.linspace(0, 20, 200)
        blank = dd.equation("x' = -k * x(t - tau)").blank
        setup = setup_of(blank, dd.Data(t, np.sin(3 * t)))
        assert setup.curve is not None
        assert rate_of(setup.curve, 20.0, np.array([True])) == pytest.approx(3, rel=0.1)


class TestGuide:
    def guided(self, gain):
        setup = hidden_setup()
        assert setup.quantity_curve is not None
        guide = make_guide(setup.quantity_curve, 40.0, setup.measured, gain)
        return replace(setup, model=replace(setup.model, guide=guide))

    def theta(self, setup):
        return np.array([PREDATOR_TRUTH[n] for n in setup.model.free.names])

    def test_with_a_strong_guide_a_wrong_model_stays_near_the_data(self):
        free, guided = hidden_setup(), self.guided(5.0)
        theta = self.theta(free) * np.where(self.theta(free) < 1, 0.5, 1.0)
        far = np.asarray(normal_function(free)(theta, 40).squares)[0]
        near = np.asarray(normal_function(guided)(theta, 40).squares)[0]
        assert near < 0.05 * far

    def test_derivatives(self):
        setup = self.guided(1.0)
        theta, find = self.theta(setup), normal_function(self.guided(1.0))
        gradient = 2 * np.asarray(find(theta, 40).gram)[0, 1:]
        for j, value in enumerate(theta):
            h = 1e-6 * value
            ahead, behind = (
                float(find(theta + side * h * np.eye(len(theta))[j], 40).gram[0, 0])
                for side in (1, -1)
            )
            assert gradient[j] == pytest.approx((ahead - behind) / (2 * h), rel=2e-5)


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("positive", ["rKaem", ""])
@pytest.mark.slow
def test_prey_alone(seed, positive):
    """The predator is hidden: the best fit is that from the truth."""
    parameters = {name: dd.Parameter(lower=0) for name in positive}
    model, data = dd.equation(PREDATOR), prey_only(seed)
    plain: Options = {"intervals": False}
    fit = dd.fit(model, data, parameters=parameters, seed=seed, **plain)
    one, truth = dd.LeastSquares(starts=1), model.problem(PREDATOR_TRUTH)
    best = dd.fit(truth, data.select(model.observed), optimizer=one, **plain)
    assert fit.loss < best.loss * (1 + 0.1 / len(data))
    assert fit.search_result.noise[0] == pytest.approx(4.0, rel=0.35)


@pytest.mark.slow
def test_a_short_delay_and_few_points():
    t = np.arange(16) * 2.0
    data = dd.Data(t, record(HUTCHINSON, HUTCHINSON_TRUTH, t, 0.1))
    low, high = dd.fit(dd.equation(HUTCHINSON), data).intervals["tau"]
    assert 1.95 < low < 2.0 < high < 2.05


def test_times_that_begin_late():
    t, text = np.linspace(0, 12, 60), LOGISTIC
    x = record(text, TRUTH, t, 0.02)
    early, late = (
        dd.fit(dd.equation(text), dd.Data(t + shift, x)) for shift in (0, 1000)
    )
    np.testing.assert_allclose(late.best, early.best, rtol=1e-8)
    assert late.data.origin == 1000
    assert "time 0 is 1000" in str(late.data)
    # What depends on time itself keeps its times.
    driven = dd.equation("x' = -k * x(t - tau) + a * sin(t)")
    assert not driven.blank.is_autonomous and dd.equation(text).blank.is_autonomous


@pytest.mark.slow
def test_a_search_that_fails_does_not_blame_the_model():
    t = np.linspace(0, 10, 50)
    messages = []
    fit = dd.fit(
        dd.equation("x' = -k * x(t - tau)"),
        dd.Data(t, (t - 3) ** 2 * np.sin(3 * t)),
        parameters={"k": dd.Parameter(lower=0, upper=0.1)},
        progress=lambda now: messages.append(now.message),
    )
    text = str(fit)
    assert "the search may have missed the best minimum" in text
    assert "starts=200" in text and "this fit is rejected" in text
    assert "the model is rejected" not in text
    assert sum("the search goes on" in each for each in messages) <= 1


@pytest.mark.slow
def test_no_fit_oscillates_unseen_between_the_data():
    """A record that begins in mid-cycle, with a constant history: an alias with a delay
    of 0.23, a ninth of the sampling interval, has a lower sum of squares."""
    t = np.linspace(0, 120, 60)
    values = {"r": 0.25, "K": 10.0, "tau": 7.5, "b": 5.0}
    x = integrate(LOGISTIC, values, np.append(0.0, 324 + t))
    assert x is not None
    noise = 0.5 * np.random.default_rng(1).standard_normal((60, 1))
    fit = dd.fit(dd.equation(LOGISTIC), dd.Data(t, x[1:] + noise))
    assert 6 < fit.values["tau"] < 9
