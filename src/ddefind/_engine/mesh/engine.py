"""The engine for any number of constant delays and for switches: fixed steps on a mesh.

The number n of a fit is that of the steps in the record. The mesh is made for the
delays of a start, and then moves with them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._problem.delays import delay_count, delay_names
from ..._problem.problem import Problem
from ..._util.arrays import is_traced, read
from ..aligned.path import MeshPath
from ..engine import (
    CHANGE,
    COARSE_STEPS,
    STEP_SIZES,
    STEPS_PER_RECORD,
    AbstractEngine,
    AbstractGrids,
)
from ..runge_kutta import AbstractSolver
from ..solution import ROWS_WHEN_TRACED, MeshDensePath, check_room
from .march import march_mesh, mesh_path, movers_of, prepare_march
from .mesh import (
    BreakingPoints,
    Mesh,
    known_constants,
    make_mesh,
    mesh_for,
    mover_values,
)
from .reverse import reverse_mesh, rows_with_vjp
from .sensitivity import MeshSensitivity

# The usual number of rows of a path: one compiled program then serves all usual numbers
# of steps in the record.
MESH_CAPACITY = 2048
# The largest number of steps over the whole record of a fit, and the most that are
# tried first for a single solution.
_MOST_STEPS_PER_RECORD, _MOST_FIRST_STEPS = 400, 2000
# How much shorter the steps may become before a mesh needs more room.
_ROOM = 0.25


@final
class MeshEngine(AbstractEngine):
    """Fixed steps on a mesh.

    - `points`: the breaking points of the problem.
    - `record`: the length of the record that is fitted.
    - `overlaps`: whether a delay may become shorter than a step.
    - `max_step`: the largest length of a step, if it does not follow from the delays.
    """

    solver: AbstractSolver
    points: BreakingPoints = eqx.field(static=True)
    record: Any
    overlaps: bool = eqx.field(static=True)
    max_step: float | None = eqx.field(static=True, default=None)

    is_costly: ClassVar[bool] = False
    in_arrays: ClassVar[bool] = True

    def solve(self, problem, T, n, differentiate, max_steps):
        if is_traced(problem):
            mesh = self._traced_mesh(problem, T, n, max_steps)
        else:
            mesh = self.grid(problem, T, n)
        path = _compiled_mesh(problem, self.solver, mesh, differentiate)
        rows = check_room(path.rows, path.last, mesh.capacity, mesh.capacity - 4)
        return MeshDensePath(MeshPath(path.times, rows, path.last))

    def _traced_mesh(self, problem: Problem, T: float, n: int, max_steps: int | None):
        """Return the mesh of a problem whose delays may be traced."""
        movers, step = movers_of(problem), self.max_step
        if step is None:
            delays = movers[: delay_count(problem.tau)]
            step = jax.lax.stop_gradient(jnp.minimum(jnp.min(delays), T)) / n
        rows = ROWS_WHEN_TRACED if max_steps is None else max_steps + 1
        rows += 2 * self.points.count
        constants = known_constants(problem, self.points, jnp)
        return make_mesh(self.points, movers, T, step, rows, True, constants)

    def grid(self, problem, T, n, shrink=1.0):
        movers, names = mover_values(problem), delay_names(problem.tau)
        constants = known_constants(problem, self.points)
        given = T, n, self.max_step, shrink, constants
        return mesh_for(self.points, movers, names, *given)

    def larger_grid(self, grid, problem, T, loss):
        return None

    def finer_steps(self, delay, T, n):
        # Delays may be shorter than a step: the steps follow the record as well.
        count = min(T / delay * n, _MOST_FIRST_STEPS)
        for size in range(STEP_SIZES):
            yield {"max_step": T / count / 4**size}

    def refusal(self, problem, route):
        return (
            f"`{route}()` is a formula for one constant delay, "
            "without switches, on the grid that `steps_per_delay` gives. Use "
            "`dd.Discrete()`, which is exact for every problem."
        )

    def for_differences(self):
        return self, CHANGE

    # A loss in a compiled program.

    def path(self, system):
        return None

    def buffers(self, system):
        return None

    def loss(self, system, cost, params, path):
        problem = eqx.combine(params, system.fixed)
        x = solve_mesh(problem, self.solver, system.grid, "forward")
        return cost.total(params, x), path

    def gradient(self, system, cost, params, buffers):
        """Return the loss and its gradient: the cotangents of the points go to the rows
        of the path, those of the rows to the inputs of the march, and those of the
        inputs, by JAX, to the parameters."""
        mesh = system.grid

        def prepare(params):
            problem = eqx.combine(params, system.fixed)
            mesh_system, inputs, last = prepare_march(problem, self.solver, mesh)
            return inputs, (mesh_system, last)

        inputs, pull, (mesh_system, last) = jax.vjp(prepare, params, has_aux=True)
        rows, cursor = march_mesh(mesh_system, inputs, last)
        path = mesh_path(mesh, inputs, rows, last)
        found = cost.on_mesh(params, path)
        on_inputs = reverse_mesh(mesh_system, inputs, rows, cursor, last, found.on_rows)
        on_times = on_inputs.times + found.on_times
        (gradient,) = pull(on_inputs._replace(times=on_times))
        observe = jax.tree.map(jnp.add, gradient.observe, found.on_observe)
        gradient = eqx.tree_at(
            lambda p: p.observe, gradient, observe, is_leaf=lambda leaf: leaf is None
        )
        return found.value, gradient, buffers

    # Gradient descent.

    def grids(self, problems, T, n):
        meshes = [
            self.grid(each, float(end), n, shrink=_ROOM)
            for each, end in zip(problems, T)
        ]
        return Meshes(problems, meshes)

    def movers(self, system, params):
        return movers_of(eqx.combine(params, system.fixed))

    def is_feasible(self, system, movers):
        delays = system.grid.delays(movers)
        return jnp.all(delays > 0) & jnp.all(jnp.isfinite(movers))

    def rows_needed(self, system, movers):
        return system.grid.rows_needed(movers)

    def lacked_rows(self, system, buffers):
        return jnp.asarray(False)

    def at_rest(self, system, params, rests):
        return params

    # Least squares.

    def usual_steps(self, delay, theta, T, in_delay):
        """Return the steps in the record, half of those `in_delay` in the longest
        delay, but not more than a few hundred: most shorter delays do not need more."""
        return _in_record(delay(theta), T, in_delay / 2, _MOST_STEPS_PER_RECORD)

    def coarse_steps(self, delay, theta, T):
        return _in_record(delay(theta), T, COARSE_STEPS, _MOST_STEPS_PER_RECORD // 2)

    def steps_near(self, delay, theta, place, n):
        return np.full(len(theta), n)

    def steps_at_rate(self, n, rate, T):
        return np.maximum(n, int(rate * T))

    def steps_in_record(self, delay, theta, T, count):
        return np.full(len(theta), count)

    def later_steps(self, n, delays, T):
        return n, T / n

    def reported_steps(self, n, in_delay, T):
        return in_delay, T / n

    def capacity(self, n, T):
        """Return how many rows there are up to T with n steps in the record."""
        # Where delays become shorter during a fit, their intervals keep their steps.
        longer = max(T / float(np.max(self.record)), 1.0)
        needed, capacity = int(3 * n * longer) + 4 * self.points.count, MESH_CAPACITY
        while capacity < needed:
            capacity *= 2
        return capacity

    def nearby(self, lower, theta, delays):
        return lower

    def steps(self, problem, n, T, capacity):
        known, step = problem(), self.record / n
        constants = known_constants(known, self.points, jnp)
        given = T, step, capacity, self.overlaps, constants
        return make_mesh(self.points, movers_of(known), *given)

    def at_least(self, steps, rate, problem, capacity):
        return steps

    def sensitivity(self, system, join, theta, steps, direct):
        return MeshSensitivity(system(steps), join, theta, steps, direct)

    def smoothness(self, steps):
        return ()

    def part(self, e):
        record = self.record[e] if isinstance(e, int) else read(self.record, e)
        return replace(self, record=record)

    def explain(self, problem, T):
        pass

    def saved(self):
        return {"mesh": True}


def _in_record(delay: np.ndarray, T: Any, in_delay: float, most: int) -> np.ndarray:
    steps = in_delay * T / np.maximum(delay, 1e-300)
    return np.ceil(np.clip(steps, STEPS_PER_RECORD, most)).astype(int)


@final
class Meshes(AbstractGrids):
    """One mesh for each fit, whose steps are chosen at its start and held."""

    side_by_side = False

    def __init__(self, problems: Sequence[Problem], meshes: list[Mesh]):
        self.movers = np.stack([mover_values(each) for each in problems], axis=1)
        self.meshes = meshes
        self.delays = meshes[0].points.delays
        self._use_one_capacity(max(mesh.capacity for mesh in meshes))

    def _use_one_capacity(self, capacity: int) -> None:
        """Give all meshes the same room, so that one program serves them."""
        self.capacity = capacity
        self.meshes = [replace(mesh, capacity=capacity) for mesh in self.meshes]

    def reserve(self, active: np.ndarray, overflow: bool) -> None:
        """Give a fit whose rows have no room left a new mesh, and all more room. Where
        a step may soon be longer than a delay, the march is prepared for it."""
        for fit in active:
            shortest = np.min(self.movers[: self.delays, fit])
            if self.meshes[fit].longest_step(self.movers[:, fit]) > 0.5 * shortest:
                self.meshes[fit] = replace(self.meshes[fit], overlaps=True)
            movers = self.movers[:, fit]
            while self.meshes[fit].rows_in(movers) >= self.capacity:
                mesh = self.meshes[fit]
                self.meshes[fit] = make_mesh(
                    mesh.points,
                    movers,
                    float(mesh.T),
                    float(mesh.tail),
                    mesh.capacity,
                    mesh.overlaps,
                    np.asarray(mesh.constants),
                )
                self._use_one_capacity(2 * self.capacity)

    def grid(self, block: np.ndarray) -> Mesh:
        return self.meshes[int(block[0])]


def solve_mesh(
    problem: Problem, solver: AbstractSolver, mesh: Mesh, differentiate: str
) -> MeshPath:
    """Return the solution on a mesh, differentiable in one of the two modes."""
    system, inputs, last = prepare_march(problem, solver, mesh)
    if differentiate == "forward":
        rows = march_mesh(system, inputs, last)[0]
    else:
        rows = rows_with_vjp(inputs, system, last)
    return mesh_path(mesh, inputs, rows, last)


_compiled_mesh = eqx.filter_jit(solve_mesh)
