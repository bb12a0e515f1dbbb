"""Measure how often the intervals hold the truth, and write the table of
`uncertainty.md`.

`python docs/make_coverage.py [REPEATS [MODEL ...]]` fits the paper's models without
start values, 400 times at each noise level (most of an hour on two cores), and keeps
the other models' results. What it counts stands in `coverage.json`."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from math import erf, sqrt
from pathlib import Path

import numpy as np

import ddefind as dd
from ddefind._util.text_files import write_whole
from ddefind.paper import EXPERIMENTS, Experiment

FILE = Path(__file__).with_name("coverage.json")
PAGE = Path(__file__).with_name("uncertainty.md")
BEGIN, END = "<!-- coverage: begin -->", "<!-- coverage: end -->"
NOISE = (0.1, 0.3)
# The chi-square at both ends of the bounds that counts as room.
ROOM = 15.0
# Another seed than that of the paper's tables.
SEED = 7


def expected(experiment: Experiment, noise: float) -> dict[str, str]:
    """What the profile of noise-free data does, by parameter: `room` where it closes at
    a chi-square of 15, `closed` at that of 95%, or `open`."""
    exact = experiment.exact
    sd = noise * np.std(exact.x, axis=0, ddof=1)
    fit = dd.fit(
        experiment.true,
        dd.Data(exact.t, exact.x, sd=sd, names=exact.names),
        parameters=experiment.bounds,
        optimizer=dd.LeastSquares(starts=1),
        progress=False,
    )
    far = fit.uncertainty.profiles(erf(sqrt(ROOM / 2)))
    near = fit.uncertainty.profiles(0.95)
    return {
        one.name: "room" if all(one.closed) else "closed" if all(two.closed) else "open"
        for one, two in zip(far, near)
    }


def measure(experiment: Experiment, noise: float, repeats: int) -> dict:
    """The share of fits whose intervals hold the truth, and that call a parameter
    determined, by parameter."""
    began = time.perf_counter()
    sets = [experiment.data(noise, r, SEED, exact=True) for r in range(repeats)]
    fits = dd.fit_many(
        experiment.blank, sets, parameters=experiment.bounds, progress=False
    )
    fitted = time.perf_counter()
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(_intervals, [fits[i] for i in range(repeats)]))
    true = dd.parameter_values(experiment.true)
    room = expected(experiment, noise)
    rows = {}
    for j, name in enumerate(fits.names):
        low, high, determined = np.array([each[j] for each in found]).T
        inside = (low <= true[name]) & (true[name] <= high)
        rows[name] = {
            "expected": room[name],
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


def _intervals(fit) -> list[tuple[float, float, bool]]:
    verdicts = [verdict.verdict != "not determined" for verdict in fit.verdicts]
    return [(*ends, ok) for ends, ok in zip(fit.intervals.values(), verdicts)]


def table(results: list[dict]) -> str:
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
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    models = sys.argv[2:] or list(EXPERIMENTS)
    results = json.loads(FILE.read_text()) if FILE.exists() else []
    for model in models:
        for noise in NOISE:
            found = measure(EXPERIMENTS[model], noise, repeats)
            results = [
                each
                for each in results
                if (each["model"], each["noise"]) != (model, noise)
            ]
            results.append(found)
            results.sort(
                key=lambda r: (list(EXPERIMENTS).index(r["model"]), r["noise"])
            )
            write_whole(FILE, json.dumps(results, indent=1) + "\n")
            print(json.dumps(found), flush=True)
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    write_whole(PAGE, f"{before}{BEGIN}\n{table(results)}\n{END}{after}")


if __name__ == "__main__":
    main()
