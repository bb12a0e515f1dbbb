"""Reading measurements from a file: the public function `read_csv`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .data import Data
from .read_columns import Columns, read_measurements
from .read_table import read_any_table


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
    table = read_any_table(path, time, sheet)
    measurements = read_measurements(table, time, columns, start, where or {})
    label = Path(path).stem if label is None else label
    return Data(**measurements._asdict(), label=label)
