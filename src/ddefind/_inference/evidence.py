r"""The evidence for a fit: how well it follows the data, and how much it had to know.

It is $BIC = k \log n - 2 \log L$ without the terms that all models of the same data
share. A parameter with a prior counts in k by the share that the data determine, and
not the prior: $k = \mathrm{tr}\,[(J^T W J + P)^{-1} J^T W J]$ with the weights P of the
priors."""

import numpy as np

from .._least_squares.batches import RefinedFits, refine
from .._least_squares.search import SearchResult
from .._least_squares.setup import FitSetup
from .fitted_noise import deviances

# Directions of the scaled information matrix below this are not determined at all.
_ZERO_EIGENVALUE = 1e-10


def effective_dimension(setup: FitSetup, gram: np.ndarray) -> float:
    """The number of parameters that the data determine; `gram` is the matrix of the
    normal equations of a fit."""
    information = gram[1:, 1:]
    norms = np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    values, vectors = np.linalg.eigh(information / norms[:, None] / norms)
    kept = values > _ZERO_EIGENVALUE
    priors = setup.model.priors
    if priors is None:
        return float(kept.sum())
    variance = np.sum(vectors[:, kept] ** 2 / values[kept], axis=1) / norms**2
    return float(kept.sum() - np.sum(variance * np.where(priors.log, 0, priors.weight)))


def free_count(setup: FitSetup, gram: np.ndarray) -> float:
    """The number of free parameters, each with a prior counted by the share that its
    prior does not determine. Unlike `effective_dimension` it counts what the data do
    not determine, too."""
    p, priors = len(setup.lower), setup.model.priors
    if priors is None:
        return float(p)
    has_no_prior = np.asarray(priors.weight) == 0
    norms = np.sqrt(np.maximum(np.diagonal(gram)[1:], 1e-300))
    values, vectors = np.linalg.eigh(gram[1:, 1:] / norms[:, None] / norms)
    kept = values > _ZERO_EIGENVALUE
    variance = np.sum(vectors[:, kept] ** 2 / values[kept], axis=1) / norms**2
    return float(p - np.sum(np.where(has_no_prior, 0.0, variance * priors.weight)))


def evidence(setup: FitSetup, fits: RefinedFits) -> np.ndarray:
    """The BIC of each fit, the lower the better, up to a constant of the data."""
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
    """The best fit of a search, and its other minima with their normal equations."""
    others = np.array([m.theta for m in result.minima[1:]])
    if not len(others):
        return result.best
    n = np.full(len(others), int(result.best.n[0]))
    return result.best.join(refine(setup, others, result.points, n, limit=1))
