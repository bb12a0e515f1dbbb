r"""Information criteria: the likelihood of a fit, with a charge for its parameters.

With $k$ parameters (noise levels that are not given among them), $n$ measured values
and the likelihood $L$:

$$AIC = 2k - 2\log L, \qquad AIC_c = AIC + \frac{2k(k+1)}{n-k-1}, \qquad
  BIC = k\log n - 2\log L.$$

Directions in parameter space that the data do not determine are not counted in k: they
do not improve the fit. A parameter with a prior counts by the share that the data
determine (`evidence.py`), so that k need not be a whole number."""

from typing import NamedTuple

import numpy as np

from .._data.data import Data


class Criteria(NamedTuple):
    """The log-likelihood and the information criteria of a fit. `parameters` counts the
    determined directions and the noise levels that were not given."""

    parameters: float
    log_likelihood: float
    aic: float
    aicc: float
    bic: float


def criteria(data: Data, fitted: np.ndarray, dimension: float) -> Criteria:
    """The criteria of a fit with Gaussian noise.

    `fitted` is the model at the times of the data, of the shape of `data.x`;
    `dimension` is the number of determined directions."""
    residuals = data.x - fitted
    is_measured = np.isfinite(residuals)
    n, count = int(is_measured.sum()), is_measured.sum(axis=0)
    squares = np.where(is_measured, residuals, 0.0) ** 2
    if data.sd is not None:
        sd = np.where(is_measured, data.sd, 1.0)
        normalisation = is_measured * np.log(2 * np.pi * sd**2)
        deviance = float(np.sum(squares / sd**2 + normalisation))
        k = dimension
    else:
        measured = count > 0
        total, count = squares.sum(axis=0)[measured], count[measured]
        size = np.nansum(data.x[:, measured] ** 2, axis=0)
        # The variance of the noise of each quantity, never zero.
        variance = np.maximum(total / count, 1e-30 * size / count + 1e-300)
        deviance = float(np.sum(count * (np.log(2 * np.pi * variance) + 1)))
        k = dimension + len(count)
    return criteria_of(deviance, k, n)


def criteria_of(deviance: float, k: float, n: int) -> Criteria:
    """The criteria of a fit with k parameters to n values, from minus two
    log-likelihoods."""
    aic = deviance + 2 * k
    aicc = aic + 2 * k * (k + 1) / (n - k - 1) if n > k + 1 else np.inf
    return Criteria(k, -0.5 * deviance, aic, aicc, deviance + k * np.log(n))
