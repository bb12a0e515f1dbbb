"""Reading the columns of a table: which one is the time, which are measured quantities,
and which hold standard deviations."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._util import wording
from .._util.errors import quoted
from .parse_cell import is_missing, is_text
from .table import Table
from .time_column import has_dates, read_times

# Names of a column of times. Capitals, a plural s and a unit in brackets make no
# difference. `t` is one as well, but not `T`, which may be a temperature.
_TIME_NAMES = (
    *("time", "date", "datetime", "timestamp"),
    *("year", "month", "week", "day", "hour", "zeit", "datum"),
)
_UNIT = re.compile(r"\s*[\[(][^\])]*[\])]$")
SD_SUFFIX = "_sd"
_HINT = (
    "Leave the cell empty where nothing was measured, or the whole column out by {}."
)


class Measurements(NamedTuple):
    """The content of a table, as the arguments of `Data`: times `t` of shape (N,),
    values `x` and standard deviations `sd` of shape (N, k)."""

    t: np.ndarray
    x: np.ndarray
    sd: np.ndarray | None
    names: tuple[str, ...]
    notes: tuple[str, ...]
    origin: float | str


def read_measurements(
    table: Table,
    time: str | None,
    columns: str | Sequence[str] | None,
    start: Any,
) -> Measurements:
    """Read times, quantities and standard deviations from a table.

    `time`, `columns` and `start` are the arguments of `read_csv`. An error says which
    cell is wrong.
    """
    if not table.places:
        raise table.error("there are no rows of data.")
    time = _time_column(table, time)
    t, origin, time_notes = read_times(table, time, start)
    names, notes = _quantities(table, time, columns)
    deviations = _deviation_columns(table, names)
    numeric = [] if has_dates(table, time) else [time]
    table.check_decimals([*numeric, *names, *deviations])
    hint = _HINT.format(wording.COLUMNS)
    x = np.stack([table.numbers(name, hint) for name in names], axis=1)
    if not np.any(np.isfinite(x)):
        raise table.error("nothing is measured: no column holds a number but the time.")
    sd = _deviations(table, names, x, deviations) if deviations else None
    empty = [name for name, column in zip(names, x.T) if np.all(np.isnan(column))]
    notes += [f"{quoted(name)} is never measured." for name in empty]
    all_notes = (*table.notes, *time_notes, *notes)
    return Measurements(t, x, sd, tuple(names), all_notes, origin)


def is_time_name(name: str) -> bool:
    """Return whether a column of this name is taken for the time.

    >>> [is_time_name(name) for name in ("Time [h]", "Days", "temperature")]
    [True, True, False]
    """
    word = _UNIT.sub("", name)
    return word == "t" or word.lower().removesuffix("s") in _TIME_NAMES


def _time_column(table: Table, time: str | None) -> str:
    """Return the name of the column of times: `time` if it is given, else `t`, else the
    only column that is named like a time."""
    if time is not None:
        table.check_name(wording.TIME, time)
        return time
    if "t" in table.columns:
        return "t"
    candidates = [name for name in table.columns if is_time_name(name)]
    if len(candidates) == 1:
        return candidates[0]
    listed = ", ".join(quoted(name) for name in list(candidates or table.columns)[:20])
    problem = (
        f"several columns may be the time: {listed}."
        if candidates
        else f"no column is called t or time; the columns are {listed}."
    )
    raise table.error(f"{problem} Say which is the time: {wording.TIME_NAME}.")


def _quantities(
    table: Table, time: str, columns: str | Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Return the names of the quantities, and notes on columns that were left out."""
    if columns is not None:
        return _chosen(table, time, columns), []
    # Each column but the time, with the quantity whose standard deviation it is.
    others = {name: _quantity_of(name) for name in table.columns if name != time}
    for name, base in others.items():
        if base is not None and others.get(base, base) is not None:
            raise table.error(
                f"column {quoted(name)} is the standard deviation of {quoted(base)}, "
                "which is no quantity here. Rename it, or leave it out by "
                f"{wording.COLUMNS}."
            )
    names, notes = [], []
    for name in (name for name, base in others.items() if base is None):
        if _is_text(table.columns[name]):
            notes.append(f"Column {quoted(name)} holds text and was left out.")
        else:
            names.append(name)
    if not names:
        raise table.error("there is no column of numbers beside the time.")
    return names, notes


def _chosen(table: Table, time: str, columns: str | Sequence[str]) -> list[str]:
    """Return the names in `columns`, after checking that each is a quantity."""
    names = [columns] if isinstance(columns, str) else list(columns)
    for name in names:
        table.check_name(wording.COLUMNS, name)
        if name == time:
            raise table.error(
                f"column {quoted(name)} is the time. Leave it out of {wording.COLUMNS}."
            )
        base = _quantity_of(name)
        if base in names:
            raise table.error(
                f"column {quoted(name)} is the standard deviation of {quoted(base)} "
                f"and is read with it. Leave it out of {wording.COLUMNS}."
            )
    if not names or len(set(names)) < len(names):
        raise table.error(
            f"{wording.COLUMNS} must be different names, but got {names!r}."
        )
    return names


def _quantity_of(name: str) -> str | None:
    """Return the quantity whose standard deviation a column holds, judging by its
    name, or None for any other column."""
    return (
        name.removesuffix(SD_SUFFIX)
        if name.endswith(SD_SUFFIX) and name != SD_SUFFIX
        else None
    )


def _is_text(cells: Sequence[str]) -> bool:
    """Return whether a column holds text, and nothing that may be a number."""
    return all(is_text(c) or is_missing(c) for c in cells) and any(map(is_text, cells))


def _deviation_columns(table: Table, names: Sequence[str]) -> list[str]:
    """Return the column of standard deviations of each quantity, or an empty list if
    there are none. Some, but not all, is an error."""
    known = set(table.columns).difference(names)
    columns = [name + SD_SUFFIX for name in names if name + SD_SUFFIX in known]
    if columns and len(columns) < len(names):
        without = next(name for name in names if name + SD_SUFFIX not in known)
        raise table.error(
            f"there is a column {quoted(columns[0])}, but none of standard deviations "
            f"of {quoted(without)}. Give them for all quantities, or for none."
        )
    return columns


def _deviations(
    table: Table, names: Sequence[str], x: np.ndarray, columns: Sequence[str]
) -> np.ndarray:
    """Read the standard deviations of the quantities `names`, whose values are `x`.
    Each must be positive, and present wherever its quantity is measured."""
    sd = np.stack([table.numbers(column, _HINT) for column in columns], axis=1)
    not_positive = np.argwhere(sd <= 0)
    if len(not_positive):
        row, index = map(int, not_positive[0])
        raise table.error(
            f"a standard deviation must be positive, but is {sd[row, index]:g}.",
            row,
            columns[index],
        )
    lacking = np.argwhere(np.isfinite(x) & np.isnan(sd))
    if len(lacking):
        row, index = map(int, lacking[0])
        raise table.error(
            f"{quoted(names[index])} is measured here, but its standard deviation is "
            "missing.",
            row,
            columns[index],
        )
    return sd
