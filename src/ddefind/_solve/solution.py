"""`solve`: a problem's solution, as a function of time."""

import math
from typing import Any, Literal, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._problem.problem import Problem
from .._util.arrays import is_concrete
from .._util.buffers import read
from .._util.errors import check_instance
from .march import Grid, System, dense, march
from .reverse import pull
from .runge_kutta import RK4, AbstractSolver

# Rows that are reserved where the number of steps cannot be known in advance.
_ROWS_WHEN_TRACED = 4096


def make_grid(jump: bool, T: float, n: int, tau: float) -> Grid:
    """A grid with room for the steps of `tau`, and for somewhat shorter delays."""
    grid = Grid(n, jump, 0)
    needed = grid.rows(max(1, math.ceil(T / tau * n - 1e-9))) + 1
    # Powers of two: few different programs, however tau varies.
    capacity = 1 << max(needed, grid.delay_rows + 1, 64).bit_length()
    return Grid(n, grid.jump, capacity)


def check_steps(steps_per_delay: Any) -> int:
    is_integer = isinstance(steps_per_delay, (int, np.integer))
    if not is_integer or isinstance(steps_per_delay, bool) or steps_per_delay < 1:
        raise ValueError(
            f"`steps_per_delay` must be a positive integer, got {steps_per_delay!r}."
        )
    return int(steps_per_delay)


def check_time(T: Any) -> float:
    try:
        value = float(T)
    except (TypeError, ValueError):
        raise TypeError(f"`T` must be a positive number, but got {T!r}.") from None
    if not 0 < value < math.inf:
        raise ValueError(f"`T` must be positive and finite, but got {value}.")
    return value


@final
class Solution(eqx.Module):
    """A solved problem: `solution(t)` is the state at any time up to T.

    `t` holds the solver's nodes before T, and T; `x` the states there. Inside a
    compiled program the number of steps is not known: both then repeat their last
    entry."""

    problem: Problem
    T: jax.Array
    last: jax.Array
    path: jax.Array
    grid: Grid = eqx.field(static=True)

    @property
    def t(self) -> jax.Array:
        """The nodes: multiples of tau / steps_per_delay, and T."""
        return _nodes(self)[0][: self._count()]

    @property
    def x(self) -> jax.Array:
        """The states at the nodes, of shape (len(t), d)."""
        return _nodes(self)[1][: self._count()]

    def _count(self):
        return int(self.grid.node(self.last)) + 1 if is_concrete(self.last) else None

    def __call__(self, t: Any) -> jax.Array:
        """The state at time `t`: (d,) for a number, (len(t), d) for a vector. Cubic
        Hermite pieces on [0, T], and the history itself before 0."""
        t = jnp.asarray(t, jnp.result_type(float))
        if t.ndim > 1:
            raise ValueError(
                f"`t` must be a number or a vector; its shape is {t.shape}."
            )
        if is_concrete(self.T) and is_concrete(t.sum()):
            late = float(np.max(np.asarray(t), initial=-np.inf))
            if not late <= float(self.T) * (1 + 1e-9):
                raise ValueError(
                    f"The solution ends at T = {float(self.T):g}, but `t` has "
                    f"{late:g}. Solve with a larger `T`."
                )
        return _evaluate(self, t)


@eqx.filter_jit
def _nodes(solution: Solution):
    grid, h = solution.grid, solution.grid.step(solution.problem.tau)
    final = grid.node(solution.last)
    node = jnp.minimum(jnp.arange(grid.capacity), final)
    t = jnp.where(node == final, solution.T, node * h)
    inner = solution.path[grid.row(node) + grid.delay_rows, 0]
    end = _dense(solution, solution.T)
    return t, jnp.where((node == final)[:, None], end, inner)


def _dense(solution: Solution, t):
    h = solution.grid.step(solution.problem.tau)
    return dense(solution.grid, solution.path, h, solution.last, t)


@eqx.filter_jit
def _evaluate(solution: Solution, t):
    def one(t):
        # Each branch gets a time of its own side: the other one must not spoil
        # gradients.
        before = solution.problem.history(jnp.where(t < 0, t, 0.0))
        inside = _dense(solution, jnp.where(t < 0, 0.0, t))
        x = jnp.where(t < 0, before, inside)
        return jnp.where(t <= solution.T * (1 + 1e-9), x, jnp.nan)

    return one(t) if t.ndim == 0 else jax.vmap(one)(t)


def solve(
    problem: Problem,
    T: float,
    solver: AbstractSolver = RK4(),
    steps_per_delay: int = 20,
    *,
    differentiate: Literal["reverse", "forward"] = "reverse",
    max_steps: int | None = None,
) -> Solution:
    r"""Solve $x' = F(x, x(t-\tau), \tau, t)$ on $[0, T]$ with steps of tau /
    steps_per_delay.

    The step divides the delay, so that every kink of the solution, at the multiples of
    tau, falls on a node, and each solver keeps its order.

    **Arguments**

    - `differentiate`: solutions can be differentiated by JAX in `"reverse"` mode
      (`jax.grad`) or in `"forward"` mode (`jax.jvp`, `jax.jacfwd`); JAX wants the
      choice in advance.
    - `max_steps`: the steps to make room for where `tau` is traced by `jax.jit` or
      `jax.vmap` (4095 by default); more are an error, never cut off. Elsewhere the room
      follows `tau`.

    >>> import ddefind as dd
    >>> problem = dd.Problem(lambda x, y, tau, t: -y, dd.Constant(1.0), tau=1.0)
    >>> dd.solve(problem, T=2.0)(1.5)  # exactly -0.375
    Array([-0.375], dtype=float64)
    """
    check_instance("problem", problem, Problem, "Problem(rhs, history, tau)")
    check_instance("solver", solver, AbstractSolver, "RK4()")
    n, T = check_steps(steps_per_delay), check_time(T)
    if differentiate not in ("reverse", "forward"):
        raise ValueError(
            f'`differentiate` must be "reverse" or "forward", got {differentiate!r}.'
        )
    if is_concrete(problem.tau):
        grid = make_grid(problem.initial is not None, T, n, float(problem.tau))
    else:
        grid = Grid(n, problem.initial is not None, 0)
        rows = _ROWS_WHEN_TRACED if max_steps is None else grid.rows(max_steps) + 1
        grid = Grid(n, grid.jump, max(rows, grid.delay_rows + 1))
    path, last = _rows(problem, jnp.asarray(T), solver, grid, differentiate)
    if not is_concrete(problem.tau):
        path = eqx.error_if(
            path,
            last >= grid.capacity,
            f"`solve` needs more than {grid.node(grid.capacity - 1)} steps. Give "
            "`max_steps`, at least T / tau * steps_per_delay.",
        )
    return Solution(problem, jnp.asarray(T), last, path, grid)


class _CotangentState(NamedTuple):
    loss: Any
    tau: Any
    observe: Any


@final
class _KnownCotangent(NamedTuple):
    """The derivative of a function of the path whose cotangent is already known."""

    cotangent: jax.Array
    delay_rows: int

    def begin(self, params: Problem, path, last):
        observe = jax.tree.map(jnp.zeros_like, params.observe)
        return _CotangentState(jnp.zeros(()), jnp.zeros(()), observe)

    def visit(self, i, state, params, path, last):
        on_x, on_slope = read(self.cotangent, i + self.delay_rows)
        return state, on_x, on_slope


@eqx.filter_jit
def _rows(problem: Problem, T, solver, grid: Grid, differentiate: str):
    params, fixed = eqx.partition(problem, eqx.is_inexact_array)
    march_ = _march if differentiate == "forward" else _march_reversible
    return march_(params, fixed, solver, grid, T, problem.dimension)


def _march(params, *system):
    system = System(*system)
    return march(system, params, system.path())


# Everything is an argument: a custom derivative must not close over traced values.
_march_reversible = eqx.filter_custom_vjp(_march)


@_march_reversible.def_fwd
def _forward(perturbed, params, *system):
    path, last = _march(params, *system)
    return (path, last), (path, last)


@_march_reversible.def_bwd
def _backward(saved, cotangents, perturbed, params, *system):
    system = System(*system)
    (path, last), (cotangent, _) = saved, cotangents
    if cotangent is None:
        cotangent = jnp.zeros_like(path)
    buffers = system.buffers()._replace(path=path)
    path_cost = _KnownCotangent(cotangent, system.grid.delay_rows)
    return pull(system, params, buffers, last, path_cost)[1]
