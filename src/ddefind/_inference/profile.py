"""The profile of a parameter: the best fits while it is held at a value after another,
and the confidence interval that follows."""

from dataclasses import dataclass
from typing import final

import numpy as np

from .profile_end import EndSearch, Optimum


@final
@dataclass(frozen=True)
class Profile:
    """The profile of one parameter, and its confidence interval.

    `values` are the values at which the parameter was held, in increasing order, `r`
    the root of the excess chi-square there, and `theta` all free values of these fits,
    one row for each. An end of `interval` is infinite where the profile stays below
    the `quantile`; `reached` is how far it was followed. `breakdown` says for each end
    why it is open although the profile could not be followed farther: the solutions
    explode there, or the solver's steps matter; it is empty for others."""

    name: str
    estimate: float
    quantile: float
    interval: tuple[float, float]
    reached: tuple[float, float]
    values: np.ndarray
    r: np.ndarray
    theta: np.ndarray
    breakdown: tuple[str, str] = ("", "")

    @property
    def closed(self) -> tuple[bool, bool]:
        """Whether the interval has a finite lower and a finite upper end."""
        low, high = self.interval
        return bool(np.isfinite(low)), bool(np.isfinite(high))


def unknown_profile(name: str, theta: np.ndarray, j: int, quantile: float) -> Profile:
    """The profile of free value j where there is no fit to follow it from: its interval
    is not known."""
    ends, none = (np.nan, np.nan), np.zeros(0)
    estimate = float(theta[j])
    return Profile(name, estimate, quantile, ends, ends, none, none, theta[None][:0])


def assemble(
    name: str,
    optimum: Optimum,
    quantile: float,
    outermost: tuple[EndSearch, EndSearch],
    ends: list[EndSearch],
) -> Profile:
    """The profile from all searches for its ends; `outermost` are those that set the
    lower and the upper end of the interval."""
    low, high = outermost
    estimate = float(optimum.theta[low.j])
    visited = [(estimate, 0.0, optimum.theta)]
    visited += [
        fit
        for end in ends
        for fit in end.visited
        # A fit inside of the interval with r above the quantile missed the minimum.
        if fit[1] < quantile or not low.limit < fit[0] < high.limit
    ]
    near_zero = (fit for end in ends for fit in end.near_zero)
    visited = [fit for fit in (*visited, *near_zero) if np.isfinite(fit[1])]
    values, r, theta = (np.array(column) for column in zip(*visited))
    order = np.argsort(values, kind="stable")
    order = order[_is_on_lowest_branch(values[order], r[order])]
    lowest = low.inside if low.breakdown else float(values.min())
    highest = high.inside if high.breakdown else float(values.max())
    return Profile(
        name,
        estimate,
        quantile,
        (float(low.limit), float(high.limit)),
        (lowest, highest),
        values[order],
        r[order],
        theta[order],
        (low.breakdown, high.breakdown),
    )


def _is_on_lowest_branch(values: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Which points belong to the profile. Others are fits at a higher local minimum:
    there is a point close by with a much lower r."""
    apart, sizes = np.abs(values[:, None] - values), np.abs(values)
    is_close = apart <= 0.03 * np.ptp(values)
    # Values of different orders of magnitude are not close.
    is_close &= apart <= 0.3 * np.maximum(sizes[:, None], sizes)
    return ~np.any(is_close & (r[None, :] < r[:, None] - 0.3), axis=1)
