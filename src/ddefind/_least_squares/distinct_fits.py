"""Which of many fits are the same, and which are different minima."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .batches import RefinedFits
from .degrees_of_freedom import standard_errors
from .ranking import score
from .setup import FitSetup

# Two fits are at the same minimum if their chi-squares differ by less than this, and
# the quadratic approximation predicts a difference below this between their places.
SAME_CHI_SQUARE = 0.1


class Minimum(NamedTuple):
    """A local minimum of the sum of squares, and how many of the starts led there."""

    theta: np.ndarray
    loss: float
    starts: int


def distance(setup: FitSetup, fits: RefinedFits, theta: np.ndarray) -> float:
    """The distance between the first fit and `theta`, in joint standard errors. Beside
    networks it is that of the named values: weights move along curved valleys, on which
    they are all as good, as long as a fit goes on."""
    if setup.has_networks:
        return _distance_of_named(setup, fits, theta)
    rise = _predicted_rise(fits, 0, theta)
    unit = setup.residual_variance(fits.loss_above_rounding[0])
    return float(np.sqrt(max(rise, 0.0) / unit))


def _distance_of_named(setup: FitSetup, fits: RefinedFits, theta: np.ndarray) -> float:
    """The largest distance of a named value, in its standard error."""
    errors = standard_errors(fits.gram[0, 1:, 1:])
    moved = np.abs(theta - fits.theta[0]) / np.maximum(errors, 1e-300)
    return float(np.max(moved[~setup.is_weight], initial=0.0))


def _predicted_rise(fits: RefinedFits, row: int, theta: np.ndarray) -> float:
    """The increase of the sum of squares from fit `row` to `theta` that its quadratic
    approximation predicts."""
    displacement = theta - fits.theta[row]
    with np.errstate(over="ignore", invalid="ignore"):
        return float(displacement @ fits.gram[row, 1:, 1:] @ displacement)


def keep_distinct(setup: FitSetup, fits: RefinedFits, most: int) -> RefinedFits:
    """The best fits at distinct places, at most `most` of them, best first.

    Of several fits at the same place the best is kept, and counts all their starts."""
    order = np.argsort(score(setup, fits), kind="stable")
    kept: list[int] = []
    for row in order:
        if len(kept) == most or (kept and not np.isfinite(fits.loss[row])):
            break
        if not any(is_same_place(setup, fits, place)[row] for place in kept):
            kept.append(int(row))
    same = [is_same_place(setup, fits, row) for row in kept]
    starts = np.array([int(fits.starts[rows].sum()) for rows in same])
    return replace(fits.take(kept), starts=starts)


def is_same_place(setup: FitSetup, fits: RefinedFits, place: int) -> np.ndarray:
    """For each fit, whether its values agree with those of fit `place` to 0.1% or,
    beside networks, its named values to a standard error of that fit."""
    moved = np.abs(fits.theta - fits.theta[place])
    allowed = 1e-3 * np.abs(fits.theta[place]) + 1e-12
    if not setup.has_networks:
        return np.all(moved <= allowed, axis=1)
    errors = standard_errors(fits.gram[place, 1:, 1:])
    near = moved <= np.maximum(allowed, np.where(np.isfinite(errors), errors, 0.0))
    return np.all(near[:, ~setup.is_weight], axis=1)


def distinct_minima(setup: FitSetup, fits: RefinedFits) -> tuple[Minimum, ...]:
    """The distinct minima among the fits, in the order of the fits.

    Unlike `keep_distinct` this compares by chi-square: along a ridge, places that
    differ much may belong to one minimum."""
    unit = setup.residual_variance(float(np.min(fits.loss_above_rounding)))
    kept: list[int] = []
    starts: list[int] = []
    for row in np.flatnonzero(np.isfinite(fits.loss)):
        for index, other in enumerate(kept):
            rise = _predicted_rise(fits, other, fits.theta[row])
            difference = abs(fits.loss[row] - fits.loss[other])
            if max(rise, difference) < SAME_CHI_SQUARE * unit:
                starts[index] += int(fits.starts[row])
                break
        else:
            kept.append(int(row))
            starts.append(int(fits.starts[row]))
    losses = fits.loss
    return tuple(
        Minimum(fits.theta[row], float(losses[row]), count)
        for row, count in zip(kept, starts)
    )
