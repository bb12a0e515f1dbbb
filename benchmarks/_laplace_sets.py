"""The three sets of delay equations by which Neural Laplace was published.

Settings as in its `experiments/datasets.py` (Holt, Qian and van der Schaar, 2022): 200
points of each trajectory, standardised over all of them, 80% to learn from, 10% to
choose by, 10% to test. The first 100 points of a trajectory are seen, and the other 100
are to be predicted. Times are those at which the points really lie.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.interpolate import CubicHermiteSpline

SEEN = 100


@final
@dataclass(frozen=True)
class TrajectorySet:
    """Standardised trajectories `x` [trajectory, point, state] at the times `t`, which
    begin at 0; `mean` and `spread` are those of the states in their own units."""

    name: str
    t: np.ndarray
    x: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    learn: np.ndarray
    choose: np.ndarray
    test: np.ndarray


def _solved(slope: Callable, starts: np.ndarray, tau: float, t: np.ndarray, n: int):
    """Trajectories of x' = slope(x(t), x(t - tau)) with constant pasts, at times `t`:
    the classical Runge-Kutta method with the step tau / n, on all side by side."""
    h, count = tau / n, int(np.ceil(t[-1] / tau * n)) + 1
    x = np.repeat(starts[None], count + 1, 0)
    dx = np.zeros_like(x)

    def past(k: int) -> np.ndarray:
        return x[k - n] if k >= n else starts

    def past_between(k: int) -> np.ndarray:
        if k < n:
            return starts
        left, right = k - n, k - n + 1
        return (x[left] + x[right]) / 2 + h / 8 * (dx[left] - dx[right])

    for k in range(count):
        dx[k] = first = slope(x[k], past(k))
        second = slope(x[k] + h / 2 * first, past_between(k))
        third = slope(x[k] + h / 2 * second, past_between(k))
        fourth = slope(x[k] + h * third, past(k + 1))
        x[k + 1] = x[k] + h / 6 * (first + 2 * second + 2 * third + fourth)
        dx[k + 1] = slope(x[k + 1], past(k + 1))
    return np.moveaxis(CubicHermiteSpline(h * np.arange(count + 1), x, dx)(t), 0, 1)


def _squares(lower: float, upper: float, side: int = 31) -> np.ndarray:
    """Starts on a square with `side` values in each direction."""
    values = np.linspace(lower, upper, side)
    return np.stack(np.meshgrid(values, values, indexing="ij"), -1).reshape(-1, 2)


def _spiral() -> tuple[np.ndarray, np.ndarray]:
    t = np.linspace(0.02, 20.0, 1000)[::5] - 0.02

    def slope(x, y):
        a, b = np.tanh(x[:, 0] + y[:, 0]), np.tanh(x[:, 1] + y[:, 1])
        return np.stack([-a + b, -a - b], 1)

    return t, _solved(slope, _squares(-2.0, 2.0), 2.5, t, 500)


def _lotka_volterra() -> tuple[np.ndarray, np.ndarray]:
    t = np.linspace(2.0, 30.0, 1000)[::5] - 2.0

    def slope(x, y):
        return 0.5 * np.stack([x[:, 0] * (1 - y[:, 1]), -x[:, 1] * (1 - y[:, 0])], 1)

    return t, _solved(slope, _squares(0.1, 2.0), 0.1, t, 10)


def _mackey_glass() -> tuple[np.ndarray, np.ndarray]:
    """x' = 0.25 y / (1 + y^10) - 0.1 x with a delay of 100. The first half of the
    points is the past, 0 before a time of its own and 1 after it, on [-100, 0]; the
    second is the solution on [0, 50], whose delayed state is that past. It is
    known in closed form: decay until the step arrives, then a rise towards 1.25."""
    before = np.linspace(-100.0, 0.0, 1000)[::10]
    after = np.linspace(0.0, 50.0, 1000)[::10]
    step = -np.linspace(100.0, 0.0, 1000)[:, None]
    past = (before > step).astype(float)
    arrival, start = np.maximum(step + 100.0, 0.0), np.where(step < 0, 1.0, 0.0)
    decayed = start * np.exp(-0.1 * np.minimum(after, arrival))
    since = np.maximum(after - arrival, 0.0)
    solution = 1.25 + (decayed - 1.25) * np.exp(-0.1 * since)
    x = np.concatenate([past, np.where(after > arrival, solution, decayed)], 1)
    return np.concatenate([before, after]) + 100.0, x[:, :, None]


SETS: dict[str, Any] = {
    "spiral": _spiral,
    "lotka_volterra": _lotka_volterra,
    "mackey_glass": _mackey_glass,
}


def trajectory_set(name: str, seed: int = 0) -> TrajectorySet:
    """One of the three sets, with a random split."""
    t, x = SETS[name]()
    flat = x.reshape(-1, x.shape[2])
    mean, spread = flat.mean(0), flat.std(0, ddof=1)
    order = np.random.default_rng(seed).permutation(len(x))
    parts = np.split(order, [int(0.8 * len(x)), int(0.9 * len(x))])
    return TrajectorySet(name, t, (x - mean) / spread, mean, spread, *parts)
