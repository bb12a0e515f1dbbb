"""The solution of a problem as a function of time, for every kind of path."""

import abc
import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._problem.doses import Doses
from .._problem.problem import Problem
from .._util.arrays import is_concrete
from .._util.errors import check_instance
from .adaptive.pieces import origins, state_at
from .aligned.path import DenseOutput, Grid, MeshPath
from .runge_kutta import AbstractIntegrator


class AbstractDensePath(eqx.Module):
    """A solved path on [0, T]."""

    @abc.abstractmethod
    def __call__(self, t: jax.Array) -> jax.Array:
        """Return the state at the time `t`."""

    @abc.abstractmethod
    def nodes(self, T: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the times of the nodes and the states there, with T for the last node,
        which is repeated up to a fixed length."""

    @abc.abstractmethod
    def node_count(self) -> int | None:
        """Return the number of nodes, or None inside a compiled program."""


@final
class AlignedDensePath(AbstractDensePath):
    """A path on a grid that is aligned with the one delay `tau`."""

    tau: jax.Array
    last: jax.Array
    path: jax.Array
    grid: Grid = eqx.field(static=True)

    def __call__(self, t):
        return DenseOutput(self.grid, self.path, self.grid.step(self.tau), self.last)(t)

    def nodes(self, T):
        grid, final = self.grid, self.grid.node(self.last)
        node = jnp.minimum(jnp.arange(grid.capacity), final)
        t = jnp.where(node == final, T, node * grid.step(self.tau))
        inner = self.path[grid.row(node) + grid.delay_rows, 0]
        return t, jnp.where((node == final)[:, None], self(T), inner)

    def node_count(self):
        return int(self.grid.node(self.last)) + 1 if is_concrete(self.last) else None


@final
class MeshDensePath(AbstractDensePath):
    """A path on a mesh."""

    path: MeshPath

    def __call__(self, t):
        return self.path(t)

    def nodes(self, T):
        # Nodes with two rows count once. Behind the last node it is repeated.
        times = jnp.minimum(self.path.times, T)
        t = jnp.unique(times, size=times.shape[0], fill_value=T)
        return t, jax.vmap(self)(t)

    def node_count(self):
        if not is_concrete(self.path.last):
            return None
        times = np.asarray(self.path.times)[: int(self.path.last) + 1]
        return len(np.unique(times))


@final
class AdaptiveDensePath(AbstractDensePath):
    """A path of pieces with adaptive steps, of which `count` rows are complete. The
    state is the first `observed` of the `dimension` components of a piece."""

    rows: jax.Array
    count: jax.Array
    dimension: int = eqx.field(static=True)
    observed: int = eqx.field(static=True)

    def __call__(self, t):
        return state_at(self.rows, self.count, t, self.dimension)[: self.observed]

    def nodes(self, T):
        number = jnp.arange(self.rows.shape[0] + 1)
        times = jnp.append(origins(self.rows), T)
        t = jnp.where(number < self.count, times, T)
        return t, jax.vmap(self)(t)

    def node_count(self):
        return int(self.count) + 1 if is_concrete(self.count) else None


@final
class DosedDensePath(AbstractDensePath):
    """The path of a state with doses, from the path of its continuous part."""

    path: AbstractDensePath
    doses: Doses

    def __call__(self, t):
        return self.doses.state(self.path(t), t)

    def nodes(self, T):
        t, z = self.path.nodes(T)
        return t, jax.vmap(self.doses.state)(z, t)

    def node_count(self):
        return self.path.node_count()


# The capacity of a path where tau is traced, so that the number of steps is not known
# when the program is compiled.
ROWS_WHEN_TRACED = 4096


def check_room(path: jax.Array, last: jax.Array, capacity: int, steps: Any):
    """Return the path, with an error if it has no room for more than `steps` steps."""
    if is_concrete(last) and int(last) < capacity:
        return path
    return eqx.error_if(
        path,
        last >= capacity,
        f"`solve` needs more than {steps} steps. Give `max_steps`, at least T / tau * "
        "steps_per_delay, with the shortest delay.",
    )


def check_problem(problem: Any) -> None:
    """Raise an error unless `problem` is a `Problem`."""
    check_instance("problem", problem, Problem, "Problem(rhs, history, tau)")


def check_steps(steps_per_delay: Any) -> int:
    """Return `steps_per_delay` as an integer, or raise an error unless positive."""
    is_integer = isinstance(steps_per_delay, (int, np.integer))
    if not is_integer or isinstance(steps_per_delay, bool) or steps_per_delay < 1:
        raise ValueError(
            f"`steps_per_delay` must be a positive integer, got {steps_per_delay!r}."
        )
    return int(steps_per_delay)


def check_time(T: Any, name: str = "T") -> float:
    """Return `T` as a number, or raise an error unless it is positive and finite."""
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
    solver: AbstractIntegrator = eqx.field(static=True)
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
        """Return the state at the time `t`, of shape (d,) for a number and (len(t), d)
        for a vector: on [0, T] by the polynomials between the nodes, before 0 by the
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
    """Return the times of the nodes and the states there, with T for the last node."""
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


def observed(problem: Problem, solution: Solution, t: Any) -> np.ndarray:
    """Return the observed quantities of a solution at the times `t`, one row per time:
    the states, or what `problem.observe` makes of them."""
    x = solution(t)
    if problem.observe is not None:
        x = jax.vmap(problem.observe)(x, t)
    return np.asarray(x)
