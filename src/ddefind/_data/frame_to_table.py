"""Turning a data frame into a table of text.

Only what data frames of all libraries have in common is used, so that none of these
libraries is imported.
"""

from typing import Any

import numpy as np

from .._util.errors import DataError, quoted
from .column_names import is_time_name
from .table import Table

# How missing values are printed.
_MISSING = ("None", "NaT", "<NA>")


def frame_table(frame: Any, time: str | None) -> tuple[Table, str | None]:
    """Return a frame's columns as text, and the name of the column of times, or None if
    that is still to be found.

    If the times are the index of the frame, it becomes a column.
    """
    if not all(hasattr(frame, name) for name in ("columns", "__getitem__", "__len__")):
        kind = type(frame).__name__
        raise TypeError(f"`frame` must be a data frame, as pandas', but got {kind}.")
    columns: dict[str, list[str]] = {}
    for label in frame.columns:
        name = str(label).strip()
        if name in columns:
            raise DataError(f"frame: two columns are called {quoted(name)}.")
        columns[name] = []
    for label, cells in zip(frame.columns, columns.values()):
        cells += _cells(frame[label])
    index = getattr(frame, "index", None)
    notes: tuple[str, ...] = ()
    if index is not None and _is_time_index(index, columns, time):
        time = str(index.name) if index.name is not None else "index"
        columns = {time: _cells(index), **columns}
        notes = ("Times are the index of the frame.",)
    places = [f"row {row}" for row in range(len(frame))]
    return Table("frame", columns, places, notes), time


def _is_time_index(index: Any, columns: dict[str, list[str]], time: str | None) -> bool:
    """Return whether the index of a frame holds its times.

    It does if its name is `time`. Without `time` it does if no column is named like a
    time and the index holds numbers or dates, but not if it only counts the rows.
    """
    name = getattr(index, "name", None)
    if time is not None:
        return time not in columns and name == time
    if any(map(is_time_name, columns)):
        return False
    counts_rows = type(index).__name__ == "RangeIndex" and not is_time_name(str(name))
    return not counts_rows and getattr(index, "dtype", np.dtype(object)).kind in "fiuM"


def _cells(values: Any) -> list[str]:
    """Return the cells of a column as text, numbers with all their digits."""
    array = np.asarray(values)
    if array.dtype.kind == "f":
        return [repr(value) for value in array.astype(float).tolist()]
    if array.dtype.kind == "M":
        array = array.astype(str)
    cells = [str(value).strip() for value in array.tolist()]
    return ["" if cell in _MISSING else cell for cell in cells]
