"""Are the estimates of a study as good as its data allow, do its intervals hold, and
what does it cost?

`python -m studies.experiments [REPEATS]` fits three experiments with one delayed
logistic equation and different histories, lengths and numbers of values together,
without start values, to 400 data sets. It writes what it measures to
`results/experiments.json` and the table of `docs/how-to/experiments.md`. The
trajectories are by scipy's DOP853, from delay to delay.
"""

import argparse
import json
import time
from typing import Any

import numpy as np

import ddefind as dd
from ddefind._util.files import write_whole

from .delayed_logistic import delayed_logistic
from .page_tables import DOCS, RESULTS, read_results, write_table

FILE = RESULTS / "experiments.json"
PAGE = DOCS / "how-to" / "experiments.md"
MODEL = dd.equation("x' = r * x * (1 - x(t - tau) / K)")
SHARED = {"r": 1.5, "K": 2.0, "tau": 1.0}
# For each experiment its history, its length and its number of values.
EXPERIMENTS = {
    "low": (0.2, 12.0, 40),
    "middle": (1.0, 10.0, 30),
    "high": (3.0, 15.0, 50),
}
NOISE, SEED = 0.1, 17


def truth() -> dict[str, float]:
    """The true value of each parameter of the study."""
    r, K, tau = SHARED.values()
    own = {f"b@{label}": b for label, (b, _, _) in EXPERIMENTS.items()}
    return {"r": r, "K": K, **own, "tau": tau}


def trajectories() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The times and the true values of each experiment."""
    r, K, tau = SHARED.values()
    found = {}
    for label, (b, T, count) in EXPERIMENTS.items():
        t = np.linspace(0, T, count)
        found[label] = t, delayed_logistic(r, K, b, tau, t)
    return found


def study(values: dict[str, tuple[np.ndarray, np.ndarray]], sd: Any = None) -> list:
    return [
        dd.Experiment(dd.Data(t, x, sd=sd), label=label)
        for label, (t, x) in values.items()
    ]


def bounds() -> dict[str, float]:
    """The Cramer-Rao bounds of the joint problem, from data without noise."""
    exact = dd.fit(
        MODEL,
        study(trajectories(), NOISE),
        parameters=truth(),
        optimizer=dd.LeastSquares(starts=1),
        intervals=False,
        progress=False,
    )
    return exact.standard_errors


def measure(repeats: int) -> dict[str, Any]:
    """Errors, coverage and times of `repeats` studies."""
    random, exact = np.random.default_rng(SEED), trajectories()
    errors, holds, times = [], [], []
    for _ in range(repeats):
        noisy = {
            label: (t, x + NOISE * random.normal(size=len(x)))
            for label, (t, x) in exact.items()
        }
        experiments = study(noisy)
        began = time.perf_counter()
        fit = dd.fit(MODEL, experiments, progress=False)
        joint = time.perf_counter() - began
        began = time.perf_counter()
        for each in experiments:
            dd.fit(MODEL, each, progress=False)
        times.append((joint, time.perf_counter() - began))
        errors.append([fit.values[name] - true for name, true in truth().items()])
        holds.append(
            [
                fit.intervals[name][0] <= true <= fit.intervals[name][1]
                for name, true in truth().items()
            ]
        )
    joint, single = np.median(np.array(times)[1:], axis=0)
    return {
        "repeats": repeats,
        "bounds": bounds(),
        "errors": np.array(errors).tolist(),
        "holds": np.array(holds).tolist(),
        "seconds": [float(joint), float(single)],
    }


def table(results: dict[str, Any]) -> str:
    """The errors over the bounds, and the coverage of each parameter."""
    errors, holds = np.array(results["errors"]), np.array(results["holds"])
    limits = np.array([results["bounds"][name] for name in truth()])
    ratio = np.sqrt(np.mean(errors**2, axis=0)) / limits
    error = ratio / np.sqrt(2 * len(errors))
    lines = ["| parameter | RMSE / bound | 95% intervals hold |", "|---|---|---|"]
    for j, name in enumerate(truth()):
        share = 100 * holds[:, j].mean()
        lines.append(f"| `{name}` | {ratio[j]:.3f} ± {error[j]:.3f} | {share:.1f}% |")
    joint, single = results["seconds"]
    lines.append("")
    lines.append(
        f"{len(errors)} studies; in the mean {100 * holds.mean():.1f}% of the "
        f"intervals hold. A joint fit takes {joint / single:.2f} times as long as the "
        "three fits by themselves."
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repeats", type=int, nargs="?", default=400)
    results = measure(parser.parse_args().repeats)
    write_whole(FILE, json.dumps(results, indent=1) + "\n")
    write_table(PAGE, "study", table(read_results(FILE, {})))
    print(table(results))


if __name__ == "__main__":
    main()
