"""One case of the study: a data set, what `dd.discover` says of it, and whether that is
true."""

import re
import time
from typing import Any

import numpy as np

import ddefind as dd
from ddefind._discovery.discover import read_question
from ddefind._discovery.exact import make_exact
from ddefind._discovery.proposals import coefficients_at

from .systems import DELAYED, LACKING, ORDINARY, Sample, System, sample

POINTS = 200


def system_named(name: str) -> System:
    """The system of this name."""
    return next(each for each in (*DELAYED, *ORDINARY, *LACKING) if each.name == name)


def run_case(name: str, level: float, seed: int) -> dict[str, Any]:
    """What `dd.discover` finds for one data set."""
    system = system_named(name)
    own = sample(system, POINTS, level, seed)
    data = dd.Data(own.t, own.x, names=list(system.states))
    began = time.perf_counter()
    found = dd.discover(
        data,
        system.terms,
        delays=system.most_delays,
        intervals=False,
        progress=False,
    )
    seconds = time.perf_counter() - began
    is_true = [same_terms(each.terms, system.truth) for each in found.models]
    success = bool(is_true[0])
    best = min(each.bic for each in found.models)
    bic = min((m.bic for m, true in zip(found.models, is_true) if true), default=np.inf)
    if system.truth and not success:
        bic = min(bic, truth_bic(system, own, data))
    return {
        "system": name,
        "level": level,
        "seed": seed,
        "success": success,
        "truth_is_best": bool(bic <= best + 1e-6),
        "truth_minus_best": float(bic - best) if np.isfinite(bic) else None,
        "delays": list(found.best.delays.values()),
        "true_delays": list(own.delays),
        "errors": _delay_errors(found) if success else [],
        "probabilities": _probabilities(found, system) if system.truth else [],
        "terms": {state: list(own) for state, own in found.terms.items()},
        "history": found.equation.history,
        "undecided": len(found.undecided),
        "rejected": found.fit is not None and found.fit.rejected,
        "seconds": seconds,
    }


def _spaceless(terms: Any, swap: bool = False) -> dict[str, frozenset[str]]:
    def text(term: str) -> str:
        term = term.replace(" ", "")
        return re.sub(
            r"tau_(\d)", lambda m: f"tau_{3 - int(m[1])}" if swap else m[0], term
        )

    return {state: frozenset(map(text, own)) for state, own in terms.items()}


def same_terms(terms: Any, truth: Any) -> bool:
    """Whether terms are the true ones; two delays may change their names."""
    return _spaceless(terms) in (_spaceless(truth), _spaceless(truth, swap=True))


def _probabilities(found: dd.Discovery, system: System) -> list[list[float]]:
    """Pairs of the probability of a term and whether it is true."""
    given = _spaceless(found.inclusion)
    choices = [_spaceless(system.truth, swap) for swap in (False, True)]
    # Delays are named by what was found.
    chosen = _spaceless(found.terms)
    truth = max(choices, key=lambda t: sum(len(t[s] & chosen[s]) for s in t))
    if not found.best.delays or "tau_2" not in str(found.inclusion):
        truth = {
            s: frozenset(re.sub(r"tau_\d", "tau", text) for text in own)
            for s, own in truth.items()
        }
    pairs = []
    for state, terms in found.inclusion.items():
        assert len(given[state]) == len(terms)
        for text, probability in terms.items():
            is_true = text.replace(" ", "") in truth[state]
            pairs.append([float(probability), int(is_true)])
    return pairs


def _delay_errors(found: dd.Discovery) -> list[float]:
    """The standard errors of the delays."""
    fit = found.fit
    if fit is None:
        return []
    errors = fit.standard_errors
    return [float(errors.get(name, np.nan)) for name in found.best.delays]


def truth_bic(system: System, own: Sample, data: dd.Data) -> float:
    """The BIC of the true structure, fitted from the true delays and all inner
    parameters of the scan."""
    most = system.most_delays
    question = read_question(data, system.terms, most, None, None)
    exact = make_exact(question, max(len(own.delays), 1), "constant")
    library, starts = exact.library, []
    texts = [term.text.replace(" ", "") for term in library.terms]
    structure = tuple(
        sorted(
            (system.states.index(state), texts.index(text))
            for state, chosen in _spaceless(system.truth).items()
            for text in chosen
        )
    )
    rows = exact.inner.rows
    for values in rows[:: max(len(rows) // 40, 1)]:
        c = coefficients_at(library, question.records, structure, own.delays, values)
        if c is not None:
            starts.append(exact.start(c, values, own.delays))
    same = [structure] * len(starts)
    theta, scores = exact.glance(same, np.array(starts), 0.3, 12)
    theta = np.concatenate([theta[np.argsort(scores)[:6]], np.array(starts)])
    first = exact.fit(structure, theta)
    return exact.fit_all([structure], [first.theta[None]], finer=2)[0].bic
