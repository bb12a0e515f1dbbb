"""Levenberg-Marquardt from many starts of many data sets (see `_search/batches.py`).

The starts of all data sets are the rows of one program: translated into C where that is
possible, or compiled by XLA, one row after the other in blocks of a fixed size. The
result of a row depends on this row alone."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._engine.engine import SHRINKAGE, Points
from .._programs.program import Runner, run_fits
from .._search.batches import (
    MAX_EVALUATIONS,
    MOST_SHRINKAGES,
    PATIENCE,
    PROMISING,
    StartTask,
    fit_one,
)
from .._search.levenberg_marquardt import LIMIT, STUCK, Box, MinimiserResult
from .._search.normal_equations import LeastSquaresModel
from .._util.arrays import read, write
from .sets import Sets


@final
@dataclass(frozen=True)
class Fits:
    """Fits of many data sets, [sets, rows, ...], with the fields of `RefinedFits`. A
    row that does not exist has an infinite loss, and no starts."""

    theta: np.ndarray
    gram: np.ndarray
    squares: np.ndarray
    evaluations: np.ndarray
    status: np.ndarray
    n: np.ndarray
    starts: np.ndarray

    @property
    def loss(self) -> np.ndarray:
        """The weighted sum of squares of each fit; infinite where it is not finite."""
        loss = self.gram[..., 0, 0]
        return np.where(np.isfinite(loss), loss, np.inf)

    @property
    def exists(self) -> np.ndarray:
        return self.status >= 0

    @property
    def is_unsettled(self) -> np.ndarray:
        """Which fits have ended without convergence."""
        return np.isin(self.status, (STUCK, LIMIT))

    def pick(self, rows: np.ndarray) -> "Fits":
        """Return the fits with the row numbers `rows` [sets, rows]."""
        sets = np.arange(len(rows))[:, None]
        return Fits(*(array[sets, rows] for array in vars(self).values()))

    def sets(self, chosen: Any) -> "Fits":
        """Return the fits of some of the data sets."""
        return Fits(*(array[chosen] for array in vars(self).values()))

    def where(self, kept: np.ndarray) -> "Fits":
        """Return the fits that are `kept` [sets, rows]; the others do not exist."""
        gram = self.gram.copy()
        gram[~kept] = np.inf
        return Fits(
            self.theta,
            gram,
            self.squares,
            self.evaluations,
            np.where(kept, self.status, -1),
            self.n,
            np.where(kept, self.starts, 0),
        )

    def join(self, other: "Fits") -> "Fits":
        """Return these fits, followed by others."""
        pairs = zip(vars(self).values(), vars(other).values())
        return Fits(*(np.concatenate(pair, axis=1) for pair in pairs))

    def write(self, chosen: Any, other: "Fits") -> None:
        """Replace the `chosen` fits."""
        for array, new in zip(vars(self).values(), vars(other).values()):
            array[chosen] = new

    def replace_sets(self, chosen: np.ndarray, other: "Fits") -> "Fits":
        """Return the fits with others for the `chosen` data sets."""
        fits = Fits(*(array.copy() for array in vars(self).values()))
        fits.write(chosen, other)
        return fits


# The number of rows of one call of the compiled program.
BLOCK = 128

# function(shared, of the set of the row, of the row)
Function = Callable[[Any, Any, Any], Any]


def run_rows(
    function: Function,
    shared: Any,
    of_sets: Any,
    own: Any,
    set_of: np.ndarray,
    place: Runner,
) -> Any:
    """Compute `function(shared, of its set, own)` for each row, as arrays with a first
    axis over the rows. Row i belongs to the set `set_of[i]`; arrays of `of_sets` have a
    first axis over the sets, arrays of `own` one over the rows."""
    if place is not Runner.xla:
        return run_fits(function, shared, of_sets, own, set_of, place)
    blocks = []
    for first in range(0, len(set_of), BLOCK):
        rows = np.arange(first, min(first + BLOCK, len(set_of)))
        filled = np.resize(rows, BLOCK)
        result = _run_block(
            function,
            shared,
            _chosen(of_sets, set_of[filled]),
            _chosen(own, filled),
            jnp.asarray(len(rows)),
        )
        blocks.append(jax.tree.map(lambda a, k=len(rows): np.asarray(a)[:k], result))
    return jax.tree.map(lambda *parts: np.concatenate(parts), *blocks)


def _chosen(tree: Any, rows: np.ndarray) -> Any:
    return jax.tree.map(lambda array: array[rows], tree)


@eqx.filter_jit
def _run_block(function: Function, shared: Any, of_sets: Any, own: Any, count: Any):
    """Compute the first `count` rows of a block, one after the other in one program."""

    def row(i):
        return function(shared, *jax.tree.map(lambda a: read(a, i), (of_sets, own)))

    def again(i, results):
        return jax.tree.map(lambda all_, one: write(all_, i, one), results, row(i))

    shapes = jax.eval_shape(row, jnp.asarray(0))
    zeros = jax.tree.map(lambda s: jnp.zeros((BLOCK, *s.shape), s.dtype), shapes)
    return lax.fori_loop(0, count, again, zeros)


@final
@dataclass(frozen=True)
class FitTargets:
    """The data that fits are compared with: times [sets, N], values and weights
    [sets, N, k]."""

    t: np.ndarray
    x: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, sets: Sets, weights: np.ndarray) -> "FitTargets":
        return cls(sets.data.t, sets.data.x, weights)

    def until(self, share: float) -> "FitTargets":
        """Return the first part of each record, a `share` of it. Later values have no
        weight and the time of its end, so that no fit goes on behind it."""
        end = share * self.t[:, -1:]
        weights = np.where((self.t <= end)[..., None], self.weights, 0.0)
        return FitTargets(np.minimum(self.t, end), self.x, weights)

    def take(self, chosen: Any) -> "FitTargets":
        return FitTargets(self.t[chosen], self.x[chosen], self.weights[chosen])


def refine(
    sets: Sets,
    record: FitTargets,
    theta: np.ndarray,
    n: np.ndarray,
    limit: int = MAX_EVALUATIONS,
    *,
    exists: np.ndarray | None = None,
    held: np.ndarray | None = None,
    has_rate: bool = False,
) -> Fits:
    """Run Levenberg-Marquardt from `theta` [sets, rows, p] with `n` steps per delay
    [sets, rows], in all rows where one `exists`. Values that are `held` [sets, rows, p]
    stay. With `has_rate` there are at least as many steps as the record needs."""
    shape = theta.shape[:2]
    chosen = np.flatnonzero(np.ones(shape, bool) if exists is None else exists)
    rows = chosen // shape[1], chosen % shape[1]
    flat = _Starts(
        rows[0],
        theta[rows],
        np.array(n[rows]),
        np.zeros((len(chosen), sets.p), bool) if held is None else held[rows],
    )
    p, k = sets.p, record.x.shape[2]
    fits = Fits(
        np.array(theta, float),
        np.full((*shape, 1 + p, 1 + p), np.inf),
        np.zeros((*shape, k)),
        np.zeros(shape, int),
        np.full(shape, -1),
        np.array(n),
        np.zeros(shape, int),
    )
    if len(chosen):
        fits.write(rows, _refined(sets, record, flat, limit, has_rate))
    return fits


def refine_promising(
    sets: Sets, record: FitTargets, theta: np.ndarray, n: np.ndarray, exists: np.ndarray
) -> Fits:
    """Refine the fits, but give up on slow ones that are far from the best."""
    fits = refine(sets, record, theta, n, PATIENCE, exists=exists)
    lowest = np.min(fits.loss, axis=1, keepdims=True)
    goes_on = (fits.status == LIMIT) & (fits.loss < PROMISING * lowest)
    if not goes_on.any():
        return fits
    longer = refine(sets, record, fits.theta, fits.n, exists=goes_on)
    arrays = [
        np.where(goes_on.reshape(goes_on.shape + (1,) * (a.ndim - 2)), b, a)
        for a, b in zip(vars(fits).values(), vars(longer).values())
    ]
    joined = Fits(*arrays)
    joined.evaluations[goes_on] += fits.evaluations[goes_on]
    return joined


@final
@dataclass(frozen=True)
class _Starts:
    """Starts, one behind the other: the set, values and steps of each."""

    set: np.ndarray
    theta: np.ndarray
    n: np.ndarray
    held: np.ndarray

    def take(self, chosen: Any) -> "_Starts":
        return _Starts(*(array[chosen] for array in vars(self).values()))


def _refined(
    sets: Sets, record: FitTargets, starts: _Starts, limit: int, has_rate: bool
) -> Fits:
    """Return the fits, one behind the other. Steps follow the delay: if it has become
    much shorter, a fit that is to converge goes on with fewer steps."""
    fits = _refined_once(sets, record, starts, limit, has_rate)
    rows = np.arange(len(starts.set))
    for _ in range(MOST_SHRINKAGES if limit >= PATIENCE else 0):
        lower = _lower(sets, starts)
        theta = fits.theta[rows]
        has_shrunk = (lower > sets.lower[starts.set]) & (theta <= lower)
        again = np.flatnonzero(has_shrunk.any(axis=1))
        if len(again) == 0:
            break
        rows, starts = rows[again], starts.take(again)
        n = np.maximum(np.ceil(starts.n / SHRINKAGE), 1).astype(int)
        starts = _Starts(starts.set, fits.theta[rows], n, starts.held)
        more = _refined_once(sets, record, starts, limit, has_rate)
        more.evaluations[:] += fits.evaluations[rows]
        fits.write(rows, more)
    return fits


def _lower(sets: Sets, starts: _Starts) -> np.ndarray:
    """Return the lower bounds. A delay that steps follow may become shorter only by a
    factor."""
    model = sets.template.model
    return model.engine.nearby(sets.lower[starts.set], starts.theta, model.free.delays)


def _refined_once(
    sets: Sets, record: FitTargets, starts: _Starts, limit: int, has_rate: bool
) -> Fits:
    """Return the fits with the steps of their starts."""
    model, count = sets.template.model, len(starts.set)
    T = record.t[starts.set, -1]
    box = Box(_lower(sets, starts), sets.upper[starts.set], starts.held)
    rate = sets.rate(T) if has_rate else np.zeros(count)
    task = starts.theta, box, starts.n, rate, np.full(count, limit)
    capacity = model.engine.capacity(int(starts.n.max()), float(T.max()))
    points = Points(record.t, record.x, record.weights)
    shared = model, capacity
    found = run_rows(_fit, shared, points, task, starts.set, sets.place)
    return Fits(
        found.theta,
        found.normal.gram,
        found.normal.squares,
        found.evaluations,
        found.status,
        starts.n.copy(),
        np.ones(count, int),
    )


def _fit(shared: tuple[LeastSquaresModel, int], points: Points, own) -> MinimiserResult:
    """Fit one row."""
    (model, capacity), (theta, box, n, rate, limit) = shared, own
    return fit_one(model, StartTask(theta, box, points, n, rate, limit), capacity)
