"""How often does pysindy find exactly the true terms of the same data?

`python -m studies.discovery.baseline [SEEDS [SYSTEM ...]] [--grid]` needs pysindy 2.0.0
(with scikit-learn 1.6), which is no part of the project's environment. States one delay
ago, from its smoothed data, are its further inputs; slopes are by its
`SmoothedFiniteDifference`, and coefficients the medians of its ensembles. It gets help
that `dd.discover` does not have: the true parameters inside of terms, of a series of
thresholds the one with which it succeeds, and the true delays. With `--grid` it has to
find the delays: those of a grid with the best score are taken.

Results go to `results/discovery_pysindy.jsonl`, a line for each data set, and those
that are there are not computed again.
"""

import argparse
import functools
import importlib
import itertools
import json
import re
import time
import warnings
from typing import Any

import numpy as np

from ddefind._discovery.terms import delay_names, read_terms

from ..page_tables import RESULTS
from .cases import POINTS, same_terms, system_named
from .run import case_of, read
from .systems import DELAYED, Sample, System, sample
from .tables import LEVELS

FILE = RESULTS / "discovery_pysindy.jsonl"
THRESHOLDS = (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
# The delays of a grid: fewer of each where pairs are tried.
MOST_DELAYS, MOST_IN_PAIRS = 33, 12
TRUE_INNER = {"K": 1.0, "n": 9.0, "a": 1.0}
_FUNCTIONS = {"exp": np.exp, "tanh": np.tanh, **TRUE_INNER}


def run_baseline(
    system: System, level: float, seed: int, on_grid: bool
) -> dict[str, Any]:
    """The threshold with which pysindy finds the true terms, if there is one."""
    own = sample(system, POINTS, level, seed)
    began, found = time.perf_counter(), {}
    tried = _grid(own) if on_grid else [own.delays]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for threshold in THRESHOLDS:
            fits = [_fit(system, own, threshold, delays) for delays in tried]
            found[threshold] = max(fits, key=lambda each: each[0])[1]
    successes = [t for t in THRESHOLDS if same_terms(found[t], system.truth)]
    return {
        "system": system.name,
        "level": level,
        "seed": seed,
        "grid": on_grid,
        "success": bool(successes),
        "threshold": successes[0] if successes else None,
        "seconds": time.perf_counter() - began,
    }


def _grid(own: Sample) -> list[tuple[float, ...]]:
    """All delays between half a sampling interval and a third of the record, or pairs
    of them."""
    count = len(own.delays)
    most = MOST_DELAYS if count == 1 else MOST_IN_PAIRS
    even = np.linspace((own.t[1] - own.t[0]) / 2, own.t[-1] / 3, most)
    return list(itertools.combinations(even.tolist(), count))


@functools.cache
def _terms(name: str, count: int) -> list[str]:
    """The candidates of a system with so many delays."""
    system = system_named(name)
    return [t.text for t in read_terms(system.terms, system.states, count)]


def _fit(
    system: System, own: Sample, threshold: float, delays: tuple[float, ...]
) -> tuple[float, dict[str, list[str]]]:
    """The score and the terms of each state."""
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
    terms = _terms(system.name, len(delays))
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
    score = float(model.score(x, t, x_dot=slopes[rows], u=inputs))
    return score, {
        state: [text for text, c in zip(terms, row) if c != 0]
        for state, row in zip(system.states, model.coefficients())
    }


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
    parser.add_argument("--grid", action="store_true")
    given = parser.parse_args()
    done = {(*case_of(each), each["grid"]) for each in read(FILE)}
    cases = [
        (name, level, seed)
        for seed in range(given.seeds)
        for name in given.systems
        for level in LEVELS
    ]
    with open(FILE, "a", encoding="utf-8") as log:
        for name, level, seed in cases:
            if (name, level, seed, given.grid) not in done:
                result = run_baseline(system_named(name), level, seed, given.grid)
                log.write(json.dumps(result) + "\n")
                log.flush()


if __name__ == "__main__":
    main()
