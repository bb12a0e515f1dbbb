"""Turning the text of a CSV file into a table: lines, separator, cells, header.

Each row is one line. The separator is found out from the text, unless the first line
says it, as Excel's `sep=;` does. Where a wrong guess could change a number, an error is
raised. `make_table`, which finds the header, also serves the rows of a workbook.
"""

import csv
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

from .._util.errors import DataError, quoted
from .._util.files import file_name, read_text
from .table import Table, is_missing, is_time_name
from .times import is_value

# How messages call each separator. Of two that fit equally well the earlier is taken: a
# comma may also be a decimal mark, and a blank may be part of a name.
_SEPARATORS = {"\t": "tabs", ";": "';'", "|": "'|'", ",": "','", " ": "blanks"}
_SAMPLE_LINES = 20  # from which the separator is found
LONGEST_CELL = 1000  # characters
_LONGEST_LINE = 200_000  # characters
_BLANKS = re.compile(r"[ \t]+")
_BEGINS_AS_DATA = re.compile(r"[-+.]?[0-9]")
# What Excel writes and reads as the first line of a file.
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?', re.IGNORECASE)


class _Lines(NamedTuple):
    """The lines of a file that are neither blank nor comments, by their numbers in the
    file, counted from 1; the last comment above them; and the separator that the first
    line of the file names, if it does."""

    texts: dict[int, str]
    comment: str
    separator: str | None


def read_csv_table(path: str | os.PathLike[str], time: str | None) -> Table:
    """Read the table in a text file.

    `time` is the name of the column of times, if the user gave one. It helps to
    recognise a header or a comment that names the columns.
    """
    text, notes = read_text(path)
    source = file_name(path)
    lines, comment, separator = _lines(source, text)
    if not lines:
        raise DataError(f"{source}: there are no rows, only comments.")
    if separator is None:
        separator = _separator(f"{source}, line {next(iter(lines))}", lines)
    rows = {
        number: _split(f"{source}, line {number}", line, separator)
        for number, line in lines.items()
    }
    hint = (
        f"Cells are separated by {_SEPARATORS[separator]}; put # before lines that are "
        "no data."
    )
    is_comma = separator == ","
    more_hint = " With decimal commas, separate cells by semicolons." * is_comma
    words = _cells_or_none(comment, separator)
    return make_table(Layout(source, "line", hint, more_hint, words, notes), rows, time)


def _lines(source: str, text: str) -> _Lines:
    """Divide a text into lines."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines: dict[int, str] = {}
    comment, separator = "", None
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > _LONGEST_LINE:
            raise DataError(
                f"{source}, line {number}: a line of {len(line)} characters. At most "
                f"{_LONGEST_LINE} are read."
            )
        line = line.strip(" \xa0")
        if line.startswith("#"):
            comment = comment if lines else line.strip("# ")
        elif line and not line.isspace():
            if not lines and separator is None:
                separator = _named_separator(source, number, line)
                if separator is not None:
                    continue
            # In a header, # may be part of a name.
            if "#" in line and (lines or _BEGINS_AS_DATA.match(line)):
                line = _without_comment(line)
            lines[number] = line
    return _Lines(lines, comment, separator)


def _named_separator(source: str, number: int, line: str) -> str | None:
    """Return the separator that a line such as `sep=;` names, or None if this is
    another line."""
    match = _SEPARATOR_LINE.fullmatch(line)
    if line.lower() == "sep=":  # The blank at its end was removed.
        return " "
    if match is None:
        return None
    if match[1] not in _SEPARATORS:
        raise DataError(
            f"{source}, line {number}: {quoted(line)} names {quoted(match[1])}, which "
            "does not separate columns here. Separate them by commas, semicolons, "
            "tabs, | or blanks."
        )
    return match[1]


def _without_comment(line: str) -> str:
    """Return a line without the comment at its end: all from the first blank and # that
    is not within quotes."""
    position = 0
    for index, part in enumerate(line.split('"')):
        start = part.find(" #")
        if index % 2 == 0 and start >= 0:
            return line[: position + start].rstrip(" ")
        position += len(part) + 1
    return line


def _cells(line: str, separator: str) -> list[str]:
    """Split a line into cells. Raises a `csv.Error` if its quotes do not match."""
    if separator == " ":
        line, separator = _BLANKS.sub("\t", line.strip()), "\t"
    if '"' not in line:
        return [cell.strip() for cell in line.split(separator)]
    rows = csv.reader([line], delimiter=separator, skipinitialspace=True, strict=True)
    return [cell.strip().replace("\t", " ") for cell in next(rows)]


def _cells_or_none(line: str, separator: str) -> list[str]:
    """Split a line into cells, without empty ones at its end; into none if its quotes
    do not match."""
    try:
        return trimmed(_cells(line, separator))
    except csv.Error:
        return []


def _split(where: str, line: str, separator: str) -> list[str]:
    """Split the line at `where` into cells, with an error if it cannot be."""
    try:
        cells = _cells(line, separator)
    except csv.Error as error:
        if "limit" in str(error):
            raise DataError(f"{where}: a cell of too many characters.") from None
        raise _quotes_error(where) from None
    longest = max(map(len, cells)) if len(line) > LONGEST_CELL else 0
    if longest > LONGEST_CELL:
        raise DataError(
            f"{where}: a cell of {longest} characters. At most {LONGEST_CELL} are read."
        )
    return cells


def _quotes_error(where: str) -> DataError:
    return DataError(
        f"{where}: the quotes do not match. A quoted cell begins and ends with a "
        "quote, in one line."
    )


def _separator(where: str, lines: Mapping[int, str]) -> str:
    """Return the separator with the highest score among the first lines, which begin at
    `where`."""
    first, *_ = texts = list(lines.values())
    sample = texts[: max(2, min(_SAMPLE_LINES, _LONGEST_LINE // len(first)))]
    scores = {separator: _score(sample, separator) for separator in _SEPARATORS}
    best = max(scores, key=scores.__getitem__)
    if not scores[best]:
        if first.count('"') % 2:
            raise _quotes_error(where)
        raise DataError(
            f"{where}: {quoted(first)} is one cell only. Separate columns by commas, "
            "semicolons, tabs, | or blanks, and put # before lines that are no data."
        )
    return best


def _score(lines: Sequence[str], separator: str) -> float:
    """Return how well a separator fits, from 0 (not at all) to 2.

    It is the share of lines with as many cells as the first one, plus the share of
    cells below the first line that are numbers, dates or missing.
    """
    rows = [_cells_or_none(line, separator) for line in lines]
    if len(rows[0]) < 2:
        return 0.0
    same_width = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
    cells = [cell for row in rows[1:] or rows for cell in row]
    return same_width + sum(map(is_value, cells)) / max(1, len(cells))


@final
@dataclass(frozen=True)
class Layout:
    """The words of messages about a source of rows.

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


def make_table(
    layout: Layout, rows: Mapping[int, list[str]], time: str | None
) -> Table:
    """Return the table in the rows, of which there is at least one. They are given by
    their numbers in the source, counted from 1.

    `time` is the name of the column of times, if the user gave one. It helps to
    recognise a header or a comment that names the columns."""
    number, first = next(iter(rows.items()))
    # Values are no header, unless one of them is the name `time`.
    has_header = not all(map(is_value, first)) or all(map(is_missing, first))
    notes: tuple[str, ...] = ()
    if has_header or time in first:
        where, names = f"{layout.source}, {layout.place} {number}", trimmed(first)
        below = {n: cells for n, cells in rows.items() if n != number}
        is_first = f"header ({layout.place} {number})"
        full = _full_rows(layout, below, len(names), is_first)
    else:
        where = layout.source
        full = _full_rows(layout, rows, len(first), "first row")
        width = max(len(trimmed(row)) for row in full.values())
        names, notes = _names_without_header(width, layout.comment, time)
    columns = [list(column) for column in zip(*full.values())] or [[] for _ in names]
    kept, column_notes = _named_columns(where, names, columns, time)
    places = [f"{layout.place} {number}" for number in full]
    return Table(layout.source, kept, places, (*layout.notes, *notes, *column_notes))


def trimmed(cells: Sequence[str]) -> list[str]:
    """Return the cells without empty ones at the end, which come from separators at the
    end of a line."""
    end = len(cells)
    while end and not cells[end - 1]:
        end -= 1
    return list(cells[:end])


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
    layout: Layout, rows: Mapping[int, list[str]], width: int, first: str
) -> dict[int, list[str]]:
    """Return the rows that are not empty, all `width` cells long, as the `first` row
    is."""
    full: dict[int, list[str]] = {}
    for number, cells in rows.items():
        if not any(cells):
            continue
        if len(cells) < width or len(trimmed(cells)) > width:
            count = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
            hint = layout.hint + (layout.more_hint if len(cells) > width else "")
            raise DataError(
                f"{layout.source}, {layout.place} {number}: {count}, but the {first} "
                f"has {width}. {hint}"
            )
        full[number] = cells[:width]
    return full


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
    """Whether a column counts the rows, starting with 0 or with 1."""
    count = len(column)
    return any(
        all(cell == str(i) for cell, i in zip(column, range(first, first + count)))
        for first in (0, 1)
    )
