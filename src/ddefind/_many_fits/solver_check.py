"""Whether fixed steps are right for the fits of many data sets, as `solver="auto"` asks
(see `_least_squares/solver_choice.py`)."""

import numpy as np

from .._least_squares.solver_choice import (
    EVALUATIONS,
    FACTOR,
    FLAT,
    MOST_MOVES,
    SMALLER,
    STEP_ERROR,
    WALL,
)
from .refine import Record, refine
from .search import Found
from .sets import Sets


def needs_no_other_solver(sets: Sets, found: Found) -> np.ndarray:
    """Which fits need no other solver: their steps are fine enough, and no value that
    the data say little about has a wall, behind which S is larger or not a number."""
    record = Record.of(sets, sets.weights(found.weighting))
    movable = ~sets.template.is_history
    movable[list(sets.template.model.free.delays)] = False
    columns = np.flatnonzero(movable)
    if len(columns) == 0:
        return found.step_error <= STEP_ERROR
    best = found.best.theta[:, 0]
    goes_on = np.repeat(best[:, columns] != 0, 2, axis=1)
    has_wall = np.zeros(len(sets), bool)
    for move in range(1, MOST_MOVES + 1):
        theta, held, inside = _moved(sets, best, columns, move)
        goes_on &= inside & ~has_wall[:, None]
        if not goes_on.any():
            break
        rise = _rise(sets, found, record, theta, held, goes_on)
        is_wall = goes_on & (rise > WALL)
        if move == 1 and is_wall.any():
            # Chi-square rises as much for a value that the data determine: then a
            # smaller move raises it, too, and there is a trajectory.
            nearer, held, _ = _moved(sets, best, columns, SMALLER)
            near = _rise(sets, found, record, nearer, held, is_wall)
            is_wall &= (near < FLAT) | np.isinf(near)
        has_wall |= is_wall.any(axis=1)
        goes_on &= rise < FLAT
    return ~has_wall & (found.step_error <= STEP_ERROR)


def _moved(
    sets: Sets, best: np.ndarray, columns: np.ndarray, power: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each of the values `columns` multiplied and divided by a factor to this power, a
    row for each, which value of a row is held, and which rows lie inside the bounds."""
    rows = 2 * len(columns)
    theta = np.repeat(best[:, None], rows, axis=1)
    held = np.zeros(theta.shape, bool)
    for row in range(rows):
        j, sign = columns[row // 2], 1 if row % 2 == 0 else -1
        with np.errstate(over="ignore"):
            theta[:, row, j] *= FACTOR ** (sign * power)
        held[:, row, j] = True
    inside = (theta >= sets.lower[:, None]) & (theta <= sets.upper[:, None])
    return theta, held, np.all(inside, axis=2)


def _rise(sets: Sets, found: Found, record: Record, theta, held, exists) -> np.ndarray:
    """How much chi-square rises above the best fit in short fits from `theta`."""
    n = sets.steps(theta, sets.T[:, None])
    loss = refine(sets, record, theta, n, EVALUATIONS, exists=exists, held=held).loss
    level = found.best.loss
    unit = sets.residual_variance(np.maximum(level[:, 0], 1e-300))[:, None]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        rise = (loss - level) / unit
    return np.where(np.isfinite(rise), rise, np.inf)
