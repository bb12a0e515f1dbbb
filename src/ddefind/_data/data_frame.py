"""From a data frame to a table. Only what frames have in common is used, so that no
library of frames is imported."""

from typing import Any

import numpy as np

from .._util.errors import DataError, shown
from .columns import is_time_name
from .table import Table

_MISSING = ("None", "NaT", "<NA>")


def frame_table(frame: Any, time: str | None) -> tuple[Table, str | None]:
    """A frame's columns as text, and the name of its time, if it is known.

    The index becomes a column where it is the time.
    """
    if not all(hasattr(frame, name) for name in ("columns", "__getitem__", "__len__")):
        kind = type(frame).__name__
        raise TypeError(f"`frame` must be a data frame, as pandas', but got {kind}.")
    columns: dict[str, list[str]] = {}
    for label in frame.columns:
        name = str(label).strip()
        if name in columns:
            raise DataError(f"frame: two columns are called {shown(name)}.")
        columns[name] = []
    for label, cells in zip(frame.columns, columns.values()):
        cells += _cells(frame[label])
    index = getattr(frame, "index", None)
    notes: tuple[str, ...] = ()
    if index is not None and _is_time(index, columns, time):
        time = str(index.name) if index.name is not None else "index"
        columns = {time: _cells(index), **columns}
        notes = ("Times are the index of the frame.",)
    places = [f"row {row}" for row in range(len(frame))]
    return Table("frame", columns, places, notes), time


def _is_time(index: Any, columns: dict[str, list[str]], time: str | None) -> bool:
    """Whether the index is the time: by its name, or for want of another; but not one
    that only counts the rows."""
    name = getattr(index, "name", None)
    if time is not None:
        return time not in columns and name == time
    if any(map(is_time_name, columns)):
        return False
    counts = type(index).__name__ == "RangeIndex" and not is_time_name(str(name))
    return not counts and getattr(index, "dtype", np.dtype(object)).kind in "fiuM"


def _cells(values: Any) -> list[str]:
    """A column as text that says the same: numbers to the last digit."""
    array = np.asarray(values)
    if array.dtype.kind == "f":
        return [repr(value) for value in array.astype(float).tolist()]
    if array.dtype.kind == "M":
        array = array.astype(str)
    cells = [str(value).strip() for value in array.tolist()]
    return ["" if cell in _MISSING else cell for cell in cells]
