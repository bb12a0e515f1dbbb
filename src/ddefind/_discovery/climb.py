"""The search over structures: forward and backward steps to lower scores, by exact
fits."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from .exact import Exact, Fitted
from .library import Structure
from .moves import Move, moves_from
from .proposals import Proposal, coefficients_at
from .structure_fits import in_parallel
from .weak_form import Record

# So many of the best predictions are fitted at a time, and so often, before a structure
# counts as better than all its neighbours.
_TRIED, _ROUNDS = 12, 3
# Predictions that are this much worse are not fitted.
_HOPELESS = 30.0
_MOST_STEPS = 60
# So many proposals are looked at, those with the best scores of each pattern.
_LOOKED_AT = 500
# Looks at proposals: the share of the record, the evaluations, and how many remain.
_LOOKS = ((0.25, 6, 90), (0.5, 10, 40), (1.0, 14, 24))
# A structure is fitted again from so many delays of the scan.
_RESCANNED = 80
# A fit goes on if it is as near to the best as this.
_NEAR = 40.0
# Scores that differ by less than this are the same.
_SAME = 0.5


@final
@dataclass
class Search:
    """Fits of structures, and all that were visited: the best of each, and the path of
    the best ones; and from which score a climb has gone on from a structure. `report()`
    is called after each step."""

    exact: Exact
    records: Sequence[Record]
    delays: Sequence[tuple[float, ...]]
    report: Callable[[], None] = lambda: None
    visited: dict[Structure, Fitted] = field(default_factory=dict)
    climbed: dict[Structure, float] = field(default_factory=dict)
    path: list[Fitted] = field(default_factory=list)

    @property
    def best(self) -> Fitted:
        """The best of all visited fits."""
        return min(self.visited.values(), key=lambda each: each.score)

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
            self.report()

    def try_proposals(self, proposals: Sequence[Proposal]) -> list[Fitted]:
        """The fits from proposals, best first. All are fitted to the beginning of the
        record, and the better ones to more and more of it."""
        if not proposals:
            return []
        scores = np.array([each.score for each in proposals])
        first = _spread_over(scores, _kinds(proposals))[:_LOOKED_AT]
        proposals = [proposals[j] for j in first]
        theta = np.array(
            [
                self.exact.start(each.coefficients, each.inner, each.delays)
                for each in proposals
            ]
        )
        structures = [each.structure for each in proposals]
        rows, theta = self._shortlist(structures, theta, _kinds(proposals))
        fits = self.exact.fit_all(
            [structures[j] for j in rows], [theta[j][None] for j in rows]
        )
        self.add(fits)
        return sorted(fits, key=lambda each: each.score)

    def _shortlist(
        self,
        structures: Sequence[Structure],
        starts: np.ndarray,
        kinds: Sequence[Hashable],
    ) -> tuple[list[int], np.ndarray]:
        """The numbers of the most promising starts, best first, and where short fits to
        more and more of the record have brought all of them.

        The beginning of a record may say little about a value, which then goes astray:
        the last fits are also made from the starts themselves."""
        theta, rows = starts.copy(), list(range(len(starts)))
        for share, limit, kept in _LOOKS:
            own = [structures[j] for j in rows]
            moved, score = self.exact.glance(own, theta[rows], share, limit)
            if share == 1.0:
                direct, other = self.exact.glance(own, starts[rows], share, limit)
                moved = np.where((other < score)[:, None], direct, moved)
                score = np.minimum(other, score)
            theta[rows] = moved
            order = _spread_over(score, [kinds[j] for j in rows])
            rows = [rows[k] for k in order[:kept]]
        return rows, theta

    def climb(self, start: Fitted, candidates: Sequence[tuple[int, int]]) -> Fitted:
        """The structure that is reached by steps to better neighbours, until none is
        better."""
        current = self._polished(start)
        for _ in range(_MOST_STEPS):
            if current.score > self.climbed.get(current.structure, np.inf) - _SAME:
                return current
            self.climbed[current.structure] = current.score
            better = self._step(current, candidates)
            if better is None:
                return current
            current = better
        return current

    def _polished(self, fitted: Fitted) -> Fitted:
        fit = self.exact.fit(fitted.structure, fitted.theta[None])
        self.add([fit])
        return fit if fit.score < fitted.score else fitted

    def _step(
        self, current: Fitted, candidates: Sequence[tuple[int, int]]
    ) -> Fitted | None:
        moves = moves_from(self.exact, current, candidates, _HOPELESS)
        for first in range(0, min(len(moves), _TRIED * _ROUNDS), _TRIED):
            some = moves[first : first + _TRIED]
            self._fit_moves([move for move in some if not self._is_known(move)])
            known = [self.visited.get(each.structure) for each in some]
            fits = [each for each in known if each is not None]
            best = min(fits, key=lambda each: each.score, default=current)
            if best.score < current.score - 1e-3:
                return best
        return None

    def _is_known(self, move: Move) -> bool:
        """Whether a fit of the structure is as good as is predicted."""
        known = self.visited.get(move.structure)
        return known is not None and known.score < move.predicted + _SAME

    def _fit_moves(self, moves: Sequence[Move]) -> list[Fitted]:
        structures, starts = [m.structure for m in moves], [m.starts for m in moves]
        fits = self.exact.fit_all(structures, starts, self.best.score + _NEAR)
        self.add(fits)
        return fits

    def extend(
        self,
        fitted: Fitted,
        candidates: Sequence[tuple[int, int]],
        number: int,
        delays: Sequence[float],
    ) -> Fitted | None:
        """The best fit with one more term, one that reads the delay of this `number`,
        which may have one of the values `delays`; a climb goes on from there."""
        place = self.exact.delays[number]

        def moves(delay: float) -> list[Move]:
            theta = fitted.theta.copy()
            theta[place] = delay
            found = moves_from(
                self.exact, fitted._replace(theta=theta), candidates, np.inf
            )
            library = self.exact.library
            return [m for m in found if number in library.delays_in(m.structure)][:4]

        found = sum(in_parallel(moves, delays), [])
        found = sorted(found, key=lambda move: move.predicted)[: 2 * _TRIED]
        if not found:
            return None
        fits = self._fit_moves(found)
        return self.climb(min(fits, key=lambda each: each.score), candidates)

    def rescan(self, fitted: Fitted) -> Fitted:
        """The best fit of one structure from all delays of the scan."""
        count = len(self.exact.library.delays_in(fitted.structure))
        if not count:
            return fitted
        inner = fitted.theta[self.exact.inner_places]
        library = self.exact.library

        scans = [delays for delays in self.delays if len(delays) == count]
        scans = scans[:: max(len(scans) // _RESCANNED, 1)]
        starts = []
        for delays in scans:
            found = coefficients_at(
                library, self.records, fitted.structure, delays, inner
            )
            if found is not None:
                starts.append(self.exact.start(found, inner, delays))
        if starts:
            same = [fitted.structure] * len(starts)
            rows, theta = self._shortlist(same, np.array(starts), [None] * len(starts))
            self.add([self.exact.fit(fitted.structure, theta[rows[:4]])])
        return self.visited[fitted.structure]


def _kinds(proposals: Sequence[Proposal]) -> list[Hashable]:
    """What takes turns among proposals: their patterns or, with one state, their sizes.
    The weak form prefers short delays, and many terms."""
    if len(proposals[0].pattern) > 1:
        return [each.pattern for each in proposals]
    return [len(each.structure) for each in proposals]


def _spread_over(score: np.ndarray, kinds: Sequence[Hashable]) -> list[int]:
    """The order of proposals by score, such that the kinds take turns."""
    order = np.argsort(score, kind="stable")
    ranks: dict[Hashable, int] = {}
    keys = []
    for k in order:
        rank = ranks.get(kinds[k], 0)
        ranks[kinds[k]] = rank + 1
        keys.append((rank, float(score[k]), int(k)))
    return [k for _, _, k in sorted(keys)]
