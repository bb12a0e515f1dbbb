"""Fits with noise models: what they estimate, refuse, predict, compare and keep."""

import numpy as np
import pytest
from scipy import stats

import ddefind as dd
from ddefind._fitting.read_tasks import with_noise_of
from ddefind._search.likelihood import FittedNoise, noise_interval
from ddefind.noise._gaussian import AbstractGaussian
from support.fits import Options, reloaded, unchecked
from support.least_squares_problems import LOGISTIC, TRUTH, normal_function, setup_of
from support.repeats import mostly_slow

MODEL = dd.equation(LOGISTIC)
T = np.linspace(0, 12, 60)
TRUE = {"r": 1.2, "K": 40.0, "b": 12.0, "tau": 1.2}
X = np.asarray(dd.solve(MODEL.problem(TRUE), T=12)(T))[:, 0]
# From the truth, so that tests take little time.
NEAR: Options = {"parameters": TRUE, "optimizer": dd.LeastSquares(starts=1)}
PAIRS = {
    "gaussian": (dd.noise.Gaussian(2.0), lambda f: stats.norm(f, 2.0)),
    "proportional": (dd.noise.Proportional(0.1), lambda f: stats.norm(f, 0.1 * f)),
    "combined": (dd.noise.Combined(1.0, 0.1), lambda f: stats.norm(f, 1 + 0.1 * f)),
    "lognormal": (
        dd.noise.LogNormal(1.2),
        lambda f: stats.lognorm(np.log(1.2), scale=f),
    ),
    "student": (dd.noise.Student(2.0, 3.0), lambda f: stats.t(3.0, f, 2.0)),
    "poisson": (dd.noise.Poisson(), stats.poisson),
    "negative-binomial": (
        dd.noise.NegativeBinomial(0.2),
        lambda f: stats.nbinom(5.0, 1 / (1 + 0.2 * f)),
    ),
}


def drawn(word, seed=0):
    noise = PAIRS[word][0]
    return noise.draw(X, np.asarray(noise.eta()), np.random.default_rng(seed))


@pytest.mark.parametrize("word", PAIRS)
def test_densities_are_those_of_scipy(word):
    noise, distribution = PAIRS[word]
    eta, there = noise.eta(), distribution(7.0)
    for y in (2.0, 7.0, 15.0):
        logs = there.logpmf(y) if noise.is_count else there.logpdf(y)
        assert np.isclose(noise.deviance(7.0, eta, y), -2 * logs, rtol=1e-10)
        below = there.cdf(y - 1) if noise.is_count else there.cdf(y)
        found = noise.deviance_below(7.0, eta, y, 16)
        assert np.isclose(found, -2 * np.log(below), rtol=1e-9)
        assert np.isclose(noise.cdf(7.0, np.asarray(eta), y), there.cdf(y))
    assert np.isclose(noise.quantile(7.0, np.asarray(eta), 0.3), there.ppf(0.3))


@pytest.mark.parametrize("word", PAIRS)
def test_information_is_the_variance_of_the_score(word):
    import jax
    import jax.numpy as jnp

    noise = PAIRS[word][0]
    eta, f = noise.eta(), jnp.asarray(7.0)
    random = np.random.default_rng(0)
    y = jnp.asarray(noise.draw(np.full(40000, 7.0), np.asarray(eta), random))
    slopes = jax.vmap(lambda y: noise.terms(f, eta, y).slope)(y)
    found = np.asarray(slopes.T @ slopes) / (4 * len(y))
    expected = np.asarray(noise.information(f, eta))
    sizes = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.all(np.abs(found - expected) < 0.06 * sizes)


def test_gaussian_noise_by_likelihood_is_least_squares():
    data = dd.Data(T, drawn("gaussian"))
    plain = dd.fit(MODEL, data, **NEAR)
    fit = dd.fit(MODEL, data, noise="gaussian", **NEAR)
    for name in plain.names:
        assert np.isclose(fit.values[name], plain.values[name], rtol=1e-6)
        error = plain.standard_errors[name]
        assert np.isclose(fit.standard_errors[name], error, rtol=1e-5)
        ends = np.subtract(fit.intervals[name], plain.intervals[name])
        assert np.all(np.abs(ends) < 0.02 * error)
    # The standard deviation is the unbiased one.
    assert np.isclose(fit.values["x.sd"], plain.noise["x"], rtol=1e-6)
    one, other = plain.criteria, fit.criteria
    assert np.allclose(one, other, rtol=1e-7)
    assert np.allclose(fit.residuals, plain.residuals, rtol=1e-4)
    assert fit.freedom == plain.freedom == 56


def test_a_search_without_start_values_finds_the_noise():
    fit = dd.fit(MODEL, dd.Data(T, drawn("lognormal", seed=2)), noise="lognormal")
    for name, value in {**TRUE, "x.factor": 1.2}.items():
        low, high = fit.intervals[name]
        assert low < value < high
    assert "noise: log-normal." in str(fit) and not fit.rejected
    assert fit.minima[0].loss == fit.loss


def test_counts_are_compared_predicted_and_kept(tmp_path):
    data = dd.Data(T, drawn("poisson"))
    words = ("poisson", "negative-binomial")
    fits = {word: dd.fit(MODEL, data, noise=word, **NEAR) for word in words}
    fits["least squares"] = dd.fit(MODEL, data, **NEAR)
    assert dd.compare(fits).best == "poisson"
    fit = fits["poisson"]
    expected = stats.poisson.logpmf(data.x[:, 0], fit.fitted[:, 0]).sum()
    assert np.isclose(fit.criteria.log_likelihood, expected, rtol=1e-9)
    # A larger family fits at least as well.
    larger = fits["negative-binomial"].criteria.log_likelihood
    assert larger > expected - 1e-3
    said = fit.predict(12.0)
    inside = (said.noisy_low <= said.low) & (said.high <= said.noisy_high)
    assert np.all(said.noisy_low >= 0) and np.all(inside)
    again = reloaded(fit, tmp_path)
    assert str(again) == str(fit)
    assert np.allclose(again.predict(12.0).noisy_high, said.noisy_high)
    assert np.array_equal(again.residuals, fit.residuals)
    scatter = again.bootstrap(60).standard_errors["K"]
    assert 0.6 < scatter / fit.standard_errors["K"] < 1.5
    with pytest.raises(ValueError, match='must be "parametric"'):
        fit.bootstrap(10, kind="residual")


@pytest.mark.slow
def test_poisson_noise_that_is_too_small_is_named():
    fit = dd.fit(MODEL, dd.Data(T, drawn("negative-binomial")), noise="poisson", **NEAR)
    assert fit.rejected and '`noise="negative-binomial"`' in str(fit)


def test_values_below_a_limit():
    y = drawn("gaussian", seed=1)
    below = y < 20
    data = dd.Data(T, np.maximum(y, 20.0), below=below)
    fit = dd.fit(MODEL, data, **NEAR)
    assert isinstance(fit.problem.noise["x"], AbstractGaussian)
    assert f"({below.sum()} below limits)" in str(fit)
    blind = dd.fit(MODEL, dd.Data(T, data.x), **NEAR)
    truth = np.array([*TRUE.values()])
    right, wrong = fit.best[:4] / truth - 1, blind.best / truth - 1
    assert np.abs(right).max() < 0.6 * np.abs(wrong).max()
    f, sd = fit.fitted[:, 0], fit.values["x.sd"]
    logs = np.where(below, stats.norm.logcdf(20, f, sd), stats.norm.logpdf(y, f, sd))
    # The likelihood of the criteria is without the correction of the noise's size.
    assert 0 <= fit.criteria.log_likelihood - logs.sum() < 0.3
    with pytest.raises(ValueError, match="different data"):
        dd.compare({"a": fit, "b": blind})


def test_each_quantity_has_its_noise():
    model = dd.equation("x' = r * x * (1 - x(t - tau) / K); y' = x - y")
    start = {"r": 1.2, "K": 40.0, "tau": 1.2, "b": [12.0, 5.0]}
    x = np.asarray(dd.solve(model.problem(start), T=12)(T))
    random = np.random.default_rng(0)
    values = np.stack([random.poisson(x[:, 0]), x[:, 1] + random.normal(size=60)], 1)
    data = dd.Data(T, values, names=["x", "y"])
    options: Options = {**NEAR, "parameters": start}
    fit = dd.fit(model, data, noise={"x": "poisson"}, **options)
    assert fit.names[-1] == "y.sd" and "noise: x Poisson, y Gaussian." in str(fit)
    low, high = fit.intervals["y.sd"]
    assert low < 1.0 < high
    held: Options = {**NEAR, "parameters": {**start, "y.sd": dd.Fixed(1.0)}}
    known = dd.fit(model, data, noise={"x": "poisson"}, **held)
    noise = {"x": "poisson", "y": dd.noise.Gaussian(1.0)}
    same = dd.fit(model, data, noise=noise, **options)
    assert np.allclose(known.best, same.best, rtol=1e-4)


REFUSED = {
    "negative values, down to -1": dict(noise="poisson", x=-np.ones(60)),
    "no whole numbers": dict(noise="negative-binomial", x=X),
    "has zeros": dict(noise="lognormal", x=np.zeros(60)),
    "values of zero": dict(noise="proportional", x=np.zeros(60)),
    "There is no noise 'lognormla'": dict(noise="lognormla"),
    "`noise` names 'hare'": dict(noise={"hare": "poisson"}),
    "must be one of": dict(noise=3),
    "Call it": dict(noise=dd.noise.Poisson),
    "standard deviations of `x`": dict(noise="student", sd=1.0),
    "knows Gaussian noise alone": dict(noise="student", optimizer=dd.Adam()),
    r"`MultipleShooting\(\)` knows": dict(
        noise="student", optimizer=dd.MultipleShooting()
    ),
}


def test_student_noise_takes_the_place_of_huber():
    with pytest.raises(TypeError, match='no `huber` any more.*`noise="student"`'):
        dd.LeastSquares(huber=unchecked(1.345))


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_fitted_is_refused(message):
    options = dict(REFUSED[message])
    data = dd.Data(T, options.pop("x", X), sd=options.pop("sd", None))
    with pytest.raises((ValueError, TypeError), match=message):
        dd.fit(MODEL, data, **unchecked(options))


def test_flags_of_values_below_a_limit():
    flags = [[True, False], [False, False], [False, True]]
    data = dd.Data([2, 1, 0], [[1.0, 2], [3, 4], [5, 6]], names=["a", "b"], below=flags)
    assert data.below is not None
    assert data.below.tolist() == [[False, True], [False, False], [True, False]]
    assert "0.0,5.0,<6.0" in data.csv()
    chosen = data.select(["c", "b", "a"]).below
    assert chosen is not None and chosen[0].tolist() == [False, True, False]
    assert dd.Data([0, 1], [1.0, np.nan], below=[False, True]).below is None
    with pytest.raises(TypeError, match="True where a value"):
        dd.Data([0, 1], [1.0, 2.0], below=[0, 1])
    with pytest.raises(ValueError, match="must have the shape"):
        dd.Data([0, 1], [1.0, 2.0], below=[True])


def test_all_values_below_a_limit_are_refused():
    data = dd.Data(np.linspace(0, 5, 12), np.full(12, 0.1), below=np.ones(12, bool))
    with pytest.raises(dd.DataError, match="All values of 'x' are below a limit"):
        dd.fit(dd.equation("x' = -k * x(t - tau)"), data)


def test_log_normal_values_around_zero_are_zero():
    noise = FittedNoise(0, dd.noise.LogNormal(1.2), np.array([1.2]))
    mean, sd = np.array([0.0, 2.0]), np.array([0.0, 0.1])
    low, high = noise_interval(noise, mean, sd, 1.96)
    assert low[0] == high[0] == 0.0 and 0 < low[1] < 2.0 < high[1]


# The likelihood at values that are not the best.

TRUE_NOISE = {
    "gaussian": dd.noise.Gaussian(0.3),
    "proportional": dd.noise.Proportional(0.1),
    "combined": dd.noise.Combined(0.2, 0.05),
    "lognormal": dd.noise.LogNormal(1.1),
    "poisson": dd.noise.Poisson(),
    "negative-binomial": dd.noise.NegativeBinomial(0.1),
    "student": dd.noise.Student(0.3, 4.0),
}


@pytest.mark.parametrize(
    "word", mostly_slow(TRUE_NOISE, always=("combined", "negative-binomial", "student"))
)
def test_derivatives_of_the_likelihood_are_those_of_differences(word):
    """Of values that were measured, and of some that are only known to be below 11."""
    t, noise = np.linspace(0, 10, 30), TRUE_NOISE[word]
    truth = MODEL.problem(TRUTH | {"K": 20.0, "b": 8.0})
    f = np.asarray(dd.solve(truth, T=10)(t))
    y = noise.draw(f, np.asarray(noise.eta()), np.random.default_rng(0))
    data = dd.Data(t, np.maximum(y, 11.0), below=y < 11.0)
    assert data.below is not None and 3 < data.below.sum() < 20
    setup = setup_of(with_noise_of(MODEL.blank, data, word), data)
    theta = np.array([1.7, 21.0, 7.0, 1.05, *(1.2 * setup.guess[4:])])
    if word == "lognormal":
        theta[4] = 1.15
    found = normal_function(setup)
    gram = found(theta, 24).gram
    differences = []
    for j, value in enumerate(theta):
        move = 1e-5 * value * (np.arange(len(theta)) == j)
        high, low = (found(theta + s * move, 24).gram[0, 0] for s in (1, -1))
        differences.append((high - low) / (2e-5 * value))
    scale = np.abs(differences).max()
    assert np.allclose(2 * gram[0, 1:], differences, rtol=1e-6, atol=1e-7 * scale)
    assert np.linalg.eigvalsh(gram[1:, 1:]).min() >= -1e-9 * np.abs(gram).max()
