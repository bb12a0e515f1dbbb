"""What follows from fits with delays of the state, distributed and neutral ones."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import ddefind as dd
from support.general_fits import MODELS, TIMES, general_fit
from support.general_problems import KINDS as ALL_KINDS, Structure, measure
from support.repeats import mostly_slow

KINDS = list(MODELS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_the_truth_is_found_with_its_errors(kind):
    fit, (_, truth) = general_fit(kind), MODELS[kind]
    errors = {
        n: abs(fit.values[n] - v) / fit.standard_errors[n] for n, v in truth.items()
    }
    assert max(errors.values()) < 4 and fit.status.ok
    for name, (low, high) in fit.intervals.items():
        half = fit.profile(name, level=0.5).interval
        assert low < half[0] < fit.values[name] < half[1] < high


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_the_bootstrap_has_the_standard_errors(kind):
    fit = general_fit(kind)
    values = fit.bootstrap(60).values
    ratio = np.std(values, axis=0) / list(fit.standard_errors.values())
    assert np.all((0.6 < ratio) & (ratio < 1.5)), ratio


@pytest.mark.parametrize("kind", mostly_slow(KINDS, {"state"}))
def test_predictions_are_the_solution_with_its_derivatives(kind):
    fit = general_fit(kind)
    times = np.array([7.0, 0.0, 3.0, 12.0])
    prediction = fit.predict(times)
    exact = dd.solve(fit.problem, 12.0, dd.Tsit5(rtol=1e-10))(times)
    np.testing.assert_allclose(prediction.mean, exact, atol=1e-5)
    # A given value is as known: the band is that of the other parameters.
    name = fit.names[0]
    moved = fit.predict(times, parameters={name: 1.001 * fit.values[name]})
    slope = (moved.mean - prediction.mean) / (0.001 * fit.values[name])
    derivatives = fit.predict(
        times, parameters={n: fit.values[n] for n in fit.names[1:]}
    )
    expected = np.abs(slope) * fit.standard_errors[name]
    scale = derivatives.sd.max()
    np.testing.assert_allclose(derivatives.sd, expected, atol=0.02 * scale)


@pytest.mark.parametrize(
    "kind, parameters, message",
    [
        ("gamma", {"k": 0.5}, "`k` is the shape of a gamma distribution, .* got 0.5"),
        ("gamma", {"m": 0.0}, "`m` must be positive, but got 0"),
        ("neutral", {"tau": -1.0}, "`tau` must be positive, but got -1"),
        ("state", {"a": -1.0}, r"The delay `a / \(1 \+ N\)` becomes negative"),
        ("gamma", {"b": -1.0}, "The solution cannot be continued beyond t = 1"),
    ],
)
@pytest.mark.slow
def test_predictions_that_are_impossible_are_refused(kind, parameters, message):
    with pytest.raises(ValueError, match=message):
        general_fit(kind).predict([3.0, 1.0], parameters=parameters)


@pytest.mark.parametrize("kind", mostly_slow(KINDS, {"state"}))
def test_what_is_shown(kind):
    fit = general_fit(kind)
    assert "Solved by `Tsit5`, with adaptive steps." in str(fit)
    np.testing.assert_allclose(fit.solution(TIMES), fit.fitted, atol=1e-5)
    last = fit.names[-1]
    derived = fit.derived(f"{fit.names[0]} * {last}")
    assert derived.value == fit.values[fit.names[0]] * fit.values[last]
    figures = (fit.plot(), fit.plot_profile(last), fit.predict(10.0).plot())
    assert all(figure.axes for figure in figures)
    plt.close("all")


@pytest.mark.slow
def test_the_posterior_of_a_fit_with_a_distributed_delay():
    fit = general_fit("gamma")
    samples = fit.sample(draws=200, warmup=200, chains=1)
    for name in ("m", "k"):
        draws = np.asarray(samples.posterior[name])
        error = fit.standard_errors[name]
        assert abs(draws.mean() - fit.values[name]) < error
        assert 0.6 < draws.std() / error < 1.6


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_derivatives_of_five_hundred_random_problems(kind, d):
    """Forward against reverse, and both against differences of tight solutions."""
    found = measure(Structure(kind, d), range(24))
    goal = 1e-3 if kind == "state" else 1e-4
    for errors in found:
        assert errors.reverse < 1e-10
        assert errors.derivatives < goal
        assert errors.states < 2e-5
        assert errors.compared > 0.3
    # Few times are near breaking points.
    assert np.mean([errors.compared for errors in found]) > 0.8
