"""`solve`: the solution of a problem, as a function of time that JAX can
differentiate."""

import math
from dataclasses import dataclass
from typing import Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .._problem.delays import delay_count
from .._problem.problem import Problem
from .._util.arrays import is_concrete
from .._util.buffers import read
from .._util.errors import check_instance
from .grid import Grid
from .march import solve_path
from .mesh import Mesh, make_mesh
from .mesh_path import MeshPath, march_mesh, mesh_path, movers_of, prepare_march
from .mesh_reverse import rows_with_vjp
from .path import DenseOutput
from .reverse import AbstractPathGradient, PathCostState, reverse_march
from .runge_kutta import RK4, AbstractSolver
from .system import System
from .time_grid import make_grid, needs_mesh, points_of, time_grid

# The capacity of a path where tau is traced, so that the number of steps is not known
# when the program is compiled.
_ROWS_WHEN_TRACED = 4096


def check_problem(problem: Any) -> None:
    """Raise an error unless `problem` is a `Problem`."""
    check_instance("problem", problem, Problem, "Problem(rhs, history, tau)")


def check_solver(solver: Any) -> None:
    """Raise an error unless `solver` is an instance of a solver."""
    check_instance("solver", solver, AbstractSolver, "RK4()")


def check_steps(steps_per_delay: Any) -> int:
    """`steps_per_delay` as an integer, or an error unless it is a positive one."""
    is_integer = isinstance(steps_per_delay, (int, np.integer))
    if not is_integer or isinstance(steps_per_delay, bool) or steps_per_delay < 1:
        raise ValueError(
            f"`steps_per_delay` must be a positive integer, got {steps_per_delay!r}."
        )
    return int(steps_per_delay)


def check_time(T: Any, name: str = "T") -> float:
    """`T` as a number, or an error unless it is positive and finite."""
    try:
        value = float(T)
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must be a positive number, but got {T!r}.") from None
    if not 0 < value < math.inf:
        raise ValueError(f"`{name}` must be positive and finite, but got {value}.")
    return value


@final
class Solution(eqx.Module):
    """A solved problem: `solution(t)` is the state at any time up to T.

    `t` holds the solver's nodes before T, and T itself; `x` holds the states there.
    Inside a compiled program the number of steps is not known: both then have a fixed
    length and repeat their last entry."""

    problem: Problem
    T: jax.Array
    last: jax.Array
    path: jax.Array
    # The times of the rows, where they do not follow from an aligned grid.
    times: jax.Array | None
    grid: Grid | None = eqx.field(static=True)

    @property
    def t(self) -> jax.Array:
        """The nodes before T, and T itself."""
        return _nodes(self)[0][: self._count()]

    @property
    def x(self) -> jax.Array:
        """The states at the nodes, of shape (len(t), d)."""
        return _nodes(self)[1][: self._count()]

    def _count(self) -> int | None:
        """The number of nodes, or None where it is not known."""
        if not is_concrete(self.last):
            return None
        if self.grid is not None:
            return int(self.grid.node(self.last)) + 1
        return len(np.unique(np.asarray(self.times)[: int(self.last) + 1]))

    def __call__(self, t: Any) -> jax.Array:
        """The state at the time `t`, of shape (d,) for a number and (len(t), d) for a
        vector: on [0, T] by cubic Hermite pieces between the nodes, before 0 by the
        history."""
        t = jnp.asarray(t, jnp.result_type(float))
        if t.ndim > 1:
            raise ValueError(
                f"`t` must be a number or a vector; its shape is {t.shape}."
            )
        if is_concrete(self.T) and is_concrete(t.sum()):
            latest = float(np.max(np.asarray(t), initial=-np.inf))
            if not latest <= float(self.T) * (1 + 1e-9):
                raise ValueError(
                    f"The solution ends at T = {float(self.T):g}, but `t` has "
                    f"{latest:g}. Solve with a larger `T`."
                )
        return _evaluate(self, t)


@eqx.filter_jit
def _nodes(solution: Solution) -> tuple[jax.Array, jax.Array]:
    """The times of the nodes and the states there, with T for the last node."""
    x, grid = _dense_output(solution), solution.grid
    if grid is None:
        assert solution.times is not None
        # Nodes with two rows count once. Behind the last node it is repeated.
        times = jnp.minimum(solution.times, solution.T)
        t = jnp.unique(times, size=times.shape[0], fill_value=solution.T)
        return t, jax.vmap(x)(t)
    h = grid.step(solution.problem.tau)
    final = grid.node(solution.last)
    node = jnp.minimum(jnp.arange(grid.capacity), final)
    t = jnp.where(node == final, solution.T, node * h)
    inner = solution.path[grid.row(node) + grid.delay_rows, 0]
    return t, jnp.where((node == final)[:, None], x(solution.T), inner)


def _dense_output(solution: Solution) -> DenseOutput | MeshPath:
    grid = solution.grid
    if grid is None:
        assert solution.times is not None
        return MeshPath(solution.times, solution.path, solution.last)
    h = grid.step(solution.problem.tau)
    return DenseOutput(grid, solution.path, h, solution.last)


@eqx.filter_jit
def _evaluate(solution: Solution, t: jax.Array) -> jax.Array:
    dense = _dense_output(solution)

    def one(t):
        # Each branch gets a time on its own side of zero: the branch that is not taken
        # could otherwise put NaN into gradients.
        before = solution.problem.history(jnp.where(t < 0, t, 0.0))
        inside = dense(jnp.where(t < 0, 0.0, t))
        x = jnp.where(t < 0, before, inside)
        return jnp.where(t <= solution.T * (1 + 1e-9), x, jnp.nan)

    return one(t) if t.ndim == 0 else jax.vmap(one)(t)


def solve(
    problem: Problem,
    T: float,
    solver: AbstractSolver = RK4(),
    steps_per_delay: int = 20,
    *,
    max_step: float | None = None,
    differentiate: Literal["reverse", "forward"] = "reverse",
    max_steps: int | None = None,
) -> Solution:
    r"""Solve $x' = F(x, x(t-\tau), \tau, t)$ on $[0, T]$ with steps of tau /
    steps_per_delay.

    The breaking points of the solution, at which one of its derivatives jumps, are
    nodes, so that each solver keeps its order: with one delay its multiples, with
    several delays the sums of them that matter, and the problem's `switches`.

    **Arguments**

    - `steps_per_delay`: the number of steps in a delay; of several delays, in the
      shortest one.
    - `max_step`: the largest length of a step, instead of `steps_per_delay`. The steps
      then have nothing to do with the delays, which may even be shorter than a step.
    - `differentiate`: the mode in which JAX shall differentiate the solution,
      `"reverse"` (`jax.grad`) or `"forward"` (`jax.jvp`, `jax.jacfwd`). JAX needs to
      know it in advance.
    - `max_steps`: the largest number of steps where `tau` is traced by `jax.jit` or
      `jax.vmap` (4095 by default); a solution that needs more is an error. Where `tau`
      is a number, the memory follows from it.

    >>> import ddefind as dd
    >>> problem = dd.Problem(lambda x, y, tau, t: -y, dd.Constant(1.0), tau=1.0)
    >>> dd.solve(problem, T=2.0)(1.5)  # exactly -0.375
    Array([-0.375], dtype=float64)
    """
    check_problem(problem)
    check_solver(solver)
    n, T = check_steps(steps_per_delay), check_time(T)
    if differentiate not in ("reverse", "forward"):
        raise ValueError(
            f'`differentiate` must be "reverse" or "forward", got {differentiate!r}.'
        )
    if max_step is not None:
        max_step = check_time(max_step, "max_step")
    if needs_mesh(problem) or max_step is not None:
        mesh = _mesh(problem, T, solver, n, max_step, max_steps)
        times, path, last = _compiled_mesh(problem, solver, mesh, differentiate)
        path = _check_room(path, last, mesh.capacity, mesh.capacity - 4)
        return Solution(problem, jnp.asarray(T), last, path, times, None)
    if is_concrete(problem.tau):
        grid = make_grid(problem.has_jump, T, n, float(problem.tau))
    else:
        grid = Grid(n, problem.has_jump, 0)
        rows = _ROWS_WHEN_TRACED if max_steps is None else grid.rows(max_steps) + 1
        grid = Grid(n, grid.jump, max(rows, grid.delay_rows + 1))
    path, last = _compiled_path(problem, jnp.asarray(T), solver, grid, differentiate)
    steps = grid.node(grid.capacity - 1)
    path = _check_room(path, last, grid.capacity, steps)
    return Solution(problem, jnp.asarray(T), last, path, None, grid)


def _check_room(
    path: jax.Array, last: jax.Array, capacity: int, steps: Any
) -> jax.Array:
    """The path, with an error unless its rows had room: for so many steps."""
    if is_concrete(last) and int(last) < capacity:
        return path
    return eqx.error_if(
        path,
        last >= capacity,
        f"`solve` needs more than {steps} steps. Give `max_steps`, at least T / tau * "
        "steps_per_delay, with the shortest delay.",
    )


def _mesh(
    problem: Problem,
    T: float,
    solver: AbstractSolver,
    n: int,
    max_step: float | None,
    max_steps: int | None,
) -> Mesh:
    """The mesh of a problem whose delays may be traced."""
    leaves = jax.tree.leaves(problem)
    if not any(isinstance(leaf, Tracer) for leaf in leaves):
        mesh = time_grid(problem, T, solver, n, max_step)
        assert isinstance(mesh, Mesh)
        return mesh
    movers = movers_of(problem)
    step = max_step
    if step is None:
        delays = movers[: delay_count(problem.tau)]
        step = jax.lax.stop_gradient(jnp.minimum(jnp.min(delays), T)) / n
    rows = _ROWS_WHEN_TRACED if max_steps is None else max_steps + 1
    points = points_of(problem, solver)
    capacity = rows + 2 * len(points.sums)
    return make_mesh(points, movers, T, step, capacity, True)


@eqx.filter_jit
def _compiled_mesh(
    problem: Problem, solver: AbstractSolver, mesh: Mesh, differentiate: str
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The times of the rows, the rows and the last row."""
    path = solve_mesh(problem, solver, mesh, differentiate)
    return path.times, path.rows, path.last


def solve_mesh(
    problem: Problem, solver: AbstractSolver, mesh: Mesh, differentiate: str
) -> MeshPath:
    """The solution on a mesh, differentiable in one of the two modes."""
    system, inputs, last = prepare_march(problem, solver, mesh)
    if differentiate == "forward":
        rows = march_mesh(system, inputs, last)[0]
    else:
        rows = rows_with_vjp(inputs, system, last)
    return mesh_path(mesh, inputs, rows, last)


@final
@dataclass(frozen=True)
class _KnownCotangents(AbstractPathGradient):
    """A function of the path for which the cotangents of all rows are known."""

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
    solver: AbstractSolver,
    grid: Grid,
    differentiate: str,
) -> tuple[jax.Array, jax.Array]:
    """The solved path and its last row, differentiable in one of the two modes."""
    params, fixed = eqx.partition(problem, eqx.is_inexact_array)
    function = _path if differentiate == "forward" else _path_with_vjp
    return function(params, fixed, solver, grid, T, problem.dimension)


def _path(params: Problem, *system: Any) -> tuple[jax.Array, jax.Array]:
    """The solved path and its last row; `system` are the arguments of `System`."""
    system_ = System(*system)
    return solve_path(system_, params, system_.path())


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
    buffers = system.buffers()._replace(path=path)
    known = _KnownCotangents(on_path, system.grid.delay_rows)
    return reverse_march(system, params, buffers, last, known)[1]
