"""One data set of a system, the fit of its model with a network, and how good it is."""

import time
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numpy as np

import ddefind as dd

from .systems import BEYOND, SYSTEMS, System

# Named parameters, functions and trajectories are compared at so many places.
_PLACES = 60


@final
@dataclass(frozen=True)
class Case:
    """What is fitted: the data of `system` with `noise` times its spread, and of all
    points the share `kept`, by a network of the given size."""

    system: str
    noise: float = 0.1
    kept: float = 1.0
    width: int = 16
    depth: int = 1

    def __str__(self) -> str:
        size = str(self.width) if self.depth == 1 else f"{self.width}x{self.depth}"
        half = "" if self.kept == 1 else f", {self.kept:g} of the points"
        return f"{self.system}, {size} units, noise {self.noise:g}{half}"


@cache
def _solution(name: str) -> Any:
    return SYSTEMS[name].solution()


def measure(case: Case, seed: int) -> dict[str, Any]:
    """How good the fit of a data set is, by name. All errors of trajectories are root
    mean squares in units of the noise."""
    system, solution = SYSTEMS[case.system], _solution(case.system)
    t = np.linspace(0.0, system.T, round(case.kept * system.points))
    exact = np.asarray(solution(t))
    size = case.noise * exact.std(axis=0)
    random = np.random.default_rng(1000 + seed)
    x = exact + size * random.normal(size=exact.shape)
    data = dd.Data(t, x, names=["x", "y"][: x.shape[1]])
    model = system.model(dd.Network(case.width, case.depth))
    began = time.perf_counter()
    fit: Any = dd.fit(model, data, progress=False, seed=seed)
    found = {
        "case": str(case),
        "seed": seed,
        "seconds": time.perf_counter() - began,
        "residual": _rms((fit.fitted - x) / size),
        "noise": _rms((exact - x) / size),
        "status": str(fit.status.name),
    }
    named = {"tau": system.tau, **system.values}
    found["values"] = {
        name: [fit.values[name], *fit.intervals[name], true]
        for name, true in named.items()
        if name in fit.values
    }
    inside = np.linspace(0.0, system.T, _PLACES)
    beyond = system.T * np.linspace(1.0, 1 + BEYOND, _PLACES)[1:]
    for where, times in (("inside", inside), ("beyond", beyond)):
        found[where] = _compared(fit.predict(times), solution(times), size)
    found["functions"] = _functions(fit, system)
    if system.history is not None:
        past = np.linspace(-system.tau, 0.0, _PLACES)
        true = np.array([system.history(s) for s in past])
        learned = np.array([np.asarray(fit.problem.history(s)) for s in past])
        found["history"] = _rms(learned - true)
    return found


def _rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(np.asarray(values)))))


def _compared(predicted: Any, true: Any, size: np.ndarray) -> dict[str, float]:
    """The error of a predicted trajectory, and the share of its band that holds."""
    true = np.asarray(true)
    holds = (predicted.low <= true) & (true <= predicted.high)
    return {
        "error": _rms((predicted.mean - true) / size),
        "holds": float(np.mean(holds)),
    }


def _functions(fit: Any, system: System) -> dict[str, dict[str, float]]:
    """The error of each learned function in units of its spread over the range that
    was visited, and the share of its band that holds there."""
    found = {}
    for name, function in system.networks.items():
        learned = fit.function(name)
        u = np.quantile(learned.visited[:, 0], np.linspace(0.0, 1.0, _PLACES))
        true, values = function(u), np.asarray(learned(u)).ravel()
        low, high = (np.asarray(end).ravel() for end in learned.band(u))
        found[name] = {
            "error": _rms(values - true) / float(np.std(true)),
            "holds": float(np.mean((low <= true) & (true <= high))),
        }
    return found
