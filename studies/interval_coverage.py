"""How often do the 95% intervals contain the true values?

`python -m studies.interval_coverage [REPEATS [MODEL ...]]` fits the paper's models
without start values, 400 times at each noise level (most of an hour on two cores),
counts how often each interval contains the truth, and writes the counts to
`results/interval_coverage.json` and the table of `docs/explanation/uncertainty.md`.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from math import erf, sqrt

import numpy as np

import ddefind as dd
from ddefind._inference.profile_intervals import profiles
from ddefind.paper import Experiment

from .page_tables import DOCS, RESULTS, measure_models, write_table

FILE = RESULTS / "interval_coverage.json"
PAGE, NAME = DOCS / "explanation" / "uncertainty.md", "coverage"
NOISE = (0.1, 0.3)
# A profile has room if chi-square rises by this much before the bounds, on both sides.
ROOM = 15.0
# The seed of the noise. The paper's tables use seed 0: these data sets are others.
SEED = 7


def expected(experiment: Experiment, noise: float) -> dict[str, str]:
    """How the profile of noise-free data ends within the bounds, by parameter.

    It is `room` where chi-square rises by 15 on both sides, `closed` where it rises at
    least as far as a 95% interval needs, and `open` otherwise.
    """
    exact = experiment.exact
    sd = noise * np.std(exact.x, axis=0, ddof=1)
    fit = dd.fit(
        experiment.true,
        dd.Data(exact.t, exact.x, sd=sd, names=exact.names),
        parameters=experiment.bounds,
        optimizer=dd.LeastSquares(starts=1),
        progress=False,
    )
    wide = profiles(fit.uncertainty, erf(sqrt(ROOM / 2)))
    usual = profiles(fit.uncertainty, 0.95)
    shape = {}
    for far, near in zip(wide, usual):
        closed = "closed" if all(near.closed) else "open"
        shape[far.name] = "room" if all(far.closed) else closed
    return shape


def measure(experiment: Experiment, noise: float, repeats: int) -> dict:
    """For each parameter, the share of fits whose interval contains the truth, and the
    share of fits that call it determined."""
    began = time.perf_counter()
    sets = [experiment.data(noise, r, SEED, exact=True) for r in range(repeats)]
    fits = dd.fit_many(
        experiment.blank, sets, parameters=experiment.bounds, progress=False
    )
    fitted = time.perf_counter()
    with ThreadPoolExecutor() as pool:
        intervals = list(pool.map(_intervals, [fits[i] for i in range(repeats)]))
    true = dd.parameter_values(experiment.true)
    noise_free = expected(experiment, noise)
    rows = {}
    for j, name in enumerate(fits.names):
        low, high, determined = np.array([of_fit[j] for of_fit in intervals]).T
        inside = (low <= true[name]) & (true[name] <= high)
        rows[name] = {
            "expected": noise_free[name],
            "inside": round(float(np.mean(inside)), 4),
            "determined": round(float(np.mean(determined)), 4),
        }
    return {
        "model": experiment.model,
        "noise": noise,
        "repeats": repeats,
        "parameters": rows,
        "seconds_fits": round(fitted - began, 1),
        "seconds_intervals": round(time.perf_counter() - fitted, 1),
    }


def _intervals(fit: dd.Estimate) -> list[tuple[float, float, bool]]:
    """Of each parameter: the ends of its interval, and whether it is determined."""
    fit = fit.with_intervals()
    verdicts = [verdict != "not determined" for verdict in fit.verdicts.values()]
    return [(*ends, ok) for ends, ok in zip(fit.intervals.values(), verdicts)]


def table(results: list[dict]) -> str:
    """The table of the page. Parameters that no fit determines are left out."""
    lines = ["| model | noise | parameter | expected profile | covers | determined |"]
    lines.append("|---|---|---|---|---|---|")
    for result in results:
        for name, row in result["parameters"].items():
            if row["expected"] == "open" and row["determined"] == 0:
                continue
            lines.append(
                f"| {result['model']} | {result['noise']} | `{name}` "
                f"| {row['expected']} | {100 * row['inside']:.1f}% "
                f"| {100 * row['determined']:.1f}% |"
            )
    return "\n".join(lines)


def main() -> None:
    write_table(PAGE, NAME, table(measure_models(FILE, measure, NOISE)))


if __name__ == "__main__":
    main()
