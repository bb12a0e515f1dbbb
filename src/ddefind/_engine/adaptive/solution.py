"""The solution of a problem with adaptive steps, and why there is none."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._problem.delays import delay_names
from ..._problem.problem import Problem
from ..._util import wording
from ..._util.arrays import is_concrete, is_traced
from ..solution import AdaptiveDensePath
from .equation import ExtendedEquation
from .march import (
    NEGATIVE_DELAY,
    NO_ROOM,
    REACHED_END,
    STEP_TOO_SHORT,
    TOO_MANY_TRIES,
    MarchResult,
    make_march,
)
from .methods import AbstractAdaptive
from .reverse import solve_with_vjp

# The number of rows of a first path, by what factor it grows, that of a path in a
# compiled program, and of the largest path; and the number of tries for each row.
FEW_ROWS, GROWTH, _ROWS_WHEN_TRACED, _MOST_ROWS, _TRIES = 1024, 8, 4096, 1 << 17, 8


def solve_adaptive(
    problem: Problem,
    T: float,
    solver: AbstractAdaptive,
    differentiate: str,
    max_steps: int | None = None,
    max_step: float = math.inf,
) -> AdaptiveDensePath:
    """Solve up to the time `T`, or raise an error that says where the solution ends and
    why. Inside of a compiled program a missing solution is NaN."""
    capacity = max_steps or (_ROWS_WHEN_TRACED if is_traced(problem) else FEW_ROWS)
    while True:
        result = march_compiled(problem, T, solver, differentiate, capacity, max_step)
        if not is_concrete(result.status):
            return _or_nan(problem, result)
        lacks_room = int(result.status) in (NO_ROOM, TOO_MANY_TRIES)
        if not lacks_room or max_steps is not None or capacity >= _MOST_ROWS:
            break
        capacity *= GROWTH
    if int(result.status) != REACHED_END:
        raise ValueError(explain(problem, T, solver, result))
    return as_path(problem, result)


def try_adaptive(
    problem: Problem,
    T: float,
    solver: AbstractAdaptive,
    differentiate: str,
    rows: int,
    max_step: float = math.inf,
) -> AdaptiveDensePath | None:
    """Return the solution, or None if it needs more than `rows` steps or ends
    before T."""
    result = march_compiled(problem, T, solver, differentiate, rows, max_step)
    return as_path(problem, result) if int(result.status) == REACHED_END else None


def as_path(problem: Problem, result: MarchResult) -> AdaptiveDensePath:
    dimension = ExtendedEquation(problem).dimension
    return AdaptiveDensePath(result.path, result.count, dimension, problem.dimension)


def adaptive_path(
    problem: Problem,
    T: Any,
    solver: AbstractAdaptive,
    differentiate: str,
    capacity: int,
) -> tuple[AdaptiveDensePath, jax.Array]:
    """Return the solution inside of a compiled program, and whether it had enough rows.
    Where there is no solution, the path and its derivatives are NaN."""
    result = march_compiled(problem, T, solver, differentiate, capacity, math.inf)
    has_room = (result.status != NO_ROOM) & (result.status != TOO_MANY_TRIES)
    return _or_nan(problem, result), has_room


def _or_nan(problem: Problem, result: MarchResult) -> AdaptiveDensePath:
    """Return a solved path, as NaN with its derivatives where there is no solution."""
    path = result.path * jnp.where(result.status == REACHED_END, 1.0, jnp.nan)
    return as_path(problem, result._replace(path=path))


@eqx.filter_jit
def march_compiled(
    problem: Problem,
    T: Any,
    solver: AbstractAdaptive,
    differentiate: str,
    capacity: int,
    max_step: float,
) -> MarchResult:
    march = make_march(ExtendedEquation(problem), solver, T, max_step)
    path = jnp.zeros((capacity, march.row_size))
    if differentiate == "forward":
        return march.run(path, _TRIES * capacity)
    return solve_with_vjp(march, path, _TRIES * capacity)


def explain(
    problem: Problem, T: float, solver: AbstractAdaptive, result: MarchResult
) -> str:
    """Explain why a march did not reach its end, with the time and the value."""
    t, status = float(result.t), int(result.status)
    if status == NEGATIVE_DELAY:
        delays = np.asarray(result.delays)
        name = delay_names(problem.tau)[int(np.argmin(delays))]
        return (
            f"The delay `{name}` becomes negative: it is {delays.min():.4g} just after "
            f"t = {t:.6g}. The equation would need the future there. Change the "
            "formula of the delay or its parameters, or "
            f"{wording.EARLIER_END}."
        )
    x = np.asarray(result.x)[: problem.dimension]
    values = ", ".join(f"{value:.4g}" for value in x)
    if status == STEP_TOO_SHORT:
        return (
            f"The solution cannot be continued beyond t = {t:.10g}, where x is "
            f"{values}: the steps become shorter than rounding errors. Either the "
            "solution grows beyond all bounds there, or the right-hand side or a delay "
            "is not defined, or jumps with the state."
        )
    advice = "" if solver.is_for_stiff else f" Try {wording.solver('Radau')}."
    return (
        f"The solution up to T = {T:g} needs too many steps: after {int(result.tries)} "
        f"of them it is at t = {t:.6g}, where x is {values}.{advice} "
        f"{wording.FEWER_STEPS}"
    )
