"""x' = f(x, y) with a distributed delay, by collocation and quadrature in numpy.

The solution is a polynomial between any two ends, on Chebyshev's points. Its mean y is
the integral of the density as scipy has it, over the logarithm of the delay: so the
density may be infinite at 0. Before time zero, x is 1. The pieces become shorter
towards time zero, where derivatives may be infinite."""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev, legendre
from scipy import special, stats

_DEGREE, _PANEL = 9, 16
_NODES = -np.cos(np.pi * np.arange(_DEGREE + 1) / _DEGREE)
_TO_SERIES = np.linalg.inv(chebyshev.chebvander(_NODES, _DEGREE))


def distribution(word: str, mean: float, other: float):
    """The distribution of scipy with a mean, and a shape or a standard deviation."""
    if word == "gamma":
        return stats.gamma(other, scale=mean / other)
    if word == "weibull":
        return stats.weibull_min(other, scale=mean / special.gamma(1 + 1 / other))
    if word == "lognormal":
        sigma = np.sqrt(np.log1p((other / mean) ** 2))
        return stats.lognorm(sigma, scale=mean * np.exp(-(sigma**2) / 2))
    phi = (mean / other) ** 2
    return stats.invgauss(1 / phi, scale=mean * phi)


def _rule(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Delays between two ends, and the weights of an integral over them."""
    end = np.log(high)
    begin = end - 60 if low == 0 else np.log(low)
    edges = np.linspace(begin, end, 2 + int(end - begin))
    u, widths = legendre.leggauss(_PANEL)
    half = np.diff(edges)[:, None] / 2
    s = np.exp(edges[:-1, None] + half * (1 + u))
    return s.ravel(), (half * widths * s).ravel()


def _means(density, ends: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The matrix from the values at all points to the means at the times t."""
    matrix = np.zeros((len(t), len(t)))
    for row, now in enumerate(t[1:], 1):
        for piece in range(np.searchsorted(ends, now - 1e-12)):
            low, high = ends[piece], min(ends[piece + 1], now)
            s, weights = _rule(max(now - high, 0.0), now - low)
            u = 2 * (now - s - low) / (ends[piece + 1] - low) - 1
            values = chebyshev.chebvander(u, _DEGREE) @ _TO_SERIES
            first = piece * _DEGREE
            columns = slice(first, first + _DEGREE + 1)
            matrix[row, columns] += (weights * density.pdf(s)) @ values
    return matrix


def solve(f: Callable, law, times: np.ndarray) -> np.ndarray:
    """The states at some times, with the distribution `law`. `f` gives the slope, and
    its derivatives for x and y."""
    T = float(np.max(times))
    graded = 0.4 * 4.0 ** -np.arange(9.0, 0, -1)
    ends = np.concatenate([[0.0], graded, np.linspace(0.4, T, 1 + round(T / 0.4))])
    h = np.diff(ends)
    inner = ends[:-1, None] + h[:, None] * (1 + _NODES[1:]) / 2
    t = np.append(0.0, inner)
    means, before = _means(law, ends, t), law.sf(t)
    derivative = np.stack([chebyshev.chebder(c) for c in np.eye(_DEGREE + 1)])
    slopes = chebyshev.chebvander(_NODES[1:], _DEGREE - 1) @ derivative.T @ _TO_SERIES
    D = np.zeros((len(t), len(t)))
    D[0, 0] = 1.0
    for piece, length in enumerate(h):
        first = piece * _DEGREE
        rows = slice(first + 1, first + _DEGREE + 1)
        D[rows, first : first + _DEGREE + 1] = slopes * 2 / length
    x = np.ones(len(t))
    for _ in range(12):
        slope, on_x, on_y = f(x, means @ x + before)
        right = D @ x - slope
        system = D - np.diag(on_x) - on_y[:, None] * means
        right[0], system[0] = x[0] - 1.0, D[0]
        x = x - np.linalg.solve(system, right)
    place = np.clip(np.searchsorted(ends, times) - 1, 0, len(h) - 1)
    u = 2 * (times - ends[place]) / h[place] - 1
    rows = place[:, None] * _DEGREE + np.arange(_DEGREE + 1)
    values = chebyshev.chebvander(u, _DEGREE) @ _TO_SERIES
    return np.sum(values * x[rows], axis=1)


def derivative(states: Callable, theta: np.ndarray, j: int) -> np.ndarray:
    """The derivative of `states(theta)` for number j, by Richardson's differences."""

    def difference(step):
        move = step * np.eye(len(theta))[j]
        return (states(theta + move) - states(theta - move)) / (2 * step)

    step = 2e-3 * theta[j]
    return (4 * difference(step / 2) - difference(step)) / 3
