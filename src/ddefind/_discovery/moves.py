r"""Moves to the neighbours of a structure: a term more, up to two less, or both.

What a move will gain is predicted from one linearisation of the trajectory with its
derivatives for all candidates. With the normal equations $H = J^T J$ and $g = J^T r$ at
a minimum, a further coefficient j lowers the sum of squares by about

$$\frac{g_j^2}{H_{jj} - H_{jF} H_{FF}^{-1} H_{Fj}},$$

and a coefficient s without which the others are fitted again raises it by
$\theta_s^2 / (H^{-1})_{ss}$. No slope of the data is needed. The best predictions are
then fitted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, final

import numpy as np

from .exact import SPARE, Exact, Fitted
from .library import Library, Structure

# Of the inner parameters that a scan tries, so many are tried for a further term.
_MOST_TRIED = 16
# A step that changes the sum of squares by more than this share of it is far; then
# the fit begins without it, too.
_FAR = 0.3


class _Quadratic(NamedTuple):
    """The sum of squares near a point, in the values with the numbers `free`."""

    free: np.ndarray
    step: np.ndarray  # to the minimum
    inverse: np.ndarray  # of H
    gain: float  # how much lower the minimum is


@final
@dataclass(frozen=True)
class _Point:
    """A fit with a further term or without one: the pairs of its structure, `whole`,
    the values there, the `places` of its coefficients among all values, and the sum of
    squares nearby."""

    whole: Structure
    theta: np.ndarray
    places: np.ndarray
    quadratic: _Quadratic

    @property
    def own(self) -> np.ndarray:
        """The places of the coefficients among the free values."""
        return np.searchsorted(self.quadratic.free, self.places)

    def rises(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """How much the sum of squares rises above its minimum without the terms number
        `first` and `second`, which may be the same."""
        values = self.theta[self.places] + self.quadratic.step[self.own]
        v = self.quadratic.inverse[np.ix_(self.own, self.own)]
        a, b, c = v[first, first], v[second, second], v[first, second]
        x, y = values[first], values[second]
        is_one = first == second
        determinant = np.where(is_one, 1.0, a * b - c**2)
        both = (b * x**2 - 2 * c * x * y + a * y**2) / determinant
        return np.where(is_one, x**2 / a, both)

    def without(self, removed: Sequence[int]) -> np.ndarray:
        """The values at the minimum without some of the coefficients."""
        step, moved = self.quadratic.step, self.theta.copy()
        if removed:
            j = self.own[list(removed)]
            values = self.theta[self.places[list(removed)]] + step[j]
            inverse = self.quadratic.inverse
            step = step - inverse[:, j] @ np.linalg.solve(inverse[np.ix_(j, j)], values)
        moved[self.quadratic.free] += step
        return moved


@final
@dataclass(frozen=True)
class Move:
    """A neighbour of a structure, and the score that is predicted."""

    structure: Structure
    predicted: float
    exact: Exact
    point: _Point
    removed: tuple[int, ...]
    is_far: bool

    @property
    def starts(self) -> np.ndarray:
        """Where its fit begins."""
        moved = self.point.without(self.removed)
        tried = (moved, self.point.theta) if self.is_far else (moved,)
        return np.array([self._rearranged(theta) for theta in tried])

    def _rearranged(self, theta: np.ndarray) -> np.ndarray:
        """The values of the point as those of the structure, whose terms keep their
        coefficients."""
        exact, result = self.exact, theta.copy()
        known = dict(zip(self.point.whole, theta[self.point.places]))
        result[exact.coefficients] = 0.0
        own = [known[pair] for pair in self.structure]
        result[exact.coefficients[: len(own)]] = own
        return np.clip(result, exact.setup.lower, exact.setup.upper)


def moves_from(
    exact: Exact,
    fitted: Fitted,
    candidates: Sequence[tuple[int, int]],
    worst: float,
) -> list[Move]:
    """The neighbours of a fit whose terms are `candidates`, best prediction first,
    without those whose score is predicted to be higher by more than `worst`."""
    found: dict[Structure, Move] = {}
    for point in _points(exact, fitted, candidates):
        for move in _moves(exact, fitted, point, worst):
            before = found.get(move.structure)
            if before is None or move.predicted < before.predicted:
                found[move.structure] = move
    return sorted(found.values(), key=lambda move: move.predicted)


def _points(
    exact: Exact, fitted: Fitted, candidates: Sequence[tuple[int, int]]
) -> Iterator[_Point]:
    """The fit, without and with each further candidate."""
    structure, size = fitted.structure, len(fitted.structure)
    free = np.flatnonzero(~exact.is_held(structure))
    places = exact.coefficients[:size]
    if (own := _quadratic(fitted.gram, free)) is not None:
        yield _Point(structure, fitted.theta, places, own)
    if size + SPARE > exact.slots:
        return
    tried = []
    for values, pairs in _probes(exact, fitted, candidates):
        theta = fitted.theta.copy()
        theta[exact.inner_places] = values
        tried += [(theta, some) for some in _together(exact.library, pairs)]
    if not tried:
        return
    whole = [(*structure, *some) for _, some in tried]
    linear = exact.linearised(whole, np.array([theta for theta, _ in tried]))
    for (theta, some), own in zip(tried, linear):
        if not np.isfinite(own.gram).all():
            continue
        for pair, slot in zip(some, exact.coefficients[size:]):
            quadratic = _quadratic(own.gram, np.sort([*free, slot]))
            if quadratic is not None:
                yield _Point(
                    (*structure, pair), theta, np.array([*places, slot]), quadratic
                )


def _together(
    library: Library, pairs: Sequence[tuple[int, int]]
) -> list[list[tuple[int, int]]]:
    """The candidates that share a linearisation. One that may have no value along the
    trajectory is alone: it would spoil the others'."""
    alone = [[pair] for pair in pairs if pair[1] in library.fragile]
    others = [pair for pair in pairs if pair[1] not in library.fragile]
    parts = range(0, len(others), SPARE)
    return [others[first : first + SPARE] for first in parts] + alone


def _probes(
    exact: Exact, fitted: Fitted, candidates: Sequence[tuple[int, int]]
) -> Iterator[tuple[np.ndarray, list[tuple[int, int]]]]:
    """Inner parameters with the further candidates that are tried there."""
    present = set(fitted.structure)
    others = [pair for pair in candidates if pair not in present]
    current = fitted.theta[exact.inner_places]
    used = set(exact.library.parameters_in(fitted.structure))

    def is_known(term: int) -> bool:
        return set(exact.library.terms[term].parameters) <= used

    yield current, [pair for pair in others if is_known(pair[1])]
    for term in sorted({term for _, term in others if not is_known(term)}):
        rows = exact.inner.rows[exact.inner.term == term]
        chosen = np.unique(np.linspace(0, len(rows) - 1, _MOST_TRIED).astype(int))
        for row in rows[chosen]:
            fixed = np.array([name in used for name in exact.inner.names], bool)
            values = np.where(fixed, current, row)
            yield values, [pair for pair in others if pair[1] == term]


def _quadratic(gram: np.ndarray, free: np.ndarray) -> _Quadratic | None:
    matrix, gradient = gram[np.ix_(1 + free, 1 + free)], gram[0, 1 + free]
    sizes = np.sqrt(np.diag(matrix))
    if not np.isfinite(matrix).all() or np.any(sizes == 0):
        return None
    scaled = matrix / (sizes[:, None] * sizes) + 1e-11 * np.eye(len(free))
    try:
        inverse = np.linalg.inv(scaled) / (sizes[:, None] * sizes)
    except np.linalg.LinAlgError:
        return None
    step = -inverse @ gradient
    return _Quadratic(free, step, inverse, float(max(-gradient @ step, 0.0)))


def _moves(exact: Exact, fitted: Fitted, point: _Point, worst: float) -> Iterator[Move]:
    """The moves to the structure of a point, less up to two terms of the fit."""
    size, least = len(fitted.structure), exact.least_loss
    total = max(fitted.gram[0, 0], least)
    has_added = len(point.whole) > size
    removals = _removals(size, has_added)
    firsts, lasts = (np.array([r[k] for r in removals if r], int) for k in (0, -1))
    change = np.full(len(removals), -point.quadratic.gain)
    change[len(removals) - len(firsts) :] += point.rises(firsts, lasts)
    # No prediction is trusted beyond a tenth of the sum of squares.
    after = np.maximum(fitted.gram[0, 0] + change, least)
    share = np.maximum(after / total - 1, -0.9)
    # Where standard deviations are given, the sum of squares is a chi-square.
    is_chi_square = exact.setup.data.sd is not None
    n = exact.count
    rise = total * share if is_chi_square else n * np.log1p(share)
    # At best a move spares two terms, and all values that are no coefficients.
    lowest = rise - fitted.parameters * np.log(n) - 2 * exact.term_charge
    for number in np.flatnonzero(lowest <= worst):
        removed = removals[number]
        kept = [pair for s, pair in enumerate(point.whole) if s not in removed]
        structure = tuple(sorted(kept))
        if not exact.library.is_valid(structure):
            continue
        more = exact.parameters_of(structure) - fitted.parameters
        larger = len(structure) - size
        added = rise[number] + more * np.log(n) + exact.term_charge * larger
        if added <= worst:
            is_far = bool(abs(change[number]) > _FAR * total)
            predicted = float(fitted.score + added)
            yield Move(structure, predicted, exact, point, removed, is_far)


@cache
def _removals(size: int, has_added: bool) -> list[tuple[int, ...]]:
    """The slots that are emptied: none (after an addition), one, or two."""
    pairs = [(other, removed) for removed in range(size) for other in range(removed)]
    return [()] * has_added + [(removed,) for removed in range(size)] + pairs
