"""Turning rows of cells into a table: which row is the header, and what the columns are
called.

The rows come from a text file or from a sheet of a workbook.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from .._util.errors import DataError, quoted
from .cell_kinds import is_value
from .column_names import is_time_name
from .parse_cell import is_missing
from .table import Table


@final
@dataclass(frozen=True)
class Layout:
    """How messages speak of a source of rows.

    - `source`: its name.
    - `place`: what a row is called, `line` or `row`.
    - `hint`: a sentence for a row that has not as many cells as the first.
    - `more_hint`: another one for a row that has more.
    - `comment`: words of a comment above the data, which may be names of columns.
    - `notes`: sentences on how the source was read.
    """

    source: str
    place: str
    hint: str
    more_hint: str = ""
    comment: Sequence[str] = ()
    notes: tuple[str, ...] = ()

    def at(self, number: int) -> str:
        """Return where row `number` is."""
        return f"{self.source}, {self.place} {number}"


def make_table(
    layout: Layout, numbers: Sequence[int], rows: Sequence[list[str]], time: str | None
) -> Table:
    """Return the table that stands in the rows, of which there is at least one.
    `numbers` are those of the rows in the source, counted from 1.

    `time` is the name of the column of times, if the user gave one. It helps to
    recognise a header or a comment that names the columns.
    """
    first = rows[0]
    header = numbers[0] if _is_header(first, time) else None
    notes: tuple[str, ...] = ()
    if header is not None:
        names = trimmed(first)
        kept_numbers, cells = _full_rows(
            layout, numbers[1:], rows[1:], len(names), header
        )
    else:
        kept_numbers, cells = _full_rows(layout, numbers, rows, len(first), None)
        width = max(len(trimmed(row)) for row in cells)
        names, notes = _names_without_header(width, layout.comment, time)
    columns = [list(column) for column in zip(*cells)] or [[] for _ in names]
    where = layout.source if header is None else layout.at(header)
    kept, column_notes = _named_columns(where, names, columns, time)
    places = [f"{layout.place} {number}" for number in kept_numbers]
    notes = (*layout.notes, *notes, *column_notes)
    return Table(layout.source, kept, places, notes)


def trimmed(cells: Sequence[str]) -> list[str]:
    """Return the cells without empty ones at the end, which come from separators at the
    end of a line."""
    end = len(cells)
    while end and not cells[end - 1]:
        end -= 1
    return list(cells[:end])


def _is_header(cells: Sequence[str], time: str | None) -> bool:
    """Return whether the first row is a header. It is not if all its cells are values,
    unless one of them is the name `time`."""
    return not all(map(is_value, cells)) or all(map(is_missing, cells)) or time in cells


def _names_without_header(
    width: int, words: Sequence[str], time: str | None
) -> tuple[list[str], tuple[str, ...]]:
    """Return names for the columns of a source without a header, and a note on them.

    They are the words of the comment above the data, if there are `width` of them and
    one names the time. Otherwise they are t, and x or x[0], x[1] and so on.
    """
    if len(words) == width and _has_time(words, time):
        note = "The names of the columns come from the comment above them."
        return list(words), (note,)
    quantities = ["x"] if width == 2 else [f"x[{i}]" for i in range(width - 1)]
    names = ["t", *quantities]
    listed = ", ".join(names[:4]) + (", ..." if width > 4 else "")
    return names, (f"The file has no header: its columns are called {listed}.",)


def _has_time(names: Sequence[str], time: str | None) -> bool:
    return any(name == time or is_time_name(name) for name in names)


def _full_rows(
    layout: Layout,
    numbers: Sequence[int],
    rows: Sequence[list[str]],
    width: int,
    header: int | None,
) -> tuple[list[int], list[list[str]]]:
    """Return the numbers of the rows, and their cells, all `width` cells long. Empty
    rows are left out."""
    kept: list[int] = []
    full: list[list[str]] = []
    for number, cells in zip(numbers, rows):
        if not any(cells):
            continue
        if len(cells) != width:
            if len(cells) < width or len(trimmed(cells)) > width:
                raise _width_error(layout, number, cells, width, header)
            cells = cells[:width]
        kept.append(number)
        full.append(cells)
    return kept, full


def _width_error(
    layout: Layout, number: int, cells: Sequence[str], width: int, header: int | None
) -> DataError:
    first = "first row" if header is None else f"header ({layout.place} {header})"
    count = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
    hint = layout.hint + (layout.more_hint if len(cells) > width else "")
    return DataError(
        f"{layout.at(number)}: {count}, but the {first} has {width}. {hint}"
    )


def _named_columns(
    where: str,
    names: Sequence[str],
    columns: Sequence[list[str]],
    time: str | None,
) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Return the columns that have a name, and a note.

    A column without a name may be empty, or count the rows. Any other is an error.
    """
    kept: dict[str, list[str]] = {}
    notes: tuple[str, ...] = ()
    for index, (name, column) in enumerate(zip(names, columns)):
        if name in kept:
            raise DataError(
                f"{where}: two columns are called {quoted(name)}. If they are "
                f"replicates, call them {quoted(f'{name}_rep1')}, "
                f"{quoted(f'{name}_rep2')} and so on."
            )
        if name:
            kept[name] = column
        elif index == 0 and _counts_rows(column) and _has_time(names, time):
            notes = ("The first column, without a name, counts the rows: left out.",)
        elif any(column):
            raise DataError(
                f"{where}: column {index + 1} has no name. Name it in the header; the "
                "time is called t."
            )
    return kept, notes


def _counts_rows(column: Sequence[str]) -> bool:
    """Return whether a column counts the rows, starting with 0 or with 1."""
    count = len(column)
    return any(
        all(cell == str(i) for cell, i in zip(column, range(first, first + count)))
        for first in (0, 1)
    )
