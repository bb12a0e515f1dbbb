"""`solve`: the solution of a problem, as a function of time that JAX differentiates."""

import math
from dataclasses import dataclass
from typing import Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp

from .._problem.delays import delay_count
from .._problem.doses import check_dose_times
from .._problem.driving import check_inputs_known
from .._problem.general_delays import is_general
from .._problem.inputs import split_differentiable
from .._problem.problem import Problem
from .._problem.without_doses import without_doses
from .._util.arrays import is_concrete, is_traced, read
from .adaptive.methods import AbstractAdaptive
from .adaptive.solution import solve_adaptive
from .aligned.march import System, solve_path
from .aligned.path import Grid, MeshPath, make_grid
from .aligned.reverse import AbstractPathGradient, PathCostState, reverse_march
from .engine import (
    AUTO,
    check_any_solver,
    choose_adaptive,
    default_solver,
    is_accurate,
    needs_mesh,
    refuse_fixed_steps,
    time_grid,
)
from .mesh.march import march_mesh, mesh_path, movers_of, prepare_march
from .mesh.mesh import Mesh, StepsError, known_constants, make_mesh, points_of
from .mesh.reverse import rows_with_vjp
from .runge_kutta import AbstractSolver
from .solution import (
    AlignedDensePath,
    DosedDensePath,
    MeshDensePath,
    Solution,
    check_problem,
    check_steps,
    check_time,
)

# The capacity of a path where tau is traced, so that the number of steps is not known
# when the program is compiled.
_ROWS_WHEN_TRACED = 4096


def solve(
    problem: Problem,
    T: float,
    solver: AbstractSolver | AbstractAdaptive | Literal["auto"] = AUTO,
    steps_per_delay: int = 20,
    *,
    max_step: float | None = None,
    differentiate: Literal["reverse", "forward"] = "reverse",
    max_steps: int | None = None,
) -> Solution:
    r"""Solve $x' = F(x, x(t-\tau), \tau, t)$ on $[0, T]$.

    The breaking points of the solution, at which one of its derivatives jumps, are
    nodes, so that each solver keeps its order: with one delay its multiples, with
    several delays the sums of them that matter, and the problem's `switches`.

    **Arguments**

    - `solver`: `Euler()`, `RK2()` and `RK4()` take fixed steps of tau /
      steps_per_delay, and need delays that are numbers. `Tsit5()` chooses its steps by
      the error, and so does `Radau()`, which is for stiff equations; they solve
      equations with delays of every kind. `"auto"` takes `RK4()` where it is accurate,
      else `Tsit5()`, or `Radau()` if the equation is stiff; `solution.solver` says
      which. Where JAX traces the problem, for `jax.jit` or `jax.grad`, it is `RK4()`,
      or `Tsit5()` for delays that are more than numbers.
    - `steps_per_delay`: the number of steps in a delay; of several delays, in the
      shortest one.
    - `max_step`: the largest length of a step. Fixed steps then have nothing to do with
      `steps_per_delay` and the delays, which may even be shorter than a step.
    - `differentiate`: the mode in which JAX differentiates the solution,
      `"reverse"` (`jax.grad`) or `"forward"` (`jax.jvp`, `jax.jacfwd`). JAX needs to
      know it in advance.
    - `max_steps`: the largest number of steps where `tau` is traced by `jax.jit` or
      `jax.vmap` (4095 by default), and of adaptive steps; a solution that needs more is
      an error, or in a program with adaptive steps not a number. Elsewhere the memory
      follows from the solution.

    >>> import ddefind as dd
    >>> problem = dd.Problem(lambda x, y, tau, t: -y, dd.Constant(1.0), tau=1.0)
    >>> dd.solve(problem, T=2.0)(1.5)  # exactly -0.375
    Array([-0.375], dtype=float64)
    """
    check_problem(problem)
    check_any_solver(solver)
    n, T = check_steps(steps_per_delay), check_time(T)
    if differentiate not in ("reverse", "forward"):
        raise ValueError(
            f'`differentiate` must be "reverse" or "forward", got {differentiate!r}.'
        )
    if max_step is not None:
        max_step = check_time(max_step, "max_step")
    check_inputs_known(problem, T)
    if problem.doses is not None:
        check_dose_times(problem.doses, T)
        limits: Any = {"max_step": max_step, "max_steps": max_steps}
        plain = without_doses(problem)
        found = solve(plain, T, solver, n, differentiate=differentiate, **limits)
        path = DosedDensePath(found.path, problem.doses)
        return Solution(problem, found.T, path, found.solver)
    if solver == AUTO and is_traced(problem):
        solver = default_solver(problem, AUTO)
    if isinstance(solver, AbstractAdaptive):
        limits = max_steps, max_step or math.inf
        path = solve_adaptive(problem, T, solver, differentiate, *limits)
        return Solution(problem, jnp.asarray(T), path, solver)
    steps = n, max_step, differentiate, max_steps
    if solver == AUTO:
        return _solve_auto(problem, T, *steps)
    if is_general(problem.tau):
        refuse_fixed_steps(solver)
    return _solve_fixed(problem, T, solver, *steps)


def _solve_auto(
    problem: Problem,
    T: float,
    n: int,
    max_step: float | None,
    differentiate: str,
    max_steps: int | None,
) -> Solution:
    """Solve a problem, with known values, by the solver that fits it."""
    solver, longest = default_solver(problem, AUTO), max_step or math.inf
    if isinstance(solver, AbstractAdaptive):
        return choose_adaptive(problem, T, differentiate, longest)
    try:
        fixed = _solve_fixed(problem, T, solver, n, max_step, differentiate, max_steps)
    except StepsError:
        return choose_adaptive(problem, T, differentiate, longest)
    if is_accurate(fixed):
        return fixed
    otherwise = fixed if bool(jnp.all(jnp.isfinite(fixed.x))) else None
    return choose_adaptive(problem, T, differentiate, longest, otherwise)


def _solve_fixed(
    problem: Problem,
    T: float,
    solver: AbstractSolver,
    n: int,
    max_step: float | None,
    differentiate: str,
    max_steps: int | None,
) -> Solution:
    """Solve with fixed steps: on a mesh, or on a grid aligned with one delay."""
    if needs_mesh(problem) or max_step is not None:
        mesh = _mesh(problem, T, solver, n, max_step, max_steps)
        path = _compiled_mesh(problem, solver, mesh, differentiate)
        rows = _check_room(path.rows, path.last, mesh.capacity, mesh.capacity - 4)
        dense = MeshDensePath(MeshPath(path.times, rows, path.last))
        return Solution(problem, jnp.asarray(T), dense, solver)
    if is_concrete(problem.tau):
        grid = make_grid(problem.has_jump, T, n, float(problem.tau))
    else:
        grid = Grid(n, problem.has_jump, 0)
        rows = _ROWS_WHEN_TRACED if max_steps is None else grid.rows(max_steps) + 1
        grid = Grid(n, grid.jump, max(rows, grid.delay_rows + 1))
    path, last = _compiled_path(problem, jnp.asarray(T), solver, grid, differentiate)
    steps = grid.node(grid.capacity - 1)
    path = _check_room(path, last, grid.capacity, steps)
    dense = AlignedDensePath(problem.tau, last, path, grid)
    return Solution(problem, jnp.asarray(T), dense, solver)


def _check_room(
    path: jax.Array, last: jax.Array, capacity: int, steps: Any
) -> jax.Array:
    """Return the path, with an error if it has no room for more than `steps` steps."""
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
    """Return the mesh of a problem whose delays may be traced."""
    if not is_traced(problem):
        mesh = time_grid(problem, T, solver, n, max_step)
        assert isinstance(mesh, Mesh)
        return mesh
    movers, step = movers_of(problem), max_step
    if step is None:
        delays = movers[: delay_count(problem.tau)]
        step = jax.lax.stop_gradient(jnp.minimum(jnp.min(delays), T)) / n
    rows = _ROWS_WHEN_TRACED if max_steps is None else max_steps + 1
    points = points_of(problem, solver)
    constants = known_constants(problem, points, jnp)
    return make_mesh(points, movers, T, step, rows + 2 * points.count, True, constants)


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
    solver: AbstractSolver,
    grid: Grid,
    differentiate: str,
) -> tuple[jax.Array, jax.Array]:
    """Return the solved path and its last row, differentiable in one of the modes."""
    params, fixed = split_differentiable(problem)
    function = _path if differentiate == "forward" else _path_with_vjp
    return function(params, fixed, solver, grid, T, problem.dimension)


def _path(params: Problem, *system: Any) -> tuple[jax.Array, jax.Array]:
    """Return the solved path and its last row; `system` are arguments of `System`."""
    whole = System(*system)
    return solve_path(whole, params, whole.path())


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
