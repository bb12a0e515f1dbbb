"""How minima are ranked: by the sum of squares, and by what is plausible where the data
cannot tell them apart.

Two kinds of minima fit nearly any data about as well as the true one does:

*Fast histories.* The data see the history only during one delay. The higher its
frequency may be, the more often some frequency below the sampling limit follows the
noise a little better than the true one. A history is fast if it completes more than
`_SLOW_CYCLES` cycles within a delay.

*Long delays.* If the data oscillate, a delay and the same delay plus one period predict
nearly the same; and the longer a delay is, the more of the record the free history can
fill. A delay is long if it is more than twice that of another minimum.

Of minima whose chi-squares differ by less than `_TIED`, those that are neither are
preferred, but never one on a bound. Within a minimum the estimates are those of plain
least squares."""

import numpy as np

from .batches import RefinedFits
from .setup import FitSetup

_SLOW_CYCLES = 1.4
_TIED = 1.0


def score(setup: FitSetup, fits: RefinedFits) -> np.ndarray:
    """The chi-square of each fit, plus `_TIED` for a fast history and for a delay that
    is longer than that of a fit which ties with it; the lowest score is the best."""
    unit = setup.residual_variance(float(np.min(fits.loss_above_rounding)))
    # A frequency that the data do not depend on is not fast.
    has_influence = np.diagonal(fits.gram, axis1=1, axis2=2)[:, 1:] > 1e-6 * unit
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = fits.theta / slow_frequency_limit(setup, fits.theta)
    is_fast = np.any(setup.is_frequency & has_influence & (excess > 1), axis=1)
    scores = fits.loss / unit + _TIED * is_fast
    delay = setup.delay(fits.theta)
    is_on_bound = np.any((fits.theta <= setup.lower) | (fits.theta >= setup.upper), 1)
    is_shorter = delay[None, :] < delay[:, None] / 2
    ties = scores[None, :] < scores[:, None] + _TIED
    is_long = np.any(is_shorter & ties & ~is_on_bound, axis=1)
    return scores + _TIED * is_long


def slow_frequency_limit(setup: FitSetup, theta: np.ndarray) -> np.ndarray:
    """The highest frequency of a history that counts as slow, for each row of free
    values, of shape (rows, 1)."""
    return _SLOW_CYCLES * 2 * np.pi / setup.delay(theta)[:, None]
