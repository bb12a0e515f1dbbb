"""What data say before any model: a smooth curve through them, its slope, their
noise."""

from typing import NamedTuple

import numpy as np

from .data import Data

# More points than this are averaged in bins: a curve needs no more.
_MOST = 200


class _Spline(NamedTuple):
    r"""A cubic spline by its values x and second derivatives $\gamma$ at its knots:
    with $a = (t_{i+1} - t) / h$ and b = 1 - a it is

    $$a x_i + b x_{i+1} + \frac{h^2}{6}\bigl((a^3 - a)\gamma_i +
      (b^3 - b)\gamma_{i+1}\bigr).$$"""

    t: np.ndarray
    x: np.ndarray
    bend: np.ndarray

    def __call__(self, t: np.ndarray) -> np.ndarray:
        i, h, a, b = self._place(t)
        bent = (a**3 - a) * self.bend[i] + (b**3 - b) * self.bend[i + 1]
        return a * self.x[i] + b * self.x[i + 1] + h**2 / 6 * bent

    def slope(self, t: np.ndarray) -> np.ndarray:
        i, h, a, b = self._place(t)
        bent = (3 * b**2 - 1) * self.bend[i + 1] - (3 * a**2 - 1) * self.bend[i]
        return (self.x[i + 1] - self.x[i]) / h + h / 6 * bent

    def _place(self, t: np.ndarray):
        i = np.clip(np.searchsorted(self.t, t, "right") - 1, 0, len(self.t) - 2)
        h = self.t[i + 1] - self.t[i]
        a = (self.t[i + 1] - t) / h
        return i, h, a, 1 - a


class Curve(NamedTuple):
    """A smooth trajectory through data, in their range: where they are positive, it is,
    too. `x(t)` and `slope(t)` have the shape of t and a last axis over the states."""

    splines: list[_Spline]
    lowest: np.ndarray
    highest: np.ndarray

    def x(self, t: np.ndarray) -> np.ndarray:
        x = np.stack([spline(t) for spline in self.splines], axis=-1)
        return np.clip(x, self.lowest, self.highest)

    def slope(self, t: np.ndarray) -> np.ndarray:
        return np.stack([spline.slope(t) for spline in self.splines], axis=-1)


def smooth(data: Data) -> Curve | None:
    """Smoothing splines, as smooth as generalised cross-validation finds best. None if
    a quantity is measured at fewer than five times."""
    splines = []
    for column in range(data.x.shape[1]):
        t, x = _points(data, column)
        if len(np.unique(t)) < 5:
            return None
        t, x = _bins(t, x)
        splines.append(_smoothed(t, x))
    return Curve(splines, np.nanmin(data.x, axis=0), np.nanmax(data.x, axis=0))


def _smoothed(t: np.ndarray, x: np.ndarray) -> _Spline:
    r"""The natural spline s that minimises $\sum (x - s)^2 + \lambda \int
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

    best, found = np.inf, _Spline(t, x, np.zeros_like(x))
    # Of less smoothing these degrees of freedom say nothing.
    for weight in np.geomspace(10 / eigenvalues[-1], 100 / eigenvalues[0], 40):
        gamma = solveh_banded(R + weight * square, bent)
        r = np.zeros_like(x)
        r[:-2] += weight * a * gamma
        r[1:-1] += weight * b * gamma
        r[2:] += weight * c * gamma
        freedom = np.sum(weight * eigenvalues / (1 + weight * eigenvalues))
        score = np.sum(r**2) / freedom**2
        if score < best:
            best, found = score, _Spline(t, x - r, np.pad(gamma, 1))
    return found


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
