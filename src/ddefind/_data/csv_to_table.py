"""Turning the text of a CSV file into a table: lines, separator, header, rows.

Each row is one line. Which separator is used, and whether there is a header, is found
out from the text. Where a wrong guess could change a number, an error is raised.
"""

import csv
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from .._util.errors import DataError, quoted
from .._util.text_files import file_name, read_text
from .parse_cell import is_missing, is_number
from .parse_dates import is_date
from .read_columns import is_time_name
from .table import Table

# How messages call each separator. Of two that fit equally well the earlier is taken: a
# comma may also be a decimal mark, and a blank may be part of a name.
_SEPARATORS = {"\t": "tabs", ";": "';'", "|": "'|'", ",": "','", " ": "blanks"}
_SAMPLE_LINES = 20  # from which the separator is found
_LONGEST_CELL = 1000  # characters
_LONGEST_LINE = 200_000  # characters
_BLANKS = re.compile(r"[ \t]+")
_BEGINS_AS_DATA = re.compile(r"[-+.]?[0-9]")


class CsvLine(NamedTuple):
    """A line of text, and its number in the file, counted from 1."""

    number: int
    text: str


def read_table(path: str | os.PathLike[str], time: str | None) -> Table:
    """Read the table in a file.

    `time` is the name of the column of times, if the user gave one. It helps to
    recognise a header or a comment that names the columns.
    """
    text, notes = read_text(path)
    source = file_name(path)
    lines, comment = _lines(text)
    if not lines:
        raise DataError(f"{source}: there are no rows, only comments.")
    separator = _separator(source, lines)
    first = _split(source, lines[0], separator)
    header = lines[0] if _is_header(first, time) else None
    if header:
        names, lines, name_notes = _trimmed(first), lines[1:], ()
        rows = _rows(source, lines, separator, len(names), header)
    else:
        rows = _rows(source, lines, separator, len(first), None)
        width = max(len(_trimmed(row)) for row in rows.values())
        names, name_notes = _names_without_header(width, comment, separator, time)
    kept, column_notes = _named_columns(source, names, rows, header, time)
    columns = {names[i]: [row[i] for row in rows.values()] for i in kept}
    places = [f"line {number}" for number in rows]
    return Table(source, columns, places, notes + name_notes + column_notes)


def _lines(text: str) -> tuple[list[CsvLine], str]:
    """Return the lines that are neither blank nor comments, and the last comment above
    them."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines: list[CsvLine] = []
    comment = ""
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip(" \xa0")
        if line.startswith("#"):
            comment = comment if lines else line.strip("# ")
        elif line.strip():
            # In a header, # may be part of a name.
            is_data = lines or _BEGINS_AS_DATA.match(line)
            lines.append(CsvLine(number, _without_comment(line) if is_data else line))
    return lines, comment


def _without_comment(line: str) -> str:
    """Return a line without the comment at its end: all from the first blank and # that
    is not within quotes."""
    start = line.find(" #")
    while start >= 0 and line.count('"', 0, start) % 2:
        start = line.find(" #", start + 1)
    return line if start < 0 else line[:start].rstrip(" ")


def _cells(line: str, separator: str) -> list[str]:
    """Split a line into cells. Raises a `csv.Error` if its quotes do not match."""
    if separator == " ":
        line, separator = _BLANKS.sub("\t", line.strip()), "\t"
    rows = csv.reader([line], delimiter=separator, skipinitialspace=True, strict=True)
    return [cell.strip().replace("\t", " ") for cell in next(rows)]


def _split(source: str, line: CsvLine, separator: str) -> list[str]:
    """Split a line into cells, with an error that names the line if it cannot be."""
    where = f"{source}, line {line.number}"
    try:
        cells = _cells(line.text, separator)
    except csv.Error as error:
        if "limit" in str(error):
            raise DataError(f"{where}: a cell of too many characters.") from None
        raise _quotes_error(source, line) from None
    longest = max(map(len, cells))
    if longest > _LONGEST_CELL:
        raise DataError(
            f"{where}: a cell of {longest} characters. At most {_LONGEST_CELL} are "
            "read."
        )
    return cells


def _quotes_error(source: str, line: CsvLine) -> DataError:
    return DataError(
        f"{source}, line {line.number}: the quotes do not match. A quoted cell begins "
        "and ends with a quote, in one line."
    )


def _trimmed(cells: Sequence[str]) -> list[str]:
    """Return the cells without empty ones at the end, which come from separators at the
    end of a line."""
    end = len(cells)
    while end and not cells[end - 1]:
        end -= 1
    return list(cells[:end])


def _separator(source: str, lines: Sequence[CsvLine]) -> str:
    """Return the separator with the highest score among the first lines."""
    first = lines[0]
    if len(first.text) > _LONGEST_LINE:
        raise DataError(
            f"{source}, line {first.number}: a line of {len(first.text)} characters. "
            f"At most {_LONGEST_LINE} are read."
        )
    sample = lines[: max(2, min(_SAMPLE_LINES, _LONGEST_LINE // len(first.text)))]
    scores = {separator: _score(sample, separator) for separator in _SEPARATORS}
    best = max(scores, key=scores.__getitem__)
    if not scores[best]:
        if first.text.count('"') % 2:
            raise _quotes_error(source, first)
        raise DataError(
            f"{source}, line {first.number}: {quoted(first.text)} is one cell only. "
            "Separate columns by commas, semicolons, tabs, | or blanks, and put # "
            "before lines that are no data."
        )
    return best


def _score(lines: Sequence[CsvLine], separator: str) -> float:
    """Return how well a separator fits, from 0 (not at all) to 2.

    It is the share of lines with as many cells as the first one, plus the share of
    cells below the first line that are numbers, dates or missing.
    """
    rows = []
    for line in lines:
        try:
            rows.append(_trimmed(_cells(line.text, separator)))
        except csv.Error:
            rows.append([])
    if len(rows[0]) < 2:
        return 0.0
    same_width = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
    cells = [cell for row in rows[1:] or rows for cell in row]
    return same_width + sum(map(_is_value, cells)) / max(1, len(cells))


def _is_value(cell: str) -> bool:
    return is_number(cell) or is_missing(cell) or is_date(cell)


def _is_header(cells: Sequence[str], time: str | None) -> bool:
    """Return whether the first row is a header. It is not if all its cells are values,
    unless one of them is the name `time`."""
    return (
        not all(map(_is_value, cells)) or all(map(is_missing, cells)) or time in cells
    )


def _names_without_header(
    width: int, comment: str, separator: str, time: str | None
) -> tuple[list[str], tuple[str, ...]]:
    """Return names for the columns of a file without a header, and a note on them.

    They come from the comment above the data, if that has `width` words and one of them
    names the time. Otherwise they are t, and x or x[0], x[1] and so on.
    """
    try:
        words = _trimmed(_cells(comment, separator)) if comment else []
    except csv.Error:
        words = []
    if len(words) == width and _has_time(words, time):
        return words, ("The names of the columns come from the comment above them.",)
    quantities = ["x"] if width == 2 else [f"x[{i}]" for i in range(width - 1)]
    names = ["t", *quantities]
    listed = ", ".join(names[:4]) + (", ..." if width > 4 else "")
    return names, (f"The file has no header: its columns are called {listed}.",)


def _has_time(names: Sequence[str], time: str | None) -> bool:
    return any(name == time or is_time_name(name) for name in names)


def _rows(
    source: str,
    lines: Sequence[CsvLine],
    separator: str,
    width: int,
    header: CsvLine | None,
) -> dict[int, list[str]]:
    """Return the cells of each row, by the number of its line, all `width` cells long.
    Empty rows are left out."""
    rows = {}
    for line in lines:
        cells = _split(source, line, separator)
        trimmed = _trimmed(cells)
        if not trimmed:
            continue
        if len(cells) < width or len(trimmed) > width:
            first = f"header (line {header.number})" if header else "first row"
            count = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
            hint = ""
            if separator == "," and len(cells) > width:
                hint = " With decimal commas, separate cells by semicolons."
            raise DataError(
                f"{source}, line {line.number}: {count}, but the {first} has {width}. "
                f"Cells are separated by {_SEPARATORS[separator]}; put # before lines "
                f"that are no data.{hint}"
            )
        rows[line.number] = cells[:width]
    return rows


def _named_columns(
    source: str,
    names: Sequence[str],
    rows: dict[int, list[str]],
    header: CsvLine | None,
    time: str | None,
) -> tuple[list[int], tuple[str, ...]]:
    """Return the indices of the columns that have a name, and a note.

    A column without a name may be empty, or count the rows. Any other is an error.
    """
    where = f"{source}, line {header.number}" if header else source
    kept: dict[str, int] = {}
    notes: tuple[str, ...] = ()
    for index, name in enumerate(names):
        if name in kept:
            raise DataError(f"{where}: two columns are called {quoted(name)}.")
        column = [row[index] for row in rows.values()]
        if name:
            kept[name] = index
        elif index == 0 and _counts_rows(column) and _has_time(names, time):
            notes = ("The first column, without a name, counts the rows: left out.",)
        elif any(column):
            raise DataError(
                f"{where}: column {index + 1} has no name. Name it in the header; the "
                "time is called t."
            )
    return list(kept.values()), notes


def _counts_rows(column: Sequence[str]) -> bool:
    """Return whether a column counts the rows, starting with 0 or with 1."""
    count = len(column)
    return any(
        all(cell == str(i) for cell, i in zip(column, range(first, first + count)))
        for first in (0, 1)
    )
