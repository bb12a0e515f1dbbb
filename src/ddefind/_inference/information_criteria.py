r"""Information criteria: the likelihood of a fit, with a charge for its parameters.

With $k$ parameters (noise levels that are not given among them), $n$ measured values
and the likelihood $L$:

$$AIC = 2k - 2\log L, \qquad AIC_c = AIC + \frac{2k(k+1)}{n-k-1}, \qquad
  BIC = k\log n - 2\log L.$$

Every free parameter counts in k, also one on a bound or one that the data do not
determine: the model could have used it. A parameter with a prior counts by the share
that its prior does not determine, so that k need not be a whole number.

In a robust fit the likelihood is that of Huber's density, a Gaussian with exponential
tails beyond h standard deviations s,

$$p(r) = \frac{e^{-\rho(r/s)/2}}{s\,C}, \qquad
  \rho(z) = z^2 - \max(|z| - h, 0)^2, \qquad
  C = \sqrt{2\pi}\,\mathrm{erf}(h/\sqrt 2) + \frac{2}{h} e^{-h^2/2}.$$"""

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


def criteria(
    data: Records, fitted: np.ndarray, free: float, huber: float | None = None
) -> Criteria:
    """The criteria of a fit with Gaussian noise, or with Huber's.

    `fitted` is the model at the times of the data, of the shape of `data.x`; `free` is
    the number of free parameters."""
    residuals = data.x - fitted
    deviance, levels = 0.0, 0
    for column in np.flatnonzero(np.isfinite(residuals).any(axis=0)):
        here = np.isfinite(residuals[:, column])
        r, x = residuals[here, column], data.x[here, column]
        if data.sd is not None:
            deviance += _deviance(r, data.sd[here, column], huber)
        else:
            # Never zero.
            least = 1e-15 * np.sqrt(np.mean(x**2)) + 1e-150
            deviance += _deviance(r, max(_likeliest_sd(r, huber), least), huber)
            levels += 1
    return criteria_of(deviance, free + levels, int(np.isfinite(residuals).sum()))


def _deviance(r: np.ndarray, sd: np.ndarray | float, huber: float | None) -> float:
    """Minus two log-likelihoods of residuals."""
    size = np.abs(r) / sd
    if huber is None:
        rho, constant = size**2, math.sqrt(2 * math.pi)
    else:
        rho = size**2 - np.maximum(size - huber, 0.0) ** 2
        tails = 2 / huber * math.exp(-(huber**2) / 2)
        inside = math.erf(huber / math.sqrt(2))
        constant = math.sqrt(2 * math.pi) * inside + tails
    return float(np.sum(rho + 2 * np.log(sd * constant)))


def _likeliest_sd(r: np.ndarray, huber: float | None) -> float:
    r"""The standard deviation s of greatest likelihood. In a robust fit it is where
    $\sum \min(z^2, h|z|) = n$ with z = r / s; then it is below the root mean square."""
    rms = float(np.sqrt(np.mean(r**2)))
    if huber is None or rms == 0:
        return rms
    size, low, high = np.abs(r) / rms, -30.0, 0.0
    # Bisection for log s, down to rounding errors.
    for _ in range(60):
        middle = 0.5 * (low + high)
        z = size / math.exp(middle)
        is_too_small = np.mean(np.minimum(z**2, huber * z)) > 1
        low, high = (middle, high) if is_too_small else (low, middle)
    return rms * math.exp(high)


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
