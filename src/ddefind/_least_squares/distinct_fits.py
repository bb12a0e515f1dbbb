"""The distinct ones of many fits of a data set, by the rule of `same_minimum.py`."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .batches import RefinedFits
from .degrees_of_freedom import standard_errors
from .ranking import score
from .same_minimum import agree, first_at_minimum, predicted_rise
from .setup import FitSetup


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
    rise = predicted_rise(fits.gram[0], theta - fits.theta[0])
    unit = setup.residual_variance(fits.loss_above_rounding[0])
    return float(np.sqrt(max(rise, 0.0) / unit))


def _distance_of_named(setup: FitSetup, fits: RefinedFits, theta: np.ndarray) -> float:
    """The largest distance of a named value, in its standard error."""
    errors = standard_errors(fits.gram[0, 1:, 1:])
    moved = np.abs(theta - fits.theta[0]) / np.maximum(errors, 1e-300)
    return float(np.max(moved[~setup.is_weight], initial=0.0))


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
    near = agree(fits.theta, fits.theta[place])
    if not setup.has_networks:
        return np.all(near, axis=1)
    errors = standard_errors(fits.gram[place, 1:, 1:])
    moved = np.abs(fits.theta - fits.theta[place])
    near |= moved <= np.where(np.isfinite(errors), errors, 0.0)
    return np.all(near[:, ~setup.is_weight], axis=1)


def distinct_minima(setup: FitSetup, fits: RefinedFits) -> tuple[Minimum, ...]:
    """The distinct minima among the fits, which are sorted, the best first."""
    unit = setup.residual_variance(float(np.min(fits.loss_above_rounding)))
    arrays = fits.theta[None], fits.loss[None], fits.gram[None], np.array([unit])
    first = first_at_minimum(*arrays)[0]
    return tuple(
        Minimum(fits.theta[row], float(fits.loss[row]), int(fits.starts[rows].sum()))
        for row in np.unique(first[first >= 0])
        for rows in [first == row]
    )
