r"""Residuals, simulation, criteria and evidence of a fit, by its noise:
`quantile_residuals`, `simulated`, `likelihood_criteria` and `evidence`.

A *quantile residual* is the standard Gaussian number that is exceeded as often as the
measured value: $r = \Phi^{-1}(F(y))$ with the distribution F of the noise. For Gaussian
noise it is $(y - f) / s$. For a count, F jumps at y, and a random number between
$F(y - 1)$ and $F(y)$ is taken; for a value below a limit L, one between 0 and $F(L)$.
If the model is right, quantile residuals are standard Gaussian, whatever the noise
(Dunn and Smyth).

*Information criteria* charge the likelihood $L$ of a fit for its $k$ parameters (noise
levels that are not given among them); $n$ is the number of measured values:

$$AIC = 2k - 2\log L, \qquad AIC_c = AIC + \frac{2k(k+1)}{n-k-1}, \qquad
  BIC = k\log n - 2\log L.$$

Every free parameter counts in k, also one on a bound or one that the data do not
determine: the model could have used it. A parameter with a prior counts by the share
that its prior does not determine, so that k need not be a whole number.

The *evidence* for a fit is its BIC without the terms that all models of the same data
share, with k as the number of parameters that the data determine:
$k = \mathrm{tr}\,[(J^T W J + P)^{-1} J^T W J]$ with the weights P of the priors."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._data.study_data import Records, each_part
from .._search.batches import RefinedFits, SearchResult, refine
from .._search.likelihood import NoisyPoints, correction, noise_models
from .._search.noise_setup import is_below
from .._search.setup import FitSetup
from ..noise._abstract import AbstractNoise
from ..noise._gaussian import AbstractGaussian, Given, LogNormal
from .covariance import Uncertainty

# Probabilities nearer to zero and one count as these.
_LEAST, _MOST = 1e-300, 1 - 1e-16
# Directions of the scaled information matrix below this are not determined at all.
_ZERO_EIGENVALUE = 1e-10


class FittedNoise(NamedTuple):
    """Noise model of the quantity in a column, and its parameters `eta`. Noise that is
    given with the data has a parameter for each value."""

    column: int
    model: AbstractNoise
    eta: np.ndarray

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Return the parameters for some of the values."""
        return self.eta[:, rows] if isinstance(self.model, Given) else self.eta


_OfNoise = Callable[[Uncertainty, np.ndarray], np.ndarray]


def _by_parts(function: _OfNoise) -> _OfNoise:
    """Apply `function` to each experiment of a study: their noise may differ."""

    def stacked(uncertainty: Uncertainty, fitted: np.ndarray) -> np.ndarray:
        pairs = zip(uncertainty.parts, each_part(uncertainty.setup.data, fitted))
        return np.concatenate([function(part, rows) for part, (_, rows) in pairs])

    return stacked


def fitted_noise(uncertainty: Uncertainty) -> list[FittedNoise]:
    """Return the noise of each quantity that has a model, in one experiment."""
    setup, data = uncertainty.setup, uncertainty.setup.data
    models = noise_models(setup.model, jnp.asarray(uncertainty.theta))
    found = []
    for column, name in enumerate(data.names):
        if name in models:
            model = models[name]
            eta = np.asarray(model.eta())
            if isinstance(model, Given):
                assert data.sd is not None
                eta = data.sd[:, column][None]
            found.append(FittedNoise(column, model, eta))
    return found


@_by_parts
def quantile_residuals(uncertainty: Uncertainty, fitted: np.ndarray) -> np.ndarray:
    """Compute the quantile residuals of the data around the `fitted` values; NaN where
    nothing was measured."""
    from scipy.special import ndtri

    data = uncertainty.setup.data
    random = np.random.default_rng(0)
    residuals = np.full(data.x.shape, np.nan)
    for noise in fitted_noise(uncertainty):
        here = np.isfinite(data.x[:, noise.column])
        model, eta = noise.model, noise.at(here)
        f, y = fitted[here, noise.column], data.x[here, noise.column]
        below = is_below(data)[here, noise.column]
        if isinstance(model, AbstractGaussian):
            exact = (y - f) / model.size(f, eta)
        elif isinstance(model, LogNormal):
            with np.errstate(invalid="ignore", divide="ignore"):
                exact = (np.log(y) - np.log(f)) / np.log(eta[0])
        else:
            high = model.cdf(f, eta, y)
            low = model.cdf(f, eta, y - 1) if model.is_count else high
            share = random.uniform(size=len(y))
            exact = ndtri(np.clip(low + share * (high - low), _LEAST, _MOST))
        limit = np.ceil(y) - 1 if model.is_count else y
        share = random.uniform(size=len(y)) * model.cdf(f, eta, limit)
        censored = ndtri(np.clip(share, _LEAST, _MOST))
        residuals[here, noise.column] = np.where(below, censored, exact)
    return residuals


@_by_parts
def information_roots(uncertainty: Uncertainty, fitted: np.ndarray) -> np.ndarray:
    """Compute the square roots of the information of each value about its prediction:
    one over the standard deviation, for Gaussian noise."""
    roots = np.ones(fitted.shape)
    for noise in fitted_noise(uncertainty):
        f = fitted[:, noise.column]
        if isinstance(noise.model, Given):
            roots[:, noise.column] = 1 / noise.eta[0]
            continue
        f = np.where(f > 0, f, 1e-9) if noise.model.is_positive else f
        information = _information(noise.model, jnp.asarray(noise.eta), jnp.asarray(f))
        roots[:, noise.column] = np.sqrt(np.asarray(information))
    return roots


@eqx.filter_jit
def _information(model: AbstractNoise, eta: jax.Array, f: jax.Array) -> jax.Array:
    return jax.vmap(lambda f: model.information(f, eta)[0, 0])(f)


def simulated(
    uncertainty: Uncertainty, fitted: np.ndarray, n: int, random: np.random.Generator
) -> NoisyPoints:
    """Simulate the points of `n` data sets. A simulated value below a limit is only
    known to be below it: the limit of its own time or, where all limits of a quantity
    are the same, this one."""
    points = uncertainty.search_result.points
    pairs = zip(uncertainty.parts, each_part(uncertainty.setup.data, fitted))
    each = [_simulated(part, rows, n, random) for part, (_, rows) in pairs]
    values, below = (np.concatenate(arrays, axis=1) for arrays in zip(*each))
    return NoisyPoints(
        np.broadcast_to(points.times, (n, *np.shape(points.times))),
        values,
        np.broadcast_to(points.weights, (n, *np.shape(points.weights))),
        None if uncertainty.setup.data.below is None else below,
    )


def _simulated(
    uncertainty: Uncertainty, fitted: np.ndarray, n: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Simulate the values of one experiment; return also which are below a limit."""
    data = uncertainty.setup.data
    many = np.broadcast_to(fitted, (n, *fitted.shape))
    values, below = np.array(many), np.zeros(many.shape, bool)
    for noise in fitted_noise(uncertainty):
        column = noise.column
        drawn = noise.model.draw(many[..., column], noise.eta, random)
        was_below = is_below(data)[:, column]
        limits = np.where(was_below, data.x[:, column], -np.inf)
        if was_below.any() and len(set(limits[was_below].tolist())) == 1:
            limits = np.full(len(limits), limits[was_below][0])
        below[..., column] = drawn < limits
        values[..., column] = np.where(drawn < limits, limits, drawn)
    return values, below


def noise_interval(
    noise: FittedNoise, mean: np.ndarray, sd: np.ndarray, q: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the ends between which a new value is expected, q standard deviations
    from the mean. Distances by the noise and by the uncertainty `sd` of the mean are
    added like independent errors, $\sqrt{d^2 + (q\,sd)^2}$, for log-normal noise on the
    logarithmic scale."""
    from scipy.special import ndtr

    model, eta = noise.model, noise.eta
    if isinstance(model, Given):
        # A new value has noise of the usual size.
        eta = np.sqrt(np.nanmean(eta**2, axis=1))
    ends = [model.quantile(mean, eta, float(ndtr(side * q))) for side in (-1, 1)]
    if isinstance(model, LogNormal):
        # Where the model is zero, so is every value.
        share = np.where(mean > 0, sd / np.where(mean > 0, mean, 1.0), 0.0)
        width = np.hypot(q * np.log(eta[0]), q * share)
        return mean * np.exp(-width), mean * np.exp(width)
    low, high = (np.hypot(end - mean, q * sd) for end in ends)
    lowest = 0.0 if model.is_positive else -np.inf
    return np.maximum(mean - low, lowest), mean + high


def mean_size(noise: FittedNoise, f: np.ndarray) -> np.ndarray:
    """Return the size of the noise of new values at the predictions f."""
    if isinstance(noise.model, Given):
        return np.full(np.shape(f), np.sqrt(np.nanmean(noise.eta**2)))
    return noise.model.size(f, noise.eta)


def deviances(setup: FitSetup, fits: RefinedFits) -> np.ndarray:
    """Return minus two log-likelihoods of fits by likelihood: what they minimise,
    without the priors and without the correction for degrees of freedom."""
    return fits.loss - np.array([_added(setup, theta) for theta in fits.theta])


def _added(setup: FitSetup, theta: np.ndarray) -> float:
    """Compute what priors and correction add to minus two log-likelihoods."""
    total = prior_penalty(setup, theta)
    for e, part in enumerate(setup.parts):
        likelihood = part.model.likelihood
        assert likelihood is not None
        models = noise_models(part.model, jnp.asarray(setup.local(theta, e)))
        for q, name in enumerate(likelihood.quantities):
            if name in models and likelihood.charges[q] > 0:
                model = models[name]
                total += float(correction(likelihood, q, model, model.eta()))
    return total


def prior_penalty(setup: FitSetup, theta: np.ndarray) -> float:
    """Compute what the priors add to the sum of squares."""
    priors: Any = setup.model.priors
    if priors is None:
        return 0.0
    is_log = np.asarray(priors.log)
    value = np.where(is_log, np.log(np.where(is_log, theta, 1.0)), theta)
    return float(np.sum(priors.weight * (value - priors.mean) ** 2))


def _variances(gram: np.ndarray) -> tuple[np.ndarray, int]:
    """Compute the variances of the parameters from the matrix of the normal equations,
    over the determined directions; return also how many these are."""
    information = gram[1:, 1:]
    norms = np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    values, vectors = np.linalg.eigh(information / norms[:, None] / norms)
    kept = values > _ZERO_EIGENVALUE
    variances = np.sum(vectors[:, kept] ** 2 / values[kept], axis=1) / norms**2
    return variances, kept.sum()


def effective_dimension(setup: FitSetup, gram: np.ndarray) -> float:
    """Count the parameters that the data determine, from the normal equations."""
    (variances, count), priors = _variances(gram), setup.model.priors
    if priors is None:
        return float(count)
    return float(count - np.sum(variances * np.where(priors.log, 0, priors.weight)))


def free_count(setup: FitSetup, gram: np.ndarray) -> float:
    """Count the free parameters, those with a prior by the share that the prior does
    not determine, and unlike `effective_dimension` also what the data do not determine.
    """
    p, priors = len(setup.lower), setup.model.priors
    if priors is None:
        return float(p)
    has_prior = np.asarray(priors.weight) != 0
    shares = np.where(has_prior, _variances(gram)[0] * priors.weight, 0.0)
    return float(p - np.sum(shares))


def evidence(setup: FitSetup, fits: RefinedFits) -> np.ndarray:
    """Compute the BIC of each fit up to a constant of the data; lower is better."""
    count = np.isfinite(setup.data.x).sum(axis=0)
    measured = count > 0
    if setup.model.likelihood is not None:
        deviance = deviances(setup, fits)
    elif setup.weights_are_absolute:
        deviance = fits.loss
    else:
        mean = fits.squares[:, measured] / count[measured]
        deviance = np.sum(count[measured] * np.log(np.maximum(mean, 1e-300)), axis=1)
    k = [
        effective_dimension(setup, gram) if np.all(np.isfinite(gram)) else np.inf
        for gram in fits.gram
    ]
    bic = deviance + np.log(count.sum()) * np.array(k)
    return np.where(np.isfinite(fits.loss), bic, np.inf)


def at_minima(setup: FitSetup, result: SearchResult) -> RefinedFits:
    """Return all minima of a search with their normal equations, best first."""
    others = np.array([m.theta for m in result.minima[1:]])
    if not len(others):
        return result.best
    n = np.full(len(others), int(result.best.n[0]))
    return result.best.join(refine(setup, others, result.points, n, limit=1))


class Criteria(NamedTuple):
    """Log-likelihood and information criteria of a fit. `parameters` counts the free
    parameters and the noise levels that were not given."""

    parameters: float
    log_likelihood: float
    aic: float
    aicc: float
    bic: float


def criteria(data: Records, fitted: np.ndarray, free: float) -> Criteria:
    """Compute the criteria of a fit with Gaussian noise and `free` free parameters;
    `fitted` is the model at the times of the data, of the shape of `data.x`."""
    residuals = data.x - fitted
    deviance, levels = 0.0, 0
    for column in np.flatnonzero(np.isfinite(residuals).any(axis=0)):
        here = np.isfinite(residuals[:, column])
        r, x = residuals[here, column], data.x[here, column]
        if data.sd is not None:
            deviance += _deviance(r, data.sd[here, column])
        else:
            least = 1e-15 * np.sqrt(np.mean(x**2)) + 1e-150  # Never zero.
            sd = float(np.sqrt(np.mean(r**2)))
            deviance += _deviance(r, max(sd, least))
            levels += 1
    return criteria_of(deviance, free + levels, int(np.isfinite(residuals).sum()))


def _deviance(r: np.ndarray, sd: np.ndarray | float) -> float:
    """Compute minus two log-likelihoods of residuals."""
    constant = math.sqrt(2 * math.pi)
    return float(np.sum((np.abs(r) / sd) ** 2 + 2 * np.log(sd * constant)))


def likelihood_criteria(uncertainty: Uncertainty, free: float) -> Criteria:
    """Compute the criteria of a fit by likelihood, at the greatest likelihood."""
    setup, result = uncertainty.setup, uncertainty.search_result
    likelihood = setup.model.likelihood
    assert likelihood is not None
    charges, rests = 0 * likelihood.charges, np.ones_like(likelihood.rests)
    plain = replace(likelihood, charges=charges, rests=rests)
    plain = replace(setup, model=replace(setup.model, likelihood=plain))
    best = refine(plain, result.best.theta, result.points, result.best.n)
    # Where nothing is better, the first fit counts.
    deviance = float(min(deviances(plain, best)[0], deviances(setup, result.best)[0]))
    return criteria_of(deviance, free, setup.count)


def criteria_of(deviance: float, k: float, n: int) -> Criteria:
    """Compute the criteria for k parameters and n values."""
    aic = deviance + 2 * k
    aicc = aic + 2 * k * (k + 1) / (n - k - 1) if n > k + 1 else np.inf
    return Criteria(k, -0.5 * deviance, aic, aicc, deviance + k * np.log(n))
