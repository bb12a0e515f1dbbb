"""The systems of the study, and data of them from an integrator of its own: the method
of steps by the classic Runge-Kutta method with cubic interpolation, in NumPy."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import numpy as np


@final
@dataclass(frozen=True)
class System:
    """A system with its true terms.

    `slope(x, delayed)` is the right-hand side, where `delayed` are the states one delay
    ago, in the order of `delays`, which are typical values. `terms` are the
    candidates that `discover` is given, and `truth` the true terms of each state, in
    the notation of its results; there are none if the truth is not among the
    candidates. The states are `start` up to time zero."""

    name: str
    states: tuple[str, ...]
    slope: Callable[[np.ndarray, list[np.ndarray]], np.ndarray]
    delays: tuple[float, ...]
    start: tuple[float, ...]
    T: float
    terms: list[str]
    truth: dict[str, frozenset[str]]
    most_delays: int = 1


def _logistic(x, y):
    return 1.4 * x * (1 - y[0] / 2.0)


def _mackey_glass(x, y):
    return 2.0 * y[0] / (1 + y[0] ** 9.0) - x


def _nicholson(x, y):
    return 16.0 * y[0] * np.exp(-y[0]) - x


def _enso(x, y):
    return x - x**3 - 0.75 * y[0]


def _neurons(x, y):
    own, other = np.tanh(y[0]), np.tanh(y[1][::-1])
    return -0.5 * x - 1.2 * own + np.array([1.0, 1.4]) * other


def _predator_prey(x, y):
    prey = x[0] * (1 - x[0] / 8) - x[0] * x[1]
    return np.array([prey, 0.5 * y[0][0] * y[0][1] - 0.5 * x[1]])


def _ode_logistic(x, y):
    return 0.7 * x * (1 - x / 3)


def _lotka_volterra(x, y):
    return np.array([x[0] * (1.0 - 0.6 * x[1]), x[1] * (0.5 * x[0] - 0.8)])


def _rossler(x, y):
    return np.array([-x[1] - x[2], x[0] + 0.2 * x[1], 0.2 + x[2] * (x[0] - 5.7)])


def _of(**terms: str) -> dict[str, frozenset[str]]:
    return {state: frozenset(each.split(", ")) for state, each in terms.items()}


_HILL = "x(t - tau) / (1 + (x(t - tau) / K)^n)"
_RICKER = "x(t - tau) * exp(-a * x(t - tau))"
_TANH = ["x", "y", "tanh(x)", "tanh(y)", "tanh(x(t - tau))", "tanh(y(t - tau))"]

DELAYED = (
    System(
        "delayed logistic",
        ("x",),
        _logistic,
        (1.137,),
        (0.6,),
        26.0,
        ["polynomial(2)"],
        _of(x="x, x * x(t - tau)"),
    ),
    System(
        "Mackey-Glass",
        ("x",),
        _mackey_glass,
        (2.0317,),
        (0.5,),
        40.0,
        ["polynomial(2)", _HILL],
        _of(x=f"x, {_HILL}"),
    ),
    System(
        "Nicholson",
        ("x",),
        _nicholson,
        (3.313,),
        (0.8,),
        55.0,
        ["polynomial(2)", _RICKER],
        _of(x=f"x, {_RICKER}"),
    ),
    System(
        "ENSO",
        ("x",),
        _enso,
        (3.0371,),
        (0.3,),
        60.0,
        ["polynomial(3)"],
        _of(x="x, x^3, x(t - tau)"),
    ),
    System(
        "two neurons",
        ("x", "y"),
        _neurons,
        (2.217, 0.533),
        (1.0, -0.5),
        30.0,
        _TANH,
        _of(
            x="x, tanh(x(t - tau_1)), tanh(y(t - tau_2))",
            y="y, tanh(y(t - tau_1)), tanh(x(t - tau_2))",
        ),
        most_delays=2,
    ),
    System(
        "predator and prey",
        ("x", "y"),
        _predator_prey,
        (0.823,),
        (1.2, 0.5),
        40.0,
        ["polynomial(2)"],
        _of(x="x, x^2, x * y", y="y, x(t - tau) * y(t - tau)"),
    ),
)

ORDINARY = (
    System(
        "logistic",
        ("x",),
        _ode_logistic,
        (),
        (0.2,),
        12.0,
        ["polynomial(2)"],
        _of(x="x, x^2"),
    ),
    System(
        "Lotka-Volterra",
        ("x", "y"),
        _lotka_volterra,
        (),
        (1.0, 1.0),
        30.0,
        ["polynomial(2)"],
        _of(x="x, x * y", y="y, x * y"),
    ),
    System(
        "Rossler",
        ("x", "y", "z"),
        _rossler,
        (),
        (1.0, 1.0, 0.0),
        30.0,
        ["polynomial(2)"],
        _of(x="y, z", y="x, y", z="1, z, x * z"),
    ),
)

# Systems whose truth is not among the candidates.
LACKING = tuple(
    replace(each, name=f"{each.name}, products", terms=["polynomial(2)"], truth={})
    for each in DELAYED
    if each.name in ("Mackey-Glass", "Nicholson", "ENSO")
)

_STEPS_PER_POINT = 24


def solution(
    system: System, points: int, delays: tuple[float, ...], start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The times and the states at so many equidistant points from time zero on."""
    count = (points - 1) * _STEPS_PER_POINT
    h = system.T / count
    x = np.empty((count + 1, len(start)))
    slopes = np.empty_like(x)
    x[0] = start

    def past(t: float, known: int) -> np.ndarray:
        if t <= 0:
            return start
        i = min(int(t / h), known - 1)
        u = t / h - i
        a, b = (1 + 2 * u) * (1 - u) ** 2, u**2 * (3 - 2 * u)
        c, d = u * (1 - u) ** 2, u**2 * (u - 1)
        ends = a * x[i] + b * x[i + 1]
        return ends + h * (c * slopes[i] + d * slopes[i + 1])

    def slope(t: float, state: np.ndarray, known: int) -> np.ndarray:
        return system.slope(state, [past(t - tau, known) for tau in delays])

    for j in range(count):
        t = j * h
        slopes[j] = first = slope(t, x[j], j)
        second = slope(t + h / 2, x[j] + h / 2 * first, j)
        third = slope(t + h / 2, x[j] + h / 2 * second, j)
        fourth = slope(t + h, x[j] + h * third, j)
        x[j + 1] = x[j] + h / 6 * (first + 2 * second + 2 * third + fourth)
    chosen = np.arange(points) * _STEPS_PER_POINT
    return chosen * h, x[chosen]


@final
@dataclass(frozen=True)
class Sample:
    """A data set: the true delays, the times, and the states with noise."""

    delays: tuple[float, ...]
    t: np.ndarray
    x: np.ndarray


def sample(system: System, points: int, level: float, seed: int) -> Sample:
    """A data set with noise of `level` times the spread of each state. Delays and start
    values are random, up to a quarter longer or a fifth shorter than the typical
    ones."""
    generator = np.random.default_rng([seed, sum(map(ord, system.name))])
    delays = tuple(float(tau * generator.uniform(0.8, 1.25)) for tau in system.delays)
    start = np.array(system.start) * generator.uniform(0.8, 1.25, len(system.start))
    t, x = solution(system, points, delays, start)
    noise = level * x.std(axis=0) * generator.normal(size=x.shape)
    return Sample(delays, t, x + noise)
