"""What data show without a model: a smooth curve through them, its slope, their spread
and their noise."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .data import Data
from .study_data import Records, each_part, parts_of

# If there are more points, they are averaged in this many bins, which is enough for a
# smooth curve.
_MOST_POINTS = 200
# This many columns are multiplied at a time. The width is always the same, so that a
# column's result does not depend on how many there are.
_WIDTH = 64
# Where gaps between times differ by more than this, eigenvalues would be inexact.
_MOST_UNEVEN = 1e4
# A spline with less than this share of the variance of its data is hardly anything.
_HARDLY_ANYTHING = 0.2


class QuantitySpline(NamedTuple):
    r"""A cubic spline of one quantity, given by its values x and its second derivatives
    $\gamma$ at the knots t. In the interval of length h from $t_i$ to $t_{i+1}$, with
    $a = (t_{i+1} - t) / h$ and $b = 1 - a$, it is

    $$a x_i + b x_{i+1} + \frac{h^2}{6}\bigl((a^3 - a)\gamma_i +
      (b^3 - b)\gamma_{i+1}\bigr).$$

    `curvatures` are the degrees of freedom that it has beside those of a straight
    line. For the same quantity of several data sets, x, $\gamma$ and the result have a
    last axis over these."""

    t: np.ndarray
    x: np.ndarray
    second: np.ndarray
    curvatures: Any

    def __call__(self, t: np.ndarray) -> np.ndarray:
        i, h, a, b = self._locate(t)
        curved = (a**3 - a) * self.second[i] + (b**3 - b) * self.second[i + 1]
        return a * self.x[i] + b * self.x[i + 1] + h**2 / 6 * curved

    def slope(self, t: np.ndarray) -> np.ndarray:
        """Return the first derivative at the times `t`."""
        i, h, a, b = self._locate(t)
        curved = (3 * b**2 - 1) * self.second[i + 1] - (3 * a**2 - 1) * self.second[i]
        return (self.x[i + 1] - self.x[i]) / h + h / 6 * curved

    def _locate(
        self, t: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the interval i of each time, its length h, and a and b as above."""
        i = np.clip(np.searchsorted(self.t, t, "right") - 1, 0, len(self.t) - 2)
        h = self.t[i + 1] - self.t[i]
        a = (self.t[i + 1] - t) / h
        if self.x.ndim == 2:
            h, a = h[..., None], a[..., None]
        return i, h, a, 1 - a


class Curve(NamedTuple):
    """A smooth trajectory through data, one spline per quantity.

    Its values are clipped to the range of the data, so that it is positive where they
    are. `x(t)` and `slope(t)` have the shape of `t`, with a last axis over quantities.
    """

    splines: list[QuantitySpline]
    lowest: np.ndarray
    highest: np.ndarray

    def x(self, t: np.ndarray) -> np.ndarray:
        """Return the values at the times `t`."""
        x = np.stack([spline(t) for spline in self.splines], axis=-1)
        return np.clip(x, self.lowest, self.highest)

    def slope(self, t: np.ndarray) -> np.ndarray:
        """Return the first derivatives at the times `t`."""
        return np.stack([spline.slope(t) for spline in self.splines], axis=-1)


def smooth(data: Data) -> Curve | None:
    """Return smoothing splines through the data, whose smoothness minimises the
    generalised cross-validation score; None if a quantity has fewer than five times."""
    return _curve(data, smoothed)


def smooth_or_followed(data: Data) -> Curve | None:
    """Return the same, but splines through the data themselves where smoothing leaves
    hardly anything of a quantity."""

    def spline(t: np.ndarray, x: np.ndarray) -> QuantitySpline:
        found = smoothed(t, x)
        is_nothing = np.var(found.x) < _HARDLY_ANYTHING * np.var(x)
        return followed(t, x) if is_nothing else found

    return _curve(data, spline)


def _curve(
    data: Data, spline: Callable[[np.ndarray, np.ndarray], QuantitySpline]
) -> Curve | None:
    splines = []
    for column in range(data.x.shape[1]):
        t, x = _points(data, column)
        if len(np.unique(t)) < 5:
            return None
        splines.append(spline(*bins(t, x)))
    return Curve(splines, np.nanmin(data.x, axis=0), np.nanmax(data.x, axis=0))


class Reinsch(NamedTuple):
    """The matrices of Reinsch's equations at certain times: the bands of R and of Q^T
    Q, and the three entries of each column of Q, a second difference."""

    R: np.ndarray
    QtQ: np.ndarray
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray


def reinsch(t: np.ndarray) -> Reinsch:
    """Return the matrices of `smoothed`, with the bands of the upper half, from the
    outermost one to the diagonal."""
    h = np.diff(t)
    a, c = 1 / h[:-1], 1 / h[1:]
    b = -a - c
    R = np.zeros((3, len(b)))
    R[2], R[1, 1:] = (h[:-1] + h[1:]) / 3, h[1:-1] / 6
    QtQ = np.zeros((3, len(b)))
    QtQ[2] = a**2 + b**2 + c**2
    QtQ[1, 1:] = b[:-1] * a[1:] + c[:-1] * b[1:]
    QtQ[0, 2:] = c[:-2] * a[2:]
    return Reinsch(R, QtQ, a, b, c)


def trial_weights(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smoothing weights to try, and the residual degrees of freedom with
    each, as if the points were equally spaced."""
    length = t[-1] - t[0]
    order = np.pi * np.arange(0.5, len(t) - 2) / length
    eigenvalues = length / len(t) * order**4
    # With a smaller weight the degrees of freedom of equal spacing are too inexact.
    weights = np.geomspace(10 / eigenvalues[-1], 100 / eigenvalues[0], 40)
    shares = weights[:, None] * eigenvalues
    return weights, np.sum(shares / (1 + shares), axis=1)


def smoothed(t: np.ndarray, x: np.ndarray) -> QuantitySpline:
    r"""Return the natural cubic spline s that minimises $\sum (x - s)^2 + \lambda \int
    s''^2$, with the $\lambda$ of the lowest generalised cross-validation score.

    For each $\lambda$ it solves Reinsch's equations, a banded system with five
    diagonals: $(R + \lambda Q^T Q)\gamma = Q^T x$ and $x - s = \lambda Q \gamma$.

    The residual degrees of freedom in the score are those of equally spaced points. The
    exact ones would need a matrix decomposition, which runs on threads of its own and
    would slow down other fits that run at the same time."""
    matrices, count = reinsch(t), len(t) - 2
    best_score, best = np.inf, (np.zeros_like(x), np.zeros(count), float(count))
    for weight, freedom in zip(*trial_weights(t)):
        residual, gamma = _solved(matrices, weight, x)
        score = np.sum(residual**2) / freedom**2
        if score < best_score:
            best_score, best = score, (residual, gamma, freedom)
    residual, gamma, freedom = best
    return QuantitySpline(t, x - residual, np.pad(gamma, 1), count - freedom)


def smoothed_columns(t: np.ndarray, x: np.ndarray) -> QuantitySpline:
    r"""Return what `smoothed` returns, for each column of `x`.

    With $R = L L^T$ and the eigenvectors V of $L^{-1} Q^T Q L^{-T} = V D V^T$,
    Reinsch's equations are solved for all $\lambda$ at once: $\gamma = L^{-T} V (1 +
    \lambda D)^{-1} c$ with $c = V^T L^{-1} Q^T x$, and the sum of squares is $|\lambda
    D^{1/2} (1 + \lambda D)^{-1} c|^2$."""
    gaps = np.diff(t)
    if np.max(gaps) > _MOST_UNEVEN * np.min(gaps):
        return _one_by_one(t, x)
    modes = _modes(t)
    weights, freedoms = trial_weights(t)
    shrunk = 1 + weights[:, None] * modes.D
    score = (weights[:, None] / shrunk) ** 2 * modes.D / freedoms[:, None] ** 2
    residual, second = np.empty(x.shape), np.zeros(x.shape)
    curvatures = np.empty(x.shape[1])
    for first in range(0, x.shape[1], _WIDTH):
        some = x[:, first : first + _WIDTH]
        columns = np.zeros((len(t), _WIDTH))
        columns[:, : some.shape[1]] = some
        c = modes.project @ columns
        best = np.argmin(score @ c**2, axis=0)
        gamma = modes.back @ (c / shrunk[best].T)
        kept = slice(first, first + some.shape[1]), slice(some.shape[1])
        residual[:, kept[0]] = (weights[best] * (modes.Q @ gamma))[:, kept[1]]
        second[1:-1, kept[0]] = gamma[:, kept[1]]
        curvatures[kept[0]] = (len(t) - 2 - freedoms[best])[kept[1]]
    return QuantitySpline(t, x - residual, second, curvatures)


class _Modes(NamedTuple):
    """$D$, $V^T L^{-1} Q^T$, $L^{-T} V$ and $Q$."""

    D: np.ndarray
    project: np.ndarray
    back: np.ndarray
    Q: np.ndarray


def _modes(t: np.ndarray) -> _Modes:
    from scipy.linalg import solve_triangular

    equations = reinsch(t)
    size, k = len(t) - 2, np.arange(len(t) - 2)
    Q, R = np.zeros((len(t), size)), np.zeros((size, size))
    for row, entries in enumerate((equations.a, equations.b, equations.c)):
        Q[k + row, k] = entries
    R[k, k] = equations.R[2]
    R[k[1:], k[:-1]] = R[k[:-1], k[1:]] = equations.R[1, 1:]
    L = np.linalg.cholesky(R)
    half = solve_triangular(L, Q.T, lower=True)
    D, V = np.linalg.eigh(half @ half.T)
    back = solve_triangular(L.T, V, lower=False)
    return _Modes(np.maximum(D, 0.0), V.T @ half, back, Q)


def _one_by_one(t: np.ndarray, x: np.ndarray) -> QuantitySpline:
    splines = [smoothed(t, column) for column in x.T]
    return QuantitySpline(
        t,
        np.stack([each.x for each in splines], axis=1),
        np.stack([each.second for each in splines], axis=1),
        np.array([each.curvatures for each in splines]),
    )


def followed(t: np.ndarray, x: np.ndarray) -> QuantitySpline:
    """Return the spline with the smallest of the smoothing weights: it follows the
    data. That is better than nothing where these are so far apart that they look like
    noise."""
    weights, freedom = trial_weights(t)
    residual, gamma = _solved(reinsch(t), weights[0], x)
    return QuantitySpline(t, x - residual, np.pad(gamma, 1), len(t) - 2 - freedom[0])


def _solved(
    matrices: Reinsch, weight: float, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return residuals and second derivatives of the spline with this weight."""
    from scipy.linalg import solveh_banded

    R, QtQ, a, b, c = matrices
    gamma = solveh_banded(R + weight * QtQ, a * x[:-2] + b * x[1:-1] + c * x[2:])
    residual = np.zeros_like(x)
    residual[:-2] += weight * a * gamma
    residual[1:-1] += weight * b * gamma
    residual[2:] += weight * c * gamma
    return residual, gamma


def spread(data: Records) -> np.ndarray:
    """Return the standard deviation of each quantity. For a quantity that does not vary
    it is the absolute value, or 1 if that is zero or nothing was measured."""
    spreads = []
    for column in range(data.x.shape[1]):
        _, x = _points(data, column)
        varies = len(x) > 1 and np.ptp(x) > 0
        spreads.append(np.std(x) if varies else np.max(np.abs(x), initial=0.0))
    spreads = np.array(spreads)
    return np.where(spreads > 0, spreads, 1.0)


def smooth_variance(data: Records, weights: np.ndarray) -> np.ndarray:
    """Return the variance of each quantity around its smoothing spline, in units of the
    `weights`, which have the shape of `data.x`; NaN if there are too few values. In a
    study every experiment has a spline of its own."""
    variances = []
    for column in range(data.x.shape[1]):
        squares, freedom = 0.0, 0.0
        for part, part_weights in each_part(data, weights):
            t, x = _points(part, column)
            if len(np.unique(t)) < 5:
                continue
            spline = smoothed(*bins(t, x))
            weight = part_weights[np.isfinite(part.x[:, column]), column]
            freedom += max(len(t) - 2 - spline.curvatures, 1.0)
            squares += float(np.sum(weight * (x - spline(t)) ** 2))
        variances.append(squares / freedom if freedom else np.nan)
    return np.array(variances)


def rough_noise(data: Records) -> np.ndarray:
    """Estimate the standard deviation of the noise of each quantity.

    It is estimated from the distance of each point to the straight line between its two
    neighbours (Gasser, Sroka and Jennen-Steinmetz), and is at least a millionth of the
    spread of the quantity."""
    least, noise = 1e-6 * spread(data), []
    for column in range(len(least)):
        points = [_points(part, column) for part in parts_of(data)]
        squares = np.concatenate([scatter(*each) ** 2 for each in points])
        noise.append(np.sqrt(np.mean(squares)) if len(squares) else 0.0)
    return np.maximum(noise, least)


def scatter(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the distance of each point but the first and the last to the line between
    its neighbours, scaled to the size of its noise. The last axis of `x` is time."""
    if len(t) < 3:
        return np.zeros((*x.shape[:-1], 0))
    gap = t[2:] - t[:-2]
    left = np.where(gap > 0, (t[2:] - t[1:-1]) / np.where(gap > 0, gap, 1.0), 0.5)
    distance = left * x[..., :-2] + (1 - left) * x[..., 2:] - x[..., 1:-1]
    return distance / np.sqrt(left**2 + (1 - left) ** 2 + 1)


def _points(data: Records, column: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the times and values at which a quantity was measured."""
    measured = np.isfinite(data.x[:, column])
    return data.t[measured], data.x[measured, column]


def bins(t: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean values at distinct times or, if there are more than
    `_MOST_POINTS` of these, the mean times and values in bins; for each column of `x`,
    if it is a matrix. Times are in order."""
    times, index = np.unique(t, return_inverse=True)
    if len(times) > _MOST_POINTS:
        edges = np.linspace(times[0], times[-1], _MOST_POINTS + 1)[1:-1]
        index = np.unique(np.digitize(t, edges), return_inverse=True)[1]
    count, first = np.bincount(index), np.searchsorted(index, np.unique(index))
    total = np.add.reduceat(x, first, axis=0)
    return np.bincount(index, t) / count, (total.T / count).T
