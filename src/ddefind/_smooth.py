"""What data say before any model: a smooth curve through them, its slope, their
noise."""

from typing import NamedTuple

import numpy as np

from ._data import Data

# More points than this are averaged in bins: a curve needs no more.
_MOST = 200
# Freedom used counts so many times: cross-validation alone smooths too little at times.
_CAUTION = 1.2


class Curve(NamedTuple):
    """A smooth trajectory through data, in their range: where they are positive, it is,
    too. `x(t)` and `slope(t)` are (len(t), k)."""

    splines: list
    lowest: np.ndarray
    highest: np.ndarray

    def x(self, t: np.ndarray) -> np.ndarray:
        x = np.stack([spline(t) for spline in self.splines], axis=-1)
        return np.clip(x, self.lowest, self.highest)

    def slope(self, t: np.ndarray) -> np.ndarray:
        return np.stack([spline.derivative()(t) for spline in self.splines], axis=-1)


def smooth(data: Data) -> Curve | None:
    """Smoothing splines, as smooth as cross-validation finds best. None if a quantity
    is measured at fewer than five times."""
    splines = []
    for column in range(data.x.shape[1]):
        t, x = _bins(*_points(data, column))
        if len(t) < 5:
            return None
        splines.append(_smoothing_spline(t, x))
    return Curve(splines, np.nanmin(data.x, axis=0), np.nanmax(data.x, axis=0))


def _smoothing_spline(t: np.ndarray, x: np.ndarray):
    r"""The natural cubic spline g that minimises $\sum (x - g(t))^2 + \lambda \int
    g''^2$.

    At the times it is $x - \lambda Q (R + \lambda Q^T Q)^{-1} Q^T x$ (Reinsch). Of a
    sequence of $\lambda$ the one is taken whose mean square, over the square of the
    share of freedom left, is least. All are tried: this score has several minima, and a
    straight line is often one of them."""
    from scipy.interpolate import CubicSpline
    from scipy.linalg import solveh_banded

    h, T, count = np.diff(t), t[-1] - t[0], len(t)
    R, square = _bands(h)
    curved = np.diff(np.diff(np.eye(count), axis=0) / h[:, None], axis=0)  # Q^T
    best, curve, bends = np.inf, x, 3.0
    while bends < count:
        penalty = count / T * (T / (np.pi * bends)) ** 4
        second = solveh_banded(R + penalty * square, curved)
        slopes = np.diff(np.pad(second, ((1, 1), (0, 0))), axis=0) / h[:, None]
        removed = penalty * np.diff(np.pad(slopes, ((1, 1), (0, 0))), axis=0)
        off = np.sum(removed * x, axis=1)  # not a dot: its threads cost more than it
        left = 1 - _CAUTION * (1 - np.trace(removed) / count)
        score = np.mean(off**2) / left**2 if left > 0 else np.inf
        if score < best:
            best, curve = score, x - off
        bends *= 1.2
    return CubicSpline(t, curve, bc_type="natural")


def _bands(h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The diagonals of R and of Q^T Q, as LAPACK wants them."""
    R, square = np.zeros((3, len(h) - 1)), np.zeros((3, len(h) - 1))
    a, c = 1 / h[:-1], 1 / h[1:]
    R[2], R[1, 1:] = (h[:-1] + h[1:]) / 3, h[1:-1] / 6
    square[2] = a**2 + (a + c) ** 2 + c**2
    square[1, 1:] = -a[1:] * (a + c)[:-1] - c[:-1] * (a + c)[1:]
    square[0, 2:] = c[:-2] * a[2:]
    return R, square


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
