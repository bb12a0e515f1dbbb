"""By what minima are ranked: the sum of squares, and preferences where it hardly tells.

*Slow histories.* A history is seen through one delay only. The faster it may swing, the
more often some frequency up to the sampling limit follows the noise of the data a
little better than the true one. A history with c full cycles in a delay, more than
`_CYCLES`, must therefore lower chi-square by `_FAST` (1 + log2(c / `_CYCLES`)).

*Short delays.* In data that oscillate, a delay and one that is longer by a period say
nearly the same; and the longer it is, the more of the record does the free history
fill. A delay more than twice as long as another must lower chi-square by `_LONG`.

This decides between minima; estimates within a minimum are those of plain least
squares."""

import numpy as np

from .batches import RefinedFits
from .setup import FitSetup

_CYCLES, _FAST, _LONG = 1.4, 8.0, 3.0


def score(setup: FitSetup, fits: RefinedFits) -> np.ndarray:
    """The sum of squares in units of the noise, and what a fast history and a long
    delay are charged."""
    unit = setup.variance(float(np.min(fits.scatter)))
    felt = np.diagonal(fits.gram, axis1=1, axis2=2)[:, 1:] > 1e-6 * unit
    excess = fits.theta / slow_limit(setup, fits.theta)
    fast = setup.frequencies & felt & (excess > 1)
    charge = _FAST * (1 + np.log2(np.where(fast, excess, 1.0)))
    found = fits.loss / unit + np.sum(np.where(fast, charge, 0.0), axis=1)
    delay = setup.delay(fits.theta)
    shorter = delay[None, :] < delay[:, None] / 2
    as_good = found[None, :] < found[:, None] + _LONG
    return found + _LONG * np.any(shorter & as_good, axis=1)


def slow_limit(setup: FitSetup, theta: np.ndarray) -> np.ndarray:
    """The highest frequency of a slow history, for each row of free values."""
    return _CYCLES * 2 * np.pi / setup.delay(theta)[:, None]
