"""Times that stand in two columns, a date and a time of day."""

from .._util.errors import quoted
from .column_names import is_time_name
from .parse_cell import is_missing
from .parse_dates import are_dates, has_time_of_day
from .table import Table
from .time_of_day import is_time_of_day


def join_date_and_time(table: Table) -> Table:
    """Return a table with one column of times instead of two, if exactly two columns
    are named like times, one holds dates without a time of day, and the other times of
    day. Any other table is returned as it is."""
    candidates = [name for name in table.columns if is_time_name(name)]
    if "t" in candidates or len(candidates) != 2:
        return table
    clocks = [name for name in candidates if _holds_times_of_day(table, name)]
    days = [name for name in candidates if _holds_days(table, name)]
    if len(clocks) != 1 or len(days) != 1:
        return table
    (clock,), (day,) = clocks, days
    joined = [
        "" if is_missing(date) or is_missing(time) else f"{date} {time}"
        for date, time in zip(table.columns[day], table.columns[clock])
    ]
    note = f"Times are those of columns {quoted(day)} and {quoted(clock)} together."
    columns = {
        name: joined if name == day else column
        for name, column in table.columns.items()
        if name != clock
    }
    return Table(table.source, columns, table.places, (*table.notes, note))


def _holds_times_of_day(table: Table, name: str) -> bool:
    cells = table.columns[name]
    return all(is_time_of_day(c) or is_missing(c) for c in cells)


def _holds_days(table: Table, name: str) -> bool:
    cells = table.columns[name]
    return are_dates(cells) and not any(map(has_time_of_day, cells))
