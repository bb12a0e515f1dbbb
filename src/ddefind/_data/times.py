"""Reading times: numbers in any unit, dates, which become days, or times of day, which
become hours.

Times are counted from the end of the history, which is time 0. Dates and times of day
are exact to the nanosecond.

A date is written as 2024-12-31, 2024/12/31, 20241231, 31.12.2024 or 31-Dec-2024. It may
also be 31/12/2024 or 12/31/2024, if the column has a date that shows which order is
meant. After it there may be a time of day (`T` or a blank, then 23:59, 11:59 PM,
23:59:59 or 23:59:59.999), and after that a time zone (`Z` or +01:00)."""

import math
import numbers
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._util import wording
from .._util.errors import DataError, quoted
from .table import (
    Table,
    exact_number,
    is_below_limit,
    is_missing,
    is_number,
    is_percentage,
    is_time_name,
)

if TYPE_CHECKING:
    from .data import Data


# English and, where they begin otherwise, German names of the months.
_MONTHS = (
    *("january", "february", "march|märz|mrz", "april", "may|mai", "june|juni"),
    *("july|juli", "august", "september", "october|oktober", "november"),
    "december|dezember",
)
_LETTERS = re.compile(r"[A-Za-zäÄ]{3}")
_NAME, _MARK = r"(?P<name>[A-Za-zäÄ]{3,9})", r"(?:[-/]|\.? *,? *|\. *)"
_DAY, _YEAR = r"(?P<day>[0-9]{1,2})", r"(?P<year>[0-9]+)"
_REST = r"(?P<rest>(?:[Tt ,]*[0-9]+:.*)?)"
_WITH_NAMED_MONTH = (
    re.compile(_DAY + _MARK + _NAME + _MARK + _YEAR + _REST),  # 01-Jan-2020
    re.compile(_NAME + _MARK + _DAY + r"(?:st|nd|rd|th)?[-/., ]+" + _YEAR + _REST),
    re.compile(r"(?P<year>[0-9]{4})" + _MARK + _NAME + _MARK + _DAY + _REST),
)
_AFTER_HOURS = (
    r":(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?"
    r"(?: *(?P<half>[AaPp])\.?[Mm]\.?)?"
)
_TIME_OF_DAY = re.compile(r"(?P<hour>[0-9]{1,4})" + _AFTER_HOURS)
_DATE = re.compile(
    r"(?P<a>[0-9]{1,4})(?P<mark>[-/.])(?P<b>[0-9]{1,2})(?P=mark)(?P<c>[0-9]{1,4})"
    rf"(?:(?:[Tt]| +)(?P<hour>[0-9]{{1,2}}){_AFTER_HOURS}"
    r" *(?P<zone>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_PLAIN = r"[12][0-9]{3}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?"
_PLAIN_COLUMN = re.compile(rf"{_PLAIN}(?:\n{_PLAIN})*")
_COMPACT = re.compile(r"(1[89]|2[01])[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])")
_EPOCH = datetime(1970, 1, 1)
_PER_HOUR, _PER_DAY = 3_600_000_000_000, 86_400_000_000_000  # nanoseconds
_DATE_HINT = "Write dates as 2024-12-31 or 2024-12-31T23:59:59."
_NUMBER_HINT = (
    "A time is a number, or a date as 2024-12-31. Put # before lines that are no data."
)
# Numbers of at most this many characters are exact enough in double precision.
_DIGITS = 15
# With how many digits longer numbers are subtracted.
_EXACT_DIGITS = 60

# Makes the exception to raise from the index of a cell in its column and a message.
MakeError = Callable[[int, str], Exception]


def is_value(cell: str) -> bool:
    """Whether a cell may be in a row of data: it is a number, a percentage, one of them
    as a limit (`<0.1`), a date, a time of day or a missing value."""
    return (
        is_number(cell)
        or is_missing(cell)
        or is_date(cell)
        or is_time_of_day(cell)
        or is_percentage(cell)
        or is_below_limit(cell)
    )


def with_numeric_month(cell: str) -> str:
    """Return a date with the number of its month, or the cell itself if it has no name
    of a month in English or German, whole or begun with three letters.

    >>> with_numeric_month("01-Jan-2020 08:30"), with_numeric_month("May 4, 2021")
    ('2020-01-01 08:30', '2021-05-04')
    """
    if not _LETTERS.search(cell):
        return cell
    for form in _WITH_NAMED_MONTH:
        match = form.fullmatch(cell)
        if match is None:
            continue
        name = match["name"].lower()
        for number, names in enumerate(_MONTHS, start=1):
            if any(full.startswith(name) for full in names.split("|")):
                rest = match["rest"].lstrip("Tt ,")
                date = f"{match['year']}-{number:02}-{int(match['day']):02}"
                return f"{date} {rest}" if rest else date
    return cell


def is_time_of_day(cell: str) -> bool:
    """Whether a cell is written as a time of day or a duration, as 08:30, 8:30
    PM, 23:59:59.9 or 25:30.

    >>> is_time_of_day("08:30"), is_time_of_day("8.30")
    (True, False)
    """
    return ":" in cell and _TIME_OF_DAY.fullmatch(cell) is not None


def _parse_time_of_day(cell: str) -> int:
    """Return the nanoseconds since midnight. Hours may be 24 or more, as in durations.

    Raises a ValueError that says what is wrong."""
    match = _TIME_OF_DAY.fullmatch(cell)
    with suppress(ValueError):
        if match is not None:
            return _since_midnight(match)
    raise ValueError(
        f"{quoted(cell)} is no time of day. Write times of day as 08:30 or 23:59:59."
    )


def _since_midnight(match: re.Match[str]) -> int:
    """Return the nanoseconds since midnight of a time of day, 0 if a date has none.
    Raises a ValueError if there is no such time of day."""
    hour, minute, second = (int(match[k] or 0) for k in ("hour", "minute", "second"))
    half = match["half"]
    if minute > 59 or second > 59 or half and not 1 <= hour <= 12:
        raise ValueError(match[0])
    if half:
        hour = hour % 12 + (12 if half in "Pp" else 0)
    seconds = 3600 * hour + 60 * minute + second
    return seconds * 10**9 + int((match["fraction"] or "0").ljust(9, "0"))


def are_dates(cells: Sequence[str]) -> bool:
    """Whether a column of times holds dates. It does if its first cell is a
    date, or if all cells are of the form 20241231.

    >>> are_dates(["2024-12-31", "soon"]), are_dates(["20241231"]), are_dates(["2024"])
    (True, True, False)
    """
    first = next((cell for cell in cells if not is_missing(cell)), "")
    return is_date(first) or all(_COMPACT.fullmatch(cell) for cell in cells)


def is_date(cell: str) -> bool:
    """Whether a cell is written as a date. (20241231 does not count: a number.)"""
    return _DATE.fullmatch(with_numeric_month(cell)) is not None


def has_time_of_day(cell: str) -> bool:
    """Whether a date is followed by a time of day."""
    match = _DATE.fullmatch(with_numeric_month(cell))
    return match is not None and match["hour"] is not None


def parse_dates(cells: Sequence[str], make_error: MakeError) -> tuple[list[int], bool]:
    """Read all dates of a column, as nanoseconds since 1970-01-01. Return also whether
    they have time zones: the nanoseconds are then in UTC, and otherwise in local time.

    All of them must have the same order of day and month, and either all or none must
    have a time zone. Raises what `make_error(index, message)` returns otherwise."""
    if cells and _PLAIN_COLUMN.fullmatch("\n".join(cells)):
        # Many dates at once, as 2024-12-31, with or without 23:59 or 23:59:59.
        with suppress(ValueError):
            seconds = np.array(cells, dtype="datetime64[s]").astype(np.int64)
            return [second * 10**9 for second in seconds.tolist()], False
    matches = [_match(cell, index, make_error) for index, cell in enumerate(cells)]
    day_first = _day_first(matches, cells, make_error)
    nanoseconds, has_zones = [], bool(matches and matches[0]["zone"])
    for index, match in enumerate(matches):
        if bool(match["zone"]) != has_zones:
            here, there = ("no", "one") if has_zones else ("a", "none")
            raise make_error(
                index,
                f"{quoted(cells[index])} has {here} time zone, but the first date has "
                f"{there}. Write all dates with a time zone, or all without.",
            )
        try:
            nanoseconds.append(_nanoseconds(match, day_first))
        except (ValueError, OverflowError):
            raise make_error(
                index, f"{quoted(cells[index])} is no date. {_DATE_HINT}"
            ) from None
    return nanoseconds, has_zones


def iso_date(nanoseconds: int, has_zone: bool) -> str:
    """Return a timestamp as text in ISO format, with the time of day unless it is
    midnight without a time zone.

    >>> noon = _PER_DAY // 2
    >>> iso_date(noon, has_zone=False), iso_date(0, has_zone=False)
    ('1970-01-01T12:00:00', '1970-01-01')
    """
    seconds, fraction = divmod(nanoseconds, 10**9)
    moment = _EPOCH + timedelta(seconds=seconds)
    if not has_zone and nanoseconds % _PER_DAY == 0:
        return moment.date().isoformat()
    digits = f".{fraction:09}".rstrip("0").rstrip(".")
    return moment.isoformat() + digits + ("+00:00" if has_zone else "")


def _match(cell: str, index: int, make_error: MakeError) -> re.Match[str]:
    """Return the parts of a date; those of 20241231 as of 2024-12-31."""
    if _COMPACT.fullmatch(cell):
        cell = f"{cell[:4]}-{cell[4:6]}-{cell[6:]}"
    match = _DATE.fullmatch(with_numeric_month(cell))
    if match is None:
        raise make_error(index, f"{quoted(cell)} is no date. {_DATE_HINT}")
    if max(len(match["a"]), len(match["c"])) != 4:
        raise make_error(
            index, f"{quoted(cell)} has no year of four digits. {_DATE_HINT}"
        )
    return match


def _day_first(
    matches: Sequence[re.Match[str]], cells: Sequence[str], make_error: MakeError
) -> bool:
    """Whether dates such as 01/02/2024 have the day first.

    Some date of the column must show it by a number above 12."""
    day_first: list[int] = []
    month_first: list[int] = []
    unclear: list[int] = []
    for index, match in enumerate(matches):
        if len(match["a"]) < 4 and match["mark"] != ".":
            a, b = int(match["a"]), int(match["b"])
            if max(a, b) <= 12:
                unclear.append(index)
            else:
                (month_first if a <= 12 else day_first).append(index)
    if day_first and month_first:
        raise make_error(
            month_first[0],
            f"{quoted(cells[month_first[0]])} has the month first, but "
            f"{quoted(cells[day_first[0]])} has the day first. {_DATE_HINT}",
        )
    if unclear and not day_first and not month_first:
        raise make_error(
            unclear[0],
            f"{quoted(cells[unclear[0]])} is ambiguous: the day or the month may come "
            f"first. {_DATE_HINT}",
        )
    return bool(day_first)


def _nanoseconds(match: re.Match[str], day_first: bool) -> int:
    """Return the nanoseconds since 1970, in UTC if the date has a time zone. Raises a
    ValueError or an OverflowError if there is no such date."""
    a, b, c = int(match["a"]), int(match["b"]), int(match["c"])
    if len(match["a"]) == 4:
        year, month, day = a, b, c
    elif match["mark"] == "." or day_first:
        day, month, year = a, b, c
    else:
        month, day, year = a, b, c
    if int(match["hour"] or 0) > 23:
        raise ValueError(match[0])
    seconds, fraction = divmod(_since_midnight(match), 10**9)
    local = datetime(year, month, day) + timedelta(seconds=seconds)
    since = local - _offset(match["zone"]) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 10**9 + fraction


def _offset(zone: str | None) -> timedelta:
    """Return how far a time zone is ahead of UTC."""
    if zone is None or zone in "Zz":
        return timedelta()
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    ahead = timedelta(hours=hours, minutes=minutes)
    return ahead if zone[0] == "+" else -ahead


class Times(NamedTuple):
    """Times from 0 on, the time of the source that became 0, the unit of the times by
    the name of their column, if their form implies it, and notes for the user."""

    t: np.ndarray
    origin: float | str
    unit: dict[str, str]
    notes: tuple[str, ...]


def read_times(table: Table, start: Any = None) -> Times:
    """Read the column of times of a table. `start` is the time of the source that
    becomes time 0, or None for the default."""
    cells = table.columns[table.time]
    has_dates = are_dates(cells)
    for row, cell in enumerate(cells):
        if is_missing(cell):
            what = "date" if has_dates else "time"
            raise table.error(f"the {what} is missing.", row, table.time)
    if has_dates:
        return _from_dates(table, start)
    if is_time_of_day(cells[0]):
        return _from_times_of_day(table, start)
    return _from_numbers(table, start)


def _from_numbers(table: Table, start: Any) -> Times:
    t = table.numbers(table.time, _NUMBER_HINT)
    cells = table.columns[table.time]
    for row, cell in enumerate(cells):
        if is_percentage(cell):
            message = f"{quoted(cell)} is no time. {_NUMBER_HINT}"
            raise table.error(message, row, table.time)
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
            name=table.time,
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
    precision. This keeps nanoseconds since 1970, for instance."""
    with localcontext(prec=_EXACT_DIGITS):
        exact = [exact_number(cell) for cell in cells]
        if start is None:
            zero = min(exact)
        else:
            is_whole = isinstance(start, numbers.Integral)
            zero = Decimal(int(start)) if is_whole else Decimal(repr(float(start)))
        shifted = np.array([float(time - zero) for time in exact])
    return shifted, len(set(exact)), str(zero)


def _from_times_of_day(table: Table, start: Any) -> Times:
    """Read times of day as hours since midnight, and count them from `start`."""
    name, cells = table.time, table.columns[table.time]
    times: list[int] = []
    for row, cell in enumerate(cells):
        try:
            times.append(_parse_time_of_day(cell))
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
        start = _parse_time_of_day(start) / _PER_HOUR
    hours = np.array(times) / _PER_HOUR
    origin = _origin(table, float(hours[0]), float(hours[-1]), start)
    note = f"Times are hours: {cells[0]} is {hours[0]:g}."
    notes = _shift_notes(origin, f"{origin:.15g}", float(hours[0]), start)
    shifted = (np.array(times) - round(origin * _PER_HOUR)) / _PER_HOUR
    return Times(shifted, origin, {name: "h"}, (note, *notes))


def _origin(table: Table, first: float, last: float, start: Any) -> float:
    """Return the time of the source that becomes 0.

    It is `start` if that is given. Otherwise it is 0, if the first time is at most half
    the length of the record after 0, and the first time if not."""
    if start is None:
        return 0.0 if 0 <= first <= (last - first) / 2 else first
    if not isinstance(start, numbers.Real) or not math.isfinite(start):
        raise table.error(
            f"the times are numbers, so {wording.TIME_ZERO} must be one, but got "
            f"{start!r}."
        )
    _check_start(table, start <= first, f"{float(start):.15g}", f"{first:.15g}")
    return float(start)


def _from_dates(table: Table, start: Any) -> Times:
    """Read dates as days since `start`, or since the first date if that is None."""
    name = table.time
    times, has_zones = parse_dates(
        table.columns[name], lambda row, message: table.error(message, row, name)
    )
    first = min(times)
    zero = first if start is None else _start_date(table, has_zones, start)
    origin = iso_date(zero, has_zones)
    _check_start(table, zero <= first, origin, iso_date(first, has_zones))
    days = np.array([(time - zero) / _PER_DAY for time in times])
    return Times(days, origin, {name: ""}, (f"Times are days since {origin}.",))


def _start_date(table: Table, has_zones: bool, start: Any) -> int:
    """Return `start` as nanoseconds, in the same time zone as the dates."""

    def make_error(_: int, message: str) -> Exception:
        return table.error(f"{wording.TIME_ZERO}: {message}")

    if isinstance(start, numbers.Real):
        raise make_error(0, f"the times are dates, but it is {start!r}. {_DATE_HINT}")
    (zero,), has_zone = parse_dates([str(start)], make_error)
    if has_zone != has_zones:
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


def join_date_and_time(table: Table) -> Table:
    """Return a table with one column of times instead of two, if exactly two columns
    are named like times, one holds dates without a time of day, and the other times of
    day. Any other table is returned as it is."""
    candidates = {n: cells for n, cells in table.columns.items() if is_time_name(n)}
    if "t" in candidates or len(candidates) != 2:
        return table
    clocks = [
        name
        for name, cells in candidates.items()
        if all(is_time_of_day(cell) or is_missing(cell) for cell in cells)
    ]
    days = [
        name
        for name, cells in candidates.items()
        if are_dates(cells) and not any(map(has_time_of_day, cells))
    ]
    if len(clocks) != 1 or len(days) != 1:
        return table
    (clock,), (day,) = clocks, days
    joined = [
        "" if is_missing(date) or is_missing(time) else f"{date} {time}"
        for date, time in zip(candidates[day], candidates[clock])
    ]
    note = f"Times are those of columns {quoted(day)} and {quoted(clock)} together."
    columns = {**table.columns, day: joined}
    del columns[clock]
    return replace(table, columns=columns, notes=(*table.notes, note))


def source_times(data: "Data", t: np.ndarray) -> tuple[str, list[Any]]:
    """Return the name of the column of times in the source, and times as there."""
    if not isinstance(data.origin, str):
        return "t", (t + data.origin).tolist()
    first = datetime.fromisoformat(data.origin)
    return "date", [(first + timedelta(days=day)).isoformat() for day in t.tolist()]


def time_of(data: "Data", value: float | str) -> float:
    """Return a time of the source, a number or a date, as it is counted in the data."""
    if not isinstance(data.origin, str):
        if isinstance(value, str):
            raise DataError(
                f"{wording.TIMES}: the times of the data are numbers, but got "
                f"{value!r}."
            )
        return value - data.origin

    def make_error(_: int, message: str) -> Exception:
        return DataError(f"{wording.TIMES}: {message}")

    if not isinstance(value, str):
        raise make_error(0, f"the times are dates, but got {value:g}. {_DATE_HINT}")
    (zero,), _ = parse_dates([data.origin], make_error)
    (time,), _ = parse_dates([value], make_error)
    return (time - zero) / _PER_DAY


def times_as_in(data: "Data", table: Table) -> np.ndarray:
    """Return the times of a table as they are counted in the data."""
    if not table.places:
        return np.empty(0)
    times = read_times(table)
    if isinstance(times.origin, str) != isinstance(data.origin, str):
        kinds = ["numbers", "dates"]
        here, there = kinds[:: -1 if isinstance(times.origin, str) else 1]
        raise table.error(
            f"the times are {here}, but those of the measurements are {there}. Write "
            "both in the same way.",
            name=table.time,
        )
    return times.t + time_of(data, times.origin)
