"""What `fit_many` returns: many fits, as arrays and one by one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, final, overload

import numpy as np

from .._problem.network_weights import Networks, count_weights, named_indices
from .._util.data_frame import data_frame
from .._util.errors import shown
from .._util.text_table import table_lines
from .result import AbstractFit
from .status import Status

Fit = TypeVar("Fit", bound=AbstractFit, covariant=True)


@final
@dataclass(frozen=True)
class FitBatch(Generic[Fit]):
    """Many fits: `batch[i]` is a single fit, and the fields hold all of them as arrays.

    `best`, `first` and `final` have a row for each fit and a column for each of
    `names`: the estimates, and where the fit began and ended. Least squares ends at the
    estimates and begins in many places, so that there `first` are the user's starts.
    `epochs` are the steps of gradient descent, or the evaluations of least squares.
    `notes` are sentences that are printed below the table."""

    names: tuple[str, ...]
    best: np.ndarray
    first: np.ndarray
    final: np.ndarray
    loss: np.ndarray
    statuses: tuple[Status, ...]
    epochs: np.ndarray
    seconds: float
    results: Callable[[int], Fit] = field(repr=False)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.best)

    @overload
    def __getitem__(self, index: int) -> Fit: ...
    @overload
    def __getitem__(self, index: slice) -> "FitBatch[Fit]": ...
    def __getitem__(self, index: int | slice) -> "Fit | FitBatch[Fit]":
        if isinstance(index, slice):
            return self._part(range(len(self))[index])
        if not isinstance(index, int | np.integer):
            raise TypeError(
                f"A batch has the fits 0 to {len(self) - 1}: write `batch[0]` or "
                f"`batch[1:3]`, not {shown(index)}."
            )
        if not -len(self) <= index < len(self):
            raise IndexError(f"There are {len(self)} fits; index {index} is outside.")
        return self.results(index % len(self))

    def _part(self, kept: range) -> "FitBatch[Fit]":
        """The fits with these numbers. The time is that of all."""
        rows, results = list(kept), self.results
        return replace(
            self,
            best=self.best[rows],
            first=self.first[rows],
            final=self.final[rows],
            loss=self.loss[rows],
            statuses=tuple(self.statuses[row] for row in rows),
            epochs=self.epochs[rows],
            results=lambda index: results(rows[index]),
        )

    def to_frame(self) -> Any:
        """A pandas data frame with a row for each fit: its estimates by name, without
        the weights of networks, its loss and how it ended."""
        networks = self._networks
        columns = {
            self.names[j]: self.best[:, j]
            for j in named_indices(len(self.names), networks)
        }
        statuses = [status.name for status in self.statuses]
        return data_frame({"loss": self.loss, "status": statuses, **columns})

    def __iter__(self) -> Iterator[Fit]:
        return (self[index] for index in range(len(self)))

    @property
    def _made(self) -> list[int]:
        """The numbers of the fits that there are."""
        return [i for i, status in enumerate(self.statuses) if status.has_fit]

    @property
    def _networks(self) -> Networks:
        return next((self[index].networks for index in self._made), {})

    def __str__(self) -> str:
        best = self.best[self._made]
        columns = (
            np.mean(best, axis=0),
            np.std(best, axis=0, ddof=min(1, len(best) - 1)),
            np.min(best, axis=0),
            np.max(best, axis=0),
        )
        rows = [
            (name, *(f"{value:.5g}" for value in row))
            for name, *row in zip(self.names, *columns)
        ]
        networks = self._networks
        rows = [rows[j] for j in named_indices(len(rows), networks)]
        header = ("parameter", "mean", "sd", "lowest", "highest")
        counts = {s: self.statuses.count(s) for s in dict.fromkeys(self.statuses)}
        ended = ", ".join(f"{count} {s.name}" for s, count in counts.items())
        return "\n".join(
            [
                *table_lines([header, *rows], min_widths=(9, 12, 10, 10, 10)),
                *count_weights(networks),
                f"{len(self)} fits in {self.seconds:.2g} s: {ended}",
                *self.notes,
            ]
        )
