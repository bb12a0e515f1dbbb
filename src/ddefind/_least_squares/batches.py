"""Many least-squares fits of one setup, distributed over all cores.

`refine` runs Levenberg-Marquardt from many starts and returns their `RefinedFits`. The
starts are cut into blocks of fixed size, so that one compiled program serves any number
of them, and the blocks run on a pool of threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np

from .._data.smoothing import spread
from .._loss.path_costs import Points
from .._util.blas_threads import one_blas_thread
from .adaptive_sensitivity import ADAPTIVE_CAPACITY, USUAL
from .fit_block import StartTask, fit_block
from .levenberg_marquardt import (
    EXACT,
    GRADIENT,
    KINK,
    LIMIT,
    PROBABLE,
    SLOW,
    STEP,
    MinimiserResult,
)
from .normal_equations import LeastSquaresModel
from .setup import CAPACITY, MESH_CAPACITY, FitSetup

# The number of fits that one call of the compiled program runs, one after the other.
BLOCK_SIZE = 16
# A fit that needs more evaluations than this counts as not converged.
MAX_EVALUATIONS = 400
# Most fits converge within this number of evaluations. Those that do not go on if their
# sum of squares is within this factor of the lowest.
PATIENCE, PROMISING = 60, 3.0
# The factor by which the delay that steps are aligned with may become shorter before
# the steps are changed, and how often they are.
SHRINKAGE, MOST_SHRINKAGES = 4.0, 6


@final
@dataclass(frozen=True)
class RefinedFits:
    """The results of several fits of one setup, one row for each.

    `theta` are the free values, `gram` and `squares` the normal equations there (see
    `NormalEquations`), `status` says why the minimisation ended, and `n` is the number
    of steps per delay. A sum of squares below `rounding` is zero up to rounding
    errors. `starts` counts the starts that a row stands for, once rows at the same
    place were merged."""

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
        """The weighted sum of squares of each fit; infinite where it is not finite."""
        loss = self.gram[:, 0, 0]
        return np.where(np.isfinite(loss), loss, np.inf)

    @property
    def loss_above_rounding(self) -> np.ndarray:
        """The sums of squares, raised to the size of their rounding errors: what the
        noise is estimated from, so that it never becomes zero."""
        return np.maximum(self.loss, self.rounding)

    @property
    def converged(self) -> np.ndarray:
        return np.isin(self.status, (GRADIENT, STEP, EXACT, KINK, SLOW, PROBABLE))

    def take(self, rows: Any) -> "RefinedFits":
        """The fits with the given row numbers (or where a boolean mask is true)."""
        return RefinedFits(**{name: array[rows] for name, array in vars(self).items()})

    def replace_rows(self, rows: np.ndarray, other: "RefinedFits") -> "RefinedFits":
        """These fits with those of `other` in the given rows, which go on from them."""
        arrays = {}
        for name, array in vars(self).items():
            arrays[name] = np.array(array)
            arrays[name][rows] = getattr(other, name)
        arrays["evaluations"][rows] += self.evaluations[rows]
        return RefinedFits(**arrays)

    def join(self, other: "RefinedFits") -> "RefinedFits":
        """These fits, followed by those of `other`."""
        pairs = zip(vars(self).items(), vars(other).values())
        return RefinedFits(**{name: np.concatenate([a, b]) for (name, a), b in pairs})


def refine(
    setup: FitSetup,
    theta: np.ndarray,
    points: Points,
    n: np.ndarray,
    limit: int = MAX_EVALUATIONS,
    held: np.ndarray | None = None,
    rate: float = 0.0,
) -> RefinedFits:
    """Run Levenberg-Marquardt from each row of `theta`, on all cores.

    **Arguments**

    - `theta`: the starts, of shape (fits, p).
    - `points`: the data with their weights: one set for all fits, or arrays with a
      first axis over the fits.
    - `n`: the steps per delay of each fit or, on a mesh, those in the record.
    - `limit`: the largest number of evaluations of a fit.
    - `held`: which values stay at their start, of shape (p,) or (fits, p).
    - `rate`: the least number of steps per unit of time (see `StartTask`)."""
    n = np.array(n)
    fits = _refine_once(setup, theta, points, n, limit, held, rate)
    for _ in range(MOST_SHRINKAGES if limit >= PATIENCE else 0):
        # Steps follow the delay. Where it has become much shorter, a fit that is to
        # converge goes on with fewer of them.
        rows = np.flatnonzero(_has_shrunk(setup, theta, fits.theta))
        if len(rows) == 0:
            break
        n[rows] = np.maximum(np.ceil(n[rows] / SHRINKAGE), 1)
        theta = fits.theta
        own = points
        if np.ndim(points.times) == 2:
            own = jax.tree.map(lambda a, rows=rows: np.asarray(a)[rows], points)
        is_held = held if held is None or held.ndim == 1 else held[rows]
        again = _refine_once(setup, theta[rows], own, n[rows], limit, is_held, rate)
        fits = fits.replace_rows(rows, again)
    return fits


def refine_promising(
    setup: FitSetup, theta: np.ndarray, points: Points, n: np.ndarray
) -> RefinedFits:
    """Refine the fits, but give up those that go on for long far from the best."""
    fits = refine(setup, theta, points, n, PATIENCE)
    lowest = np.min(fits.loss)
    # A sum of squares is compared with itself, a likelihood with the number of values.
    size = lowest if setup.model.likelihood is None else setup.count
    is_promising = fits.loss < lowest + (PROMISING - 1) * size
    rows = np.flatnonzero((fits.status == LIMIT) & is_promising)
    if len(rows) == 0:
        return fits
    longer = refine(setup, fits.theta[rows], points, fits.n[rows])
    return fits.replace_rows(rows, longer)


def _shortest_delays(setup: FitSetup, theta: np.ndarray) -> np.ndarray:
    """The lower bounds of fits that begin at `theta`, with one for the delay that steps
    are aligned with: it may become shorter by no more than a factor."""
    lower = np.broadcast_to(setup.lower, theta.shape).copy()
    if setup.model.mesh is None and not setup.model.is_adaptive:
        for j in setup.model.free.delays:
            lower[:, j] = np.maximum(lower[:, j], theta[:, j] / SHRINKAGE)
    return lower


def _has_shrunk(setup: FitSetup, before: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Which fits have shortened the delay as far as they could, but not to its own
    bound."""
    lower = _shortest_delays(setup, before)
    return np.any((lower > setup.lower) & (theta <= lower), axis=1)


def _refine_once(
    setup: FitSetup,
    theta: np.ndarray,
    points: Points,
    n: np.ndarray,
    limit: int,
    held: np.ndarray | None,
    rate: float,
) -> RefinedFits:
    """The same, where the delay becomes shorter by no more than a factor."""
    end = float(np.max(np.asarray(points.times)))
    capacity = capacity_for(setup.model, int(np.max(n)), end)
    has_own_points = np.ndim(points.times) == 2
    box = setup.box(len(theta), held)._replace(lower=_shortest_delays(setup, theta))

    def fit_rows(rows: np.ndarray) -> MinimiserResult:
        # A block that is not full is filled with repetitions, which a limit of zero
        # evaluations makes free of cost.
        filled = np.resize(rows, BLOCK_SIZE)
        is_active = np.arange(BLOCK_SIZE) < len(rows)
        block_points = jax.tree.map(
            lambda a: (
                a[filled]
                if has_own_points
                else np.broadcast_to(a, (BLOCK_SIZE, *np.shape(a)))
            ),
            points,
        )
        block_box = jax.tree.map(lambda a: a[filled], box)
        limits = np.where(is_active, limit, 0)
        rates = np.full(BLOCK_SIZE, rate)
        tasks = StartTask(
            theta[filled], block_box, block_points, n[filled], rates, limits
        )
        result = jax.tree.map(np.asarray, fit_block(setup.model, tasks, capacity))
        return jax.tree.map(lambda a: a[: len(rows)], result)

    result = map_in_blocks(fit_rows, len(theta), setup.workers)
    return RefinedFits(
        result.theta,
        result.normal.gram,
        result.normal.squares,
        result.evaluations,
        result.status,
        n,
        np.broadcast_to(_rounding(setup, points), len(theta)),
        np.ones(len(theta), int),
    )


def capacity_for(model: LeastSquaresModel, n: int, T: float) -> int:
    """The number of rows that the solver needs room for: a ring buffer with a delay of
    n steps or, on a mesh, all rows up to the time T with n steps in the record.

    It is one of a few powers of two, since each capacity needs a compilation."""
    if model.is_adaptive:
        # Steps are as short as the fifth root of the tolerance. There is room for those
        # of half the usual length.
        return ADAPTIVE_CAPACITY * (1 << max(n // (2 * USUAL) - 1, 0).bit_length())
    needed, capacity = n + 4, CAPACITY
    if model.mesh is not None:
        # Where delays become shorter during a fit, their intervals keep their steps.
        longer = max(T / float(np.max(model.mesh.record)), 1.0)
        needed = int(3 * n * longer) + 4 * model.mesh.points.count
        capacity = MESH_CAPACITY
    while capacity < needed:
        capacity *= 2
    return capacity


def _rounding(setup: FitSetup, points: Points) -> np.ndarray:
    """The sum of squares that rounding errors alone may cause, for one data set or for
    each of several."""
    values, weights = np.asarray(points.values), np.asarray(points.weights)
    tiny = (1e-9 * spread(setup.data)) ** 2 + (1e-12 * values) ** 2
    return np.sum(weights * tiny, axis=(-2, -1))


def map_in_blocks(
    function: Callable[[np.ndarray], Any], count: int, workers: int
) -> Any:
    """Call `function(rows)` for blocks of the row numbers 0 ... `count` - 1, on a pool
    of `workers` threads, and concatenate the arrays that it returns."""
    blocks = np.split(np.arange(count), range(BLOCK_SIZE, count, BLOCK_SIZE))
    with one_blas_thread():
        if len(blocks) == 1 or workers == 1:
            results = list(map(function, blocks))
        else:
            with ThreadPoolExecutor(workers) as pool:
                results = list(pool.map(function, blocks))
    return jax.tree.map(lambda *a: np.concatenate(a), *results)
