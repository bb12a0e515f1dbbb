"""Reading the column of times: numbers in any unit, or dates, which become days.

Times are counted from the end of the history, which is time 0.
"""

import math
import numbers
from typing import Any, NamedTuple

import numpy as np

from .._util import wording
from .parse_cell import is_missing
from .parse_dates import (
    DATE_HINT,
    NANOSECONDS_PER_DAY,
    Timestamps,
    are_dates,
    iso_date,
    parse_dates,
)
from .table import Table

_HINT = (
    "A time is a number, or a date as 2024-12-31. Put # before lines that are no data."
)


class Times(NamedTuple):
    """Times from 0 on, the time of the source that became 0, and notes for the user."""

    t: np.ndarray
    origin: float | str
    notes: tuple[str, ...]


def has_dates(table: Table, name: str) -> bool:
    """Return whether a column of times holds dates."""
    return are_dates(table.columns[name])


def read_times(table: Table, name: str, start: Any) -> Times:
    """Read the column `name` of a table. `start` is the time of the source that becomes
    time 0, or None for the default."""
    read = _from_dates if has_dates(table, name) else _from_numbers
    times = read(table, name, start)
    if len(np.unique(times.t)) < 2:
        raise table.error(
            "all rows have the same time. At least two different times are needed.",
            name=name,
        )
    return times


def _from_numbers(table: Table, name: str, start: Any) -> Times:
    t = table.numbers(name, _HINT)
    if np.any(np.isnan(t)):
        row = int(np.flatnonzero(np.isnan(t))[0])
        raise table.error("the time is missing.", row, name)
    first, last = float(t.min()), float(t.max())
    origin = _origin(table, first, last, start)
    with np.errstate(over="ignore"):
        shifted = t - origin
    distinct = len(np.unique(shifted)) == len(np.unique(t))
    if not (distinct and np.all(np.isfinite(shifted))):
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
            f"{wording.time_zero(f'{first:.15g}')} makes it time 0."
        )
    else:
        return Times(shifted, origin, ())
    return Times(shifted, origin, (note,))


def _origin(table: Table, first: float, last: float, start: Any) -> float:
    """Return the time of the source that becomes 0.

    It is `start` if that is given. Otherwise it is 0, if the first time is at most half
    the length of the record after 0, and the first time if not.
    """
    if start is None:
        return 0.0 if 0 <= first <= (last - first) / 2 else first
    if not isinstance(start, numbers.Real) or not math.isfinite(start):
        raise table.error(
            f"the times are numbers, so {wording.TIME_ZERO} must be one, but got "
            f"{start!r}."
        )
    _check_start(table, start <= first, f"{float(start):.15g}", f"{first:.15g}")
    return float(start)


def _from_dates(table: Table, name: str, start: Any) -> Times:
    """Read dates as days since `start`, or since the first date if that is None."""
    cells = table.columns[name]
    for row, cell in enumerate(cells):
        if is_missing(cell):
            raise table.error("the date is missing.", row, name)
    dates = parse_dates(cells, lambda row, message: table.error(message, row, name))
    first = min(dates.nanoseconds)
    zero = first if start is None else _start_date(table, dates, start)
    origin = iso_date(zero, dates.has_zones)
    _check_start(table, zero <= first, origin, iso_date(first, dates.has_zones))
    days = np.array([(time - zero) / NANOSECONDS_PER_DAY for time in dates.nanoseconds])
    return Times(days, origin, (f"Times are days since {origin}.",))


def _start_date(table: Table, dates: Timestamps, start: Any) -> int:
    """Return `start` as nanoseconds, in the same time zone as the dates."""

    def make_error(_: int, message: str) -> Exception:
        return table.error(f"{wording.TIME_ZERO}: {message}")

    if isinstance(start, numbers.Real):
        raise make_error(0, f"the times are dates, but it is {start!r}. {DATE_HINT}")
    (zero,), has_zone = parse_dates([str(start)], make_error)
    if has_zone != dates.has_zones:
        one, other = ("a", "none") if has_zone else ("no", "one")
        raise make_error(
            0, f"{str(start)!r} has {one} time zone, but the dates have {other}."
        )
    return zero


def _check_start(table: Table, is_before: bool, start: str, first: str) -> None:
    """Raise an error if `start` is after the first time, that is, not `is_before`."""
    if not is_before:
        raise table.error(
            f"{wording.TIME_ZERO} is {start}, but the first time is {first}, before "
            "it. Choose an earlier one, or leave out the earlier rows."
        )
