"""Turning the text of a CSV file into a table: lines, separator, cells.

Each row is one line. The separator is found out from the text, unless the first line
says it, as Excel's `sep=;` does. Where a wrong guess could change a number, an error is
raised.
"""

import csv
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from .._util.errors import DataError, quoted
from .._util.text_files import file_name, read_text
from .cell_kinds import is_value
from .rows_to_table import Layout, make_table, trimmed
from .table import Table

# How messages call each separator. Of two that fit equally well the earlier is taken: a
# comma may also be a decimal mark, and a blank may be part of a name.
_SEPARATORS = {"\t": "tabs", ";": "';'", "|": "'|'", ",": "','", " ": "blanks"}
_SAMPLE_LINES = 20  # from which the separator is found
_LONGEST_CELL = 1000  # characters
_LONGEST_LINE = 200_000  # characters
_BLANKS = re.compile(r"[ \t]+")
_BEGINS_AS_DATA = re.compile(r"[-+.]?[0-9]")
# What Excel writes and reads as the first line of a file.
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?', re.IGNORECASE)


class CsvLines(NamedTuple):
    """The lines of a file that are neither blank nor comments, with their numbers in
    the file, counted from 1; the last comment above them; and the separator that the
    first line of the file names, if it does."""

    numbers: list[int]
    texts: list[str]
    comment: str
    separator: str | None


def read_table(path: str | os.PathLike[str], time: str | None) -> Table:
    """Read the table in a file.

    `time` is the name of the column of times, if the user gave one. It helps to
    recognise a header or a comment that names the columns.
    """
    text, notes = read_text(path)
    source = file_name(path)
    numbers, lines, comment, separator = _lines(source, text)
    if not lines:
        raise DataError(f"{source}: there are no rows, only comments.")
    separator = separator or _separator(f"{source}, line {numbers[0]}", lines)
    rows = [
        _split(source, number, line, separator) for number, line in zip(numbers, lines)
    ]
    hint = (
        f"Cells are separated by {_SEPARATORS[separator]}; put # before lines that are "
        "no data."
    )
    is_comma = separator == ","
    more_hint = " With decimal commas, separate cells by semicolons." * is_comma
    words = _comment_words(comment, separator)
    layout = Layout(source, "line", hint, more_hint, words, notes)
    return make_table(layout, numbers, rows, time)


def _lines(source: str, text: str) -> CsvLines:
    """Divide a text into lines."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    numbers: list[int] = []
    lines: list[str] = []
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
            numbers.append(number)
            lines.append(line)
    return CsvLines(numbers, lines, comment, separator)


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


def _split(source: str, number: int, line: str, separator: str) -> list[str]:
    """Split a line into cells, with an error that names the line if it cannot be."""
    try:
        cells = _cells(line, separator)
    except csv.Error as error:
        where = f"{source}, line {number}"
        if "limit" in str(error):
            raise DataError(f"{where}: a cell of too many characters.") from None
        raise _quotes_error(where) from None
    if len(line) > _LONGEST_CELL:
        longest = max(map(len, cells))
        if longest > _LONGEST_CELL:
            raise DataError(
                f"{source}, line {number}: a cell of {longest} characters. At most "
                f"{_LONGEST_CELL} are read."
            )
    return cells


def _quotes_error(where: str) -> DataError:
    return DataError(
        f"{where}: the quotes do not match. A quoted cell begins and ends with a "
        "quote, in one line."
    )


def _separator(where: str, lines: Sequence[str]) -> str:
    """Return the separator with the highest score among the first lines. The first one
    stands at `where`."""
    first = lines[0]
    sample = lines[: max(2, min(_SAMPLE_LINES, _LONGEST_LINE // len(first)))]
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
    rows = []
    for line in lines:
        try:
            rows.append(trimmed(_cells(line, separator)))
        except csv.Error:
            rows.append([])
    if len(rows[0]) < 2:
        return 0.0
    same_width = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
    cells = [cell for row in rows[1:] or rows for cell in row]
    return same_width + sum(map(is_value, cells)) / max(1, len(cells))


def _comment_words(comment: str, separator: str) -> list[str]:
    """Return the words of the comment above the data."""
    try:
        return trimmed(_cells(comment, separator)) if comment else []
    except csv.Error:
        return []
