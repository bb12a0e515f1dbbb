"""Measure how good fits without start values are, and write the tables of `fitting.md`.

`python docs/make_fit_study.py [REPEATS [MODEL ...]]` fits the paper's models, 400 times
at each noise level (seven minutes on two cores), and keeps the other models' results.
Each fit is compared with least squares that starts at the truth. What it counts stands
in `fit-study.json`."""

import json
import sys
from pathlib import Path

import numpy as np

import ddefind as dd
from ddefind._least_squares.batches import refine
from ddefind._util.text_files import write_whole
from ddefind.paper import EXPERIMENTS, NOISE, Experiment

FILE = Path(__file__).with_name("fit-study.json")
PAGE = Path(__file__).with_name("fitting.md")
BEGIN, END = "<!-- fits: begin -->", "<!-- fits: end -->"
# Another seed than that of the paper's tables.
SEED = 5
# What no data determine, but what others depend on near it.
HELD = {"cheyne": ("a",)}


def measure(experiment: Experiment, noise: float, repeats: int) -> dict:
    """Errors in units of the Cramér-Rao limit, and how many fits are as good as least
    squares from the truth."""
    known = dd.parameter_values(experiment.true)
    held = {name: dd.Fixed(known[name]) for name in HELD.get(experiment.model, ())}
    sets = [experiment.data(noise, r, SEED, exact=True) for r in range(repeats)]
    fits = dd.fit_many(
        experiment.blank, sets, parameters=experiment.bounds | held, progress=False
    )
    truth = np.array([known[name] for name in fits.names])
    limits = dict(
        zip(experiment.names.values(), experiment.cramer_rao(noise, exact=True))
    )
    limit = np.array([limits[name] for name in fits.names])
    sd = noise * np.std(experiment.exact.x, axis=0, ddof=1)
    freedom = sets[0].x.size - np.isfinite(limit).sum()
    near, good, chi = [], 0, []
    for fit in (fits[i] for i in range(repeats)):
        n = np.array([fit.steps_per_delay])
        start = np.clip(truth, fit.setup.lower, fit.setup.upper)
        found = refine(fit.setup, start[None], fit.search_result.points, n)
        near.append(found.theta[0])
        good += bool(fit.search_result.best.loss[0] <= found.loss[0] * (1 + 1e-6))
        chi.append(np.sum(((fit.data.x - fit.fitted) / sd) ** 2) / freedom)
    errors, theirs = (fits.best - truth) / limit, (np.array(near) - truth) / limit
    return {
        "model": experiment.model,
        "noise": noise,
        "repeats": repeats,
        "as_good": good / repeats,
        "chi_square": round(float(np.mean(chi)), 4),
        "parameters": {
            name: {
                "rms": round(float(np.sqrt(np.mean(errors[:, j] ** 2))), 3),
                "typical": _typical(errors[:, j]),
                "from_truth": _typical(theirs[:, j]),
            }
            for j, name in enumerate(fits.names)
            if np.isfinite(limit[j])
        },
    }


def _typical(errors: np.ndarray) -> float:
    """The median absolute error; of a Gaussian, in units of its standard deviation."""
    return round(float(np.median(np.abs(errors)) / 0.6745), 3)


def tables(results: list[dict]) -> str:
    lines = ["| model | noise | as good as from the truth | mean chi-square |"]
    lines.append("|---|---:|---:|---:|")
    for each in results:
        lines.append(
            f"| {each['model']} | {each['noise']} | {100 * each['as_good']:.1f}% "
            f"| {each['chi_square']:.3f} |"
        )
    lines += ["", "| model | parameter | rms 0.1 | typical 0.1 | 0.3 | 0.9 |"]
    lines.append("|---|---|---:|---:|---:|---:|")
    for model in EXPERIMENTS:
        mine = [each["parameters"] for each in results if each["model"] == model]
        for name in mine[0]:
            cells = [f"{each[name]['typical']:.2f}" for each in mine]
            near = [f"{each[name]['from_truth']:.2f}" for each in mine]
            pairs = " | ".join(f"{a} ({b})" for a, b in zip(cells, near))
            lines.append(
                f"| {model} | `{name}` | {mine[0][name]['rms']:.2f} | {pairs} |"
            )
    return "\n".join(lines)


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    results = json.loads(FILE.read_text()) if FILE.exists() else []
    for model in sys.argv[2:] or list(EXPERIMENTS):
        results = [each for each in results if each["model"] != model]
        for noise in NOISE:
            results.append(measure(EXPERIMENTS[model], noise, repeats))
            print(json.dumps(results[-1]), flush=True)
        results.sort(key=lambda r: (list(EXPERIMENTS).index(r["model"]), r["noise"]))
        write_whole(FILE, json.dumps(results, indent=1) + "\n")
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    write_whole(PAGE, f"{before}{BEGIN}\n{tables(results)}\n{END}{after}")


if __name__ == "__main__":
    main()
