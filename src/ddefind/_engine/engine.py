"""The choice of the engine: of the solver, and of its grid.

The aligned grid (`aligned/`) is for one constant delay without switches in time: it is
the faster one. Everything else with fixed steps is solved on a mesh (`mesh/`), and
delays that are more than numbers with adaptive steps (`adaptive/`).

`solver="auto"` takes fixed steps where they are accurate and stable, else adaptive
steps. A solution with fixed steps is judged by its *defect*: how far the slope of its
polynomials is from the right-hand side, inside of each step. A step that is too long,
or a process that is too fast for it, has a large defect.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._problem.delays import delay_names, delay_vector, in_structure
from .._problem.general_delays import is_general
from .._problem.problem import Problem
from .._util import wording
from .._util.errors import check_instance
from .adaptive.methods import AbstractAdaptive, Radau, Tsit5
from .adaptive.solution import solve_adaptive, try_adaptive
from .aligned.path import Grid, make_grid
from .mesh.mesh import (
    Mesh,
    has_switches,
    known_constants,
    mesh_for,
    mover_values,
    points_of,
)
from .runge_kutta import RK4, AbstractSolver
from .solution import Solution

AUTO = "auto"
# The defect of a step times its length, relative to the largest value of a component,
# up to which fixed steps are accurate; and the tolerance of the adaptive solvers.
_LARGEST_DEFECT, _RTOL = 1e-4, 1e-8
# If `Tsit5` needs more rows than this, `Radau` is tried.
_MANY_ROWS = 4096


def needs_mesh(problem: Problem) -> bool:
    """Whether a problem has more than one constant delay without switches and kinks."""
    return not isinstance(problem.tau, jax.Array) or has_switches(problem)


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


def check_any_solver(solver: Any) -> None:
    """Raise an error unless `solver` is "auto" or an instance of a solver."""
    if isinstance(solver, str) and solver == AUTO:
        return
    if not isinstance(solver, AbstractAdaptive):
        if isinstance(solver, str):
            raise TypeError(
                f'`solver` must be "auto" or a solver, as `dd.Tsit5()`, got {solver!r}.'
            )
        check_instance("solver", solver, AbstractSolver, "RK4()")


def default_solver(problem: Problem, solver: Any) -> AbstractSolver | AbstractAdaptive:
    """Return the solver for "auto" before any solution is computed: fixed steps where
    the delays are numbers, otherwise adaptive ones."""
    if solver == AUTO:
        return Tsit5() if is_general(problem.tau) else RK4()
    if is_general(problem.tau) and not isinstance(solver, AbstractAdaptive):
        refuse_fixed_steps(solver)
    return solver


def refuse_fixed_steps(solver: Any) -> None:
    """Raise an error: delays that are more than a number need adaptive steps."""
    raise ValueError(
        f"{wording.solver_name(type(solver).__name__)} takes fixed steps, which are "
        "for delays that are numbers. For a delay that depends on time or state, is "
        f"neutral or distributed use {wording.AUTOMATIC_SOLVER}, "
        f"{wording.solver('Tsit5')}, or {wording.solver('Radau')} if the equation is "
        "stiff."
    )


def is_accurate(solution: Solution) -> bool:
    """Whether a solution with fixed steps fulfils its equation well enough."""
    return float(_largest_defect(solution)) <= _LARGEST_DEFECT


@eqx.filter_jit
def _largest_defect(solution: Solution) -> jax.Array:
    problem, path = solution.problem, solution.path
    t, x = path.nodes(solution.T)
    begin, length = t[:-1], jnp.diff(t)
    tau = delay_vector(problem.tau)

    def state(t):
        before = problem.history(jnp.minimum(t, 0.0))
        return jnp.where(t < 0, before, path(jnp.maximum(t, 0.0)))

    def defect(t):
        x, slope = jax.jvp(path, (t,), (jnp.ones_like(t),))
        y = list(jax.vmap(state)(t - tau))
        right = problem.rhs(
            x, in_structure(problem.tau, y), in_structure(problem.tau, list(tau)), t
        )
        return jnp.abs(slope - right)

    size = jnp.max(jnp.abs(x), axis=0) + 1e-300
    # At two places inside of each step.
    places = [begin + u * length for u in (0.21, 0.79)]
    defects = [jax.vmap(defect)(t) * length[:, None] for t in places]
    worst = jnp.max(jnp.stack(defects) / size)
    return jnp.where(jnp.isfinite(worst), worst, jnp.inf)


def choose_adaptive(
    problem: Problem,
    T: float,
    differentiate: str,
    max_step: float,
    otherwise: Solution | None = None,
) -> Solution:
    """Solve with adaptive steps: by the explicit method or, if that needs very many
    steps, by the implicit one. Where both do, as with a right-hand side that jumps with
    the state, return the solution `otherwise`, if there is one."""
    for solver in (Tsit5(_RTOL), Radau(_RTOL)):
        path = try_adaptive(problem, T, solver, differentiate, _MANY_ROWS, max_step)
        if path is not None:
            return Solution(problem, jnp.asarray(T), path, solver)
    if otherwise is not None:
        return otherwise
    solver = Tsit5(_RTOL)
    path = solve_adaptive(problem, T, solver, differentiate, None, max_step)
    return Solution(problem, jnp.asarray(T), path, solver)
