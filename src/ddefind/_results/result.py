"""What every fit has, and the result of gradient descent."""

import abc
import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from .._adaptive.methods import AbstractAdaptive
from .._equation.equation import Equation
from .._problem.history import time_zero
from .._problem.network_weights import (
    Networks,
    count_weights,
    named_indices,
    networks_of,
)
from .._problem.problem import Problem
from .._solve.runge_kutta import AbstractSolver
from .._solve.solution import Solution
from .._solve.solve import solve
from .._util.data_frame import frame_of_rows
from .._util.json_numbers import nonfinite_as_none
from .._util.text_table import table_lines
from ..torch._from_torch import TorchParts, to_torch
from .save import descent_content
from .saved_file import write_saved
from .status import Status


@dataclass(frozen=True, kw_only=True)
class AbstractFit(abc.ABC):
    """What every fit has: `problem` is the learned problem, and `best` are its free
    parameters, by `names`. `model` is the text equation that was fitted, if any.

    `max_step` is the largest step of the solver, where the steps do not follow from
    `steps_per_delay`, and else None."""

    problem: Problem
    data: Any
    names: tuple[str, ...]
    best: np.ndarray
    loss: float
    status: Status
    message: str
    seconds: float
    solver: AbstractSolver | AbstractAdaptive = field(repr=False)
    steps_per_delay: int = field(repr=False)
    max_step: float | None = field(default=None, repr=False)
    model: Equation | None = None

    @property
    def values(self) -> dict[str, float]:
        """The learned parameters by name."""
        return dict(zip(self.names, self.best.tolist()))

    @cached_property
    def networks(self) -> Networks:
        """Where the weights of each network stand in `names`, as {"network `g`": (2, 3,
        4)}. Tables do not list them."""
        return networks_of(self.problem, self.names)

    @property
    def solution(self) -> Solution:
        """The learned trajectory, at the times of the data."""
        solution = solve(
            self.problem,
            self.data.T - self.time_zero,
            self.solver,
            self.steps_per_delay,
            max_step=self.max_step,
        )
        return replace(solution, time_zero=self.time_zero)

    @property
    def time_zero(self) -> float:
        """The time at which the history ends: zero, or with `history="data"` the time
        from which on the data were fitted."""
        return time_zero(self.problem.history)

    def to_torch(self) -> TorchParts:
        """The learned torch modules, `.rhs` and `.history` (None for what came
        otherwise), as they were given to `from_torch`, and the learned `.tau`."""
        return to_torch(self.problem)

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""

    @abc.abstractmethod
    def summary(self) -> list[dict[str, Any]]:
        """A row for each parameter."""

    def to_frame(self) -> Any:
        """The rows of `summary` as a pandas data frame, by name."""
        return frame_of_rows(self.summary())

    @abc.abstractmethod
    def plot(self, ax: Any = None) -> Any:
        """A matplotlib figure, or that of the axes `ax`."""

    @abc.abstractmethod
    def file_content(self) -> dict[str, Any]:
        """What `save` writes, as plain words and numbers."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit, with its data, to a file (JSON), whole or not at all.
        `dd.load` gives it back."""
        write_saved(path, self.file_content())


@final
@dataclass(frozen=True, kw_only=True)
class FitResult(AbstractFit):
    """A fit by gradient descent, at the best point that was seen.

    `losses[e]` is the loss at epoch e (infinite where it was not finite) and `path[e]`
    the free parameters there, by `names` (None above 1,000 parameters); `final` are the
    values after the last step."""

    start: Problem
    first: np.ndarray
    final: np.ndarray
    losses: np.ndarray
    path: np.ndarray | None
    epochs: int

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return {
            "parameters": self.values,
            "start": dict(zip(self.names, self.first.tolist())),
            "loss": nonfinite_as_none(self.loss),
            "status": self.status.name,
            "message": self.message,
            "epochs": self.epochs,
            "seconds": self.seconds,
        }

    def summary(self) -> list[dict[str, Any]]:
        """A row for each parameter, without the weights of networks: name, start and
        estimate."""
        rows = list(zip(self.names, self.first.tolist(), self.best.tolist()))
        named = [rows[j] for j in named_indices(len(rows), self.networks)]
        return [{"name": n, "start": a, "estimate": b} for n, a, b in named]

    def __str__(self) -> str:
        rows = [
            (row["name"], f"{row['start']:.5g}", f"{row['estimate']:.5g}")
            for row in self.summary()
        ]
        table = table_lines(
            [("parameter", "start", "learned"), *rows],
            min_widths=(9, 12, 10),
            row_noun="parameters",
        )
        fell = f" (from {self.losses[0]:.5g})" if len(self.losses) else ""
        loss = f"loss {self.loss:.5g}{fell}, {self.epochs} epochs, {self.seconds:.2g} s"
        return "\n".join([*table, *count_weights(self.networks), loss, self.message])

    def plot(self, ax: Any = None) -> Any:
        """A matplotlib figure: data, start and learned trajectory, and the loss. `ax`
        are axes to draw on: one for each quantity, and perhaps one for the loss."""
        from ..plots import plot_fit

        return plot_fit(self, ax)

    def file_content(self) -> dict[str, Any]:
        """What `save` writes, as plain words and numbers."""
        return descent_content(self)
