"""Are the estimates of fits with noise models unbiased, do their intervals hold, and
does `compare` find the right noise?

`python -m studies.noise_models [REPEATS [NOISE ...]]` fits the delayed logistic
equation without start values to 400 data sets of 100 values for each noise model, and
to some with values below a detection limit. It writes what it measures to
`results/noise_models.json` and the tables of `docs/how-to/noise.md`. The trajectory is
by scipy's DOP853, from delay to delay.
"""

import argparse
import json
import time
from dataclasses import dataclass
from typing import Any, final

import numpy as np

import ddefind as dd
from ddefind._util.files import write_whole

from .delayed_logistic import delayed_logistic
from .page_tables import DOCS, RESULTS, read_results, write_table

FILE = RESULTS / "noise_models.json"
PAGE = DOCS / "how-to" / "noise.md"
EQUATION = "x' = r * x * (1 - x(t - tau) / K)"
TRUE = {"r": 1.0, "K": 50.0, "b": 10.0, "tau": 1.5}
POINTS, T, SEED = 100, 20.0, 17


@final
@dataclass(frozen=True)
class Case:
    """True noise, what is fitted to it, and a detection limit if there is one.
    `others` are other noise models with which the data are fitted as well."""

    true: Any
    noise: str
    others: tuple[str, ...]
    limit: float | None = None


_CONTINUOUS = ("gaussian", "proportional", "combined", "lognormal", "student")
_COUNTS = ("poisson", "negative-binomial")
CASES = {
    "gaussian": Case(dd.noise.Gaussian(3.0), "gaussian", _CONTINUOUS),
    "proportional": Case(dd.noise.Proportional(0.15), "proportional", _CONTINUOUS),
    "combined": Case(dd.noise.Combined(1.5, 0.1), "combined", _CONTINUOUS),
    "lognormal": Case(dd.noise.LogNormal(1.2), "lognormal", _CONTINUOUS),
    "poisson": Case(dd.noise.Poisson(), "poisson", _COUNTS),
    "negative-binomial": Case(
        dd.noise.NegativeBinomial(0.1), "negative-binomial", _COUNTS
    ),
    "student": Case(dd.noise.Student(2.0, 3.0), "student", _CONTINUOUS),
    "gaussian, below 30": Case(dd.noise.Gaussian(3.0), "gaussian", (), 30.0),
    "lognormal, below 30": Case(dd.noise.LogNormal(1.2), "lognormal", (), 30.0),
    "poisson, below 30": Case(dd.noise.Poisson(), "poisson", (), 30.0),
}


def trajectory(t: np.ndarray) -> np.ndarray:
    """The solution at the times `t`."""
    return delayed_logistic(**TRUE, t=t)


def simulate(case: Case, count: int) -> list[dd.Data]:
    """So many data sets."""
    random = np.random.default_rng(SEED)
    t = np.linspace(0, T, POINTS)
    f, eta = trajectory(t), np.asarray(case.true.eta())
    drawn = [case.true.draw(f, eta, random) for _ in range(count)]
    if case.limit is None:
        return [dd.Data(t, y) for y in drawn]
    return [dd.Data(t, np.maximum(y, case.limit), below=y < case.limit) for y in drawn]


def measure(name: str, count: int) -> dict:
    """For each parameter, the mean error in units of the estimates' spread and the
    share of intervals that contain the truth; and how often the true noise was
    preferred, against those that differ by 10 or more in log-likelihood."""
    case, began = CASES[name], time.perf_counter()
    model, sets = dd.equation(EQUATION), simulate(case, count)
    fits = dd.fit_many(model, sets, noise=case.noise, intervals=True, progress=False)
    eta = zip(case.true.names, np.asarray(case.true.eta()).tolist())
    true = {**TRUE, **{f"x.{field}": value for field, value in eta}}
    values = np.array([[fit.values[p] for p in true] for fit in fits])
    ends = np.array([[fit.intervals[p] for p in true] for fit in fits])
    goal = np.array(list(true.values()))
    bias = (values.mean(axis=0) - goal) / values.std(axis=0, ddof=1)
    inside = np.mean((ends[..., 0] <= goal) & (goal <= ends[..., 1]), axis=0)
    scatter = values.std(axis=0, ddof=1) / goal
    columns = [np.round(each, 4).tolist() for each in (bias, inside, scatter)]
    rows = zip(true, *columns)
    return {
        "noise": name,
        "sets": count,
        "parameters": {
            p: {"bias": a, "inside": b, "scatter": c} for p, a, b, c in rows
        },
        "failed": round(float(np.mean([bool(fit.failed_checks) for fit in fits])), 4),
        "preferred": _preferred(case, model, sets, list(fits)),
        "seconds": round((time.perf_counter() - began) / count, 2),
    }


def _preferred(
    case: Case, model: dd.Equation, sets: list[dd.Data], fits: list[dd.Estimate]
) -> dict[str, dict]:
    """For each other noise, the mean difference of log-likelihoods, and how often
    `compare` prefers the true one."""
    found = {}
    for other in case.others:
        if other == case.noise:
            continue
        batch = dd.fit_many(model, sets, noise=other, progress=False)
        pairs = [{"true": a, "other": b} for a, b in zip(fits, batch)]
        likely = [
            pair["true"].criteria.log_likelihood - pair["other"].criteria.log_likelihood
            for pair in pairs
        ]
        wins = [dd.compare(pair).best == "true" for pair in pairs]
        found[other] = {
            "difference": round(float(np.mean(likely)), 2),
            "share": round(float(np.mean(wins)), 4),
        }
    return found


def table(results: list[dict]) -> str:
    """Bias and coverage of each noise model."""
    lines = [
        "| noise | data sets | largest mean error / spread | intervals that hold | "
        "failed tests |",
        "|---|---|---|---|---|",
    ]
    for each in results:
        parameters = each["parameters"]
        worst = max(parameters, key=lambda p: abs(parameters[p]["bias"]))
        shares = [100 * row["inside"] for row in parameters.values()]
        lines.append(
            f"| {each['noise']} | {each['sets']} | "
            f"{parameters[worst]['bias']:+.2f} (`{worst}`) | "
            f"{min(shares):.1f} to {max(shares):.1f}%, mean {np.mean(shares):.1f}% | "
            f"{100 * each['failed']:.1f}% |"
        )
    return "\n".join(lines)


def comparison_table(results: list[dict]) -> str:
    """How often the true noise was preferred."""
    lines = [
        "| true noise | other | difference of log L | true one preferred |",
        "|---|---|---|---|",
    ]
    for each in results:
        for other, row in each["preferred"].items():
            lines.append(
                f"| {each['noise']} | {other} | {row['difference']:.1f} | "
                f"{100 * row['share']:.1f}% |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("repeats", nargs="?", type=int, default=400)
    parser.add_argument("noise", nargs="*", help=f"of {', '.join(CASES)}")
    given = parser.parse_args()
    for name in given.noise or CASES:
        kept = {each["noise"]: each for each in read_results(FILE, [])}
        kept[name] = measure(name, given.repeats)
        print(json.dumps(kept[name]), flush=True)
        results = [kept[case] for case in CASES if case in kept]
        write_whole(FILE, json.dumps(results, indent=1) + "\n")
        write_table(PAGE, "noise", table(results))
        write_table(PAGE, "comparison", comparison_table(results))


if __name__ == "__main__":
    main()
