"""Smoothing splines through many data sets that were measured at the same times."""

from typing import NamedTuple

import numpy as np

from .smoothing import Spline, reinsch, smoothed, trial_weights

# So many columns are multiplied at a time. The width is always the same, so that a
# column's result does not depend on how many there are.
_WIDTH = 64
# Where gaps between times differ by more than this, eigenvalues would be inexact.
_MOST_UNEVEN = 1e4


def smoothed_columns(t: np.ndarray, x: np.ndarray) -> Spline:
    r"""What `smoothed` returns, for each column of `x`.

    With $R = L L^T$ and the eigenvectors V of $L^{-1} Q^T Q L^{-T} = V D V^T$,
    Reinsch's equations are solved for all $\lambda$ at once: $\gamma = L^{-T} V (1 +
    \lambda D)^{-1} c$ with $c = V^T L^{-1} Q^T x$, and the sum of squares is
    $|\lambda D^{1/2} (1 + \lambda D)^{-1} c|^2$."""
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
        own = x[:, first : first + _WIDTH]
        columns = np.zeros((len(t), _WIDTH))
        columns[:, : own.shape[1]] = own
        c = modes.project @ columns
        best = np.argmin(score @ c**2, axis=0)
        gamma = modes.back @ (c / shrunk[best].T)
        kept = slice(first, first + own.shape[1]), slice(own.shape[1])
        residual[:, kept[0]] = (weights[best] * (modes.Q @ gamma))[:, kept[1]]
        second[1:-1, kept[0]] = gamma[:, kept[1]]
        curvatures[kept[0]] = (len(t) - 2 - freedoms[best])[kept[1]]
    return Spline(t, x - residual, second, curvatures)


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


def _one_by_one(t: np.ndarray, x: np.ndarray) -> Spline:
    splines = [smoothed(t, column) for column in x.T]
    return Spline(
        t,
        np.stack([each.x for each in splines], axis=1),
        np.stack([each.second for each in splines], axis=1),
        np.array([each.curvatures for each in splines]),
    )
