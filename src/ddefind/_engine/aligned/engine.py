"""The engine for one constant delay without switches: fixed steps that divide it.

The number n of a fit is that of the steps in a delay: the steps follow the delay."""

from dataclasses import dataclass
from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._problem.delays import delay_vector
from ..._problem.inputs import split_differentiable
from ..._problem.problem import Problem
from ..._util.arrays import is_concrete, read
from ..engine import (
    CHANGE,
    COARSE_STEPS,
    MAX_ROWS,
    SHRINKAGE,
    STEP_SIZES,
    STEPS_PER_RECORD,
    AbstractEngine,
    AbstractGrids,
    AbstractPathGradient,
    PathCostState,
    System,
    of_each,
)
from ..runge_kutta import AbstractSolver
from ..solution import ROWS_WHEN_TRACED, AlignedDensePath, check_room
from .march import make_buffers, make_path, solve_path
from .path import Grid, make_grid
from .reverse import reverse_march
from .sensitivity import Extended

# The usual number of rows of the ring buffer of a fit. A delay may have a few steps
# less than this.
CAPACITY = 512
# A delay that is shorter than this share of the record has fewer steps than usual.
_USUAL_SHARE = 1 / 40
# The most steps in a delay where their number in the record is given, and the most in
# the record of a single solution.
_MOST_STEPS, _MOST_IN_RECORD = 250, 4_000_000


@final
class AlignedEngine(AbstractEngine):
    """Fixed steps on a grid that is aligned with the delay; whether the state has a
    `jump` at time zero."""

    solver: AbstractSolver
    jump: bool = eqx.field(static=True, default=False)

    is_costly: ClassVar[bool] = False
    in_arrays: ClassVar[bool] = True

    def solve(self, problem, T, n, differentiate, max_steps):
        if is_concrete(problem.tau):
            grid = self.grid(problem, T, n)
        else:
            grid = Grid(n, self.jump, 0)
            rows = ROWS_WHEN_TRACED if max_steps is None else grid.rows(max_steps) + 1
            grid = Grid(n, self.jump, max(rows, grid.delay_rows + 1))
        path, last = _compiled_path(problem, jnp.asarray(T), self, grid, differentiate)
        path = check_room(path, last, grid.capacity, grid.node(grid.capacity - 1))
        return AlignedDensePath(problem.tau, last, path, grid)

    def grid(self, problem, T, n, shrink=1.0):
        return make_grid(self.jump, T, n, shrink * float(problem.tau))

    def larger_grid(self, grid, problem, T, loss):
        return None

    def finer_steps(self, delay, T, n):
        for _ in range(STEP_SIZES):
            if T / delay * n > _MOST_IN_RECORD:
                return
            yield {"steps_per_delay": n}
            n *= 4

    def refusal(self, problem, route):
        return ""

    def for_differences(self):
        return self, CHANGE

    # A loss in a compiled program.

    def path(self, system):
        return make_path(system, system.grid)

    def buffers(self, system):
        return make_buffers(system)

    def loss(self, system, cost, params, path):
        path, last = solve_path(system, params, path)
        return cost.value(params, path, last), path

    def gradient(self, system, cost, params, buffers):
        path, last = solve_path(system, params, buffers.path)
        buffers = buffers._replace(path=path)
        return reverse_march(system, params, buffers, last, cost)

    # Gradient descent.

    def grids(self, problems, T, n):
        tau = np.array(of_each(lambda problem: float(problem.tau), problems))
        return AlignedGrids(tau[None], T, self.jump, n)

    def movers(self, system, params):
        return params.tau

    def is_feasible(self, system, movers):
        shortest = system.T * system.grid.n / (MAX_ROWS // 2)
        return (movers > shortest) & jnp.isfinite(movers)

    def rows_needed(self, system, movers):
        return system.grid.last(system.T, movers)

    def lacked_rows(self, system, buffers):
        return jnp.asarray(False)

    def at_rest(self, system, params, rests):
        """Return parameters with a delay so long that a fit takes a single step."""
        tau = jnp.where(rests, system.T * system.grid.n, params.tau)
        return eqx.tree_at(lambda p: p.tau, params, tau)

    # Least squares.

    def usual_steps(self, delay, theta, T, in_delay):
        share = delay(theta) / T
        least = np.ceil(np.minimum(1.0, share / _USUAL_SHARE) * in_delay)
        by_record = np.ceil(STEPS_PER_RECORD * share)
        most = max(in_delay, CAPACITY // 2 - 3)
        return np.clip(by_record, least, most).astype(int)

    def coarse_steps(self, delay, theta, T):
        steps = np.ceil(STEPS_PER_RECORD * delay(theta) / T)
        return np.clip(steps, 1, COARSE_STEPS).astype(int)

    def steps_near(self, delay, theta, place, n):
        share = delay(theta) / delay(place[None])
        return np.ceil(n * np.minimum(1.0, 4 * share)).astype(int)

    def steps_at_rate(self, n, rate, T):
        return n

    def steps_in_record(self, delay, theta, T, count):
        share = delay(theta) / T
        return np.clip(np.ceil(count * share), 1, _MOST_STEPS).astype(int)

    def later_steps(self, n, delays, T):
        before, after = delays()
        n = int(np.ceil(n * max(after / before, 1.0)))
        return n, after / n

    def reported_steps(self, n, in_delay, T):
        return n, None

    def capacity(self, n, T):
        """Return how many rows a ring needs for a delay of n steps."""
        capacity = CAPACITY
        while capacity < n + 4:
            capacity *= 2
        return capacity

    def nearby(self, lower, theta, delays):
        """Return the lower bounds: a delay may become shorter by no more than a
        factor."""
        lower = lower.copy()
        for j in delays:
            lower[:, j] = np.maximum(lower[:, j], theta[:, j] / SHRINKAGE)
        return lower

    def steps(self, problem, n, T, capacity):
        return n

    def at_least(self, steps, rate, problem, capacity):
        tau = problem().tau
        tau = tau if isinstance(tau, jax.Array) else delay_vector(tau)[0]
        by_rate = jnp.minimum(jnp.ceil(rate * tau), capacity - 4)
        return jnp.maximum(steps, by_rate.astype(int))

    def sensitivity(self, system, join, theta, steps, direct):
        return Extended(system(Grid(steps, self.jump, 0)), join, theta)

    def smoothness(self, steps):
        return ()

    def part(self, e):
        return self

    def explain(self, problem, T):
        pass

    def saved(self):
        return {"mesh": False}


@final
class AlignedGrids(AbstractGrids):
    """One grid with enough room, aligned with the delay of each fit: many fits run side
    by side."""

    delays = 1
    side_by_side = True

    def __init__(self, movers: np.ndarray, T: np.ndarray, jump: bool, n: int):
        self.movers, self.T, self.jump, self.n = movers, T, jump, n
        self.capacity = 0

    def reserve(self, active: np.ndarray, overflow: bool) -> None:
        """Reserve rows for the shortest delay. When they run short, rows are reserved
        for a delay eight times shorter: rows cost nothing, but a program of another
        size is compiled again."""
        ratio = float(np.max(self.T[active] / self.movers[0, active]))
        if make_grid(self.jump, ratio, self.n, 0.5).capacity > self.capacity:
            self.capacity = make_grid(self.jump, ratio, self.n, 1 / 16).capacity

    def grid(self, block: np.ndarray) -> Grid:
        return Grid(self.n, self.jump, self.capacity)


@final
@dataclass(frozen=True)
class _KnownCotangents(AbstractPathGradient):
    """A function of the path whose cotangents for all rows are known."""

    cotangents: jax.Array
    delay_rows: int

    def begin(self, params, path, last):
        observe = jax.tree.map(jnp.zeros_like, params.observe)
        return PathCostState(jnp.zeros(()), jnp.zeros(()), observe)

    def visit(self, i, state, params, path, last):
        on_x, on_slope = read(self.cotangents, i + self.delay_rows)
        return state, on_x, on_slope


@eqx.filter_jit
def _compiled_path(
    problem: Problem,
    T: jax.Array,
    engine: AlignedEngine,
    grid: Grid,
    differentiate: str,
) -> tuple[jax.Array, jax.Array]:
    """Return the solved path and its last row, differentiable in one of the modes."""
    params, fixed = split_differentiable(problem)
    function = _path if differentiate == "forward" else _path_with_vjp
    return function(params, fixed, engine, grid, T, problem.dimension)


def _path(params: Problem, *system) -> tuple[jax.Array, jax.Array]:
    """Return the solved path and its last row; `system` are arguments of `System`."""
    whole = System(*system)
    return solve_path(whole, params, make_path(whole, whole.grid))


# A function with a derivative of its own must not close over traced values: all of them
# are arguments.
_path_with_vjp = eqx.filter_custom_vjp(_path)


@_path_with_vjp.def_fwd
def _forward(perturbed, params, *system):
    path, last = _path(params, *system)
    return (path, last), (path, last)


@_path_with_vjp.def_bwd
def _backward(saved, cotangents, perturbed, params, *system):
    system = System(*system)
    (path, last), (on_path, _) = saved, cotangents
    if on_path is None:
        on_path = jnp.zeros_like(path)
    buffers = make_buffers(system)._replace(path=path)
    known = _KnownCotangents(on_path, system.grid.delay_rows)
    return reverse_march(system, params, buffers, last, known)[1]
