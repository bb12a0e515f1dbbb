"""How often does pysindy find exactly the true terms of the same data?

`python -m studies.discovery.baseline [SEEDS [SYSTEM ...]] [--grid]` needs pysindy 2.0.0
(with scikit-learn 1.6), which is no part of the project's environment. States one delay
ago, from its smoothed data, are its further inputs; slopes are by its
`SmoothedFiniteDifference`, and coefficients the medians of its ensembles. It gets help
that `dd.discover` does not have: the true parameters inside of terms, of a series of
thresholds the one with which it succeeds, and the true delays. With `--grid` it has to
find the delays: those of a grid with the lowest BIC of the slopes are taken.

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
from typing import Any, final

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
    """The threshold with which pysindy finds the true terms, if there is one, and the
    delays that it has then (or with the first threshold)."""
    own = sample(system, POINTS, level, seed)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        smooth = _smoothed(own)
        tried = _grid(own) if on_grid else [own.delays]
        inputs = [_Inputs(system, own, smooth, delays) for delays in tried]
        found = {
            threshold: min((i.fit(threshold) for i in inputs), key=lambda f: f[0])
            for threshold in THRESHOLDS
        }
    right = [t for t, (*_, terms) in found.items() if same_terms(terms, system.truth)]
    return {
        "system": system.name,
        "level": level,
        "seed": seed,
        "grid": on_grid,
        "success": bool(right),
        "threshold": right[0] if right else None,
        "delays": list(found[(right or THRESHOLDS)[0]][1]),
        "true_delays": list(own.delays),
        "seconds": time.perf_counter() - began,
    }


def _grid(own: Sample) -> list[tuple[float, ...]]:
    """All delays between half a sampling interval and a third of the record, or pairs
    of them."""
    count = len(own.delays)
    most = MOST_DELAYS if count == 1 else MOST_IN_PAIRS
    even = np.linspace((own.t[1] - own.t[0]) / 2, own.t[-1] / 3, most)
    return list(itertools.combinations(even.tolist(), count))


def _smoothed(own: Sample) -> tuple[np.ndarray, np.ndarray]:
    """The smoothed states, and their slopes."""
    differentiation: Any = _pysindy().SmoothedFiniteDifference()
    slopes = differentiation(own.x, own.t)
    return differentiation.smoothed_x_, slopes


def _pysindy() -> Any:
    return importlib.import_module("pysindy")


@functools.cache
def _terms(name: str, count: int) -> list[str]:
    """The candidates of a system with so many delays."""
    system = system_named(name)
    return [t.text for t in read_terms(system.terms, system.states, count)]


@final
class _Inputs:
    """The states of a data set with those of some delays ago, and the candidates."""

    def __init__(
        self,
        system: System,
        own: Sample,
        smooth: tuple[np.ndarray, np.ndarray],
        delays: tuple[float, ...],
    ):
        x, slopes = smooth
        earlier = [
            np.stack([np.interp(own.t - tau, own.t, column) for column in x.T], axis=1)
            for tau in delays
        ]
        rows = own.t >= max(delays)
        self.x, self.t, self.slopes = x[rows], own.t[rows], slopes[rows]
        self.earlier = np.concatenate(earlier, axis=1)[rows]
        self.delays, self.states = delays, system.states
        self.terms = _terms(system.name, len(delays))
        names = [*system.states]
        for tau in delay_names(len(delays)):
            names += [f"{state}_at_{tau}" for state in system.states]
        self.functions = [_function(text, names) for text in self.terms]
        arguments = ", ".join(names)
        self.labels = [eval(f"lambda {arguments}: {text!r}") for text in self.terms]

    def fit(
        self, threshold: float
    ) -> tuple[float, tuple[float, ...], dict[str, list[str]]]:
        """The BIC of the slopes, for each of them so that delays can be compared, the
        delays, and the terms of each state."""
        ps = _pysindy()
        model = ps.SINDy(
            ps.EnsembleOptimizer(ps.STLSQ(threshold=threshold), bagging=True),
            ps.CustomLibrary(self.functions, self.labels),
        )
        np.random.seed(0)
        model.fit(self.x, self.t, x_dot=self.slopes, u=self.earlier)
        residuals = self.slopes - model.predict(self.x, u=self.earlier)
        n, size = len(self.x), np.count_nonzero(model.coefficients())
        squares = np.mean(residuals**2, axis=0) / self.slopes.var(axis=0)
        bic = float(np.sum(np.log(squares)) + size * np.log(n) / n)
        chosen = {
            state: [text for text, c in zip(self.terms, row) if c != 0]
            for state, row in zip(self.states, model.coefficients())
        }
        return bic, self.delays, chosen


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
