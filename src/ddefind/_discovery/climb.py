"""The search over structures: forward and backward steps on BIC, by exact fits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from .exact import Exact, Fitted, in_parallel
from .library import Structure
from .moves import Move, moves_from
from .proposals import Proposal, coefficients_at
from .weak_form import Record

# So many of the best predictions are fitted at a time, and so often, before a structure
# counts as better than all its neighbours.
_TRIED, _ROUNDS = 12, 3
# Predictions that are this much worse are not fitted.
_HOPELESS = 30.0
_MOST_STEPS = 60
# Looks at proposals: the share of the record, the evaluations, and how many remain.
_LOOKS = ((0.25, 6, 90), (0.5, 10, 40), (1.0, 14, 24))
# A structure is fitted again from so many delays of the scan.
_RESCANNED = 80
# A fit goes on if it is as near to the best as this.
_NEAR = 40.0


@final
@dataclass
class Search:
    """Fits of structures, and all that were visited: the best of each, and the path of
    the best ones. `report()` is called after each step."""

    exact: Exact
    records: Sequence[Record]
    delays: Sequence[tuple[float, ...]]
    report: Callable[[], None] = lambda: None
    visited: dict[Structure, Fitted] = field(default_factory=dict)
    path: list[Fitted] = field(default_factory=list)

    @property
    def best(self) -> Fitted:
        """The best of all visited fits."""
        return min(self.visited.values(), key=lambda each: each.bic)

    def add(self, fits: Sequence[Fitted]) -> None:
        """Remember fits."""
        for each in fits:
            before = self.visited.get(each.structure)
            if np.isfinite(each.bic) and (before is None or each.bic < before.bic):
                self.visited[each.structure] = each
        if self.visited:
            best = self.best
            if not self.path or best.bic < self.path[-1].bic - 1e-6:
                self.path.append(best)
            self.report()

    def try_proposals(self, proposals: Sequence[Proposal]) -> list[Fitted]:
        """The fits from proposals, best first. All are fitted to the beginning of the
        record, and the better ones to more and more of it."""
        starts = [
            self.exact.start(each.coefficients, each.inner, each.delays)[None]
            for each in proposals
        ]
        structures = [each.structure for each in proposals]
        rows = list(range(len(proposals)))
        for share, limit, kept in _LOOKS:

            def look(j: int, share: float = share, limit: int = limit):
                return self.exact.glance(structures[j], starts[j], share, limit)

            looks = in_parallel(look, rows)
            for j, (theta, _) in zip(rows, looks):
                starts[j] = theta
            score = np.array([float(value[0]) for _, value in looks])
            order = _spread_over(score, [proposals[j].pattern for j in rows])
            rows = [rows[k] for k in order[:kept]]

        fits = in_parallel(lambda j: self.exact.fit(structures[j], starts[j]), rows)
        self.add(fits)
        return sorted(fits, key=lambda each: each.bic)

    def climb(self, start: Fitted, candidates: Sequence[tuple[int, int]]) -> Fitted:
        """The structure that is reached by steps to better neighbours, until none is
        better."""
        current = self._polished(start)
        for _ in range(_MOST_STEPS):
            better = self._step(current, candidates)
            if better is None:
                return current
            current = better
        return current

    def _polished(self, fitted: Fitted) -> Fitted:
        fit = self.exact.fit(fitted.structure, fitted.theta[None])
        self.add([fit])
        return fit if fit.bic < fitted.bic else fitted

    def _step(
        self, current: Fitted, candidates: Sequence[tuple[int, int]]
    ) -> Fitted | None:
        moves = moves_from(self.exact, current, candidates, _HOPELESS)
        for first in range(0, min(len(moves), _TRIED * _ROUNDS), _TRIED):
            fits = in_parallel(self._fit_move, moves[first : first + _TRIED])
            self.add(fits)
            known = [self.visited.get(each.structure) or each for each in fits]
            best = min(known, key=lambda each: each.bic)
            if best.bic < current.bic - 1e-3:
                return best
        return None

    def _fit_move(self, move: Move) -> Fitted:
        return self.exact.fit(move.structure, move.starts, self.best.bic + _NEAR)

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
        fits = in_parallel(self._fit_move, found)
        self.add(fits)
        return self.climb(min(fits, key=lambda each: each.bic), candidates)

    def rescan(self, fitted: Fitted) -> Fitted:
        """The best fit of one structure from all delays of the scan."""
        count = len(self.exact.library.delays_in(fitted.structure))
        if not count:
            return fitted
        inner = fitted.theta[self.exact.inner_places]
        library = self.exact.library

        def look(delays: tuple[float, ...]) -> tuple[np.ndarray, float] | None:
            found = coefficients_at(
                library, self.records, fitted.structure, delays, inner
            )
            if found is None:
                return None
            start = self.exact.start(found, inner, delays)[None]
            for share, limit, _ in _LOOKS:
                start, score = self.exact.glance(fitted.structure, start, share, limit)
            return start, float(score[0])

        scans = [delays for delays in self.delays if len(delays) == count]
        scans = scans[:: max(len(scans) // _RESCANNED, 1)]
        looks = [each for each in in_parallel(look, scans) if each is not None]
        looks = sorted(looks, key=lambda each: each[1])[:4]
        if looks:
            starts = np.concatenate([start for start, _ in looks])
            self.add([self.exact.fit(fitted.structure, starts)])
        return self.visited[fitted.structure]


def _spread_over(score: np.ndarray, patterns: Sequence[tuple[bool, ...]]) -> list[int]:
    """The order of proposals by score, such that the patterns take turns."""
    order = np.argsort(score, kind="stable")
    ranks: dict[tuple[bool, ...], int] = {}
    keys = []
    for k in order:
        rank = ranks.get(patterns[k], 0)
        ranks[patterns[k]] = rank + 1
        keys.append((rank, float(score[k]), int(k)))
    return [k for _, _, k in sorted(keys)]
