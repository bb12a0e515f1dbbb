"""`history="auto"`: fits with several kinds of history, and the choice between them.

The data see the history through one delay only. A history that is too simple for it
distorts all estimates; one that has more freedom than needed makes them less precise.
The choice is by BIC (`_inference/evidence.py`), among all minima of all kinds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from .._inference.evidence import at_minima, evidence
from .._least_squares.other_history import free_values, moved_to, with_more_starts
from .._problem.history import KINDS
from .._results.estimate import Estimate, make_estimate

# The kinds that are compared.
COMPARED = tuple(kind for kind, cls in KINDS.items() if cls.is_compared)
# The number of times during a delay at which histories are compared.
_SAMPLES = 41
# The longer a delay is, the more of the record a history can fill; and of many fast
# sines one always follows the noise. A delay more than twice as long as that of another
# minimum, and a history with more than one cycle in a delay, are chosen on very strong
# evidence only: BIC must be lower by this.
_LONG_PENALTY = _FAST_PENALTY = 10.0


class _Candidate(NamedTuple):
    """A minimum of the fit with one kind of history: its number in that fit's list,
    its parameters, its longest delay, and its BIC with the penalty of a fast sine."""

    kind: str
    number: int
    theta: np.ndarray
    delay: float
    bic: float


def choose_history(fit_with: Callable[[str, Any], Estimate]) -> Estimate:
    """The fit, without intervals, with the history for which there is most evidence.

    `fit_with(kind, solver)` fits with one kind of history. The first fit chooses the
    solver (None), and the others take the same."""
    fits: dict[str, Estimate] = {}
    solver = None
    for kind in COMPARED:
        fits[kind] = fit_with(kind, solver)
        solver = fits[kind].solver
        if fits[kind].search_result.interrupted:
            break
    fits = {kind: _with_starts_of(fits, kind) for kind in fits}
    candidates = [each for kind in fits for each in _candidates(kind, fits[kind])]
    if not candidates:
        return fits["constant"]
    scores = [_score(each, candidates) for each in candidates]
    chosen = candidates[int(np.argmin(scores))]
    of_kind = {
        kind: min(
            (s for c, s in zip(candidates, scores) if c.kind == kind), default=np.inf
        )
        for kind in fits
    }
    lowest = of_kind[chosen.kind]
    order = sorted(of_kind, key=lambda kind: of_kind[kind])
    histories = tuple((kind, float(of_kind[kind] - lowest)) for kind in order)
    seconds = sum(fit.seconds for fit in fits.values())
    best = _at(fits[chosen.kind], chosen)
    return replace(best, histories=histories, seconds=seconds)


def _with_starts_of(fits: dict[str, Estimate], kind: str) -> Estimate:
    """The fit with one kind of history, with further starts at what the fits with the
    others found."""
    fit = fits[kind]
    if not np.isfinite(fit.loss):
        return fit
    others = [fits[other] for other in fits if other != kind]
    rows = [row for other in others for row in _as_start(fit, other)]
    if not rows:
        return fit
    setup, before = fit.setup, fit.search_result
    result = with_more_starts(setup, before, np.array(rows), fit.seed)
    return make_estimate(setup, fit.problem, result, fit.seed, fit.seconds, fit.model)


def _as_start(fit: Estimate, other: Estimate) -> list[np.ndarray]:
    """The best parameters of the fit `other` as starts of `fit`, with histories that
    are similar during the longest delay."""
    if not np.isfinite(other.loss):
        return []
    delay = float(other.setup.delay(other.best[None])[0])
    t = np.linspace(-delay, 0.0, _SAMPLES)
    x = np.stack([np.asarray(other.problem.history(each)) for each in t])
    return [
        free_values(fit.setup, eqx.tree_at(lambda p: p.history, other.problem, past))
        for past in fit.problem.history.nearest(t, x)
    ]


def _candidates(kind: str, fit: Estimate) -> list[_Candidate]:
    if not np.isfinite(fit.loss):
        return []
    minima = at_minima(fit.setup, fit.search_result)
    delays, bics = fit.setup.delay(minima.theta), evidence(fit.setup, minima)
    cycles = minima.theta * delays[:, None] / (2 * np.pi)
    is_fast = np.any(fit.setup.is_frequency & (cycles > 1), axis=1)
    bics = bics + _FAST_PENALTY * is_fast
    rows = zip(range(len(bics)), minima.theta, delays.tolist(), bics.tolist())
    return [_Candidate(kind, *row) for row in rows]


def _score(candidate: _Candidate, others: list[_Candidate]) -> float:
    """The BIC, with the penalty of a long delay."""
    has_shorter = any(
        other.delay < candidate.delay / 2 and other.bic < candidate.bic + _LONG_PENALTY
        for other in others
    )
    return candidate.bic + _LONG_PENALTY * has_shorter


def _at(fit: Estimate, chosen: _Candidate) -> Estimate:
    """The fit at its chosen minimum."""
    if chosen.number == 0:
        return fit
    result = moved_to(fit.setup, fit.search_result, chosen.theta, fit.seed)
    return make_estimate(
        fit.setup, fit.problem, result, fit.seed, fit.seconds, fit.model
    )
