r"""The search over structures: steps to neighbours with lower scores, by exact fits.

A neighbour has a term more, up to two less, or both. What a move gains is predicted
from one linearisation of the trajectory, with its derivatives for all candidates. With
the normal equations $H = J^T J$ and $g = J^T r$ at a minimum, a further coefficient j
lowers the sum of squares by about

$$\frac{g_j^2}{H_{jj} - H_{jF} H_{FF}^{-1} H_{Fj}},$$

and removing a coefficient s, with the others fitted again, raises it by
$\theta_s^2 / (H^{-1})_{ss}$. No slope of the data is needed. The best predictions are
then fitted."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import final

import numpy as np

from .._util.machine import cores, one_blas_thread
from .exact import SPARE, Exact, Fitted
from .library import Library, Structure
from .proposals import Proposal, coefficients_at

# The most values of inner parameters that are tried for a further term.
_MOST_TRIED = 16
# After a predicted step that changes the sum of squares by more than this share, the
# fit also begins without the step.
_FAR = 0.3
# This many of the best predictions are fitted at a time, and this many times, before a
# structure counts as better than all its neighbours.
_TRIED, _ROUNDS = 12, 3
# Predictions that are this much worse are not fitted.
_HOPELESS = 30.0
_MOST_STEPS = 60
# The most proposals that are tried: those with the best scores of each pattern.
_MOST_PROPOSALS = 500
# The rounds of short fits: the share of the record, the evaluations, and how many
# proposals remain.
_SHORT_FITS = ((0.25, 6, 90), (0.5, 10, 40), (1.0, 14, 24))
# The most delays of the scan from which a structure is fitted again.
_RESCANNED = 80
# A fit goes on if its score is within this distance of the best.
_NEAR = 40.0
# Scores that differ by less than this are the same.
_SAME = 0.5


@final
@dataclass(frozen=True)
class _Spot:
    """A fit, perhaps with a further term: the pairs of its structure, `whole`, its
    values, the places of its coefficients, and the sum of squares nearby in the values
    with the numbers `free`: the step to its minimum, the inverse of H, and the `gain`,
    how much lower the minimum is."""

    whole: Structure
    theta: np.ndarray
    places: np.ndarray
    free: np.ndarray
    step: np.ndarray
    inverse: np.ndarray
    gain: float

    @property
    def free_places(self) -> np.ndarray:
        """The places of the coefficients among the free values."""
        return np.searchsorted(self.free, self.places)

    def rises(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return how much the sum of squares rises above its minimum without the terms
        number `first` and `second`, which may be the same."""
        where = self.free_places
        values = self.theta[self.places] + self.step[where]
        v = self.inverse[np.ix_(where, where)]
        a, b, c = v[first, first], v[second, second], v[first, second]
        x, y = values[first], values[second]
        is_one = first == second
        determinant = np.where(is_one, 1.0, a * b - c**2)
        both = (b * x**2 - 2 * c * x * y + a * y**2) / determinant
        return np.where(is_one, x**2 / a, both)

    def without(self, removed: Sequence[int]) -> np.ndarray:
        """Return the values at the minimum without some of the coefficients."""
        step, inverse, moved = self.step, self.inverse, self.theta.copy()
        if removed:
            j = self.free_places[list(removed)]
            values = self.theta[self.places[list(removed)]] + step[j]
            step = step - inverse[:, j] @ np.linalg.solve(inverse[np.ix_(j, j)], values)
        moved[self.free] += step
        return moved


@final
@dataclass(frozen=True)
class Move:
    """A neighbour of a structure, and the score that is predicted."""

    structure: Structure
    predicted: float
    exact: Exact
    point: _Spot
    removed: tuple[int, ...]
    is_far: bool

    @property
    def starts(self) -> np.ndarray:
        """The starts of its fit."""
        moved = self.point.without(self.removed)
        tried = (moved, self.point.theta) if self.is_far else (moved,)
        return np.array([self._rearranged(theta) for theta in tried])

    def _rearranged(self, theta: np.ndarray) -> np.ndarray:
        """Return the values in the order of the new structure."""
        exact, result = self.exact, theta.copy()
        known = dict(zip(self.point.whole, theta[self.point.places]))
        result[exact.coefficients] = 0.0
        kept = [known[pair] for pair in self.structure]
        result[exact.coefficients[: len(kept)]] = kept
        return np.clip(result, exact.setup.lower, exact.setup.upper)


def moves_from(
    exact: Exact, fitted: Fitted, candidates: Structure, worst: float
) -> list[Move]:
    """Return the neighbours of a fit whose terms are `candidates`, best prediction
    first, without those whose score is predicted to be higher by more than `worst`."""
    found: dict[Structure, Move] = {}
    for point in _points(exact, fitted, candidates):
        for move in _moves(exact, fitted, point, worst):
            before = found.get(move.structure)
            if before is None or move.predicted < before.predicted:
                found[move.structure] = move
    return sorted(found.values(), key=lambda move: move.predicted)


def _points(exact: Exact, fitted: Fitted, candidates: Structure) -> Iterator[_Spot]:
    """Yield the fit without and with each further candidate."""
    structure, size = fitted.structure, len(fitted.structure)
    free = np.flatnonzero(~exact.is_held(structure))
    places = exact.coefficients[:size]
    yield from _spot(structure, fitted.theta, places, fitted.gram, free)
    if size + SPARE > exact.slots:
        return
    tried = []
    for values, pairs in _probes(exact, fitted, candidates):
        theta = fitted.theta.copy()
        theta[exact.inner_places] = values
        tried += [(theta, some) for some in _together(exact.library, pairs)]
    if not tried:
        return
    whole = [structure + some for _, some in tried]
    linear = exact.fitted(whole, np.array([theta for theta, _ in tried]), limit=1)
    for (theta, some), extended in zip(tried, linear):
        if not np.isfinite(extended.gram).all():
            continue
        for pair, slot in zip(some, exact.coefficients[size:]):
            used, both = np.array([*places, slot]), np.sort([*free, slot])
            yield from _spot((*structure, pair), theta, used, extended.gram, both)


def _together(library: Library, pairs: Structure) -> list[Structure]:
    """Return groups of candidates that share a linearisation. A candidate that may have
    no value along the trajectory is alone, since it would spoil the others."""
    alone = [(pair,) for pair in pairs if pair[1] in library.fragile]
    others = tuple(pair for pair in pairs if pair[1] not in library.fragile)
    parts = range(0, len(others), SPARE)
    return [others[first : first + SPARE] for first in parts] + alone


def _probes(
    exact: Exact, fitted: Fitted, candidates: Structure
) -> Iterator[tuple[np.ndarray, Structure]]:
    """Yield inner parameters with the further candidates that are tried there."""
    others = [pair for pair in candidates if pair not in fitted.structure]
    current = fitted.theta[exact.inner_places]
    used, library = exact.library.parameters_in(fitted.structure), exact.library
    unknown = {j for _, j in others if {*library.terms[j].parameters} - {*used}}
    yield current, tuple(pair for pair in others if pair[1] not in unknown)
    for term in sorted(unknown):
        rows = exact.inner.rows[exact.inner.term == term]
        chosen = np.unique(np.linspace(0, len(rows) - 1, _MOST_TRIED).astype(int))
        for row in rows[chosen]:
            values = np.where(np.isin(exact.inner.names, used), current, row)
            yield values, tuple(pair for pair in others if pair[1] == term)


def _spot(
    whole: Structure,
    theta: np.ndarray,
    places: np.ndarray,
    gram: np.ndarray,
    free: np.ndarray,
) -> Iterator[_Spot]:
    """Yield a spot, or nothing where the sum of squares has no minimum nearby."""
    matrix, gradient = gram[np.ix_(1 + free, 1 + free)], gram[0, 1 + free]
    sizes = np.sqrt(np.diag(matrix))
    if not np.isfinite(matrix).all() or np.any(sizes == 0):
        return
    scaled = matrix / (sizes[:, None] * sizes) + 1e-11 * np.eye(len(free))
    try:
        inverse = np.linalg.inv(scaled) / (sizes[:, None] * sizes)
    except np.linalg.LinAlgError:
        return
    step = -inverse @ gradient
    gain = float(max(-gradient @ step, 0.0))
    yield _Spot(whole, theta, places, free, step, inverse, gain)


def _moves(exact: Exact, fitted: Fitted, point: _Spot, worst: float) -> Iterator[Move]:
    """Yield the moves to the structure of a point, less up to two terms of the fit."""
    size, least = len(fitted.structure), exact.least_loss
    charge = exact.question.term_charge
    total = max(fitted.gram[0, 0], least)
    has_added = len(point.whole) > size
    removals = _removals(size, has_added)
    firsts, lasts = (np.array([r[k] for r in removals if r], int) for k in (0, -1))
    change = np.full(len(removals), -point.gain)
    change[len(removals) - len(firsts) :] += point.rises(firsts, lasts)
    # No prediction is trusted beyond a tenth of the sum of squares.
    after = np.maximum(fitted.gram[0, 0] + change, least)
    share = np.maximum(after / total - 1, -0.9)
    # Where standard deviations are given, the sum of squares is a chi-square.
    is_chi_square = exact.setup.data.sd is not None
    n = exact.setup.count
    rise = total * share if is_chi_square else n * np.log1p(share)
    # At best a move spares two terms, and all values that are no coefficients.
    lowest = rise - fitted.parameters * np.log(n) - 2 * charge
    for number in np.flatnonzero(lowest <= worst):
        removed = removals[number]
        kept = [pair for s, pair in enumerate(point.whole) if s not in removed]
        structure = tuple(sorted(kept))
        if not exact.library.is_valid(structure):
            continue
        more = exact.parameters_of(structure) - fitted.parameters
        larger = len(structure) - size
        added = rise[number] + more * np.log(n) + charge * larger
        if added <= worst:
            is_far = bool(abs(change[number]) > _FAR * total)
            predicted = float(fitted.score + added)
            yield Move(structure, predicted, exact, point, removed, is_far)


@cache
def _removals(size: int, has_added: bool) -> list[tuple[int, ...]]:
    """Return the slots that are emptied: none (after an addition), one, or two."""
    pairs = [(other, removed) for removed in range(size) for other in range(removed)]
    return [()] * has_added + [(removed,) for removed in range(size)] + pairs


@final
@dataclass
class Search:
    """A search over structures with one number of delays and one kind of history.

    It has the `candidates` that may be added, the delays of a `scan`, the best fit of
    each `visited` structure, the score from which it `climbed` from each structure, and
    the `path` of the best fits. `report(search)` is called after each step."""

    exact: Exact
    scan: Sequence[tuple[float, ...]]
    candidates: Structure
    phase: str
    report: Callable[["Search"], None]
    visited: dict[Structure, Fitted] = field(default_factory=dict)
    climbed: dict[Structure, float] = field(default_factory=dict)
    path: list[Fitted] = field(default_factory=list)

    @property
    def library(self) -> Library:
        return self.exact.library

    @property
    def best(self) -> Fitted:
        """The best of all visited fits."""
        return self.ranked[0]

    @property
    def ranked(self) -> list[Fitted]:
        """All visited fits, the best first."""
        return sorted(self.visited.values(), key=lambda each: each.score)

    def with_exactly(self, count: int) -> list[Fitted]:
        """Return the fits with this number of delays, the best first."""
        delays_in = self.library.delays_in
        return [fit for fit in self.ranked if len(delays_in(fit.structure)) == count]

    def lowest(self, count: int) -> float:
        """Return the lowest score with this number of delays."""
        return min((fit.score for fit in self.with_exactly(count)), default=np.inf)

    def add(self, fits: Sequence[Fitted]) -> None:
        """Remember fits."""
        for each in fits:
            before = self.visited.get(each.structure)
            is_better = before is None or each.score < before.score
            if np.isfinite(each.score) and is_better:
                self.visited[each.structure] = each
        if self.visited:
            best = self.best
            if not self.path or best.score < self.path[-1].score - 1e-6:
                self.path.append(best)
            self.report(self)

    def try_proposals(self, proposals: Sequence[Proposal]) -> list[Fitted]:
        """Return the fits of proposals, best first. All are fitted to the beginning of
        the record, and the better ones to more and more of it."""
        if not proposals:
            return []
        scores = np.array([each.score for each in proposals])
        first = _spread_over(scores, _kinds(proposals))[:_MOST_PROPOSALS]
        proposals = [proposals[j] for j in first]
        starts = [
            self.exact.start(each.coefficients, each.inner, each.delays)
            for each in proposals
        ]
        structures = [each.structure for each in proposals]
        rows, theta = self._shortlist(structures, starts, _kinds(proposals))
        fits = self.exact.fit_all(
            [structures[j] for j in rows], [theta[j][None] for j in rows]
        )
        self.add(fits)
        return sorted(fits, key=lambda each: each.score)

    def _shortlist(
        self,
        structures: Sequence[Structure],
        starts: Sequence[np.ndarray],
        kinds: Sequence[Hashable],
    ) -> tuple[list[int], np.ndarray]:
        """Return the numbers of the most promising starts, best first, and the values
        that short fits to more and more of the record reached from all starts.

        The beginning of a record may say little about a value, which then goes astray:
        the last fits are also made from the starts themselves."""
        begin, theta = np.array(starts), np.array(starts)
        rows = list(range(len(starts)))
        for share, limit, kept in _SHORT_FITS:
            some = [structures[j] for j in rows]
            moved, score = self.exact.glance(some, theta[rows], share, limit)
            if share == 1.0:
                direct, other = self.exact.glance(some, begin[rows], share, limit)
                moved = np.where((other < score)[:, None], direct, moved)
                score = np.minimum(other, score)
            theta[rows] = moved
            order = _spread_over(score, [kinds[j] for j in rows])
            rows = [rows[k] for k in order[:kept]]
        return rows, theta

    def climb(self, start: Fitted) -> None:
        """Step to better neighbours until none is better."""
        again = self.exact.fit(start.structure, start.theta[None])
        self.add([again])
        current = again if again.score < start.score else start
        for _ in range(_MOST_STEPS):
            if current.score > self.climbed.get(current.structure, np.inf) - _SAME:
                return
            self.climbed[current.structure] = current.score
            better = self._step(current)
            if better is None:
                return
            current = better

    def _step(self, current: Fitted) -> Fitted | None:
        """Return a better neighbour, or None if none is found."""
        moves = moves_from(self.exact, current, self.candidates, _HOPELESS)
        for first in range(0, min(len(moves), _TRIED * _ROUNDS), _TRIED):
            some = moves[first : first + _TRIED]
            # Not those that have a fit as good as is predicted.
            self._fit_moves([m for m in some if self._score(m) >= m.predicted + _SAME])
            known = [self.visited.get(each.structure) for each in some]
            fits = [each for each in known if each is not None]
            best = min(fits, key=lambda each: each.score, default=current)
            if best.score < current.score - 1e-3:
                return best
        return None

    def _score(self, move: Move) -> float:
        known = self.visited.get(move.structure)
        return np.inf if known is None else known.score

    def _fit_moves(self, moves: Sequence[Move]) -> list[Fitted]:
        structures, starts = [m.structure for m in moves], [m.starts for m in moves]
        fits = self.exact.fit_all(structures, starts, self.best.score + _NEAR)
        self.add(fits)
        return fits

    def extend(self, fitted: Fitted, delays: Sequence[float]) -> None:
        """Add a term that reads the last delay, at one of the values `delays`, and
        climb from the best fit with it."""
        number = self.library.delays - 1

        def moves(delay: float) -> list[Move]:
            theta = fitted.theta.copy()
            theta[self.exact.delays[number]] = delay
            start, delays_in = fitted._replace(theta=theta), self.library.delays_in
            found = moves_from(self.exact, start, self.candidates, np.inf)
            return [m for m in found if number in delays_in(m.structure)][:4]

        with one_blas_thread(), ThreadPoolExecutor(cores()) as pool:
            found = [move for some in pool.map(moves, delays) for move in some]
        found = sorted(found, key=lambda move: move.predicted)[: 2 * _TRIED]
        if found:
            fits = self._fit_moves(found)
            self.climb(min(fits, key=lambda each: each.score))

    def rescan(self, fitted: Fitted) -> None:
        """Fit a structure again, from all delays of the scan."""
        exact, structure = self.exact, fitted.structure
        count = len(self.library.delays_in(structure))
        scans = [delays for delays in self.scan if len(delays) == count]
        starts, inner = [], fitted.theta[exact.inner_places]
        for delays in scans[:: max(len(scans) // _RESCANNED, 1)]:
            records = exact.question.records
            found = coefficients_at(self.library, records, structure, delays, inner)
            if found is not None:
                starts.append(exact.start(found, inner, delays))
        if starts:
            same = [structure] * len(starts)
            rows, theta = self._shortlist(same, starts, [None] * len(starts))
            self.add([exact.fit(structure, theta[rows[:4]])])


def _kinds(proposals: Sequence[Proposal]) -> list[Hashable]:
    """Return the kinds of proposals that take turns: their patterns or, with one state,
    their sizes. The weak form prefers short delays, and many terms."""
    if len(proposals[0].pattern) > 1:
        return [each.pattern for each in proposals]
    return [len(each.structure) for each in proposals]


def _spread_over(score: np.ndarray, kinds: Sequence[Hashable]) -> list[int]:
    """Return the order of proposals by score, such that the kinds take turns."""
    count, keys = Counter[Hashable](), []
    for k in np.argsort(score, kind="stable").tolist():
        keys.append((count[kinds[k]], float(score[k]), k))
        count[kinds[k]] += 1
    return [k for _, _, k in sorted(keys)]
