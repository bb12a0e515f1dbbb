"""`read_csv`: from a text file or an Excel workbook to a table of text, and to `Data`.

Each row is one line. The separator is found out from the text, unless the first line
says it, as Excel's `sep=;` does. Where a wrong guess could change a number, an error is
raised. A workbook is a compressed archive, so that a small file may hold more than the
memory does. Its size is checked before anything is unpacked, and its cells are counted
while they are read."""

import csv
import io
import os
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import date, datetime, time as time_of_day, timedelta
from pathlib import Path
from typing import Any

from .._util import wording
from .._util.errors import DataError, did_you_mean, quoted
from .._util.files import file_name, read_bytes, read_text
from .columns import Columns, prepared, read_measurements
from .data import Data
from .table import Table, is_missing, is_time_name
from .times import is_value

_LONGEST_CELL = 1000  # characters
# How messages call each separator. Of two that fit equally well the earlier is taken: a
# comma may also be a decimal mark, and a blank may be part of a name.
_SEPARATORS = {"\t": "tabs", ";": "';'", "|": "'|'", ",": "','", " ": "blanks"}
_SAMPLE_LINES = 20  # from which the separator is found
_LONGEST_LINE = 200_000  # characters
_BLANKS = re.compile(r"[ \t]+")
_BEGINS_AS_DATA = re.compile(r"[-+.]?[0-9]")
# What Excel writes and reads as the first line of a file.
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
# The first bytes of a workbook, and of one that is old or encrypted.
_ARCHIVE, _OLD_EXCEL = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_CONTENT = "xl/workbook.xml"
_MOST_BYTES = 200_000_000  # when unpacked
_MOST_CELLS = 20_000_000  # empty ones included
_MOST_ROWS = 2**20
_SHEET_HINT = (
    "Keep one table in a sheet, with the names of the columns in its first row."
)


def read_csv(
    path: str | os.PathLike[str],
    *,
    time: str | None = None,
    columns: Columns | None = None,
    label: str | None = None,
    start: float | str | None = None,
    where: Mapping[str, Any] | None = None,
    sheet: str | None = None,
) -> Data:
    """Read measurements from a text file or a workbook: a column of times and columns
    of quantities.

    **Arguments**

    - `path`: the file. An Excel workbook (.xlsx) needs `pip install 'ddefind[excel]'`.
    - `time`: the name of the column of times. By default it is the column called `t`,
      `time`, `date` or similar.
    - `columns`: the names of the quantities to read, in this order. By default all are
      read. `NAME_sd` is the standard deviation of `NAME` and is read with it. To give
      quantities other names than their columns, `{"hare": "Hare (n/km2)"}`; to pool
      replicates, `{"OD": ["well A1", "well A2"]}`.
    - `label`: a name for the data set. By default it is the name of the file.
    - `start`: the time in the file that becomes time 0, where the history ends. By
      default it is 0. It is the first time if that is negative, a date, or larger than
      half of the time from first to last.
    - `where`: which rows to read, as `{"treatment": "control"}`. By default all are.
    - `sheet`: the name of the sheet of a workbook. By default it is the first one.

    Columns are separated by commas, semicolons, tabs, `|` or blanks. A decimal comma is
    understood, `#` begins a comment, and an empty cell or `NA` is a missing value. The
    `notes` of the data say what else was done with the file. A `DataError` says in
    which file, line and column something is wrong.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "lake.csv"
    >>> _ = path.write_text("year; prey; hunter\\n1900; 30; 4\\n1901; 47,2; 6,1\\n")
    >>> print(dd.read_csv(path))
    Data 'lake': 2 times in [0, 1] since 1900, 2 quantities (prey, hunter)
      Times were shifted: time 0 is 1900 in the source.
    """
    table = prepared(read_any_table(path, time, sheet), time, where or {})
    fields = read_measurements(table, columns, start)
    return Data(**fields, label=Path(path).stem if label is None else label)


def read_any_table(
    path: str | os.PathLike[str], time: str | None, sheet: str | None
) -> Table:
    """Return the table in a text file, or in a sheet of a workbook.

    `time` is the name of the column of times, if the user gave one. It helps to
    recognise a header or a comment that names the columns."""
    if _is_workbook(path):
        return _read_workbook(path, sheet, time)
    if sheet is not None:
        raise ValueError(
            f"{wording.SHEET} is for workbooks (.xlsx), but {str(path)!r} is none."
        )
    return _read_text_table(path, time)


def _is_workbook(path: str | os.PathLike[str]) -> bool:
    """Whether a file is called like a workbook, or is one by its first bytes."""
    if file_name(path).lower().endswith((".xlsx", ".xlsm", ".xls")):
        return True
    # What is wrong with a file is said where it is read as text.
    with suppress(OSError, ValueError):
        if Path(path).is_file():
            with Path(path).open("rb") as file:
                return file.read(4) in (_ARCHIVE, _OLD_EXCEL)
    return False


# Text files


def _read_text_table(path: str | os.PathLike[str], time: str | None) -> Table:
    """Read the table in a text file."""
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
    more_hint = " With decimal commas, separate cells by semicolons."
    return _make_table(
        source,
        "line",
        rows,
        time,
        f"Cells are separated by {_SEPARATORS[separator]}; put # before lines that are "
        "no data.",
        more_hint if separator == "," else "",
        _cells_or_none(comment, separator),
        notes,
    )


def _lines(source: str, text: str) -> tuple[dict[int, str], str, str | None]:
    """Return the lines of a file that are neither blank nor comments, by their numbers
    in the file, counted from 1; the last comment above them; and the separator that the
    first line of the file names, if it does."""
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
    return lines, comment, separator


def _named_separator(source: str, number: int, line: str) -> str | None:
    """Return the separator that a line such as `sep=;` names; None for others."""
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
    """Return a line without its comment: all from the first unquoted blank and #."""
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
    """Split a line into cells up to the last full one; none on unmatched quotes."""
    try:
        return _trimmed(_cells(line, separator))
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
    longest = max(map(len, cells)) if len(line) > _LONGEST_CELL else 0
    if longest > _LONGEST_CELL:
        raise DataError(
            f"{where}: a cell of {longest} characters. At most {_LONGEST_CELL} are "
            "read."
        )
    return cells


def _quotes_error(where: str) -> DataError:
    return DataError(
        f"{where}: the quotes do not match. A quoted cell begins and ends with a "
        "quote, in one line."
    )


def _separator(where: str, lines: Mapping[int, str]) -> str:
    """Return the separator with the highest score among the first lines."""
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
    cells below the first line that are numbers, dates or missing."""
    rows = [_cells_or_none(line, separator) for line in lines]
    if len(rows[0]) < 2:
        return 0.0
    same_width = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
    cells = [cell for row in rows[1:] or rows for cell in row]
    return same_width + sum(map(is_value, cells)) / max(1, len(cells))


# Workbooks


def _read_workbook(
    path: str | os.PathLike[str], sheet: str | None, time: str | None
) -> Table:
    """Read the table in a sheet, by default the first one of the workbook."""
    source, content = file_name(path), read_bytes(path)
    _check_content(source, content)
    with _open(source, content) as workbook:
        names = [each.title for each in workbook.worksheets]
        if not names:
            raise DataError(f"{source}: the workbook has no sheet of cells.")
        if sheet is not None and sheet not in names:
            hint = did_you_mean(str(sheet), names)
            raise DataError(f"{source}: there is no sheet {quoted(str(sheet))}.{hint}")
        chosen = names[0] if sheet is None else sheet
        where = f"{source}, sheet {quoted(chosen)}"
        rows = dict(_rows(where, workbook[chosen]))
    if not rows:
        raise DataError(f"{where}: there are no rows.")
    notes: tuple[str, ...] = ()
    if sheet is None and len(names) > 1:
        listed = ", ".join(map(quoted, names[1:6])) + (", ..." if names[6:] else "")
        note = f"The first sheet, {quoted(names[0])}, was read. Others are {listed}: "
        notes = (f"{note}{wording.SHEET_NAME}.",)
    rows, title_notes = _without_titles(rows)
    width = len(next(iter(rows.values())))
    full = {n: [*cells, *[""] * (width - len(cells))] for n, cells in rows.items()}
    notes += title_notes
    return _make_table(where, "row", full, time, _SHEET_HINT, notes=notes)


def _check_content(source: str, content: bytes) -> None:
    """Raise an error unless this is a workbook of moderate size."""
    if content.startswith(_OLD_EXCEL):
        raise DataError(
            f"{source}: this is a workbook of old or encrypted Excel. Save it as .xlsx "
            "without a password, or as CSV (UTF-8)."
        )
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise DataError(f"{source}: this is not a workbook, or damaged.") from None
    if _CONTENT not in {entry.filename for entry in entries}:
        raise DataError(
            f"{source}: this archive is not an Excel workbook. Save the table as .xlsx "
            "or CSV (UTF-8)."
        )
    # No more than what an entry declares is ever unpacked of it.
    size = sum(entry.file_size for entry in entries)
    if size > _MOST_BYTES:
        raise DataError(
            f"{source}: the workbook is {size} bytes long when it is unpacked. At most "
            f"{_MOST_BYTES} are read. Save the sheet as CSV (UTF-8)."
        )


@contextmanager
def _open(source: str, content: bytes) -> Iterator[Any]:
    """Open a workbook for reading values only."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise DataError(
            f"{source}: reading Excel workbooks needs openpyxl: `pip install "
            "'ddefind[excel]'`. Or save the sheet as CSV (UTF-8)."
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on styles and the like
            stream = io.BytesIO(content)
            with closing(load_workbook(stream, read_only=True, data_only=True)) as book:
                yield book
    except DataError:
        raise
    except Exception as error:  # A damaged workbook may fail in any way.
        kind = type(error).__name__
        raise DataError(f"{source}: the workbook is damaged ({kind}).") from None


def _rows(where: str, sheet: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells, as text, of each row of a sheet that is not
    empty and no comment."""
    sheet.reset_dimensions()  # They may be wrong, and very large.
    count = 0
    for number, values in enumerate(sheet.iter_rows(values_only=True), start=1):
        count += len(values)
        if count > _MOST_CELLS or number > _MOST_ROWS:
            raise DataError(
                f"{where}: the sheet has more than {_MOST_CELLS} cells or {_MOST_ROWS} "
                "rows. Save it as CSV (UTF-8)."
            )
        cells = _trimmed([_text(value) for value in values])
        if cells and not cells[0].startswith("#"):
            if max(map(len, cells)) > _LONGEST_CELL:
                raise DataError(
                    f"{where}, row {number}: a cell of more than {_LONGEST_CELL} "
                    "characters."
                )
            yield number, cells


def _text(value: Any) -> str:
    """Return the value of a cell as text, numbers with all their digits."""
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime):
        is_midnight = value.time() == time_of_day()
        return (value.date() if is_midnight else value).isoformat()
    if isinstance(value, date | time_of_day):
        return value.isoformat()
    if isinstance(value, timedelta):
        minutes, seconds = divmod(value.total_seconds(), 60)
        hours, minutes = divmod(int(minutes), 60)
        return f"{hours:02}:{minutes:02}:{seconds:09.6f}"
    return " ".join(str(value).split())


def _without_titles(
    rows: dict[int, list[str]],
) -> tuple[dict[int, list[str]], tuple[str, ...]]:
    """Return the rows, by their numbers, from the first with several cells on, and a
    note on those above it."""
    numbers = list(rows)
    several = [sum(map(bool, cells)) > 1 for cells in rows.values()]
    first = several.index(True) if any(several) else 0
    if not first:
        return rows, ()
    title = next(filter(None, rows[numbers[0]]))
    more = f" to {numbers[first - 1]}" if first > 1 else ""
    place = f"row {numbers[0]}{more}"
    note = f"Above the table, {place} ({quoted(title)}) was left out."
    return {number: rows[number] for number in numbers[first:]}, (note,)


# From rows of cells to a table with named columns


def _make_table(
    source: str,
    place: str,
    rows: Mapping[int, list[str]],
    time: str | None,
    hint: str,
    more_hint: str = "",
    comment: Sequence[str] = (),
    notes: tuple[str, ...] = (),
) -> Table:
    """Return the table in the rows, of which there is at least one. They are given by
    their numbers in the source, counted from 1.

    A row is called a `place`, line or row. `hint` is a sentence for one that has not as
    many cells as the first, and `more_hint` for one that has more. The words of a
    `comment` above the data may be names of columns."""
    number, first = next(iter(rows.items()))
    # Values are no header, unless one of them is the name `time`.
    has_header = not all(map(is_value, first)) or all(map(is_missing, first))
    has_header = has_header or time in first
    if has_header:
        where, names = f"{source}, {place} {number}", _trimmed(first)
        width, first_row = len(names), f"header ({place} {number})"
        rows = {n: cells for n, cells in rows.items() if n != number}
    else:
        where, names = source, []
        width, first_row = len(first), "first row"
    full: dict[int, list[str]] = {}
    for number, cells in rows.items():
        if not any(cells):
            continue
        if len(cells) < width or len(_trimmed(cells)) > width:
            count = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
            raise DataError(
                f"{source}, {place} {number}: {count}, but the {first_row} has "
                f"{width}. {hint}{more_hint if len(cells) > width else ''}"
            )
        full[number] = cells[:width]
    if not has_header:
        width = max(len(_trimmed(row)) for row in full.values())
        names, note = _names_without_header(width, comment, time)
        notes += (note,)
    columns = [list(column) for column in zip(*full.values())] or [[] for _ in names]
    kept, column_notes = _named_columns(where, names, columns, time)
    places = [f"{place} {number}" for number in full]
    return Table(source, kept, places, (*notes, *column_notes))


def _trimmed(cells: Sequence[str]) -> list[str]:
    """Return the cells without empty ones at the end, where separators may stand."""
    end = len(cells)
    while end and not cells[end - 1]:
        end -= 1
    return list(cells[:end])


def _names_without_header(
    width: int, words: Sequence[str], time: str | None
) -> tuple[list[str], str]:
    """Return names for the columns of a source without a header, and a note on them.

    They are the words of the comment above the data, if there are `width` of them and
    one names the time. Otherwise they are t, and x or x[0], x[1] and so on."""
    if len(words) == width and _has_time(words, time):
        return list(words), "The names of the columns come from the comment above them."
    names = ["t", *(["x"] if width == 2 else [f"x[{i}]" for i in range(width - 1)])]
    listed = ", ".join(names[:4]) + (", ..." if width > 4 else "")
    return names, f"The file has no header: its columns are called {listed}."


def _has_time(names: Sequence[str], time: str | None) -> bool:
    return any(name == time or is_time_name(name) for name in names)


def _named_columns(
    where: str, names: Sequence[str], columns: Sequence[list[str]], time: str | None
) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Return the columns that have a name, and a note.

    A column without a name may be empty, or count the rows. Any other is an error."""
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
    counts = [[str(i + first) for i in range(len(column))] for first in (0, 1)]
    return list(column) in counts
