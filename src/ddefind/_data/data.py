"""Measurements: values at times, what they are called, and how sure they are."""

import csv
import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from .._util.errors import DataError, did_you_mean, shown
from .._util.text_files import write_whole
from .columns import SD, measured
from .data_frame import frame_table


@final
@dataclass(frozen=True, init=False, repr=False, eq=False)
class Data:
    """Measured values at measured times.

    **Arguments**

    - `t`: N times from 0 on, in any order; a repeated time is a replicate.
    - `x`: N values, or an (N, k) array of k quantities; NaN where nothing was measured.
    - `sd`: the standard deviation of the noise, one number, one per quantity, or one
      per value. Without it all values count the same.
    - `names`: the k quantities' names. `label`: the data set's.
    - `origin`: what time 0 is in the source of the data, a number or a date.
    - `notes`: sentences on how the data were read.

    Values are kept sorted by time, as float64. `read_csv` reads them from a file,
    `Data.from_pandas` from a frame.

    >>> Data([1.0, 0.0], [5.0, 4.0])
    Data: 2 times in [0, 1], 1 quantity (x)
    """

    t: np.ndarray
    x: np.ndarray
    sd: np.ndarray | None
    names: tuple[str, ...]
    label: str | None
    origin: float | str
    notes: tuple[str, ...]

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
    ):
        t, x = _numbers("t", t), _numbers("x", x)
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
        fields = {
            "t": t[order],
            "x": x[order],
            "sd": None if sd is None else _deviations(sd, x)[order],
            "names": _names(names, x.shape[1]),
            "label": label,
            "origin": _origin(origin),
            "notes": (notes,) if isinstance(notes, str) else tuple(notes),
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
        columns: str | Sequence[str] | None = None,
        label: str | None = None,
        start: float | str | None = None,
    ) -> "Data":
        """The measurements in a data frame, by the rules of `read_csv`.

        Without a column of times the index is taken, if it holds numbers or dates and
        does not just count the rows. Other frames will do that have `columns` and give
        a column by its name.
        """
        table, time = frame_table(frame, time)
        return cls(**measured(table, time, columns, start)._asdict(), label=label)

    @property
    def T(self) -> float:
        """The last time."""
        return float(self.t[-1])

    def select(self, names: str | Sequence[str]) -> "Data":
        """The same data with the columns that `names` say, in that order.

        A name that the data do not have becomes a column of NaN: a quantity that was
        not measured. Each column must be among `names`; but a single column is renamed
        to a single name.

        >>> Data([0, 1], [5.0, 4.0], names="prey").select(["hunter", "prey"]).x
        array([[nan,  5.],
               [nan,  4.]])
        """
        names = (names,) if isinstance(names, str) else tuple(names)
        notes, known = self.notes, self.names
        if len(names) == len(known) == 1 and names != known:
            notes += (f"Column {shown(known[0])} is taken for {shown(names[0])}.",)
            known = names
        for name in known:
            if name not in names:
                raise DataError(
                    f"Column {shown(name)} of the data is not among what is observed."
                    f"{did_you_mean(name, names)} Rename it, or leave it out when the "
                    "data are read: `columns=`."
                )
        lacking = [name for name in names if name not in known]
        notes += tuple(f"{shown(name)} is not measured." for name in lacking)
        empty = np.full((len(self), len(lacking)), np.nan)
        order = [[*known, *lacking].index(name) for name in names]

        def pick(array: np.ndarray) -> np.ndarray:
            return np.concatenate([array, empty], axis=1)[:, order]

        return Data(
            self.t,
            pick(self.x),
            sd=None if self.sd is None else pick(self.sd),
            names=names,
            label=self.label,
            origin=self.origin,
            notes=notes,
        )

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the data to a file, all digits of them, whole or not at all.

        `read_csv(path, start=0)` gives them back as they are.
        """
        write_whole(Path(path), self.csv())

    def csv(self) -> str:
        """The text that `to_csv` writes."""
        for name in self.names:
            plain = name and name.isprintable() and name == name.strip()
            if not plain or name == "t" or name.endswith(SD):
                raise DataError(
                    f"A column called {shown(name)} would not be read back as a "
                    "quantity. Give the data other `names`."
                )
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        deviations = [] if self.sd is None else [name + SD for name in self.names]
        writer.writerow(["t", *self.names, *deviations])
        columns = [self.t[:, None], self.x]
        if self.sd is not None:
            columns.append(np.where(np.isfinite(self.x), self.sd, np.nan))
        for row in np.concatenate(columns, axis=1).tolist():
            writer.writerow(["" if math.isnan(value) else repr(value) for value in row])
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
        """The distinct times, and the mean of the replicates at each (NaN where
        none)."""
        times, where = np.unique(self.t, return_inverse=True)
        here = np.isfinite(self.x)
        total = np.zeros((len(times), self.x.shape[1]))
        count = np.zeros_like(total)
        np.add.at(total, where, np.where(here, self.x, 0.0))
        np.add.at(count, where, here)
        with np.errstate(invalid="ignore"):
            return times, total / count


def _numbers(name: str, value: Any) -> np.ndarray:
    try:
        return np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`{name}` must be an array of numbers, but got {type(value).__name__}: "
            f"{error}"
        ) from None


def _check_times(t: np.ndarray) -> None:
    if not np.all(np.isfinite(t)):
        where = int(np.flatnonzero(~np.isfinite(t))[0])
        raise DataError(f"`t` must be finite, but t[{where}] is {t[where]}.")
    if len(np.unique(t)) < 2:
        raise DataError(
            f"`t` must hold at least two different times, but got {len(np.unique(t))}."
        )
    if t.min() < 0:
        raise DataError(
            f"Times must not be before 0, where the history ends, but the first is "
            f"{t.min():g}. Shift them: `t - t.min()`."
        )


def _check_values(x: np.ndarray) -> None:
    if np.any(np.isinf(x)):
        row, column = np.argwhere(np.isinf(x))[0]
        raise DataError(
            f"`x` must be finite or NaN (not measured), but x[{row}, {column}] is "
            f"{x[row, column]}."
        )
    if not np.any(np.isfinite(x)):
        raise DataError("`x` holds no measurement: all values are NaN.")


def _deviations(sd: Any, x: np.ndarray) -> np.ndarray:
    sd = _numbers("sd", sd)
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


def _names(names: Sequence[str] | None, k: int) -> tuple[str, ...]:
    if names is None:
        return ("x",) if k == 1 else tuple(f"x[{i}]" for i in range(k))
    names = (names,) if isinstance(names, str) else tuple(str(name) for name in names)
    if len(names) != k or len(set(names)) != k:
        raise DataError(
            f"`names` must be {k} different names, one per column; got {names!r}."
        )
    return names


def _origin(origin: float | str) -> float | str:
    if isinstance(origin, str):
        return origin
    if not math.isfinite(origin):
        raise DataError(f"`origin` must be finite, but got {origin!r}.")
    return float(origin)
