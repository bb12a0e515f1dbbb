"""Measurements: values at times, with their names and standard deviations; `read_csv`
reads them from a file."""

import csv
import io
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from .._util import wording
from .._util.errors import DataError, did_you_mean, quoted
from .._util.files import file_name, write_whole
from .columns import SD_SUFFIX, Columns, read_measurements
from .csv_lines import read_csv_table
from .stack import DataStack, are_of_usual_size, stack_arrays, stack_frame, stack_sets
from .table import Table, frame_table
from .workbook import ARCHIVE, OLD_EXCEL, read_workbook


@final
@dataclass(frozen=True, init=False, repr=False, eq=False)
class Data:
    """Measured values at measured times.

    **Arguments**

    - `t`: N times, none before 0, in any order. A repeated time is a replicate.
    - `x`: N values, or an (N, k) array of k quantities. NaN stands for a value that was
      not measured.
    - `sd`: the standard deviation of the noise: one number, one per quantity, or one
      per value. Without it all values have the same weight.
    - `below`: True where a value is only known to be below the number in `x`, as one
      below a detection limit; an array of the shape of `x`.
    - `names`: the names of the k quantities; `has_given_names` says whether there are
      any. By default they are called x, or x[0], x[1] and so on.
    - `label`: a name for the data set.
    - `origin`: the time in the source of the data, a number or a date, that is time 0.
    - `notes`: sentences on how the data were read.
    - `axis_labels`: the labels of the axes of figures, such as names with units: of the
      time, then of each quantity. By default these are time and the names.

    The arrays are kept sorted by time, as float64. `read_csv` reads data from a file,
    `Data.from_pandas` from a data frame.

    >>> Data([1.0, 0.0], [5.0, 4.0])
    Data: 2 times in [0, 1], 1 quantity (x)
    """

    t: np.ndarray
    x: np.ndarray
    sd: np.ndarray | None
    names: tuple[str, ...]
    has_given_names: bool
    label: str | None
    origin: float | str
    notes: tuple[str, ...]
    axis_labels: tuple[str, ...]
    below: np.ndarray | None

    def __init__(
        self,
        t: Any,
        x: Any,
        *,
        sd: Any = None,
        names: Sequence[str] | None = None,
        label: str | None = None,
        origin: float | str = 0.0,
        notes: Sequence[str] = (),
        axis_labels: Sequence[str] | None = None,
        below: Any = None,
    ):
        t, x = numbers("t", t), numbers("x", x)
        if t.ndim != 1:
            raise DataError(f"`t` must be a vector of times, but has shape {t.shape}.")
        if x.ndim == 1:
            x = x[:, None]
        if x.ndim != 2 or len(x) != len(t):
            raise DataError(
                f"`x` must have one row per time, shape ({len(t)},) or ({len(t)}, k), "
                f"but has shape {x.shape}."
            )
        _check_times(t)
        _check_values(x)
        order = np.argsort(t, kind="stable")
        has_given_names = names is not None
        names = _names(names, x.shape[1])
        fields = {
            "t": t[order],
            "x": x[order],
            "sd": None if sd is None else _deviations(sd, x)[order],
            "names": names,
            "has_given_names": has_given_names,
            "label": label,
            "origin": _origin(origin),
            "notes": (notes,) if isinstance(notes, str) else tuple(notes),
            "axis_labels": _axis_labels(axis_labels, names),
            "below": _flags(below, x, order),
        }
        for name, value in fields.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    @classmethod
    def from_pandas(
        cls,
        frame: Any,
        *,
        time: str | None = None,
        columns: Columns | None = None,
        label: str | None = None,
        start: float | str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> "Data":
        """Read measurements from a data frame, by the rules of `read_csv`.

        If there is no column of times, the index is used, provided that it holds
        numbers or dates and does not just count the rows. Frames of other libraries
        work as well if they have `columns` and return a column by its name.
        """
        table = frame_table(frame, time)
        time = table.time or time
        fields = read_measurements(table, time, columns, start, where or {})
        return cls(**fields, label=label)

    @classmethod
    def stack(
        cls,
        t: Any,
        x: Any = None,
        *,
        sd: Any = None,
        names: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        id: str | None = None,
        time: str | None = None,
        columns: Sequence[str] | str | None = None,
    ) -> DataStack:
        """Stack many data sets, for `fit_many`.

        - `Data.stack(t, x)`: times (N,) or (sets, N), values (sets, N) or (sets, N, k).
        - `Data.stack(frame, id="animal")`: a set for each value of a column.
        - `Data.stack([data, ...])`: sets with the same quantities."""
        if x is not None:
            t, x = numbers("t", t), numbers("x", x)
            sd = None if sd is None else numbers("sd", sd)
            return stack_arrays(cls, t, x, sd, names, labels)
        if hasattr(t, "columns"):
            return stack_frame(cls, t, id, time, columns)
        return stack_sets(cls, t)

    @property
    def T(self) -> float:
        """The last time."""
        return float(self.t[-1])

    def from_first_time(self) -> "Data":
        """Return the same data with times that are counted from the first one."""
        first = float(self.t[0])
        note = f"Times were shifted: time 0 is {first:.15g} in the source."
        origin = self.origin if isinstance(self.origin, str) else self.origin + first
        notes = (*self.notes, note)
        return self.with_fields(t=self.t - first, origin=origin, notes=notes)

    def select(self, names: str | Sequence[str]) -> "Data":
        """Return the same data with the quantities `names`, in that order.

        A name that the data do not have becomes a column of NaN, as a quantity that was
        not measured. Every quantity of the data must be among `names`. If there is one
        quantity and one name, the quantity is renamed; several quantities without names
        are taken in the order of as many `names`.

        >>> Data([0, 1], [5.0, 4.0], names="prey").select(["hunter", "prey"]).x
        array([[nan,  5.],
               [nan,  4.]])
        """
        names = (names,) if isinstance(names, str) else tuple(names)
        notes, known = self.notes, self.names
        if len(names) == len(known) == 1 and names != known:
            notes += (f"Column {quoted(known[0])} is taken for {quoted(names[0])}.",)
            known = names
        elif not self.has_given_names and not set(known) <= set(names):
            if len(known) != len(names):
                raise DataError(
                    f"The data have {len(known)} columns without names, but "
                    f"{len(names)} quantities are observed: {', '.join(names)}. Say "
                    f"which they are, as `dd.Data(t, x, names={list(names)!r})`; one "
                    "that was not measured is left out, or is a column of NaN."
                )
            notes += (f"Columns are taken in the order {', '.join(names)}.",)
            known = names
        for name in known:
            if name not in names:
                raise DataError(
                    f"Column {quoted(name)} of the data is not among what is observed."
                    f"{did_you_mean(name, names)} Rename it, or leave it out when the "
                    f"data are read, by {wording.COLUMNS}."
                )
        lacking = [name for name in names if name not in known]
        notes += tuple(f"{quoted(name)} is not measured." for name in lacking)
        empty = np.full((len(self), len(lacking)), np.nan)
        order = [[*known, *lacking].index(name) for name in names]

        def pick(array: np.ndarray) -> np.ndarray:
            return np.concatenate([array, empty], axis=1)[:, order]

        time_label, *labels = self.axis_labels
        labels = [[*labels, *lacking][index] for index in order]
        return self.with_fields(
            x=pick(self.x),
            sd=None if self.sd is None else pick(self.sd),
            below=None if self.below is None else pick(self.below) == 1,
            names=names,
            notes=notes,
            axis_labels=(time_label, *labels),
        )

    def later(self, time: float) -> "Data":
        """Return the same data with all times later by `time`."""
        if time == 0:
            return self
        return self.with_fields(t=self.t + time)

    def with_fields(self, **changes: Any) -> "Data":
        """Return the same data but for some of their fields."""
        fields = {**vars(self), **changes}
        if not fields.pop("has_given_names") and "names" not in changes:
            fields["names"] = None
        return Data(**fields)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the data to a CSV file, with all digits.

        `read_csv(path, start=0)` reads the same numbers again. If writing fails, a file
        that was there before is left as it was.
        """
        write_whole(Path(path), self.csv())

    def csv(self) -> str:
        """Return the text that `to_csv` writes."""
        for name in self.names:
            plain = name and name.isprintable() and name == name.strip()
            if not plain or name == "t" or name.endswith(SD_SUFFIX):
                raise DataError(
                    f"A column called {quoted(name)} would not be read back as a "
                    "quantity. Give the data other `names`."
                )
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        sd_names = [] if self.sd is None else [name + SD_SUFFIX for name in self.names]
        writer.writerow(["t", *self.names, *sd_names])
        columns = [self.t[:, None], self.x]
        if self.sd is not None:
            columns.append(np.where(np.isfinite(self.x), self.sd, np.nan))
        table = np.concatenate(columns, axis=1)
        is_below = np.zeros(table.shape, bool)
        if self.below is not None:
            is_below[:, 1 : 1 + len(self.names)] = self.below
        for row, marks in zip(table.tolist(), is_below.tolist()):
            pairs = zip(row, marks)
            cells = [("<" if mark else "") + repr(value) for value, mark in pairs]
            writer.writerow(["" if cell == "nan" else cell for cell in cells])
        return text.getvalue()

    def __len__(self) -> int:
        return len(self.t)

    def __repr__(self) -> str:
        k = len(self.names)
        label = f" {self.label!r}" if self.label else ""
        count = f"{k} quantit{'y' if k == 1 else 'ies'} ({', '.join(self.names)})"
        origin = self.origin
        since = f" since {origin if isinstance(origin, str) else f'{origin:.15g}'}"
        times = f"times in [{self.t[0]:g}, {self.T:g}]{since if origin else ''}"
        return f"Data{label}: {len(self)} {times}, {count}"

    def __str__(self) -> str:
        return "\n  ".join([repr(self), *self.notes])

    def mean(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the distinct times and, for each, the mean of the replicates of every
        quantity, or NaN if it was not measured then."""
        times, index = np.unique(self.t, return_inverse=True)
        if len(times) == len(self.t):
            return times, self.x
        measured = np.isfinite(self.x)
        total = np.zeros((len(times), self.x.shape[1]))
        count = np.zeros_like(total)
        np.add.at(total, index, np.where(measured, self.x, 0.0))
        np.add.at(count, index, measured)
        with np.errstate(invalid="ignore"):
            return times, total / count


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
    fields = read_measurements(table, time, columns, start, where or {})
    return Data(**fields, label=Path(path).stem if label is None else label)


def read_any_table(
    path: str | os.PathLike[str], time: str | None, sheet: str | None
) -> Table:
    """Return the table in a text file, or in a sheet of a workbook. `time` is the name
    of the column of times, if the user gave one."""
    if _is_workbook(path):
        return read_workbook(path, sheet, time)
    if sheet is not None:
        raise ValueError(
            f"{wording.SHEET} is for workbooks (.xlsx), but {str(path)!r} is none."
        )
    return read_csv_table(path, time)


def _is_workbook(path: str | os.PathLike[str]) -> bool:
    """Whether a file is called like a workbook, or is one by its first bytes."""
    if file_name(path).lower().endswith((".xlsx", ".xlsm", ".xls")):
        return True
    try:
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as file:
            return file.read(4) in (ARCHIVE, OLD_EXCEL)
    except (OSError, ValueError):
        return False  # What is wrong with the file is said where it is read as text.


def check_sizes(x: np.ndarray) -> None:
    """Refuse values to fit whose squares are not numbers of a computer."""
    largest = float(np.nanmax(np.abs(x)))
    if not are_of_usual_size(np.array(largest)):
        raise DataError(
            f"The largest value of `x` is {largest:.3g}: a computer cannot calculate "
            "with its square. Give `x` in other units."
        )


def numbers(name: str, value: Any) -> np.ndarray:
    """Return the argument `name` as an array of float64."""
    try:
        return np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`{name}` must be an array of numbers, but got {type(value).__name__}: "
            f"{error}"
        ) from None


def _check_values(x: np.ndarray) -> None:
    """Refuse values that are infinite or all missing."""
    if np.any(np.isinf(x)):
        row, column = np.argwhere(np.isinf(x))[0]
        raise DataError(
            f"`x` must be finite or NaN (not measured), but x[{row}, {column}] is "
            f"{x[row, column]}."
        )
    if not np.any(np.isfinite(x)):
        raise DataError("`x` holds no measurement: all values are NaN.")


def _check_times(t: np.ndarray) -> None:
    if not np.all(np.isfinite(t)):
        index = int(np.flatnonzero(~np.isfinite(t))[0])
        raise DataError(f"`t` must be finite, but t[{index}] is {t[index]}.")
    if len(np.unique(t)) < 2:
        raise DataError(
            f"`t` must hold at least two different times, but got {len(np.unique(t))}."
        )
    if t.min() < 0:
        raise DataError(
            f"Times must not be before 0, where the history ends, but the first is "
            f"{t.min():g}. Shift them: `t - t.min()`."
        )


def _deviations(sd: Any, x: np.ndarray) -> np.ndarray:
    """Return the standard deviations as an array of the shape of `x`."""
    sd = numbers("sd", sd)
    if sd.shape == (len(x),) and x.shape[1] == 1:
        sd = sd[:, None]
    try:
        sd = np.broadcast_to(sd, x.shape).copy()
    except ValueError:
        raise DataError(
            f"`sd` must be a number, one per quantity ({x.shape[1]}), or of the shape "
            f"of `x`, {x.shape}; it has shape {sd.shape}."
        ) from None
    used = sd[np.isfinite(x)]
    if not np.all(np.isfinite(used) & (used > 0)):
        raise DataError("`sd` must be positive and finite wherever `x` is measured.")
    return sd


def _flags(below: Any, x: np.ndarray, order: np.ndarray) -> np.ndarray | None:
    """Return which values are only known to be below `x`, as an array of its shape, or
    None."""
    if below is None:
        return None
    flags = np.asarray(below)
    if flags.dtype != bool:
        raise TypeError(
            "`below` must be True where a value is only known to be below `x`, and "
            f"False elsewhere, but got an array of {flags.dtype}."
        )
    flags = flags[:, None] if flags.shape == (len(x),) else flags
    if flags.shape != x.shape:
        raise DataError(
            f"`below` must have the shape of `x`, {x.shape}, but has {flags.shape}."
        )
    flags = (flags & np.isfinite(x))[order]
    return flags if flags.any() else None


def _names(names: Sequence[str] | None, k: int) -> tuple[str, ...]:
    """Return the names of `k` quantities: those given, or else x or x[0], x[1], ..."""
    if names is None:
        return ("x",) if k == 1 else tuple(f"x[{i}]" for i in range(k))
    names = (names,) if isinstance(names, str) else tuple(str(name) for name in names)
    if len(names) != k or len(set(names)) != k:
        raise DataError(
            f"`names` must be {k} different names, one per column; got {names!r}."
        )
    return names


def _axis_labels(labels: Sequence[str] | None, names: Sequence[str]) -> tuple[str, ...]:
    """Return the labels of the time and of each quantity."""
    if labels is None:
        return ("time", *names)
    labels = tuple(str(label) for label in labels)
    if len(labels) != len(names) + 1:
        raise DataError(
            f"`axis_labels` must be {len(names) + 1} texts, one for the time and one "
            f"for each quantity; got {labels!r}."
        )
    return labels


def _origin(origin: float | str) -> float | str:
    if isinstance(origin, str):
        return origin
    if not math.isfinite(origin):
        raise DataError(f"`origin` must be finite, but got {origin!r}.")
    return float(origin)
