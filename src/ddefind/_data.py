"""Measurements, and the spline through them."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np


@final
class Data:
    """Measured values at measured times.

    **Arguments**

    - `t`: N times from 0 on, in any order; a repeated time is a replicate.
    - `x`: N values, or an (N, k) array of k quantities; NaN where nothing was measured.
    - `sd`: the standard deviation of the noise, one number, one per quantity, or one
      per value. Without it all values count the same.
    - `names`: the k quantities' names. `label`: the data set's.

    Values are kept sorted by time, as float64.

    >>> Data([1.0, 0.0], [5.0, 4.0])
    Data: 2 times in [0, 1], 1 quantity (x)
    """

    t: np.ndarray
    x: np.ndarray
    sd: np.ndarray | None
    names: tuple[str, ...]
    label: str | None

    def __init__(
        self,
        t: Any,
        x: Any,
        *,
        sd: Any = None,
        names: Sequence[str] | None = None,
        label: str | None = None,
    ):
        t, x = _numbers("t", t), _numbers("x", x)
        if t.ndim != 1:
            raise ValueError(f"`t` must be a vector of times, but has shape {t.shape}.")
        if x.ndim == 1:
            x = x[:, None]
        if x.ndim != 2 or len(x) != len(t):
            raise ValueError(
                f"`x` must have one row per time, shape ({len(t)},) or ({len(t)}, k), "
                f"but has shape {x.shape}."
            )
        _check_times(t)
        _check_values(t, x)
        order = np.argsort(t, kind="stable")
        self.t, self.x = t[order], x[order]
        self.sd = None if sd is None else _deviations(sd, x)[order]
        self.names = _names(names, x.shape[1])
        self.label = label
        for array in (self.t, self.x, self.sd):
            if array is not None:
                array.flags.writeable = False

    @property
    def T(self) -> float:
        """The last time."""
        return float(self.t[-1])

    def __len__(self) -> int:
        return len(self.t)

    def __repr__(self) -> str:
        k = len(self.names)
        label = f" {self.label!r}" if self.label else ""
        count = f"{k} quantit{'y' if k == 1 else 'ies'} ({', '.join(self.names)})"
        return f"Data{label}: {len(self)} times in [{self.t[0]:g}, {self.T:g}], {count}"

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
        raise ValueError(f"`t` must be finite, but t[{where}] is {t[where]}.")
    if len(np.unique(t)) < 2:
        raise ValueError(
            f"`t` must hold at least two different times, but got {len(np.unique(t))}."
        )
    if t.min() < 0:
        raise ValueError(
            f"Times must not be before 0, where the history ends, but the first is "
            f"{t.min():g}. Shift them: `t - t.min()`."
        )


def _check_values(t: np.ndarray, x: np.ndarray) -> None:
    if np.any(np.isinf(x)):
        row, column = np.argwhere(np.isinf(x))[0]
        raise ValueError(
            f"`x` must be finite or NaN (not measured), but x[{row}, {column}] is "
            f"{x[row, column]}."
        )
    for column in range(x.shape[1]):
        if len(np.unique(t[np.isfinite(x[:, column])])) < 2:
            raise ValueError(
                f"Column {column} of `x` is measured at fewer than two times. Leave it "
                "out and give the problem an `observe` that returns the measured ones."
            )


def _deviations(sd: Any, x: np.ndarray) -> np.ndarray:
    sd = _numbers("sd", sd)
    if sd.shape == (len(x),) and x.shape[1] == 1:
        sd = sd[:, None]
    try:
        sd = np.broadcast_to(sd, x.shape).copy()
    except ValueError:
        raise ValueError(
            f"`sd` must be a number, one per quantity ({x.shape[1]}), or of the shape "
            f"of `x`, {x.shape}; it has shape {sd.shape}."
        ) from None
    used = sd[np.isfinite(x)]
    if not np.all(np.isfinite(used) & (used > 0)):
        raise ValueError("`sd` must be positive and finite wherever `x` is measured.")
    return sd


def _names(names: Sequence[str] | None, k: int) -> tuple[str, ...]:
    if names is None:
        return ("x",) if k == 1 else tuple(f"x[{i}]" for i in range(k))
    names = (names,) if isinstance(names, str) else tuple(str(name) for name in names)
    if len(names) != k or len(set(names)) != k:
        raise ValueError(
            f"`names` must be {k} different names, one per column; got {names!r}."
        )
    return names
