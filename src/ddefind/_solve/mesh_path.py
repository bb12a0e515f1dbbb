"""The solution of a problem on a mesh.

The march itself is a function of arrays: the parameters of the right-hand side, the
delays, the times of the rows, the history at the stages of the steps that read it, and
the state at time zero. JAX differentiates everything around it: the nodes as functions
of the delays and switches, and the history.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from .._problem.delays import delay_vector, in_structure
from .._problem.inputs import split_differentiable
from .._problem.problem import Problem
from .march import March, MarchState, march_until
from .mesh import Mesh, Nodes
from .mesh_past import Cursor, MeshPast, MeshTimes, hermite_at, stage_fractions
from .runge_kutta import AbstractSolver


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
    """What a march on a mesh needs beside its inputs.

    `fixed` is the part of the right-hand side that is not differentiated, `tau` a tree
    in the structure of the problem's delays, `after_history` [k] the first step that
    reads no history for each of them, and `side` how far from a switch its left side is
    looked at, zero without switches."""

    fixed: Any
    tau: Any = eqx.field(static=True)
    solver: AbstractSolver
    mesh: Mesh
    after_history: jax.Array
    side: Any

    def slope(self, rhs: Any, delays: Sequence, t: Any, x: Any, y: Sequence) -> Any:
        """The right-hand side, given the delays and the delayed states `y`."""
        tau = jax.tree.unflatten(self.tau, list(delays))
        delayed = jax.tree.unflatten(self.tau, list(y))
        return eqx.combine(rhs, self.fixed)(x, delayed, tau, t)

    def past(self, inputs: MarchInputs) -> MeshPast:
        """The delayed states of a march."""
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
    """The rows of the solution up to row `last`, [capacity, 2, d], and the cursor,
    which has kept every read."""
    past, k = system.past(inputs), inputs.delays.shape[0]

    delays = [inputs.delays[q] for q in range(k)]

    def slope(t, x, y):
        return system.slope(inputs.rhs, delays, t, x, y)

    times = MeshTimes(inputs.times, system.side)
    march = March(times, system.solver, slope, past, 1.0)
    capacity = inputs.times.shape[0]
    path = jnp.zeros((capacity, 2, *inputs.start.shape), inputs.start.dtype)
    found = jnp.zeros((capacity, len(past.fractions) * k), int)
    seen = jnp.zeros((*found.shape, *inputs.start.shape), inputs.start.dtype)
    cursor = Cursor((jnp.asarray(0),) * k, found, seen)
    before_start = [inputs.before_start[q] for q in range(k)]
    state = MarchState(jnp.asarray(0), inputs.start, before_start, path, cursor)
    # The last row is completed by a step of its own, which must have room.
    state = march_until(march, state, jnp.minimum(last, capacity - 2) + 1)
    return state.path, state.cursor


@final
class MeshPath(eqx.Module):
    """A solved path as a function of time on [0, T], made of cubic Hermite pieces.

    `rows` [capacity, 2, d] are complete up to row `last`."""

    times: jax.Array
    rows: jax.Array
    last: jax.Array

    def __call__(self, t: Any) -> jax.Array:
        """The state x(t)."""
        piece = jnp.searchsorted(self.times, t, side="right") - 1
        piece = jnp.clip(piece, 0, self.last - 1)
        t0, t1 = self.times[piece], self.times[piece + 1]
        return hermite_at(t, t0, t1, self.rows[piece], self.rows[piece + 1])


def mesh_path(mesh: Mesh, inputs: MarchInputs, rows: jax.Array, last: Any) -> MeshPath:
    """The solved path. Without room for all rows there is no solution, nor with a
    negative delay: it is not a number."""
    is_solved = (last < mesh.capacity) & jnp.all(inputs.delays > 0)
    return MeshPath(inputs.times, jnp.where(is_solved, rows, jnp.nan), last)


def movers_of(problem: Problem) -> jax.Array:
    """The delays and the moving switches of a problem: what moves the nodes of its
    mesh."""
    return jnp.concatenate([delay_vector(problem.tau), problem.moving_times])


def node_times(mesh: Mesh, movers: jax.Array) -> tuple[jax.Array, Nodes]:
    """The times of the rows, [capacity], which JAX can differentiate for the movers in
    both modes, and the nodes themselves."""
    at = lax.stop_gradient(movers)
    nodes = mesh.fill(at, mesh.empty())
    times, derivatives = nodes.table[:, 0], nodes.table[:, 1:]
    # The value is that of the nodes, and the derivative is theirs as well.
    return times + jnp.sum(derivatives * (movers - at), axis=1), nodes


def prepare_march(
    problem: Problem, solver: AbstractSolver, mesh: Mesh
) -> tuple[MeshSystem, MarchInputs, jax.Array]:
    """The system, the inputs of its march, and its last row."""
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
