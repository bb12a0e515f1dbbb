"""Dates and times of day, as text, to whole nanoseconds.

Known are 2024-12-31, 2024/12/31, 20241231, 31.12.2024, and 31/12/2024 or 12/31/2024
where the column shows which it is; each with a time of day (`T` or a blank, then 23:59,
23:59:59 or 23:59:59.999) and with a time zone (`Z`, +01:00), or without.
"""

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from .._util.errors import shown
from .cells import is_missing

DAY = 86_400_000_000_000  # nanoseconds
HOW = "Write dates as 2024-12-31 or 2024-12-31T23:59:59."
_START = datetime(1970, 1, 1)
_DATE = re.compile(
    r"(?P<a>[0-9]{1,4})(?P<mark>[-/.])(?P<b>[0-9]{1,2})(?P=mark)(?P<c>[0-9]{1,4})"
    r"(?:(?:[Tt]| +)(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?"
    r" *(?P<zone>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_COMPACT = re.compile(r"(1[89]|2[01])[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])")

# Called with the place in the column and what is wrong; it gives the error to raise.
Fail = Callable[[int, str], Exception]


class Moments(NamedTuple):
    """Nanoseconds since 1970, in UTC if the dates have time zones."""

    nanoseconds: list[int]
    zoned: bool


def are_dates(cells: Sequence[str]) -> bool:
    """Whether a column of times is meant as dates: the first is one, or all are written
    as 20241231.

    >>> are_dates(["2024-12-31", "soon"]), are_dates(["20241231"]), are_dates(["2024"])
    (True, True, False)
    """
    first = next((cell for cell in cells if not is_missing(cell)), "")
    return is_date(first) or all(_COMPACT.fullmatch(cell) for cell in cells)


def is_date(cell: str) -> bool:
    return _DATE.fullmatch(cell) is not None


def moments(cells: Sequence[str], fail: Fail) -> Moments:
    """All dates of a column: one order of day and month, and zones for all or none."""
    found = [_match(cell, index, fail) for index, cell in enumerate(cells)]
    day_first = _day_first(found, cells, fail)
    result, zoned = [], bool(found and found[0]["zone"])
    for index, match in enumerate(found):
        if bool(match["zone"]) != zoned:
            here, there = ("no", "one") if zoned else ("a", "none")
            raise fail(
                index,
                f"{shown(cells[index])} has {here} time zone, but the first date has "
                f"{there}. Write all dates with a time zone, or all without.",
            )
        try:
            result.append(_nanoseconds(match, day_first))
        except (ValueError, OverflowError):
            raise fail(index, f"{shown(cells[index])} is no date. {HOW}") from None
    return Moments(result, zoned)


def iso(nanoseconds: int, zoned: bool) -> str:
    """The date as text; the time of day only where it is not midnight.

    >>> iso(DAY // 2, zoned=False), iso(0, zoned=False)
    ('1970-01-01T12:00:00', '1970-01-01')
    """
    seconds, fraction = divmod(nanoseconds, 10**9)
    moment = _START + timedelta(seconds=seconds)
    if not zoned and nanoseconds % DAY == 0:
        return moment.date().isoformat()
    digits = f".{fraction:09}".rstrip("0").rstrip(".")
    return moment.isoformat() + digits + ("+00:00" if zoned else "")


def _match(cell: str, index: int, fail: Fail) -> re.Match[str]:
    if _COMPACT.fullmatch(cell):
        cell = f"{cell[:4]}-{cell[4:6]}-{cell[6:]}"
    match = _DATE.fullmatch(cell)
    if match is None:
        raise fail(index, f"{shown(cell)} is no date. {HOW}")
    if max(len(match["a"]), len(match["c"])) != 4:
        raise fail(index, f"{shown(cell)} has no year of four digits. {HOW}")
    return match


def _day_first(found: list[re.Match[str]], cells: Sequence[str], fail: Fail) -> bool:
    """Whether 31/12/2024 is the order, or 12/31/2024: some date of the column must
    tell."""
    day: list[int] = []
    month: list[int] = []
    unclear: list[int] = []
    for index, match in enumerate(found):
        if len(match["a"]) < 4 and match["mark"] != ".":
            a, b = int(match["a"]), int(match["b"])
            kind = unclear if max(a, b) <= 12 else month if a <= 12 else day
            kind.append(index)
    if day and month:
        raise fail(
            month[0],
            f"{shown(cells[month[0]])} has the month first, but "
            f"{shown(cells[day[0]])} has the day first. {HOW}",
        )
    if unclear and not day and not month:
        raise fail(
            unclear[0],
            f"{shown(cells[unclear[0]])} is ambiguous: the day or the month may stand "
            f"first. {HOW}",
        )
    return bool(day)


def _nanoseconds(match: re.Match[str], day_first: bool) -> int:
    a, b, c = int(match["a"]), int(match["b"]), int(match["c"])
    if len(match["a"]) == 4:
        year, month, day = a, b, c
    elif match["mark"] == "." or day_first:
        day, month, year = a, b, c
    else:
        month, day, year = a, b, c
    hour, minute, second = (int(match[k] or 0) for k in ("hour", "minute", "second"))
    local = datetime(year, month, day, hour, minute, second)
    since = local - _offset(match["zone"]) - _START
    seconds = since.days * 86_400 + since.seconds
    return seconds * 10**9 + int((match["fraction"] or "0").ljust(9, "0"))


def _offset(zone: str | None) -> timedelta:
    """How far a time zone is ahead of UTC."""
    if zone is None or zone in "Zz":
        return timedelta()
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    ahead = timedelta(hours=hours, minutes=minutes)
    return ahead if zone[0] == "+" else -ahead
