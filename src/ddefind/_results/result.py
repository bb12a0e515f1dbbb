"""What every fit has, its page, and the result of gradient descent."""

import abc
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

import jax
import numpy as np

from .._data.data import Data
from .._data.study_data import longest_part
from .._data.times import source_times
from .._engine.runge_kutta import AbstractIntegrator
from .._engine.solution import Solution
from .._engine.solve import solve
from .._equation.equation import Equation
from .._inference.learned_function import LearnedFunction
from .._inference.system import UNDISTURBED, AbstractSystem
from .._problem.delays import delay_values
from .._problem.history import time_zero
from .._problem.network_weights import (
    Networks,
    count_weights,
    named_indices,
    network_name,
    networks_of,
)
from .._problem.problem import Problem
from .._report.build import build
from .._util import wording
from .._util.files import file_name, nonfinite_as_none, write_whole
from .._util.shown import AbstractShown, Cells, Shown, frame_of_rows
from .network_functions import chosen_function, learned_functions
from .saved_file import saved_text, write_saved
from .saved_fit import descent_content
from .status import Status

if TYPE_CHECKING:
    import torch


def html_report(
    fit: "AbstractFit", until: float | None = None, settings: str | None = None
) -> str:
    """Build the page of a fit. `until` is the last time of the prediction, and
    `settings` is the text of the file with which the command line repeats the fit."""
    if not np.isfinite(fit.loss):
        raise ValueError(f"There is no fit: {fit.message}")
    if until is not None and not until > fit.data.T:
        data = longest_part(fit.data)
        given, end = source_times(data, np.array([until, data.T]))[1]
        raise ValueError(
            f"{wording.UNTIL} is {given}, but the data end at {end}. Give a later "
            "time, or leave it out."
        )
    return build(fit, saved_text(fit.file_content()), settings, until)


def check_page(argument: str, path: Path) -> None:
    """Raise an error unless the name of a file is that of a page."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(
            f"{argument}: {file_name(path)} is not the name of a page. Give one that "
            "ends with .html."
        )


class TorchParts(NamedTuple):
    """The result of `fit.to_torch()`: the learned torch modules and the delay.

    A part of the problem that is not a torch module is None. Several delays are a tuple
    or a dict of numbers, as in the problem."""

    rhs: "torch.nn.Module | None"
    history: "torch.nn.Module | None"
    tau: Any


class AbstractFit(AbstractShown):
    """What every fit has: `problem` is the learned problem, and `best` are its free
    parameters, by `names`. `model` is the text equation that was fitted, if any.

    `max_step` is the largest step of the solver, where the steps do not follow from
    `steps_per_delay`, and else None. `system` is what the system is taken to be."""

    problem: Problem
    data: Any
    names: tuple[str, ...]
    best: np.ndarray
    loss: float
    status: Status
    message: str
    seconds: float
    solver: AbstractIntegrator
    steps_per_delay: int
    max_step: float | None
    model: Equation | None
    system: AbstractSystem
    experiments: Mapping[str, "AbstractFit"]

    @property
    def values(self) -> dict[str, float]:
        """The learned parameters by name."""
        return dict(zip(self.names, self.best.tolist()))

    @cached_property
    def networks(self) -> Networks:
        """Where the weights of each network stand in `names`, as {"network `g`": (2, 3,
        4)}. Tables do not list them."""
        return networks_of(self.problem, self.names)

    @cached_property
    def functions(self) -> dict[str, LearnedFunction]:
        """The functions that the networks have learned, by the names of these."""
        return learned_functions(self)

    def function(self, name: str | None = None) -> LearnedFunction:
        """Return the function that a network has learned: `f(u)` are its values and
        `f.band(u)` is its confidence band.

        `name` is that of the network, `"NN"` in a text equation, and otherwise as in
        the printed table. It can be left out if there is only one."""
        return chosen_function(self.functions, name)

    def plot_function(self, name: str | None = None, ax: Any = None) -> Any:
        """Return a matplotlib figure of the function that a network has learned, by
        default of each network: with its band over the range that the fitted trajectory
        visited, and dashed a little beyond it. `ax` are axes to draw on, one for each
        output."""
        from ..plots import plot_functions

        first = self.function(name) if name or not self.functions else None
        return plot_functions([first] if first else [*self.functions.values()], ax)

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
    def state_names(self) -> tuple[str, ...]:
        """What the states are called."""
        d = self.problem.dimension
        if self.model is not None:
            return self.model.states
        if self.problem.observe is None:
            return self.data.names
        return ("x",) if d == 1 else tuple(f"x[{i}]" for i in range(d))

    @property
    def time_zero(self) -> float:
        """The time at which the history ends: zero, or with `history="data"` the time
        from which on the data were fitted."""
        return time_zero(self.problem.history)

    def to_torch(self) -> TorchParts:
        """Return the learned torch modules, `.rhs` and `.history` (None for what came
        otherwise), as they were given to `from_torch`, and the learned `.tau`."""
        parts = [
            part.to_torch() if hasattr(part, "to_torch") else None
            for part in (self.problem.rhs, self.problem.history)
        ]
        if parts == [None, None]:
            raise TypeError(
                "Neither `rhs` nor `history` is a torch module; `from_torch(module)` "
                "makes one part of a problem."
            )
        tau = jax.tree.map(float, delay_values(self.problem.tau))
        return TorchParts(parts[0], parts[1], tau)

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, ready for JSON."""

    @abc.abstractmethod
    def cells(self) -> Cells:
        """Return the printed table, with the `summary` behind it."""

    @abc.abstractmethod
    def sentences(self) -> list[str]:
        """Return the sentences that are printed below the table."""

    @abc.abstractmethod
    def doubts(self) -> list[str]:
        """Return those of the sentences that warn of something."""

    def summary(self) -> list[dict[str, Any]]:
        """Return a row for each parameter, without the weights of networks: its name
        and estimate; after least squares its standard error and, unless they were left
        out, its interval and verdict; after gradient descent its start. None stands
        where there is no number."""
        return [dict(row) for row in self.cells().values]

    def to_frame(self) -> Any:
        """Return the rows of `summary` as a pandas data frame, by name."""
        return frame_of_rows(self.summary(), "name")

    @abc.abstractmethod
    def plot(self, ax: Any = None) -> Any:
        """Return a matplotlib figure, or that of the axes `ax`."""

    def report(self, path: str | os.PathLike[str], until: float | None = None) -> None:
        """Write a report (HTML): one page with the equation, the estimates in words,
        charts that can be zoomed, the tests, and how to repeat the fit. It needs
        nothing but itself, and can be sent to a colleague or printed.

        **Arguments**

        - `path`: the file to write.
        - `until`: the last time of the prediction, by default a quarter of the record
          after its end.
        """

        check_page("`path`", Path(path))
        write_whole(Path(path), html_report(self, until))

    @abc.abstractmethod
    def file_content(self) -> dict[str, Any]:
        """Return what `save` writes, as plain words and numbers."""

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

    problem: Problem
    start: Problem
    data: Data
    model: Equation | None
    names: tuple[str, ...]
    best: np.ndarray
    first: np.ndarray
    final: np.ndarray
    loss: float
    losses: np.ndarray
    path: np.ndarray | None
    epochs: int
    status: Status
    message: str
    seconds: float
    solver: AbstractIntegrator = field(repr=False)
    steps_per_delay: int = field(repr=False)
    max_step: float | None = field(default=None, repr=False)
    system: ClassVar[AbstractSystem] = UNDISTURBED
    experiments: ClassVar[Mapping[str, AbstractFit]] = {}

    def to_dict(self) -> dict[str, Any]:
        rows = self.summary()
        return {
            "parameters": {row["name"]: row["estimate"] for row in rows},
            "start": {row["name"]: row["start"] for row in rows},
            "networks": {
                network_name(owner): {"weights": len(indices)}
                for owner, indices in self.networks.items()
            },
            "loss": nonfinite_as_none(self.loss),
            "status": self.status.name,
            "message": self.message,
            "epochs": self.epochs,
            "seconds": self.seconds,
        }

    def cells(self) -> Cells:
        rows = list(zip(self.names, self.first.tolist(), self.best.tolist()))
        named = [rows[j] for j in named_indices(len(rows), self.networks)]
        return Cells(
            ("parameter", "start", "learned"),
            [(name, f"{start:.5g}", f"{best:.5g}") for name, start, best in named],
            [dict(zip(("name", "start", "estimate"), row)) for row in named],
            min_widths=(9, 12, 10),
            row_noun="parameters",
        )

    def sentences(self) -> list[str]:
        fell = f" (from {self.losses[0]:.5g})" if len(self.losses) else ""
        loss = f"loss {self.loss:.5g}{fell}, {self.epochs} epochs, {self.seconds:.2g} s"
        return [*count_weights(self.networks), loss, self.message]

    def doubts(self) -> list[str]:
        return [] if self.status.ok else [self.message]

    def shown(self) -> Shown:
        """Return the table, and what is printed below it."""
        return Shown([self.cells(), *self.sentences()])

    def plot(self, ax: Any = None) -> Any:
        """Return a matplotlib figure: data, start and learned trajectory, and the loss.
        `ax` are axes to draw on: one for each quantity, and perhaps one for the loss.
        """
        from ..plots import plot_fit

        return plot_fit(self, ax)

    def file_content(self) -> dict[str, Any]:
        return descent_content(self)
