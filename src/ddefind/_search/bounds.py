"""The bounds of parameters to which the user gives none.

Delays and the frequencies of histories are sought where the sampling times can show
them, and the shapes of distributions where they differ from a single delay."""

from dataclasses import dataclass
from typing import final

import numpy as np

from .._data.data import Data
from .._util import wording

# The shortest delays that are looked for, as shares of the distance between
# neighbouring times and of the record.
_SHARE_OF_SPACING, _SHORTEST = 0.05, 1e-3


def spacing(data: Data) -> float:
    """Return the median distance between neighbouring times."""
    return float(np.median(np.diff(np.unique(data.t))))


def usual_delays(data: Data) -> tuple[float, float]:
    """Return the range in which delays are looked for by default: from a small share of
    a sampling interval to 0.9 of the record."""
    return max(_SHARE_OF_SPACING * spacing(data), _SHORTEST * data.T), 0.9 * data.T


def possible_delays(data: Data) -> tuple[float, float]:
    """Return the range that a fit cannot leave. It is wider than the usual one, so that
    no interval ends where the search began."""
    return 0.2 * _SHORTEST * data.T, 2 * data.T


@final
@dataclass(frozen=True)
class Bounds:
    """The bounds and start values of the free values, which are filled in in place."""

    lower: np.ndarray
    upper: np.ndarray
    guess: np.ndarray

    def fill(self, j: int, low: float = -np.inf, high: float = np.inf) -> None:
        """Set the missing bounds of value `j`."""
        self.lower[j] = low if np.isinf(self.lower[j]) else self.lower[j]
        self.upper[j] = high if np.isinf(self.upper[j]) else self.upper[j]


def bound_delay(data: Data, bounds: Bounds, j: int, name: str) -> None:
    """Set the missing bounds of a delay to those of possible delays, widened where the
    user's start value lies outside of them."""
    lower, upper, start = bounds.lower, bounds.upper, bounds.guess[j]
    if upper[j] <= 0:
        raise ValueError(
            f"{wording.setting(name)} has the upper bound {upper[j]:g}, but a delay "
            "is positive."
        )
    low, high = possible_delays(data)
    if np.isfinite(start):
        low, high = min(low, start / 4), max(high, 1.5 * start)
    low = min(low, upper[j] / 10)
    lower[j] = low if np.isinf(lower[j]) else max(lower[j], 1e-6 * data.T)
    bounds.fill(j, high=max(high, 2 * lower[j]))


def delays_to_try(data: Data, lower: float, upper: float) -> tuple[float, float]:
    """Return the range from which starts for a delay with these bounds are drawn: where
    a bound was not given, the usual one."""
    (least, most), (low, high) = possible_delays(data), usual_delays(data)
    low = max(low, lower) if lower <= least and low < upper else lower
    high = min(high, upper) if upper >= most and high > low else upper
    return low, high


def bound_shape(bounds: Bounds, j: int, usual: tuple[float, float]) -> None:
    """Set the missing bounds of the shape of a distribution to the `usual` range,
    widened where the user's values lie outside of it."""
    least, most = usual
    bounds.fill(j, low=least)
    high = max(most, 2 * bounds.lower[j], 1.5 * np.nan_to_num(bounds.guess[j]))
    bounds.fill(j, high=high)


def bound_frequency(data: Data, bounds: Bounds, j: int) -> None:
    """Set the missing bounds of a frequency.

    The histories of (A, omega) and (-A, -omega) are the same, so that omega is taken to
    be positive unless the user's bounds exclude it. Its upper bound is the sampling
    limit. Its lower bound is a period of twice the record: a slower sine is a straight
    line, from which A and omega cannot be estimated separately."""
    lower, upper = bounds.lower, bounds.upper
    if upper[j] > 0:
        bounds.fill(j, high=max(np.pi / spacing(data), 2 * lower[j]))
        slowest = min(np.pi / data.T, 0.1 * upper[j])
        lower[j] = lower[j] if lower[j] > 0 else slowest
