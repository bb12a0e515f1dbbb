"""The choice of the time grid: aligned with one delay, or a mesh for any delays.

The aligned grid (`grid.py`) is for one constant delay without switches in time: it is
the faster one. Everything else is solved on a mesh (`mesh.py`).
"""

import math
from collections.abc import Sequence
from typing import Any, final

import jax
import numpy as np

from .._problem.delays import delay_count, delay_names, delay_values
from .._problem.general_delays import carrying_delays
from .._problem.problem import Problem
from .grid import Grid
from .mesh import BreakingPoints, Mesh, Origin, breaking_points, make_mesh
from .runge_kutta import AbstractSolver

# The largest number of rows of a mesh: more would take gigabytes and minutes.
_MOST_ROWS = 1 << 22


@final
class StepsError(ValueError):
    """A solution that needs too many fixed steps."""


def make_grid(jump: bool, T: float, n: int, tau: float) -> Grid:
    """Make a grid with room for the steps of the delay `tau` up to the time `T`, and of
    somewhat shorter delays."""
    grid = Grid(n, jump, 0)
    needed = grid.rows(max(1, math.ceil(T / tau * n - 1e-9))) + 1
    # A power of two, so that few programs are compiled, however tau varies.
    capacity = 1 << max(needed, grid.delay_rows + 1, 64).bit_length()
    return Grid(n, jump, capacity)


def needs_mesh(problem: Problem) -> bool:
    """Whether a problem has more than one constant delay without switches and kinks."""
    return not isinstance(problem.tau, jax.Array) or has_switches(problem)


def has_switches(problem: Problem) -> bool:
    """Whether the right-hand side jumps, or has a kink, at certain times."""
    return _moving_count(problem) > 0 or bool(problem.known_times)


def _moving_count(problem: Problem) -> int:
    return jax.eval_shape(lambda: problem.moving_times).shape[0]


def points_of(problem: Problem, solver: AbstractSolver) -> BreakingPoints:
    """Return the breaking points of a problem that matter to a solver."""
    tables = problem.known_times
    known = [
        Origin(
            each.derivative,
            *each.reads,
            mover=each.mover,
            table=n,
            size=np.shape(each.times)[0],
        )
        for n, each in enumerate(tables)
    ]
    count, added = _moving_count(problem), {each.mover for each in tables}
    moving = [Origin(1, mover=j) for j in range(count) if j not in added]
    # Without known times there are no reads of inputs alone.
    carrying = carrying_delays(problem) if known else None
    delays, jump = delay_count(problem.tau), problem.has_jump
    return breaking_points(
        delays, [*moving, *known], jump, solver.order, carrying, count
    )


def known_constants(problem: Problem, points: BreakingPoints, xp: Any = np) -> Any:
    """Return the known times in the breaking points, [points]."""
    return points.constants([each.times for each in problem.known_times], xp)


def mover_values(problem: Problem) -> np.ndarray:
    """Return the delays and the moving switches of a problem with known values."""
    delays = [float(leaf) for leaf in jax.tree.leaves(delay_values(problem.tau))]
    return np.append(np.array(delays), np.asarray(problem.moving_times, float))


def time_grid(
    problem: Problem,
    T: float,
    solver: AbstractSolver,
    steps_per_delay: int,
    max_step: float | None = None,
    shrink: float = 1.0,
) -> Grid | Mesh:
    """Return the grid on which a problem with known values is solved up to the time T.

    It has at least `steps_per_delay` steps in the shortest delay or, if `max_step` is
    given, steps of at most this length, whatever the delays are. There is room for
    delays that are shorter by the factor `shrink`."""
    if not needs_mesh(problem) and max_step is None:
        tau = shrink * float(problem.tau)
        return make_grid(problem.has_jump, T, steps_per_delay, tau)
    points, movers = points_of(problem, solver), mover_values(problem)
    names, constants = delay_names(problem.tau), known_constants(problem, points)
    return mesh_for(
        points, movers, names, T, steps_per_delay, max_step, shrink, constants
    )


def mesh_for(
    points: BreakingPoints,
    movers: np.ndarray,
    names: Sequence[str],
    T: float,
    steps_per_delay: int,
    max_step: float | None = None,
    shrink: float = 1.0,
    constants: np.ndarray | None = None,
) -> Mesh:
    """Return the mesh for these values of the movers; `names` are those of the
    delays."""
    _check_movers(movers, names)
    delays = movers[: points.delays]
    step = min(float(np.min(delays)), T) / steps_per_delay
    step = step if max_step is None else max_step
    fine = make_mesh(points, movers, T, shrink * step, 0, True, constants)
    needed = fine.rows_in(movers)
    if needed > _MOST_ROWS:
        shortest = names[int(np.argmin(delays))]
        raise StepsError(
            f"The solution up to T = {T:g} needs {needed} steps of {step:g}, "
            f"{steps_per_delay} in the delay `{shortest}`. Give `max_step`, the "
            "largest length of a step."
        )
    # One of few sizes, so that few programs are compiled, however the delays vary.
    quarter = (1 << max(needed - 1, 63).bit_length()) // 8
    capacity = quarter * -(-needed // quarter)
    overlaps = bool(np.min(delays) * shrink < 2 * step)
    return make_mesh(points, movers, T, step, capacity, overlaps, constants)


def _check_movers(movers: np.ndarray, names: Sequence[str]) -> None:
    """Raise an error unless the delays are positive and all movers finite."""
    for name, value in zip(names, movers):
        if not 0 < value < math.inf:
            raise ValueError(
                f"The delay `{name}` must be positive and finite, but it is {value:g}. "
                "Give other values to the parameters of its formula."
            )
    for value in movers[len(names) :]:
        if not math.isfinite(value):
            raise ValueError(
                f"A switch is at the time {value:g}. Give the parameters of "
                "`switches` values for which all of its times are finite."
            )
