"""The intervals of a fit by least squares: where they come across a better fit, it
moves there."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .._inference.assessment import assess
from .._inference.evidence_intervals import most_probable, moved_profiles
from .._least_squares.other_history import moved_to
from .._least_squares.search import SearchResult
from .._problem.general_delays import typical_delays
from .._results.estimate import Estimate
from .._results.make_estimate import make_estimate
from .._util.progress import INTERVALS, Progress, Reporter

# A fit is noticeably better if chi-square is lower by the square of this. How often the
# estimate moves to such a fit.
_NOTICEABLE_R, _MOST_MOVES = 0.3, 2


def longest_delay(estimate: Estimate) -> float:
    """What the progress bar shows of the delays."""
    problem = estimate.problem
    return float(np.max(np.asarray(typical_delays(problem.tau, problem.start))))


def with_intervals(
    estimate: Estimate, level: float, reporter: Reporter | None = None
) -> Estimate:
    """The estimate with its intervals of the given confidence `level`; without them
    where Ctrl-C was pressed before they were found. The `reporter` shows how many of
    their ends are found.

    If a profile comes across a fit that is better than the best one, the search missed
    it: the estimate moves there, and its intervals are computed again. A search from
    one start is asked for the nearest minimum, and stays there."""

    def report(now: Progress) -> None:
        if reporter is not None:
            reporter.show_ends(now.epoch, now.epochs, now.loss, now.tau)

    began = time.perf_counter()
    try:
        assessed = estimate.with_intervals(level, progress=report)
        for _ in range(_MOST_MOVES if estimate.starts > 1 else 0):
            better = _better_fit(assessed)
            if better is None:
                break
            assessed = _assessed_again(better, assessed, level, report)
    except KeyboardInterrupt:
        return estimate
    if reporter is not None:
        tau = longest_delay(assessed)
        reporter.show(INTERVALS, reporter.epochs, 1, assessed.loss, tau)
    return replace(assessed, seconds=estimate.seconds + time.perf_counter() - began)


def _assessed_again(
    moved: Estimate, before: Estimate, level: float, report: Callable[[Progress], None]
) -> Estimate:
    """The moved estimate with its intervals. With networks it went along the profile of
    a named value, and these are known already."""
    if not moved.setup.has_networks:
        return moved.with_intervals(level, progress=report)
    assert before.assessment is not None
    known = moved_profiles(moved.uncertainty, before.assessment.profiles, level)
    assessment = assess(moved.uncertainty, tuple(known), level)
    return replace(moved, assessment=assessment)


def _better_fit(estimate: Estimate) -> Estimate | None:
    """The fit that is reached from the best place that the profiles came across, if
    chi-square is lower there by a noticeable amount."""
    assert estimate.assessment is not None
    if estimate.setup.has_networks:
        found = most_probable(estimate.uncertainty, estimate.assessment.profiles)
        return None if found is None else _moved(estimate, found)
    places = [
        (r, theta)
        for profile in estimate.assessment.profiles
        for r, theta in zip(profile.r.tolist(), profile.theta)
    ]
    lowest, theta = min(places, key=lambda place: place[0], default=(0.0, None))
    if theta is None or lowest > -_NOTICEABLE_R:
        return None
    setup, result = estimate.setup, estimate.search_result
    # Of minima that tie, the one with the much shorter delay is preferred.
    before, after = setup.delay(np.stack([estimate.best, theta]))
    if lowest > -1 and after > 2 * before:
        return None
    found = moved_to(setup, result, theta, estimate.seed)
    measured = setup.measured
    count = np.isfinite(setup.data.x).sum(axis=0)[measured]
    with np.errstate(divide="ignore"):
        before, after = (
            np.sum(count * np.log(each.best.squares[0, measured]))
            for each in (result, found)
        )
    if setup.weights_are_absolute:
        before, after = result.best.loss[0], found.best.loss[0]
    if not after < before:
        return None
    return _moved(estimate, found)


def _moved(estimate: Estimate, found: SearchResult) -> Estimate:
    """The estimate at another place."""
    problem = estimate.problems or estimate.problem
    moved = make_estimate(
        estimate.setup, problem, found, estimate.seed, estimate.seconds, estimate.model
    )
    return replace(moved, histories=estimate.histories, models=estimate.models)
