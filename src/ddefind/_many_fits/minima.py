"""Which of the fits of each data set is the best, and which of them differ.

This is `ranking.py` and `distinct_fits.py` for many data sets at once."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._least_squares.distinct_fits import SAME_CHI_SQUARE
from .._least_squares.ranking import FAST_PENALTY, SLOW_CYCLES, TIED
from .fits import Fits
from .sets import Sets


def rounding(sets: Sets, weights: np.ndarray) -> np.ndarray:
    """The sum of squares that rounding errors alone may cause, for each set."""
    tiny = (1e-9 * sets.spread[:, None]) ** 2 + (1e-12 * sets.data.x) ** 2
    values = tiny.shape[1] * tiny.shape[2]
    return np.sum((weights * tiny).reshape(len(sets), values), axis=1)


def unit_of(sets: Sets, fits: Fits, weights: np.ndarray) -> np.ndarray:
    """The unit of chi-square of each set: the variance of the residuals of its best
    fit."""
    lowest = np.min(fits.loss, axis=1)
    return sets.residual_variance(np.maximum(lowest, rounding(sets, weights)))


def slow_limit(sets: Sets, theta: np.ndarray) -> np.ndarray:
    """The highest frequency of a history that counts as slow, [sets, rows]."""
    return SLOW_CYCLES * 2 * np.pi / sets.delay(theta)


def score(sets: Sets, fits: Fits, weights: np.ndarray) -> np.ndarray:
    """The score of each fit [sets, rows]; the lowest is the best."""
    unit = unit_of(sets, fits, weights)[:, None]
    information = np.diagonal(fits.gram, axis1=2, axis2=3)[..., 1:]
    has_influence = information > 1e-6 * unit[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = fits.theta / slow_limit(sets, fits.theta)[..., None]
    is_fast = sets.template.is_frequency & has_influence & (excess > 1)
    penalty = FAST_PENALTY * (1 + np.log2(np.where(is_fast, excess, 1.0)))
    scores = fits.loss / unit + np.sum(np.where(is_fast, penalty, 0.0), axis=2)
    delay = sets.delay(fits.theta)
    lower, upper = sets.lower[:, None], sets.upper[:, None]
    is_on_bound = np.any((fits.theta <= lower) | (fits.theta >= upper), axis=2)
    is_shorter = delay[:, None, :] < delay[:, :, None] / 2
    ties = scores[:, None, :] < scores[:, :, None] + TIED
    is_long = np.any(is_shorter & ties & ~is_on_bound[:, None, :], axis=2)
    return scores + TIED * is_long


def best_of(sets: Sets, fits: Fits, weights: np.ndarray) -> Fits:
    """The best fit of each set, one row."""
    return fits.pick(np.argmin(score(sets, fits, weights), axis=1)[:, None])


def keep_distinct(sets: Sets, fits: Fits, weights: np.ndarray, most: int) -> Fits:
    """The best fits at distinct places, at most `most` for each set, best first. Of
    several at one place the best is kept, and counts all their starts."""
    order = np.argsort(score(sets, fits, weights), axis=1, kind="stable")
    fits, all_sets = fits.pick(order), np.arange(len(sets))
    rows = np.zeros((len(sets), most), int)
    count = np.zeros(len(sets), int)
    finite = np.isfinite(fits.loss)
    for row in range(fits.theta.shape[1]):
        place = fits.theta[:, row]
        kept = fits.theta[all_sets[:, None], rows]
        is_kept = np.arange(most) < count[:, None]
        is_known = np.any(is_same_place(kept, place) & is_kept, axis=1)
        is_new = ~is_known & (count < most) & (finite[:, row] | (count == 0))
        rows[all_sets[is_new], count[is_new]] = row
        count += is_new
    kept, starts = fits.pick(rows), np.zeros_like(rows)
    for index in range(most):
        same = is_same_place(fits.theta, kept.theta[:, index])
        starts[:, index] = np.sum(fits.starts * same, axis=1)
    kept = replace(kept, starts=starts)
    return kept.where((np.arange(most) < count[:, None]) & kept.exists)


def is_same_place(theta: np.ndarray, place: np.ndarray) -> np.ndarray:
    """For each row of `theta`, whether it agrees with the `place` to 0.1%."""
    place = place[:, None]
    return np.all(np.abs(theta - place) <= 1e-3 * np.abs(place) + 1e-12, axis=2)


def rise(gram: np.ndarray, step: np.ndarray) -> np.ndarray:
    """The increase of the sum of squares that a quadratic approximation predicts for a
    step from its minimum."""
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.sum(gram[..., 1:, 1:] * step[..., None, :], axis=-1)
        return np.sum(moved * step, axis=-1)


class Minima(NamedTuple):
    """The distinct minima of each set, best first: their places [sets, most, p], losses
    and starts [sets, most]; the loss is infinite behind the last one."""

    theta: np.ndarray
    loss: np.ndarray
    starts: np.ndarray


def distinct_minima(sets: Sets, fits: Fits, weights: np.ndarray) -> Minima:
    """The distinct minima among the fits."""
    order = np.argsort(score(sets, fits, weights), axis=1, kind="stable")
    fits = fits.pick(order)
    unit = unit_of(sets, fits, weights)
    most, loss = fits.theta.shape[1], fits.loss
    owner = np.full(loss.shape, -1)
    for row in range(most):
        for other in range(row):
            predicted = rise(
                fits.gram[:, other], fits.theta[:, row] - fits.theta[:, other]
            )
            with np.errstate(invalid="ignore"):
                difference = np.abs(loss[:, row] - loss[:, other])
                same = np.maximum(predicted, difference) < SAME_CHI_SQUARE * unit
            is_first = owner[:, other] == other
            joins = (owner[:, row] < 0) & is_first & same & np.isfinite(loss[:, row])
            owner[joins, row] = other
        own = (owner[:, row] < 0) & np.isfinite(loss[:, row])
        owner[own, row] = row
    starts = np.stack(
        [np.sum(fits.starts * (owner == row), axis=1) for row in range(most)], axis=1
    )
    is_minimum = owner == np.arange(most)
    first = np.argsort(~is_minimum, axis=1, kind="stable")
    every = np.arange(len(sets))[:, None]
    loss = np.where(is_minimum, loss, np.inf)
    return Minima(fits.theta[every, first], loss[every, first], starts[every, first])
