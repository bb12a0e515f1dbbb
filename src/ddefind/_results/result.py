"""What a fit returns: learned values, a status that is a sentence, and a table."""

import abc
import enum
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from .._data.data import Data
from .._equation.equation import Equation
from .._problem.problem import Problem
from .._solve.runge_kutta import AbstractSolver
from .._solve.solution import Solution, solve
from ..torch._from_torch import TorchParts, to_torch
from .save import descent_content
from .saved_file import write_saved


@final
class Status(enum.Enum):
    """How a fit ended, and what to do about it."""

    finished = "Ran all its epochs. Run more, or compare with another optimiser."
    threshold = "The loss fell below the threshold."
    settled = "The optimiser could not lower the loss any further."
    failed = (
        "The loss stayed non-finite however small the step; the best point is kept. "
        "Lower the rate, or bound the parameters."
    )
    no_start = (
        "The loss is not finite at the start. Start elsewhere, or bound the parameters."
    )
    interrupted = "Interrupted; the best point so far is kept."
    converged_gradient = (
        "Converged: the residuals are orthogonal to every parameter's influence."
    )
    converged_step = "Converged: no step promises to lower the sum of squares further."
    exact = "Converged: the model passes through the data, up to rounding."
    limit = (
        "Stopped before convergence, after the most evaluations that a fit may take. "
        "Bound the parameters, or fix those that the data cannot determine."
    )
    stuck = (
        "Stopped before convergence: no smaller step lowers the sum of squares. The "
        "model may not be smooth in its parameters, or lose its digits in differences "
        "of large numbers."
    )

    @property
    def ok(self) -> bool:
        return self in (
            Status.finished,
            Status.threshold,
            Status.settled,
            Status.converged_gradient,
            Status.converged_step,
            Status.exact,
        )


@dataclass(frozen=True, kw_only=True)
class AbstractFit(abc.ABC):
    """What every fit has: `problem` is the learned problem, and `best` are its free
    parameters, by `names`. `model` is the text equation that was fitted, if any."""

    problem: Problem
    data: Data
    names: tuple[str, ...]
    best: np.ndarray
    loss: float
    status: Status
    message: str
    seconds: float
    solver: AbstractSolver = field(repr=False)
    steps_per_delay: int = field(repr=False)
    model: Equation | None = None

    @property
    def values(self) -> dict[str, float]:
        """The learned parameters by name."""
        return dict(zip(self.names, self.best.tolist()))

    @property
    def solution(self) -> Solution:
        """The learned trajectory."""
        return solve(self.problem, self.data.T, self.solver, self.steps_per_delay)

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

    @abc.abstractmethod
    def plot(self) -> Any:
        """A matplotlib figure."""

    @abc.abstractmethod
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file, for `dd.load`."""


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
            "loss": self.loss if np.isfinite(self.loss) else None,
            "status": self.status.name,
            "message": self.message,
            "epochs": self.epochs,
            "seconds": self.seconds,
        }

    def summary(self) -> list[dict[str, Any]]:
        """A row for each parameter: name, start and estimate."""
        rows = zip(self.names, self.first.tolist(), self.best.tolist())
        return [{"name": n, "start": a, "estimate": b} for n, a, b in rows]

    def __str__(self) -> str:
        shown = min(len(self.names), 40)
        width = max(9, *map(len, self.names[:shown])) + 2
        lines = [f"{'parameter':<{width}}{'start':>12}{'learned':>12}"]
        for name, first, best in zip(self.names[:shown], self.first, self.best):
            lines.append(f"{name:<{width}}{first:>12.5g}{best:>12.5g}")
        if shown < len(self.names):
            lines.append(f"... and {len(self.names) - shown} more parameters")
        fell = f" (from {self.losses[0]:.5g})" if len(self.losses) else ""
        lines.append(
            f"loss {self.loss:.5g}{fell}, {self.epochs} epochs, {self.seconds:.2g} s"
        )
        lines.append(self.message)
        return "\n".join(lines)

    def plot(self):
        """A matplotlib figure: data, start and learned trajectory, and the loss."""
        from ..plots import plot_fit

        return plot_fit(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit, with its data, to a file (JSON), whole or not at all.
        `dd.load` gives it back."""
        write_saved(path, descent_content(self))


@final
@dataclass(frozen=True)
class FitBatch:
    """Many fits: indexes and iterates as single fits, and holds them as arrays.

    `best`, `first` and `final` have a row for each fit and a column for each of
    `names`: the estimates, and where the fit began and ended. Least squares ends at the
    estimates, and begins in many places: `first` is the user's start there."""

    names: tuple[str, ...]
    best: np.ndarray
    first: np.ndarray
    final: np.ndarray
    loss: np.ndarray
    statuses: tuple[Status, ...]
    epochs: np.ndarray
    seconds: float
    results: Any = field(repr=False)

    def __len__(self) -> int:
        return len(self.best)

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"There are {len(self)} fits; index {index} is outside.")
        return self.results(index % len(self))

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __str__(self) -> str:
        width = max(9, *map(len, self.names)) + 2
        head = ("mean", "sd", "lowest", "highest")
        lines = [f"{'parameter':<{width}}" + "".join(f"{h:>12}" for h in head)]
        spread = np.std(self.best, axis=0, ddof=min(1, len(self) - 1))
        columns = (
            np.mean(self.best, axis=0),
            spread,
            np.min(self.best, axis=0),
            np.max(self.best, axis=0),
        )
        for name, *row in zip(self.names, *columns):
            cells = "".join(f"{value:>12.5g}" for value in row)
            lines.append(f"{name:<{width}}{cells}")
        counts = {s: self.statuses.count(s) for s in dict.fromkeys(self.statuses)}
        ended = ", ".join(f"{count} {s.name}" for s, count in counts.items())
        lines.append(f"{len(self)} fits in {self.seconds:.2g} s: {ended}")
        return "\n".join(lines)
