"""A saved fit whose model is code: its numbers, and what they allow."""

import os
from dataclasses import dataclass, field, fields
from html import escape
from typing import Any, NoReturn, final

import numpy as np

from .._inference.identifiability import NOT_JUDGED
from .._util.shown import frame_of_rows
from .estimate import Estimate
from .result import FitResult
from .saved_file import write_saved
from .status import Status

_BY_DESCENT = "This fit is by gradient descent, which computes no errors."
_WITHOUT_INTERVALS = (
    "This fit was saved without its intervals. Load it with its model, "
    "`dd.load(path, problem=...)`, to compute them."
)


@final
@dataclass(frozen=True)
class SavedFit:
    """The numbers of a saved fit whose model is code, which no file holds.

    `dd.load(path, problem=...)` with that model gives the whole fit. `content` is what
    the file holds."""

    names: tuple[str, ...]
    best: np.ndarray
    loss: float
    status: Status
    message: str
    seconds: float
    data: Any
    table: tuple[dict[str, Any], ...]
    text: str
    content: dict[str, Any] = field(repr=False)

    @property
    def values(self) -> dict[str, float]:
        """The learned parameters by name."""
        return dict(zip(self.names, self.best.tolist()))

    @property
    def noise(self) -> dict[str, float]:
        """The standard deviation of the noise of each measured quantity."""
        if "noise" not in self.content:
            raise ValueError(_BY_DESCENT)
        return dict(self.content["noise"])

    @property
    def standard_errors(self) -> dict[str, float]:
        """The standard error of each parameter of the table; infinite where the data
        determine nothing."""
        return {
            row["name"]: np.inf if row["standard_error"] is None else error
            for row, error in self._column("standard_error")
        }

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The interval of each parameter of the table; infinite on a side where the
        data set no limit, and NaN where nothing is known."""
        found = {}
        for row, low in self._column("low"):
            is_unknown = row["verdict"] == NOT_JUDGED and row["high"] is None
            ends = (np.nan, np.nan) if is_unknown else (-np.inf, np.inf)
            given = (low, row["high"])
            found[row["name"]] = tuple(
                end if value is None else value for end, value in zip(ends, given)
            )
        return found

    @property
    def verdicts(self) -> dict[str, str]:
        """What the data say of each parameter of the table: determined, weakly
        determined, not determined or not judged."""
        return {row["name"]: verdict for row, verdict in self._column("verdict")}

    def _column(self, key: str) -> list[tuple[dict[str, Any], Any]]:
        """The rows of the table, each with what it has in a column."""
        if self.table and key not in self.table[0]:
            is_estimate = self.content["kind"] == "estimate"
            raise ValueError(_WITHOUT_INTERVALS if is_estimate else _BY_DESCENT)
        return [(row, row[key]) for row in self.table]

    def summary(self) -> list[dict[str, Any]]:
        """A row for each parameter, as that of the fit."""
        return [dict(row) for row in self.table]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        kept = ("loss", "status", "message", "noise", "seconds")
        known = {key: self.content[key] for key in kept if key in self.content}
        parameters = {row["name"]: row["estimate"] for row in self.table}
        return {"parameters": parameters, **known}

    def to_frame(self) -> Any:
        """The rows of `summary` as a pandas data frame, by name."""
        return frame_of_rows(self.summary(), "name")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the same file again, whole or not at all."""
        write_saved(path, self.content)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"

    def __getattr__(self, name: str) -> NoReturn:
        if name in _OF_WHOLE_FITS:
            raise AttributeError(
                f"`{name}` needs the model, which is code and therefore not in the "
                "file. Load the fit with it, `dd.load(path, problem=...)`, where "
                "`problem` is the `dd.Problem` that was fitted, with any values."
            )
        raise AttributeError(f"A saved fit has no attribute {name!r}.")


# What fits have that are loaded with their models.
_OF_WHOLE_FITS = {
    name
    for cls in (Estimate, FitResult)
    for name in (*dir(cls), *(each.name for each in fields(cls)))
    if not name.startswith("_")
}
