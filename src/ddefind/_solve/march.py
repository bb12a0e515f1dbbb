"""The march: the loop that solves a delay equation step by step.

One step completes a row and begins the next one. Of row i it knows the state x and the
delayed state y. It evaluates the slope x', writes (x, x') into the path, reads the
delayed states of its stages, and lets the solver advance to the state of row i + 1.

How a step gets its delayed states is the business of its past. On a grid that is
aligned with one delay (`grid.py`, `past.py`) they stand a fixed number of rows earlier.
On a mesh for any delays (`mesh.py`, `mesh_past.py`) a cursor finds them. A delay may
then be shorter than a step, and the delayed state a part of the step itself: the step
is repeated, with its own result for the past, until the result no longer changes.

The same loop serves two purposes. `solve_path` keeps the whole path in a buffer, in
real time. The sensitivities of least squares march the state together with its
derivatives, an array [d, 1 + p], keep the last delay only, and count time in steps: the
step size is then 1, and the slope is h x'. Slopes are therefore functions of the
*position* in time, t / h: a whole number at a node.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jax import lax

from .._problem.problem import Problem
from .grid import AbstractRowTimes, Grid
from .past import AbstractPast, HistoryStates, Past, history_states
from .path import WholePath
from .runge_kutta import AbstractSolver
from .system import System

# How often a step is repeated that needs its own result, and the relative change of a
# result that counts as a rounding error.
MOST_PASSES, ROUNDING = 50, 4e-16

# slope(position, x, y): the slope at the time position * h, where y is the delayed x.
# States are arrays, or on a mesh arrays with their derivatives.
Slope = Callable[[Any, Any, Any], Any]


@final
@dataclass(frozen=True)
class March:
    """What stays the same in all steps of a march.

    - `step_size`: the length of a step in the unit of time of `slope`.
    - `finish(i, before, after)`, if given, returns the state of row i + 1, from the
      state of row i and the one that the solver found for row i + 1.
    """

    grid: AbstractRowTimes
    solver: AbstractSolver
    slope: Slope
    past: AbstractPast
    step_size: Any
    finish: Callable[[Any, jax.Array, jax.Array], jax.Array] | None = None


class MarchState(NamedTuple):
    """Where a march stands: the next row to complete, its state and its delayed state,
    the buffer with the rows before it, and the cursor of the past.

    The delayed state is carried from step to step: to read it from the buffer before
    the write of a step would make XLA copy the buffer."""

    i: jax.Array
    x: Any
    delayed: Any
    path: jax.Array
    cursor: Any = ()


def begin(past: Past, start: jax.Array, path: jax.Array) -> MarchState:
    """A march on an aligned grid at time zero, in the state `start`; `path` holds the
    history."""
    return MarchState(jnp.asarray(0), start, past.at_start(path), path)


def complete_row(march: March, state: MarchState) -> MarchState:
    """One step: complete the present row and advance to the next one."""
    i, x, delayed, path, cursor = state
    slope = march.slope(march.grid.node(i), x, delayed)
    path = march.past.write(path, i, x, slope)
    delayed_states, cursor = march.past.during_step(path, i, cursor)

    def advance(own=None):
        at_fractions, at_end = delayed_states(own)
        after = take_step(
            march.grid,
            march.solver,
            march.slope,
            march.step_size,
            i,
            x,
            slope,
            at_fractions,
        )
        return after, at_end

    if march.past.overlaps:
        after, at_end = _repeat(march, advance, i, x, slope, delayed)
    else:
        after, at_end = advance()
    if march.finish is not None:
        after = march.finish(i, x, after)
    return MarchState(i + 1, after, at_end, path, cursor)


def _repeat(march: March, advance: Callable, i, x, slope, delayed):
    """The result of step `i`, repeated with its own result for the past until that no
    longer changes: the state and the delayed states at its end. A step that needs
    nothing of itself is taken once.

    Nothing is written into the path in this loop: XLA would copy it."""
    is_inside = march.past.is_inside(i)

    def is_changing(carry):
        passes, change, *_ = carry
        return (passes == 0) | (is_inside & (passes < MOST_PASSES) & (change > 0))

    def again(carry):
        passes, _, before, _ = carry
        after, at_end = advance(before)
        row = after, march.slope(march.grid.node(i + 1), after, at_end)
        return passes + 1, largest_change(before, row), row, at_end

    carry = jnp.asarray(0), jnp.asarray(jnp.inf), (x, slope), delayed
    _, _, (after, _), at_end = lax.while_loop(is_changing, again, carry)
    return after, at_end


def largest_change(before: Any, after: Any) -> jax.Array:
    """By how much two trees of arrays differ; zero if by rounding errors only."""
    changes = [
        jnp.max(jnp.where(jnp.abs(b - a) > ROUNDING * jnp.abs(a), jnp.abs(b - a), 0.0))
        for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after))
    ]
    return jnp.max(jnp.stack(changes))


def march_until(march: March, state: MarchState, i: Any) -> MarchState:
    """Complete all rows before row `i`."""
    return lax.while_loop(
        lambda state: state.i < i, lambda state: complete_row(march, state), state
    )


def take_step(
    grid: AbstractRowTimes,
    solver: AbstractSolver,
    slope: Slope,
    step_size: Any,
    i: Any,
    x: jax.Array,
    first: jax.Array,
    delayed: list[Any],
) -> jax.Array:
    """The state of row `i` + 1, from the state `x` and the slope `first` of row `i`
    and the `delayed` states at the solver's fractions of the step."""
    delayed_at = dict(zip(solver.fractions, delayed))

    def stage(c, x):
        return slope(grid.stage(i, c), x, delayed_at[c])

    return solver.step(stage, x, first, grid.length(i, step_size))


def integrate(
    grid: Grid,
    solver: AbstractSolver,
    slope: Slope,
    step_size: Any,
    history: HistoryStates,
    start: jax.Array,
    last: Any,
    path: jax.Array,
    correct: Callable[[Any, jax.Array], jax.Array] | None = None,
) -> jax.Array:
    """Solve a delay equation from its history and its state `start` at time zero: the
    path, complete up to row `last`. What `path` holds before does not matter.

    `correct(i, x)`, if given, is added to the result of step `i`, which begins at x."""

    def finish(i, before, after):
        if correct is not None:
            after += correct(i, before)
        if jnp.ndim(last) > 0:
            # A lane stays where it is after its own end. Were it to go on and to
            # overflow, its gradient would contain 0 * inf, which is not a number.
            after = jnp.where(i < last, after, before)
        return after

    rows = jnp.stack([history.rows, jnp.zeros_like(history.rows)], 1)
    path = lax.dynamic_update_slice_in_dim(path, rows, 0, 0)
    past = Past(grid, solver.fractions, WholePath(), history.inside, step_size)
    march = March(grid, solver, slope, past, step_size, finish)
    return march_until(march, begin(past, start, path), jnp.max(last) + 1).path


def solve_path(
    system: System, params: Problem, path: jax.Array
) -> tuple[jax.Array, Any]:
    """Solve a problem up to its end T: the path, and its last row, the first one at or
    after T. What `path` holds before does not matter."""
    grid, tau = system.grid, params.tau
    h = grid.step(tau)

    def slope(position, x, y):
        return system.slope(params.rhs, x, y, tau, position * h)

    last = grid.last(system.T, tau)
    history, start = history_states(system, params), system.start(params)
    path = integrate(grid, system.solver, slope, h, history, start, last, path)
    return path, last
