r"""`Published`: the gradient as in the paper and its code, which is wrong for tau.

It serves to reproduce the published numbers, and to show what they contain. It differs
from `Adjoint` in two ways:

- the formula: $dL/d\tau$ begins its first integral at $\tau$, not at 0, and so misses
  $\int_0^{\min(\tau,T)} \langle F_y^T \lambda, X_0'(t - \tau) \rangle\, dt$ (and the
  jump term);
- the grids: lambda is solved with Heun's method at the nodes $t_m = T - m h$, down to
  the first $t_N \le 0$, and the integrals are trapezium sums over them. The last cell
  reaches below 0, where it is cut by linear interpolation.

The published code puts a spline through the solver's nodes. Here the dense output is
used; the difference is far below the step error."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from .._problem.problem import Problem
from .._solve.march import solve_path
from .._solve.path import DenseOutput
from .._solve.system import System
from .._util.buffers import read, write
from .adjoint import at_end, running_gradient
from .gradients import AbstractGradient
from .losses import AbstractLoss, Target


class _Buffers(NamedTuple):
    """Memory for the path, and for F_y(t_m)^T lambda(t_m), which is read n steps
    later."""

    path: jax.Array
    on_delayed: jax.Array


class _Node(NamedTuple):
    """F at one node t_m, and the VJP of F for lambda there, argument by argument."""

    slope: jax.Array
    on_rhs: Problem
    on_x: jax.Array
    on_y: jax.Array
    on_tau: jax.Array


@final
class Published(AbstractGradient):
    """The paper's formula and grids, for `Integral` losses: **wrong for tau**.

    Use it only to reproduce published results; `Adjoint()` is the corrected theorem,
    also for several delays.
    """

    is_formula: ClassVar[bool] = True

    def buffers(self, system: System) -> _Buffers:
        path = system.path()
        return _Buffers(path, path[:, 0])

    def __call__(self, system, loss, target, params, buffers):
        if loss.running_cost(system, target) is None:
            raise ValueError(
                "`Published()` is defined for an `Integral` loss only. Use `Adjoint()` "
                "or `Discrete()` for a sum of squares."
            )
        if system.grid.jump:
            raise ValueError(
                "`Published()` knows no `initial` beside the history; use `Adjoint()`."
            )
        path, last = solve_path(system, params, buffers.path)
        value = loss.path_cost(system, target).value(params, path, last)
        gradient, on_delayed = _backward(
            system, loss, target, params, path, last, buffers.on_delayed
        )
        return value, gradient, _Buffers(path, on_delayed)


def _backward(
    system: System,
    loss: AbstractLoss,
    target: Target,
    params: Problem,
    path: jax.Array,
    last: Any,
    on_delayed: jax.Array,
) -> tuple[Problem, jax.Array]:
    """The gradient, and the used memory `on_delayed`."""
    sweep = _Sweep(system, loss, target, params, path, last)

    def body(m, carry):
        (adjoint, before, on_delayed), total = carry
        here = sweep.node(m, adjoint)
        on_delayed = write(on_delayed, m, here.on_y)
        after = sweep.step(m, adjoint, here, on_delayed)
        total = jax.tree.map(jnp.add, total, sweep.cells(m, here, on_delayed))
        moving = m < last
        adjoint, before = (
            jnp.where(moving, after, adjoint),
            jnp.where(moving, adjoint, before),
        )
        return (adjoint, before, on_delayed), total

    start = at_end(system, loss, target, params, sweep.x)
    zeros = jax.tree.map(jnp.zeros_like, (params.rhs, params.history, params.tau))
    carry = (start, start, on_delayed), zeros
    carry = lax.fori_loop(0, jnp.max(last) + 1, body, carry)
    (adjoint, before, on_delayed), (g_rhs, g_history, g_tau) = carry

    # lambda(0), on the line through lambda at the last two nodes, t_N <= 0 < t_{N-1}.
    weight = sweep.cut / sweep.h
    at_zero = weight * adjoint + (1 - weight) * before
    on_history = sweep.history_vjp(jnp.zeros_like(params.tau), -at_zero)
    g_history = jax.tree.map(jnp.add, g_history, on_history)
    g_observe = jax.tree.map(jnp.zeros_like, params.observe)
    gradient = eqx.tree_at(
        lambda p: (p.rhs, p.history, p.tau, p.observe),
        params,
        (g_rhs, g_history, g_tau, g_observe),
        is_leaf=lambda leaf: leaf is None,
    )
    return gradient, on_delayed


@final
@dataclass(frozen=True)
class _Sweep:
    """The adjoint equation and its integrals over the nodes t_m = T - m h, from m = 0
    to N = `last`. The cell below t_{N-1} is cut at zero."""

    system: System
    loss: AbstractLoss
    target: Target
    params: Problem
    path: jax.Array
    last: Any

    @property
    def h(self) -> jax.Array:
        return self.system.grid.step(self.params.tau)

    @property
    def cut(self) -> jax.Array:
        """The length of the part above zero of the cell below t_{N-1}, in (0, h]."""
        return self.system.T - (self.last - 1) * self.h

    def node(self, m, cotangent) -> _Node:
        """F at t_m, and its VJP for a `cotangent`."""
        params = self.params
        t, now, y = self._at(m)
        slope, vjp = jax.vjp(
            lambda rhs, x, y, tau: self.system.slope(rhs, x, y, tau, t),
            params.rhs,
            now,
            y,
            params.tau,
        )
        return _Node(slope, *vjp(cotangent))

    def step(self, m, adjoint, here: _Node, on_delayed) -> jax.Array:
        """lambda at t_{m+1}, by Heun's method."""
        h = self.h
        k1 = self._cost_slope(m) - here.on_x - self._later(on_delayed, m)
        ahead = self.node(m + 1, adjoint - h * k1).on_x
        k2 = self._cost_slope(m + 1) - ahead - self._later(on_delayed, m + 1)
        return adjoint - 0.5 * h * (k1 + k2)

    def cells(self, m, here: _Node, on_delayed):
        """What t_m adds to the integrals for theta, phi and tau, by the trapezium
        rule."""
        n, steps = self.system.grid.n, self.last
        above, below = self._weights(m)
        all_cells = above + below
        shifted = read(on_delayed, jnp.maximum(m - n, 0))
        delayed_cells = jnp.where(m > n, above, 0.0) + jnp.where(m >= n, below, 0.0)
        first_cells = jnp.where(steps - m < n, above, 0.0)
        first_cells += jnp.where(steps - m - 1 < n, below, 0.0)
        before = self.system.T - m * self.h - self.params.tau
        on_history = self.history_vjp(before, -first_cells * here.on_y)
        on_rhs = jax.tree.map(lambda g: -all_cells * g, here.on_rhs)
        on_tau = delayed_cells * jnp.sum(shifted * here.slope, axis=0)
        on_tau -= all_cells * here.on_tau
        return on_rhs, on_history, on_tau

    def history_vjp(self, t, cotangent):
        """The VJP of the history at the time t, for the parameters phi."""
        history = self.params.history
        _, vjp = jax.vjp(lambda history: self.system.history(history, t), history)
        return vjp(cotangent)[0]

    def x(self, t) -> jax.Array:
        """The state at the time t."""
        return DenseOutput(self.system.grid, self.path, self.h, self.last)(t)

    def _at(self, m):
        """The time t_m, the state and the delayed state there."""
        params, t = self.params, self.system.T - m * self.h
        past = self.system.history(params.history, t - params.tau)
        after_tau = self.last - m >= self.system.grid.n
        return t, self.x(t), jnp.where(after_tau, self.x(t - params.tau), past)

    def _cost_slope(self, m) -> jax.Array:
        """The derivative of the running cost at t_m."""
        running = self.loss.running_cost(self.system, self.target)
        assert running is not None
        t, now, _ = self._at(m)
        return running_gradient(running, self.params, now, t)

    def _later(self, on_delayed, m) -> jax.Array:
        """F_y(t + tau)^T lambda(t + tau) at t_m, where t_m + tau is before T."""
        n = self.system.grid.n
        return jnp.where(m > n, read(on_delayed, jnp.maximum(m - n, 0)), 0.0)

    def _weights(self, m):
        """The trapezium weights of t_m for the cell above it and for the one below."""
        h, cut, steps = self.h, self.cut, self.last
        above = jnp.where(m == steps, 0.5 * cut * cut / h, 0.5 * h)
        below = jnp.where(m + 1 == steps, cut * (1 - 0.5 * cut / h), 0.5 * h)
        return (
            jnp.where((m >= 1) & (m <= steps), above, 0.0),
            jnp.where(m < steps, below, 0.0),
        )
