"""Least squares on trajectories for many structures at once.

Each row of a call has a structure of its own. The rows are cut into blocks of a fixed
size, so that one compiled program serves any number of them, and the blocks run on a
pool of threads."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._least_squares.batches import SHRINKAGE, capacity_for
from .._least_squares.fit_block import StartTask, fit_one
from .._least_squares.levenberg_marquardt import (
    LIMIT,
    Box,
    Convergence,
    MinimiserResult,
)
from .._least_squares.normal_equations import LeastSquaresModel
from .._least_squares.setup import FitSetup
from .._loss.path_costs import Points
from .._util.blas_threads import one_blas_thread
from .._util.cores import cores

# The number of fits that one call of the compiled program runs, one after the other.
_BLOCK = 4
# A fit has converged when its sum of squares falls by less than this share: the BIC of
# a thousand values then falls by a thousandth.
_CONVERGED = Convergence(reduction=1e-7, hidden=1e-5, slow=1e-6)


class Rows(NamedTuple):
    """The rows of a call: where each begins, which values are held there, the steps of
    the solver, and the structure in its slots (see `Candidates`)."""

    theta: np.ndarray  # [rows, p]
    held: np.ndarray  # [rows, p]
    n: np.ndarray  # [rows]
    chosen: np.ndarray  # [rows, slots, terms]
    target: np.ndarray  # [rows, slots, d]


def fit_rows(
    setup: FitSetup, rows: Rows, points: Points, limit: int
) -> MinimiserResult:
    """Levenberg-Marquardt from each row, with at most `limit` evaluations. Delays
    become shorter by no more than a factor, since the steps follow them."""
    count = len(rows.theta)
    end = float(np.max(np.asarray(points.times)))
    capacity = capacity_for(setup.model, int(rows.n.max()), end)
    lower = np.broadcast_to(setup.lower, rows.theta.shape).copy()
    if setup.model.mesh is None:
        for j in setup.model.free.delays:
            lower[:, j] = np.maximum(lower[:, j], rows.theta[:, j] / SHRINKAGE)
    upper = np.broadcast_to(setup.upper, rows.theta.shape)

    def fit_block(numbers: np.ndarray) -> MinimiserResult:
        # A block that is not full is filled with repetitions, which a limit of zero
        # evaluations makes free of cost.
        filled = np.resize(numbers, _BLOCK)
        limits = np.where(np.arange(_BLOCK) < len(numbers), limit, 0)
        own = Rows(*(array[filled] for array in rows))
        box = Box(lower[filled], upper[filled], own.held)
        found = _fit_block(setup.model, own, box, points, limits, capacity)
        return jax.tree.map(lambda a: np.asarray(a)[: len(numbers)], found)

    blocks = np.split(np.arange(count), range(_BLOCK, count, _BLOCK))
    results = in_parallel(fit_block, blocks)
    return jax.tree.map(lambda *a: np.concatenate(a), *results)


@eqx.filter_jit
def _fit_block(
    model: LeastSquaresModel,
    rows: Rows,
    box: Box,
    points: Points,
    limits: np.ndarray,
    capacity: int,
) -> MinimiserResult:
    def one(row: tuple[Rows, Box, jax.Array]) -> MinimiserResult:
        own, box, limit = row
        task = StartTask(own.theta, box, points, own.n, jnp.asarray(0.0), limit)
        filled = _with_structure(model, own.chosen, own.target)
        return fit_one(filled, task, capacity, _CONVERGED)

    return lax.map(one, (rows, box, limits))


def _with_structure(model: LeastSquaresModel, chosen: Any, target: Any):
    """The model with a structure in its slots, in all experiments."""

    def filled(fixed: Any, lead: tuple[int, ...]) -> Any:
        arrays = [jnp.broadcast_to(a, (*lead, *a.shape)) for a in (chosen, target)]
        return eqx.tree_at(lambda p: (p.rhs.chosen, p.rhs.target), fixed, arrays)

    study = model.experiments
    if study is not None:
        study = replace(study, fixed=filled(study.fixed, (study.count,)))
    return replace(model, fixed=filled(model.fixed, ()), experiments=study)


def is_converged(result: MinimiserResult) -> np.ndarray:
    """Which rows ended before their limit."""
    return (result.status != LIMIT) & np.isfinite(result.normal.gram[:, 0, 0])


def in_parallel(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """The results of a function for many items, on all cores."""
    if len(items) == 1 or cores() == 1:
        with one_blas_thread():
            return list(map(function, items))
    with one_blas_thread(), ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(function, items))
