"""A table of text: named columns of cells, and where each row stands in its source."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from .._util.errors import DataError, did_you_mean, shown
from .cells import is_number, may_be_thousands, parse_number


@final
@dataclass(frozen=True)
class Table:
    """`source` is the file, `places` are its rows' lines: messages begin with them."""

    source: str
    columns: dict[str, list[str]]
    places: Sequence[str]
    notes: tuple[str, ...] = ()

    def error(
        self, message: str, row: int | None = None, name: str | None = None
    ) -> DataError:
        """An error that says where: source, line and column."""
        where = [self.source]
        if row is not None:
            where.append(self.places[row])
        if name is not None:
            where.append(f"column {shown(name)}")
        return DataError(f"{', '.join(where)}: {message}")

    def check_name(self, argument: str, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(
                f"`{argument}` must be given by name, but got {type(name).__name__}."
            )
        if name not in self.columns:
            hint = did_you_mean(name, self.columns)
            raise self.error(f"there is no column {shown(name)} (`{argument}`).{hint}")

    def numbers(self, name: str, hint: str) -> np.ndarray:
        """A column of numbers, NaN where there is none; `hint` is for other cells."""
        values = np.empty(len(self.places))
        for row, cell in enumerate(self.columns[name]):
            try:
                values[row] = parse_number(cell)
            except ValueError as error:
                raise self.error(f"{error} {hint}", row, name) from None
        return values

    def check_decimals(self, names: Sequence[str]) -> None:
        """One decimal mark for the whole table, and a comma that is surely one."""
        commas = self._numbers_with(",", names)
        if not commas:
            return
        row, name, cell = commas[0]
        points = self._numbers_with(".", names)
        if points:
            there, other, point = points[0]
            raise self.error(
                f"{shown(cell)} has a comma, but {shown(point)} ({self.places[there]}, "
                f"column {shown(other)}) has a point. Use one decimal mark, and none "
                "for thousands.",
                row,
                name,
            )
        if all(may_be_thousands(cell) for *_, cell in commas):
            raise self.error(
                f"{shown(cell)} is ambiguous: the comma may be a decimal mark or group "
                "thousands. Write the numbers with a decimal point.",
                row,
                name,
            )

    def _numbers_with(self, mark: str, names: Sequence[str]) -> list:
        return [
            (row, name, cell)
            for name in names
            for row, cell in enumerate(self.columns[name])
            if mark in cell and is_number(cell)
        ]
