"""The searches for the best fits of many data sets, all at the same time.

The phases of `_search/search.py`, `explore.py` and `solver_choice.py` follow here:
starts, coarse and refined fits, a second round around the best, noise levels, finer
steps, and whether fixed steps are right, for `solver="auto"`. Here each phase is done
for all data sets together, as arrays.

A search is left if the best minimum was not confirmed, a fit ended at a kink, or fixed
steps are not good enough. Such data sets are fitted alone."""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from .._search.explore import (
    AS_LOW,
    COARSE_EVALUATIONS,
    FIRST_WINDOWS,
    LARGEST_REDUCED_CHI_SQUARE,
    SURVIVORS,
)
from .._search.same_minimum import predicted_rise
from .._search.search import MAX_STEPS, SAME_SCORE, STEP_TOLERANCE
from .._search.starts import PLACE, SUSPICIOUS, turns_too_often
from .._search.try_adaptive import (
    EVALUATIONS,
    FACTOR,
    FLAT,
    MOST_MOVES,
    SMALLER,
    STEP_ERROR,
    WALL,
)
from .minima import (
    Minima,
    best_of,
    distinct_minima,
    is_same_place,
    keep_distinct,
    score,
    unit_of,
)
from .refine import Fits, FitTargets, refine, refine_promising
from .sets import Sets
from .starts import Streams, draw_starts, matched_starts, perturbed_starts

# The most rounds of starts for a set whose best minimum follows the data, but was
# reached by one start only.
_MOST_ROUNDS = 4
# The most rounds in which noise levels are estimated, the relative change with which
# they end, and the number of fits that take part.
_NOISE_ROUNDS, _NOISE_TOLERANCE, _NOISE_FITS = 20, 1e-4, 6


@final
@dataclass(frozen=True)
class Found:
    """The results of the searches, a row for each data set: `SearchResult` as arrays.

    `best` has one row for each set. Searches that are not `is_usual` are left."""

    best: Fits
    noise: np.ndarray
    weighting: np.ndarray
    minima: Minima
    starts: np.ndarray
    evaluations: np.ndarray
    step_error: np.ndarray
    is_usual: np.ndarray

    def take(self, chosen: Any) -> "Found":
        """Return the searches of some of the data sets."""
        parts = dict(vars(self))
        best, minima = parts.pop("best").sets(chosen), parts.pop("minima")
        minima = Minima(*(array[chosen] for array in minima))
        arrays = {name: array[chosen] for name, array in parts.items()}
        return Found(best=best, minima=minima, **arrays)


def search(sets: Sets, starts: int) -> Found:
    """Search the best fit of each data set, with `starts` starts in each round."""
    noise = sets.noise
    record = FitTargets.of(sets, sets.weights(noise))
    fits, count, is_usual = _explored(sets, record, starts)
    if sets.data.sd is None and sets.template.needs_noise:
        fits, noise = _reweighted(sets, fits, record.weights)
        record = FitTargets.of(sets, sets.weights(noise))
    finer, best, step_error = _with_halved_steps(sets, fits, record)
    is_usual &= np.isfinite(best.loss[:, 0]) & ~best.is_unsettled[:, 0]
    weighting = noise
    if sets.data.sd is None:
        noise = sets.noise_from_residuals(best.squares[:, 0])
    used = [np.sum(f.evaluations * f.exists, axis=1) for f in (fits, finer, best)]
    evaluations = np.sum(used, axis=0)
    minima = distinct_minima(sets, finer, record.weights)
    return Found(
        best, noise, weighting, minima, count, evaluations, step_error, is_usual
    )


# The exploration.


def _explored(
    sets: Sets, record: FitTargets, starts: int
) -> tuple[Fits, np.ndarray, np.ndarray]:
    """Return all fits of the exploration, the number of starts of each set, and which
    sets have a best minimum that is confirmed."""
    random = Streams(sets.seed)
    if starts == 1:
        theta = draw_starts(sets, 1, 1, random)
        fits = _fit_and_refine_best(sets, record, theta)
        return fits, np.ones(len(sets), int), np.any(np.isfinite(fits.loss), axis=1)
    before: tuple[Fits, Fits] | None = None
    count = np.zeros(len(sets), int)
    is_confirmed = np.zeros(len(sets), bool)
    everything = []
    left = np.arange(len(sets))
    for _ in range(_MOST_ROUNDS):
        part, of_part = sets.take(left), record.take(left)
        streams = Streams(random.seeds[left], random.stream)
        theta = _first_starts(part, of_part, starts, streams)
        found = _fit_and_refine_best(part, of_part, theta)
        real = _without_aliases(part, found, of_part)
        has_any = real.exists.any(axis=1, keepdims=True)
        first = found.where(found.exists & (real.exists | ~has_any))
        if before is not None:
            first, real = before[0].join(first), before[1].join(real)
        good = keep_distinct(part, first, of_part.weights, 3)
        theta = perturbed_starts(part, good, starts, streams)
        found = _fit_and_refine_best(part, of_part, theta)
        perturbed = _without_aliases(part, found, of_part)
        joined = first.join(replace(perturbed, starts=0 * perturbed.starts))
        count[left] += starts
        is_confirmed[left] = _confirmed(part, joined, real, of_part.weights)
        everything.append((left, joined))
        random.stream = streams.stream
        remaining = ~is_confirmed[left] & _follows_data(part, joined, of_part.weights)
        if not remaining.any():
            break
        left = left[remaining]
        before = joined.sets(remaining), real.sets(remaining)
    return _together(everything), count, is_confirmed


def _together(everything: list[tuple[np.ndarray, Fits]]) -> Fits:
    """Return the fits of all sets: of a set with several rounds the last ones."""
    (_, fits), *others = everything
    for left, more in others:
        width = more.theta.shape[1] - fits.theta.shape[1]
        empty = fits.pick(np.zeros((len(fits.theta), width), int))
        fits = fits.join(empty.where(np.zeros((len(fits.theta), width), bool)))
        fits = fits.replace_sets(left, more)
    return fits


def _first_starts(
    sets: Sets, record: FitTargets, starts: int, random: Streams
) -> np.ndarray:
    """Return matched starts; half of them are moved by coarse fits to the first part of
    the record."""
    theta = matched_starts(sets, starts, random)
    for share in FIRST_WINDOWS:
        coarse = _coarse_fits(sets, record.until(share), theta[:, 1::2])
        theta[:, 1::2] = coarse.theta
    return theta


def _coarse_fits(sets: Sets, record: FitTargets, theta: np.ndarray) -> Fits:
    n = sets.coarse_steps(theta, sets.T[:, None])
    return refine(sets, record, theta, n, COARSE_EVALUATIONS, has_rate=True)


def _fit_and_refine_best(sets: Sets, record: FitTargets, theta: np.ndarray) -> Fits:
    """Return the best of the coarse fits from all starts, refined to convergence."""
    coarse = _coarse_fits(sets, record, theta)
    kept = keep_distinct(sets, coarse, record.weights, SURVIVORS)
    return _refined(sets, record, kept, sets.steps(kept.theta, sets.T[:, None]))


def _refined(sets: Sets, record: FitTargets, kept: Fits, n: np.ndarray) -> Fits:
    """Return fits that go on to convergence, with the numbers of their starts."""
    fits = refine_promising(sets, record, kept.theta, n, kept.exists)
    return replace(fits, starts=kept.starts)


def _follows_data(sets: Sets, fits: Fits, weights: np.ndarray) -> np.ndarray:
    """Return for which sets the best fit is about as near to the data as noise
    allows."""
    best = best_of(sets, fits, weights).loss[:, 0]
    return best < LARGEST_REDUCED_CHI_SQUARE * sets.freedom


def _confirmed(
    sets: Sets, fits: Fits, independent: Fits, weights: np.ndarray
) -> np.ndarray:
    """Return for which sets the best fit follows the data, and was reached by two
    independent starts."""
    best = best_of(sets, fits, weights).loss
    unit = unit_of(sets, fits, weights)[:, None]
    is_as_low = independent.loss < best + AS_LOW * unit
    reached = np.sum(independent.starts * is_as_low, axis=1)
    return _follows_data(sets, fits, weights) & (reached >= 2)


def _without_aliases(sets: Sets, fits: Fits, record: FitTargets) -> Fits:
    """Return the fits without the aliases that are better than the best other fit."""
    if not sets.has_curves:
        return fits
    order = np.argsort(score(sets, fits, record.weights), axis=1, kind="stable")
    is_suspect, kept = _leaves_curves(sets, fits, record), fits.exists.copy()
    for s in np.flatnonzero(is_suspect[np.arange(len(sets)), order[:, 0]]):
        for row in order[s]:
            theta = fits.theta[s, row]
            setup = sets.setup(int(s))
            if not is_suspect[s, row] or not turns_too_often(setup, theta):
                break
            kept[s, row] = False
    return fits.where(kept)


def _leaves_curves(sets: Sets, fits: Fits, record: FitTargets) -> np.ndarray:
    """Return which trajectories are far from the curves between the times of data."""
    t = record.t
    between = np.concatenate([t[:, :-1] + PLACE * np.diff(t, axis=1), t[:, -1:]], 1)
    there = FitTargets(between, sets.curve_at(between), record.weights)
    found = refine(sets, there, fits.theta, fits.n, 1, exists=fits.exists)
    with np.errstate(invalid="ignore", over="ignore"):
        is_far = found.loss > SUSPICIOUS**2 * fits.loss
    return np.isfinite(fits.loss) & is_far


# Noise, and finer steps.


def _reweighted(sets: Sets, fits: Fits, weights: np.ndarray) -> tuple[Fits, np.ndarray]:
    """Return fits with weights from their residuals, repeated until both agree."""
    noise = np.full_like(sets.noise, np.nan)
    left, kept = np.arange(len(sets)), None
    weights = weights.copy()
    for _ in range(_NOISE_ROUNDS):
        part = sets.take(left)
        current = fits if kept is None else kept.sets(left)
        best = best_of(part, current, weights[left])
        found = part.noise_from_residuals(best.squares[:, 0])
        with np.errstate(invalid="ignore", divide="ignore"):
            change = np.abs(noise[left] / found - 1)
            goes_on = ~np.all(change < _NOISE_TOLERANCE, axis=1)
        if not goes_on.any():
            break
        left, part = left[goes_on], part.take(goes_on)
        current, found = current.sets(goes_on), found[goes_on]
        before, noise[left] = weights[left], found
        distinct = keep_distinct(part, current, before, _NOISE_FITS)
        weights[left] = part.weights(found)
        n = part.steps(distinct.theta, part.T[:, None])
        record = FitTargets.of(part, weights[left])
        more = refine(part, record, distinct.theta, n, exists=distinct.exists)
        more = replace(more, starts=distinct.starts)
        kept = more if kept is None else kept.replace_sets(left, more)
    assert kept is not None
    return kept, noise


def _with_halved_steps(
    sets: Sets, fits: Fits, record: FitTargets
) -> tuple[Fits, Fits, np.ndarray]:
    """Return the best fits with half the step, the best of them with ever smaller steps
    until its estimates no longer change, and how far they moved at last."""
    fits = keep_distinct(sets, fits, record.weights, SURVIVORS)
    n = 2 * sets.steps(fits.theta, sets.T[:, None])
    finer = _refined(sets, record, fits, n)
    scores = score(sets, finer, record.weights)
    lowest = np.min(scores, axis=1, keepdims=True)
    way = predicted_rise(finer.gram, finer.theta - fits.theta)
    place = finer.pick(np.argmin(scores, axis=1)[:, None]).theta[:, 0]
    tied = is_same_place(finer.theta, place) & (scores <= lowest + SAME_SCORE)
    way = np.where(tied, np.nan_to_num(way, nan=1e300), np.inf)
    row = np.argmin(way, axis=1)[:, None]
    best, before = finer.pick(row), fits.pick(row).theta
    best = _with_own_steps(sets, best, record)
    moved = np.full(len(sets), np.inf)
    left = np.flatnonzero(np.isfinite(best.loss[:, 0]))
    while len(left):
        fit, part = best.sets(left), sets.take(left)
        moved[left] = _distance(part, fit, before[left], record.weights[left])
        goes_on = (moved[left] >= STEP_TOLERANCE) & (2 * fit.n[:, 0] <= MAX_STEPS)
        goes_on &= ~fit.is_unsettled[:, 0]
        left, fit, part = left[goes_on], fit.sets(goes_on), part.take(goes_on)
        if len(left) == 0:
            break
        halved = refine(part, record.take(left), fit.theta, 2 * fit.n)
        exists = np.isfinite(halved.loss[:, 0])
        left = left[exists]
        before[left] = fit.theta[exists]
        best = best.replace_sets(left, halved.sets(exists))
    return finer, best, moved


def _with_own_steps(sets: Sets, best: Fits, record: FitTargets) -> Fits:
    """Refit the best fits with the step counts for their own delays: a fit that started
    elsewhere kept the old count."""
    n = 2 * sets.steps(best.theta, sets.T[:, None])
    others = np.flatnonzero((best.n != n)[:, 0] & np.isfinite(best.loss[:, 0]))
    if len(others) == 0:
        return best
    theta = best.sets(others).theta
    again = refine(sets.take(others), record.take(others), theta, n[others])
    exists = np.isfinite(again.loss[:, 0])
    return best.replace_sets(others[exists], again.sets(exists))


def _distance(
    sets: Sets, best: Fits, theta: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return the distance of the best fits from `theta`, in joint standard errors."""
    predicted = predicted_rise(best.gram[:, 0], theta[:, 0] - best.theta[:, 0])
    unit = unit_of(sets, best, weights)
    return np.sqrt(np.maximum(predicted, 0.0) / unit)


def needs_no_other_solver(sets: Sets, found: Found) -> np.ndarray:
    """Return which fits need no other solver: their steps are fine enough, and no value
    that the data hardly bound has a wall, behind which S is larger or not a number."""
    record = FitTargets.of(sets, sets.weights(found.weighting))
    movable = ~sets.template.is_history
    movable[list(sets.template.model.free.delays)] = False
    columns = np.flatnonzero(movable)
    if len(columns) == 0:
        return found.step_error <= STEP_ERROR
    best = found.best.theta[:, 0]
    goes_on = np.repeat(best[:, columns] != 0, 2, axis=1)
    has_wall = np.zeros(len(sets), bool)
    for move in range(1, MOST_MOVES + 1):
        theta, held, inside = _moved(sets, best, columns, move)
        goes_on &= inside & ~has_wall[:, None]
        if not goes_on.any():
            break
        rise = _rise(sets, found, record, theta, held, goes_on)
        is_wall = goes_on & (rise > WALL)
        if move == 1 and is_wall.any():
            # Chi-square rises as much for a value that the data determine: then a
            # smaller move raises it, too, and there is a trajectory.
            nearer, held, _ = _moved(sets, best, columns, SMALLER)
            near = _rise(sets, found, record, nearer, held, is_wall)
            is_wall &= (near < FLAT) | np.isinf(near)
        has_wall |= is_wall.any(axis=1)
        goes_on &= rise < FLAT
    return ~has_wall & (found.step_error <= STEP_ERROR)


def _moved(
    sets: Sets, best: np.ndarray, columns: np.ndarray, power: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each of the values `columns` multiplied and divided by a factor to this
    power, a row for each; which value of a row is held; and which rows are inside the
    bounds."""
    rows = 2 * len(columns)
    theta = np.repeat(best[:, None], rows, axis=1)
    held = np.zeros(theta.shape, bool)
    for row in range(rows):
        j, sign = columns[row // 2], 1 if row % 2 == 0 else -1
        with np.errstate(over="ignore"):
            theta[:, row, j] *= FACTOR ** (sign * power)
        held[:, row, j] = True
    inside = (theta >= sets.lower[:, None]) & (theta <= sets.upper[:, None])
    return theta, held, np.all(inside, axis=2)


def _rise(
    sets: Sets, found: Found, record: FitTargets, theta, held, exists
) -> np.ndarray:
    """Return the rise of chi-square above the best fit in short fits from `theta`."""
    n = sets.steps(theta, sets.T[:, None])
    loss = refine(sets, record, theta, n, EVALUATIONS, exists=exists, held=held).loss
    level = found.best.loss
    unit = sets.residual_variance(np.maximum(level[:, 0], 1e-300))[:, None]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        rise = (loss - level) / unit
    return np.where(np.isfinite(rise), rise, np.inf)
