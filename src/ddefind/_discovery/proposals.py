"""Proposals: structures, delays and start values from the weak form.

For each delay of a scan, terms are added to each equation one by one, each time the one
that lowers the sum of squares most, beginning with the best term or the best two. Then
they are removed one by one, each time the one that matters least: a term that was the
best one alone may be of no use beside others. The scan is linear algebra alone."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .inner_parameters import InnerParameters, columns_of, values_of
from .library import Library, Structure
from .weak_form import WeakRecord, weak_system

# The columns come from smoothed data and are uncertain by this share. Otherwise x(t) -
# x(t - tau) with a short delay, which is tau times the slope itself, would seem to
# explain everything.
_UNCERTAIN = 0.02
# Structures that begin with the best pair of columns are proposed with these sizes.
_SMALL = (1, 2, 3)
# A column that is a combination of chosen ones up to this share of it is left out.
_COLLINEAR = 1e-6
# Fewer equations than this say nothing.
_LEAST_ROWS = 8
# A column without a value in more than this share of the equations is left out; then so
# are equations in which another column has none.
_MOST_MISSING = 0.2


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


def patterns(states: int) -> list[tuple[bool, ...]]:
    """Return which equations may have delayed terms: all, all but one, or one alone."""
    alone = [tuple(i == j for i in range(states)) for j in range(states)]
    others = [tuple(i != j for i in range(states)) for j in range(states)]
    return list(dict.fromkeys([(True,) * states, *alone, *others]))


def propose(
    library: Library,
    records: Sequence[WeakRecord],
    inner: InnerParameters,
    delays: Sequence[tuple[float, ...]],
    most_terms: int,
    offsets: Sequence[int] = (-1, 0, 1, 2),
) -> list[Proposal]:
    """Return proposals for each of the `delays`, for each pattern and several sizes,
    best first; none where the weak form says nothing. With an empty tuple for the
    delays no equation has delayed terms."""
    row, term, compatible = columns_of(library, inner)
    is_delayed = np.array([bool(library.terms[j].delays) for j in term])
    d, found = len(library.states), []
    for taus in delays:
        kept = np.ones(len(term), bool) if taus else ~is_delayed
        columns = row[kept], term[kept]
        scan = _scan(*weak_system(library, records, taus, inner.rows, *columns))
        if scan is None:
            continue
        both = compatible[kept][:, kept]
        offered = {True: np.ones(int(kept.sum()), bool), False: ~is_delayed[kept]}
        kinds = [(False,) * d]
        if taus:
            kinds = [pattern for pattern in patterns(d) if any(pattern)]
        equations = [
            (i, kind) for i in range(d) for kind in {pattern[i] for pattern in kinds}
        ]
        grown, paired = (
            {
                (i, kind): _path(scan, i, both, offered[kind], most_terms, from_pair)
                for i, kind in equations
            }
            for from_pair in (False, True)
        )
        thinned = {key: _thinned(scan, key[0], path) for key, path in grown.items()}
        for pattern in kinds:
            same: dict[Structure, Proposal] = {}
            for paths, sizes in ((paired, _SMALL), (grown, ()), (thinned, ())):
                chosen = [paths[i, kind] for i, kind in enumerate(pattern)]
                others = inner, taus, pattern, offsets, sizes
                same |= _sized(library, scan, chosen, *columns, *others)
            found += same.values()
    return sorted(found, key=lambda each: each.score)


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
    most: int,
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
    for number in range(most):
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
    library: Library,
    scan: _Scan,
    paths: list[list[tuple[list[int], float]]],
    row: np.ndarray,
    term: np.ndarray,
    inner: InnerParameters,
    delays: tuple[float, ...],
    pattern: tuple[bool, ...],
    offsets: Sequence[int],
    sizes_of_all: Sequence[int],
) -> dict[Structure, Proposal]:
    """Return the proposals at one delay: with the sizes that a BIC of the scan prefers,
    plus each of the `offsets` in all equations; and with the same size in all
    equations, each of `sizes_of_all`."""
    n = scan.rows / 2
    charges = [
        [n * np.log(left) + len(chosen) * np.log(n) for chosen, left in path]
        for path in paths
    ]
    preferred = [int(np.argmin(each)) for each in charges]
    found = {}
    tried = [[size + offset for size in preferred] for offset in offsets]
    tried += [[size] * len(paths) for size in sizes_of_all]
    for each in tried:
        sizes = [int(np.clip(s, 0, len(path) - 1)) for s, path in zip(each, paths)]
        columns = [path[size][0] for path, size in zip(paths, sizes)]
        pairs = [(i, c) for i, chosen in enumerate(columns) for c in chosen]
        if not _agree(library, row, term, inner, pairs):
            continue
        pairs = sorted(pairs, key=lambda pair: (pair[0], term[pair[1]]))
        structure = tuple((i, int(term[c])) for i, c in pairs)
        coefficients = np.zeros(len(pairs))
        for i, chosen in enumerate(columns):
            if not chosen:
                continue
            matrix = scan.gram[np.ix_(chosen, chosen)]
            solved = np.linalg.solve(matrix, scan.right[chosen, i])
            where = [pairs.index((i, c)) for c in chosen]
            coefficients[where] = solved / scan.sizes[chosen]
        columns_used = [(int(row[c]), int(term[c])) for _, c in pairs]
        values = values_of(inner, library, columns_used)
        score = sum(charge[size] for charge, size in zip(charges, sizes))
        found[structure] = Proposal(
            structure, coefficients, values, delays, score, pattern
        )
    return found


def _agree(library, row, term, inner: InnerParameters, pairs) -> bool:
    """Whether the columns of all equations need the same inner parameters."""
    known: dict[str, float] = {}
    for _, column in pairs:
        for name in library.terms[term[column]].parameters:
            value = inner.rows[row[column], inner.names.index(name)]
            if not np.isclose(known.setdefault(name, value), value):
                return False
    return True


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
