"""How minima are ranked: by the sum of squares, with a penalty for implausible ones.

Two kinds of minima fit nearly any data about as well as the true one does. Each pays a
penalty, in units of chi-square, so that it is chosen only if it fits clearly better:

*Fast histories.* The data see the history only during one delay. The higher its
frequency may be, the more often some frequency below the sampling limit follows the
noise a little better than the true one. A history that completes c full cycles within a
delay, with c above `_SLOW_CYCLES`, pays `_FAST_PENALTY` (1 + log2(c / `_SLOW_CYCLES`)).

*Long delays.* If the data oscillate, a delay and the same delay plus one period predict
nearly the same; and the longer a delay is, the more of the record the free history can
fill. A delay more than twice as long as that of another minimum pays `_LONG_PENALTY`.

The penalties decide only between minima. Within a minimum the estimates are those of
plain least squares."""

import numpy as np

from .batches import RefinedFits
from .setup import FitSetup

_SLOW_CYCLES = 1.4
_FAST_PENALTY = 8.0
_LONG_PENALTY = 3.0


def score(setup: FitSetup, fits: RefinedFits) -> np.ndarray:
    """The chi-square of each fit plus its penalties; the lowest score is the best."""
    unit = setup.residual_variance(float(np.min(fits.loss_above_rounding)))
    # A frequency that the data do not depend on costs nothing.
    has_influence = np.diagonal(fits.gram, axis1=1, axis2=2)[:, 1:] > 1e-6 * unit
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = fits.theta / slow_frequency_limit(setup, fits.theta)
    is_fast = setup.is_frequency & has_influence & (excess > 1)
    penalty = _FAST_PENALTY * (1 + np.log2(np.where(is_fast, excess, 1.0)))
    scores = fits.loss / unit + np.sum(np.where(is_fast, penalty, 0.0), axis=1)
    delay = setup.delay(fits.theta)
    is_shorter = delay[None, :] < delay[:, None] / 2
    fits_as_well = scores[None, :] < scores[:, None] + _LONG_PENALTY
    return scores + _LONG_PENALTY * np.any(is_shorter & fits_as_well, axis=1)


def slow_frequency_limit(setup: FitSetup, theta: np.ndarray) -> np.ndarray:
    """The highest frequency of a history that counts as slow, for each row of free
    values, of shape (rows, 1)."""
    return _SLOW_CYCLES * 2 * np.pi / setup.delay(theta)[:, None]
