"""Many data sets as arrays: `Data.stack`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final, overload

import numpy as np

from .._util.errors import DataError, did_you_mean, quoted, shown

if TYPE_CHECKING:
    from .data import Data


# The square of a value, summed, must neither overflow nor vanish.
_LARGEST = 1e100


@final
@dataclass(frozen=True, eq=False, repr=False)
class DataStack(Sequence["Data"]):
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
    make: "Callable[..., Data]"

    def __len__(self) -> int:
        return len(self.t)

    @overload
    def __getitem__(self, index: int) -> "Data": ...
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
        return self.make(
            self.t[index, kept],
            self.x[index, kept],
            sd=None if self.sd is None else self.sd[index, kept],
            names=self.names if self.has_given_names else None,
            label=None if self.labels is None else self.labels[index],
        )

    def __iter__(self) -> Iterator["Data"]:
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
        return self.with_arrays(
            self.t[chosen],
            self.x[chosen],
            None if self.sd is None else self.sd[chosen],
            lengths=self.lengths[chosen],
            labels=None if labels is None else tuple(labels[i] for i in chosen),
        )

    def with_arrays(self, t: Any, x: Any, sd: Any, **changes: Any) -> "DataStack":
        """Return the same stack with other arrays."""
        return DataStack(**{**vars(self), "t": t, "x": x, "sd": sd, **changes})


def are_of_usual_size(largest: np.ndarray) -> np.ndarray:
    """Whether a computer can calculate with the squares of values, by the largest
    ones."""
    return (largest <= _LARGEST) & ((largest >= 1 / _LARGEST) | (largest == 0))


def data_set(number: int, label: str | None) -> str:
    """Return how one of many data sets is called in a message.

    >>> data_set(3, None), data_set(3, "A1")
    ('Data set 3', "Data set 3 ('A1')")
    """
    return f"Data set {number}" + ("" if label is None else f" ({quoted(label)})")


def stack_arrays(
    make: "Callable[..., Data]",
    t: np.ndarray,
    x: np.ndarray,
    sd: np.ndarray | None,
    names: Any,
    labels: Any,
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
    t = np.broadcast_to(t, x.shape[:2])
    lengths = np.full(len(x), x.shape[1])
    return _checked_stack(make, t, x, sd, lengths, names, _labels(labels, len(x)))


def stack_sets(make: "Callable[..., Data]", sets: Sequence["Data"]) -> DataStack:
    """Stack single data sets."""
    if len(sets) == 0 or not all(isinstance(data, make) for data in sets):  # type: ignore
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
    return joined(make, sets)


def joined(make: "Callable[..., Data]", sets: Sequence["Data"]) -> DataStack:
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
        make,
    )


def stack_frame(
    make: "Callable[..., Data]",
    frame: Any,
    id: str | None,
    time: str | None,
    columns: Any,
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
    ids, first, number, counts = _distinct(np.asarray(frame[id]))
    rank = np.argsort(np.argsort(first))
    order = np.lexsort((np.arange(len(number)), rank[number]))
    lengths = counts[np.argsort(first)]
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
    labels = tuple(map(str, ids[np.argsort(first)].tolist()))
    return _checked_stack(
        make,
        _filled(np.split(t, cuts), lengths, "edge"),
        _filled(np.split(x, cuts), lengths, "nan"),
        None,
        lengths,
        names,
        labels,
    )


def _distinct(ids: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the distinct values, the first row and the number of each, and which of
    them each row has. Values of several types are compared as texts."""
    how = dict(return_index=True, return_inverse=True, return_counts=True)
    try:
        return np.unique(ids, **how)  # type: ignore
    except TypeError:
        return np.unique(ids.astype(str), **how)  # type: ignore


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
    """Return rows of different lengths as one array, filled up with their last element
    or NaN."""
    longest = int(lengths.max())
    if (lengths == longest).all():
        return np.stack(rows)
    found = np.full((len(rows), longest, *rows[0].shape[1:]), np.nan)
    for out, row in zip(found, rows):
        out[: len(row)] = row
        if how == "edge":
            out[len(row) :] = row[-1]
    return found


def _labels(labels: Any, count: int) -> tuple[str, ...] | None:
    if labels is None:
        return None
    labels = tuple(map(str, labels))
    if len(labels) != count:
        raise DataError(f"`labels` are {len(labels)}, but there are {count} data sets.")
    return labels


def _checked_stack(make, t, x, sd, lengths, names, labels) -> DataStack:
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
            one = make(t[number, kept], x[number, kept], sd=errors, names=names)
        except DataError as error:
            label = None if labels is None else labels[number]
            raise DataError(f"{data_set(number, label)}: {error}") from None
    assert one is not None
    has_names = names is not None
    return DataStack(t, x, sd, lengths, one.names, has_names, labels, make)
