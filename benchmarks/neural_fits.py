"""Equations with unknown functions, from scratch: how often and how well they are
found.

Each system is solved, and noise of 0.1 of its spread is added. A fit without start
values succeeds if its residuals are between 0.8 and 1.1 of the noise. `python -m
benchmarks neural_fits.5` takes 5 seeds."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp
import numpy as np

import ddefind as dd

from ._report import Row

TITLE = "Equations with networks, noise 0.1; figure: share of fits that fail"
IS_LONG = True
_NOISE, _SEEDS = 0.1, 20


@final
@dataclass(frozen=True)
class System:
    """A true equation with its values, the times of the data, and models with unknown
    functions by name."""

    truth: Any
    T: float
    points: int
    models: dict[str, Any]


def _unknown(start: float = 1.0) -> dd.Problem:
    return dd.Problem(dd.Network(), dd.Constant(start), tau=1.0)


def _lag(t: Any, x: Any) -> Any:
    return 2.0 + jnp.sin(t)


def _moving(rhs: Callable) -> dd.Problem:
    """An equation whose delay at time t is 2 + sin t."""
    return dd.Problem(rhs, dd.Constant(0.5), dd.Delay(_lag))


def _hybrid(x, y, tau, t, unknown=dd.Network()):
    return x * unknown(y)


def _systems() -> dict[str, System]:
    def text(words: str, **values: float) -> dd.Problem:
        return dd.equation(words).problem(values)

    return {
        "logistic": System(
            text("x' = 2 * x * (1 - 1.5 * x(t - tau))", tau=1.0, b=2.0),
            *(10.0, 100),
            {"F": _unknown(), "x NN(y)": dd.equation("x' = x * NN(x(t - tau))")},
        ),
        "Mackey-Glass": System(
            text("x' = 2 * x(t - tau) / (1 + x(t - tau)^8) - x", tau=2.0, b=0.5),
            *(40.0, 200),
            {
                "F": _unknown(),
                "NN(y) - g x": dd.equation("x' = NN(x(t - tau)) - g * x"),
            },
        ),
        "ENSO": System(
            text("x' = x - x^3 - 0.75 * x(t - tau)", tau=5.0, b=1.5),
            *(40.0, 150),
            {"NN(x) - b y": dd.equation("x' = NN(x) - c * x(t - tau)")},
        ),
        "Nicholson": System(
            text("x' = 8 * x(t - tau) * exp(-x(t - tau)) - x", tau=2.0, b=1.0),
            *(40.0, 150),
            {"NN(y) - g x": dd.equation("x' = NN(x(t - tau)) - g * x")},
        ),
        "Cheyne-Stokes": System(
            text("x' = 1 - 4 * x * x(t - tau)^7 / (1 + x(t - tau)^7)", tau=0.8, b=0.6),
            *(20.0, 150),
            {"p - x NN(y)": dd.equation("x' = p - x * NN(x(t - tau))")},
        ),
        "y' = y (1 - y(t - 2 - sin t))": System(
            _moving(lambda x, y, tau, t: x * (1 - y)),
            *(20.0, 150),
            {"y NN": _moving(_hybrid)},
        ),
    }


def _row(name: str, what: str, system: System, model: Any, seeds: int) -> Row:
    t = np.linspace(0.0, system.T, system.points)
    exact = np.asarray(dd.solve(system.truth, system.T)(t))
    size = _NOISE * exact.std()
    good, errors, seconds = 0, [], []
    for seed in range(seeds):
        noise = size * np.random.default_rng(seed).normal(size=exact.shape)
        start = time.perf_counter()
        fit: Any = dd.fit(
            model,
            dd.Data(t, exact + noise),
            intervals=False,
            progress=False,
            seed=seed,
        )
        seconds.append(time.perf_counter() - start)
        residual = np.sqrt(np.mean((fit.fitted - exact - noise) ** 2)) / size
        good += bool(0.8 <= residual <= 1.1)
        if "tau" in fit.values:
            errors.append(fit.values["tau"] - float(system.truth.tau))
    note = f"{good} of {seeds}"
    if errors:
        middle, worst = np.sqrt(np.mean(np.square(errors))), np.max(np.abs(errors))
        note += f", tau off by {middle:.3f} (rms), {worst:.3f} (most)"
    time_of_one = f"{np.median(seconds):.3g} s"
    return Row(f"{name}, {what}"[:46], time_of_one, 1 - good / seeds, 0.05, note)


def rows(part: str | None = None) -> Iterator[Row]:
    seeds = int(part) if part else _SEEDS
    for name, system in _systems().items():
        for what, model in system.models.items():
            yield _row(name, what, system, model, seeds)
