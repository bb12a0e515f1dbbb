"""Judging a fit: residual tests, likelihoods, comparisons, and sentences of caution."""

import numpy as np
import pytest

import ddefind as dd
from ddefind._inference.residual_tests import LEVEL, _spread, run_tests
from ddefind.paper import EXPERIMENTS
from support.fits import NEAR, unchecked

T = np.linspace(0, 5, 60)
DECAY = dd.equation("x' = -k * x")


def decay(x, sd=None, times=T, **options):
    options = {"parameters": {"k": 0.5, "b": 1.0}, **NEAR, **options}
    return dd.fit(DECAY, dd.Data(times, x, sd=sd), **options)


def noisy(scale=0.05, seed=0, times=T):
    random = np.random.default_rng(seed)
    return np.exp(-0.7 * times) + scale * random.normal(size=len(times))


@pytest.mark.parametrize("n", [20, 50])
def test_right_models_fail_a_test_in_one_fit_of_twenty(n):
    """Of a line with six parameters, so that few residuals are far from white."""
    random = np.random.default_rng(1)
    t = np.linspace(0, 1, n)
    design = np.stack([np.cos(np.pi * k * t) for k in range(6)], axis=1)
    basis, _ = np.linalg.qr(design)
    data = dd.Data(t, t)
    failures, tests = 0, {}
    for _ in range(100):
        e = random.normal(size=n)
        r = (e - basis @ (basis.T @ e))[:, None]
        checks = run_tests(data, design[:, 1:2], r, basis[:, None], n - 6, False)
        failures += any(check.p * len(checks) < LEVEL for check in checks)
        for check in checks:
            tests.setdefault(check.test, []).append(check.p < LEVEL)
    assert set(tests) == {"whiteness", "normality", "outliers", "spread"}
    assert failures <= 11  # 5 are expected
    for found in tests.values():
        assert sum(found) <= 12


def test_a_right_model_passes():
    fit = decay(noisy())
    assert len(fit.checks) == 4 and not fit.failed_checks and not fit.rejected
    assert {check.quantity for check in fit.checks} == {"x"}
    assert len(str(fit).splitlines()) == 3 + 1 + 3  # no sentence of caution


def test_errors_of_computation_are_no_noise():
    fit = decay(np.exp(-0.7 * T) + 1e-7 * np.sin(2 * T))
    assert not fit.checks and not fit.rejected
    assert "more closely than measurements scatter" in str(fit)
    assert "more closely" not in str(decay(noisy(1e-3)))


def test_neighbours_that_are_alike_reject_the_model():
    fit = decay(noisy() + 0.1 * np.sin(2 * T))
    (failed,) = [c for c in fit.failed_checks if c.test == "whiteness"]
    assert failed.p < 1e-3 and fit.rejected
    about = "Successive residuals of `x` are correlated (Ljung-Box, p < 0.001)"
    assert about in str(fit)
    assert "times as large as the scatter of neighbouring values" in str(fit)


def test_an_outlier_is_named():
    x = noisy()
    x[20] += 0.5
    fit = decay(x)
    assert {"outliers"} <= {check.test for check in fit.failed_checks}
    assert "`x` at t = 1.695 is" in str(fit)
    assert not fit.rejected


def test_spread_that_grows_with_the_level_is_named():
    random = np.random.default_rng(0)
    level = np.exp(-0.7 * T)
    x = level * (1 + 0.2 * random.normal(size=60))
    fit = decay(x)
    assert "spread" in {check.test for check in fit.failed_checks}
    assert "The residuals of `x` grow with its level" in str(fit)
    assert "Give the data an `sd` that grows with the level, or fit with" in str(fit)
    assert not fit.rejected
    assert not decay(x, sd=0.2 * level).failed_checks
    other = decay(x, noise="proportional")
    assert "spread" not in {check.test for check in other.failed_checks}


def test_the_test_of_the_spread_knows_its_probability():
    """Also for more residuals than are simulated."""
    random = np.random.default_rng(0)
    for n, simulated in ((30, 30), (1500, 1000)):
        level = np.sin(np.linspace(0, 9, n)) + 2
        noise = random.normal(size=(1000, simulated))
        p = {"even": [], "grows": []}
        for _ in range(300):
            for kind, size in (("even", 1.0), ("grows", level)):
                r = size * random.normal(size=n)
                p[kind].append(_spread(noise, r, level)[1])
        assert 0.02 < np.mean(np.array(p["even"]) < 0.05) < 0.09
        assert np.mean(np.array(p["grows"]) < 0.05) > 0.6


def test_noise_that_is_not_gaussian_is_said():
    random = np.random.default_rng(5)
    fit = decay(np.exp(-0.7 * T) + 0.05 * random.choice([-1, 1], size=60))
    assert [check.test for check in fit.failed_checks] == ["normality"]
    assert "The residuals of `x` are not Gaussian" in str(fit) and not fit.rejected


def test_given_noise_is_held_against_chi_square():
    right, small, large = (decay(noisy(), sd=sd) for sd in (0.05, 0.03, 0.2))
    chi = next(check for check in right.checks if check.test == "chi-square")
    assert chi.statistic == pytest.approx(right.chi_square) and 0.01 < chi.p < 0.99
    assert small.rejected and "or the given noise is too small" in str(small)
    assert not large.rejected and "the given noise is too large" in str(large)


def test_a_perfect_fit_and_a_few_values_are_not_judged():
    assert decay(np.exp(-0.7 * T)).checks == ()
    assert decay(noisy(times=T[::12]), times=T[::12]).checks == ()
    two = decay(noisy(times=T[:2]), times=T[:2])
    assert "There are no more values (2) than parameters (2)" in str(two)
    # Two values, two parameters: a perfect fit that knows nothing of its errors.
    assert {v.verdict for v in two.verdicts.values()} == {"not determined"}
    assert np.all(np.isinf(list(two.standard_errors.values())))
    assert "No degrees of freedom are left to estimate the noise" in str(two)
    assert not two.derived("k * b").is_determined and two.predict(5.0).notes
    given = decay(noisy(times=T[:2]), sd=0.05, times=T[:2])
    assert np.isfinite(given.standard_errors["b"])


def test_a_bound_and_coarse_steps_are_said():
    limited = dd.Parameter(start=0.5, lower=0.1, upper=0.6)
    fit = decay(noisy(), parameters={"k": limited, "b": 1.0})
    assert "`k` is on its upper bound, 0.6: the best fit may lie beyond it." in str(fit)
    alone = fit.derived("k")
    assert not alone.is_determined and alone.reason == "On a bound: `k`."
    assert np.isinf(fit.standard_errors["k"]) and np.isfinite(fit.standard_errors["b"])
    assert fit.derived("k * b").reason == "On a bound, and taken as known: `k`."
    object.__setattr__(fit.search_result, "step_error", 0.4)
    assert "The solver's steps matter: with half of them" in str(fit)


def test_a_second_minimum_is_said():
    """x' = c + w, seen as w^2: both signs of w fit."""
    model = dd.equation("x' = w^2 - 0.02 * w", history=[0.0])
    x = 0.5 * T + 0.05 * np.random.default_rng(2).normal(size=60)
    settings = {"w": dd.Parameter(lower=-2.0, upper=2.0)}
    fit = dd.fit(model, dd.Data(T, x), parameters=settings)
    assert "Another minimum fits about as well" in str(fit)
    assert fit.intervals["w"][0] < -0.6 and fit.intervals["w"][1] > 0.6
    assert fit.verdicts["w"] == "weakly determined"


def test_the_criteria_are_those_of_the_gaussian_likelihood():
    fit = decay(noisy())
    n, squares = 60, fit.loss
    log_likelihood = -0.5 * n * (np.log(2 * np.pi * squares / n) + 1)
    found = fit.criteria
    assert found.parameters == 3
    assert found.log_likelihood == pytest.approx(log_likelihood)
    assert found.aic == pytest.approx(6 - 2 * log_likelihood)
    assert found.aicc == pytest.approx(found.aic + 24 / 56)
    assert found.bic == pytest.approx(3 * np.log(60) - 2 * log_likelihood)
    given = decay(noisy(), sd=0.05).criteria
    density = np.log(0.05 * np.sqrt(2 * np.pi))
    expected = -0.5 * squares / 0.05**2 - n * density
    assert given.parameters == 2
    assert given.log_likelihood == pytest.approx(expected)


@pytest.mark.slow
def test_the_true_model_wins_also_against_a_larger_one():
    data = dd.Data(T, noisy(seed=3))
    fits = {"decay": decay(data.x[:, 0])}
    start = {"k": 0.5, "b": 1.0}
    for name, text in (("larger", "x' = -k * x - c"), ("wrong", "x' = -k")):
        settings = start | ({"c": 0.1} if name == "larger" else {})
        fits[name] = dd.fit(dd.equation(text), data, parameters=settings, **NEAR)
    found = dd.compare(fits)
    assert found.labels == ("decay", "larger", "wrong") and found.best == "decay"
    assert found.weights.sum() == pytest.approx(1) and found.weights[0] > 0.7
    assert found.differences[0] == 0 < found.differences[1] < found.differences[2]
    lines = str(found).splitlines()
    assert lines[0].split()[:3] == ["model", "k", "log"]
    assert lines[1].startswith("decay ") and "<table>" in found._repr_html_()
    assert dd.compare([fits["wrong"], fits["decay"]]).best == "x' = -k * x"


def test_only_fits_of_the_same_data_are_compared():
    one, other = decay(noisy()), decay(noisy(seed=1))
    with pytest.raises(ValueError, match="are fits of different data"):
        dd.compare({"one": one, "other": other})
    with pytest.raises(ValueError, match="of 60 values of x, and of 50"):
        dd.compare({"one": one, "other": decay(noisy()[:50], times=T[:50])})
    with pytest.raises(ValueError, match="at least two fits"):
        dd.compare([one])
    with pytest.raises(TypeError, match="no least-squares fit"):
        dd.compare({"one": one, "two": unchecked(2)})
    assert dd.compare([one, decay(noisy())]).labels[0].endswith("(1)")


def test_only_fits_of_the_same_density_are_compared():
    """A likelihood with known noise is another density."""
    one, known = decay(noisy()), decay(noisy(), sd=0.05)
    with pytest.raises(ValueError, match="'b' knows the noise .*'a' estimates it"):
        dd.compare({"a": one, "b": known})
    with pytest.raises(ValueError, match="different `sd`"):
        dd.compare([known, decay(noisy(), sd=0.06)])
    with pytest.raises(ValueError, match="of x, and of log_x"):
        data = dd.Data(T, np.log(np.abs(noisy())), names=["log_x"])
        logarithm = dd.equation("log_x' = -k")
        other = dd.fit(logarithm, data, parameters={"k": 0.5, "b": 0.0}, **NEAR)
        dd.compare([one, other])


def test_every_free_parameter_counts():
    """On a bound, or without influence: the model could have used it."""
    start = {"k": 0.5, "b": 1.0}
    bound = {"c": dd.Parameter(0.2, lower=0.1)}
    data = dd.Data(T, noisy())
    plain = dd.fit(DECAY, data, parameters=start, intervals=False, **NEAR)
    model, start = dd.equation("x' = -k * x - c + 0.1"), {**start, **bound}
    bounded = dd.fit(model, data, parameters=start, intervals=False, **NEAR)
    assert bounded.values["c"] == 0.1
    assert bounded.criteria.parameters == plain.criteria.parameters + 1
    expected = plain.criteria.bic + np.log(60)
    assert bounded.criteria.bic == pytest.approx(expected, abs=0.01)


@pytest.mark.slow
def test_wrong_models_are_caught():
    """Exponential, and logistic growth without delay, fitted to the paper's delayed
    logistic data: rejected each time, and never preferred."""
    experiment = EXPERIMENTS["logistic"]
    sets = [experiment.data(0.1, repeat, exact=True) for repeat in range(40)]
    right = dd.fit_many(experiment.true, sets, **NEAR)
    start = dd.Problem(dd.models.Exponential(0.5, -1.0), dd.Affine(0.0, 1.5), 1.0)
    wrong = dd.fit_many(start, sets, **NEAR)
    model = dd.equation("x' = r * x * (1 - x / K)")
    undelayed = dd.fit_many(
        model, sets, parameters={"r": -1.0, "K": 3.0, "b": 2.0}, **NEAR
    )
    for index in range(len(sets)):
        fits = {"right": right[index], "wrong": wrong[index], "no": undelayed[index]}
        assert wrong[index].rejected and undelayed[index].rejected
        assert dd.compare(fits).best == "right"
    assert sum(right[index].rejected for index in range(len(sets))) <= 5


def test_a_prior_that_the_data_contradict_is_no_part_of_chi_square():
    prior = dd.Parameter(start=0.5, prior=dd.GaussianPrior(0.4, 0.01))
    fit = decay(noisy(), sd=0.05, parameters={"k": prior, "b": 1.0})
    assert fit.chi_square == pytest.approx(np.sum(fit.residuals**2))
    assert "standard deviations off its prior" in str(fit)
    with pytest.raises(TypeError, match="`prior` must be a `Gaussian"):
        dd.Parameter(prior=unchecked(3))


@pytest.mark.parametrize("level", [95, 0.0, float("nan"), "0.9"])
def test_a_level_is_a_share(level):
    fit = decay(noisy())
    for use in (fit.profile, fit.derived):
        with pytest.raises(ValueError, match="`level` must lie between 0 and 1"):
            use("k", level=level)


def test_minima_have_the_unit_of_the_loss():
    fit = dd.fit(DECAY, dd.Data(T, noisy()), intervals=False)
    assert fit.minima[0].loss == pytest.approx(fit.loss)


def test_many_fits_are_of_one_equation():
    other = dd.equation("x' = -k")
    with pytest.raises(ValueError, match="different equations"):
        dd.fit_many(unchecked([DECAY, other]), dd.Data(T, noisy()))
