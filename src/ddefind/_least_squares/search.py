"""The search for the best fit: least squares from many starts.

A search has four phases. The first two are in `explore.py`: they find the minima. Then:

3. *Noise.* Noise levels that are not given are estimated from the residuals, and the
   fits are repeated with the new weights until both agree.
4. *Finer steps.* The solver's step is halved until the estimates no longer change.

`search` returns the best fit and all minima that were found."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from .._data.smoothing import rough_noise
from .._loss.path_costs import Points
from .batches import RefinedFits, refine, refine_promising
from .distinct_fits import (
    Minimum,
    distance,
    distinct_minima,
    is_same_place,
    keep_distinct,
)
from .explore import FIRST_LOOK, SECOND_LOOK, explore
from .explore_networks import explore_networks
from .kinks import settle
from .levenberg_marquardt import KINK
from .noise_levels import given_noise, noise_from_residuals
from .noise_setup import lifted
from .ranking import score
from .setup import FitSetup

# How many of the fits are repeated with half the step; of those with networks, which
# take longer, fewer.
_SURVIVORS, _SURVIVORS_WITH_NETWORKS = 10, 4
# The largest number of steps per delay, or in the record on a mesh.
MAX_STEPS = 8000
# Steps are fine enough when halving them moves the estimates by less than this share of
# their joint standard error.
STEP_TOLERANCE = 0.05
# Scores that differ by less, of fits at the same place, differ by the steps alone.
SAME_SCORE = 1e-3


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
PHASES = (FIRST_LOOK, SECOND_LOOK, "noise", "finer steps")


def search(
    setup: FitSetup,
    starts: int,
    seed: int,
    report: Callable[[str, RefinedFits], None] = lambda phase, fits: None,
    known: np.ndarray | None = None,
) -> SearchResult:
    """Search the best fit from `starts` starts in each round; the user's start values
    are the first of them. Minima that are `known`, of shape (minima, p), take the place
    of the starts of the first round.

    `report(phase, fits)` is called at the end of each phase. If the user interrupts the
    search, the best result so far is returned; before there is any, the
    `KeyboardInterrupt` is passed on."""
    result = None
    try:
        for better in _improving_results(setup, starts, seed, report, known):
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
    known: np.ndarray | None,
) -> Iterator[SearchResult]:
    """The result after each phase of the search; the last one is final."""
    if setup.model.likelihood is not None:
        yield from _likelihood_results(setup, starts, seed, report, known)
        return
    given = given_noise(setup.data)
    noise = rough_noise(setup.data) if given is None else given
    points = setup.points(noise)
    if setup.has_networks:
        found = explore_networks(setup, starts, seed, points, noise)
        looks = ((fits, count, FIRST_LOOK) for fits, count in found)
    else:
        looks = explore(setup, starts, seed, points, noise, known)
    for fits, start_count, phase in looks:
        yield _result(setup, fits, points, noise, start_count)
        report(phase, fits)
    if given is None and setup.needs_noise:
        fits, points = _reweight(setup, fits)
        yield _result(setup, fits, points, noise, start_count)
        report(PHASES[2], fits)
    result = _with_finer_steps(setup, fits, points, given, start_count)
    yield result
    report(PHASES[3], result.best)


def _likelihood_results(
    setup: FitSetup,
    starts: int,
    seed: int,
    report: Callable[[str, RefinedFits], None],
    known: np.ndarray | None,
) -> Iterator[SearchResult]:
    """The same where the noise has models: weighted least squares explores, and the
    likelihood refines what it finds."""
    points, plain = setup.points(), setup.exploring
    p = len(plain.lower)

    def refined(theta: np.ndarray) -> RefinedFits:
        return refine_promising(setup, theta, points, setup.steps(theta))

    def result(fits: RefinedFits, start_count: int) -> SearchResult:
        best = fits.take([int(np.argmin(fits.loss))])
        noise = noise_from_residuals(setup, best)
        return _result(setup, fits, points, noise, start_count)

    if starts == 1 and np.isfinite(setup.guess).all():
        fits, start_count = refined(setup.guess[None]), 1
        yield result(fits, start_count)
        report(PHASES[2], fits)
    else:
        noise = given_noise(plain.data)
        assert noise is not None
        places = None if known is None else known[:, :p]
        looks = explore(plain, starts, seed, plain.points(), noise, places)
        for found, start_count, phase in looks:
            kept = keep_distinct(plain, found, 1)
            fits = replace(refined(lifted(setup, kept)), starts=kept.starts)
            yield result(fits, start_count)
            report(phase, found)
        kept = keep_distinct(plain, found, _SURVIVORS)
        fits = replace(refined(lifted(setup, kept)), starts=kept.starts)
        yield result(fits, start_count)
        report(PHASES[2], fits)
    last = _with_finer_steps(setup, fits, points, None, start_count)
    yield last
    report(PHASES[3], last.best)


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
        minima=distinct_minima(setup, fits),
        starts=start_count,
        evaluations=int(fits.evaluations.sum()),
        step_error=np.inf,
        interrupted=False,
    )


# Phase 3: noise.


def _reweight(setup: FitSetup, fits: RefinedFits) -> tuple[RefinedFits, Points]:
    """Estimate the noise from the residuals of the best fit, repeat the fits with the
    new weights, and so on until the noise levels no longer change."""
    tolerance, most = (
        (1e-2, _SURVIVORS_WITH_NETWORKS) if setup.has_networks else (1e-4, 6)
    )
    points, before = None, None
    for _ in range(20):
        best = fits.take([int(np.argmin(score(setup, fits)))])
        noise = noise_from_residuals(setup, best)
        if before is not None and np.all(np.abs(noise / before - 1) < tolerance):
            break
        points = setup.points(noise)
        fits = keep_distinct(setup, fits, most)
        refined = refine(setup, fits.theta, points, setup.steps(fits.theta))
        fits = replace(refined, starts=fits.starts)
        before = noise
    assert points is not None
    return fits, points


# Phase 4: finer steps.


def _with_finer_steps(
    setup: FitSetup,
    fits: RefinedFits,
    points: Points,
    given: np.ndarray | None,
    start_count: int,
) -> SearchResult:
    """Finish the search: halve the steps, and estimate the noise unless it is given."""
    finer, best, step_error = _halve_steps(setup, fits, points)
    noise = noise_from_residuals(setup, best) if given is None else given
    return replace(
        _result(setup, finer, points, noise, start_count),
        best=best,
        evaluations=sum(int(each.evaluations.sum()) for each in (fits, finer, best)),
        step_error=step_error,
    )


def _halve_steps(
    setup: FitSetup, fits: RefinedFits, points: Points
) -> tuple[RefinedFits, RefinedFits, float]:
    """Refine the best fits with half the step, then the best of them with ever smaller
    steps until its estimates no longer change.

    Several fits are taken along first, because a minimum may exist with coarse steps
    only. Returns these fits, the best one with its final steps, and how far that one
    moved when its step was halved for the last time, in joint standard errors."""
    most = _SURVIVORS_WITH_NETWORKS if setup.has_networks else _SURVIVORS
    fits = keep_distinct(setup, fits, most)
    n = 2 * setup.steps(fits.theta)
    finer = refine_promising(setup, fits.theta, points, n)
    finer = replace(finer, starts=fits.starts)
    # Of fits that end at the same place the one that moved least moved for no other
    # reason than the steps.
    scores = score(setup, finer)
    same = is_same_place(setup, finer, int(np.argmin(scores)))
    tied = np.flatnonzero(same & (scores <= np.min(scores) + SAME_SCORE))
    ways = [distance(setup, finer.take([i]), fits.theta[i]) for i in tied]
    row = int(tied[np.argmin(ways)])
    best, before, moved = finer.take([row]), fits.theta[row], np.inf
    best = settle(setup, _with_own_steps(setup, best, points), points)
    while np.isfinite(best.loss[0]):
        moved = distance(setup, best, before)
        # A fit that did not converge might do so with finer steps, but each attempt
        # takes long, as it does at a kink: it gets fewer of them.
        is_smooth = best.converged[0] and best.status[0] != KINK
        max_steps = MAX_STEPS if is_smooth else MAX_STEPS // 16
        if moved < STEP_TOLERANCE or 2 * best.n[0] > max_steps:
            break
        halved = refine(setup, best.theta, points, 2 * best.n)
        if not np.isfinite(halved.loss[0]):
            break
        best, before = settle(setup, halved, points), best.theta[0]
    return finer, best, moved


def _with_own_steps(setup: FitSetup, best: RefinedFits, points: Points) -> RefinedFits:
    """The best fit with the steps that belong to its delays: those of a fit that came
    from another delay depend on where the search began."""
    n = 2 * setup.steps(best.theta)
    if np.array_equal(n, best.n) or not np.isfinite(best.loss[0]):
        return best
    again = refine(setup, best.theta, points, n)
    return again if np.isfinite(again.loss[0]) else best
