"""Fits as they are asked for, before anything is computed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

from .._data.data import Data
from .._equation.equation import Equation
from .._loss.gradients import AbstractGradient
from .._loss.losses import AbstractLoss
from .._problem.parameters import Parameter
from .._problem.problem import Problem
from .._solve.runge_kutta import AbstractSolver
from .._util.progress import Progress
from .optimizers import AbstractOptimizer, LeastSquares


@final
@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """One or many fits: lists have an entry for each. None is a default, which the
    methods know. `model` is the text equation that the problems come from, if any."""

    problems: list[Problem]
    sets: list[Data]
    starts: list[Mapping[str, float]]
    seeds: list[int]
    parameters: Mapping[str, Any] | None
    loss: AbstractLoss
    optimizer: AbstractOptimizer | LeastSquares
    gradient: AbstractGradient | None
    solver: AbstractSolver
    steps_per_delay: int | None
    epochs: int | None
    threshold: float | None
    progress: bool | Callable[[Progress], None] | None
    model: Equation | None

    def settings(self, own: Mapping[str, float]) -> dict[str, Any]:
        """The settings of the parameters, with one fit's own starts."""
        settings = dict(self.parameters or {})
        for name, value in own.items():
            before = settings.get(name)
            bounds = before if isinstance(before, Parameter) else Parameter()
            settings[name] = replace(bounds, start=value)
        return settings
