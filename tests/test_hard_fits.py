"""Data that tell little or nothing: an answer with the right status or a clear error,
and never a confident wrong number."""

import numpy as np
import pytest

import ddefind as dd
from squares import LOGISTIC, TRUTH, logistic_data

QUIET = dict(progress=False)
LINEAR = "x' = a * x + c * x(t - tau)"
T = np.linspace(0, 10, 50)


def verdict_of(fit) -> dict[str, str]:
    return {verdict.name: verdict.verdict for verdict in fit.verdicts}


def is_sure(fit, name: str) -> bool:
    return verdict_of(fit)[name] == "determined"


@pytest.mark.parametrize("value", [0.0, 5.0, 1e9])
@pytest.mark.parametrize("text", [LOGISTIC, LINEAR])
def test_constant_data(text, value):
    fit = dd.fit(dd.equation(text), dd.Data(T, np.full(50, value)), **QUIET)
    assert fit.status.ok
    np.testing.assert_allclose(fit.fitted, value, atol=1e-6 * value + 1e-6)
    assert not is_sure(fit, "tau")
    for name in set(fit.names) - {"b", "tau", "K"}:
        assert not is_sure(fit, name)
    assert "inf" not in str(fit).replace("-inf", "").replace("inf]", "")


def test_pure_noise():
    noise = 5 + 0.1 * np.random.default_rng(1).normal(size=50)
    fit = dd.fit(dd.equation(LOGISTIC), dd.Data(T, noise), **QUIET)
    assert fit.noise["x"] == pytest.approx(0.1, rel=0.3)
    assert not is_sure(fit, "tau") and not is_sure(fit, "r")


@pytest.mark.parametrize("count", [2, 3, 4])
def test_no_more_points_than_parameters(count):
    data = logistic_data(count, noise=0.0)
    fit = dd.fit(dd.equation(LOGISTIC), data, **QUIET)
    assert any(not is_sure(fit, name) for name in fit.names)
    assert str(fit)


def test_a_model_that_cannot_follow():
    saw = dd.Data(T, T % 2.3 + 3)
    fit = dd.fit(dd.equation(LINEAR), saw, **QUIET)
    assert fit.noise["x"] > 0.5  # the misfit counts as noise, not as nothing
    assert fit.rejected or not is_sure(fit, "tau")


def test_a_model_that_has_no_trajectory():
    model = dd.equation("x' = a * sqrt(-1 - x^2) + x(t - tau)")
    fit = dd.fit(model, dd.Data(T, np.sin(T)), **QUIET)
    assert fit.status is dd.Status.no_start and not fit.status.ok
    assert "not finite" in str(fit) and "not finite" in fit._repr_html_()
    assert fit.to_dict()["loss"] is None
    assert not any(np.isfinite(error) for error in fit.standard_errors.values())


def test_a_quantity_that_was_never_measured():
    model = dd.equation(
        "S' = -beta * S * I(t - tau); I' = beta * S * I(t - tau) - g * I"
    )
    truth = {"beta": 2.0, "g": 0.5, "b[0]": 1.0, "b[1]": 0.02, "tau": 1.5}
    t = np.linspace(0, 20, 80)
    x = np.asarray(dd.solve(model.problem(truth), T=20)(t))[:, 1]
    x = x + 0.005 * np.random.default_rng(0).normal(size=80)
    fit = dd.fit(model, dd.Data(t, x, names="I"), **QUIET)
    # beta and the number of susceptibles: only their product counts.
    assert fit.noise["I"] == pytest.approx(0.005, rel=0.3)
    for name, (low, high) in fit.intervals.items():
        assert low <= truth[name] <= high
    assert "S" not in str(fit).split("noise")[1].split("\n")[0]


def test_a_delay_beyond_the_record():
    data = logistic_data(r=0.3, tau=15.0)
    fit = dd.fit(dd.equation(LOGISTIC), data, **QUIET)
    assert not is_sure(fit, "tau")
    known = {"tau": dd.Fixed(15.0)}
    fit = dd.fit(dd.equation(LOGISTIC), data, parameters=known, **QUIET)
    # On the whole record x' = r x (1 - b / K): a rate, not its parts.
    assert not is_sure(fit, "r") and not is_sure(fit, "K")
    assert is_sure(fit, "b")


def test_a_delay_below_the_sampling_interval_ends_on_its_bound():
    data = logistic_data(tau=0.1)
    fit = dd.fit(dd.equation(LOGISTIC), data, **QUIET)
    assert fit.values["tau"] == fit.setting.lower[3]
    assert "bound" in str(fit) and not is_sure(fit, "tau")


def test_twenty_points():
    data = logistic_data(20)
    fit = dd.fit(dd.equation(LOGISTIC), data, **QUIET)
    for name, (low, high) in fit.intervals.items():
        assert low <= TRUTH[name] <= high


@pytest.mark.slow
def test_ten_thousand_points():
    data = logistic_data(10_000, noise=0.1)
    fit = dd.fit(dd.equation(LOGISTIC), data, **QUIET)
    assert fit.status.ok and fit.noise["x"] == pytest.approx(0.1, rel=0.03)
    errors = np.array(list(fit.standard_errors.values()))
    assert np.all(np.abs(fit.best - list(TRUTH.values())) < 4 * errors)
