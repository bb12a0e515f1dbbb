"""Times as they stand in the source of data: numbers, or dates."""

from datetime import datetime, timedelta
from typing import Any

import numpy as np

from .._util import wording
from .._util.errors import DataError
from .data import Data
from .parse_dates import DATE_HINT, NANOSECONDS_PER_DAY, parse_dates


def source_times(data: Data, t: np.ndarray) -> tuple[str, list[Any]]:
    """Return times as in the source of the data, numbers or dates, and the name of
    their column."""
    if not isinstance(data.origin, str):
        return "t", (t + data.origin).tolist()
    first = datetime.fromisoformat(data.origin)
    return "date", [(first + timedelta(days=day)).isoformat() for day in t.tolist()]


def time_of(data: Data, value: float | str) -> float:
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
        raise make_error(0, f"the times are dates, but got {value:g}. {DATE_HINT}")
    (zero,), _ = parse_dates([data.origin], make_error)
    (time,), _ = parse_dates([value], make_error)
    return (time - zero) / NANOSECONDS_PER_DAY
