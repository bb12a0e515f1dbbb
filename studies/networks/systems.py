"""True equations, and models in which a part of each is unknown."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from tests.support.method_of_steps import method_of_steps

import ddefind as dd

# How far beyond the record a trajectory is compared, as a share of the record.
BEYOND = 0.25


@final
@dataclass(frozen=True)
class System:
    """A true equation x' = F(x, y), y = x(t - tau), with its constant past `start`, the
    length `T` of a record and its number of `points`.

    `networks` are the true functions that networks stand for, by name; `offsets` tells
    whether the data leave the level of such a function open. `values` are the named
    parameters, `history` the true past where it is not constant."""

    rhs: Callable[[np.ndarray, np.ndarray], np.ndarray]
    start: tuple[float, ...]
    tau: float
    T: float
    points: int
    model: Callable[[dd.Network], Any]
    networks: dict[str, Callable[[np.ndarray], np.ndarray]]
    values: dict[str, float]
    history: Callable[[float], np.ndarray] | None = None

    def solution(self) -> Callable[[np.ndarray], np.ndarray]:
        """The states at any times, by scipy's DOP853 from delay to delay."""

        def rhs(x, y, tau, t):
            return self.rhs(x, y[0])

        start = self.history(0.0) if self.history else self.start
        end = (1 + BEYOND) * self.T
        return method_of_steps(
            rhs, np.atleast_1d(start), [self.tau], end, 1e-9, self.history
        )


def _everything(start: tuple[float, ...]) -> Callable[[dd.Network], dd.Problem]:
    return lambda network: dd.Problem(network, dd.Constant(list(start)), tau=1.0)


def _text(equation: str, name: str = "NN") -> Callable[[dd.Network], dd.Equation]:
    return lambda network: dd.equation(equation, networks={name: network})


def _logistic(x, y):
    return 2 * x * (1 - 1.5 * y)


def _mackey_glass(x, y):
    return 2 * y / (1 + y**8) - x


def _enso(x, y):
    return x - x**3 - 0.75 * y


def _nicholson(x, y):
    return 8 * y * np.exp(-y) - x


def _predator_prey(x, y):
    prey = x[0] * (1 - x[0] / 3) - _eaten(x[0]) * x[1]
    return np.array([prey, 0.8 * _eaten(y[0]) * x[1] - 0.5 * x[1]])


def _eaten(x):
    return 1.5 * x / (0.6 + x)


def _moving_past(t):
    return np.atleast_1d(1.0 + 0.5 * np.sin(3.0 * t))


_LOGISTIC: dict[str, Any] = dict(
    rhs=_logistic, start=(2.0,), tau=1.0, T=10.0, points=100
)
_MACKEY: dict[str, Any] = dict(
    rhs=_mackey_glass, start=(0.5,), tau=2.0, T=40.0, points=200
)
_PREDATOR: dict[str, Any] = dict(
    rhs=_predator_prey, start=(1.0, 0.6), tau=0.8, T=30.0, points=100
)

SYSTEMS: dict[str, System] = {
    "logistic full": System(
        **_LOGISTIC, model=_everything((1.0,)), networks={}, values={}
    ),
    "logistic hybrid": System(
        **_LOGISTIC,
        model=_text("x' = x * NN(x(t - tau))"),
        networks={"NN": lambda y: 2 * (1 - 1.5 * y)},
        values={},
    ),
    "Mackey-Glass full": System(
        **_MACKEY, model=_everything((1.0,)), networks={}, values={}
    ),
    "Mackey-Glass hybrid": System(
        **_MACKEY,
        model=_text("x' = NN(x(t - tau)) - g * x"),
        networks={"NN": lambda y: 2 * y / (1 + y**8)},
        values={"g": 1.0},
    ),
    "ENSO hybrid": System(
        *(_enso, (1.5,), 5.0, 40.0, 150),
        model=_text("x' = NN(x) - c * x(t - tau)"),
        networks={"NN": lambda x: x - x**3},
        values={"c": 0.75},
    ),
    "Nicholson hybrid": System(
        *(_nicholson, (1.0,), 2.0, 40.0, 150),
        model=_text("x' = NN(x(t - tau)) - g * x"),
        networks={"NN": lambda y: 8 * y * np.exp(-y)},
        values={"g": 1.0},
    ),
    "logistic, history": System(
        *(_logistic, (1.0,), 1.0, 10.0, 100),
        model=lambda network: dd.equation(
            "x' = r * x * (1 - k * x(t - tau))"
        ).with_history(network),
        networks={},
        values={"r": 2.0, "k": 1.5},
        history=_moving_past,
    ),
    "predator-prey, one term": System(
        **_PREDATOR,
        model=_text(
            "x' = r * x * (1 - x / K) - NN(x) * y; y' = e * NN(x(t - tau)) * y - m * y"
        ),
        networks={},
        values={"r": 1.0, "K": 3.0, "m": 0.5},
    ),
    "predator-prey, prey known": System(
        **_PREDATOR,
        model=_text(
            "x' = r * x * (1 - x / K) - a * x * y / (h + x); "
            "y' = NN(x(t - tau)) * y - m * y"
        ),
        networks={},
        values={"r": 1.0, "K": 3.0},
    ),
    "predator-prey full": System(
        **_PREDATOR, model=_everything((1.0, 1.0)), networks={}, values={}
    ),
}
