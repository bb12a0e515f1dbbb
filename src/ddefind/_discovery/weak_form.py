r"""The weak form of an equation: integrals against test functions.

With a smooth function $\phi$ that vanishes outside an interval,

$$-\int \phi'(t)\, x(t)\, dt = \sum_j c_j \int \phi(t)\, L_j(x(t), x(t - \tau))\, dt$$

for a solution of $x' = \sum_j c_j L_j$. No slope of noisy data is needed. Given the
delays and the parameters inside of terms, the coefficients follow by linear least
squares. The states are read from smoothing splines, which makes the result biased: it
only proposes structures and start values, and fits of trajectories decide.

Test functions stand in the segments of a record, which have no gap. A test function is
left out where a delay is read if its interval, moved back by the delay, has no data in
it, and where a term has no value on its interval."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

import ddefind as dd

from .._data.smoothing import Curve, smooth_or_followed
from .library import Library, evaluate_library

# The half-width of test functions, in lengths over which the splines bend, and their
# distance, in half-widths.
_WIDTH, _DISTANCE = 1.5, 0.5
# Numbers of grid points and of test functions in a record, and in each segment.
_POINTS_IN_WIDTH, _LEAST_POINTS, _MOST_POINTS, _MOST_FUNCTIONS = 4, 240, 500, 200
_POINTS_IN_SEGMENT, _FUNCTIONS_IN_SEGMENT = 32, 6
# The least number of times of each state in a segment, and in all segments together.
_LEAST_TIMES, _LEAST_TOGETHER = 8, 20
# Between two measurements is a gap if they are farther apart than this many typical
# intervals, and this many lengths over which the spline bends.
_LONG, _BENDS = 6.0, 3.0


class Segment(NamedTuple):
    """A part of a record that has no gap in it, with a curve through its data, and the
    number of times at which each state was measured."""

    begin: float
    end: float
    curve: Curve
    times: list[int]

    @property
    def has_functions(self) -> bool:
        """Whether there are enough points for test functions."""
        return min(self.times) >= _LEAST_TIMES


class WeakRecord(NamedTuple):
    """One record with its test functions.

    `curve` goes through the whole record, and those of the `segments` through parts of
    it. `weights` [K, G] integrate a function on the grid `t` against the test
    functions, `slopes` [K, d] are the left-hand sides, `begins` and `ends` their
    intervals, and `gaps` [n, 2] the times without data. There may be no test functions
    at all."""

    curve: Curve
    segments: list[Segment]
    t: np.ndarray
    weights: np.ndarray
    slopes: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    gaps: np.ndarray

    def is_covered(self, delay: float) -> np.ndarray:
        """Return whether there are data in the interval of each test function, moved
        back by the `delay`."""
        begins, ends = self.begins - delay, self.ends - delay
        first, last = self.t[0], self.t[-1]
        covered = (begins >= first - 1e-9 * last) & (ends <= last * (1 + 1e-9))
        for begin, end in self.gaps:
            covered &= (ends <= begin) | (begins >= end)
        return covered

    def delayed(self, delay: float) -> np.ndarray:
        """Return the states at the grid, one delay earlier, [G, d]; where there are no
        data, those at an end of a segment."""
        t = self.t - delay
        begins = [segment.begin for segment in self.segments[1:]]
        number = np.searchsorted(begins, t, "right")
        x = np.empty((len(t), len(self.curve.splines)))
        for j, segment in enumerate(self.segments):
            here = number == j
            x[here] = segment.curve.x(np.clip(t[here], segment.begin, segment.end))
        return x


def make_record(data: dd.Data) -> WeakRecord | None:
    """Return the test functions of a data set; None if it has too few points, or if no
    two times have data of all states between them."""
    curve = smooth_or_followed(data)
    if curve is None or any(len(spline.t) < 8 for spline in curve.splines):
        return None
    gaps = _gaps(data, curve)
    segments = _segments(data, curve, gaps)
    if sum(min(s.times) for s in segments if s.has_functions) < _LEAST_TOGETHER:
        # A curve through the gaps says little, but more than nothing.
        gaps = gaps[:0]
        segments = _segments(data, curve, gaps)
    if not segments:
        return None
    length = sum(s.end - s.begin for s in segments)
    spacing = float(np.median(np.diff(np.unique(data.t))))
    functions = [_functions(s, spacing, (s.end - s.begin) / length) for s in segments]
    t, weights, slopes, begins, ends = zip(*functions)
    return WeakRecord(
        curve,
        segments,
        np.concatenate(t),
        np.asarray(block_diag(*weights)),
        np.concatenate(slopes),
        np.concatenate(begins),
        np.concatenate(ends),
        gaps,
    )


def _gaps(data: dd.Data, curve: Curve) -> np.ndarray:
    """Return the intervals in which a quantity was not measured for so long that its
    spline says nothing of it."""
    gaps = []
    for column, spline in zip(data.x.T, curve.splines):
        t = np.unique(data.t[np.isfinite(column)])
        steps = np.diff(t)
        usual = _LONG * np.median(steps)
        bend = np.sum(np.minimum(steps, usual)) / (spline.curvatures + 2)
        long = np.flatnonzero(steps > max(usual, _BENDS * bend))
        gaps += [(t[j], t[j + 1]) for j in long]
    return np.array(gaps).reshape(-1, 2)


def _segments(data: dd.Data, curve: Curve, gaps: np.ndarray) -> list[Segment]:
    """Return the parts between the gaps of all quantities. Those with too few points
    for a curve of their own have a part of the whole one."""
    found, low = [], -np.inf
    for high, after in [*sorted(gaps.tolist()), (np.inf, np.inf)]:
        inside = (data.t >= low) & (data.t <= high)
        times = [len(np.unique(data.t[inside & np.isfinite(x)])) for x in data.x.T]
        part = curve
        if len(gaps) and min(times) >= _LEAST_TIMES:
            part = smooth_or_followed(dd.Data(data.t[inside], data.x[inside])) or curve
        begin = max(low, *(spline.t[0] for spline in part.splines))
        end = min(high, *(spline.t[-1] for spline in part.splines))
        if begin < end:
            found.append(Segment(begin, end, part, times))
        low = max(low, after)
    return found


def _functions(
    segment: Segment, spacing: float, share: float
) -> tuple[np.ndarray, ...]:
    """Return the test functions of a segment, which is this `share` of its record; none
    if it has few points."""
    length = segment.end - segment.begin
    freedom = max(spline.curvatures for spline in segment.curve.splines) + 2
    width = _WIDTH * length / freedom
    width = min(max(width, 2.5 * spacing), length / 8)
    most = max(_MOST_FUNCTIONS * share, _FUNCTIONS_IN_SEGMENT)
    count = int(min(length / (_DISTANCE * width), most, max(segment.times)))
    count = count if segment.has_functions else 0
    centers = np.linspace(segment.begin + width, segment.end - width, count)
    points = np.array([_LEAST_POINTS, _MOST_POINTS]) * share
    points = np.clip(_POINTS_IN_WIDTH * length / width, *points)
    points = int(max(points, _POINTS_IN_SEGMENT))
    t = np.linspace(segment.begin, segment.end, points)
    u = (t - centers[:, None]) / width
    inside = np.maximum(1 - u**2, 0.0)
    h = t[1] - t[0]
    norm = 1 / np.sqrt(np.sum(inside**6, axis=1, keepdims=True) * h)
    weights = norm * h * inside**3
    slopes = norm * h * (6 * u / width * inside**2) @ segment.curve.x(t)
    return t, weights, slopes, centers - width, centers + width


def weak_system(
    library: Library,
    records: Sequence[WeakRecord],
    delays: Sequence[float],
    values: np.ndarray,
    row: np.ndarray,
    term: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the linear equations of all records with these `delays`: columns [rows, C]
    of the terms `term[c]` with the inner parameters `values[row[c]]`, and slopes
    [rows, d] less the known parts. They are NaN where a term has no value on the
    interval of a test function. Without delays no delayed term must be used."""
    d, columns, slopes = len(library.states), [], []
    read = delays if len(delays) else (0.0,) * max(library.delays, 1)
    for record in records:
        covered = record.is_covered(0.0)
        for delay in delays:
            covered &= record.is_covered(delay)
        x, y = record.delayed(0.0), np.stack([record.delayed(tau) for tau in read])
        along = evaluate_library(library, x, y, values)
        weights = record.weights[covered]
        columns.append(_integrals(weights, along[row, :, d + term].T))
        slopes.append(record.slopes[covered] - _integrals(weights, along[0, :, :d]))
    return np.concatenate(columns), np.concatenate(slopes)


def _integrals(weights: np.ndarray, along: np.ndarray) -> np.ndarray:
    """Return the integrals of columns against test functions; NaN where a column has no
    value on the interval of one."""
    exists = np.isfinite(along)
    with np.errstate(invalid="ignore", over="ignore"):
        found = weights @ np.where(exists, along, 0.0)
    return np.where(weights @ ~exists > 0, np.nan, found)
