"""The best fit and the distinct fits of each data set, by the rules of
`_search/batches.py` and `_search/same_minimum.py`, for many data sets at once."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._search.batches import FAST_PENALTY, SLOW_CYCLES, TIED
from .._search.same_minimum import agree, first_at_minimum
from .refine import Fits
from .sets import Sets


def rounding(sets: Sets, weights: np.ndarray) -> np.ndarray:
    """Return the sum of squares that rounding errors alone may cause, for each set."""
    tiny = (1e-9 * sets.spread[:, None]) ** 2 + (1e-12 * sets.data.x) ** 2
    values = tiny.shape[1] * tiny.shape[2]
    return np.sum((weights * tiny).reshape(len(sets), values), axis=1)


def unit_of(sets: Sets, fits: Fits, weights: np.ndarray) -> np.ndarray:
    """Return the unit of chi-square: the residual variance of the best fit, [sets]."""
    lowest = np.min(fits.loss, axis=1)
    return sets.residual_variance(np.maximum(lowest, rounding(sets, weights)))


def slow_limit(sets: Sets, theta: np.ndarray) -> np.ndarray:
    """Return the highest frequency of a history that counts as slow, [sets, rows]."""
    return SLOW_CYCLES * 2 * np.pi / sets.delay(theta)


def score(sets: Sets, fits: Fits, weights: np.ndarray) -> np.ndarray:
    """Return the score of each fit [sets, rows]; the lowest is the best."""
    unit = unit_of(sets, fits, weights)[:, None]
    scores = fits.loss / unit
    for j in np.flatnonzero(sets.template.is_frequency):
        has_influence = fits.gram[:, :, 1 + j, 1 + j] > 1e-6 * unit
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = fits.theta[..., j] / slow_limit(sets, fits.theta)
        is_fast = has_influence & (excess > 1)
        penalty = FAST_PENALTY * (1 + np.log2(np.where(is_fast, excess, 1.0)))
        scores = scores + np.where(is_fast, penalty, 0.0)
    return scores + TIED * _is_long(sets, fits.theta, scores)


def _is_long(sets: Sets, theta: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return which fits tie with one whose delay is much shorter. (Loops over the few
    rows and values take a third of the time of sums over short axes.)"""
    is_on_bound = np.zeros(scores.shape, bool)
    for j in range(sets.p):
        value, low, high = theta[..., j], sets.lower[:, j], sets.upper[:, j]
        is_on_bound |= (value <= low[:, None]) | (value >= high[:, None])
    delay, limit = sets.delay(theta), scores + TIED
    shorter, half = np.where(is_on_bound, np.inf, delay), delay / 2
    is_long = np.zeros(scores.shape, bool)
    for row in range(scores.shape[1]):
        is_long |= (shorter[:, row, None] < half) & (scores[:, row, None] < limit)
    return is_long


def best_of(sets: Sets, fits: Fits, weights: np.ndarray) -> Fits:
    """Return the best fit of each set, one row."""
    return fits.pick(np.argmin(score(sets, fits, weights), axis=1)[:, None])


def keep_distinct(sets: Sets, fits: Fits, weights: np.ndarray, most: int) -> Fits:
    """Return the best fits at distinct places, at most `most` for each set, best first.
    Each counts the starts of all fits at its place."""
    every = np.arange(len(sets))
    order = np.argsort(score(sets, fits, weights), axis=1, kind="stable")
    theta, starts, finite = (
        array[every[:, None], order]
        for array in (fits.theta, fits.starts, np.isfinite(fits.loss))
    )
    same = _same_places(theta)
    chosen = np.zeros((len(sets), most), int)
    is_kept, count = np.zeros(order.shape, bool), np.zeros(len(sets), int)
    for row in range(order.shape[1]):
        is_known = np.any(is_kept & same[:, :, row], axis=1)
        is_new = ~is_known & (count < most) & (finite[:, row] | (count == 0))
        chosen[every[is_new], count[is_new]] = row
        is_kept[:, row] = is_new
        count += is_new
    reached = np.stack(
        [np.sum(starts * same[every, :, rows], axis=1) for rows in chosen.T], axis=1
    )
    kept = replace(fits.pick(order[every[:, None], chosen]), starts=reached)
    return kept.where((np.arange(most) < count[:, None]) & kept.exists)


def _same_places(theta: np.ndarray) -> np.ndarray:
    """Return whether row a of a set is at the place of row b, [sets, a, b]."""
    same = np.ones((*theta.shape[:2], theta.shape[1]), bool)
    for value in np.moveaxis(theta, 2, 0):
        same &= agree(value[:, :, None], value[:, None])
    return same


def is_same_place(theta: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return which rows of `theta` are at the `place`."""
    return np.all(agree(theta, place[:, None]), axis=2)


class Minima(NamedTuple):
    """The distinct minima of each set, best first: their places [sets, most, p], losses
    and numbers of starts [sets, most]. Behind the last one the loss is infinite."""

    theta: np.ndarray
    loss: np.ndarray
    starts: np.ndarray


def distinct_minima(sets: Sets, fits: Fits, weights: np.ndarray) -> Minima:
    """Return the distinct minima among the fits."""
    order = np.argsort(score(sets, fits, weights), axis=1, kind="stable")
    fits = fits.pick(order)
    most, loss = fits.theta.shape[1], fits.loss
    unit = unit_of(sets, fits, weights)
    owner = first_at_minimum(fits.theta, loss, fits.gram, unit)
    starts = np.stack(
        [np.sum(fits.starts * (owner == row), axis=1) for row in range(most)], axis=1
    )
    is_minimum = owner == np.arange(most)
    first = np.argsort(~is_minimum, axis=1, kind="stable")
    loss = np.where(is_minimum, loss, np.inf)
    kept = (np.take_along_axis(array, first, axis=1) for array in (loss, starts))
    return Minima(fits.pick(first).theta, *kept)
