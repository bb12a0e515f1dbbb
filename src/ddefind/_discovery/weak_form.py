r"""The weak form of an equation: integrals against test functions.

With a smooth function $\phi$ that vanishes outside an interval,

$$-\int \phi'(t)\, x(t)\, dt = \sum_j c_j \int \phi(t)\, L_j(x(t), x(t - \tau))\, dt$$

for a solution of $x' = \sum_j c_j L_j$. No slope of noisy data is needed. Given the
delays and the parameters inside of terms, the coefficients follow by linear least
squares. The states are read from smoothing splines, which makes the result biased: it
only proposes structures and start values, and fits of trajectories decide.

A test function whose interval, or the interval one delay earlier, has no data in it is
left out."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._data.data import Data
from .._data.smoothing import Curve, smooth
from .library import Library, evaluate_library

# The half-width of a test function, in lengths over which the splines bend, and their
# distance in half-widths.
_WIDTH, _DISTANCE = 1.5, 0.5
_POINTS_IN_WIDTH, _MOST_POINTS, _MOST_FUNCTIONS = 4, 500, 200
# A time is covered by data if one is as near as so many sampling intervals.
_NEAR = 3.0


class Record(NamedTuple):
    """One record with its test functions.

    `weights` [K, G] integrate a function on the grid `t` against the test functions,
    `slopes` [K, d] are the left-hand sides, `begins` and `ends` their intervals, and
    `gaps` [n, 2] the times without data."""

    curve: Curve
    t: np.ndarray
    weights: np.ndarray
    slopes: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    gaps: np.ndarray

    def is_covered(self, delay: float) -> np.ndarray:
        """For each test function, whether there are data in its interval moved back by
        the `delay`."""
        begins, ends = self.begins - delay, self.ends - delay
        first, last = self.t[0], self.t[-1]
        covered = (begins >= first - 1e-9 * last) & (ends <= last * (1 + 1e-9))
        for begin, end in self.gaps:
            covered &= (ends <= begin) | (begins >= end)
        return covered

    def delayed(self, delays: Sequence[float]) -> np.ndarray:
        """The curve at the grid, one delay earlier for each delay, [k, G, d]."""
        first, last = self.t[0], self.t[-1]
        times = [np.clip(self.t - tau, first, last) for tau in delays]
        return np.stack([self.curve.x(t) for t in times])


def make_record(data: Data) -> Record | None:
    """The test functions of a data set; None if it has too few points."""
    curve = smooth(data)
    if curve is None or any(len(spline.t) < 8 for spline in curve.splines):
        return None
    first = max(spline.t[0] for spline in curve.splines)
    last = min(spline.t[-1] for spline in curve.splines)
    length = last - first
    freedom = max(spline.curvatures for spline in curve.splines) + 2
    spacing = float(np.median(np.diff(np.unique(data.t))))
    width = _WIDTH * length / freedom
    width = min(max(width, 2.5 * spacing), length / 8)
    count = int(np.clip(length / (_DISTANCE * width), 12, _MOST_FUNCTIONS))
    centers = np.linspace(first + width, last - width, count)
    points = int(np.clip(_POINTS_IN_WIDTH * length / width, 240, _MOST_POINTS))
    t = np.linspace(first, last, points)
    u = (t - centers[:, None]) / width
    inside = np.maximum(1 - u**2, 0.0)
    h = t[1] - t[0]
    norm = 1 / np.sqrt(np.sum(inside**6, axis=1, keepdims=True) * h)
    weights = norm * h * inside**3
    slopes = norm * h * (6 * u / width * inside**2) @ curve.x(t)
    return Record(
        curve, t, weights, slopes, centers - width, centers + width, _gaps(data)
    )


def _gaps(data: Data) -> np.ndarray:
    """The intervals, longer than usual, in which a quantity was not measured."""
    gaps = []
    for column in data.x.T:
        t = np.unique(data.t[np.isfinite(column)])
        steps = np.diff(t)
        long = np.flatnonzero(steps > 2 * _NEAR * np.median(steps))
        gaps += [(t[j], t[j + 1]) for j in long]
    return np.array(gaps).reshape(-1, 2)


class WeakSystem(NamedTuple):
    """Linear equations: `columns` [rows, C], and `slopes` [rows, d] less the known
    parts."""

    columns: np.ndarray
    slopes: np.ndarray


def weak_system(
    library: Library,
    records: Sequence[Record],
    delays: Sequence[float],
    values: np.ndarray,
    row: np.ndarray,
    term: np.ndarray,
) -> WeakSystem:
    """The equations of all records with these `delays`. Column c is that of the number
    `term[c]` with the inner parameters `values[row[c]]`. Without delays no delayed term
    must be used."""
    d, columns, slopes = len(library.states), [], []
    read = delays if len(delays) else (0.0,) * max(library.delays, 1)
    for record in records:
        covered = record.is_covered(0.0)
        for delay in delays:
            covered &= record.is_covered(delay)
        x, y = record.curve.x(record.t), record.delayed(read)
        along = evaluate_library(library, x, y, values)
        weights = record.weights[covered]
        with np.errstate(invalid="ignore", over="ignore"):
            columns.append(weights @ along[row, :, d + term].T)
            slopes.append(record.slopes[covered] - weights @ along[0, :, :d])
    return WeakSystem(np.concatenate(columns), np.concatenate(slopes))
