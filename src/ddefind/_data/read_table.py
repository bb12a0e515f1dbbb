"""Reading the table in a file, whatever its kind."""

import os

from .._util import wording
from .csv_to_table import read_table
from .table import Table
from .workbook_to_table import is_workbook, read_workbook


def read_any_table(
    path: str | os.PathLike[str], time: str | None, sheet: str | None
) -> Table:
    """Return the table in a text file, or in a sheet of a workbook. `time` is the name
    of the column of times, if the user gave one."""
    if is_workbook(path):
        return read_workbook(path, sheet, time)
    if sheet is not None:
        raise ValueError(
            f"{wording.SHEET} is for workbooks (.xlsx), but {str(path)!r} is none."
        )
    return read_table(path, time)
