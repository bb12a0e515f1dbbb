"""The solution of a problem, as a function of time."""

import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._adaptive.methods import AbstractAdaptive
from .._problem.problem import Problem
from .._util.arrays import is_concrete
from .._util.errors import check_instance
from .dense_path import AbstractDensePath
from .runge_kutta import AbstractSolver


def check_problem(problem: Any) -> None:
    """Raise an error unless `problem` is a `Problem`."""
    check_instance("problem", problem, Problem, "Problem(rhs, history, tau)")


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
    length and repeat their last entry. `solver` is the solver that was used.

    All times are those of the data. `time_zero` is the time at which the history ends,
    zero except in a fit that takes the beginning of its data as the past; T is counted
    from it."""

    problem: Problem
    T: jax.Array
    path: AbstractDensePath
    solver: AbstractSolver | AbstractAdaptive = eqx.field(static=True)
    time_zero: float = eqx.field(static=True, default=0.0)

    @property
    def t(self) -> jax.Array:
        """The nodes before T, and T itself."""
        return self.time_zero + _nodes(self)[0][: self.path.node_count()]

    @property
    def x(self) -> jax.Array:
        """The states at the nodes, of shape (len(t), d)."""
        return _nodes(self)[1][: self.path.node_count()]

    def __call__(self, t: Any) -> jax.Array:
        """The state at the time `t`, of shape (d,) for a number and (len(t), d) for a
        vector: on [0, T] by the polynomials between the nodes, before 0 by the
        history."""
        t = jnp.asarray(t, jnp.result_type(float))
        if t.ndim > 1:
            raise ValueError(
                f"`t` must be a number or a vector; its shape is {t.shape}."
            )
        t = t - self.time_zero
        if is_concrete(self.T) and is_concrete(t.sum()):
            latest = float(np.max(np.asarray(t), initial=-np.inf))
            if not latest <= float(self.T) * (1 + 1e-9):
                raise ValueError(
                    f"The solution ends at T = {self.time_zero + float(self.T):g}, "
                    f"but `t` has {self.time_zero + latest:g}. Solve with a larger `T`."
                )
        return _evaluate(self, t)


@eqx.filter_jit
def _nodes(solution: Solution) -> tuple[jax.Array, jax.Array]:
    """The times of the nodes and the states there, with T for the last node."""
    return solution.path.nodes(solution.T)


@eqx.filter_jit
def _evaluate(solution: Solution, t: jax.Array) -> jax.Array:
    def one(t):
        # Each branch gets a time on its own side of zero: the branch that is not taken
        # could otherwise put NaN into gradients.
        before = solution.problem.history(jnp.where(t < 0, t, 0.0))
        inside = solution.path(jnp.where(t < 0, 0.0, t))
        x = jnp.where(t < 0, before, inside)
        return jnp.where(t <= solution.T * (1 + 1e-9), x, jnp.nan)

    return one(t) if t.ndim == 0 else jax.vmap(one)(t)
