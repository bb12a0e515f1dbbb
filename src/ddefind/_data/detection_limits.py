"""Cells such as `<0.1`: a value that is only known to be below a limit."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .._util.errors import quoted
from .parse_cell import is_below_limit, without_below
from .table import Table


def take_limits(table: Table, names: Sequence[str]) -> tuple[Table, np.ndarray | None]:
    """Return a table in which the cells `<0.1` of the columns `names` hold the limit,
    0.1, and an array of the rows and columns in which they stood, or None if there are
    none."""
    below = np.array(
        [[is_below_limit(cell) for cell in table.columns[name]] for name in names]
    ).T
    if not np.any(below):
        return table, None
    columns = {
        name: [without_below(cell) for cell in cells] if name in names else cells
        for name, cells in table.columns.items()
    }
    return replace(table, columns=columns), below


def limit_notes(names: Sequence[str], below: np.ndarray | None) -> list[str]:
    """Return a note on each quantity that has values below a limit."""
    if below is None:
        return []
    notes = []
    for name, count in zip(names, below.sum(axis=0).tolist()):
        if count:
            values = "1 value" if count == 1 else f"{count} values"
            known = "is" if count == 1 else "are"
            notes.append(
                f"{values} of {quoted(name)} {known} only known to be below a limit."
            )
    return notes
