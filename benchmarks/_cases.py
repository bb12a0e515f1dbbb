"""The problems that are timed: 100 RK2 steps, 101 data, off the grid.

`tau` is such that T is no multiple of the step: the number of steps stays 100 while a
descent moves `tau` a little.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

import ddefind as dd
from ddefind.paper import EXPERIMENTS

STEPS_PER_DELAY = 10


@final
@dataclass(frozen=True)
class Case:
    name: str
    problem: dd.Problem
    data: dd.Data


def _case(rhs, history, T: float) -> Case:
    problem = dd.Problem(rhs, history, 1.004 * T / STEPS_PER_DELAY)
    t = np.linspace(0.0, T, 101)
    x = 2.0 + np.sin(t)[:, None] + np.arange(problem.dimension)
    return Case(type(rhs).__name__, problem, dd.Data(t, x))


def paper(model: str) -> Case:
    """One of the paper's models with its true parameters, but for the delay."""
    experiment = EXPERIMENTS[model]
    return _case(experiment.true.rhs, experiment.true.history, experiment.T)


def neural(width: int, depth: int) -> Case:
    rhs = dd.models.Neural(d=1, width=width, depth=depth)
    return _case(rhs, dd.Constant(1.0), 10.0)
