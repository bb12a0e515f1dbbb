"""The choice of the engine, which is made once, and of the solver.

The aligned grid is for one constant delay without switches in time: it is the fastest
engine. Everything else with fixed steps is solved on a mesh. The third engine is for
solvers that choose their steps, and for delays that are more than numbers.

`solver="auto"` takes fixed steps where they are accurate and stable, else adaptive
steps. A solution with fixed steps is judged by its *defect*: how far the slope of its
polynomials is from the right-hand side, inside of each step. A step that is too long,
or a process that is too fast for it, has a large defect.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._problem.delays import delay_count, delay_vector, in_structure
from .._problem.general_delays import is_general
from .._problem.problem import Problem
from .._util import wording
from .._util.errors import check_instance
from .adaptive.dop853 import DOP853
from .adaptive.engine import AdaptiveEngine
from .adaptive.methods import AbstractAdaptive
from .adaptive.radau import Radau
from .adaptive.solution import solve_adaptive, try_adaptive
from .adaptive.tsit5 import Tsit5
from .aligned.engine import AlignedEngine
from .engine import STEPS_PER_RECORD, AbstractEngine
from .mesh.engine import MeshEngine
from .mesh.mesh import points_of
from .runge_kutta import RK2, RK4, AbstractIntegrator, AbstractSolver, Euler
from .solution import Solution

AUTO = "auto"
# The solvers by their names.
SOLVERS: dict[str, type[AbstractIntegrator]] = {
    each.__name__: each for each in (Euler, RK2, RK4, Tsit5, DOP853, Radau)
}
# The defect of a step times its length, relative to the largest value of a component,
# up to which fixed steps are accurate; and the tolerance of the adaptive solvers.
_LARGEST_DEFECT, _RTOL = 1e-4, 1e-8
# If `Tsit5` needs more rows than this, `Radau` is tried.
_MANY_ROWS = 4096
# One delay that a fit may make shorter than this share of the record is solved on a
# mesh, whose steps have nothing to do with it.
_SHORT_DELAY = 1e-4


def engine_for(
    problem: Problem,
    solver: AbstractIntegrator,
    T: float,
    max_step: float | None = None,
) -> AbstractEngine:
    """Return the engine for a problem without doses up to the time T, with steps of at
    most `max_step`."""
    if solver.chooses_steps:
        return AdaptiveEngine(solver, max_step or math.inf)  # type: ignore[arg-type]
    is_aligned = isinstance(problem.tau, jax.Array) and not problem.has_switches
    if is_aligned and max_step is None:
        return AlignedEngine(solver, problem.has_jump)  # type: ignore[arg-type]
    return _mesh_engine(problem, solver, T, True, max_step)


def _mesh_engine(
    problem: Problem, solver: Any, T: Any, overlaps: bool, max_step: float | None = None
) -> MeshEngine:
    points = points_of(problem, solver)
    return MeshEngine(solver, points, np.asarray(T), overlaps, max_step)


def fit_engine(
    problem: Problem, solver: AbstractIntegrator, T: float, shortest: float
) -> AbstractEngine:
    """Return the engine for fits to a record of the length T, of a problem without
    doses whose delays may become as short as `shortest`."""
    if solver.chooses_steps:
        return AdaptiveEngine(solver)  # type: ignore[arg-type]
    if _can_align(problem) and not shortest < _SHORT_DELAY * T:
        return AlignedEngine(solver, problem.has_jump)  # type: ignore[arg-type]
    return _mesh_engine(problem, solver, T, shortest < 2 * T / STEPS_PER_RECORD)


def _can_align(problem: Problem) -> bool:
    """Whether a grid can be aligned: there is one delay and no switch."""
    return delay_count(problem.tau) == 1 and not problem.has_switches


def saved_solver(name: str, tolerances: Mapping[str, Any] | None) -> AbstractIntegrator:
    """Make the solver of that name, with its tolerances if it has any. Where that is
    impossible, an error names the entry of the file."""
    if name not in SOLVERS:
        raise ValueError(f"`solver` must be one of {', '.join(SOLVERS)}, not {name}.")
    if SOLVERS[name].chooses_steps != (tolerances is not None):
        raise ValueError(f"`tolerances` is {tolerances}, but `solver` is {name}.")
    try:
        return SOLVERS[name](**(tolerances or {}))
    except ValueError as error:
        raise ValueError(f"`tolerances`: {error}") from None


def saved_engine(
    problem: Problem, solver: AbstractIntegrator, T: float, shortest: float, mesh: bool
) -> AbstractEngine:
    """Return the engine of a saved fit, with what its file tells of it. Where that is
    impossible, an error names the entry of the file."""
    name = type(solver).__name__
    if solver.chooses_steps:
        if mesh:
            raise ValueError(f"`options.mesh` is true, but {name} has no mesh.")
        return AdaptiveEngine(solver)  # type: ignore[arg-type]
    if is_general(problem.tau):
        raise ValueError(
            f"`solver` is {name}, which solves problems whose delays are numbers, but "
            "the problem has others."
        )
    if mesh:
        return _mesh_engine(problem, solver, T, shortest < 2 * T / STEPS_PER_RECORD)
    if not _can_align(problem):
        raise ValueError(
            "`options.mesh` is false, but the problem has several delays or switches."
        )
    return AlignedEngine(solver, problem.has_jump)  # type: ignore[arg-type]


def study_engine(
    engines: Sequence[AbstractEngine], problems: Sequence[Problem], ends: np.ndarray
) -> AbstractEngine:
    """Return one engine for all experiments of a study, which end at the times `ends`:
    a mesh, if one of them needs it."""
    meshes = [each for each in engines if isinstance(each, MeshEngine)]
    if not meshes:
        return engines[0]
    overlaps = len(meshes) < len(engines) or any(each.overlaps for each in meshes)
    return _mesh_engine(problems[0], engines[0].solver, ends, overlaps)


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


def default_solver(problem: Problem, solver: Any) -> AbstractIntegrator:
    """Return the solver for "auto" before any solution is computed: fixed steps where
    the delays are numbers, otherwise adaptive ones."""
    if solver == AUTO:
        return Tsit5() if is_general(problem.tau) else RK4()
    if is_general(problem.tau) and not solver.chooses_steps:
        raise ValueError(
            f"{wording.solver_name(type(solver).__name__)} takes fixed steps, which "
            "are for delays that are numbers. For a delay that depends on time or "
            f"state, is neutral or distributed use {wording.AUTOMATIC_SOLVER}, "
            f"{wording.solver('Tsit5')}, or {wording.solver('Radau')} if the equation "
            "is stiff."
        )
    return solver


def adaptive_solver(
    solver: AbstractIntegrator,
) -> Callable[[], AbstractIntegrator] | None:
    """Return a kind of solver that chooses its steps; None if this one does."""
    return None if solver.chooses_steps else Tsit5


def solver_for_stiff(
    solver: AbstractIntegrator,
) -> Callable[[], AbstractIntegrator] | None:
    """Return a kind of solver for stiff equations; None if this one is of it."""
    return None if solver.is_for_stiff else Radau


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
