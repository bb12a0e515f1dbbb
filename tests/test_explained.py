"""How much a model explains, and whether it is more than chance."""

import numpy as np
import pytest
from scipy.special import fdtrc

import ddefind as dd
from ddefind._data.smoothing import smooth_variance
from ddefind._inference.explained import explained
from support.fits import NEAR, reloaded
from support.method_of_steps import method_of_steps

T = np.linspace(0, 20, 40)
LOGISTIC = dd.equation("x' = r * x * (1 - x(t - tau) / K)")
FEW = dd.LeastSquares(starts=4)
START = {"r": 1.0, "K": 2.0, "b": 1.0, "tau": 1.4}


def hutchinson(noise, seed):
    def rhs(x, y, tau, t):
        return x * (1 - y[0] / 2)

    x = method_of_steps(rhs, [1.0], [1.4], 20, 1e-8)(T)
    return x, x + noise * np.random.default_rng(seed).normal(size=x.shape)


def explained_by(model, data, **options):
    """What a fit without intervals explains."""
    fit = dd.fit(model, data, intervals=False, **options)
    found = explained(fit.uncertainty, fit.fitted)
    assert found is not None
    return found


def test_pure_noise_is_not_explained(tmp_path):
    x = 2 + 0.3 * np.random.default_rng(4).normal(size=40)
    fit = dd.fit(LOGISTIC, dd.Data(T, x), optimizer=FEW)
    assert fit.explained is not None and fit.explained.by_chance
    assert "The model explains" in str(fit)
    assert "That is no more than chance: noise around a constant" in str(fit)
    assert reloaded(fit, tmp_path).explained == fit.explained


@pytest.mark.slow
def test_shuffled_data_tell_noise_that_the_search_happens_to_follow():
    """F alone would take these for a signal: of many shapes one follows the noise."""
    found = []
    for seed in (5007, 5012):
        x = 2 + 0.3 * np.random.default_rng(seed).normal(size=60)
        fit = dd.fit(LOGISTIC, dd.Data(np.linspace(0, 20, 60), x), intervals=False)
        left, around = fit.loss, np.sum((x - x.mean()) ** 2)
        assert fdtrc(3, 56, (around - left) / 3 / (left / 56)) < 0.05
        found.append(explained(fit.uncertainty, fit.fitted))
    assert all(each is not None and each.by_chance for each in found)


def test_a_weak_signal_is_more_than_chance():
    """Noise as large as the signal: about half of the variance is explained."""
    shares = []
    for seed in range(6):
        clean, x = hutchinson(0.45, seed)
        fit = dd.fit(LOGISTIC, dd.Data(T, x), parameters=START, **NEAR)
        assert fit.explained is not None and not fit.explained.by_chance
        shares.append(fit.explained.model[0])
        assert f"explains {100 * shares[-1]:.0f}% of the variance of `x`" in str(fit)
        assert "chance" not in str(fit)
    expected = 1 - 0.45**2 / (np.var(clean) + 0.45**2)
    assert np.mean(shares) == pytest.approx(expected, abs=0.1)


def test_a_good_fit_says_nothing_of_what_it_explains():
    fit = dd.fit(LOGISTIC, dd.Data(T, hutchinson(0.05, 0)[1]), parameters=START, **NEAR)
    assert fit.explained is not None and "explains" not in str(fit)
    (model,), (curve,) = fit.explained.model, fit.explained.curve
    assert 0.98 < model < 1 and curve == pytest.approx(model, abs=0.02)


@pytest.mark.slow
def test_a_constant_may_fit_better_than_the_model():
    x = 2 + np.sin(40 * T) + 0.1 * np.random.default_rng(1).normal(size=40)
    fit = dd.fit(dd.equation("x' = -k", history=[5.0]), dd.Data(T, x))
    assert fit.explained is not None and fit.explained.by_chance
    assert "explains 0% of the variance of `x`" in str(fit)


def test_a_fit_that_misses_what_there_is_does_not_speak_of_chance():
    x = np.sin(T) + 0.1 * np.random.default_rng(1).normal(size=40)
    model, start = dd.equation("x' = c", history=[0.1]), {"c": 0.1}
    fit = dd.fit(model, dd.Data(T, x), parameters=start, **NEAR)
    assert fit.explained is not None and fit.explained.by_chance
    assert fit.explained.curve[0] > 0.9
    assert "A constant would do about as well: the model, or this fit" in str(fit)
    assert "chance" not in str(fit)


def test_given_noise_and_several_quantities():
    """Their noise has different sizes, and one of them is missing at times."""
    random = np.random.default_rng(0)
    noise = random.normal(size=(40, 2)) * [0.3, 1.0]
    noise[::3, 1] = np.nan
    model = dd.equation("x' = -0.3 * x + c; y' = -0.3 * y + d")
    options = {"parameters": {"c": 0.6, "d": 1.5, "b": [3.0, 5.0]}, **NEAR}
    for sd in (None, [0.3, 1.0]):
        data = dd.Data(T, [2, 5] + noise, names=["x", "y"], sd=sd)
        found = explained_by(model, data, **options)
        assert found.by_chance and np.all(np.abs(found.model) < 0.3)
    decay = np.stack([np.exp(-0.3 * T), 0 * T], axis=1)
    found = explained_by(
        model, dd.Data(T, [2, 5] + 3 * decay + noise, names=["x", "y"]), **options
    )
    assert not found.by_chance and found.model[0] > 0.5 > 0.3 > found.model[1]


def test_the_variance_around_a_smooth_curve():
    t = np.linspace(0, 10, 400)
    noise = np.random.default_rng(0).normal(size=(400, 2)) * [0.1, 2.0]
    x = np.stack([np.sin(t), 0 * t], axis=1) + noise
    found = smooth_variance(dd.Data(t, x), np.ones(x.shape))
    assert np.sqrt(found) == pytest.approx([0.1, 2.0], rel=0.1)


@pytest.mark.slow
def test_a_delay_beyond_the_record_is_explained():
    x = 2 - 0.05 * T + 0.1 * np.random.default_rng(0).normal(size=40)
    settings = {"k": 0.1, "b": 2.0, "tau": dd.Parameter(30.0, lower=25, upper=50)}
    model = dd.equation("x' = -k * x(t - tau)")
    fit = dd.fit(model, dd.Data(T, x), parameters=settings, **NEAR)
    assert fit.values["tau"] > 20
    assert "longer than the record, 20: in all of it the delayed state is" in str(fit)
    settings["tau"] = dd.Fixed(22.0)
    fit = dd.fit(model, dd.Data(T, x), parameters=settings, **NEAR)
    assert "The delay `tau` is 22, longer than the record" in str(fit)
    short = dd.Data(T / 100, x)  # the equation has no delay
    fit = dd.fit(dd.equation("x' = -k * x"), short, **NEAR)
    assert "longer than the record" not in str(fit)
