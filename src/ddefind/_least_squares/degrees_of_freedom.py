"""The degrees of freedom of a fit, and the variance of its residuals.

Both are defined here alone. What counts as determined by the data is an argument,
because it differs between the two stages of a fit:

- The *search* (`FitSetup.freedom`) counts every free parameter. It compares many
  unfinished fits with each other and needs one number that is the same for all of them
  and known before the first.
- The *inference* (`Uncertainty.freedom`) looks at the best fit alone and counts only
  the directions in parameter space that the data determine there. A direction without
  influence on the residuals absorbs no noise, and must not cost a degree of freedom.
"""

import math

import numpy as np


def degrees_of_freedom(values: int, determined: int) -> int:
    """The number of measured values less that of determined quantities, at least one.

    >>> degrees_of_freedom(values=50, determined=4), degrees_of_freedom(3, 4)
    (46, 1)
    """
    return max(values - determined, 1)


def effective_count(
    information: np.ndarray, prior: np.ndarray, is_weight: np.ndarray
) -> float:
    """How many weights of networks the data determine: the sum of their shares.

    >>> shares = effective_count(np.diag([100.0, 2.0]), np.ones(2), np.ones(2, bool))
    >>> round(shares, 9)
    1.49
    """
    if not is_weight.any():
        return 0.0
    return float(np.sum(determined_shares(information, prior)[is_weight]))


def determined_shares(information: np.ndarray, prior: np.ndarray) -> np.ndarray:
    r"""To which share the data determine each value, and not its prior:
    $1 - A_j (H^{-1})_{jj}$, with the `information` matrix H of data and priors and the
    information A of the `prior` of each value."""
    if not np.all(np.isfinite(information)):
        return np.zeros(len(prior))
    return np.clip(1 - prior * standard_errors(information) ** 2, 0.0, 1.0)


def standard_errors(information: np.ndarray) -> np.ndarray:
    """The standard errors that belong to an information matrix; directions without
    information are left out.

    >>> standard_errors(np.diag([4.0, 25.0])).tolist()
    [0.5, 0.2]
    """
    scale = 1 / np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    scaled = scale[:, None] * information * scale
    variances = np.diagonal(np.linalg.pinv(scaled, rcond=1e-13, hermitian=True))
    return np.sqrt(np.maximum(variances, 0.0)) * scale


def residual_variance(loss: float, freedom: int, *, is_known: bool) -> float:
    """The variance of the weighted residuals, which is the unit of chi-square.

    It is one where the weights are already those of the noise (`is_known`), and where
    there is no fit (the weighted sum of squares `loss` is not finite). Otherwise it is
    estimated as `loss` over the degrees of freedom."""
    if is_known or not math.isfinite(loss):
        return 1.0
    return max(loss / freedom, 1e-300)
