"""From a table to measurements: which column is the time, which are quantities,
and which their standard deviations."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._util.errors import shown
from .cells import is_missing, is_text
from .table import Table
from .time_column import has_dates, times

# In capitals or not, with or without a plural s and a unit in brackets. But T may be a
# temperature: only `t` is a time.
TIME_NAMES = (
    *("time", "date", "datetime", "timestamp"),
    *("year", "month", "week", "day", "hour", "zeit", "datum"),
)
_UNIT = re.compile(r"\s*[\[(][^\])]*[\])]$")
SD = "_sd"
_HINT = (
    "Leave the cell empty where nothing was measured, or the whole column out by "
    "`columns=`."
)


class Measured(NamedTuple):
    """What `Data` is made of."""

    t: np.ndarray
    x: np.ndarray
    sd: np.ndarray | None
    names: tuple[str, ...]
    notes: tuple[str, ...]
    origin: float | str


def measured(
    table: Table,
    time: str | None,
    columns: str | Sequence[str] | None,
    start: Any,
) -> Measured:
    """Read a table's measurements, or say which cell is at fault."""
    if not table.places:
        raise table.error("there are no rows of data.")
    time = _time_column(table, time)
    t, origin, note = times(table, time, start)
    names, notes = _quantities(table, time, columns)
    deviations = _deviation_columns(table, names)
    numeric = [] if has_dates(table, time) else [time]
    table.check_decimals([*numeric, *names, *deviations])
    x = np.stack([table.numbers(name, _HINT) for name in names], axis=1)
    if not np.any(np.isfinite(x)):
        raise table.error("nothing is measured: no column holds a number but the time.")
    sd = _deviations(table, names, x, deviations) if deviations else None
    never = [name for name, column in zip(names, x.T) if np.all(np.isnan(column))]
    notes += [f"{shown(name)} is never measured." for name in never]
    return Measured(t, x, sd, tuple(names), (*table.notes, *note, *notes), origin)


def is_time_name(name: str) -> bool:
    """Whether a column of this name is taken for the time.

    >>> [is_time_name(name) for name in ("Time [h]", "Days", "temperature")]
    [True, True, False]
    """
    word = _UNIT.sub("", name)
    return word == "t" or word.lower().removesuffix("s") in TIME_NAMES


def _time_column(table: Table, time: str | None) -> str:
    if time is not None:
        table.check_name("time", time)
        return time
    if "t" in table.columns:
        return "t"
    found = [name for name in table.columns if is_time_name(name)]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(shown(name) for name in list(found or table.columns)[:20])
    problem = (
        f"several columns may be the time: {listed}."
        if found
        else f"no column is called t or time; the columns are {listed}."
    )
    raise table.error(f"{problem} Say which is the time: `time=NAME`.")


def _quantities(
    table: Table, time: str, columns: str | Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """The names of the quantities, and notes on what was left out."""
    if columns is not None:
        return _chosen(table, time, columns), []
    others = {name: _quantity_of(name) for name in table.columns if name != time}
    for name, base in others.items():
        if base is not None and others.get(base, base) is not None:
            raise table.error(
                f"column {shown(name)} is the standard deviation of {shown(base)}, "
                "which is no quantity here. Rename it, or leave it out by `columns=`."
            )
    names, notes = [], []
    for name in (name for name, base in others.items() if base is None):
        if _is_text(table.columns[name]):
            notes.append(f"Column {shown(name)} holds text and was left out.")
        else:
            names.append(name)
    if not names:
        raise table.error("there is no column of numbers beside the time.")
    return names, notes


def _chosen(table: Table, time: str, columns: str | Sequence[str]) -> list[str]:
    names = [columns] if isinstance(columns, str) else list(columns)
    for name in names:
        table.check_name("columns", name)
        if name == time:
            raise table.error(
                f"column {shown(name)} is the time. Leave it out of `columns`."
            )
        base = _quantity_of(name)
        if base in names:
            raise table.error(
                f"column {shown(name)} is the standard deviation of {shown(base)} and "
                "is read with it. Leave it out of `columns`."
            )
    if not names or len(set(names)) < len(names):
        raise table.error(f"`columns` must be different names, but got {names!r}.")
    return names


def _quantity_of(name: str) -> str | None:
    """The quantity whose standard deviation a column is, by its name."""
    return name.removesuffix(SD) if name.endswith(SD) and name != SD else None


def _is_text(cells: Sequence[str]) -> bool:
    """Whether there is text, and nothing that may be a number."""
    return all(is_text(c) or is_missing(c) for c in cells) and any(map(is_text, cells))


def _deviation_columns(table: Table, names: Sequence[str]) -> list[str]:
    """The column of standard deviations for each quantity, or none at all."""
    known = set(table.columns).difference(names)
    found = [name + SD for name in names if name + SD in known]
    if found and len(found) < len(names):
        without = next(name for name in names if name + SD not in known)
        raise table.error(
            f"there is a column {shown(found[0])}, but none of standard deviations of "
            f"{shown(without)}. Give them for all quantities, or for none."
        )
    return found


def _deviations(
    table: Table, names: Sequence[str], x: np.ndarray, columns: Sequence[str]
) -> np.ndarray:
    sd = np.stack([table.numbers(column, _HINT) for column in columns], axis=1)
    wrong = np.argwhere(sd <= 0)
    if len(wrong):
        row, index = map(int, wrong[0])
        raise table.error(
            f"a standard deviation must be positive, but is {sd[row, index]:g}.",
            row,
            columns[index],
        )
    lacking = np.argwhere(np.isfinite(x) & np.isnan(sd))
    if len(lacking):
        row, index = map(int, lacking[0])
        raise table.error(
            f"{shown(names[index])} is measured here, but its standard deviation is "
            "missing.",
            row,
            columns[index],
        )
    return sd
