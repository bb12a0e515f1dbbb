"""`solver="auto"` in fits: whether a search needs another solver.

Fixed steps are fast, and right for most fits. They fail in two ways, which a search
shows:

- The steps matter: halving them still moves the estimates.
- The equation is *stiff*, or becomes so for parameters that the data allow: a rate with
  only a lower limit may be arbitrarily large, but with fixed steps the solution
  explodes beyond some value. The sum of squares then has a wall where it should be
  flat. Walls are looked for in every direction in which the data say little, and a fit
  with the stiff solver shows whether they are real.

The explicit adaptive solver has such walls, too."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .._engine.choose import adaptive_solver, fit_engine, solver_for_stiff
from .._engine.runge_kutta import AbstractIntegrator
from .._problem.without_doses import without_doses
from .batches import RefinedFits, SearchResult, refine
from .setup import FitSetup

# Steps matter if halving them moves the estimates by more than this share of their
# joint standard error.
STEP_ERROR = 0.1
# A value is moved by powers of this factor, at most this often.
FACTOR, MOST_MOVES = 10**0.5, 10
# The power of the first move that is tried if there is a wall at once.
SMALLER = 0.25
# The data say little about a value if its move raises chi-square by less than `FLAT`.
# A rise above `WALL` is a wall, or an infinite one.
FLAT, WALL = 8.0, 1e4
EVALUATIONS = 10


def another_solver(setup: FitSetup, result: SearchResult) -> FitSetup | None:
    """Return the setup with the solver that a search needs; None if it has that."""
    for_stiff = solver_for_stiff(setup.model.engine.solver)
    if for_stiff is None or result.interrupted:
        return None
    best = result.best
    if not np.isfinite(best.loss[0]):
        return _with_solver(setup, for_stiff())
    if setup.has_networks:
        return None  # The priors keep networks from becoming stiff.
    points, stiff = result.points, None
    for theta, held in _walls(setup, result):
        stiff = stiff or _with_solver(setup, for_stiff())
        level = refine(stiff, best.theta, points, stiff.steps(best.theta)).loss[0]
        moved = _refine_held(stiff, theta, held, points)
        if np.any(_rise(setup, moved.loss, level) < FLAT):
            return stiff
    steps_matter = not result.step_error <= STEP_ERROR
    adaptive = adaptive_solver(setup.model.engine.solver)
    if steps_matter and adaptive is not None:
        explicit = _with_solver(setup, adaptive())
        fit = refine(explicit, best.theta, points, explicit.steps(best.theta))
        if np.isfinite(fit.loss[0]):
            return explicit
        return _with_solver(setup, for_stiff())
    return None


def _with_solver(setup: FitSetup, solver: AbstractIntegrator) -> FitSetup:
    """Return the same setup with another solver, which chooses its steps."""
    problem = without_doses(setup.parts[0].model.problem)
    engine = fit_engine(problem, solver, setup.data.T, 0.0)
    return replace(setup, model=replace(setup.model, engine=engine))


def _walls(
    setup: FitSetup, result: SearchResult
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield for each round of moves the free values behind walls, and which is held."""
    best = result.best
    movable = ~setup.is_history & (best.theta[0] != 0)
    movable[list(setup.model.free.delays)] = False
    rows = [(int(j), sign) for j in np.flatnonzero(movable) for sign in (1, -1)]
    level = best.loss[0]
    for move in range(1, MOST_MOVES + 1):
        theta, held = _moved(best.theta, rows, move)
        is_inside = np.all((theta >= setup.lower) & (theta <= setup.upper), axis=1)
        theta, held = theta[is_inside], held[is_inside]
        rows = [row for row, inside in zip(rows, is_inside) if inside]
        if not rows:
            return
        rise = _rise(setup, _refine_held(setup, theta, held, result.points).loss, level)
        is_wall = rise > WALL
        if move == 1 and is_wall.any():
            # Chi-square rises as much for a value that the data determine: then a
            # smaller move raises it, too, and there is a trajectory.
            smaller, _ = _moved(best.theta, rows, SMALLER)
            near = _refine_held(setup, smaller[is_wall], held[is_wall], result.points)
            near_rise = _rise(setup, near.loss, level)
            is_wall[is_wall] = (near_rise < FLAT) | np.isinf(near_rise)
        if is_wall.any():
            yield theta[is_wall], held[is_wall]
        rows = [row for row, each in zip(rows, rise) if each < FLAT]


def _moved(
    theta: np.ndarray, rows: list[tuple[int, int]], power: float
) -> tuple[np.ndarray, np.ndarray]:
    """Multiply value j by a factor to this power for each (j, sign); it is held."""
    moved = np.repeat(theta, len(rows), axis=0)
    held = np.zeros(moved.shape, bool)
    for row, (j, sign) in enumerate(rows):
        with np.errstate(over="ignore"):
            moved[row, j] *= FACTOR ** (sign * power)
        held[row, j] = True
    return moved, held


def _refine_held(
    setup: FitSetup, theta: np.ndarray, held: np.ndarray, points
) -> RefinedFits:
    """Make short fits in which some values are held."""
    return refine(setup, theta, points, setup.steps(theta), EVALUATIONS, held)


def _rise(setup: FitSetup, loss: np.ndarray, level: float) -> np.ndarray:
    """Return the rise of chi-square above the best fit; infinite without a fit."""
    unit = setup.residual_variance(max(level, 1e-300))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        rise = (loss - level) / unit
    return np.where(np.isfinite(rise), rise, np.inf)
