"""Delays from 0.2 to 5 sampling intervals, defaults only: how large the errors of the
delay are in units of their Cramér-Rao bound."""

from dataclasses import dataclass
from typing import final

import numpy as np

import ddefind as dd

from .cramer_rao import standard_deviations
from .integrate import integrate

# Data sets of each system, divided among its records.
SETS = 200
_SEED = 7
# A delay whose bound is above this share of it is not determined by its record.
_DETERMINED = 0.5


@final
@dataclass(frozen=True)
class Sampling:
    """A record: how many points, the delay in units of their distance, the noise of the
    states as a share of their spread, and values that differ from the system's."""

    count: int
    intervals: float
    noise: float
    values: dict[str, float]


@final
@dataclass(frozen=True)
class System:
    """A model, the distance of its points, its parameters, and its records."""

    text: str
    spacing: float
    values: dict[str, float]
    records: tuple[Sampling, ...]


_RECORDS = (
    Sampling(40, 0.2, 0.03, {}),
    Sampling(40, 0.5, 0.05, {}),
    Sampling(30, 1.0, 0.05, {}),
    Sampling(50, 2.5, 0.1, {}),
    Sampling(60, 5.0, 0.1, {}),
)
_FEW, _MANY = float(np.log(20)), float(np.log(3500))
SYSTEMS = {
    "hutchinson": System(
        "x' = r * (1 - exp(x(t - tau)) / (1000 * K))",
        2.0,
        {"K": 2.0},
        (
            Sampling(30, 0.2, 0.02, {"r": 0.5, "b": _FEW}),
            Sampling(30, 0.5, 0.04, {"r": 0.5, "b": _FEW}),
            # A noise of 0.1, and a bound of 0.006 for a delay of 2.
            Sampling(16, 1.0, 0.0472, {"r": 1.2, "b": _MANY}),
            Sampling(40, 2.0, 0.1, {"r": 0.5, "b": _MANY}),
            Sampling(60, 5.0, 0.1, {"r": 0.2, "b": _MANY}),
        ),
    ),
    "logistic": System(
        "x' = r * x * (1 - x(t - tau) / K)",
        1.0,
        {"K": 50.0, "b": 2.0},
        (
            Sampling(40, 0.2, 0.01, {"r": 0.4}),
            Sampling(40, 0.6, 0.04, {"r": 0.5}),
            Sampling(30, 1.2, 0.1, {"r": 1.1}),
            Sampling(30, 2.5, 0.1, {"r": 0.7}),
            Sampling(60, 5.0, 0.1, {"r": 0.4}),
        ),
    ),
    "predator": System(
        "N' = r * N * (1 - N / K) - a * N * P;"
        " P' = c * N(t - tau) * P(t - tau) - d * P",
        1.0,
        {"r": 0.8, "K": 400, "a": 0.02, "c": 0.004, "d": 0.4, "b[0]": 150, "b[1]": 15},
        _RECORDS,
    ),
    "sir": System(
        "S' = mu * (M - S) - beta * S * I;"
        " I' = beta * exp(-mu * tau) * S(t - tau) * I(t - tau) - (mu + g) * I",
        1.0,
        {"mu": 0.05, "M": 1.0, "beta": 1.2, "g": 0.3, "b[0]": 0.7, "b[1]": 0.03},
        _RECORDS,
    ),
    "glucose": System(
        "G' = q - s * G * I - d * G;"
        " I' = a * G(t - tau)^2 / (k^2 + G(t - tau)^2) - u * I",
        1.0,
        {
            **{"q": 0.5, "s": 0.5, "d": 0.03, "a": 1.2, "k": 1.5, "u": 0.5},
            **{"b[0]": 4.0, "b[1]": 0.3},
        },
        _RECORDS,
    ),
}


def measure(name: str, sets: int) -> list[dict]:
    """The errors of the delay for each record of a system."""
    records = SYSTEMS[name].records
    each = max(sets // len(records), 1)
    return [_measure_record(name, index, each) for index in range(len(records))]


def _measure_record(name: str, index: int, sets: int) -> dict:
    system = SYSTEMS[name]
    record = system.records[index]
    tau = record.intervals * system.spacing
    values = system.values | record.values | {"tau": tau}
    times = system.spacing * np.arange(record.count)
    exact = integrate(system.text, values, times, finer=4)
    assert exact is not None
    noise = record.noise * np.std(exact, axis=0)
    limit = standard_deviations(system.text, values, times, noise)["tau"]
    model = dd.equation(system.text)
    random = np.random.default_rng([_SEED, index])
    errors, seconds = [], []
    for _ in range(sets):
        seen = exact + noise * random.standard_normal(exact.shape)
        data = dd.Data(times, seen, names=model.states)
        fit = dd.fit(model, data, intervals=False, progress=False)
        errors.append((fit.best[fit.names.index("tau")] - tau) / limit)
        seconds.append(fit.seconds)
    squares = np.square(errors)
    rms = float(np.sqrt(np.mean(squares)))
    # The standard error of the root mean square.
    error = float(np.std(squares) / np.sqrt(sets) / (2 * rms))
    return {
        "intervals": record.intervals,
        "points": record.count,
        "sets": sets,
        "bound": round(limit / tau, 4),
        "determined": bool(limit < _DETERMINED * tau),
        "rms": round(rms, 3),
        "rms_error": round(error, 3),
        "typical": round(float(np.median(np.abs(errors)) / 0.6745), 3),
        "beyond_five": [j for j in range(sets) if squares[j] > 25],
        "median_seconds": round(float(np.median(seconds)), 2),
    }


def summary(results: dict[str, list[dict]]) -> str:
    """A row for each record."""
    lines = [
        "| system | delay in intervals | points | bound / delay | rms error / bound "
        "| typical | beyond five bounds |"
    ]
    lines.append("|---|---:|---:|---:|---:|---:|---:|")
    for name, records in results.items():
        for each in records:
            lines.append(
                f"| {name} | {each['intervals']:g} | {each['points']} "
                f"| {each['bound']:.3f} | {each['rms']:.2f} ± {each['rms_error']:.2f} "
                f"| {each['typical']:.2f} | {len(each['beyond_five'])} "
                f"of {each['sets']} |"
            )
    return "\n".join(lines)
