"""A table of text cells in named columns: numbers, missing values, or text. And the
place of a column, in this table or in a file of its own."""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, final

import numpy as np

from .._util import wording
from .._util.errors import DataError, did_you_mean, quoted

# Cells that stand for a missing value, compared in lower case.
_MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "-", "."))
_INFINITE = frozenset(("inf", "infinity", "∞"))
# ASCII digits with a decimal point or a decimal comma, without thousands separators.
# The sign may be a hyphen or the minus sign U+2212.
_NUMBER = re.compile(
    r"[-+\u2212]?(?:[0-9]+(?:\.[0-9]*|,[0-9]+)?|[.,][0-9]+)(?:[eE][-+\u2212]?[0-9]+)?"
)
_WITH_THOUSANDS = re.compile(
    r"[-+\u2212]?[0-9]{1,3}(?:[.,' \u00a0\u202f][0-9]{3})+(?:[.,][0-9]*)?"
)
_MAYBE_THOUSANDS = re.compile(r"[-+\u2212]?[1-9][0-9]{0,2},[0-9]{3}")
# A column in which Python's `float` reads the same numbers as `parse_number`.
_PLAIN_COLUMN = re.compile(r"[-+.0-9eE\n]*")
_BEGINS_AS_NUMBER = re.compile(r"[<≤]?\s*[-+\u2212]?[.,]?[0-9]")
_BELOW = "<≤"  # what stands before the limit that a value is below
# Names of a column of times. Capitals, a plural s and a unit in brackets make no
# difference. `t` is one as well, but not `T`, which may be a temperature.
_TIME_NAMES = (
    *("time", "date", "datetime", "timestamp"),
    *("year", "month", "week", "day", "hour", "zeit", "datum"),
)
# Names of files with a table in them end so.
_ENDINGS = (".csv", ".tsv", ".txt", ".dat", ".xlsx")
UNIT = re.compile(r"\s*[\[(][^\])]*[\])]$")  # at the end of a column's name


def is_number(cell: str) -> bool:
    """Whether a cell is a number with at most one decimal mark."""
    return _NUMBER.fullmatch(cell) is not None


def is_percentage(cell: str) -> bool:
    """Whether a cell is a number with a percent sign, as 5.2% or 5,2 %."""
    return cell.endswith("%") and is_number(cell[:-1].rstrip())


def is_below_limit(cell: str) -> bool:
    """Whether a cell is a number or percentage that a value is below.

    >>> [is_below_limit(cell) for cell in ("<0.1", "< 5 %", "0.1", "<LOD")]
    [True, True, False, False]
    """
    limit = without_below(cell)
    return limit != cell and (is_number(limit) or is_percentage(limit))


def without_below(cell: str) -> str:
    """Return a cell without the sign that a value is below it."""
    return cell[1:].lstrip() if cell[:1] in _BELOW and cell else cell


def is_missing(cell: str) -> bool:
    """Whether a cell stands for a missing value."""
    return cell.lower() in _MISSING


def is_text(cell: str) -> bool:
    """Whether a cell is text: neither a number, nor a missing value, nor
    something that begins like a number, which is probably a mistyped one.

    >>> [is_text(cell) for cell in ("north", "3.5 mg", "inf", "NA")]
    [True, False, False, False]
    """
    return not (is_missing(cell) or _is_infinite(cell) or _BEGINS_AS_NUMBER.match(cell))


def parse_number(cell: str) -> float:
    """Return the number in a cell, or NaN for a missing value. A percentage is a
    fraction: 5.2% is 0.052.

    Raises a ValueError that says what is wrong with any other cell.

    >>> parse_number("2.5e3"), parse_number("2,5"), parse_number("NA")
    (2500.0, 2.5, nan)
    """
    if is_number(cell):
        value = float(_plain(cell))
        if math.isinf(value):
            raise ValueError(f"{quoted(cell)} is too large.")
        return value
    if is_percentage(cell):
        # Moving the decimal point is exact; dividing a float by 100 is not.
        return float(exact_number(cell[:-1].rstrip()).scaleb(-2))
    if is_missing(cell):
        return math.nan
    if _is_infinite(cell):
        raise ValueError(f"{quoted(cell)} is not finite.")
    if _WITH_THOUSANDS.fullmatch(cell):
        raise ValueError(
            f"{quoted(cell)} has separators of thousands. Write the number without "
            "them."
        )
    if is_below_limit(cell):
        raise ValueError(f"{quoted(cell)} is a limit: only measured values have one.")
    raise ValueError(f"{quoted(cell)} is not a number.")


def exact_number(cell: str) -> Decimal:
    """Return the number in a cell with all its digits."""
    return Decimal(_plain(cell))


def _plain(number: str) -> str:
    """Return a number in the digits and marks that Python reads."""
    return number.replace(",", ".").replace("\u2212", "-")


def _is_infinite(cell: str) -> bool:
    return cell.lower().lstrip("-+\u2212") in _INFINITE


def is_time_name(name: str) -> bool:
    """Whether a column of this name is taken for the time.

    >>> [is_time_name(name) for name in ("Time [h]", "Days", "temperature")]
    [True, True, False]
    """
    word = UNIT.sub("", name)
    return word == "t" or word.lower().removesuffix("s") in _TIME_NAMES


@final
@dataclass(frozen=True)
class Table:
    """A table as it was read, before its cells are interpreted.

    - `source`: the file or frame, with which messages begin.
    - `columns`: the cells of each column, by its name.
    - `places`: where each row stands in the source, such as `line 3`.
    - `notes`: sentences on how the table was read.
    - `time`: the name of the column of times, once it is known.
    - `units`: the unit of each column that has one in a row of units."""

    source: str
    columns: dict[str, list[str]]
    places: Sequence[str]
    notes: tuple[str, ...] = ()
    time: str = ""
    units: Mapping[str, str] = field(default_factory=dict)

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
        return replace(self.rows(rows), notes=(*self.notes, note))

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

    def number(self, row: int, name: str, hint: str = "") -> float:
        """Return a cell as a number, NaN if its value is missing. The error about any
        other cell ends with `hint`."""
        try:
            return parse_number(self.columns[name][row])
        except ValueError as error:
            raise self.error(f"{error} {hint}".rstrip(), row, name) from None

    def numbers(self, name: str, hint: str) -> np.ndarray:
        """Return a column as numbers, with NaN for missing values. The error about a
        cell that is not a number ends with `hint`."""
        cells = self.columns[name]
        if _PLAIN_COLUMN.fullmatch("\n".join(cells)):
            try:
                plain = np.array([float(cell) if cell else math.nan for cell in cells])
            except ValueError:
                plain = np.array([math.inf])
            if not np.any(np.isinf(plain)):
                return plain
        return np.array([self.number(row, name, hint) for row in range(len(cells))])

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
        if all(_MAYBE_THOUSANDS.fullmatch(cell) for *_, cell in commas):
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


def _is_equal(cell: str, wanted: str) -> bool:
    """Whether a cell is the text or the number that is wanted."""
    if cell == wanted:
        return True
    are_numbers = is_number(cell) and is_number(wanted)
    return are_numbers and parse_number(cell) == parse_number(wanted)


def frame_table(frame: Any, time: str | None) -> Table:
    """Return the columns of a data frame as text.

    If the times are the index of the frame, it becomes a column. Only what data frames
    of all libraries have in common is used, so that none of these is imported."""
    if not all(hasattr(frame, name) for name in ("columns", "__getitem__", "__len__")):
        kind = type(frame).__name__
        raise TypeError(f"`frame` must be a data frame, as pandas', but got {kind}.")
    names = [str(label).strip() for label in frame.columns]
    for name, count in Counter(names).items():
        if count > 1:
            raise DataError(f"frame: two columns are called {quoted(name)}.")
    columns = {name: _cells(frame[label]) for name, label in zip(names, frame.columns)}
    places = [f"row {row}" for row in range(len(frame))]
    index = getattr(frame, "index", None)
    if index is None or not _is_time_index(index, columns, time):
        return Table("frame", columns, places)
    time = str(index.name) if index.name is not None else "index"
    columns = {time: _cells(index), **columns}
    return Table("frame", columns, places, ("Times are the index of the frame.",), time)


def _is_time_index(index: Any, columns: dict[str, list[str]], time: str | None) -> bool:
    """Whether the index of a frame holds its times.

    It does if its name is `time`. Without `time` it does if no column is named like a
    time and the index holds numbers or dates, but not if it only counts the rows."""
    name = getattr(index, "name", None)
    if time is not None:
        return time not in columns and name == time
    if any(map(is_time_name, columns)):
        return False
    counts_rows = type(index).__name__ == "RangeIndex" and not is_time_name(str(name))
    return not counts_rows and getattr(index, "dtype", np.dtype(object)).kind in "fiuM"


def _cells(values: Any) -> list[str]:
    """Return a column of a frame as text, numbers with all their digits."""
    array = np.asarray(values)
    if array.dtype.kind == "f":
        return [repr(value) for value in array.astype(float).tolist()]
    if array.dtype.kind == "M":
        array = array.astype(str)
    cells = [str(value).strip() for value in array.tolist()]
    return ["" if cell in ("None", "NaT", "<NA>") else cell for cell in cells]


@final
@dataclass(frozen=True)
class Place:
    """The place of numbers: a column beside the measurements, if `file` is None, or a
    file of its own, whose column may be left open."""

    column: str | None
    file: str | None = None


def find_place(text: str, columns: Sequence[str] = ()) -> Place | None:
    """Return the place that a text names: `COLUMN`, `FILE` or `FILE:COLUMN`. None if it
    is none of these.

    `columns` are those of the measurements. They come first."""
    if text in columns:
        return Place(text)
    path, colon, column = text.rpartition(":")
    if Path(text).is_file():
        return Place(None, text)
    if colon and (Path(path).is_file() or path.lower().endswith(_ENDINGS)):
        return Place(column or None, path)
    return Place(None, text) if text.lower().endswith(_ENDINGS) else None
