r"""The search for the best fit: least squares from many starts.

A search has four phases. The first two, a first and a second look (`explore.py`), find
the minima; with networks its `explore_networks` does. Then:

3. *Noise.* Noise levels that are not given are estimated from the residuals, and the
   fits are repeated with the new weights until both agree.
4. *Finer steps.* The solver's step is halved until the estimates no longer change.

Where a right-hand side has kinks (`abs`, `min`, `where`), so has the sum of squares S,
and its minimum may lie at one. Levenberg-Marquardt then ends there without convergence:
the gradient of one side promises a descent that the other side does not keep.
`refine_at_kink` evaluates S itself. It makes finite moves in many directions, of up to
a standard error, and further fits from around the point. Where one of them lowers
chi-square, the fit goes on from there; where none does, the point is a minimum, and the
fit has the status `KINK`.

None of this holds where S jumps, as it does if a right-hand side jumps at a threshold
that is learned: between two jumps S says nothing of what lies beyond them. Nor does it
where S is flat in some direction, along which a fit may go on without end. There the
fit stays as it is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from .._engine.engine import Points
from .batches import (
    SURVIVORS,
    SURVIVORS_WITH_NETWORKS,
    RefinedFits,
    SearchResult,
    distance,
    distinct_minima,
    is_same_place,
    keep_distinct,
    refine,
    refine_promising,
    score,
)
from .explore import explore, explore_networks
from .levenberg_marquardt import KINK, LIMIT, STUCK
from .misfit import FINER_STEPS, FIRST_LOOK
from .setup import FitSetup

# The lengths of the moves, in standard errors.
_LENGTHS = np.array([0.01, 0.03, 0.1, 0.3, 1.0])
# Moves that are so short, in standard errors, that only a jump changes chi-square.
_SHORT = 1e-4
# Moves that lower chi-square by no more than this move no estimate that matters.
_LOWER = 0.01
# How often a fit goes on from a better point.
_KINK_ROUNDS = 10
# The number of evaluations of a fit from around the point.
_EVALUATIONS = 60
# A rise to both sides is that of a kink if it exceeds by this factor what the curvature
# explains, and if a tenth of the way has more than this share of it (a tenth at a kink,
# a hundredth where S is smooth).
_KINKED, _LINEAR = 5.0, 0.04
# Flat are directions with less than this share of the curvature of the steepest, in
# units of each parameter's influence.
_FLAT = 1e-9


def refine_at_kink(setup: FitSetup, fit: RefinedFits, points: Points) -> RefinedFits:
    """Move one fit that did not converge to where no finite move lowers S.

    It stays as it is if S jumps, or if the moves do not come to an end."""
    for _ in range(_KINK_ROUNDS):
        has_ended = fit.status[0] not in (STUCK, LIMIT)
        if has_ended or _is_flat(fit) or _jumps(setup, fit, points):
            return fit
        if fit.status[0] == LIMIT and not _has_kink(setup, fit, points):
            return fit
        better = _best_around(setup, fit, points)
        if better is None or better.loss[0] > fit.loss[0] - _LOWER * fit.unit(setup):
            return replace(fit, status=np.full(1, KINK))
        again = refine(setup, better.theta, points, fit.n)
        better = again if again.loss[0] <= better.loss[0] else better
        fit = replace(
            better, starts=fit.starts, evaluations=fit.evaluations + better.evaluations
        )
    return fit


def _curvature(fit: RefinedFits) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the eigenvalues of the information matrix, scaled to a unit diagonal, its
    eigenvectors as columns, and the scales."""
    information = fit.gram[0, 1:, 1:]
    norms = np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    values, vectors = np.linalg.eigh(information / norms[:, None] / norms)
    return values, vectors, norms


def _is_flat(fit: RefinedFits) -> bool:
    """Whether S is flat in some direction, or not finite."""
    if not np.all(np.isfinite(fit.gram)):
        return True
    values = _curvature(fit)[0]
    return bool(values[0] < _FLAT * values[-1])


def _jumps(setup: FitSetup, fit: RefinedFits, points: Points) -> bool:
    """Whether very short moves change chi-square."""
    loss = _moved(setup, fit, points, _SHORT * _directions(setup, fit)).loss
    return bool(np.any(np.abs(loss - fit.loss[0]) > _LOWER * fit.unit(setup)))


def _best_around(
    setup: FitSetup, fit: RefinedFits, points: Points
) -> RefinedFits | None:
    """Return the best point that moves and short fits from around a fit find."""
    directions = _directions(setup, fit)
    moves = (_LENGTHS[:, None, None] * directions).reshape(-1, directions.shape[1])
    tried = _moved(setup, fit, points, moves).join(
        _moved(setup, fit, points, _principal(setup, fit), _EVALUATIONS)
    )
    row = int(np.argmin(tried.loss))
    return tried.take([row]) if np.isfinite(tried.loss[row]) else None


def _moved(
    setup: FitSetup, fit: RefinedFits, points: Points, moves: np.ndarray, limit: int = 1
) -> RefinedFits:
    """Evaluate S at the moved points, or refine from there with more evaluations."""
    theta = np.clip(fit.theta + moves, setup.lower, setup.upper)
    return refine(setup, theta, points, np.full(len(theta), fit.n[0]), limit)


def _principal(setup: FitSetup, fit: RefinedFits) -> np.ndarray:
    """Return moves of one standard error along both sides of the principal axes."""
    values, vectors, norms = _curvature(fit)
    axes = (np.sqrt(fit.unit(setup) / values) * vectors).T / norms
    return np.concatenate([axes, -axes])


def _has_kink(setup: FitSetup, fit: RefinedFits, points: Points) -> bool:
    """Whether S rises to both sides like the length of a move, as at a kink.

    On a smooth ridge, along which a fit goes on without end, it rises like the
    square."""
    moves = _principal(setup, fit)
    moves = np.concatenate([_LENGTHS[0] * moves, 0.1 * _LENGTHS[0] * moves])
    loss = _moved(setup, fit, points, moves).loss
    sides = (loss - fit.loss[0]).reshape(2, 2, -1).sum(axis=1)
    rise, nearer = sides / fit.unit(setup)
    is_large = rise > _KINKED * 2 * _LENGTHS[0] ** 2
    return bool(np.any(is_large & (nearer > _LINEAR * rise)))


def _directions(setup: FitSetup, fit: RefinedFits) -> np.ndarray:
    """Return moves of one standard error in many directions, as rows: along each
    parameter, along the principal axes, down the gradient, by the Gauss-Newton step,
    and at random."""
    principal, p = _principal(setup, fit), fit.theta.shape[1]
    axes = principal[:p]
    information, gradient = fit.gram[0, 1:, 1:], fit.gram[0, 0, 1:]
    size = np.sqrt(fit.unit(setup))
    norms = np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    single = np.diag(size / norms)
    random = np.random.default_rng(0).standard_normal((4 * p, p))
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    steepest = -gradient / norms / max(np.linalg.norm(gradient / norms), 1e-300)
    newton = -(axes @ gradient)
    newton /= max(np.linalg.norm(newton), 1e-300)
    moves = [single, -single, principal, random @ axes]
    moves += [(steepest * size / norms)[None], (newton @ axes)[None]]
    return np.concatenate(moves)


# The largest number of steps per delay, or in the record on a mesh.
MAX_STEPS = 8000
# Steps are fine enough when halving them moves the estimates by less than this share of
# their joint standard error.
STEP_TOLERANCE = 0.05
# Scores that differ by less, of fits at the same place, differ by the steps alone.
SAME_SCORE = 1e-3


def search(
    setup: FitSetup,
    starts: int,
    seed: int,
    report: Callable[[str, RefinedFits], None] = lambda phase, fits: None,
    known: np.ndarray | None = None,
) -> SearchResult:
    """Search for the best fit from `starts` starts in each round.

    The user's start values are the first of them. Minima that are `known`, of shape
    (minima, p), take the place of the starts of the first round. `report(phase, fits)`
    is called at the end of each phase. If the user interrupts the search, it returns
    the best result so far; before there is any, it passes the `KeyboardInterrupt`
    on."""
    result = None
    try:
        for better in _results(DirectedSearch(setup, starts, seed, report, known)):
            result = better
    except KeyboardInterrupt:
        if result is None:
            raise
        return replace(result, interrupted=True)
    assert result is not None
    return result


@final
@dataclass(frozen=True)
class DirectedSearch:
    """A search, which a misfit directs: the arguments of `search`, and its steps."""

    setup: FitSetup
    starts: int
    seed: int
    report: Callable[[str, RefinedFits], None]
    known: np.ndarray | None

    def explore(
        self, setup: FitSetup, points: Points, noise: np.ndarray
    ) -> Iterator[tuple[RefinedFits, int, str]]:
        """Explore with the setup that its misfit is explored by."""
        known = None if self.known is None else self.known[:, : len(setup.lower)]
        return explore(setup, self.starts, self.seed, points, noise, known)

    def explore_networks(
        self, points: Points, noise: np.ndarray
    ) -> Iterator[tuple[RefinedFits, int, str]]:
        """Explore with networks."""
        looks = explore_networks(self.setup, self.starts, self.seed, points, noise)
        return ((fits, count, FIRST_LOOK) for fits, count in looks)

    def result(
        self, fits: RefinedFits, points: Points, noise: np.ndarray, start_count: int
    ) -> SearchResult:
        """Return a result whose best fit and minima are taken from `fits`."""
        fits = fits.take(np.argsort(score(self.setup, fits), kind="stable"))
        return SearchResult(
            best=fits.take([0]),
            points=points,
            noise=noise,
            minima=distinct_minima(self.setup, fits),
            starts=start_count,
            evaluations=int(fits.evaluations.sum()),
            step_error=np.inf,
            interrupted=False,
        )


def _results(search: DirectedSearch) -> Iterator[SearchResult]:
    """Yield the result after each phase of a search; the last one is final."""
    setup = search.setup
    fits, points, start_count = yield from setup.misfit.looks(search)
    finer, best, step_error = _halve_steps(setup, fits, points)
    noise = setup.misfit.noise_levels(setup, best)
    yield replace(
        search.result(finer, points, noise, start_count),
        best=best,
        evaluations=sum(int(each.evaluations.sum()) for each in (fits, finer, best)),
        step_error=step_error,
    )
    search.report(FINER_STEPS, best)


def _halve_steps(
    setup: FitSetup, fits: RefinedFits, points: Points
) -> tuple[RefinedFits, RefinedFits, float]:
    """Refine the best fits with half the step, then the best of them with ever smaller
    steps until its estimates no longer change.

    Several fits are taken along first, because a minimum may exist with coarse steps
    only. Return these fits, the best one with its final steps, and how far that one
    moved when its step was halved for the last time, in joint standard errors."""
    most = SURVIVORS_WITH_NETWORKS if setup.has_networks else SURVIVORS
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
    best = refine_at_kink(setup, _with_usual_steps(setup, best, points), points)
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
        best, before = refine_at_kink(setup, halved, points), best.theta[0]
    return finer, best, moved


def _with_usual_steps(
    setup: FitSetup, best: RefinedFits, points: Points
) -> RefinedFits:
    """Refit the best fit with the step count for its own delay; a fit that started
    elsewhere kept the count from there."""
    n = 2 * setup.steps(best.theta)
    if np.array_equal(n, best.n) or not np.isfinite(best.loss[0]):
        return best
    again = refine(setup, best.theta, points, n)
    return again if np.isfinite(again.loss[0]) else best
