"""Data from files."""

import os
from collections.abc import Sequence
from pathlib import Path

from .columns import measured
from .csv_table import read_table
from .data import Data


def read_csv(
    path: str | os.PathLike[str],
    *,
    time: str | None = None,
    columns: str | Sequence[str] | None = None,
    label: str | None = None,
    start: float | str | None = None,
) -> Data:
    """Read measurements from a text file: a column of times and columns of quantities.

    **Arguments**

    - `time`: the name of the column of times. By default the one that is called `t`,
      `time`, `date` or alike.
    - `columns`: the quantities to read, in this order. By default all. `NAME_sd` is the
      standard deviation of `NAME` and is read with it.
    - `label`: the data set's name; by default the file's.
    - `start`: what time 0 is in the file. By default 0, or the first time if that is
      negative, a date, or larger than half of the time from first to last.

    Commas, semicolons, tabs, `|` and blanks separate, a decimal comma is understood,
    `#` begins a comment, and an empty cell or `NA` is a missing value. What was done
    with the file beyond that is said in the `notes` of the data. A `DataError` says in
    which file, line and column something is wrong.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "lake.csv"
    >>> _ = path.write_text("year; prey; hunter\\n1900; 30; 4\\n1901; 47,2; 6,1\\n")
    >>> print(dd.read_csv(path))
    Data 'lake': 2 times in [0, 1] since 1900, 2 quantities (prey, hunter)
      Times were shifted: time 0 is 1900 in the source.
    """
    found = measured(read_table(path, time), time, columns, start)
    label = Path(path).stem if label is None else label
    return Data(**found._asdict(), label=label)
