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

from ._data import Data
from ._forcing import Points
from ._preference import score
from ._refine import Fitted, refine
from ._setting import Setting
from ._smooth import rough_noise, spread
from ._starts import first_starts, second_starts

# Rounds of starts, until the best minimum was reached from two of them, and its
# residuals are not that many times as large as the noise seems (in squares).
_ROUNDS, _POOR = 3, 2.0
# Evaluations of a first look, and its steps in a short delay.
_LOOK, _COARSE = 15, 5
# What parts of the record are fitted first: in the first round by half of the starts,
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

    z: np.ndarray
    loss: float
    starts: int


@final
@dataclass(frozen=True)
class Searched:
    """The best fit: `best` has one row. `noise` is each quantity's standard deviation,
    given or estimated; `step_error` the last move by a halved step, in standard
    errors."""

    best: Fitted
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
    setting: Setting,
    starts: int,
    seed: int,
    report: Callable[[str, Fitted], None] = lambda phase, fitted: None,
) -> Searched:
    """The best of `starts` starts; the user's guess is one of them.

    `report(phase, fitted)` is told the phases as they end. Interrupted, the best so far
    is returned; before there is any, the interruption goes on."""
    found = None
    try:
        for better in _search(setting, starts, seed, report):
            found = better
    except KeyboardInterrupt:
        if found is None:
            raise
        return replace(found, interrupted=True)
    assert found is not None
    return found


def _search(setting: Setting, starts: int, seed: int, report) -> Iterator[Searched]:
    """What is known after each phase."""
    given = _given_noise(setting.data)
    noise = rough_noise(setting.data) if given is None else given
    points = setting.points(noise)
    for fitted, count, phase in _explore(setting, starts, seed, points, noise):
        yield _found(setting, fitted, points, noise, count)
        report(phase, fitted)
    if given is None and setting.needs_noise:
        fitted, points = _reweigh(setting, fitted)
        yield _found(setting, fitted, points, noise, count)
        report(PHASES[2], fitted)
    finer, best, step_error = _resolve(setting, fitted, points)
    found = _found(setting, finer, points, noise, count)
    if given is None:
        noise = residual_noise(setting, best)
    evaluations = sum(int(each.evaluations.sum()) for each in (fitted, finer, best))
    yield replace(
        found,
        best=best,
        noise=noise,
        evaluations=evaluations,
        step_error=step_error,
    )
    report(PHASES[3], best)


def _explore(
    setting: Setting, starts: int, seed: int, points: Points, noise: np.ndarray
) -> Iterator[tuple[Fitted, int, str]]:
    """Minima, from more and more starts until the best is confirmed: all so far, the
    number of starts, and the phase."""
    random = np.random.default_rng(seed)
    curve = setting.curve if starts > 1 else None
    with ThreadPoolExecutor(1) as pool:
        # The program of the refinements compiles while that of the matching does.
        pool.submit(_compile, setting, points)
        z = first_starts(setting, starts, curve, noise, random)
    z[1::2] = _grow(setting, z[1::2], points, _SOME)
    fitted = independent = _look(setting, z, points)
    yield fitted, starts, PHASES[0]
    for round_ in range(1, 1 + _ROUNDS if starts > 1 else 1):
        kept = _distinct(setting, fitted, 3).z
        z = second_starts(setting, kept, starts, curve, noise, random)
        again = _look(setting, z, points)
        # These are no starts of their own.
        fitted = fitted.join(replace(again, starts=0 * again.starts))
        yield fitted, round_ * starts, PHASES[1]
        if round_ == _ROUNDS or _is_confirmed(setting, fitted, independent):
            return
        z = first_starts(setting, starts, curve, noise, random)
        more = _look(setting, _grow(setting, z, points, _MORE), points)
        fitted, independent = fitted.join(more), independent.join(more)
        yield fitted, (1 + round_) * starts, PHASES[0]


def _is_confirmed(setting: Setting, fitted: Fitted, independent: Fitted) -> bool:
    """Whether the best fit follows the data, and two of the independent starts ended as
    well."""
    best = fitted.loss[np.argmin(score(setting, fitted))]
    unit = setting.variance(float(np.min(fitted.scatter)))
    same = independent.loss < best + _SAME * unit
    follows = best < _POOR * setting.freedom
    return bool(follows and independent.starts[same].sum() >= 2)


def _found(setting: Setting, fitted: Fitted, points, noise, starts: int) -> Searched:
    fitted = fitted.take(np.argsort(score(setting, fitted), kind="stable"))
    return Searched(
        best=fitted.take([0]),
        points=points,
        noise=noise,
        minima=_minima(setting, fitted),
        starts=starts,
        evaluations=int(fitted.evaluations.sum()),
        step_error=np.inf,
        interrupted=False,
    )


def _compile(setting: Setting, points: Points) -> None:
    """Refine nothing."""
    z = np.clip(np.ones((1, len(setting.lower))), setting.lower, setting.upper)
    refine(setting, z, points, np.array([_COARSE]), limit=0)


def _glance(setting: Setting, z: np.ndarray, points: Points) -> Fitted:
    """A few steps from each start."""
    n = np.full(len(z), _COARSE)
    return refine(setting, z, points, n, _LOOK, rate=setting.rate)


def _grow(
    setting: Setting, z: np.ndarray, points: Points, shares: tuple[float, ...]
) -> np.ndarray:
    """The starts after a glance at growing parts of the record. Trajectories that soon
    forget where they came from have many minima on all of it, few on its beginning."""
    for share in shares if len(z) else ():
        seen = np.asarray(points.times) <= share * setting.data.T
        part = points._replace(weights=np.where(seen[:, None], points.weights, 0.0))
        z = _glance(setting, z, part).z
    return z


def _look(setting: Setting, z: np.ndarray, points: Points) -> Fitted:
    """A few steps from each start, and the best of them refined."""
    looked = _glance(setting, z, points)
    kept = _distinct(setting, looked, _SURVIVORS)
    found = refine(setting, kept.z, points, setting.steps(kept.z))
    return replace(found, starts=kept.starts)


def _given_noise(data: Data) -> np.ndarray | None:
    """The given standard deviation of each quantity (its root mean square)."""
    if data.sd is None:
        return None
    here = np.isfinite(data.x)
    total = np.sum(np.where(here, data.sd, 0.0) ** 2, axis=0)
    return np.sqrt(total / np.maximum(here.sum(axis=0), 1))


def residual_noise(setting: Setting, fitted: Fitted) -> np.ndarray:
    """Each quantity's noise, from the residuals of one fit; parameters use up degrees
    of freedom in proportion to the points. A quantity with so few values that the model
    might pass through them is as noisy as the others, in units of its spread."""
    count = np.isfinite(setting.data.x).sum(axis=0)
    freedom = count * setting.freedom / setting.count
    size = spread(setting.data)
    mean = fitted.squares[0] / np.where(count > 0, freedom, 1.0)
    noise = np.sqrt(np.where(count > 0, mean, 1.0))
    few = setting.few
    if few.any():
        others = setting.measured & ~few
        others = others if others.any() else few
        share = (noise / size)[others] ** 2
        pooled = np.sqrt(np.average(share, weights=count[others]))
        noise = np.where(few, pooled * size, noise)
    return np.maximum(noise, 1e-9 * size)


def _reweigh(setting: Setting, fitted: Fitted) -> tuple[Fitted, Points]:
    """Weights from the residuals, and the fits again, until both agree."""
    points, before = None, None
    for _ in range(20):
        best = fitted.take([int(np.argmin(score(setting, fitted)))])
        noise = residual_noise(setting, best)
        if before is not None and np.all(np.abs(noise / before - 1) < 1e-4):
            break
        points = setting.points(noise)
        fitted = _distinct(setting, fitted, 6)
        again = refine(setting, fitted.z, points, setting.steps(fitted.z))
        fitted = replace(again, starts=fitted.starts)
        before = noise
    assert points is not None
    return fitted, points


def _resolve(
    setting: Setting, fitted: Fitted, points: Points
) -> tuple[Fitted, Fitted, float]:
    """The best fits with half the step, since minima of coarse steps may be theirs
    alone; and the best of them, with steps that are halved until the estimates no
    longer feel it: by how much they do."""
    fitted = _distinct(setting, fitted, _SURVIVORS)
    n = 2 * setting.steps(fitted.z)
    finer = refine(setting, fitted.z, points, n)
    finer = replace(finer, starts=fitted.starts)
    row = int(np.argmin(score(setting, finer)))
    best, before, moved = finer.take([row]), fitted.z[row], np.inf
    while np.isfinite(best.loss[0]):
        moved = _distance(setting, best, before)
        # A fit that does not converge may do so with finer steps, but is slow.
        most = _MOST_STEPS if best.converged[0] else _MOST_STEPS // 16
        if moved < _STEP_ERROR or 2 * best.n[0] > most:
            break
        again = refine(setting, best.z, points, 2 * best.n)
        if not np.isfinite(again.loss[0]):
            break
        best, before = again, best.z[0]
    return finer, best, moved


def _distance(setting: Setting, fitted: Fitted, z: np.ndarray) -> float:
    """How far `z` is from a fit, in its joint standard errors."""
    square = _square(fitted, 0, z)
    return float(np.sqrt(max(square, 0.0) / setting.variance(fitted.scatter[0])))


def _square(fitted: Fitted, row: int, z: np.ndarray) -> float:
    """How much the sum of squares of a fit would grow by a move to `z`."""
    away = z - fitted.z[row]
    with np.errstate(over="ignore", invalid="ignore"):
        return float(away @ fitted.gram[row, 1:, 1:] @ away)


def _distinct(setting: Setting, fitted: Fitted, most: int) -> Fitted:
    """The best fits, best first; those at the same place count as one from all their
    starts."""
    order = np.argsort(score(setting, fitted), kind="stable")
    kept: list[int] = []
    for row in order:
        if len(kept) == most or (kept and not np.isfinite(fitted.loss[row])):
            break
        if not _near(fitted.z[kept], fitted.z[row]).any():
            kept.append(int(row))
    same = [_near(fitted.z, fitted.z[row]) for row in kept]
    starts = np.array([int(fitted.starts[near].sum()) for near in same])
    return replace(fitted.take(kept), starts=starts)


def _near(z: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Which rows of `z` are at the same place."""
    return np.all(np.abs(z - place) <= 1e-3 * np.abs(place) + 1e-12, axis=1)


def _minima(setting: Setting, fitted: Fitted) -> tuple[Minimum, ...]:
    """The distinct minima that were reached, in the order given."""
    unit = setting.variance(float(np.min(fitted.scatter)))
    kept: list[int] = []
    starts: list[int] = []
    for row in np.flatnonzero(np.isfinite(fitted.loss)):
        for place, other in enumerate(kept):
            square = _square(fitted, other, fitted.z[row])
            rise = abs(fitted.loss[row] - fitted.loss[other])
            if max(square, rise) < _SAME * unit:
                starts[place] += int(fitted.starts[row])
                break
        else:
            kept.append(int(row))
            starts.append(int(fitted.starts[row]))
    losses = fitted.loss
    return tuple(
        Minimum(fitted.z[row], float(losses[row]), count)
        for row, count in zip(kept, starts)
    )
