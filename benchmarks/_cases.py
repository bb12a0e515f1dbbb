"""The problems that are timed: 100 RK2 steps, 101 data, off the grid.

`tau` is such that T is no multiple of the step: the number of steps stays 100 while a
descent moves `tau` a little.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

import ddefind as dd

STEPS_PER_DELAY = 10


@final
@dataclass(frozen=True)
class Case:
    name: str
    problem: dd.Problem
    data: dd.Data


def _case(name: str, rhs, history, tau: float, T: float) -> Case:
    problem = dd.Problem(rhs, history, tau)
    t = np.linspace(0.0, T, 101)
    x = 2.0 + np.sin(t)[:, None] + np.arange(problem.dimension)
    return Case(name, problem, dd.Data(t, x))


def exponential() -> Case:
    rhs, history = dd.models.Exponential(-2.0, -2.0), dd.Affine(1.5, 4.0)
    return _case("Exponential", rhs, history, 1.004, 10.0)


def logistic() -> Case:
    rhs, history = dd.models.Logistic(2.0, 1.5), dd.Periodic(-0.5, 3.0, 2.0)
    return _case("Logistic", rhs, history, 1.004, 10.0)


def cheyne() -> Case:
    rhs, history = dd.models.Cheyne(1.0, 7.0, 2.0), dd.Affine(-5.0, 2.0)
    return _case("Cheyne", rhs, history, 0.3012, 3.0)


def hiv() -> Case:
    history = dd.Periodic([1.0, 3.0, 0.1], [1.0, 3.0, 1.0], [10.0, 8.0, 0.0])
    return _case("HIV", dd.models.HIV(), history, 1.004, 10.0)


def neural(width: int, depth: int) -> Case:
    rhs = dd.models.Neural(d=1, width=width, depth=depth)
    return _case("Neural", rhs, dd.Constant(1.0), 1.004, 10.0)
