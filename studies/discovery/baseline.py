"""How often does pysindy find exactly the true terms of the same data?

`python -m studies.discovery.baseline [SEEDS [SYSTEM ...]] [--grid]` needs pysindy 2.0.0
(with scikit-learn 1.6), which is no part of the project's environment. States one delay
ago, from its smoothed data, are its further inputs; slopes are by its
`SmoothedFiniteDifference`, and coefficients the medians of its ensembles. It gets help
that `dd.discover` does not have: the true parameters inside of terms, of a series of
thresholds the one with which it succeeds, and the true delays. With `--grid` it has to
find the delays: those of a grid with the lowest BIC of the slopes are taken, where the
coefficients are those of one fit, and ensembles decide on the terms. Since
x(t) - x(t - tau) with a short delay is the slope itself, it matters where the grid
begins: of several beginnings, too, the one with which it succeeds is taken.

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

from ddefind._discovery.library import delay_names, read_terms

from ..page_tables import RESULTS
from .cases import POINTS, same_terms, system_named
from .run import case_of, read
from .systems import DELAYED, Sample, System, sample
from .tables import LEVELS

FILE = RESULTS / "discovery_pysindy.jsonl"
THRESHOLDS = (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
# The delays of a grid: fewer of each where pairs are tried; and where it may begin, in
# sampling intervals.
MOST_DELAYS, MOST_IN_PAIRS = 67, 20
BEGINNINGS = (0.5, 2.0, 3.0, 5.0)
TRUE_INNER = {"K": 1.0, "n": 9.0, "a": 1.0}
_FUNCTIONS = {"exp": np.exp, "tanh": np.tanh, **TRUE_INNER}


def run_baseline(
    system: System, level: float, seed: int, on_grid: bool
) -> dict[str, Any]:
    """Whether pysindy finds the true terms with one of the thresholds (and, on a grid,
    of its beginnings), that threshold, and the delays that it has then (or with the
    first ones)."""
    own = sample(system, POINTS, level, seed)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        smooth = _smoothed(own)
        tried = _grid(own) if on_grid else [own.delays]
        inputs = [_Inputs(system, own, smooth, delays) for delays in tried]
        shortest = np.array([min(each.delays) for each in inputs])
        firsts = np.array(BEGINNINGS if on_grid else (0.0,)) * (own.t[1] - own.t[0])
        allowed = shortest > 0.999 * firsts[:, None]
        found = []
        for threshold in THRESHOLDS:
            bic = np.array([each.bic(threshold) for each in inputs])
            for number in set(np.argmin(np.where(allowed, bic, np.inf), axis=1)):
                best = inputs[number]
                terms = best.terms_of_ensembles(threshold)
                found.append((same_terms(terms, system.truth), threshold, best.delays))
    success, threshold, delays = next(filter(lambda f: f[0], found), found[0])
    return {
        "system": system.name,
        "level": level,
        "seed": seed,
        "grid": on_grid,
        "success": success,
        "threshold": threshold if success else None,
        "delays": list(delays),
        "true_delays": list(own.delays),
        "seconds": time.perf_counter() - began,
    }


def _grid(own: Sample) -> list[tuple[float, ...]]:
    """Delays between half a sampling interval and a third of the record, or pairs of
    them."""
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
        states = np.concatenate([x, *earlier], axis=1)[rows]
        self.slopes, self.delays, self.states = slopes[rows], delays, system.states
        self.terms = _terms(system.name, len(delays))
        names = [*system.states]
        for tau in delay_names(len(delays)):
            names += [f"{state}_at_{tau}" for state in system.states]
        functions = [_function(text, names) for text in self.terms]
        self.library = np.stack([f(*states.T) for f in functions], axis=1)

    def bic(self, threshold: float) -> float:
        """The BIC of the slopes, for each of them so that delays can be compared."""
        fitted = _pysindy().STLSQ(threshold=threshold).fit(self.library, self.slopes)
        residuals = self.slopes - self.library @ fitted.coef_.T
        n, size = len(self.slopes), np.count_nonzero(fitted.coef_)
        squares = np.mean(residuals**2, axis=0) / self.slopes.var(axis=0)
        return float(np.sum(np.log(squares)) + size * np.log(n) / n)

    def terms_of_ensembles(self, threshold: float) -> dict[str, list[str]]:
        """The terms of each state whose median coefficient is not zero."""
        ps = _pysindy()
        np.random.seed(0)
        ensembles = ps.EnsembleOptimizer(ps.STLSQ(threshold=threshold), bagging=True)
        rows = ensembles.fit(self.library, self.slopes).coef_
        return {
            state: [text for text, c in zip(self.terms, row) if c != 0]
            for state, row in zip(self.states, rows)
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
