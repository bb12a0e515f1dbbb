"""The fields of an estimate that follow from a search, and its intervals.

Where the intervals come across a better fit, the estimate moves there."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._data.data import Data
from .._data.study_data import experiment_labels
from .._inference.evidence_intervals import most_probable, moved_profiles
from .._inference.follow_profile import FoundEnds
from .._inference.profile import Profile
from .._problem.history import time_zero
from .._problem.problem import Problem
from .._search import levenberg_marquardt
from .._search.batches import SearchResult
from .._search.other_history import moved_to
from .._search.setup import FitSetup
from .status import Status

if TYPE_CHECKING:
    from .estimate import Estimate


STATUS = {
    levenberg_marquardt.LIMIT: Status.limit,
    levenberg_marquardt.GRADIENT: Status.converged_gradient,
    levenberg_marquardt.STEP: Status.converged_step,
    levenberg_marquardt.EXACT: Status.exact,
    levenberg_marquardt.STUCK: Status.stuck,
    levenberg_marquardt.NO_START: Status.no_start,
    levenberg_marquardt.KINK: Status.converged_kink,
    levenberg_marquardt.SLOW: Status.converged_slowly,
    levenberg_marquardt.PROBABLE: Status.most_probable,
}


def search_fields(
    setup: FitSetup,
    problem: Problem | tuple[Problem, ...],
    search_result: SearchResult,
) -> dict[str, Any]:
    """Make the fields of an estimate that follow from a search; `problem` has the
    values of what is fixed. For a study there is one for each experiment."""
    free, best = setup.model.free, search_result.best
    theta = best.theta[0]
    status = STATUS[int(best.status[0])]
    if search_result.interrupted:
        status = Status.interrupted
    loss = float(setup.shown_loss(best.loss, best.squares)[0])
    first = np.where(np.isnan(setup.guess), theta, setup.guess)
    # On a mesh n is the number of steps in the record.
    n, is_mesh = int(best.n[0]), setup.model.mesh is not None
    problems = problem if isinstance(problem, tuple) else (problem,)
    learned, start = (
        tuple(
            part.model.free.problem_at(setup.local(values, e), known)
            for e, (part, known) in enumerate(zip(setup.parts, problems))
        )
        for values in (theta, first)
    )
    data = setup.data
    if isinstance(data, Data):
        data = data.later(time_zero(problems[0].history))
    return {
        "problem": learned[0],
        "problems": learned if experiment_labels(setup.data) else (),
        "start": start[0],
        "data": data,
        "names": free.names,
        "best": theta,
        "loss": loss,
        "status": status,
        "message": status.value,
        "starts": search_result.starts,
        "solver": setup.model.solver,
        "steps_per_delay": setup.steps_per_delay if is_mesh else n,
        "max_step": setup.data.T / n if is_mesh else None,
        "setup": setup,
        "search_result": search_result,
    }


# A fit is noticeably better if chi-square is lower by the square of this.
_NOTICEABLE_R = 0.3


def with_intervals(
    estimate: "Estimate", level: float, show_found: FoundEnds
) -> "Estimate":
    """Return the estimate with its intervals of the given confidence `level`;
    `show_found` is called with the number of ends that are found.

    If a profile comes across a fit that is better than the best one, the search missed
    it: the estimate moves there, and its intervals are computed again."""
    assess = estimate.system.assess
    assessment = assess(estimate.uncertainty, None, level, show_found)
    for _ in range(estimate.system.most_moves(estimate.starts)):
        better = _better_result(estimate, assessment.profiles)
        if better is None:
            break
        problem, profiles = estimate.problems or estimate.problem, None
        fields = search_fields(estimate.setup, problem, better)
        estimate = replace(estimate, **fields, assessment=None)
        if estimate.setup.has_networks:
            # It moved along the profile of a named value, so that these are known.
            known = moved_profiles(estimate.uncertainty, assessment.profiles, level)
            profiles = tuple(known)
        assessment = assess(estimate.uncertainty, profiles, level, show_found)
    return replace(estimate, assessment=assessment)


def _better_result(
    estimate: "Estimate", profiles: tuple[Profile, ...]
) -> SearchResult | None:
    """Search from the best place that the profiles came across; None if chi-square is
    not lower there by a noticeable amount."""
    if estimate.setup.has_networks:
        return most_probable(estimate.uncertainty, profiles)
    places = [
        (r, theta)
        for profile in profiles
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
    before, after = (
        setup.misfit.comparable(setup, each.best)[0] for each in (result, found)
    )
    return found if after < before else None
