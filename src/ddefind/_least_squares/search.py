"""The best fit, not the nearest: least squares from many starts.

Starts are drawn within the bounds (or around what scales the data give), with delays
spread over their range; gradient matching moves each to where the smoothed data satisfy
the equation; a few steps of least squares sort them, and the best are refined to
convergence. Noise levels that are not given follow the residuals, and the solver's step
is halved until the estimates no longer feel it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from .._data.data import Data
from .._data.smoothing import rough_noise, spread
from .._loss.path_costs import Points
from .batches import RefinedFits, refine
from .ranking import score
from .setup import FitSetup
from .starts import first_starts, second_starts

# Rounds of starts, until the best minimum was reached from two of them, and its
# residuals are not that many times as large as the noise seems (in squares).
_ROUNDS, _POOR = 3, 2.0
# Evaluations of a first look, and its steps in a short delay.
_LOOK, _COARSE = 15, 5
# What parts of the record are fits first: in the first round by half of the starts,
# later by all.
_SOME, _MORE = (1 / 3,), (0.15, 0.3, 0.6)
# How many of the starts are refined to the end.
_SURVIVORS = 10
# The most steps in a delay.
_MOST_STEPS = 8000
# Steps are fine enough when halving them moves the estimates by less than this share of
# their joint standard error.
_STEP_ERROR = 0.05
# Minima are the same whose sums of squares differ by less than this, in units of the
# noise, and that are nearer than its root, in standard errors.
_SAME = 0.1


class Minimum(NamedTuple):
    """A minimum of the sum of squares, and how many of the starts ended there."""

    theta: np.ndarray
    loss: float
    starts: int


@final
@dataclass(frozen=True)
class SearchResult:
    """The best fit: `best` has one row. `noise` is each quantity's standard deviation,
    given or estimated; `step_error` the last move by a halved step, in standard
    errors."""

    best: RefinedFits
    points: Points
    noise: np.ndarray
    minima: tuple[Minimum, ...]
    starts: int
    evaluations: int
    step_error: float
    interrupted: bool


# What a search does, in this order.
PHASES = ("first look", "second look", "noise", "finer steps")


def search(
    setup: FitSetup,
    starts: int,
    seed: int,
    report: Callable[[str, RefinedFits], None] = lambda phase, fits: None,
) -> SearchResult:
    """The best of `starts` starts; the user's guess is one of them.

    `report(phase, fits)` is told the phases as they end. Interrupted, the best so far
    is returned; before there is any, the interruption goes on."""
    found = None
    try:
        for better in _search(setup, starts, seed, report):
            found = better
    except KeyboardInterrupt:
        if found is None:
            raise
        return replace(found, interrupted=True)
    assert found is not None
    return found


def _search(setup: FitSetup, starts: int, seed: int, report) -> Iterator[SearchResult]:
    """What is known after each phase."""
    given = _given_noise(setup.data)
    noise = rough_noise(setup.data) if given is None else given
    points = setup.points(noise)
    for fits, count, phase in _explore(setup, starts, seed, points, noise):
        yield _found(setup, fits, points, noise, count)
        report(phase, fits)
    if given is None and setup.needs_noise:
        fits, points = _reweigh(setup, fits)
        yield _found(setup, fits, points, noise, count)
        report(PHASES[2], fits)
    finer, best, step_error = _resolve(setup, fits, points)
    found = _found(setup, finer, points, noise, count)
    if given is None:
        noise = residual_noise(setup, best)
    evaluations = sum(int(each.evaluations.sum()) for each in (fits, finer, best))
    yield replace(
        found,
        best=best,
        noise=noise,
        evaluations=evaluations,
        step_error=step_error,
    )
    report(PHASES[3], best)


def _explore(
    setup: FitSetup, starts: int, seed: int, points: Points, noise: np.ndarray
) -> Iterator[tuple[RefinedFits, int, str]]:
    """Minima, from more and more starts until the best is confirmed: all so far, the
    number of starts, and the phase."""
    random = np.random.default_rng(seed)
    curve = setup.curve if starts > 1 else None
    with ThreadPoolExecutor(1) as pool:
        # The program of the refinements compiles while that of the matching does.
        pool.submit(_compile, setup, points)
        theta = first_starts(setup, starts, curve, noise, random)
    theta[1::2] = _grow(setup, theta[1::2], points, _SOME)
    fits = independent = _look(setup, theta, points)
    yield fits, starts, PHASES[0]
    for round_ in range(1, 1 + _ROUNDS if starts > 1 else 1):
        kept = _distinct(setup, fits, 3).theta
        theta = second_starts(setup, kept, starts, curve, noise, random)
        again = _look(setup, theta, points)
        # These are no starts of their own.
        fits = fits.join(replace(again, starts=0 * again.starts))
        yield fits, round_ * starts, PHASES[1]
        if round_ == _ROUNDS or _is_confirmed(setup, fits, independent):
            return
        theta = first_starts(setup, starts, curve, noise, random)
        more = _look(setup, _grow(setup, theta, points, _MORE), points)
        fits, independent = fits.join(more), independent.join(more)
        yield fits, (1 + round_) * starts, PHASES[0]


def _is_confirmed(setup: FitSetup, fits: RefinedFits, independent: RefinedFits) -> bool:
    """Whether the best fit follows the data, and two of the independent starts ended as
    well."""
    best = fits.loss[np.argmin(score(setup, fits))]
    unit = setup.variance(float(np.min(fits.scatter)))
    same = independent.loss < best + _SAME * unit
    follows = best < _POOR * setup.freedom
    return bool(follows and independent.starts[same].sum() >= 2)


def _found(
    setup: FitSetup, fits: RefinedFits, points, noise, starts: int
) -> SearchResult:
    fits = fits.take(np.argsort(score(setup, fits), kind="stable"))
    return SearchResult(
        best=fits.take([0]),
        points=points,
        noise=noise,
        minima=_minima(setup, fits),
        starts=starts,
        evaluations=int(fits.evaluations.sum()),
        step_error=np.inf,
        interrupted=False,
    )


def _compile(setup: FitSetup, points: Points) -> None:
    """Refine nothing."""
    theta = np.clip(np.ones((1, len(setup.lower))), setup.lower, setup.upper)
    refine(setup, theta, points, np.array([_COARSE]), limit=0)


def _glance(setup: FitSetup, theta: np.ndarray, points: Points) -> RefinedFits:
    """A few steps from each start."""
    n = np.full(len(theta), _COARSE)
    return refine(setup, theta, points, n, _LOOK, rate=setup.rate)


def _grow(
    setup: FitSetup, theta: np.ndarray, points: Points, shares: tuple[float, ...]
) -> np.ndarray:
    """The starts after a glance at growing parts of the record. Trajectories that soon
    forget where they came from have many minima on all of it, few on its beginning."""
    for share in shares if len(theta) else ():
        seen = np.asarray(points.times) <= share * setup.data.T
        part = points._replace(weights=np.where(seen[:, None], points.weights, 0.0))
        theta = _glance(setup, theta, part).theta
    return theta


def _look(setup: FitSetup, theta: np.ndarray, points: Points) -> RefinedFits:
    """A few steps from each start, and the best of them refined."""
    looked = _glance(setup, theta, points)
    kept = _distinct(setup, looked, _SURVIVORS)
    found = refine(setup, kept.theta, points, setup.steps(kept.theta))
    return replace(found, starts=kept.starts)


def _given_noise(data: Data) -> np.ndarray | None:
    """The given standard deviation of each quantity (its root mean square)."""
    if data.sd is None:
        return None
    here = np.isfinite(data.x)
    total = np.sum(np.where(here, data.sd, 0.0) ** 2, axis=0)
    return np.sqrt(total / np.maximum(here.sum(axis=0), 1))


def residual_noise(setup: FitSetup, fits: RefinedFits) -> np.ndarray:
    """Each quantity's noise, from the residuals of one fit; parameters use up degrees
    of freedom in proportion to the points. A quantity with so few values that the model
    might pass through them is as noisy as the others, in units of its spread."""
    count = np.isfinite(setup.data.x).sum(axis=0)
    freedom = count * setup.freedom / setup.count
    size = spread(setup.data)
    mean = fits.squares[0] / np.where(count > 0, freedom, 1.0)
    noise = np.sqrt(np.where(count > 0, mean, 1.0))
    few = setup.few
    if few.any():
        others = setup.measured & ~few
        others = others if others.any() else few
        share = (noise / size)[others] ** 2
        pooled = np.sqrt(np.average(share, weights=count[others]))
        noise = np.where(few, pooled * size, noise)
    return np.maximum(noise, 1e-9 * size)


def _reweigh(setup: FitSetup, fits: RefinedFits) -> tuple[RefinedFits, Points]:
    """Weights from the residuals, and the fits again, until both agree."""
    points, before = None, None
    for _ in range(20):
        best = fits.take([int(np.argmin(score(setup, fits)))])
        noise = residual_noise(setup, best)
        if before is not None and np.all(np.abs(noise / before - 1) < 1e-4):
            break
        points = setup.points(noise)
        fits = _distinct(setup, fits, 6)
        again = refine(setup, fits.theta, points, setup.steps(fits.theta))
        fits = replace(again, starts=fits.starts)
        before = noise
    assert points is not None
    return fits, points


def _resolve(
    setup: FitSetup, fits: RefinedFits, points: Points
) -> tuple[RefinedFits, RefinedFits, float]:
    """The best fits with half the step, since minima of coarse steps may be theirs
    alone; and the best of them, with steps that are halved until the estimates no
    longer feel it: by how much they do."""
    fits = _distinct(setup, fits, _SURVIVORS)
    n = 2 * setup.steps(fits.theta)
    finer = refine(setup, fits.theta, points, n)
    finer = replace(finer, starts=fits.starts)
    row = int(np.argmin(score(setup, finer)))
    best, before, moved = finer.take([row]), fits.theta[row], np.inf
    while np.isfinite(best.loss[0]):
        moved = _distance(setup, best, before)
        # A fit that does not converge may do so with finer steps, but is slow.
        most = _MOST_STEPS if best.converged[0] else _MOST_STEPS // 16
        if moved < _STEP_ERROR or 2 * best.n[0] > most:
            break
        again = refine(setup, best.theta, points, 2 * best.n)
        if not np.isfinite(again.loss[0]):
            break
        best, before = again, best.theta[0]
    return finer, best, moved


def _distance(setup: FitSetup, fits: RefinedFits, theta: np.ndarray) -> float:
    """How far `theta` is from a fit, in its joint standard errors."""
    square = _square(fits, 0, theta)
    return float(np.sqrt(max(square, 0.0) / setup.variance(fits.scatter[0])))


def _square(fits: RefinedFits, row: int, theta: np.ndarray) -> float:
    """How much the sum of squares of a fit would grow by a move to `theta`."""
    away = theta - fits.theta[row]
    with np.errstate(over="ignore", invalid="ignore"):
        return float(away @ fits.gram[row, 1:, 1:] @ away)


def _distinct(setup: FitSetup, fits: RefinedFits, most: int) -> RefinedFits:
    """The best fits, best first; those at the same place count as one from all their
    starts."""
    order = np.argsort(score(setup, fits), kind="stable")
    kept: list[int] = []
    for row in order:
        if len(kept) == most or (kept and not np.isfinite(fits.loss[row])):
            break
        if not _near(fits.theta[kept], fits.theta[row]).any():
            kept.append(int(row))
    same = [_near(fits.theta, fits.theta[row]) for row in kept]
    starts = np.array([int(fits.starts[near].sum()) for near in same])
    return replace(fits.take(kept), starts=starts)


def _near(theta: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Which rows of `theta` are at the same place."""
    return np.all(np.abs(theta - place) <= 1e-3 * np.abs(place) + 1e-12, axis=1)


def _minima(setup: FitSetup, fits: RefinedFits) -> tuple[Minimum, ...]:
    """The distinct minima that were reached, in the order given."""
    unit = setup.variance(float(np.min(fits.scatter)))
    kept: list[int] = []
    starts: list[int] = []
    for row in np.flatnonzero(np.isfinite(fits.loss)):
        for place, other in enumerate(kept):
            square = _square(fits, other, fits.theta[row])
            rise = abs(fits.loss[row] - fits.loss[other])
            if max(square, rise) < _SAME * unit:
                starts[place] += int(fits.starts[row])
                break
        else:
            kept.append(int(row))
            starts.append(int(fits.starts[row]))
    losses = fits.loss
    return tuple(
        Minimum(fits.theta[row], float(losses[row]), count)
        for row, count in zip(kept, starts)
    )
