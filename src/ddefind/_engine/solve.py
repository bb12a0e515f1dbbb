"""`solve`: the solution of a problem, as a function of time that JAX differentiates."""

import math
from typing import Any, Literal

import jax.numpy as jnp

from .._problem.doses import check_dose_times
from .._problem.driving import check_inputs_known
from .._problem.general_delays import is_general
from .._problem.problem import Problem
from .._problem.without_doses import without_doses
from .._util.arrays import is_traced
from .choose import (
    AUTO,
    check_any_solver,
    choose_adaptive,
    default_solver,
    engine_for,
    is_accurate,
)
from .mesh.mesh import StepsError
from .runge_kutta import AbstractIntegrator
from .solution import DosedDensePath, Solution, check_problem, check_steps, check_time


def solve(
    problem: Problem,
    T: float,
    solver: AbstractIntegrator | Literal["auto"] = AUTO,
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
    how = n, max_step, differentiate, max_steps
    if solver == AUTO:
        return _solve_auto(problem, T, *how)
    return _solved(problem, T, default_solver(problem, solver), *how)


def _solve_auto(
    problem: Problem,
    T: float,
    n: int,
    max_step: float | None,
    differentiate: str,
    max_steps: int | None,
) -> Solution:
    """Solve a problem, with known values, by the solver that fits it."""
    longest = max_step or math.inf
    if is_general(problem.tau):
        return choose_adaptive(problem, T, differentiate, longest)
    solver = default_solver(problem, AUTO)
    try:
        fixed = _solved(problem, T, solver, n, max_step, differentiate, max_steps)
    except StepsError:
        return choose_adaptive(problem, T, differentiate, longest)
    if is_accurate(fixed):
        return fixed
    otherwise = fixed if bool(jnp.all(jnp.isfinite(fixed.x))) else None
    return choose_adaptive(problem, T, differentiate, longest, otherwise)


def _solved(
    problem: Problem,
    T: float,
    solver: AbstractIntegrator,
    n: int,
    max_step: float | None,
    differentiate: str,
    max_steps: int | None,
) -> Solution:
    """Solve by the engine for a solver."""
    engine = engine_for(problem, solver, T, max_step)
    path = engine.solve(problem, T, n, differentiate, max_steps)
    return Solution(problem, jnp.asarray(T), path, solver)
