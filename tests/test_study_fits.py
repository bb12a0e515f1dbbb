"""Fits of several experiments: shared and own parameters, derivatives, views, files."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._problem.free_parameters import joint_parameters
from ddefind._problem.parameters import free_parameters
from ddefind._search.make_setup import make_setup
from ddefind._search.normal_equations import normal_equations, work_buffer
from support.fits import NEAR, reloaded, simulated

MODEL = dd.equation("x' = r * x * (1 - x(t - tau) / K)")
TRUE: Any = {"r": 1.5, "K": 2.0, "tau": 1.0}
START = {**TRUE, "b@low": 0.2, "b@high": 3.0}


def experiment(label, b, T=10.0, count=40, noise=0.05, **options):
    truth = MODEL.problem(**TRUE, b=b)
    data = simulated(truth, np.linspace(0, T, count), noise, seed=count)
    return dd.Experiment(data, label=label, **options)


LOW, HIGH = experiment("low", 0.2), experiment("high", 3.0, T=7.0, count=25)


@pytest.fixture(scope="module")
def fit():
    return dd.fit(MODEL, [LOW, HIGH])


def test_shared_and_own_parameters(fit):
    assert list(fit.values) == ["r", "K", "b@low", "b@high", "tau"]
    for name, true in START.items():
        low, high = fit.intervals[name]
        assert low < true < high
        assert abs(fit.values[name] - true) < 4 * fit.standard_errors[name]
    text = str(fit)
    assert "2 experiments (numbers of values): low (40) and high (25)." in text
    assert "Each has its own `b`; all else is shared." in text


def test_it_is_better_than_each_by_itself(fit):
    alone = dd.fit(MODEL, LOW, intervals=False)
    assert list(alone.values) == ["r", "K", "b", "tau"]
    assert fit.standard_errors["K"] < alone.standard_errors["K"]


def test_an_experiment_is_a_fit_by_itself(fit):
    high = fit.experiments["high"]
    assert high.values["b"] == fit.values["b@high"]
    assert high.standard_errors["r"] == pytest.approx(fit.standard_errors["r"])
    np.testing.assert_allclose(high.predict(high.data.t).mean, high.fitted, rtol=1e-6)
    np.testing.assert_allclose(high.residuals, fit.residuals[40:])
    assert high.noise == fit.noise
    for what in (fit.predict, fit.stability, lambda: fit.solution):
        with pytest.raises(ValueError, match=r"fit.experiments\['low'\]"):
            what()
    for what in (high.with_intervals, high.bootstrap, lambda: high.profile("r")):
        with pytest.raises(ValueError, match="is for the whole study"):
            what()


def test_it_is_saved_and_loaded(fit, tmp_path):
    again = reloaded(fit, tmp_path)
    assert str(again) == str(fit)
    one, other = (each.experiments["low"].predict(3.0) for each in (fit, again))
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_allclose(one.sd, other.sd)


def test_derived_and_figures(fit):
    found = fit.derived("r * tau")
    assert found.value == pytest.approx(fit.values["r"] * fit.values["tau"])
    titles = [ax.get_title(loc="left") for ax in fit.plot().axes]
    assert [title for title in titles if title] == ["low", "high"]


def test_what_is_computed_of_the_whole_study(fit):
    assert fit.bootstrap(24).names == tuple(fit.names)
    rates, four = {"r": dd.Parameter(per_experiment=True)}, dd.LeastSquares(starts=4)
    how: Any = {"parameters": rates, "optimizer": four, "intervals": False}
    own = dd.fit(MODEL, [LOW, HIGH], **how)
    assert list(own.values)[:2] == ["r@low", "r@high"]
    assert own.loss <= fit.loss * (1 + 1e-6)
    # An equation that is the same in both needs no rate of its own for each.
    assert dd.compare({"shared": fit, "own": own}).best == "shared"


@pytest.mark.slow
def test_adaptive_steps_and_a_shared_history():
    """Both experiments begin alike, and are solved with adaptive steps."""
    other = experiment("other", 0.2, T=6.0, count=20)
    start = {**TRUE, "b": dd.Parameter(start=0.2, per_experiment=False)}
    how: Any = {"parameters": start, **NEAR, "intervals": False}
    fit: Any = dd.fit(MODEL, [LOW, other], solver=dd.Tsit5(), **how)
    assert list(fit.values) == ["r", "K", "b", "tau"]
    for name, true in {**TRUE, "b": 0.2}.items():
        assert abs(fit.values[name] - true) < 4 * fit.standard_errors[name]


def test_scales_and_offsets_are_linear():
    for observe, linear in {
        "y = s * x + o": ["s", "o"],
        "y = s * (x + o)": ["s"],
        "y = K * x": [],
        "y = x^s": [],
    }.items():
        model = dd.equation("x' = x * (1 - x(t - tau) / K)", observe=observe)
        setup = make_setup(model.blank, LOW.data, model.settings, dd.RK4(), 10)[0]
        assert np.array(setup.model.free.names)[setup.is_linear].tolist() == linear


def test_known_values_are_not_learned():
    """`K` is known in both experiments, the history in one."""
    known = {"K": 2.0}
    low = dd.Experiment(LOW.data, values={**known, "b": 0.2}, label="low")
    high = dd.Experiment(HIGH.data, values=known, label="high")
    start = {"r": 1.4, "tau": 0.9, "b@high": 2.5}
    fit: Any = dd.fit(MODEL, [low, high], parameters=start, intervals=False, **NEAR)
    assert list(fit.values) == ["r", "b@high", "tau"]
    assert fit.experiments["low"].values["b"] == 0.2
    assert float(fit.problems[1].rhs.K) == 2.0
    assert fit.values["r"] == pytest.approx(1.5, rel=0.03)


def test_the_gram_is_the_sum_of_those_of_the_experiments(fit):
    """Against central differences of the residuals' sum of squares."""
    setup, result = fit.setup, fit.search_result
    n, points = int(result.best.n[0]), result.points
    capacity = setup.model.engine.capacity(n, setup.data.T)

    @jax.jit
    def equations(theta):
        steps = setup.model.steps(theta, n, 0.0, capacity)
        memory = work_buffer(setup.model, theta, steps, capacity)
        return normal_equations(setup.model, theta, points, steps, memory)[0].gram

    theta = fit.best * 1.02
    gram = np.asarray(equations(jnp.asarray(theta)))
    for j in range(len(theta)):
        h = 1e-5 * theta[j]
        ahead, behind = (
            float(
                equations(jnp.asarray(theta + side * h * np.eye(len(theta))[j]))[0, 0]
            )
            for side in (1, -1)
        )
        assert gram[0, 1 + j] == pytest.approx((ahead - behind) / (4 * h), rel=1e-6)
    # No experiment depends on the history of the other.
    assert gram[3, 4] == 0.0 != gram[3, 3]


def test_joint_names_of_components():
    two = dd.equation("x' = -x(t - tau) + y; y' = -k * y")
    local = free_parameters(two.problem(k=1.0, tau=1.0, b=[1.0, 2.0]), None)[0]
    is_own = [name.startswith("b") for name in local.names]
    joint = joint_parameters(local, ("low", "high"), is_own, ({}, {}))
    names = ("k", "b[0]@low", "b[0]@high", "b[1]@low", "b[1]@high", "tau")
    assert joint.free.names == names
    assert joint.free.index("b[1]@high") == 4
    np.testing.assert_array_equal(joint.local(np.arange(6.0), 1), [0.0, 2.0, 4.0, 5.0])


def bad(data: Any, match: str, error: Any = ValueError, **options: Any):
    with pytest.raises(error, match=match):
        dd.fit(MODEL, data, **options)


def test_bad_studies_are_refused():
    sets = [LOW.data, HIGH.data]
    bad(sets, "fit_many", TypeError)
    bad(sets, r"dd\.Experiment\(each\)", TypeError)
    bad([LOW, HIGH.data], "one of its items is", TypeError)
    bad([], "list of `Experiment`s", TypeError)
    bad([LOW, LOW], "Two experiments have the label")
    bad([LOW, HIGH], "there is no experiment 'mid'", parameters={"b@mid": 1.0})
    bad([LOW, HIGH], "all experiments share `r`", parameters={"r@low": 1.0})
    bad([LOW, HIGH], "fitted by least squares", optimizer=dd.Adam())
    bad([LOW, HIGH], "is for one data set", history="auto")
    bad([LOW, HIGH], "is for one data set", history="spline")
    unknown = dd.Experiment(LOW.data, values={"z": 1.0}, label="a")
    bad([unknown, HIGH], "There is no parameter 'z'")
    with_sd = dd.Experiment(LOW.data.with_fields(sd=0.1), label="a")
    bad([with_sd, HIGH], "have standard deviations", dd.DataError)
    with pytest.raises(ValueError, match="without @"):
        dd.Experiment(LOW.data, label="a@b")


# Records that a fit has not seen, continued from their beginnings.

DECAY = dd.equation("x' = -k * x(t - tau)")
TIMES = np.linspace(0.0, 6.0, 31)


def _record(b: float, count: int = 31) -> dd.Data:
    return simulated(DECAY.problem(k=1.2, tau=1.0, b=b), TIMES[:count], names=["x"])


@pytest.fixture(scope="module")
def learned() -> dd.Estimate:
    study = [dd.Experiment(_record(b), label=f"{b}") for b in (1.0, 1.5)]
    return dd.fit(DECAY, study, optimizer=dd.LeastSquares(starts=4), intervals=False)


def test_a_new_record_goes_on_as_the_system_does(learned):
    new = dd.continue_from(learned, _record(3.0, 12), intervals=False)
    assert new.names == ("b",)
    assert new.values["b"] == pytest.approx(3.0, abs=1e-4)
    np.testing.assert_allclose(new.predict(TIMES).mean, _record(3.0).x, atol=1e-3)


def test_many_records_are_continued_side_by_side(learned):
    beginnings = [_record(b, 12) for b in (0.5, 2.0)]
    found = dd.continue_from(learned, beginnings)
    np.testing.assert_allclose(found.best[:, 0], [0.5, 2.0], atol=1e-4)


def test_what_is_no_fit_is_refused():
    with pytest.raises(TypeError, match=r"`fit` must be"):
        dd.continue_from(DECAY, _record(1.0))  # type: ignore


def test_an_equation_with_inputs_is_refused(learned):
    """The inputs of the fit are not those of the new record."""
    driven = dd.equation("x' = u - k * x(t - tau)", inputs=("u",))
    with pytest.raises(ValueError, match="has inputs"):
        setup = replace(learned.setup, equations=(driven,))
        known = replace(learned.uncertainty, setup=setup)
        dd.continue_from(replace(learned, uncertainty=known), _record(2.0))
