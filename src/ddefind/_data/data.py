"""Measurements: values at times, with their names and standard deviations; and many
data sets as arrays."""

import csv
import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final, overload

import numpy as np

from .._util import wording
from .._util.errors import DataError, did_you_mean, quoted, shown
from .._util.files import write_whole
from .columns import SD_SUFFIX, Columns, prepared, read_measurements
from .table import frame_table

# The square of a value, summed, must neither overflow nor vanish.
_LARGEST = 1e100


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
        if not isinstance(origin, str) and not math.isfinite(origin):
            raise DataError(f"`origin` must be finite, but got {origin!r}.")
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
            "origin": origin if isinstance(origin, str) else float(origin),
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
        work as well if they have `columns` and return a column by its name."""
        table = frame_table(frame, time)
        table = prepared(table, table.time or time, where or {})
        return cls(**read_measurements(table, columns, start), label=label)

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
    ) -> "DataStack":
        """Stack many data sets, for `fit_many`.

        - `Data.stack(t, x)`: times (N,) or (sets, N), values (sets, N) or (sets, N, k).
        - `Data.stack(frame, id="animal")`: a set for each value of a column.
        - `Data.stack([data, ...])`: sets with the same quantities."""
        if x is not None:
            t, x = numbers("t", t), numbers("x", x)
            sd = None if sd is None else numbers("sd", sd)
            return _stack_arrays(t, x, sd, names, labels)
        if hasattr(t, "columns"):
            return _stack_frame(t, id, time, columns)
        return _stack_sets(t)

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
        that was there before is left as it was."""
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
    """Return which values are only known to be below `x`; None if there are none."""
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


# Many data sets


@final
@dataclass(frozen=True, eq=False, repr=False)
class DataStack(Sequence[Data]):
    """Many data sets of the same quantities, as arrays: what `fit_many` fits to.

    It is made by `Data.stack`. `stack[i]` is a single data set and `stack[2:5]` a part;
    a data set is made when it is asked for, so that a hundred thousand of them cost no
    more than their numbers.

    - `t` [sets, N]: the times of each set in their order; the last one is repeated to
      fill up a shorter set.
    - `x` [sets, N, k]: the values, NaN where nothing was measured.
    - `sd` [sets, N, k]: their standard deviations, or None.
    - `lengths` [sets]: the number of times of each set.
    - `names`: of the k quantities. `labels`: of the data sets, or None.

    >>> import ddefind as dd
    >>> stack = dd.Data.stack([0.0, 1.0, 2.0], [[5.0, 4.0, 4.5], [3.0, 2.0, 2.5]])
    >>> len(stack), stack[1].x[0, 0]
    (2, np.float64(3.0))
    """

    t: np.ndarray
    x: np.ndarray
    sd: np.ndarray | None
    lengths: np.ndarray
    names: tuple[str, ...]
    has_given_names: bool
    labels: tuple[str, ...] | None

    def __len__(self) -> int:
        return len(self.t)

    @overload
    def __getitem__(self, index: int) -> Data: ...
    @overload
    def __getitem__(self, index: slice) -> "DataStack": ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        if not isinstance(index, int | np.integer):
            raise TypeError(
                f"A stack has the data sets 0 to {len(self) - 1}: write `stack[0]` or "
                f"`stack[1:3]`, not {shown(index)}."
            )
        if not -len(self) <= index < len(self):
            raise IndexError(
                f"There are {len(self)} data sets; index {index} is outside."
            )
        kept = slice(self.lengths[index])
        return Data(
            self.t[index, kept],
            self.x[index, kept],
            sd=None if self.sd is None else self.sd[index, kept],
            names=self.names if self.has_given_names else None,
            label=None if self.labels is None else self.labels[index],
        )

    def __iter__(self) -> Iterator[Data]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        longest = int(self.lengths.max())
        return (
            f"DataStack: {len(self)} data sets of up to {longest} times, "
            f"{', '.join(self.names)}"
        )

    @property
    def T(self) -> np.ndarray:
        """The last time of each set."""
        return self.t[:, -1]

    def of_unusual_size(self) -> np.ndarray:
        """Return the numbers of the sets whose values may be too large or too small."""
        with np.errstate(invalid="ignore"):
            largest = np.nanmax(np.abs(self.x), axis=(1, 2))
        return np.flatnonzero(~are_of_usual_size(largest))

    def take(self, chosen: np.ndarray) -> "DataStack":
        """Return the data sets with the numbers `chosen`."""
        labels = self.labels
        return replace(
            self,
            t=self.t[chosen],
            x=self.x[chosen],
            sd=None if self.sd is None else self.sd[chosen],
            lengths=self.lengths[chosen],
            labels=None if labels is None else tuple(labels[i] for i in chosen),
        )


def are_of_usual_size(largest: np.ndarray) -> np.ndarray:
    """Whether a computer can calculate with the squares of the largest values."""
    return (largest <= _LARGEST) & ((largest >= 1 / _LARGEST) | (largest == 0))


def data_set(number: int, label: str | None) -> str:
    """Return how one of many data sets is called in a message.

    >>> data_set(3, None), data_set(3, "A1")
    ('Data set 3', "Data set 3 ('A1')")
    """
    return f"Data set {number}" + ("" if label is None else f" ({quoted(label)})")


def _stack_arrays(
    t: np.ndarray, x: np.ndarray, sd: np.ndarray | None, names: Any, labels: Any
) -> DataStack:
    """Stack arrays: times [N] or [sets, N], values [sets, N] or [sets, N, k]."""
    x = x[..., None] if x.ndim == 2 else x
    if x.ndim != 3 or len(x) == 0 or t.shape not in (x.shape[1:2], x.shape[:2]):
        raise DataError(
            "`x` must have the shape (sets, N) or (sets, N, k), and `t` the shape (N,) "
            f"or (sets, N), but `x` has {x.shape} and `t` {t.shape}."
        )
    if sd is not None:
        sd = sd[..., None] if sd.shape == x.shape[:2] else sd
        try:
            sd = np.broadcast_to(sd, x.shape)
        except ValueError:
            raise DataError(
                f"`sd` must be a number, one per quantity ({x.shape[2]}), or of the "
                f"shape of `x`; it has shape {sd.shape}."
            ) from None
    labels = None if labels is None else tuple(map(str, labels))
    if labels is not None and len(labels) != len(x):
        raise DataError(
            f"`labels` are {len(labels)}, but there are {len(x)} data sets."
        )
    t = np.broadcast_to(t, x.shape[:2])
    lengths = np.full(len(x), x.shape[1])
    return _checked_stack(t, x, sd, lengths, names, labels)


def _stack_sets(sets: Sequence[Data]) -> DataStack:
    """Stack single data sets."""
    if len(sets) == 0 or not all(isinstance(data, Data) for data in sets):
        raise TypeError(
            "`Data.stack` takes arrays `t` and `x`, a data frame with `id`, or a list "
            f"of `Data`, but got {shown(sets)}."
        )
    first = sets[0]
    for number, data in enumerate(sets):
        if data.names != first.names or (data.sd is None) != (first.sd is None):
            raise DataError(
                f"Data set {number} has other quantities than the first, or only one "
                "of them has standard deviations: they cannot be stacked."
            )
        if data.below is not None:
            raise DataError("Values below a limit cannot be stacked: pass a list.")
    return joined(sets)


def joined(sets: Sequence[Data]) -> DataStack:
    """Return data sets with as many quantities as arrays."""
    first = sets[0]
    lengths = np.array([len(data) for data in sets])
    labels = None
    if all(data.label is not None for data in sets):
        labels = tuple(str(data.label) for data in sets)
    return DataStack(
        _filled([data.t for data in sets], lengths, "edge"),
        _filled([data.x for data in sets], lengths, "nan"),
        None if first.sd is None else _filled([d.sd for d in sets], lengths, "edge"),
        lengths,
        first.names,
        first.has_given_names,
        labels,
    )


def _stack_frame(
    frame: Any, id: str | None, time: str | None, columns: Any
) -> DataStack:
    """Stack the rows of a data frame, one set for each value of the column `id`; the
    sets are in the order in which they first appear."""
    if id is None:
        raise TypeError('Name the column that tells the sets apart, as `id="animal"`.')
    known = [str(name) for name in frame.columns]
    for name in (id, *([] if time is None else [time])):
        if name not in known:
            raise DataError(
                f"The frame has no column {quoted(name)}.{did_you_mean(name, known)}"
            )
    if time is None:
        time = next((name for name in known if name in ("t", "time")), None)
    if time is None:
        raise DataError('Say which column holds the times, as `time="day"`.')
    names = [name for name in known if name not in (id, time)]
    if columns is not None:
        names = [columns] if isinstance(columns, str) else list(columns)
    if len(frame) == 0:
        raise DataError("The frame has no rows: there are no data sets in it.")
    lacking = np.flatnonzero(np.asarray(frame[id].isna()))
    if len(lacking):
        raise DataError(
            f"Row {lacking[0]} of the frame has no value in the column {quoted(id)}, "
            "which tells the sets apart."
        )
    number, ids = frame[id].factorize()
    order, lengths = np.argsort(number, kind="stable"), np.bincount(number)
    cuts = np.cumsum(lengths)[:-1]
    t = _column(frame, time, id)
    if not np.isfinite(t).all():
        row = int(np.argmin(np.isfinite(t)))
        raise DataError(
            f"Row {row} of the frame ({quoted(str(frame[id].iloc[row]))}): its time, "
            f"in the column {quoted(time)}, is {t[row]}."
        )
    t = t[order]
    x = np.stack([_column(frame, name, id) for name in names], axis=1)[order]
    t = _filled(np.split(t, cuts), lengths, "edge")
    x = _filled(np.split(x, cuts), lengths, "nan")
    labels = tuple(map(str, np.asarray(ids).tolist()))
    return _checked_stack(t, x, None, lengths, names, labels)


def _column(frame: Any, name: str, id: str) -> np.ndarray:
    """Return a column of a frame as numbers; an error names the row that has none."""
    try:
        return np.array(frame[name], dtype=float)
    except (TypeError, ValueError):
        values = np.empty(len(frame))
    for row, value in enumerate(frame[name]):
        try:
            values[row] = float(value)
        except (TypeError, ValueError):
            raise DataError(
                f"Row {row} of the frame ({quoted(str(frame[id].iloc[row]))}): "
                f"{shown(value)} in the column {quoted(name)} is not a number. Make it "
                "NaN, or leave the column out by `columns=[...]`."
            ) from None
    return values


def _filled(rows: Sequence[Any], lengths: np.ndarray, how: str) -> np.ndarray:
    """Return rows as one array, filled up with their last element or NaN."""
    longest = int(lengths.max())
    if (lengths == longest).all():
        return np.stack(rows)
    found = np.full((len(rows), longest, *rows[0].shape[1:]), np.nan)
    for out, row in zip(found, rows):
        out[: len(row)] = row
        if how == "edge":
            out[len(row) :] = row[-1]
    return found


def _checked_stack(t, x, sd, lengths, names, labels) -> DataStack:
    """Return the stack of these arrays, with every set in the order of time. `Data`
    itself checks any set that it would refuse."""
    # Times that all sets share are checked once.
    shared = t[:1] if t.strides[0] == 0 else t
    if not np.all(np.diff(shared, axis=1) >= 0):
        exists = np.arange(t.shape[1]) < lengths[:, None]
        # What fills up a set has the time of its last row, which may not be the latest.
        order = np.argsort(np.where(exists, t, np.inf), axis=1, kind="stable")
        t = np.take_along_axis(t, order, axis=1)
        latest = t[np.arange(len(t)), lengths - 1]
        t = np.where(exists, t, latest[:, None])
        x = np.take_along_axis(x, order[..., None], axis=1)
        sd = None if sd is None else np.take_along_axis(sd, order[..., None], axis=1)
        shared = t
    is_good = (shared[:, 0] >= 0) & (shared[:, -1] > shared[:, 0])
    is_good = np.broadcast_to(is_good & np.isfinite(shared).all(axis=1), len(t))
    measured = np.isfinite(x)
    if not measured.all():
        is_good = is_good & measured.any(axis=(1, 2)) & ~np.isinf(x).any(axis=(1, 2))
    if sd is not None:
        used = np.where(measured, sd, 1.0)
        is_good = is_good & np.all((used > 0) & np.isfinite(used), axis=(1, 2))
    one = None
    for number in (0, *np.flatnonzero(~is_good).tolist()):
        kept = slice(lengths[number])
        errors = None if sd is None else sd[number, kept]
        try:
            one = Data(t[number, kept], x[number, kept], sd=errors, names=names)
        except DataError as error:
            label = None if labels is None else labels[number]
            raise DataError(f"{data_set(number, label)}: {error}") from None
    assert one is not None
    has_names = names is not None
    return DataStack(t, x, sd, lengths, one.names, has_names, labels)
