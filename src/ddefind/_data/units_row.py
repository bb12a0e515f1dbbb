"""A row of units below the header."""

from .._util.errors import quoted
from .cell_kinds import is_value
from .parse_cell import is_missing
from .table import Table


def take_units(table: Table, time: str) -> tuple[Table, dict[str, str]]:
    """Return a table without its row of units, and the unit of each column that has
    one.

    The first row holds units if there is text in the column `time`, text or nothing in
    the others, and a row below it.
    """
    cells = {name: column[0] for name, column in table.columns.items() if column}
    is_units = len(table.places) > 1 and not is_value(cells[time])
    if not is_units or any(is_value(c) and not is_missing(c) for c in cells.values()):
        return table, {}
    units = {name: _bare(cell) for name, cell in cells.items() if not is_missing(cell)}
    listed = ", ".join(f"{quoted(name)} [{unit}]" for name, unit in units.items())
    note = f"Units are those of {table.places[0]}: {listed}."
    columns = {name: column[1:] for name, column in table.columns.items()}
    rest = Table(table.source, columns, table.places[1:], (*table.notes, note))
    return rest, units


def _bare(unit: str) -> str:
    """Return a unit without the brackets around it."""
    is_bracketed = (unit[0], unit[-1]) in (("[", "]"), ("(", ")"))
    return unit[1:-1].strip() if is_bracketed else unit
