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
from dataclasses import replace

import numpy as np

from .._data.smoothing import rough_noise, spread
from .._data.study_data import Records
from .._engine.engine import Points
from .batches import (
    RefinedFits,
    SearchResult,
    distance,
    distinct_minima,
    effective_weights,
    is_same_place,
    keep_distinct,
    refine,
    refine_promising,
    score,
)
from .explore import FIRST_LOOK, SECOND_LOOK, explore, explore_networks
from .levenberg_marquardt import KINK, LIMIT, STUCK
from .noise_setup import with_noise_parameters
from .setup import FitSetup


def given_noise(data: Records) -> np.ndarray | None:
    """Return the root mean square of each quantity's given standard deviations."""
    if data.sd is None:
        return None
    is_measured = np.isfinite(data.x)
    total = np.sum(np.where(is_measured, data.sd, 0.0) ** 2, axis=0)
    return np.sqrt(total / np.maximum(is_measured.sum(axis=0), 1))


def noise_from_residuals(setup: FitSetup, fits: RefinedFits) -> np.ndarray:
    """Estimate the standard deviation of each quantity's noise from the first fit.

    Weights of networks cost as many degrees of freedom as the data determine of them.
    The degrees of freedom are divided among the quantities in proportion to their
    numbers of values. A quantity with so few values that the model might pass through
    all of them gets the pooled noise of the others, relative to its spread."""
    count = np.isfinite(setup.data.x).sum(axis=0)
    freedom = count * (setup.freedom - effective_weights(setup, fits)) / setup.count
    if setup.has_networks:
        freedom = np.maximum(freedom, 0.1 * count)
    size = spread(setup.data)
    mean_square = fits.squares[0] / np.where(count > 0, freedom, 1.0)
    noise = np.sqrt(np.where(count > 0, mean_square, 1.0))
    few = setup.has_few_values
    if few.any():
        others = setup.measured & ~few
        others = others if others.any() else few
        relative_variance = (noise / size)[others] ** 2
        pooled = np.sqrt(np.average(relative_variance, weights=count[others]))
        noise = np.where(few, pooled * size, noise)
    return np.maximum(noise, 1e-9 * size)


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


# How many of the fits are repeated with half the step; fewer with networks, which take
# longer.
_SURVIVORS, _SURVIVORS_WITH_NETWORKS = 10, 4
# The largest number of steps per delay, or in the record on a mesh.
MAX_STEPS = 8000
# Steps are fine enough when halving them moves the estimates by less than this share of
# their joint standard error.
STEP_TOLERANCE = 0.05
# Scores that differ by less, of fits at the same place, differ by the steps alone.
SAME_SCORE = 1e-3


# The phases of a search, in order, as they are reported to the user.
PHASES = (FIRST_LOOK, SECOND_LOOK, "noise", "finer steps")


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
    is_plain, result = setup.model.likelihood is None, None
    results = _least_squares_results if is_plain else _likelihood_results
    try:
        for better in results(setup, starts, seed, report, known):
            result = better
    except KeyboardInterrupt:
        if result is None:
            raise
        return replace(result, interrupted=True)
    assert result is not None
    return result


def _least_squares_results(
    setup: FitSetup,
    starts: int,
    seed: int,
    report: Callable[[str, RefinedFits], None],
    known: np.ndarray | None,
) -> Iterator[SearchResult]:
    """Yield the result after each phase of the search; the last one is final."""
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
    """Refine by likelihood what weighted least squares explores."""
    points, plain = setup.points(), setup.exploring
    p = len(plain.lower)

    def refined(kept: RefinedFits) -> RefinedFits:
        theta = with_noise_parameters(setup, kept)
        fits = refine_promising(setup, theta, points, setup.steps(theta))
        return replace(fits, starts=kept.starts)

    def result(fits: RefinedFits, start_count: int) -> SearchResult:
        best = fits.take([int(np.argmin(fits.loss))])
        noise = noise_from_residuals(setup, best)
        return _result(setup, fits, points, noise, start_count)

    if starts == 1 and np.isfinite(setup.guess).all():
        theta, start_count = setup.guess[None], 1
        fits = refine_promising(setup, theta, points, setup.steps(theta))
        yield result(fits, start_count)
        report(PHASES[2], fits)
    else:
        noise = given_noise(plain.data)
        assert noise is not None
        places = None if known is None else known[:, :p]
        looks = explore(plain, starts, seed, plain.points(), noise, places)
        for found, start_count, phase in looks:
            fits = refined(keep_distinct(plain, found, 1))
            yield result(fits, start_count)
            report(phase, found)
        fits = refined(keep_distinct(plain, found, _SURVIVORS))
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
    """Return a result whose best fit and minima are taken from `fits`."""
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


def _reweight(setup: FitSetup, fits: RefinedFits) -> tuple[RefinedFits, Points]:
    """Estimate the noise and repeat the fits, until the noise stays the same."""
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
    only. Return these fits, the best one with its final steps, and how far that one
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
