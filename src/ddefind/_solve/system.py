"""The system that is solved: the functions of a problem, a solver, a grid and an end.

A problem is split into `params`, which holds the arrays that are differentiated, and
`fixed`, which holds everything else. A `System` knows the fixed part and takes the
other as an argument.

All functions are written for one trajectory. Where many trajectories are solved side by
side, in *lanes*, each array has one further axis at its end, and h, tau and t are
vectors over it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from .._problem.problem import Problem
from .grid import Grid


class Buffers(NamedTuple):
    """Memory for one solution and its gradient, used again in every iteration of a fit.
    Nothing is read from it that was not written in the same iteration.

    - `path`, [delay_rows + capacity, 2, d]: states and slopes of the forward march.
    - `stages`, [capacity, fractions, d]: the cotangents of the delayed states inside
      each step, one for each fraction of the solver.
    - `starts`, [capacity, d]: the cotangent of the delayed state at the beginning of
      each step.
    """

    path: jax.Array
    stages: jax.Array
    starts: jax.Array


@final
@dataclass(frozen=True)
class System:
    """The functions of a problem, with its solver, its grid and the end `T` of time.
    The grid is a `Grid`, aligned with one delay, or a `Mesh`, or says what an adaptive
    solver needs to know.

    `fixed` is the part of the problem that is not differentiated, `dimension` the
    number d of components of the state, and `lanes` the number of trajectories that are
    solved side by side, or None for a single one without the axis for them.
    """

    fixed: Problem
    solver: Any
    grid: Any
    T: Any
    dimension: int
    lanes: int | None = None

    @property
    def state_shape(self) -> tuple[int, ...]:
        """The shape of a state: (d,), or (d, lanes)."""
        return (self.dimension,) + (() if self.lanes is None else (self.lanes,))

    def lift(self, function: Callable) -> Callable:
        """A `function` of one trajectory, applied to every lane."""
        if self.lanes is None:
            return function
        return jax.vmap(function, in_axes=-1, out_axes=-1)

    def slope(
        self, rhs: Any, x: jax.Array, y: jax.Array, tau: jax.Array, t: Any
    ) -> jax.Array:
        """The right-hand side F(x, y, tau, t), where y = x(t - tau)."""

        def one(rhs, x, y, tau, t):
            return eqx.combine(rhs, self.fixed.rhs)(x, y, tau, t)

        return self.lift(one)(rhs, x, y, tau, t)

    def history(self, history: Any, t: Any) -> jax.Array:
        """The history X0(t)."""

        def one(history, t):
            return eqx.combine(history, self.fixed.history)(t)

        return self.lift(one)(history, t)

    def observe(self, observe: Any, x: jax.Array, t: Any) -> jax.Array:
        """What is measured of the state `x` at the time `t`."""

        def one(observe, x, t):
            function = eqx.combine(observe, self.fixed.observe)
            return x if function is None else function(x, t)

        return self.lift(one)(observe, x, t)

    def start(self, params: Problem) -> jax.Array:
        """The state x(0): the history at 0, or `initial` where the problem has one."""
        if callable(self.fixed.initial):
            return self.lift(lambda one: eqx.combine(one, self.fixed).start)(params)
        lanes = self.state_shape[1:]
        if params.initial is not None:
            return params.initial
        if self.fixed.initial is None:
            return self.history(params.history, jnp.zeros(lanes))
        columns = self.fixed.initial.reshape(-1, *(1,) * len(lanes))
        return jnp.broadcast_to(columns, (self.dimension, *lanes))

    def path(self, grid: Grid | None = None) -> jax.Array:
        """Memory for a path, [delay_rows + capacity, 2, d], of this grid or another."""
        chosen = self.grid if grid is None else grid
        rows = chosen.delay_rows + chosen.capacity
        return jnp.zeros((rows, 2, *self.state_shape), jnp.result_type(float))

    def buffers(self) -> Buffers:
        """Memory for a path and for the cotangents of its delayed states."""
        rows, dtype = self.grid.capacity, jnp.result_type(float)
        fractions = len(self.solver.fractions)
        return Buffers(
            self.path(),
            jnp.zeros((rows, fractions, *self.state_shape), dtype),
            jnp.zeros((rows, *self.state_shape), dtype),
        )
