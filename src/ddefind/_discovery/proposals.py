r"""Proposals: structures, delays and start values from the weak form of an equation.

With a smooth function $\phi$ that vanishes outside an interval,

$$-\int \phi'(t)\, x(t)\, dt = \sum_j c_j \int \phi(t)\, L_j(x(t), x(t - \tau))\, dt$$

for a solution of $x' = \sum_j c_j L_j$. No slope of noisy data is needed. Given the
delays and the parameters inside of terms, the coefficients follow by linear least
squares. The states are read from smoothing splines, which makes the result biased: it
only proposes structures and start values, and fits of trajectories decide.

Test functions stand in the segments of a record, which have no gap. A test function is
left out where a delay is read if its interval, moved back by the delay, has no data in
it, and where a term has no value on its interval.

For each delay of a scan, terms are added to each equation one by one, each time the one
that lowers the sum of squares most, beginning with the best term or the best two. Then
they are removed one by one, each time the one that matters least: a term that was the
best one alone may be of no use beside others. The scan is linear algebra alone."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

import ddefind as dd

from .._data.smoothing import Curve, smooth_or_followed
from .inner_parameters import InnerParameters, columns_of, values_of
from .library import Library, Structure, evaluate_library

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
# The columns come from smoothed data and are uncertain by this share. Otherwise x(t) -
# x(t - tau) with a short delay, which is tau times the slope itself, would seem to
# explain everything.
_UNCERTAIN = 0.02
# Structures that begin with the best pair of columns are proposed with these sizes.
_SMALL = (1, 2, 3)
# The most terms of an equation.
_MOST_TERMS = 7
# A column that is a combination of chosen ones up to this share of it is left out.
_COLLINEAR = 1e-6
# Fewer equations than this say nothing.
_LEAST_ROWS = 8
# A column without a value in more than this share of the equations is left out; then so
# are equations in which another column has none.
_MOST_MISSING = 0.2


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
    it; `gaps` are the times without data. `weights` integrate a function on the grid
    `t` against the test functions, `slopes` are the left-hand sides, and `begins` and
    `ends` their intervals. There may be no test functions at all."""

    curve: Curve
    segments: list[Segment]
    gaps: np.ndarray  # [n, 2]
    weights: np.ndarray  # [K, G]
    t: np.ndarray  # [G]
    slopes: np.ndarray  # [K, d]
    begins: np.ndarray  # [K]
    ends: np.ndarray  # [K]

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
    weights, *others = zip(*functions)
    whole = np.asarray(block_diag(*weights)), *map(np.concatenate, others)
    return WeakRecord(curve, segments, gaps, *whole)


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
    return weights, t, slopes, centers - width, centers + width


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


class Proposal(NamedTuple):
    """A structure with start values: a coefficient for each of its pairs, the inner
    parameters, the delays, and the score of the scan (lower is better). `pattern` are
    the equations that could have delayed terms."""

    structure: Structure
    coefficients: np.ndarray
    inner: np.ndarray
    delays: tuple[float, ...]
    score: float
    pattern: tuple[bool, ...]


class _Scan(NamedTuple):
    """The linear equations at one delay, in columns of unit length."""

    gram: np.ndarray  # [C, C]
    right: np.ndarray  # [C, d]
    squares: np.ndarray  # [d], of the left-hand sides
    sizes: np.ndarray  # [C], of the columns before
    rows: int


def propose(
    library: Library,
    records: Sequence[WeakRecord],
    inner: InnerParameters,
    delays: Sequence[tuple[float, ...]],
    offsets: Sequence[int] = (-1, 0, 1, 2),
) -> list[Proposal]:
    """Return proposals for each of the `delays`, for each pattern and several sizes,
    best first; none where the weak form says nothing. With an empty tuple for the
    delays no equation has delayed terms."""
    all_columns, found = columns_of(library, inner), []
    is_delayed = np.array([bool(library.terms[j].delays) for j in all_columns.term])
    for taus in delays:
        kept = np.ones(len(is_delayed), bool) if taus else ~is_delayed
        columns = all_columns.take(kept)
        row, term, compatible = columns
        scan = _scan(*weak_system(library, records, taus, inner.rows, row, term))
        if scan is None:
            continue
        patterns = _patterns(len(library.states), bool(taus))
        offered = {True: np.ones(len(term), bool), False: ~is_delayed[kept]}
        grown, paired, thinned = {}, {}, {}
        for key in {pair for pattern in patterns for pair in enumerate(pattern)}:
            equation = scan, key[0], compatible, offered[key[1]]
            grown[key], paired[key] = _path(*equation, False), _path(*equation, True)
            thinned[key] = _thinned(scan, key[0], grown[key])
        for pattern in patterns:
            same: dict[Structure, Proposal] = {}
            for paths, sizes in ((paired, _SMALL), (grown, ()), (thinned, ())):
                chosen = [paths[key] for key in enumerate(pattern)]
                for structure, coefficients, used, score in _sized(
                    scan, chosen, term, offsets, sizes
                ):
                    values = values_of(library, inner, columns, used)
                    if values is not None:
                        same[structure] = Proposal(
                            structure, coefficients, values, taus, score, pattern
                        )
            found += same.values()
    return sorted(found, key=lambda each: each.score)


def _patterns(states: int, has_delays: bool) -> list[tuple[bool, ...]]:
    """Return which equations may have delayed terms: all, all but one, or one alone;
    without delays none."""
    if not has_delays:
        return [(False,) * states]
    alone = [tuple(i == j for i in range(states)) for j in range(states)]
    others = [tuple(i != j for i in range(states)) for j in range(states)]
    patterns = dict.fromkeys([(True,) * states, *alone, *others])
    return [pattern for pattern in patterns if any(pattern)]


def _scan(columns: np.ndarray, slopes: np.ndarray) -> _Scan | None:
    """Return the linear equations of a delay; None if there are too few."""
    exists = np.isfinite(columns)
    usable = np.sum(~exists, axis=0) <= _MOST_MISSING * len(exists)
    kept = exists[:, usable].all(axis=1) & np.isfinite(slopes).all(axis=1)
    rows = int(kept.sum())
    if rows < _LEAST_ROWS:
        return None
    columns, slopes = np.where(usable, columns, 0.0)[kept], slopes[kept]
    sizes = np.sqrt(np.sum(columns**2, axis=0))
    unit = columns / np.where(sizes > 0, sizes, 1.0)
    gram = unit.T @ unit + _UNCERTAIN**2 * np.eye(len(sizes))
    return _Scan(gram, unit.T @ slopes, np.sum(slopes**2, axis=0), sizes, rows)


def _path(
    scan: _Scan,
    state: int,
    compatible: np.ndarray,
    offered: np.ndarray,
    from_pair: bool,
) -> list[tuple[list[int], float]]:
    """Add columns to the equation of a state one by one, from the best one or two on.
    Return those of each size, with the share of the sum of squares that is left."""
    gram, right = scan.gram.copy(), scan.right[:, state].copy()
    left, total = scan.squares[state], max(scan.squares[state], 1e-300)
    allowed = offered & (scan.sizes > 0)
    chosen: list[int] = []
    path: list[tuple[list[int], float]] = [([], 1.0)]
    first = _best_pair(gram, right, allowed, compatible) if from_pair else []
    for number in range(_MOST_TERMS):
        pivots = np.diag(gram)
        usable = allowed & (pivots > _COLLINEAR)
        if not usable.any():
            break
        gain = np.where(usable, right**2 / np.where(usable, pivots, 1.0), -1.0)
        best = first[number] if number < len(first) else int(np.argmax(gain))
        chosen = [*chosen, best]
        left = max(left - gain[best], 1e-12 * total)
        factor = gram[:, best] / gram[best, best]
        right = right - factor * right[best]
        gram = gram - factor[:, None] * gram[best]
        allowed = allowed & compatible[best]
        path.append((chosen, left / total))
    return path


def _best_pair(
    gram: np.ndarray, right: np.ndarray, allowed: np.ndarray, compatible: np.ndarray
) -> list[int]:
    """Return the two columns that leave least together, the better one first: the best
    column alone often has wrong parameters inside the term."""
    size = np.diag(gram)
    determinant = np.outer(size, size) - gram**2
    usable = np.outer(allowed, allowed) & compatible & (determinant > _COLLINEAR)
    np.fill_diagonal(usable, False)
    if not usable.any():
        return []
    alone = np.outer(right**2, size)
    gain = alone + alone.T - 2 * gram * np.outer(right, right)
    gain = np.where(usable, gain / np.where(usable, determinant, 1.0), -1.0)
    pair = np.unravel_index(int(np.argmax(gain)), gain.shape)
    return sorted(map(int, pair), key=lambda j: -(right[j] ** 2) / size[j])


def _thinned(
    scan: _Scan, state: int, path: list[tuple[list[int], float]]
) -> list[tuple[list[int], float]]:
    """Remove the last columns of a path one by one, each time the one that matters
    least, and return them as a path."""
    (chosen, left), total = path[-1], max(scan.squares[state], 1e-300)
    back = [(chosen, left)]
    while chosen:
        inverse = np.linalg.inv(scan.gram[np.ix_(chosen, chosen)])
        values = inverse @ scan.right[chosen, state]
        least = int(np.argmin(values**2 / np.diag(inverse)))
        chosen = [*chosen[:least], *chosen[least + 1 :]]
        matrix, right = scan.gram[np.ix_(chosen, chosen)], scan.right[chosen, state]
        left = 1 - float(right @ np.linalg.solve(matrix, right)) / total
        back.append((chosen, max(left, 1e-12) if chosen else 1.0))
    return back[::-1]


def _sized(
    scan: _Scan,
    paths: list[list[tuple[list[int], float]]],
    term: np.ndarray,
    offsets: Sequence[int],
    sizes_of_all: Sequence[int],
) -> Iterator[tuple[Structure, np.ndarray, list[int], float]]:
    """Yield structures, each with its coefficients, columns and score: with the sizes
    that a BIC of the scan prefers, plus each of the `offsets` in all equations; and
    with the same size in all equations, each of `sizes_of_all`."""
    n = scan.rows / 2
    charges = [
        [n * np.log(left) + len(chosen) * np.log(n) for chosen, left in path]
        for path in paths
    ]
    preferred = [int(np.argmin(each)) for each in charges]
    tried = [[size + offset for size in preferred] for offset in offsets]
    tried += [[size] * len(paths) for size in sizes_of_all]
    for each in tried:
        sizes = [int(np.clip(s, 0, len(path) - 1)) for s, path in zip(each, paths)]
        pairs = []
        for i, (path, size) in enumerate(zip(paths, sizes)):
            chosen, _ = path[size]
            matrix = scan.gram[np.ix_(chosen, chosen)]
            solved = np.linalg.solve(matrix, scan.right[chosen, i])
            values = solved / scan.sizes[chosen]
            pairs += [(i, int(term[c]), c, v) for c, v in zip(chosen, values)]
        pairs.sort(key=lambda pair: pair[:2])
        structure = tuple((i, j) for i, j, _, _ in pairs)
        coefficients = np.array([value for *_, value in pairs], float)
        score = sum(charge[size] for charge, size in zip(charges, sizes))
        yield structure, coefficients, [column for _, _, column, _ in pairs], score


def coefficients_at(
    library: Library,
    records: Sequence[WeakRecord],
    structure: Structure,
    delays: tuple[float, ...],
    inner: np.ndarray,
) -> np.ndarray | None:
    """Return the coefficients of a structure by linear least squares; None if there are
    too few equations."""
    term = np.array([each for _, each in structure], int)
    row = np.zeros(len(term), int)
    columns, slopes = weak_system(library, records, delays, inner[None], row, term)
    found = np.zeros(len(structure))
    for i in range(len(library.states)):
        where = [s for s, (state, _) in enumerate(structure) if state == i]
        left, right = columns[:, where], slopes[:, i]
        kept = np.isfinite(left).all(axis=1) & np.isfinite(right)
        if kept.sum() < _LEAST_ROWS:
            return None
        found[where] = np.linalg.lstsq(left[kept], right[kept], rcond=1e-8)[0]
    return found
