r"""Information criteria: the likelihood of a fit, with a charge for its parameters.

With $k$ parameters (noise levels that are not given among them), $n$ measured values
and the likelihood $L$:

$$AIC = 2k - 2\log L, \qquad AIC_c = AIC + \frac{2k(k+1)}{n-k-1}, \qquad
  BIC = k\log n - 2\log L.$$

Every free parameter counts in k, also one on a bound or one that the data do not
determine: the model could have used it. A parameter with a prior counts by the share
that its prior does not determine, so that k need not be a whole number."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._data.study_data import Records
from .._least_squares.batches import refine
from .covariance import Uncertainty
from .fitted_noise import deviances


class Criteria(NamedTuple):
    """The log-likelihood and the information criteria of a fit. `parameters` counts the
    free parameters and the noise levels that were not given."""

    parameters: float
    log_likelihood: float
    aic: float
    aicc: float
    bic: float


def criteria(data: Records, fitted: np.ndarray, free: float) -> Criteria:
    """The criteria of a fit with Gaussian noise.

    `fitted` is the model at the times of the data, of the shape of `data.x`; `free` is
    the number of free parameters."""
    residuals = data.x - fitted
    deviance, levels = 0.0, 0
    for column in np.flatnonzero(np.isfinite(residuals).any(axis=0)):
        here = np.isfinite(residuals[:, column])
        r, x = residuals[here, column], data.x[here, column]
        if data.sd is not None:
            deviance += _deviance(r, data.sd[here, column])
        else:
            # Never zero.
            least = 1e-15 * np.sqrt(np.mean(x**2)) + 1e-150
            sd = float(np.sqrt(np.mean(r**2)))
            deviance += _deviance(r, max(sd, least))
            levels += 1
    return criteria_of(deviance, free + levels, int(np.isfinite(residuals).sum()))


def _deviance(r: np.ndarray, sd: np.ndarray | float) -> float:
    """Minus two log-likelihoods of residuals."""
    constant = math.sqrt(2 * math.pi)
    return float(np.sum((np.abs(r) / sd) ** 2 + 2 * np.log(sd * constant)))


def likelihood_criteria(uncertainty: Uncertainty, free: float) -> Criteria:
    """The criteria of a fit by likelihood, at the greatest likelihood: without the
    correction for degrees of freedom."""
    setup, result = uncertainty.setup, uncertainty.search_result
    likelihood = setup.model.likelihood
    assert likelihood is not None
    plain = replace(
        likelihood,
        charges=0 * likelihood.charges,
        rests=np.ones_like(likelihood.rests),
    )
    plain = replace(setup, model=replace(setup.model, likelihood=plain))
    best = refine(plain, result.best.theta, result.points, result.best.n)
    # Of what was found at first, where nothing is better.
    deviance = float(min(deviances(plain, best)[0], deviances(setup, result.best)[0]))
    return criteria_of(deviance, free, setup.count)


def criteria_of(deviance: float, k: float, n: int) -> Criteria:
    """The criteria of a fit with k parameters to n values, from minus two
    log-likelihoods."""
    aic = deviance + 2 * k
    aicc = aic + 2 * k * (k + 1) / (n - k - 1) if n > k + 1 else np.inf
    return Criteria(k, -0.5 * deviance, aic, aicc, deviance + k * np.log(n))
