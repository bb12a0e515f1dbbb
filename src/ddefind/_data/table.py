"""A table of text cells in named columns, which knows where its rows come from."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from .._util import wording
from .._util.errors import DataError, did_you_mean, quoted
from .parse_cell import is_number, may_be_thousands, parse_number, parse_numbers


def _is_equal(cell: str, wanted: str) -> bool:
    """Return whether a cell is the text or the number that is wanted."""
    if cell == wanted:
        return True
    are_numbers = is_number(cell) and is_number(wanted)
    return are_numbers and parse_number(cell) == parse_number(wanted)


@final
@dataclass(frozen=True)
class Table:
    """A table as it was read, before its cells are interpreted.

    - `source`: the file or frame, with which messages begin.
    - `columns`: the cells of each column, by its name.
    - `places`: where each row stands in the source, such as `line 3`.
    - `notes`: sentences on how the table was read.
    """

    source: str
    columns: dict[str, list[str]]
    places: Sequence[str]
    notes: tuple[str, ...] = ()

    def error(
        self, message: str, row: int | None = None, name: str | None = None
    ) -> DataError:
        """Return an error whose message begins with the source and, where they are
        given, with the place of the row and the name of the column."""
        where = [self.source]
        if row is not None:
            where.append(self.places[row])
        if name is not None:
            where.append(f"column {quoted(name)}")
        return DataError(f"{', '.join(where)}: {message}")

    def check_name(self, argument: wording.Wording, name: str) -> None:
        """Raise an error unless `name`, the value of `argument`, is a column."""
        if not isinstance(name, str):
            raise TypeError(
                f"{argument} must be given by name, but got {type(name).__name__}."
            )
        if name not in self.columns:
            hint = did_you_mean(name, self.columns)
            raise self.error(f"there is no column {quoted(name)} ({argument}).{hint}")

    def where(self, name: str, value: Any) -> "Table":
        """Return the rows in which the column `name` holds a text or number."""
        self.check_name(wording.WHERE, name)
        cells = self.columns[name]
        wanted = str(value).strip()
        rows = [row for row, cell in enumerate(cells) if _is_equal(cell, wanted)]
        if not rows:
            hint = did_you_mean(wanted, dict.fromkeys(filter(None, cells)))
            raise self.error(
                f"no row holds {quoted(wanted)} ({wording.WHERE}).{hint}", None, name
            )
        note = f"Rows in which column {quoted(name)} is {quoted(wanted)} were read."
        kept = self.rows(rows)
        return replace(kept, notes=(*self.notes, note))

    def rows(self, rows: Sequence[int]) -> "Table":
        """Return some of the rows, given by their indices."""
        columns = {
            name: [column[row] for row in rows] for name, column in self.columns.items()
        }
        return replace(self, columns=columns, places=[self.places[row] for row in rows])

    def without(self, names: Collection[str]) -> "Table":
        """Return the table without the columns `names`."""
        kept = {name: col for name, col in self.columns.items() if name not in names}
        return replace(self, columns=kept)

    def numbers(self, name: str, hint: str) -> np.ndarray:
        """Return a column as numbers, with NaN for missing values. The error about a
        cell that is not a number ends with `hint`."""
        plain = parse_numbers(self.columns[name])
        if plain is not None:
            return plain
        values = np.empty(len(self.places))
        for row, cell in enumerate(self.columns[name]):
            try:
                values[row] = parse_number(cell)
            except ValueError as error:
                raise self.error(f"{error} {hint}", row, name) from None
        return values

    def check_decimals(self, names: Sequence[str]) -> None:
        """Check that the columns `names` use one decimal mark throughout, and that a
        comma is not perhaps a thousands separator."""
        commas = self._numbers_with(",", names)
        if not commas:
            return
        row, name, cell = commas[0]
        points = self._numbers_with(".", names)
        if points:
            other_row, other_name, other_cell = points[0]
            raise self.error(
                f"{quoted(cell)} has a comma, but {quoted(other_cell)} "
                f"({self.places[other_row]}, column {quoted(other_name)}) has a point. "
                "Use one decimal mark, and none for thousands.",
                row,
                name,
            )
        if all(may_be_thousands(cell) for *_, cell in commas):
            raise self.error(
                f"{quoted(cell)} is ambiguous: the comma may be a decimal mark or "
                "group thousands. Write the numbers with a decimal point.",
                row,
                name,
            )

    def _numbers_with(
        self, mark: str, names: Sequence[str]
    ) -> list[tuple[int, str, str]]:
        """Return row, column and text of each number that contains `mark`."""
        return [
            (row, name, cell)
            for name in names
            for row, cell in enumerate(self.columns[name])
            if mark in cell and is_number(cell)
        ]
