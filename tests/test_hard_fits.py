"""Data that tell little or nothing: an answer with the right status or a clear error,
and never a confident wrong number."""

import numpy as np
import pytest

import ddefind as dd
from support.least_squares_problems import LOGISTIC, TRUTH, logistic_data
from support.repeats import mostly_slow

LINEAR = "x' = a * x + c * x(t - tau)"
T = np.linspace(0, 10, 50)


def verdict_of(fit) -> dict[str, str]:
    return {name: verdict.verdict for name, verdict in fit.verdicts.items()}


def is_sure(fit, name: str) -> bool:
    return verdict_of(fit)[name] == "determined"


CONSTANT = [(text, value) for text in (LOGISTIC, LINEAR) for value in (0.0, 5.0, 1e9)]


@pytest.mark.parametrize(("text", "value"), mostly_slow(CONSTANT, {(LOGISTIC, 0.0)}))
def test_constant_data(text, value):
    fit = dd.fit(dd.equation(text), dd.Data(T, np.full(50, value)))
    assert fit.status.ok
    np.testing.assert_allclose(fit.fitted, value, atol=1e-6 * value + 1e-6)
    assert not is_sure(fit, "tau")
    for name in set(fit.names) - {"b", "tau", "K"}:
        assert not is_sure(fit, name)
    assert "inf" not in str(fit).replace("-inf", "").replace("inf]", "")


def test_pure_noise():
    noise = 5 + 0.1 * np.random.default_rng(1).normal(size=50)
    fit = dd.fit(dd.equation(LOGISTIC), dd.Data(T, noise))
    assert fit.noise["x"] == pytest.approx(0.1, rel=0.3)
    assert not is_sure(fit, "tau") and not is_sure(fit, "r")


@pytest.mark.parametrize("count", (2, 3, 4))
@pytest.mark.slow
def test_no_more_points_than_parameters(count):
    fit = dd.fit(dd.equation(LOGISTIC), logistic_data(count, noise=0.0))
    assert any(not is_sure(fit, name) for name in fit.names)
    assert str(fit)


@pytest.mark.slow
def test_a_model_that_cannot_follow():
    fit = dd.fit(dd.equation(LINEAR), dd.Data(T, T % 2.3 + 3))
    assert fit.noise["x"] > 0.5  # the misfit counts as noise, not as nothing
    assert fit.rejected or not is_sure(fit, "tau")


@pytest.mark.slow
def test_a_model_that_has_no_trajectory():
    model = dd.equation("x' = a * sqrt(-1 - x^2) + x(t - tau)")
    fit = dd.fit(model, dd.Data(T, np.sin(T)))
    assert fit.status is dd.Status.no_start and not fit.status.ok
    assert "not finite" in str(fit) and "not finite" in fit._repr_html_()
    assert fit.to_dict()["loss"] is None
    assert not any(np.isfinite(error) for error in fit.standard_errors.values())


@pytest.mark.slow
def test_a_quantity_that_was_never_measured():
    model = dd.equation(
        "S' = -beta * S * I(t - tau); I' = beta * S * I(t - tau) - g * I"
    )
    truth = {"beta": 2.0, "g": 0.5, "b[0]": 1.0, "b[1]": 0.02, "tau": 1.5}
    t = np.linspace(0, 20, 80)
    x = np.asarray(dd.solve(model.problem(truth), T=20)(t))[:, 1]
    x = x + 0.005 * np.random.default_rng(0).normal(size=80)
    fit = dd.fit(model, dd.Data(t, x, names="I"))
    # beta and the number of susceptibles: only their product counts.
    assert fit.noise["I"] == pytest.approx(0.005, rel=0.3)
    for name, (low, high) in fit.intervals.items():
        assert low <= truth[name] <= high
    assert "S" not in str(fit).split("noise")[1].split("\n")[0]


@pytest.mark.slow
def test_a_delay_beyond_the_record():
    data = logistic_data(r=0.3, tau=15.0)
    fit = dd.fit(dd.equation(LOGISTIC), data)
    assert not is_sure(fit, "tau")
    fit = dd.fit(dd.equation(LOGISTIC), data, parameters={"tau": dd.Fixed(15.0)})
    # On the whole record x' = r x (1 - b / K): a rate, not its parts.
    assert not is_sure(fit, "r") and not is_sure(fit, "K")
    assert is_sure(fit, "b")


def test_a_delay_below_the_sampling_interval_ends_on_its_bound():
    fit = dd.fit(dd.equation(LOGISTIC), logistic_data(tau=0.1))
    assert fit.values["tau"] == fit.setup.lower[3]
    assert "bound" in str(fit) and not is_sure(fit, "tau")


def test_twenty_points():
    fit = dd.fit(dd.equation(LOGISTIC), logistic_data(20))
    for name, (low, high) in fit.intervals.items():
        assert low <= TRUTH[name] <= high


@pytest.mark.slow
def test_ten_thousand_points():
    fit = dd.fit(dd.equation(LOGISTIC), logistic_data(10_000, noise=0.1))
    assert fit.status.ok and fit.noise["x"] == pytest.approx(0.1, rel=0.03)
    errors = np.array(list(fit.standard_errors.values()))
    assert np.all(np.abs(fit.best - list(TRUTH.values())) < 4 * errors)


@pytest.mark.parametrize("values", mostly_slow((2, 3), {2}))
def test_a_state_of_few_values_does_not_count_as_exact(values):
    model = dd.equation("x' = a * x - x * y(t - tau); y' = x - c * y")
    truth = {"a": 1.0, "c": 1.2, "tau": 0.8, "b[0]": 0.5, "b[1]": 0.4}
    t = np.linspace(0, 15, 60)
    x = np.array(dd.solve(model.problem(truth), T=15)(t))
    x += 0.03 * np.random.default_rng(1).standard_normal(x.shape)
    seen = np.isin(np.arange(60), np.linspace(10, 50, values).astype(int))
    x[~seen, 1] = np.nan
    fit = dd.fit(model, dd.Data(t, x, names=("x", "y")))
    assert fit.noise["y"] > 1e-3
    assert abs(fit.values["a"] - 1) < 4 * fit.standard_errors["a"] < 0.2
    assert "`y`: too few values to estimate the noise" in str(fit)


def test_coarse_steps_that_do_not_converge_become_finer():
    """k h is 4 with the first steps, beyond where RK4 is stable."""
    t = np.linspace(0, 400, 200)
    x = 2 - 1.5 * np.exp(-t) + 0.02 * np.random.default_rng(0).standard_normal(200)
    fit = dd.fit(dd.equation("x' = -k * (x - c)"), dd.Data(t, x))
    assert fit.status.ok and fit.steps_per_delay > 40
    assert fit.intervals["k"][0] < 1 < fit.intervals["k"][1]
    (rest,) = fit.stability().equilibria
    assert rest.growth == pytest.approx(-fit.values["k"])
    assert rest.growth_error == pytest.approx(fit.standard_errors["k"], rel=1e-3)


class TestDelaysOutsideOfTheUsual:
    model = dd.equation(LOGISTIC)

    def test_an_upper_bound_below_them(self):
        short = {"tau": dd.Parameter(upper=0.2)}
        fit = dd.fit(self.model, logistic_data(), parameters=short, intervals=False)
        assert 0 < fit.values["tau"] <= 0.2

    def test_a_delay_is_positive(self):
        negative = {"tau": dd.Parameter(lower=-2.0, upper=-1.0)}
        with pytest.raises(ValueError, match="upper bound -1, but a delay is positive"):
            dd.fit(self.model, logistic_data(), parameters=negative)

    def test_it_is_found_below_a_sampling_interval(self):
        fit = dd.fit(self.model, logistic_data(20, 20.0, 0.05, tau=0.8))
        low, high = fit.intervals["tau"]
        assert 0.7 < low < 0.8 < high < 0.9


@pytest.mark.slow
def test_nothing_goes_on_from_a_failed_fit():
    decay, data = dd.equation("x' = -r * x"), dd.Data(T, np.exp(-T))
    good = dd.fit(decay, data, intervals=False)
    hopeless = dd.equation("x' = sqrt(-1 - x^2) * r")
    near = dd.LeastSquares(starts=1)
    bad = dd.fit(hopeless, good.data, optimizer=near)
    for use in (bad.predict, bad.stability, bad.bootstrap, lambda: bad.derived("r")):
        with pytest.raises(ValueError, match="There is no fit"):
            use()
    with pytest.raises(ValueError, match="There is no fit"):
        dd.compare({"good": good, "bad": bad})
    assert bad.noise == {} and verdict_of(bad)["r"] == "not determined"


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_values_whose_squares_are_no_numbers_are_refused(size):
    data = dd.Data([0.0, 1.0, 2.0], [size, 0.0, size])
    with pytest.raises(ValueError, match="a computer cannot calculate with its square"):
        dd.fit(dd.equation("x' = -k * x(t - tau)"), data)
