"""From the text of a file to a table: lines, separator, header, rows.

A row is one line. The separator and whether there is a header are found out from the
text; nothing is guessed where it would change a number.
"""

import csv
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from .._util.errors import DataError, shown
from .._util.text_files import file_name, read_text
from .cells import is_missing, is_number
from .columns import is_time_name
from .dates import is_date
from .table import Table

# In the order of trust: a comma may be a decimal mark, a blank may stand in a name.
_SEPARATORS = {"\t": "tabs", ";": "';'", "|": "'|'", ",": "','", " ": "blanks"}
_SAMPLE = 20  # lines from which the separator is found
_LONGEST = 1000  # characters in a cell
_LONGEST_LINE = 200_000
_BLANKS = re.compile(r"[ \t]+")
_BEGINS_AS_DATA = re.compile(r"[-+.]?[0-9]")


class CsvLine(NamedTuple):
    """A line of text, and its number in the file from 1 on."""

    number: int
    text: str


def read_table(path: str | os.PathLike[str], time: str | None) -> Table:
    """The table in a file. `time` is the name of the time, if it is no usual one."""
    text, notes = read_text(path)
    source = file_name(path)
    lines, comment = _lines(text)
    if not lines:
        raise DataError(f"{source}: there are no rows, only comments.")
    separator = _separator(source, lines)
    first = _split(source, lines[0], separator)
    header = lines[0] if _is_header(first, time) else None
    if header:
        names, lines, more = _trimmed(first), lines[1:], ()
        rows = _rows(source, lines, separator, len(names), header)
    else:
        rows = _rows(source, lines, separator, len(first), None)
        width = max(len(_trimmed(row)) for row in rows.values())
        names, more = _made_up_names(width, comment, separator, time)
    kept, left_out = _kept(source, names, rows, header, time)
    columns = {names[i]: [row[i] for row in rows.values()] for i in kept}
    places = [f"line {number}" for number in rows]
    return Table(source, columns, places, notes + more + left_out)


def _lines(text: str) -> tuple[list[CsvLine], str]:
    """The lines that are neither blank nor comments, and the comment above them."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines: list[CsvLine] = []
    comment = ""
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip(" \xa0")
        if line.startswith("#"):
            comment = comment if lines else line.strip("# ")
        elif line.strip():
            # A # within the header may belong to a name.
            is_data = lines or _BEGINS_AS_DATA.match(line)
            lines.append(CsvLine(number, _without_comment(line) if is_data else line))
    return lines, comment


def _without_comment(line: str) -> str:
    """A row without what follows a blank and #, outside of quotes."""
    at = line.find(" #")
    while at >= 0 and line.count('"', 0, at) % 2:
        at = line.find(" #", at + 1)
    return line if at < 0 else line[:at].rstrip(" ")


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        line, separator = _BLANKS.sub("\t", line.strip()), "\t"
    rows = csv.reader([line], delimiter=separator, skipinitialspace=True, strict=True)
    return [cell.strip().replace("\t", " ") for cell in next(rows)]


def _split(source: str, line: CsvLine, separator: str) -> list[str]:
    where = f"{source}, line {line.number}"
    try:
        cells = _cells(line.text, separator)
    except csv.Error as error:
        if "limit" in str(error):
            raise DataError(f"{where}: a cell of too many characters.") from None
        raise _quotes(source, line) from None
    longest = max(map(len, cells))
    if longest > _LONGEST:
        raise DataError(
            f"{where}: a cell of {longest} characters. At most {_LONGEST} are read."
        )
    return cells


def _quotes(source: str, line: CsvLine) -> DataError:
    return DataError(
        f"{source}, line {line.number}: the quotes do not match. A quoted cell begins "
        "and ends with a quote, in one line."
    )


def _trimmed(cells: Sequence[str]) -> list[str]:
    """Without the empty cells that separators at the end of a line make."""
    end = len(cells)
    while end and not cells[end - 1]:
        end -= 1
    return list(cells[:end])


def _separator(source: str, lines: Sequence[CsvLine]) -> str:
    """What gives the most rows the width of the first, and the most numbers."""
    first = lines[0]
    if len(first.text) > _LONGEST_LINE:
        raise DataError(
            f"{source}, line {first.number}: a line of {len(first.text)} characters. "
            f"At most {_LONGEST_LINE} are read."
        )
    sample = lines[: max(2, min(_SAMPLE, _LONGEST_LINE // len(first.text)))]
    merits = {separator: _merit(sample, separator) for separator in _SEPARATORS}
    best = max(merits, key=merits.__getitem__)
    if not merits[best]:
        if first.text.count('"') % 2:
            raise _quotes(source, first)
        raise DataError(
            f"{source}, line {first.number}: {shown(first.text)} is one cell only. "
            "Separate columns by commas, semicolons, tabs, | or blanks, and put # "
            "before lines that are no data."
        )
    return best


def _merit(lines: Sequence[CsvLine], separator: str) -> float:
    rows = []
    for line in lines:
        try:
            rows.append(_trimmed(_cells(line.text, separator)))
        except csv.Error:
            rows.append([])
    if len(rows[0]) < 2:
        return 0.0
    alike = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
    cells = [cell for row in rows[1:] or rows for cell in row]
    return alike + sum(map(_is_value, cells)) / max(1, len(cells))


def _is_value(cell: str) -> bool:
    return is_number(cell) or is_missing(cell) or is_date(cell)


def _is_header(cells: Sequence[str], time: str | None) -> bool:
    """Whether the first row has names: not if it has numbers and dates alone, unless
    one is called the time."""
    return (
        not all(map(_is_value, cells)) or all(map(is_missing, cells)) or time in cells
    )


def _made_up_names(
    width: int, comment: str, separator: str, time: str | None
) -> tuple[list[str], tuple[str, ...]]:
    """Names for a file without a header: those of the comment above, if it fits."""
    try:
        above = _trimmed(_cells(comment, separator)) if comment else []
    except csv.Error:
        above = []
    if len(above) == width and _has_time(above, time):
        return above, ("The names of the columns come from the comment above them.",)
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
    """The cells of each row, by its line; all as many as there are names."""
    rows = {}
    for line in lines:
        cells = _split(source, line, separator)
        filled = _trimmed(cells)
        if not filled:
            continue
        if len(cells) < width or len(filled) > width:
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


def _kept(
    source: str,
    names: Sequence[str],
    rows: dict[int, list[str]],
    header: CsvLine | None,
    time: str | None,
) -> tuple[list[int], tuple[str, ...]]:
    """The columns that have a name, where nothing is lost with the others."""
    where = f"{source}, line {header.number}" if header else source
    kept: dict[str, int] = {}
    notes: tuple[str, ...] = ()
    for index, name in enumerate(names):
        if name in kept:
            raise DataError(f"{where}: two columns are called {shown(name)}.")
        column = [row[index] for row in rows.values()]
        if name:
            kept[name] = index
        elif index == 0 and _counts(column) and _has_time(names, time):
            notes = ("The first column, without a name, counts the rows: left out.",)
        elif any(column):
            raise DataError(
                f"{where}: column {index + 1} has no name. Name it in the header; the "
                "time is called t."
            )
    return list(kept.values()), notes


def _counts(column: Sequence[str]) -> bool:
    """Whether these are the numbers of the rows, from 0 or from 1 on."""
    count = len(column)
    return any(
        all(cell == str(i) for cell, i in zip(column, range(n, n + count)))
        for n in (0, 1)
    )
