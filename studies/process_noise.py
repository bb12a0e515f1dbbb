"""Do the intervals of multiple shooting hold where the system itself is disturbed?

`python -m studies.process_noise [DATA_SETS [SYSTEM ...]]` simulates three delayed
systems with process noise by the Euler-Maruyama method, with and without measurement
noise, fits each data set by multiple shooting and by least squares, without start
values, and counts how often their 95% intervals contain the true values. It writes the
counts to `results/process_noise.json` and the table of `docs/how-to/process-noise.md`.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

import ddefind as dd
from ddefind._util.files import write_whole

from .page_tables import DOCS, RESULTS, read_results, write_table

FILE = RESULTS / "process_noise.json"
PAGE, NAME = DOCS / "how-to" / "process-noise.md", "coverage"
# The standard deviation of the disturbances in a delay, and of a measurement, as shares
# of the level.
PROCESS, MEASUREMENT = 0.05, (0.0, 0.05)
DATA_SETS = 67
# The steps of the simulation in a delay.
_STEPS = 200
SEED = 15


@final
@dataclass(frozen=True)
class System:
    """A delayed system: its text, its slope F(x, y), its true values, and its record.

    Disturbances are a share of the state, or of `level` if that is given."""

    text: str
    slope: Callable[[np.ndarray, np.ndarray], np.ndarray]
    true: dict[str, float]
    start: float
    T: float
    points: int
    level: float | None = None


SYSTEMS = {
    "population": System(
        "x' = r * x * (1 - x(t - tau) / K)",
        lambda x, y: 1.0 * x * (1 - y / 2.0),
        {"r": 1.0, "K": 2.0, "tau": 1.4},
        start=0.5,
        T=28.0,
        points=61,
    ),
    "furnace": System(
        "x' = c - a * x(t - tau)",
        lambda x, y: 1.0 - 0.5 * y,
        {"a": 0.5, "c": 1.0, "tau": 2.0},
        start=0.5,
        T=40.0,
        points=61,
        level=2.0,
    ),
    "Mackey-Glass": System(
        "x' = beta * x(t - tau) / (1 + x(t - tau)^8) - gamma * x",
        lambda x, y: 2.0 * y / (1 + y**8) - 1.0 * x,
        {"beta": 2.0, "gamma": 1.0, "tau": 2.0},
        start=0.5,
        T=40.0,
        points=81,
    ),
}


def simulate(
    system: System, count: int, measurement: float, seed: int
) -> list[dd.Data]:
    """So many data sets of a system, by the Euler-Maruyama method."""
    random = np.random.default_rng(seed)
    tau = system.true["tau"]
    spacing = system.T / (system.points - 1)
    inner = int(np.ceil(_STEPS * spacing / tau))
    h = spacing / inner
    lag = tau / h
    whole, share = int(lag), lag - int(lag)
    x = np.full(((system.points - 1) * inner + 1, count), system.start)
    for k in range(len(x) - 1):
        near, far = x[max(k - whole, 0)], x[max(k - whole - 1, 0)]
        delayed = (1 - share) * near + share * far
        level = x[k] if system.level is None else system.level
        disturbed = PROCESS / np.sqrt(tau) * level * np.sqrt(h)
        noise = disturbed * random.standard_normal(count)
        x[k + 1] = x[k] + h * system.slope(x[k], delayed) + noise
    values = x[::inner].T
    level = np.mean(np.abs(values), axis=1, keepdims=True)
    values = values + measurement * level * random.standard_normal(values.shape)
    t = np.linspace(0, system.T, system.points)
    return [dd.Data(t, each, names="x") for each in values]


def measure(name: str, measurement: float, count: int) -> dict:
    """For each parameter, the coverage of both methods and the width of their
    intervals, relative to the scatter of the estimates."""
    system = SYSTEMS[name]
    model, sets = dd.equation(system.text), simulate(system, count, measurement, SEED)
    methods = {"shooting": dd.MultipleShooting(), "plain": dd.LeastSquares()}
    true = np.array(list(system.true.values()))
    result: dict = {"system": name, "measurement": measurement, "sets": count}
    for label, method in methods.items():
        began = time.perf_counter()
        fits = [dd.fit(model, data, optimizer=method, progress=False) for data in sets]
        seconds = (time.perf_counter() - began) / count
        ends = np.array([[fit.intervals[p] for p in system.true] for fit in fits])
        estimates = np.array([[fit.values[p] for p in system.true] for fit in fits])
        inside = np.mean((ends[..., 0] <= true) & (true <= ends[..., 1]), axis=0)
        scatter = np.std(estimates, axis=0)
        width = np.median(ends[..., 1] - ends[..., 0], axis=0) / (2 * 1.96 * scatter)
        columns = (inside, scatter / true, width)
        rows = zip(system.true, *(np.round(column, 4).tolist() for column in columns))
        result[label] = {
            "parameters": {
                p: {"inside": a, "scatter": b, "width": c} for p, a, b, c in rows
            },
            "alike": round(float(np.mean([fit.rejected for fit in fits])), 4),
            "seconds": round(seconds, 2),
        }
    return result


def table(results: list[dict]) -> str:
    """The table of the page."""
    lines = [
        "| system | measurement noise | parameter | covers | width / scatter "
        "| covers (least squares) | its width / scatter |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        plain = result["plain"]["parameters"]
        for name, row in result["shooting"]["parameters"].items():
            other = plain[name]
            lines.append(
                f"| {result['system']} | {100 * result['measurement']:g}% | `{name}` "
                f"| {100 * row['inside']:.0f}% | {row['width']:.2f} "
                f"| {100 * other['inside']:.0f}% | {other['width']:.2f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="?", type=int, default=DATA_SETS)
    parser.add_argument("systems", nargs="*", help=f"of {', '.join(SYSTEMS)}")
    given = parser.parse_args()
    order = list(SYSTEMS)
    results = {(r["system"], r["measurement"]): r for r in read_results(FILE, [])}
    for system in given.systems or order:
        for measurement in MEASUREMENT:
            found = measure(system, measurement, given.sets)
            results[system, measurement] = found
            kept = sorted(
                results.values(),
                key=lambda r: (order.index(r["system"]), r["measurement"]),
            )
            write_whole(FILE, json.dumps(kept, indent=1) + "\n")
            print(json.dumps(found), flush=True)
    write_table(PAGE, NAME, table(kept))


if __name__ == "__main__":
    main()
