"""Columns of percentages, which are read as fractions."""

from collections.abc import Sequence

from .._util.errors import quoted
from .parse_cell import is_missing, is_percentage, parse_number
from .table import Table


def check_percentages(
    table: Table, quantities: Sequence[str], deviations: Sequence[str]
) -> list[str]:
    """Check that each column holds percentages throughout or not at all, and that the
    standard deviations (of the same quantities, or none) do as the quantities. Return a
    note on each column of percentages."""
    first = {
        name: _first_percentage(table, name) for name in (*quantities, *deviations)
    }
    for quantity, deviation in zip(quantities, deviations):
        if (first[quantity] is None) != (first[deviation] is None):
            yes, no = quantity, deviation
            if first[quantity] is None:
                yes, no = no, yes
            raise table.error(
                f"column {quoted(yes)} holds percentages, but column {quoted(no)} does "
                "not. Write both with percent signs, or both without."
            )
    return [
        f"Percentages of column {quoted(name)} are read as fractions: {cell} is "
        f"{parse_number(cell):g}."
        for name, cell in first.items()
        if cell is not None
    ]


def _first_percentage(table: Table, name: str) -> str | None:
    """Return the first percentage of a column, or None if there are none. Both
    percentages and other numbers are an error."""
    cells = table.columns[name]
    first = next((cell for cell in cells if cell.endswith("%")), None)
    if first is None or not is_percentage(first):
        return None
    for row, cell in enumerate(cells):
        if not is_missing(cell) and not is_percentage(cell):
            raise table.error(
                f"{quoted(cell)} has no percent sign, but {quoted(first)} has. Write "
                "the whole column with percent signs, or without.",
                row,
                name,
            )
    return first
