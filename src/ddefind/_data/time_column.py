"""Reading the column of times: numbers in any unit, dates, which become days, or times
of day, which become hours.

Times are counted from the end of the history, which is time 0.
"""

import math
import numbers
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

import numpy as np

from .._util import wording
from .._util.errors import quoted
from .parse_cell import exact_number, is_missing, is_percentage
from .parse_dates import (
    DATE_HINT,
    NANOSECONDS_PER_DAY,
    Timestamps,
    are_dates,
    iso_date,
    parse_dates,
)
from .table import Table
from .time_of_day import NANOSECONDS_PER_HOUR, is_time_of_day, parse_time_of_day

# Numbers of at most so many characters are exact enough in double precision.
_DIGITS = 15
# With how many digits longer numbers are subtracted.
_EXACT_DIGITS = 60
_HINT = (
    "A time is a number, or a date as 2024-12-31. Put # before lines that are no data."
)


class Times(NamedTuple):
    """Times from 0 on, the time of the source that became 0, the unit of the times by
    the name of their column, where their form tells it, and notes for the user."""

    t: np.ndarray
    origin: float | str
    unit: dict[str, str]
    notes: tuple[str, ...]


def has_numbers(table: Table, name: str) -> bool:
    """Return whether a column of times holds numbers."""
    cells = table.columns[name]
    return not are_dates(cells) and not _are_times_of_day(cells)


def _are_times_of_day(cells: Sequence[str]) -> bool:
    return is_time_of_day(next((cell for cell in cells if not is_missing(cell)), ""))


def read_times(table: Table, name: str, start: Any) -> Times:
    """Read the column `name` of a table, with at least two different times. `start` is
    the time of the source that becomes time 0, or None for the default."""
    times = read_any_times(table, name, start)
    if len(np.unique(times.t)) < 2:
        raise table.error(
            "all rows have the same time. At least two different times are needed.",
            name=name,
        )
    return times


def read_any_times(table: Table, name: str, start: Any = None) -> Times:
    """Read the column `name` of a table, which may hold a single time."""
    cells = table.columns[name]
    if are_dates(cells):
        return _from_dates(table, name, start)
    if _are_times_of_day(cells):
        return _from_times_of_day(table, name, start)
    return _from_numbers(table, name, start)


def _from_numbers(table: Table, name: str, start: Any) -> Times:
    t = table.numbers(name, _HINT)
    cells = table.columns[name]
    for row, cell in enumerate(cells):
        if is_percentage(cell):
            raise table.error(f"{quoted(cell)} is no time. {_HINT}", row, name)
    if np.any(np.isnan(t)):
        row = int(np.flatnonzero(np.isnan(t))[0])
        raise table.error("the time is missing.", row, name)
    first, last = float(t.min()), float(t.max())
    origin = _origin(table, first, last, start)
    if origin and max(map(len, cells)) > _DIGITS:
        shifted, distinct, zero = _exactly_shifted(cells, start)
    else:
        with np.errstate(over="ignore"):
            shifted = t - origin
        distinct, zero = len(np.unique(t)), f"{origin:.15g}"
    if len(np.unique(shifted)) < distinct or not np.all(np.isfinite(shifted)):
        raise table.error(
            f"times from {first:g} to {last:g} cannot be counted from {origin:g} in "
            "double precision.",
            name=name,
        )
    return Times(shifted, origin, {}, _shift_notes(origin, zero, first, start))


def _shift_notes(origin: float, zero: str, first: float, start: Any) -> tuple[str, ...]:
    """Return a note on the time of the source that became 0, written as `zero`."""
    if origin:
        return (f"Times were shifted: time 0 is {zero} in the source.",)
    if first > 0 and start is None:
        note = (
            f"The first measurement is at {first:.15g}, after the history's end at 0; "
            f"{wording.time_zero(f'{first:.15g}')} makes it time 0."
        )
        return (note,)
    return ()


def _exactly_shifted(cells: Sequence[str], start: Any) -> tuple[np.ndarray, int, str]:
    """Return times counted from `start`, or from the first one if that is None, the
    number of distinct ones, and how time 0 is written.

    They are subtracted with all their digits before they are rounded to double
    precision. This keeps nanoseconds since 1970, for instance.
    """
    with localcontext(prec=_EXACT_DIGITS):
        exact = [exact_number(cell) for cell in cells]
        zero = min(exact) if start is None else _exact(start)
        shifted = np.array([float(time - zero) for time in exact])
    return shifted, len(set(exact)), str(zero)


def _exact(start: numbers.Real) -> Decimal:
    is_whole = isinstance(start, numbers.Integral)
    return Decimal(int(start)) if is_whole else Decimal(repr(float(start)))


def _from_times_of_day(table: Table, name: str, start: Any) -> Times:
    """Read times of day as hours since midnight, and count them from `start`."""
    cells = table.columns[name]
    times: list[int] = []
    for row, cell in enumerate(cells):
        if is_missing(cell):
            raise table.error("the time is missing.", row, name)
        try:
            times.append(parse_time_of_day(cell))
        except ValueError as error:
            raise table.error(str(error), row, name) from None
        if row and times[row] < times[row - 1]:
            raise table.error(
                f"{quoted(cell)} comes after {quoted(cells[row - 1])}. If midnight "
                "lies between them, write dates with the times, or count the hours on, "
                "as 24:10; otherwise sort the rows by time.",
                row,
                name,
            )
    if isinstance(start, str) and is_time_of_day(start):
        start = parse_time_of_day(start) / NANOSECONDS_PER_HOUR
    hours = np.array(times) / NANOSECONDS_PER_HOUR
    origin = _origin(table, float(hours[0]), float(hours[-1]), start)
    note = f"Times are hours: {cells[0]} is {hours[0]:g}."
    notes = _shift_notes(origin, f"{origin:.15g}", float(hours[0]), start)
    zero = round(origin * NANOSECONDS_PER_HOUR)
    shifted = (np.array(times) - zero) / NANOSECONDS_PER_HOUR
    return Times(shifted, origin, {name: "h"}, (note, *notes))


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
    return Times(days, origin, {name: ""}, (f"Times are days since {origin}.",))


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
