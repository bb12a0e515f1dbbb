"""What a cell of a row of data may be."""

from .parse_cell import is_below_limit, is_missing, is_number, is_percentage
from .parse_dates import is_date
from .time_of_day import is_time_of_day


def is_value(cell: str) -> bool:
    """Return whether a cell may stand in a row of data: it is a number, a percentage,
    one of them as a limit (`<0.1`), a date, a time of day or a missing value."""
    return (
        is_number(cell)
        or is_missing(cell)
        or is_date(cell)
        or is_time_of_day(cell)
        or is_percentage(cell)
        or is_below_limit(cell)
    )
