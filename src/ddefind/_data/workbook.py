"""Reading a sheet of an Excel workbook (.xlsx) as a table of text.

A workbook is a compressed archive, so that a small file may hold more than the memory
does. Its size is checked before anything is unpacked, and its cells are counted while
they are read.
"""

import io
import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from typing import Any

from .._util import wording
from .._util.errors import DataError, did_you_mean, quoted
from .._util.files import file_name, read_bytes
from .csv_lines import LONGEST_CELL, Layout, make_table, trimmed
from .table import Table

# The first bytes of a workbook, and of one that is old or encrypted.
ARCHIVE, OLD_EXCEL = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_CONTENT = "xl/workbook.xml"
_MOST_BYTES = 200_000_000  # when unpacked
_MOST_CELLS = 20_000_000  # empty ones included
_MOST_ROWS = 2**20
_HINT = "Keep one table in a sheet, with the names of the columns in its first row."


def read_workbook(
    path: str | os.PathLike[str], sheet: str | None, time: str | None
) -> Table:
    """Read the table in a sheet, by default the first one of the workbook.

    `time` is the name of the column of times, if the user gave one.
    """
    source = file_name(path)
    content = read_bytes(path)
    _check_content(source, content)
    with _open(source, content) as workbook:
        names = [each.title for each in workbook.worksheets]
        chosen = _chosen_sheet(source, names, sheet)
        where = f"{source}, sheet {quoted(chosen)}"
        rows = dict(_rows(where, workbook[chosen]))
    if not rows:
        raise DataError(f"{where}: there are no rows.")
    rows, title_notes = _without_titles(rows)
    width = len(next(iter(rows.values())))
    full = {n: [*cells, *[""] * (width - len(cells))] for n, cells in rows.items()}
    notes = _sheet_notes(names, sheet) + title_notes
    return make_table(Layout(where, "row", _HINT, notes=notes), full, time)


def _chosen_sheet(source: str, names: list[str], sheet: str | None) -> str:
    """Return the name of the sheet to read."""
    if not names:
        raise DataError(f"{source}: the workbook has no sheet of cells.")
    if sheet is not None and sheet not in names:
        hint = did_you_mean(str(sheet), names)
        raise DataError(f"{source}: there is no sheet {quoted(str(sheet))}.{hint}")
    return names[0] if sheet is None else sheet


def _sheet_notes(names: list[str], sheet: str | None) -> tuple[str, ...]:
    """Return a note on the sheets that were not read, unless one was asked for."""
    if sheet is not None or len(names) == 1:
        return ()
    listed = ", ".join(map(quoted, names[1:6])) + (", ..." if names[6:] else "")
    note = f"The first sheet, {quoted(names[0])}, was read. Others are {listed}: "
    return (f"{note}{wording.SHEET_NAME}.",)


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


def _check_content(source: str, content: bytes) -> None:
    """Raise an error unless this is a workbook of moderate size."""
    if content.startswith(OLD_EXCEL):
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
    workbook = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on styles and the like
            stream = io.BytesIO(content)
            workbook = load_workbook(stream, read_only=True, data_only=True)
            yield workbook
    except DataError:
        raise
    except Exception as error:  # A damaged workbook may fail in any way.
        kind = type(error).__name__
        raise DataError(f"{source}: the workbook is damaged ({kind}).") from None
    finally:
        if workbook is not None:
            workbook.close()


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
        cells = trimmed([_text(value) for value in values])
        if cells and not cells[0].startswith("#"):
            if max(map(len, cells)) > LONGEST_CELL:
                raise DataError(
                    f"{where}, row {number}: a cell of more than {LONGEST_CELL} "
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
        is_midnight = value.time() == time()
        return (value.date() if is_midnight else value).isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        minutes, seconds = divmod(value.total_seconds(), 60)
        hours, minutes = divmod(int(minutes), 60)
        return f"{hours:02}:{minutes:02}:{seconds:09.6f}"
    return " ".join(str(value).split())
