"""What the data of many sets show without a model: curves, sizes and noise.

All sets that were measured at the same times are smoothed together."""

from dataclasses import dataclass
from typing import final

import numpy as np

from .._data.smoothing import bins, scatter, smoothed_columns

# The number of intervals of a curve's table, and of times at which its sizes are taken.
INTERVALS, _TIMES = 158, 400


@final
@dataclass(frozen=True)
class Curves:
    """A smooth curve through each data set, [sets, ...], k quantities.

    `x` and `slope` [sets, INTERVALS + 1, k] are a table at equally spaced times from
    zero to the end; `lowest` and `highest` are the range of the data. `logs` are the
    logarithms of natural scales (see `natural_units.py`): of the largest value of each
    quantity, their levels, and of the time in which they change. `exists` says for
    which sets there are enough points."""

    x: np.ndarray
    slope: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    logs: np.ndarray
    exists: np.ndarray


def equal_times(t: np.ndarray, measured: np.ndarray) -> list[np.ndarray]:
    """The numbers of the sets, in groups that were measured at the same times."""
    groups: dict[bytes, list[int]] = {}
    for s, key in enumerate(zip(t, measured)):
        groups.setdefault(b"".join(a.tobytes() for a in key), []).append(s)
    return [np.array(group) for group in groups.values()]


def curves(t: np.ndarray, x: np.ndarray, measured: np.ndarray) -> Curves:
    """The curves through data at the times `t` [sets, N] with the values `x` [sets, N,
    k], where they were `measured`. The last time is the end of each record."""
    count, _, k = x.shape
    made = Curves(
        np.zeros((count, INTERVALS + 1, k)),
        np.zeros((count, INTERVALS + 1, k)),
        np.min(np.where(measured, x, np.inf), axis=1),
        np.max(np.where(measured, x, -np.inf), axis=1),
        np.zeros((count, 2 * k + 1)),
        np.zeros(count, bool),
    )
    for group in equal_times(t, measured):
        _smooth(made, group, t[group[0]], x[group], measured[group[0]])
    return made


def _smooth(made: Curves, group, t, x, measured) -> None:
    """Fill in the curves of the sets of a `group`, all measured at the times `t`."""
    if min(len(np.unique(t[column])) for column in measured.T) < 5:
        return
    T, k = t[-1], x.shape[2]
    nodes, times = np.linspace(0, T, INTERVALS + 1), np.linspace(0, T, _TIMES)
    rates = np.full(len(group), 1 / T)
    for q in range(k):
        here = measured[:, q]
        spline = smoothed_columns(*bins(t[here], x[:, here, q].T))
        low, high = made.lowest[group, q, None], made.highest[group, q, None]
        made.x[group, :, q] = np.clip(_rows(spline(nodes)), low, high)
        made.slope[group, :, q] = _rows(spline.slope(nodes))
        value = np.clip(_rows(spline(times)), low, high)
        slope = _rows(spline.slope(times))
        largest = np.max(np.abs(value), axis=1)
        made.logs[group, q] = np.log(np.maximum(largest, 1e-300))
        made.logs[group, k + q] = np.mean(value, axis=1)
        spread = np.std(value, axis=1)
        speed = np.sqrt(np.mean(slope**2, axis=1))
        rates = np.maximum(rates, speed / np.where(spread > 0, spread, np.inf))
    made.logs[group, 2 * k] = -np.log(rates)
    made.exists[group] = True


def _rows(columns: np.ndarray) -> np.ndarray:
    """Columns as rows that lie together in memory, so that sums over a row do not
    depend on the others."""
    return np.ascontiguousarray(columns.T)


def spreads(x: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """The standard deviation of each quantity [sets, k], or its size (see `spread`)."""
    found = np.ones((len(x), x.shape[2]))
    for q in range(x.shape[2]):
        here = np.ascontiguousarray(measured[..., q])
        value = np.where(here, x[..., q], 0.0)
        count = np.maximum(here.sum(axis=1), 1)
        mean = value.sum(axis=1) / count
        away = np.where(here, value - mean[:, None], 0.0)
        deviation = np.sqrt((away**2).sum(axis=1) / count)
        low = np.min(np.where(here, value, np.inf), axis=1)
        high = np.max(np.where(here, value, -np.inf), axis=1)
        size = np.max(np.abs(value), axis=1)
        found[:, q] = np.where(high > low, deviation, size)
    return np.where(found > 0, found, 1.0)


def rough_noises(
    t: np.ndarray, x: np.ndarray, measured: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    """The noise of each quantity [sets, k], from the distance of the points to their
    neighbours (see `rough_noise`)."""
    noise = np.zeros_like(spread)
    for group in equal_times(t, measured):
        for q in range(x.shape[2]):
            here = measured[group[0], :, q]
            rows = np.ascontiguousarray(x[group][:, here, q])
            away = scatter(t[group[0], here], rows)
            if away.shape[-1]:
                noise[group, q] = np.sqrt(np.mean(away**2, axis=-1))
    return np.maximum(noise, 1e-6 * spread)
