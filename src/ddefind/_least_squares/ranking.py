r"""How minima are ranked: by the sum of squares, and by what is plausible where the
data cannot tell them apart.

*Long delays.* If the data oscillate, a delay and the same delay plus one period predict
nearly the same; and the longer a delay is, the more of the record the free history can
fill. Of minima whose chi-squares differ by less than `TIED`, one with a delay more
than twice that of another is not preferred; but no minimum on a bound is preferred to
it.

*Fast histories.* The data see the history only during one delay. The higher its
frequency may be, the more frequencies there are below the sampling limit, and among
many of them some always follow the noise better than the true one does. A history that
completes c full cycles within a delay, with c above `SLOW_CYCLES`, must lower
chi-square by `FAST_PENALTY` (1 + log2(c / `SLOW_CYCLES`)): so much does the best of
as many frequencies by chance.

*Networks.* A network with a few more turns follows the noise better at another delay.
Fits with networks are compared by their evidence, the probability of the data averaged
over the weights (Laplace's approximation): twice its negative logarithm is
$S + \log\det H$ with the Hessian H of S / 2, up to a constant. The approximation is
off by a few units, so that such fits tie within `TIED_NETWORKS`.

Within a minimum the estimates are those of plain least squares."""

import numpy as np

from .batches import RefinedFits
from .setup import FitSetup

SLOW_CYCLES = 1.4
FAST_PENALTY = 8.0
TIED, TIED_NETWORKS = 1.0, 8.0


def score(setup: FitSetup, fits: RefinedFits) -> np.ndarray:
    """The chi-square of each fit, plus what a fast history and a long delay pay; the
    lowest score is the best."""
    unit = setup.residual_variance(float(np.min(fits.loss_above_rounding)))
    # A frequency that the data do not depend on costs nothing.
    has_influence = np.diagonal(fits.gram, axis1=1, axis2=2)[:, 1:] > 1e-6 * unit
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = fits.theta / slow_frequency_limit(setup, fits.theta)
    is_fast = setup.is_frequency & has_influence & (excess > 1)
    penalty = FAST_PENALTY * (1 + np.log2(np.where(is_fast, excess, 1.0)))
    scores = fits.loss / unit + np.sum(np.where(is_fast, penalty, 0.0), axis=1)
    tied = TIED
    if setup.has_networks:
        scores += _log_determinants(fits)
        tied = TIED_NETWORKS
    delay = setup.delay(fits.theta)
    is_on_bound = np.any((fits.theta <= setup.lower) | (fits.theta >= setup.upper), 1)
    is_shorter = delay[None, :] < delay[:, None] / 2
    ties = scores[None, :] < scores[:, None] + tied
    is_long = np.any(is_shorter & ties & ~is_on_bound, axis=1)
    return scores + tied * is_long


def _log_determinants(fits: RefinedFits) -> np.ndarray:
    """log det H of each fit; zero where there is none, so that its loss decides."""
    found = np.zeros(len(fits.theta))
    for row in np.flatnonzero(np.isfinite(fits.gram).all(axis=(1, 2))):
        sign, found[row] = np.linalg.slogdet(fits.gram[row, 1:, 1:])
        found[row] = found[row] if sign > 0 else 0.0
    return found


def slow_frequency_limit(setup: FitSetup, theta: np.ndarray) -> np.ndarray:
    """The highest frequency of a history that counts as slow, for each row of free
    values, of shape (rows, 1)."""
    return SLOW_CYCLES * 2 * np.pi / setup.delay(theta)[:, None]
