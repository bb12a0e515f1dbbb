"""How often do the 95% intervals of fits with distributed delays contain the truth?

`python -m studies.distributed_delays [REPEATS]` fits simulated data of a population
that limits its own growth by its past, with three kernels; an hour on two cores. The
data are not simulated by ddefind, but by collocation and quadrature. It writes
`results/distributed_delays.json` and a table of `docs/how-to/general-delays.md`.
"""

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
from tests.support.kernel_reference import distribution, solve

import ddefind as dd

from .page_tables import DOCS, RESULTS, write_table

FILE = RESULTS / "distributed_delays.json"
PAGE, NAME = DOCS / "how-to" / "general-delays.md", "coverage"
# The second number of each kernel; the mean is 1.5.
KERNELS = {"lognormal": 0.8, "weibull": 0.8, "inverse_gaussian": 0.8}
TRUTH = {"r": 0.9, "K": 2.0, "b": 1.0, "m": 1.5}
TIMES, NOISE = np.linspace(0.4, 20, 50), 0.03


def slope(x, y):
    """x' = r x (1 - y / K), and its derivatives for x and y."""
    r, K = TRUTH["r"], TRUTH["K"]
    return r * x * (1 - y / K), r * (1 - y / K), -r * x / K


def fits(word: str, seeds: list[int]) -> list[dict[str, tuple[float, float]]]:
    """The intervals of the fits to data sets with these seeds."""
    exact = solve(slope, distribution(word, TRUTH["m"], KERNELS[word]), TIMES)
    model = dd.equation(f"x' = r * x * (1 - delay(x, {word}(m, p)) / K)")
    found = []
    for seed in seeds:
        noise = NOISE * np.random.default_rng(seed).normal(size=len(TIMES))
        data = dd.Data(TIMES, (exact + noise)[:, None])
        starts = dd.LeastSquares(starts=6)
        fit = dd.fit(model, data, optimizer=starts, progress=False)
        found.append(dict(fit.intervals))
    return found


def measure(repeats: int) -> dict[str, dict[str, int]]:
    """For each kernel, how many intervals of each parameter miss the truth."""
    missed = {}
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        parts = {
            word: [
                pool.submit(fits, word, list(range(first, repeats, workers)))
                for first in range(min(workers, repeats))
            ]
            for word in KERNELS
        }
        for word, jobs in parts.items():
            every = [each for job in jobs for each in job.result()]
            truth = TRUTH | {"p": KERNELS[word]}
            missed[word] = {
                name: sum(not low <= truth[name] <= high for low, high in ends)
                for name in truth
                if (ends := [each[name] for each in every])
            }
            print(word, missed[word], flush=True)
    return missed


def table(result: dict) -> str:
    """The table of the page."""
    names = [*TRUTH, "p"]
    lines = [f"| kernel | {' | '.join(f'`{name}`' for name in names)} |"]
    lines.append("|---" * (1 + len(names)) + "|")
    for word, missed in result["missed"].items():
        counts = " | ".join(str(missed[name]) for name in names)
        lines.append(f"| {word} | {counts} |")
    return "\n".join(lines)


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    result = {"repeats": repeats, "missed": measure(repeats)}
    FILE.write_text(json.dumps(result, indent=1) + "\n")
    write_table(PAGE, NAME, table(result))


if __name__ == "__main__":
    main()
