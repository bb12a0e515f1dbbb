"""Sampling: its potential energy, what it refuses, and agreement with profiles."""

import sys

import jax
import numpy as np
import pytest

import ddefind as dd
from ddefind._inference.posterior import _make_posterior
from ddefind.paper import EXPERIMENTS
from support.fits import NEAR

T = np.linspace(0, 5, 40)
X = np.exp(-0.7 * T) + 0.05 * np.random.default_rng(0).normal(size=40)


def decay(sd=None, **settings):
    settings = {"k": dd.Parameter(0.5, lower=0.0, upper=3.0), "b": 1.0, **settings}
    model = dd.equation("x' = -k * x")
    return dd.fit(model, dd.Data(T, X, sd=sd), parameters=settings, **NEAR)


@pytest.mark.parametrize("sd", [None, 0.05])
@pytest.mark.slow
def test_the_potential_energy_is_minus_the_logarithm_of_the_posterior(sd):
    """For x = b exp(-k t), with everything written out; and its gradient against
    differences."""
    fit = decay(sd, b=dd.Parameter(1.0, prior=dd.GaussianPrior(1.0, 0.2)))
    posterior = _make_posterior(fit.uncertainty)
    energy = jax.jit(lambda w: posterior.potential(w))
    slope = jax.jit(jax.grad(lambda w: posterior.potential(w)))
    size = 2 if sd else 3
    random = np.random.default_rng(1)

    def expected(w):
        z, log_slope, log_sigma = (np.asarray(a) for a in posterior.transform(w))
        k, b = (z[fit.names.index(name)] for name in ("k", "b"))
        sigma = sd or np.exp(log_sigma[0])
        chi = np.sum((b * np.exp(-k * T) - X) ** 2) / sigma**2 + ((b - 1) / 0.2) ** 2
        inside = k * (3 - k) / 3  # the slope of the logistic curve
        np.testing.assert_allclose(log_slope, np.log(inside), atol=1e-9)
        found = 0.5 * chi + (0 if sd else 40 * np.log(sigma)) - np.log(inside)
        # Jeffreys' prior: the information of data, prior and bounds.
        J = np.stack([-b * T * np.exp(-k * T), np.exp(-k * T)], axis=1)
        square = J.T @ J / (sd or fit.noise["x"]) ** 2
        square += np.diag([12 / 3**2, 1 / 0.2**2])
        return found - 0.5 * np.linalg.slogdet(square)[1]

    for _ in range(3):
        w = random.normal(size=size)
        assert float(energy(w)) == pytest.approx(expected(w), rel=1e-6)
        slopes = np.asarray(slope(w))
        for j in range(size):
            step = 1e-5 * np.eye(size)[j]
            difference = (float(energy(w + step)) - float(energy(w - step))) / 2e-5
            assert slopes[j] == pytest.approx(difference, rel=1e-4, abs=1e-5)


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    fit = decay()
    monkeypatch.setitem(sys.modules, "numpyro", None)
    with pytest.raises(ImportError, match=r"pip install 'ddefind\[sample\]'"):
        fit.sample()


def test_a_posterior_without_end_is_refused():
    pytest.importorskip("numpyro")
    model = dd.equation("x' = -k * x; z' = -c", history=[1.0, 0.0])
    start, data = {"k": 0.7, "c": 1.0}, dd.Data(T, X, names="x")
    fit = dd.fit(model, data, parameters=start, **NEAR)
    with pytest.raises(ValueError, match="the data nor bounds limit `c`, `b.1.`"):
        fit.sample()
    for name in ("draws", "warmup", "chains"):
        with pytest.raises(ValueError, match=f"`{name}` must be a whole number"):
            fit.sample(**{name: 0})


def check_intervals(fit, found, share):
    """Samples agree with the intervals within a share of the width."""
    for name in fit.names:
        ends = np.quantile(found.posterior[name].values, [0.025, 0.975])
        width = np.ptp(fit.intervals[name])
        np.testing.assert_allclose(ends, fit.intervals[name], atol=share * width)


@pytest.mark.slow
def test_samples_are_arviz_data_and_agree_with_the_intervals():
    pytest.importorskip("numpyro")
    fit = decay()
    found = fit.sample(draws=800, warmup=300, chains=1)
    assert list(found.posterior.data_vars) == ["k", "b", "sd[x]"]
    assert found.posterior["k"].shape == (1, 800)
    assert not found.sample_stats["diverging"].values.any()
    check_intervals(fit, found, 0.12)
    assert found.posterior["sd[x]"].values.mean() == pytest.approx(
        fit.noise["x"], rel=0.1
    )


@pytest.mark.slow
@pytest.mark.parametrize("free", [True, False])
def test_samples_agree_with_the_profiles_of_the_paper_s_logistic_model(free):
    """Within 10% of the width, also where A and b are long ridges with omega."""
    experiment = EXPERIMENTS["logistic"]
    settings = experiment.bounds
    if not free:
        settings["omega"] = dd.Fixed()
    data = experiment.data(0.1, 0, exact=True)
    fit = dd.fit(experiment.true, data, parameters=settings, **NEAR)
    check_intervals(fit, fit.sample(draws=4000, warmup=1000, chains=2), 0.1)


def test_what_steadies_the_covariance_is_on_its_diagonal_only():
    """The scales of both parameters are far apart, so that a trifle for one of them
    matters to the other."""
    data = dd.Data(T, 1e6 * X)
    settings = {"k": dd.Parameter(0.5, lower=0.0, upper=3.0), "b": 1e6}
    model = dd.equation("x' = -k * x")
    fit = dd.fit(model, data, parameters=settings, intervals=False, **NEAR)
    factor = np.asarray(_make_posterior(fit.uncertainty).factor)
    k = fit.values["k"]
    expected = fit.covariance[0, 1] / (k * (3 - k) / 3)  # slope of the logistic curve
    assert (factor @ factor.T)[0, 1] == pytest.approx(expected, rel=1e-9)
