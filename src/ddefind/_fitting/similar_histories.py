"""Histories of one kind that are similar to a history of another kind."""

from typing import Any

import numpy as np

from .._problem.history import Affine, Constant, Periodic, Smooth

# The periods of the sines that are tried, in units of the time that is compared.
_PERIODS = (0.75, 1.0, 1.5, 2.0, 3.0, 4.5, 7.0)


def similar_histories(kind: Any, t: np.ndarray, x: np.ndarray) -> list[Any]:
    """The histories of the class of `kind` that are nearest to the states `x`, [N, d],
    at the times `t`, by least squares. The frequency of a sine is not sought, but
    several are tried.

    >>> t = np.array([-1.0, 0.0])
    >>> similar_histories(Affine(0.0, 0.0), t, np.array([[1.0], [3.0]]))[0].a
    Array([2.], dtype=float64)
    """
    one = np.ones_like(t)
    if isinstance(kind, Constant):
        return [Constant(x.mean(axis=0))]
    if isinstance(kind, Affine):
        a, b = _solved([t, one], x)
        return [Affine(a, b)]
    if isinstance(kind, Periodic):
        sines = []
        for period in _PERIODS:
            omega = 2 * np.pi / (period * np.ptp(t))
            A, b = _solved([np.sin(omega * t), one], x)
            sines.append(Periodic(A, np.full(len(b), omega), b))
        return sines
    assert isinstance(kind, Smooth)
    k, length = len(kind.c), float(np.ptp(t))
    curves = np.eye(k)[:, :, None]
    bends = [np.asarray(_curve(c, length, t)) for c in curves]
    a, b, *c = _solved([t, one, *bends], x)
    return [Smooth(a, b, np.array(c), length)]


def _curve(c: np.ndarray, length: float, t: np.ndarray) -> np.ndarray:
    past = Smooth(0.0, 0.0, c, length)
    return np.array([float(past(each)[0]) for each in t])


def _solved(columns: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    """The coefficients of the columns that come nearest to `x`, one row for each."""
    return np.linalg.lstsq(np.stack(columns, axis=1), x, rcond=None)[0]
