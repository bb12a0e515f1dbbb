"""Levenberg-Marquardt from many starts of many data sets.

This is `batches.py` for many data sets. The starts of all of them are put one behind
the other, and each is a row of `rows.py`."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from .._least_squares.batches import (
    MAX_EVALUATIONS,
    MOST_SHRINKAGES,
    PATIENCE,
    PROMISING,
    SHRINKAGE,
    capacity_for,
)
from .._least_squares.fit_block import StartTask, fit_one
from .._least_squares.levenberg_marquardt import LIMIT, Box, MinimiserResult
from .._least_squares.normal_equations import LeastSquaresModel
from .._loss.path_costs import Points
from .fits import Fits
from .rows import run_rows
from .sets import Sets


@final
@dataclass(frozen=True)
class Record:
    """What the fits of each data set are compared with: times [sets, N], values and
    weights [sets, N, k]."""

    t: np.ndarray
    x: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, sets: Sets, weights: np.ndarray) -> "Record":
        return cls(sets.data.t, sets.data.x, weights)

    def until(self, share: float) -> "Record":
        """The first part of each record, a `share` of it. What is later has no weight,
        and stands at its end, so that no fit goes on behind it."""
        end = share * self.t[:, -1:]
        weights = np.where((self.t <= end)[..., None], self.weights, 0.0)
        return Record(np.minimum(self.t, end), self.x, weights)

    def take(self, chosen: Any) -> "Record":
        return Record(self.t[chosen], self.x[chosen], self.weights[chosen])


def refine(
    sets: Sets,
    record: Record,
    theta: np.ndarray,
    n: np.ndarray,
    limit: int = MAX_EVALUATIONS,
    *,
    exists: np.ndarray | None = None,
    held: np.ndarray | None = None,
    has_rate: bool = False,
) -> Fits:
    """Run Levenberg-Marquardt from `theta` [sets, rows, p] with `n` steps per delay
    [sets, rows], in all rows that `exist`. Values that are `held` [sets, rows, p] stay.
    With `has_rate` there are at least as many steps as the record needs."""
    shape = theta.shape[:2]
    chosen = np.flatnonzero(np.ones(shape, bool) if exists is None else exists)
    rows = chosen // shape[1], chosen % shape[1]
    flat = _Starts(
        rows[0],
        theta[rows],
        np.array(n[rows]),
        np.zeros((len(chosen), sets.p), bool) if held is None else held[rows],
    )
    p, k = sets.p, record.x.shape[2]
    fits = Fits(
        np.array(theta, float),
        np.full((*shape, 1 + p, 1 + p), np.inf),
        np.zeros((*shape, k)),
        np.zeros(shape, int),
        np.full(shape, -1),
        np.array(n),
        np.zeros(shape, int),
    )
    if len(chosen) == 0:
        return fits
    found = _refined(sets, record, flat, limit, has_rate)
    for array, new in zip(vars(fits).values(), vars(found).values()):
        array[rows] = new
    return fits


def refine_promising(
    sets: Sets, record: Record, theta: np.ndarray, n: np.ndarray, exists: np.ndarray
) -> Fits:
    """Refine the fits, but give up those that go on for long far from the best."""
    fits = refine(sets, record, theta, n, PATIENCE, exists=exists)
    lowest = np.min(fits.loss, axis=1, keepdims=True)
    goes_on = (fits.status == LIMIT) & (fits.loss < PROMISING * lowest)
    if not goes_on.any():
        return fits
    longer = refine(sets, record, fits.theta, fits.n, exists=goes_on)
    arrays = [
        np.where(goes_on.reshape(goes_on.shape + (1,) * (a.ndim - 2)), b, a)
        for a, b in zip(vars(fits).values(), vars(longer).values())
    ]
    joined = Fits(*arrays)
    joined.evaluations[goes_on] += fits.evaluations[goes_on]
    return joined


@final
@dataclass(frozen=True)
class _Starts:
    """Starts, one behind the other: the set of each, and where it begins."""

    set: np.ndarray
    theta: np.ndarray
    n: np.ndarray
    held: np.ndarray

    def take(self, chosen: Any) -> "_Starts":
        return _Starts(*(array[chosen] for array in vars(self).values()))


def _refined(
    sets: Sets, record: Record, starts: _Starts, limit: int, has_rate: bool
) -> Fits:
    """The fits, one behind the other. Steps follow the delay: where it has become much
    shorter, a fit that is to converge goes on with fewer of them."""
    fits = _refined_once(sets, record, starts, limit, has_rate)
    rows = np.arange(len(starts.set))
    for _ in range(MOST_SHRINKAGES if limit >= PATIENCE else 0):
        lower = _lower(sets, starts)
        theta = fits.theta[rows]
        has_shrunk = (lower > sets.lower[starts.set]) & (theta <= lower)
        again = np.flatnonzero(has_shrunk.any(axis=1))
        if len(again) == 0:
            break
        rows, starts = rows[again], starts.take(again)
        n = np.maximum(np.ceil(starts.n / SHRINKAGE), 1).astype(int)
        starts = _Starts(starts.set, fits.theta[rows], n, starts.held)
        more = _refined_once(sets, record, starts, limit, has_rate)
        more.evaluations[:] += fits.evaluations[rows]
        for array, new in zip(vars(fits).values(), vars(more).values()):
            array[rows] = new
    return fits


def _lower(sets: Sets, starts: _Starts) -> np.ndarray:
    """The lower bounds, with one for the delay that steps are aligned with: it may
    become shorter by no more than a factor."""
    lower = sets.lower[starts.set].copy()
    if sets.template.model.mesh is None:
        for j in sets.template.model.free.delays:
            lower[:, j] = np.maximum(lower[:, j], starts.theta[:, j] / SHRINKAGE)
    return lower


def _refined_once(
    sets: Sets, record: Record, starts: _Starts, limit: int, has_rate: bool
) -> Fits:
    model, count = sets.template.model, len(starts.set)
    T = record.t[starts.set, -1]
    box = Box(_lower(sets, starts), sets.upper[starts.set], starts.held)
    rate = sets.rate(T) if has_rate else np.zeros(count)
    task = starts.theta, box, starts.n, rate, np.full(count, limit)
    capacity = capacity_for(model, int(starts.n.max()), float(T.max()))
    points = Points(record.t, record.x, record.weights)
    shared = model, capacity
    found = run_rows(_fit, shared, points, task, starts.set, sets.place)
    return Fits(
        found.theta,
        found.normal.gram,
        found.normal.squares,
        found.evaluations,
        found.status,
        starts.n.copy(),
        np.ones(count, int),
    )


def _fit(shared: tuple[LeastSquaresModel, int], points: Points, own) -> MinimiserResult:
    """The fit of one row."""
    (model, capacity), (theta, box, n, rate, limit) = shared, own
    return fit_one(model, StartTask(theta, box, points, n, rate, limit), capacity)
