"""The march on a mesh: delayed states from a cursor, and the inputs of the march.

The time t - tau moves forward as the march does. Each delay therefore has a pointer to
the piece of the path in which its delayed time was last, and the pointer only moves
forward. At the end of a step the past is read on the left, and after a step of
length zero, which separates the two sides of a jump, on the right. Every delay is a
breaking point: a whole step reads the history, or none of it does.

The march is a function of arrays, its `MarchInputs`. JAX differentiates everything
around it: the nodes as functions of the delays and switches, and the history.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ..._problem.delays import delay_vector, in_structure
from ..._problem.inputs import split_differentiable
from ..._problem.problem import Problem
from ..._util.arrays import read, write
from ..aligned.march import AbstractPast, March, MarchState, march_until
from ..aligned.path import AbstractRowTimes, MeshPath, hermite_at
from ..runge_kutta import AbstractSolver
from .mesh import Mesh, Nodes, side_offset


def stage_fractions(solver: AbstractSolver) -> tuple[float, ...]:
    """Return the fractions of a step at which delayed states are needed: the solver's,
    and its end, where the next slope is evaluated."""
    return (*(c for c in solver.fractions if c != 1), 1.0)


def stage_time(t0: Any, t1: Any, c: float, side: Any) -> Any:
    """Return the time at the fraction `c` of a step, on the side where it is
    evaluated: the end on the left, and all of a step of length zero on the right."""
    if c == 1:
        return t1 + side_offset(t1 <= t0, side)
    return t0 + c * (t1 - t0) + jnp.where(t1 > t0, 0.0, side_offset(True, side))


@final
@dataclass(frozen=True)
class MeshTimes(AbstractRowTimes):
    """The times of the rows. `side` is how far from a jump of the right-hand side its
    left side is evaluated, zero without switches."""

    times: jax.Array
    side: Any

    def node(self, i: Any) -> Any:
        """Return the time of row `i`, on the side where its slope is evaluated."""
        time, before = read(self.times, i), read(self.times, jnp.maximum(i - 1, 0))
        return time + side_offset(time <= before, self.side)

    def stage(self, i, c):
        t0, t1 = read(self.times, i), read(self.times, i + 1)
        return stage_time(t0, t1, c, self.side)

    def length(self, i, h):
        return read(self.times, i + 1) - read(self.times, i)


class Cursor(NamedTuple):
    """The positions of the delayed times: `pieces` [k] has a pointer for each delay.
    For the way back, `found` [capacity, stages * k] keeps the piece of every read, and
    `states` [capacity, stages * k, d] the state that was read."""

    pieces: Any
    found: jax.Array
    states: jax.Array


@final
@dataclass(frozen=True)
class MeshPast(AbstractPast):
    """The delayed states of a march, read from its own rows.

    - `delays`, [k].
    - `history`, [capacity, stages, k, d]: the history at the stages of the steps that
      read it.
    - `after_history`, [k]: the first step that reads no history.
    - `side`: how far from a jump of x its left side is evaluated.
    - `overlaps`: whether a delay may be shorter than a step.
    """

    times: jax.Array
    fractions: tuple[float, ...]
    delays: jax.Array
    history: jax.Array
    after_history: jax.Array
    side: Any
    overlaps: bool

    def reads_history(self, i: Any, q: int) -> Any:
        """Whether delay `q` leads to the history throughout step `i`."""
        return i < self.after_history[q]

    def is_inside(self, i):
        length = read(self.times, i + 1) - read(self.times, i)
        return jnp.min(self.delays) < length

    def delayed_time(self, i: Any, c: float, q: int) -> Any:
        """Return the time of the read at the fraction `c` of step `i` by delay `q`."""
        t0, t1 = read(self.times, i), read(self.times, i + 1)
        return (t1 if c == 1 else t0 + c * (t1 - t0)) - self.delays[q]

    def find(self, i: Any, c: float, q: int, piece: Any) -> Any:
        """Return the piece of this read, at or after `piece`."""
        place = self.delayed_time(i, c, q)
        if c == 1:
            t0, t1 = read(self.times, i), read(self.times, i + 1)
            place = place + side_offset(t1 <= t0, self.side)
        return lax.while_loop(
            lambda j: (j < i) & (read(self.times, j + 1) <= place),
            lambda j: j + 1,
            piece,
        )

    def _reader(self, path: jax.Array, i: Any, stage: int, q: int, piece: Any):
        """Return the delayed state of this read, whose piece is known, as a function of
        the state and the slope at the end of the step, which take the place of a row
        that is not yet in the path."""
        t0, t1 = read(self.times, piece), read(self.times, piece + 1)
        left, right = read(path, piece), read(path, piece + 1)
        s = self.delayed_time(i, self.fractions[stage], q)
        early = read(self.history, i)[stage, q]

        def state(after):
            end = right
            if after is not None:
                end = jnp.where(piece == i, jnp.stack(after), right)
            late = hermite_at(s, t0, t1, left, end)
            return jnp.where(self.reads_history(i, q), early, late)

        return state

    def write(self, path, i, x, slope):
        return write(path, i, jnp.stack([x, slope]))

    def during_step(self, path, i, cursor):
        """Return the delayed states as lists with one state for each delay."""
        pieces, found, readers = list(cursor.pieces), [], []
        for stage, c in enumerate(self.fractions):
            for q in range(len(pieces)):
                pieces[q] = self.find(i, c, q, pieces[q])
                found.append(pieces[q])
                readers.append(self._reader(path, i, stage, q, pieces[q]))
        k = len(pieces)

        def delayed_states(after):
            each = [reader(after) for reader in readers]
            at = [each[begin : begin + k] for begin in range(0, len(each), k)]
            return at, at[-1]

        found = write(cursor.found, i, jnp.stack(found))
        # What is inside the step itself is read again on the way back.
        known = jnp.stack([reader(None) for reader in readers])
        known = write(cursor.states, i, known)
        return delayed_states, Cursor(tuple(pieces), found, known)


class MarchInputs(NamedTuple):
    """What a march on a mesh depends on.

    - `rhs`: the parameters of the right-hand side.
    - `delays`, [k].
    - `times`, [capacity].
    - `history`, [capacity, stages, k, d], and `before_start`, [k, d]: the delayed
      states that are history, in the steps and at time zero.
    - `start`, [d].
    """

    rhs: Any
    delays: jax.Array
    times: jax.Array
    history: jax.Array
    before_start: jax.Array
    start: jax.Array


@final
class MeshSystem(eqx.Module):
    """The parts of a march on a mesh beside its inputs.

    `fixed` is the part of the right-hand side that is not differentiated, `tau` a tree
    in the structure of the problem's delays, `after_history` [k] the first step that
    reads no history for each of them, and `side` how far from a switch its left side is
    evaluated, zero without switches."""

    fixed: Any
    tau: Any = eqx.field(static=True)
    solver: AbstractSolver
    mesh: Mesh
    after_history: jax.Array
    side: Any

    def slope(self, rhs: Any, delays: Sequence, t: Any, x: Any, y: Sequence) -> Any:
        """Return the right-hand side, given the delays and the delayed states `y`."""
        tau = jax.tree.unflatten(self.tau, list(delays))
        delayed = jax.tree.unflatten(self.tau, list(y))
        return eqx.combine(rhs, self.fixed)(x, delayed, tau, t)

    def past(self, inputs: MarchInputs) -> MeshPast:
        """Return the delayed states of a march."""
        return MeshPast(
            inputs.times,
            stage_fractions(self.solver),
            inputs.delays,
            inputs.history,
            self.after_history,
            self.mesh.side,
            self.mesh.overlaps,
        )


def march_mesh(system: MeshSystem, inputs: MarchInputs, last: Any):
    """Return the rows of the solution up to row `last`, [capacity, 2, d], and the
    cursor, which has kept every read."""
    past, k = system.past(inputs), inputs.delays.shape[0]

    delays = [inputs.delays[q] for q in range(k)]

    def slope(t, x, y):
        return system.slope(inputs.rhs, delays, t, x, y)

    times = MeshTimes(inputs.times, system.side)
    march = March(times, system.solver, slope, past, 1.0)
    capacity = inputs.times.shape[0]
    path = jnp.zeros((capacity, 2, *inputs.start.shape), inputs.start.dtype)
    found = jnp.zeros((capacity, len(past.fractions) * k), int)
    states = jnp.zeros((*found.shape, *inputs.start.shape), inputs.start.dtype)
    cursor = Cursor((jnp.asarray(0),) * k, found, states)
    before_start = [inputs.before_start[q] for q in range(k)]
    state = MarchState(jnp.asarray(0), inputs.start, before_start, path, cursor)
    # The last row is completed by a step of its own, which must have room.
    state = march_until(march, state, jnp.minimum(last, capacity - 2) + 1)
    return state.path, state.cursor


def mesh_path(mesh: Mesh, inputs: MarchInputs, rows: jax.Array, last: Any) -> MeshPath:
    """Return the solved path. It is NaN if there is no room for all rows, or if a delay
    is negative."""
    is_solved = (last < mesh.capacity) & jnp.all(inputs.delays > 0)
    return MeshPath(inputs.times, jnp.where(is_solved, rows, jnp.nan), last)


def movers_of(problem: Problem) -> jax.Array:
    """Return the delays and the moving switches of a problem, which move the nodes."""
    return jnp.concatenate([delay_vector(problem.tau), problem.moving_times])


def node_times(mesh: Mesh, movers: jax.Array) -> tuple[jax.Array, Nodes]:
    """Return the times of the rows, [capacity], which JAX can differentiate for the
    movers in both modes, and the nodes themselves."""
    at = lax.stop_gradient(movers)
    nodes = mesh.fill(at, mesh.empty())
    times, derivatives = nodes.table[:, 0], nodes.table[:, 1:]
    # The value is that of the nodes, and the derivative is theirs as well.
    return times + jnp.sum(derivatives * (movers - at), axis=1), nodes


def prepare_march(
    problem: Problem, solver: AbstractSolver, mesh: Mesh
) -> tuple[MeshSystem, MarchInputs, jax.Array]:
    """Return the system, the inputs of its march, and its last row."""
    params, fixed = split_differentiable(problem.rhs)
    movers = movers_of(problem)
    delays, k = mesh.delays(movers), mesh.points.delays
    times, (_, last, after_history) = node_times(mesh, movers)
    following = jnp.concatenate([times[1:], times[-1:]])
    fractions = jnp.asarray(stage_fractions(solver))
    stages = times[:, None] + fractions * (following - times)[:, None]
    # A time after zero is not history: it is replaced so that nothing overflows. A
    # rounding error is taken away, but not the derivative.
    is_early = jnp.arange(mesh.capacity)[:, None, None] < after_history
    early = jnp.where(is_early, stages[:, :, None] - delays, 0.0)
    early -= lax.stop_gradient(jnp.maximum(early, 0.0))
    # One call for all times: the history may be an expensive function.
    states = jax.vmap(problem.history)(jnp.concatenate([-delays, early.ravel()]))
    before_start, table = states[:k], states[k:].reshape(*early.shape, -1)
    inputs = MarchInputs(params, delays, times, table, before_start, problem.start)
    structure = jax.tree.structure(in_structure(problem.tau, [0] * k))
    side = mesh.side if mesh.points.has_switches else 0.0
    system = MeshSystem(fixed, structure, solver, mesh, after_history, side)
    return system, inputs, last
