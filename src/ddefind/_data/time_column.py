"""From a column of a table to times from 0 on: numbers in a unit of their own, or dates
in days."""

import math
import numbers
from typing import Any, NamedTuple

import numpy as np

from .cells import is_missing
from .dates import DAY, HOW, Moments, are_dates, iso, moments
from .table import Table

_HINT = (
    "A time is a number, or a date as 2024-12-31. Put # before lines that are no data."
)


class Times(NamedTuple):
    """Times, what 0 is in the source, and what to say of it."""

    t: np.ndarray
    origin: float | str
    notes: tuple[str, ...]


def has_dates(table: Table, name: str) -> bool:
    return are_dates(table.columns[name])


def times(table: Table, name: str, start: Any) -> Times:
    """The times in a column; `start` is the source's time that becomes 0."""
    read = _from_dates if has_dates(table, name) else _from_numbers
    found = read(table, name, start)
    if len(np.unique(found.t)) < 2:
        raise table.error(
            "all rows have the same time. At least two different times are needed.",
            name=name,
        )
    return found


def _from_numbers(table: Table, name: str, start: Any) -> Times:
    t = table.numbers(name, _HINT)
    if np.any(np.isnan(t)):
        row = int(np.flatnonzero(np.isnan(t))[0])
        raise table.error("the time is missing.", row, name)
    first, last = float(t.min()), float(t.max())
    origin = _origin(table, first, last, start)
    with np.errstate(over="ignore"):
        shifted = t - origin
    same = len(np.unique(shifted)) == len(np.unique(t))
    if not (same and np.all(np.isfinite(shifted))):
        raise table.error(
            f"times from {first:g} to {last:g} cannot be counted from {origin:g} in "
            "double precision.",
            name=name,
        )
    if origin:
        note = f"Times were shifted: time 0 is {origin:.15g} in the source."
    elif first > 0 and start is None:
        note = (
            f"The first measurement is at {first:.15g}, after the history's end at 0; "
            f"`start={first:.15g}` makes it time 0."
        )
    else:
        return Times(shifted, origin, ())
    return Times(shifted, origin, (note,))


def _origin(table: Table, first: float, last: float, start: Any) -> float:
    """The source's time that becomes 0: `start`; or 0 itself, if the record begins soon
    after it; or else the first time."""
    if start is None:
        return 0.0 if 0 <= first <= (last - first) / 2 else first
    if not isinstance(start, numbers.Real) or not math.isfinite(start):
        raise table.error(
            f"the times are numbers, so `start` must be one, but got {start!r}."
        )
    _check_start(table, start <= first, f"{float(start):.15g}", f"{first:.15g}")
    return float(start)


def _from_dates(table: Table, name: str, start: Any) -> Times:
    """Days since `start`, or else since the first date."""
    cells = table.columns[name]
    for row, cell in enumerate(cells):
        if is_missing(cell):
            raise table.error("the date is missing.", row, name)
    found = moments(cells, lambda row, message: table.error(message, row, name))
    first = min(found.nanoseconds)
    zero = first if start is None else _start_date(table, found, start)
    origin = iso(zero, found.zoned)
    _check_start(table, zero <= first, origin, iso(first, found.zoned))
    days = np.array([(moment - zero) / DAY for moment in found.nanoseconds])
    return Times(days, origin, (f"Times are days since {origin}.",))


def _start_date(table: Table, found: Moments, start: Any) -> int:
    def fail(_, message: str) -> Exception:
        return table.error(f"`start`: {message}")

    if isinstance(start, numbers.Real):
        raise fail(0, f"the times are dates, but it is {start!r}. {HOW}")
    (zero,), zoned = moments([str(start)], fail)
    if zoned != found.zoned:
        one, other = ("a", "none") if zoned else ("no", "one")
        raise fail(
            0, f"{str(start)!r} has {one} time zone, but the dates have {other}."
        )
    return zero


def _check_start(table: Table, ok: bool, start: str, first: str) -> None:
    if not ok:
        raise table.error(
            f"`start` is {start}, but the first time is {first}, before it. Choose an "
            "earlier start, or leave out the earlier rows."
        )
