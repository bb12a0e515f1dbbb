"""Reading times of day and durations, as 08:30, 8:30 PM, 23:59:59.9 or 25:30."""

import re

from .._util.errors import quoted

_TIME_OF_DAY = re.compile(
    r"(?P<hour>[0-9]{1,4}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?"
    r"(?: *(?P<half>[AaPp])\.?[Mm]\.?)?"
)
NANOSECONDS_PER_HOUR = 3_600_000_000_000
TIME_OF_DAY_HINT = "Write times of day as 08:30 or 23:59:59."


def is_time_of_day(cell: str) -> bool:
    """Return whether a cell is written as a time of day.

    >>> is_time_of_day("08:30"), is_time_of_day("8.30")
    (True, False)
    """
    return ":" in cell and _TIME_OF_DAY.fullmatch(cell) is not None


def parse_time_of_day(cell: str) -> int:
    """Return the nanoseconds since midnight. Hours may be 24 or more, as in durations.

    Raises a ValueError that says what is wrong.

    >>> parse_time_of_day("25:30") / NANOSECONDS_PER_HOUR
    25.5
    """
    match = _TIME_OF_DAY.fullmatch(cell)
    if match is None:
        raise ValueError(f"{quoted(cell)} is no time of day. {TIME_OF_DAY_HINT}")
    hour, minute = int(match["hour"]), int(match["minute"])
    second = int(match["second"] or 0)
    half = (match["half"] or "").lower()
    if minute > 59 or second > 59 or half and not 1 <= hour <= 12:
        raise ValueError(f"{quoted(cell)} is no time of day. {TIME_OF_DAY_HINT}")
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    seconds = 3600 * hour + 60 * minute + second
    return seconds * 10**9 + int((match["fraction"] or "0").ljust(9, "0"))
