"""The search for the best fit: least squares from many starts.

A search has four phases:

1. *First look.* Starts are drawn within the bounds and moved by gradient matching. A
   short fit with coarse steps sorts them, and the best are refined to convergence.
2. *Second look.* The best fits are perturbed and refined again. The first two phases
   are repeated with new starts until the best minimum is confirmed.
3. *Noise.* Noise levels that are not given are estimated from the residuals, and the
   fits are repeated with the new weights until both agree.
4. *Finer steps.* The solver's step is halved until the estimates no longer change.

`search` returns the best fit and all minima that were found."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from .._data.smoothing import rough_noise
from .._loss.path_costs import Points
from .batches import RefinedFits, refine
from .noise_levels import given_noise, noise_from_residuals
from .ranking import score
from .setup import FitSetup
from .starts import first_starts, perturbed_starts

# The largest number of rounds of the first two phases.
_MAX_ROUNDS = 3
# The best fit follows the data if its chi-square per degree of freedom is below this
# (with the noise as given, or as the scatter of neighbouring points shows it).
_LARGEST_REDUCED_CHI_SQUARE = 2.0
# The number of evaluations of a coarse fit.
_COARSE_EVALUATIONS = 15
# The first parts of the record that fits begin with, as shares of it: for half of the
# starts in the first round, and for all starts in later rounds.
_FIRST_WINDOWS, _LATER_WINDOWS = (1 / 3,), (0.15, 0.3, 0.6)
# How many of the coarse fits are refined to convergence.
_SURVIVORS = 10
# The largest number of steps per delay, or in the record on a mesh.
_MAX_STEPS = 8000
# Steps are fine enough when halving them moves the estimates by less than this share of
# their joint standard error.
_STEP_TOLERANCE = 0.05
# Two fits are at the same minimum if their chi-squares differ by less than this, and
# the quadratic approximation predicts a difference below this between their places.
_SAME_CHI_SQUARE = 0.1


class Minimum(NamedTuple):
    """A local minimum of the sum of squares, and how many of the starts led there."""

    theta: np.ndarray
    loss: float
    starts: int


@final
@dataclass(frozen=True)
class SearchResult:
    """The best fit, and how it was found.

    `best` has one row. `points` are the data with their final weights, `noise` the
    standard deviation of each quantity, given or estimated. `minima` are all distinct
    minima, best first. `step_error` is how far the estimates moved when the steps were
    halved for the last time, in joint standard errors."""

    best: RefinedFits
    points: Points
    noise: np.ndarray
    minima: tuple[Minimum, ...]
    starts: int
    evaluations: int
    step_error: float
    interrupted: bool


# The phases of a search, in order, as they are reported to the user.
PHASES = ("first look", "second look", "noise", "finer steps")


def search(
    setup: FitSetup,
    starts: int,
    seed: int,
    report: Callable[[str, RefinedFits], None] = lambda phase, fits: None,
) -> SearchResult:
    """Search the best fit from `starts` starts in each round; the user's start values
    are the first of them.

    `report(phase, fits)` is called at the end of each phase. If the user interrupts the
    search, the best result so far is returned; before there is any, the
    `KeyboardInterrupt` is passed on."""
    result = None
    try:
        for better in _improving_results(setup, starts, seed, report):
            result = better
    except KeyboardInterrupt:
        if result is None:
            raise
        return replace(result, interrupted=True)
    assert result is not None
    return result


def _improving_results(
    setup: FitSetup,
    starts: int,
    seed: int,
    report: Callable[[str, RefinedFits], None],
) -> Iterator[SearchResult]:
    """The result after each phase of the search; the last one is final."""
    given = given_noise(setup.data)
    noise = rough_noise(setup.data) if given is None else given
    points = setup.points(noise)
    for fits, start_count, phase in _explore(setup, starts, seed, points, noise):
        yield _result(setup, fits, points, noise, start_count)
        report(phase, fits)
    if given is None and setup.needs_noise:
        fits, points = _reweight(setup, fits)
        yield _result(setup, fits, points, noise, start_count)
        report(PHASES[2], fits)
    finer, best, step_error = _halve_steps(setup, fits, points)
    result = _result(setup, finer, points, noise, start_count)
    if given is None:
        noise = noise_from_residuals(setup, best)
    evaluations = sum(int(each.evaluations.sum()) for each in (fits, finer, best))
    yield replace(
        result,
        best=best,
        noise=noise,
        evaluations=evaluations,
        step_error=step_error,
    )
    report(PHASES[3], best)


def _result(
    setup: FitSetup,
    fits: RefinedFits,
    points: Points,
    noise: np.ndarray,
    start_count: int,
) -> SearchResult:
    """A result whose best fit and minima are taken from `fits`."""
    fits = fits.take(np.argsort(score(setup, fits), kind="stable"))
    return SearchResult(
        best=fits.take([0]),
        points=points,
        noise=noise,
        minima=_distinct_minima(setup, fits),
        starts=start_count,
        evaluations=int(fits.evaluations.sum()),
        step_error=np.inf,
        interrupted=False,
    )


# Phases 1 and 2: exploration.


def _explore(
    setup: FitSetup, starts: int, seed: int, points: Points, noise: np.ndarray
) -> Iterator[tuple[RefinedFits, int, str]]:
    """Fits from more and more starts, until the best minimum is confirmed.

    Yields all fits so far, the number of starts, and the phase that ended."""
    random = np.random.default_rng(seed)
    curve = setup.curve if starts > 1 else None
    with ThreadPoolExecutor(1) as pool:
        # The program of the fits is compiled while gradient matching compiles its own.
        pool.submit(_compile, setup, points)
        theta = first_starts(setup, starts, curve, noise, random)
    theta[1::2] = _fit_growing_windows(setup, theta[1::2], points, _FIRST_WINDOWS)
    fits = independent = _fit_and_refine_best(setup, theta, points)
    yield fits, starts, PHASES[0]
    for round_ in range(1, 1 + _MAX_ROUNDS if starts > 1 else 1):
        good = _keep_distinct(setup, fits, 3).theta
        theta = perturbed_starts(setup, good, starts, curve, noise, random)
        perturbed = _fit_and_refine_best(setup, theta, points)
        # Perturbed fits do not count as starts that reached a minimum on their own.
        fits = fits.join(replace(perturbed, starts=0 * perturbed.starts))
        yield fits, round_ * starts, PHASES[1]
        if round_ == _MAX_ROUNDS or _is_confirmed(setup, fits, independent):
            return
        theta = first_starts(setup, starts, curve, noise, random)
        theta = _fit_growing_windows(setup, theta, points, _LATER_WINDOWS)
        more = _fit_and_refine_best(setup, theta, points)
        fits, independent = fits.join(more), independent.join(more)
        yield fits, (1 + round_) * starts, PHASES[0]


def _is_confirmed(setup: FitSetup, fits: RefinedFits, independent: RefinedFits) -> bool:
    """Whether the best of `fits` follows the data, and at least two independent starts
    reached a sum of squares as low as its own."""
    best = fits.loss[np.argmin(score(setup, fits))]
    unit = setup.residual_variance(float(np.min(fits.loss_above_rounding)))
    is_as_low = independent.loss < best + _SAME_CHI_SQUARE * unit
    follows_data = best < _LARGEST_REDUCED_CHI_SQUARE * setup.freedom
    return bool(follows_data and independent.starts[is_as_low].sum() >= 2)


def _compile(setup: FitSetup, points: Points) -> None:
    """Compile the program of the fits, by a call without evaluations."""
    theta = np.clip(np.ones((1, len(setup.lower))), setup.lower, setup.upper)
    refine(setup, theta, points, setup.coarse_steps(theta), limit=0)


def _coarse_fit(setup: FitSetup, theta: np.ndarray, points: Points) -> RefinedFits:
    """A few iterations with coarse steps from each start."""
    n = setup.coarse_steps(theta)
    return refine(setup, theta, points, n, _COARSE_EVALUATIONS, rate=setup.rate)


def _fit_growing_windows(
    setup: FitSetup, theta: np.ndarray, points: Points, shares: tuple[float, ...]
) -> np.ndarray:
    """The starts after coarse fits to growing first parts of the record.

    Trajectories that soon forget where they began have many minima on the whole record,
    but few on its first part."""
    for share in shares if len(theta) else ():
        is_inside = np.asarray(points.times) <= share * setup.data.T
        weights = np.where(is_inside[:, None], points.weights, 0.0)
        theta = _coarse_fit(setup, theta, points._replace(weights=weights)).theta
    return theta


def _fit_and_refine_best(
    setup: FitSetup, theta: np.ndarray, points: Points
) -> RefinedFits:
    """A coarse fit from each start; the best of them, refined to convergence."""
    kept = _keep_distinct(setup, _coarse_fit(setup, theta, points), _SURVIVORS)
    refined = refine(setup, kept.theta, points, setup.steps(kept.theta))
    return replace(refined, starts=kept.starts)


# Phase 3: noise.


def _reweight(setup: FitSetup, fits: RefinedFits) -> tuple[RefinedFits, Points]:
    """Estimate the noise from the residuals of the best fit, repeat the fits with the
    new weights, and so on until the noise levels no longer change."""
    points, before = None, None
    for _ in range(20):
        best = fits.take([int(np.argmin(score(setup, fits)))])
        noise = noise_from_residuals(setup, best)
        if before is not None and np.all(np.abs(noise / before - 1) < 1e-4):
            break
        points = setup.points(noise)
        fits = _keep_distinct(setup, fits, 6)
        refined = refine(setup, fits.theta, points, setup.steps(fits.theta))
        fits = replace(refined, starts=fits.starts)
        before = noise
    assert points is not None
    return fits, points


# Phase 4: finer steps.


def _halve_steps(
    setup: FitSetup, fits: RefinedFits, points: Points
) -> tuple[RefinedFits, RefinedFits, float]:
    """Refine the best fits with half the step, then the best of them with ever smaller
    steps until its estimates no longer change.

    Several fits are taken along first, because a minimum may exist with coarse steps
    only. Returns these fits, the best one with its final steps, and how far that one
    moved when its step was halved for the last time, in joint standard errors."""
    fits = _keep_distinct(setup, fits, _SURVIVORS)
    n = 2 * setup.steps(fits.theta)
    finer = refine(setup, fits.theta, points, n)
    finer = replace(finer, starts=fits.starts)
    row = int(np.argmin(score(setup, finer)))
    best, before, moved = finer.take([row]), fits.theta[row], np.inf
    while np.isfinite(best.loss[0]):
        moved = _distance(setup, best, before)
        # A fit that did not converge might do so with finer steps, but each attempt
        # takes long: it gets fewer of them.
        max_steps = _MAX_STEPS if best.converged[0] else _MAX_STEPS // 16
        if moved < _STEP_TOLERANCE or 2 * best.n[0] > max_steps:
            break
        halved = refine(setup, best.theta, points, 2 * best.n)
        if not np.isfinite(halved.loss[0]):
            break
        best, before = halved, best.theta[0]
    return finer, best, moved


def _distance(setup: FitSetup, fits: RefinedFits, theta: np.ndarray) -> float:
    """The distance between the first fit and `theta`, in joint standard errors."""
    rise = _predicted_rise(fits, 0, theta)
    unit = setup.residual_variance(fits.loss_above_rounding[0])
    return float(np.sqrt(max(rise, 0.0) / unit))


# Which fits are the same.


def _predicted_rise(fits: RefinedFits, row: int, theta: np.ndarray) -> float:
    """The increase of the sum of squares from fit `row` to `theta` that its quadratic
    approximation predicts."""
    displacement = theta - fits.theta[row]
    with np.errstate(over="ignore", invalid="ignore"):
        return float(displacement @ fits.gram[row, 1:, 1:] @ displacement)


def _keep_distinct(setup: FitSetup, fits: RefinedFits, most: int) -> RefinedFits:
    """The best fits at distinct places, at most `most` of them, best first.

    Of several fits at the same place the best is kept, and counts all their starts."""
    order = np.argsort(score(setup, fits), kind="stable")
    kept: list[int] = []
    for row in order:
        if len(kept) == most or (kept and not np.isfinite(fits.loss[row])):
            break
        if not _is_same_place(fits.theta[kept], fits.theta[row]).any():
            kept.append(int(row))
    same = [_is_same_place(fits.theta, fits.theta[row]) for row in kept]
    starts = np.array([int(fits.starts[rows].sum()) for rows in same])
    return replace(fits.take(kept), starts=starts)


def _is_same_place(theta: np.ndarray, place: np.ndarray) -> np.ndarray:
    """For each row of `theta`, whether it agrees with `place` to 0.1%."""
    return np.all(np.abs(theta - place) <= 1e-3 * np.abs(place) + 1e-12, axis=1)


def _distinct_minima(setup: FitSetup, fits: RefinedFits) -> tuple[Minimum, ...]:
    """The distinct minima among the fits, in the order of the fits.

    Unlike `_keep_distinct` this compares by chi-square: along a ridge, places that
    differ much may belong to one minimum."""
    unit = setup.residual_variance(float(np.min(fits.loss_above_rounding)))
    kept: list[int] = []
    starts: list[int] = []
    for row in np.flatnonzero(np.isfinite(fits.loss)):
        for index, other in enumerate(kept):
            rise = _predicted_rise(fits, other, fits.theta[row])
            difference = abs(fits.loss[row] - fits.loss[other])
            if max(rise, difference) < _SAME_CHI_SQUARE * unit:
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
