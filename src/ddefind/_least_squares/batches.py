"""Many least-squares fits of one setup, on all cores."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import final

import jax
import numpy as np

from .._data.smoothing import spread
from .._loss.path_costs import Points
from .levenberg_marquardt import EXACT, GRADIENT, STEP
from .normal_equations import Task, fit_block
from .setup import CAPACITY, FitSetup

# Fits that one call of a program runs, one after the other.
BLOCK = 16
# Evaluations until a fit counts as not converging.
LIMIT = 400


@final
@dataclass(frozen=True)
class RefinedFits:
    """Fits of one setup: a row for each, which stands for so many `starts`. A sum of
    squares below `rounding` could as well be zero."""

    theta: np.ndarray
    gram: np.ndarray
    squares: np.ndarray
    evaluations: np.ndarray
    status: np.ndarray
    n: np.ndarray
    rounding: np.ndarray
    starts: np.ndarray

    @property
    def loss(self) -> np.ndarray:
        found = self.gram[:, 0, 0]
        return np.where(np.isfinite(found), found, np.inf)

    @property
    def scatter(self) -> np.ndarray:
        """The sums of squares that noise is judged by: no less than rounding errors
        make."""
        return np.maximum(self.loss, self.rounding)

    @property
    def converged(self) -> np.ndarray:
        return np.isin(self.status, (GRADIENT, STEP, EXACT))

    def take(self, rows) -> "RefinedFits":
        return RefinedFits(**{name: value[rows] for name, value in vars(self).items()})

    def join(self, other: "RefinedFits") -> "RefinedFits":
        pairs = zip(vars(self).items(), vars(other).values())
        return RefinedFits(**{name: np.concatenate([a, b]) for (name, a), b in pairs})


def refine(
    setup: FitSetup,
    theta: np.ndarray,
    points: Points,
    n: np.ndarray,
    limit: int = LIMIT,
    held: np.ndarray | None = None,
    rate: float = 0.0,
) -> RefinedFits:
    """Least squares from each row of `theta`, on all cores. `points` are one set for
    all, or have a first axis over the rows; `held` values stay; for `rate`
    see `Task`."""
    capacity = capacity_for(int(np.max(n)))
    own = np.ndim(points.times) == 2

    def block(rows: np.ndarray):
        fill = np.resize(rows, BLOCK)
        active = np.arange(BLOCK) < len(rows)
        each = jax.tree.map(
            lambda a: a[fill] if own else np.broadcast_to(a, (BLOCK, *np.shape(a))),
            points,
        )
        box = jax.tree.map(lambda a: a[fill], setup.box(len(theta), held))
        limits = np.where(active, limit, 0)
        rates = np.full(BLOCK, rate)
        task = Task(theta[fill], box, each, n[fill], rates, limits)
        found = jax.tree.map(np.asarray, fit_block(setup.model, task, capacity))
        return jax.tree.map(lambda a: a[: len(rows)], found)

    found = in_blocks(block, len(theta), setup.workers)
    return RefinedFits(
        found.theta,
        found.normal.gram,
        found.normal.squares,
        found.evaluations,
        found.status,
        np.asarray(n),
        np.broadcast_to(_rounding(setup, points), len(theta)),
        np.ones(len(theta), int),
    )


def capacity_for(n: int) -> int:
    """Rows of the ring for a delay of n steps: few different programs."""
    capacity = CAPACITY
    while capacity < n + 4:
        capacity *= 2
    return capacity


def _rounding(setup: FitSetup, points: Points) -> np.ndarray:
    """The sum of squares, of one data set or of each, that is not to be told from
    zero."""
    values, weights = np.asarray(points.values), np.asarray(points.weights)
    tiny = (1e-9 * spread(setup.data)) ** 2 + (1e-12 * values) ** 2
    return np.sum(weights * tiny, axis=(-2, -1))


def in_blocks(block, count: int, workers: int):
    """The results of `block(rows)` for blocks of rows, put together."""
    rows = np.split(np.arange(count), range(BLOCK, count, BLOCK))
    if len(rows) == 1 or workers == 1:
        parts = list(map(block, rows))
    else:
        with ThreadPoolExecutor(workers) as pool:
            parts = list(pool.map(block, rows))
    return jax.tree.map(lambda *a: np.concatenate(a), *parts)
