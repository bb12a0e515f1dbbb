"""`history="auto"`: fits with several kinds of history, and the choice between them.

The data see the history through one delay only. A history that is too simple for it
distorts all estimates; one that has more freedom than needed makes them less precise.
The choice is by BIC (`_inference/evidence.py`), among all minima of all kinds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._inference.evidence import at_minima, evidence
from .._least_squares.search import search
from .._results.estimate import Estimate, make_estimate

KINDS = ("constant", "affine", "periodic", "spline")
# The longer a delay is, the more of the record a history can fill. One more than twice
# as long as that of another minimum is chosen on very strong evidence only.
_LONG_PENALTY = 10.0


class _Candidate(NamedTuple):
    """A minimum of the fit with one kind of history: its number in that fit's list,
    its parameters, its longest delay and its BIC."""

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
    for kind in KINDS:
        fits[kind] = fit_with(kind, solver)
        solver = fits[kind].solver
        if fits[kind].search_result.interrupted:
            break
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


def _candidates(kind: str, fit: Estimate) -> list[_Candidate]:
    if not np.isfinite(fit.loss):
        return []
    minima = at_minima(fit.setup, fit.search_result)
    delays, bics = fit.setup.delay(minima.theta), evidence(fit.setup, minima)
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
    setup, before = fit.setup, fit.search_result
    result = search(replace(setup, guess=chosen.theta), 1, fit.seed)
    others = (m for i, m in enumerate(before.minima) if i != chosen.number)
    first = before.minima[chosen.number]
    own = result.minima[0]._replace(starts=first.starts)
    result = replace(result, minima=(own, *others), starts=before.starts)
    problem = fit.problem
    return make_estimate(setup, problem, result, fit.seed, fit.seconds, fit.model)
