"""The march: the loop that solves a delay equation step by step.

One step completes row i and begins the next one. It starts from the state x and the
delayed state y of row i, evaluates the slope x', writes (x, x') into the path, reads
the delayed states of its stages, and lets the solver advance to the state of row i + 1.

`march.past` supplies the delayed states of a step. On a grid that is aligned with one
delay (`Past`, see `grid.py`) they are found a fixed number of rows earlier: step i
leads from row i to row i + 1, while the delayed time moves from the place i of the path
to the place i + 1. At the two ends of the step the delayed state is the state of a row;
at a fraction c between them it is

- the history itself, in the first n steps: exact, and evaluated beforehand;
- the Hermite piece between the two rows, afterwards.

On a mesh for any delays (`mesh_march.py`) a cursor finds them. A delay may then be
shorter than a step, and the delayed state a part of the step itself: the step is
repeated, with its own result for the past, until the result no longer changes.

The same loop serves two purposes. `solve_path` keeps the whole path in a buffer, in
real time. The sensitivities of least squares march the state together with its
derivatives, an array [d, 1 + p], keep the last delay only, and count time in steps: the
step size is then 1, and the slope is h x'. Slopes are therefore functions of the
*position* in time, t / h: a whole number at a node.

All functions are written for one trajectory. Where many trajectories are solved side by
side, in *lanes*, each array has one further axis at its end, and h, tau and t are
vectors over it.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jax import lax

from ..._problem.problem import Problem
from ..._util.arrays import read
from ..engine import System
from ..runge_kutta import AbstractSolver
from .path import AbstractPathStorage, AbstractRowTimes, Grid, WholePath, hermite


class Buffers(NamedTuple):
    """Memory for one solution and its gradient, used again in every iteration of a fit.
    Nothing is read from it that was not written in the same iteration.

    - `path`, [delay_rows + capacity, 2, d]: states and slopes of the forward march.
    - `stages`, [capacity, fractions, d]: the cotangents of the delayed states inside
      each step, one for each fraction of the solver.
    - `starts`, [capacity, d]: the cotangent of the delayed state at the beginning of
      each step.
    """

    path: jax.Array
    stages: jax.Array
    starts: jax.Array


def make_path(system: System, grid: Grid) -> jax.Array:
    """Allocate a path, [delay_rows + capacity, 2, d], for a grid."""
    rows = grid.delay_rows + grid.capacity
    return jnp.zeros((rows, 2, *system.state_shape), jnp.result_type(float))


def make_buffers(system: System) -> Buffers:
    """Allocate a path and the cotangents of its delayed states."""
    rows, dtype = system.grid.capacity, jnp.result_type(float)
    fractions = len(system.solver.fractions)
    return Buffers(
        make_path(system, system.grid),
        jnp.zeros((rows, fractions, *system.state_shape), dtype),
        jnp.zeros((rows, *system.state_shape), dtype),
    )


class HistoryStates(NamedTuple):
    """The history at every time at which the first n steps need it.

    - `rows`, [delay_rows, d]: the states with which a path begins.
    - `inside`, for each of the solver's fractions c other than 1 an array [n, d]: the
      states at the fraction c of each of these steps.
    """

    rows: jax.Array
    inside: dict[float, jax.Array]


def inner_fractions(solver: AbstractSolver) -> list[float]:
    """Return the fractions, without the ends of a step, at which stages are."""
    return [c for c in solver.fractions if c != 1]


def history_states(system: System, params: Problem) -> HistoryStates:
    """Evaluate the history of a problem for the first n steps."""
    n, h = system.grid.n, system.grid.step(params.tau)

    def at(position):
        return system.history(params.history, (position - n) * h)

    positions = jnp.arange(n, dtype=h.dtype)
    return HistoryStates(
        jax.vmap(at)(jnp.arange(system.grid.delay_rows, dtype=h.dtype)),
        {c: jax.vmap(at)(positions + c) for c in inner_fractions(system.solver)},
    )


class AbstractPast(abc.ABC):
    """How a march keeps its rows and gets the delayed states of its steps.

    A cursor may be needed to find them; it is handed from step to step. `overlaps` says
    whether a delay may be shorter than a step."""

    overlaps: bool

    @abc.abstractmethod
    def write(self, path: Any, i: Any, x: Any, slope: Any) -> Any:
        """Return the path with row `i`."""

    @abc.abstractmethod
    def during_step(
        self, path: Any, i: Any, cursor: Any
    ) -> tuple[Callable[[Any], tuple[list, Any]], Any]:
        """Return a function that gives the delayed states of step `i`, at each of the
        solver's fractions and at its end; and the moved cursor. Where delays may be
        shorter than the step, the argument of that function is the state and the slope
        at the end of the step itself."""

    def is_inside(self, i: Any) -> Any:
        """Whether a delay is shorter than step `i`."""
        return False


@final
@dataclass(frozen=True)
class Past(AbstractPast):
    """The delayed states, read from the rows of a path on an aligned grid.

    - `fractions`: the solver's, in (0, 1].
    - `storage`: how the rows are kept.
    - `inside`: the history inside the first n steps, as in `HistoryStates`.
    - `step_size`: h in the unit of time of the slopes that the rows hold.
    """

    grid: Grid
    fractions: tuple[float, ...]
    storage: AbstractPathStorage
    inside: dict[float, jax.Array]
    step_size: Any

    # A delay is a whole number of steps.
    overlaps = False

    def write(self, path, i, x, slope):
        row = jnp.stack([x, slope])
        return self.storage.write(path, i + self.grid.delay_rows, row)

    def during_step(self, path: jax.Array, i: Any, cursor: tuple[()]):
        """Read the delayed states, whose rows follow from `i`: the cursor is empty."""
        left, right = self.piece(path, i)
        return lambda _: (self.at_fractions(i, left, right), right[0]), cursor

    def piece(self, path: jax.Array, i: Any) -> tuple[jax.Array, jax.Array]:
        """Return the two rows between which the delayed time moves in step `i`."""
        return self.storage.read(path, i), self.storage.read(path, i + 1)

    def at_fractions(self, i: Any, left: jax.Array, right: jax.Array):
        """Return the delayed state at each of the solver's fractions of step `i`, given
        the two rows of its piece."""

        def at(c: float):
            if c == 1:
                return right[0]
            early = read(self.inside[c], jnp.minimum(i, self.grid.n - 1))
            later = hermite(c, left, right, self.step_size)
            return jnp.where(i < self.grid.n, early, later)

        return [at(c) for c in self.fractions]


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
      state of row i and the solver's result for row i + 1.
    """

    grid: AbstractRowTimes
    solver: AbstractSolver
    slope: Slope
    past: AbstractPast
    step_size: Any
    finish: Callable[[Any, jax.Array, jax.Array], jax.Array] | None = None


class MarchState(NamedTuple):
    """The state of a march: the next row to complete, its state and its delayed state,
    the buffer with the rows before it, and the cursor of the past.

    The delayed state is carried from step to step: to read it from the buffer before
    the write of a step would make XLA copy the buffer."""

    i: jax.Array
    x: Any
    delayed: Any
    path: jax.Array
    cursor: Any = ()


def begin(past: Past, start: jax.Array, path: jax.Array) -> MarchState:
    """Start an aligned march in the state `start`; `path` holds the history."""
    # The place 0 of the path is one delay before row 0.
    return MarchState(jnp.asarray(0), start, past.storage.read(path, 0)[0], path)


def complete_row(march: March, state: MarchState) -> MarchState:
    """Take one step: complete the present row and advance to the next one."""
    i, x, delayed, path, cursor = state
    slope = march.slope(march.grid.node(i), x, delayed)
    path = march.past.write(path, i, x, slope)
    delayed_states, cursor = march.past.during_step(path, i, cursor)

    def advance(result=None):
        at_fractions, at_end = delayed_states(result)
        method = march.grid, march.solver, march.slope, march.step_size
        return take_step(*method, i, x, slope, at_fractions), at_end

    if march.past.overlaps:
        after, at_end = _repeat(march, advance, i, x, slope, delayed)
    else:
        after, at_end = advance()
    if march.finish is not None:
        after = march.finish(i, x, after)
    return MarchState(i + 1, after, at_end, path, cursor)


def _repeat(march: March, advance: Callable, i, x, slope, delayed):
    """Repeat step `i`, with its own result for the past, until that no longer changes.
    Return the state and the delayed states at its end. A step that reads nothing of
    itself is taken once.

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
    """Return how much two trees of arrays differ; zero for rounding errors."""
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
    """Return the state of row `i` + 1, from the state `x` and the slope `first` of row
    `i` and the `delayed` states at the solver's fractions of the step."""
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
    """Solve a delay equation from its history and its state `start` at time zero.
    Return the path, complete up to row `last`; its earlier contents do not matter.

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
    """Solve a problem. Return the path, whose earlier contents do not matter, and its
    last row, the first one at or after the end T."""
    grid, tau = system.grid, params.tau
    h = grid.step(tau)

    def slope(position, x, y):
        return system.slope(params.rhs, x, y, tau, position * h)

    last = grid.last(system.T, tau)
    history, start = history_states(system, params), system.start(params)
    path = integrate(grid, system.solver, slope, h, history, start, last, path)
    return path, last
