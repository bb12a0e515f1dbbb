"""What data say before any model: a smooth curve through them, its slope, their
noise."""

from typing import NamedTuple

import numpy as np

from ._data import Data

# More points than this are averaged in bins: a curve needs no more.
_MOST = 400


class Curve(NamedTuple):
    """A smooth trajectory through data: `x(t)` and `slope(t)` are (len(t), k)."""

    splines: list

    def x(self, t: np.ndarray) -> np.ndarray:
        return np.stack([spline(t) for spline in self.splines], axis=-1)

    def slope(self, t: np.ndarray) -> np.ndarray:
        return np.stack([spline.derivative()(t) for spline in self.splines], axis=-1)


def smooth(data: Data) -> Curve | None:
    """Smoothing splines, as smooth as generalised cross-validation finds best. None if
    a quantity is measured at fewer than five times."""
    from scipy.interpolate import make_smoothing_spline

    splines = []
    for column in range(data.x.shape[1]):
        t, x = _points(data, column)
        if len(t) < 5:
            return None
        t, x = _bins(t, x)
        splines.append(make_smoothing_spline(t, x))
    return Curve(splines)


def spread(data: Data) -> np.ndarray:
    """The standard deviation of each quantity; 1 where it does not vary, or is not
    measured."""
    found = []
    for column in range(data.x.shape[1]):
        _, x = _points(data, column)
        found.append(np.std(x) if len(x) > 1 and np.ptp(x) > 0 else 0.0)
    found = np.array(found)
    return np.where(found > 0, found, 1.0)


def rough_noise(data: Data) -> np.ndarray:
    r"""The standard deviation of each quantity's noise, from how far each point is off
    the line between its neighbours (Gasser, Sroka and Jennen-Steinmetz). At least a
    millionth of the spread."""
    least = 1e-6 * spread(data)
    return np.array(
        [max(_noise(*_points(data, c)), low) for c, low in enumerate(least)]
    )


def _noise(t: np.ndarray, x: np.ndarray) -> float:
    if len(t) < 3:
        return 0.0
    gap = t[2:] - t[:-2]
    left = np.where(gap > 0, (t[2:] - t[1:-1]) / np.where(gap > 0, gap, 1.0), 0.5)
    off = left * x[:-2] + (1 - left) * x[2:] - x[1:-1]
    return float(np.sqrt(np.mean(off**2 / (left**2 + (1 - left) ** 2 + 1))))


def _points(data: Data, column: int) -> tuple[np.ndarray, np.ndarray]:
    here = np.isfinite(data.x[:, column])
    return data.t[here], data.x[here, column]


def _bins(t: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means at distinct times, at most `_MOST` of them."""
    times, where = np.unique(t, return_inverse=True)
    if len(times) > _MOST:
        edges = np.linspace(times[0], times[-1], _MOST + 1)[1:-1]
        where = np.unique(np.digitize(t, edges), return_inverse=True)[1]
    count = np.bincount(where)
    return np.bincount(where, t) / count, np.bincount(where, x) / count
