"""How often does pysindy find exactly the true terms of the same data?

`python -m studies.discovery.baseline [SEEDS [SYSTEM ...]]` needs pysindy 2.0.0 (with
scikit-learn 1.6), which is no part of the project's environment. States one delay ago,
from its smoothed data, are its further inputs; the delay of a grid with the best score
is taken; slopes are by its `SmoothedFiniteDifference`, and coefficients the medians of
its ensembles. It gets help that `dd.discover` does not have: the true parameters inside
of terms, and of a series of thresholds the one with which it succeeds.

It writes `results/discovery_pysindy.json`.
"""

import argparse
import importlib
import itertools
import json
import re
import time
import warnings
from typing import Any

import numpy as np

from ddefind._discovery.terms import delay_names, read_terms
from ddefind._util.text_files import write_whole

from ..page_tables import RESULTS
from .cases import POINTS, same_terms, system_named
from .systems import DELAYED, Sample, System, sample

FILE = RESULTS / "discovery_pysindy.json"
LEVELS = (0.01, 0.05, 0.1)
THRESHOLDS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
# Candidate delays: fewer of each where pairs are tried.
MOST_DELAYS, MOST_IN_PAIRS = 30, 12
TRUE_INNER = {"K": 1.0, "n": 9.0, "a": 1.0}
_FUNCTIONS = {"exp": np.exp, "tanh": np.tanh, **TRUE_INNER}


def run_baseline(system: System, level: float, seed: int) -> dict[str, Any]:
    """The threshold with which pysindy finds the true terms, if there is one."""
    own = sample(system, POINTS, level, seed)
    began, found = time.perf_counter(), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for threshold in THRESHOLDS:
            found[threshold] = _terms(system, own, threshold)
    successes = [t for t in THRESHOLDS if same_terms(found[t], system.truth)]
    return {
        "system": system.name,
        "level": level,
        "seed": seed,
        "success": bool(successes),
        "threshold": successes[0] if successes else None,
        "seconds": time.perf_counter() - began,
    }


def _terms(system: System, own: Sample, threshold: float) -> dict[str, list[str]]:
    """The terms of each state at the delays with the best score."""
    best, chosen = -np.inf, {}
    count = max(len(own.delays), 1)
    most = MOST_DELAYS if count == 1 else MOST_IN_PAIRS
    step = own.t[1] - own.t[0]
    grid = np.linspace(step / 2, own.t[-1] / 3, most)
    for delays in itertools.combinations(grid, count):
        score, terms = _fit(system, own, threshold, delays)
        if score > best:
            best, chosen = score, terms
    return chosen


def _fit(
    system: System, own: Sample, threshold: float, delays: tuple[float, ...]
) -> tuple[float, dict[str, list[str]]]:
    ps: Any = importlib.import_module("pysindy")
    differentiation = ps.SmoothedFiniteDifference()
    slopes = differentiation(own.x, own.t)
    smooth = differentiation.smoothed_x_
    earlier = [
        np.stack([np.interp(own.t - tau, own.t, column) for column in smooth.T], axis=1)
        for tau in delays
    ]
    rows = own.t >= max(delays)
    inputs = np.concatenate(earlier, axis=1)[rows]
    terms = [t.text for t in read_terms(system.terms, system.states, len(delays))]
    names = [*system.states]
    for tau in delay_names(len(delays)):
        names += [f"{state}_at_{tau}" for state in system.states]
    functions = [_function(text, names) for text in terms]
    labels = [eval(f"lambda {', '.join(names)}: {text!r}") for text in terms]
    model = ps.SINDy(
        ps.EnsembleOptimizer(ps.STLSQ(threshold=threshold), bagging=True),
        ps.CustomLibrary(functions, labels),
    )
    np.random.seed(0)
    x, t = smooth[rows], own.t[rows]
    model.fit(x, t, x_dot=slopes[rows], u=inputs)
    score = model.score(x, t, x_dot=slopes[rows], u=inputs)
    chosen = {
        state: [text for text, c in zip(terms, row) if c != 0]
        for state, row in zip(system.states, model.coefficients())
    }
    return float(score), chosen


def _function(text: str, names: list[str]) -> Any:
    """A term as a function of the states and the delayed states."""
    code = re.sub(r"(\w+)\(t - (\w+)\)", r"\1_at_\2", text).replace("^", "**")
    arguments = ", ".join(names)
    return eval(f"lambda {arguments}: {code} + 0 * {names[0]}", dict(_FUNCTIONS))


def main() -> None:
    """Run all systems with a delay."""
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", nargs="?", type=int, default=20)
    parser.add_argument("systems", nargs="*", default=[s.name for s in DELAYED])
    given = parser.parse_args()
    results = []
    for seed in range(given.seeds):
        for system in map(system_named, given.systems):
            for level in LEVELS:
                results.append(run_baseline(system, level, seed))
                print(results[-1], flush=True)
                lines = ",\n".join(map(json.dumps, results))
                write_whole(FILE, f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
