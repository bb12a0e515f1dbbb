"""Reading dates and times of day, exact to the nanosecond.

A date is written as 2024-12-31, 2024/12/31, 20241231, 31.12.2024 or 31-Dec-2024. It may
also be 31/12/2024 or 12/31/2024, if the column has a date that shows which order is
meant. After it there may be a time of day (`T` or a blank, then 23:59, 11:59 PM,
23:59:59 or 23:59:59.999), and after that a time zone (`Z` or +01:00).
"""

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from .._util.errors import quoted
from .month_names import with_numeric_month
from .parse_cell import is_missing

NANOSECONDS_PER_DAY = 86_400_000_000_000
DATE_HINT = "Write dates as 2024-12-31 or 2024-12-31T23:59:59."
_EPOCH = datetime(1970, 1, 1)
_DATE = re.compile(
    r"(?P<a>[0-9]{1,4})(?P<mark>[-/.])(?P<b>[0-9]{1,2})(?P=mark)(?P<c>[0-9]{1,4})"
    r"(?:(?:[Tt]| +)(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?"
    r"(?: *(?P<half>[AaPp])\.?[Mm]\.?)?"
    r" *(?P<zone>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_PLAIN = r"[12][0-9]{3}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?"
_PLAIN_COLUMN = re.compile(rf"{_PLAIN}(?:\n{_PLAIN})*")
_COMPACT = re.compile(r"(1[89]|2[01])[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])")

# Makes the exception to raise from the index of a cell in its column and a message.
MakeError = Callable[[int, str], Exception]


class Timestamps(NamedTuple):
    """Nanoseconds since 1970-01-01. `has_zones` says whether the dates have time zones:
    the nanoseconds are then in UTC, and otherwise in local time."""

    nanoseconds: list[int]
    has_zones: bool


def are_dates(cells: Sequence[str]) -> bool:
    """Return whether a column of times holds dates. It does if its first cell is a
    date, or if all cells are of the form 20241231.

    >>> are_dates(["2024-12-31", "soon"]), are_dates(["20241231"]), are_dates(["2024"])
    (True, True, False)
    """
    first = next((cell for cell in cells if not is_missing(cell)), "")
    return is_date(first) or all(_COMPACT.fullmatch(cell) for cell in cells)


def is_date(cell: str) -> bool:
    """Return whether a cell is written as a date (20241231 is a number as well, and
    does not count)."""
    return _DATE.fullmatch(with_numeric_month(cell)) is not None


def has_time_of_day(cell: str) -> bool:
    """Return whether a date is followed by a time of day."""
    match = _DATE.fullmatch(with_numeric_month(cell))
    return match is not None and match["hour"] is not None


def parse_dates(cells: Sequence[str], make_error: MakeError) -> Timestamps:
    """Read all dates of a column.

    All of them must have the same order of day and month, and either all or none must
    have a time zone. Raises what `make_error(index, message)` returns otherwise.
    """
    plain = _plain_dates(cells)
    if plain is not None:
        return plain
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
                index, f"{quoted(cells[index])} is no date. {DATE_HINT}"
            ) from None
    return Timestamps(nanoseconds, has_zones)


def _plain_dates(cells: Sequence[str]) -> Timestamps | None:
    """Return many dates at once, or None if they are not all written as 2024-12-31,
    with or without 23:59 or 23:59:59 after it, so that each must be read by itself."""
    if not cells or not _PLAIN_COLUMN.fullmatch("\n".join(cells)):
        return None
    try:
        seconds = np.array(cells, dtype="datetime64[s]").astype(np.int64)
    except ValueError:
        return None
    return Timestamps([second * 10**9 for second in seconds.tolist()], False)


def iso_date(nanoseconds: int, has_zone: bool) -> str:
    """Return a timestamp as text in ISO format, with the time of day unless it is
    midnight without a time zone.

    >>> noon = NANOSECONDS_PER_DAY // 2
    >>> iso_date(noon, has_zone=False), iso_date(0, has_zone=False)
    ('1970-01-01T12:00:00', '1970-01-01')
    """
    seconds, fraction = divmod(nanoseconds, 10**9)
    moment = _EPOCH + timedelta(seconds=seconds)
    if not has_zone and nanoseconds % NANOSECONDS_PER_DAY == 0:
        return moment.date().isoformat()
    digits = f".{fraction:09}".rstrip("0").rstrip(".")
    return moment.isoformat() + digits + ("+00:00" if has_zone else "")


def _match(cell: str, index: int, make_error: MakeError) -> re.Match[str]:
    """Return the parts of a date; those of 20241231 as of 2024-12-31."""
    if _COMPACT.fullmatch(cell):
        cell = f"{cell[:4]}-{cell[4:6]}-{cell[6:]}"
    match = _DATE.fullmatch(with_numeric_month(cell))
    if match is None:
        raise make_error(index, f"{quoted(cell)} is no date. {DATE_HINT}")
    if max(len(match["a"]), len(match["c"])) != 4:
        raise make_error(
            index, f"{quoted(cell)} has no year of four digits. {DATE_HINT}"
        )
    return match


def _day_first(
    matches: Sequence[re.Match[str]], cells: Sequence[str], make_error: MakeError
) -> bool:
    """Return whether dates such as 01/02/2024 have the day first.

    Some date of the column must show it by a number above 12.
    """
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
            f"{quoted(cells[day_first[0]])} has the day first. {DATE_HINT}",
        )
    if unclear and not day_first and not month_first:
        raise make_error(
            unclear[0],
            f"{quoted(cells[unclear[0]])} is ambiguous: the day or the month may stand "
            f"first. {DATE_HINT}",
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
    hour, minute, second = (int(match[k] or 0) for k in ("hour", "minute", "second"))
    if match["half"]:
        if not 1 <= hour <= 12:
            raise ValueError(match[0])
        hour = hour % 12 + (12 if match["half"] in "Pp" else 0)
    local = datetime(year, month, day, hour, minute, second)
    since = local - _offset(match["zone"]) - _EPOCH
    seconds = since.days * 86_400 + since.seconds
    return seconds * 10**9 + int((match["fraction"] or "0").ljust(9, "0"))


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
