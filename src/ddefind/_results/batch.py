"""What `fit_many` returns: many fits, as arrays and one by one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final, overload

import numpy as np

from .._problem.network_weights import Networks, count_weights, named_indices
from .._util.errors import shown
from .._util.shown import AbstractShown, Cells, Shown, data_frame
from .status import Status

if TYPE_CHECKING:
    from .result import AbstractFit

# The sentence on fits that the table leaves out.
_WITHOUT_LOSS = "{} without a finite loss left out of this table."

Fit = TypeVar("Fit", bound="AbstractFit", covariant=True)


@final
@dataclass(frozen=True)
class FitBatch(AbstractShown, Generic[Fit]):
    """Many fits: `batch[i]` is a single fit, and the fields hold all of them as arrays.

    `best`, `first` and `final` have a row for each fit and a column for each of
    `names`: the estimates, and where the fit began and ended. Least squares ends at the
    estimates and begins in many places, so that there `first` are the user's starts.
    `epochs` are the steps of gradient descent, or the evaluations of least squares.
    `notes` are sentences that are printed below the table, and `labels` the names of
    the data sets, if they have any."""

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
    labels: tuple[str, ...] | None = None

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
        """Return the fits with these numbers; the time stays that of all."""
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
            labels=self.labels and tuple(self.labels[row] for row in rows),
        )

    def to_frame(self) -> Any:
        """Return a pandas data frame with a row for each fit: the label of its data, if
        any, its loss, how it ended, and its estimates by name, without the weights of
        networks."""
        networks = self._networks
        columns = {
            self.names[j]: self.best[:, j]
            for j in named_indices(len(self.names), networks)
        }
        statuses = [status.name for status in self.statuses]
        labels = {} if self.labels is None else {"label": list(self.labels)}
        how = {"loss": self.loss, "status": statuses}
        return data_frame(labels | how | columns)

    def __iter__(self) -> Iterator[Fit]:
        return (self[index] for index in range(len(self)))

    @property
    def _made(self) -> list[int]:
        """The numbers of the fits that there are."""
        return [i for i, status in enumerate(self.statuses) if status.has_fit]

    @property
    def _networks(self) -> Networks:
        return next((self[index].networks for index in self._made), {})

    def shown(self) -> Shown:
        """Return the table of the estimates over all fits, and how these ended."""
        usable = [i for i in self._made if np.isfinite(self.loss[i])]
        best = self.best[usable] if usable else np.full((1, len(self.names)), np.nan)
        left_out = len(self._made) - len(usable)
        columns = (
            np.median(best, axis=0),
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
        header = ("parameter", "median", "mean", "sd", "lowest", "highest")
        counts = {s: self.statuses.count(s) for s in dict.fromkeys(self.statuses)}
        noun = "fit" if len(self) == 1 else "fits"
        ended = ", ".join(f"{count} {s.name}" for s, count in counts.items())
        return Shown(
            [
                Cells(header, rows, min_widths=(9, 12, 12, 10, 10, 10)),
                *count_weights(networks),
                *([_WITHOUT_LOSS.format(left_out)] if left_out else []),
                f"{len(self)} {noun} in {self.seconds:.2g} s: {ended}",
                *self.notes,
            ]
        )
