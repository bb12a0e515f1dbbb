"""Gradient descent of many fits on a GPU, a thread for each."""

from typing import Any

import jax
import numpy as np

from .._kernels.places import Place
from .._kernels.program import run_fits
from .._loss.losses import Target
from .._solve.grid import Grid
from .epochs import Descent, State, run


def advance_on_gpu(
    descent: Descent,
    state: State,
    targets: Target,
    T: np.ndarray,
    fits: np.ndarray,
    stop: int,
    grid: Grid,
    rows: int,
) -> Any:
    """What `epochs.run` returns for the `fits`, as columns: `state`, `targets` and `T`
    have a column for each fit of the batch."""
    own = _rows(jax.tree.map(lambda array: array[..., fits], state))
    shared = descent, grid, rows, np.asarray(stop)
    return _columns(run_fits(_run, shared, _rows((targets, T)), own, fits, Place.gpu))


def _run(shared: tuple[Descent, Grid, int, Any], of_set: tuple[Target, Any], own):
    """The epochs of one fit."""
    (descent, grid, rows, stop), (target, T) = shared, of_set
    return run(descent, own, target, T, stop, grid, rows, False)


def _rows(tree: Any) -> Any:
    return jax.tree.map(lambda array: np.moveaxis(np.asarray(array), -1, 0), tree)


def _columns(tree: Any) -> Any:
    return jax.tree.map(lambda array: np.moveaxis(array, 0, -1), tree)
