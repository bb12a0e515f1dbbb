r"""Moves to the neighbours of a structure: a term more, up to two less, or both.

What a move will gain is predicted from one linearisation of the trajectory with its
derivatives for all candidates. With the normal equations $H = J^T J$ and $g = J^T r$ at
a minimum, a further coefficient j lowers the sum of squares by about

$$\frac{g_j^2}{H_{jj} - H_{jF} H_{FF}^{-1} H_{Fj}},$$

and a coefficient s without which the others are fitted again raises it by
$\theta_s^2 / (H^{-1})_{ss}$. No slope of the data is needed. The best predictions are
then fitted."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .exact import SPARE, Exact, Fitted
from .library import Library, Structure

# Of the inner parameters that a scan tries, so many are tried for a further term.
_MOST_TRIED = 16
# A step that changes the sum of squares by more than this share of it is far; then
# the fit begins without it, too.
_FAR = 0.3


class Move(NamedTuple):
    """A neighbour of a structure, the score that is predicted, and where its fit
    begins."""

    structure: Structure
    predicted: float
    starts: np.ndarray


class _Quadratic(NamedTuple):
    """The sum of squares near a point, in the values with the numbers `free`."""

    free: np.ndarray
    step: np.ndarray  # to the minimum
    inverse: np.ndarray  # of H
    gain: float  # how much lower the minimum is

    @property
    def places(self) -> dict[int, int]:
        """Where the values stand among the free ones."""
        return {int(value): j for j, value in enumerate(self.free)}


def moves_from(
    exact: Exact,
    fitted: Fitted,
    candidates: Sequence[tuple[int, int]],
    worst: float,
) -> list[Move]:
    """The neighbours of a fit whose terms are `candidates`, best prediction first,
    without those whose score is predicted to be higher by more than `worst`."""
    found: dict[Structure, Move] = {}
    held = exact.is_held(fitted.structure)
    for quadratic, theta, added in _quadratics(exact, fitted, candidates, held):
        for move in _moves(exact, fitted, quadratic, theta, added, worst):
            before = found.get(move.structure)
            if before is None or move.predicted < before.predicted:
                found[move.structure] = move
    return sorted(found.values(), key=lambda move: move.predicted)


def _quadratics(
    exact: Exact,
    fitted: Fitted,
    candidates: Sequence[tuple[int, int]],
    held: np.ndarray,
) -> Iterator[tuple[_Quadratic, np.ndarray, tuple[int, int] | None]]:
    """The sum of squares near the fit, without and with each further candidate; and the
    values there, with the candidate in the slot behind the others."""
    free = np.flatnonzero(~held)
    if (own := _quadratic(fitted.gram, free)) is not None:
        yield own, fitted.theta, None
    if len(fitted.structure) + SPARE > exact.slots:
        return
    slot = exact.coefficients[len(fitted.structure)]
    tried = []
    for values, pairs in _probes(exact, fitted, candidates):
        theta = fitted.theta.copy()
        theta[exact.inner_places] = values
        tried += [(theta, some) for some in _together(exact.library, pairs)]
    if not tried:
        return
    whole = [(*fitted.structure, *some) for _, some in tried]
    linear = exact.linearised(whole, np.array([theta for theta, _ in tried]))
    for (theta, some), own in zip(tried, linear):
        if not np.isfinite(own.gram).all():
            continue
        for j, pair in enumerate(some):
            # The candidate takes the first spare slot.
            order = np.arange(len(theta))
            order[[slot, slot + j]] = order[[slot + j, slot]]
            places = np.concatenate([[0], 1 + order])
            gram = own.gram[np.ix_(places, places)]
            quadratic = _quadratic(gram, np.append(free, slot))
            if quadratic is not None:
                yield quadratic, theta, pair


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


def _moves(
    exact: Exact,
    fitted: Fitted,
    quadratic: _Quadratic,
    theta: np.ndarray,
    added: tuple[int, int] | None,
    worst: float,
) -> Iterator[Move]:
    """The moves that add the candidate, if there is one, and remove up to two terms."""
    total = fitted.gram[0, 0]
    whole = fitted.structure if added is None else (*fitted.structure, added)
    n, where = int(np.isfinite(exact.setup.data.x).sum()), quadratic.places
    for removed in _removals(len(fitted.structure), added is not None):
        kept = [pair for s, pair in enumerate(whole) if s not in removed]
        structure = tuple(sorted(kept))
        if not exact.library.is_valid(structure):
            continue
        step, change = quadratic.step, -quadratic.gain
        if removed:
            places = exact.coefficients[list(removed)]
            j = [where[int(place)] for place in places]
            values = theta[places] + step[j]
            pulled = np.linalg.solve(quadratic.inverse[np.ix_(j, j)], values)
            step = step - quadratic.inverse[:, j] @ pulled
            change = change + float(values @ pulled)
        more = exact.parameters_of(structure) - fitted.parameters
        # No prediction is trusted beyond a tenth of the sum of squares.
        share = max(change / max(total, 1e-300), -0.9)
        # Where standard deviations are given, the sum of squares is a chi-square.
        is_chi_square = exact.setup.data.sd is not None
        predicted = total * share if is_chi_square else n * np.log1p(share)
        predicted += fitted.score + more * np.log(n)
        predicted += exact.term_charge * (len(structure) - len(fitted.structure))
        if predicted > fitted.score + worst:
            continue
        moved = theta.copy()
        moved[quadratic.free] += step
        tried = (moved, theta) if abs(change) > _FAR * total else (moved,)
        starts = [_rearranged(exact, whole, structure, each) for each in tried]
        yield Move(structure, float(predicted), np.array(starts))


def _removals(size: int, has_added: bool) -> Iterator[tuple[int, ...]]:
    """The slots that are emptied: none (after an addition), one, or two."""
    if has_added:
        yield ()
    for removed in range(size):
        yield (removed,)
        for other in range(removed):
            yield (other, removed)


def _rearranged(
    exact: Exact, before: Structure, structure: Structure, theta: np.ndarray
) -> np.ndarray:
    """The values of one structure as those of another: shared terms keep their
    coefficients."""
    known = dict(zip(before, theta[exact.coefficients]))
    result = theta.copy()
    result[exact.coefficients] = 0.0
    own = [known.get(pair, 0.0) for pair in structure]
    result[exact.coefficients[: len(own)]] = own
    return np.clip(result, exact.setup.lower, exact.setup.upper)
