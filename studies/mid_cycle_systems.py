"""Five systems with delays that oscillate, and records that begin in mid-cycle.

They are solved by SciPy, from a constant past through a long transient; the record
begins at some time after it, and its past is the solution before."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from tests.support.method_of_steps import method_of_steps

import ddefind as dd


@final
@dataclass(frozen=True)
class System:
    """A system: its equation as text and as a function of NumPy, its parameters, the
    length of the record and the number of times."""

    text: str
    rhs: Callable[..., np.ndarray]
    true: dict[str, float]
    start: tuple[float, ...]
    T: float
    points: int
    transient: float

    def solution(self) -> Callable[[np.ndarray], np.ndarray]:
        """The states at any times from 0 to the end of the transient and a record
        beyond it."""

        def rhs(x, y, tau, t):
            return self.rhs(x, y[0], self.true)

        end = self.transient + self.T
        return method_of_steps(rhs, self.start, [self.true["tau"]], end, 1e-9)


def _logistic(x, y, p):
    return p["r"] * x * (1 - y / p["K"])


def _mackey_glass(x, y, p):
    return p["beta"] * y / (1 + y ** p["n"]) - p["gamma"] * x


def _nicholson(x, y, p):
    return p["P"] * y * np.exp(-y / p["N0"]) - p["delta"] * x


def _predator_prey(x, y, p):
    prey = p["g"] * x[0] * (1 - x[0] / p["K"]) - p["k"] * x[0] * x[1]
    return np.array([prey, p["e"] * y[0] * y[1] - p["m"] * x[1]])


def _hill(x, y, p):
    return p["s"] / (1 + y ** p["n"]) - p["m"] * x


SYSTEMS = {
    "logistic": System(
        "x' = r * x * (1 - x(t - tau) / K)",
        _logistic,
        {"r": 0.25, "K": 10.0, "tau": 7.5},
        (5.0,),
        120.0,
        60,
        400.0,
    ),
    "Mackey-Glass": System(
        "x' = beta * x(t - tau) / (1 + x(t - tau)^n) - gamma * x",
        _mackey_glass,
        {"beta": 0.2, "n": 10.0, "gamma": 0.1, "tau": 12.0},
        (0.5,),
        200.0,
        100,
        600.0,
    ),
    "Nicholson": System(
        "N' = P * N(t - tau) * exp(-N(t - tau) / N0) - delta * N",
        _nicholson,
        {"P": 8.0, "N0": 2.0, "delta": 0.5, "tau": 5.0},
        (1.0,),
        80.0,
        80,
        300.0,
    ),
    "predator and prey": System(
        "prey' = g * prey * (1 - prey / K) - k * prey * hunter; "
        "hunter' = e * prey(t - tau) * hunter(t - tau) - m * hunter",
        _predator_prey,
        {"g": 1.0, "K": 20.0, "k": 0.5, "e": 0.15, "m": 0.8, "tau": 2.0},
        (5.0, 1.0),
        40.0,
        60,
        400.0,
    ),
    "Hill feedback": System(
        "x' = s / (1 + x(t - tau)^n) - m * x",
        _hill,
        {"s": 2.0, "n": 6.0, "m": 0.6, "tau": 3.0},
        (0.5,),
        50.0,
        60,
        300.0,
    ),
}


@final
@dataclass(frozen=True)
class Record:
    """A record of a system without noise, and the past before it."""

    system: System
    begins: float
    path: Callable[[np.ndarray], np.ndarray]

    @property
    def t(self) -> np.ndarray:
        return np.linspace(0.0, self.system.T, self.system.points)

    def past(self, t: np.ndarray) -> np.ndarray:
        """The true states at times up to zero, [len(t), d]."""
        return self.path(self.begins + np.asarray(t))

    @property
    def x(self) -> np.ndarray:
        return self.path(self.begins + self.t)

    def data(self, noise: float, random: np.random.Generator) -> dd.Data:
        """The record with Gaussian noise, a share of the spread of each quantity."""
        x = self.x
        names = dd.equation(self.system.text).states
        errors = noise * np.std(x, axis=0) * random.standard_normal(x.shape)
        return dd.Data(self.t, x + errors, names=names)


def record(system: System, path: Callable, random: np.random.Generator) -> Record:
    """A record that begins at a random time after the transient."""
    tau = system.true["tau"]
    return Record(system, system.transient - random.uniform(0, 20 * tau), path)
