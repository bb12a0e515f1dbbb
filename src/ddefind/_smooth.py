"""What data say before any model: a smooth curve through them, its slope, their
noise."""

from typing import NamedTuple

import numpy as np

from ._data import Data

# More points than this are averaged in bins: a curve needs no more.
_MOST = 200


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
        return np.stack([spline(t, 1) for spline in self.splines], axis=-1)


def smooth(data: Data) -> Curve | None:
    """Smoothing splines, as smooth as generalised cross-validation finds best. None if
    a quantity is measured at fewer than five times."""
    from scipy.interpolate import CubicSpline

    splines = []
    for column in range(data.x.shape[1]):
        t, x = _points(data, column)
        if len(np.unique(t)) < 5:
            return None
        t, x = _bins(t, x)
        splines.append(CubicSpline(t, _smoothed(t, x), bc_type="natural"))
    return Curve(splines, np.nanmin(data.x, axis=0), np.nanmax(data.x, axis=0))


def _smoothed(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    r"""The values of the natural spline s that minimises $\sum (x - s)^2 + \lambda \int
    s''^2$, by Reinsch's equations: $(R + \lambda Q^T Q)\gamma = Q^T x$ and x - s =
    $\lambda Q \gamma$, with five diagonals.

    The degrees of freedom, which cross-validation asks for, are those of equal spacing.
    Matrix decompositions would give them exactly, but run on threads of their own and
    stand in the way of fits beside each other."""
    from scipy.linalg import solveh_banded

    h = np.diff(t)
    # The columns of Q: second differences, (a, b, c) from each point on.
    a, c = 1 / h[:-1], 1 / h[1:]
    b = -a - c
    R = np.zeros((3, len(b)))
    R[2], R[1, 1:] = (h[:-1] + h[1:]) / 3, h[1:-1] / 6
    square = np.zeros((3, len(b)))
    square[2] = a**2 + b**2 + c**2
    square[1, 1:] = b[:-1] * a[1:] + c[:-1] * b[1:]
    square[0, 2:] = c[:-2] * a[2:]
    bent = a * x[:-2] + b * x[1:-1] + c * x[2:]
    order = np.pi * np.arange(0.5, len(b)) / (t[-1] - t[0])
    eigenvalues = (t[-1] - t[0]) / len(t) * order**4

    def residual(weight: float) -> np.ndarray:
        gamma = weight * solveh_banded(R + weight * square, bent)
        r = np.zeros_like(x)
        r[:-2] += a * gamma
        r[1:-1] += b * gamma
        r[2:] += c * gamma
        return r

    best, found = np.inf, np.zeros_like(x)
    # Of less smoothing these degrees of freedom say nothing.
    for weight in np.geomspace(10 / eigenvalues[-1], 100 / eigenvalues[0], 40):
        r = residual(weight)
        freedom = np.sum(weight * eigenvalues / (1 + weight * eigenvalues))
        score = np.sum(r**2) / freedom**2
        if score < best:
            best, found = score, r
    return x - found


def spread(data: Data) -> np.ndarray:
    """The standard deviation of each quantity; its size where it does not vary, and 1
    where that is zero or nothing is measured."""
    found = []
    for column in range(data.x.shape[1]):
        _, x = _points(data, column)
        varies = len(x) > 1 and np.ptp(x) > 0
        found.append(np.std(x) if varies else np.max(np.abs(x), initial=0.0))
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
