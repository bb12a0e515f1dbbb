r"""`Published`: the gradient as the paper prints and codes it, which is wrong for tau.

It exists to reproduce published numbers and to show what they contain. Against
`Adjoint` it differs in two ways:

- the formula: $dL/d\tau$ begins its first integral at $\tau$, not at 0, and so misses
  $\int_0^{\min(\tau,T)} \langle F_y^T \lambda, X_0'(t - \tau) \rangle\, dt$ (and the
  jump term);
- the grids: lambda is solved with Heun's method at $t_m = T - m h$, down to the first
  $t_N \le 0$, and the integrals are trapezium sums over those nodes; the last cell,
  which sticks out below 0, is cut there by linear interpolation.

Where the published code puts a spline through the solver's nodes we use the dense
output; the difference is far below the step error."""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from .._problem.problem import Problem
from .._solve.march import System, dense, march
from .._util.buffers import read, write
from .adjoint import at_end
from .gradients import AbstractGradient
from .losses import AbstractLoss


class _Buffers(NamedTuple):
    path: jax.Array
    pulled: jax.Array  # F_y(t_m)^T lambda(t_m), read n steps later


class _Node(NamedTuple):
    """Everything at one time t_m: F there and its pull-backs."""

    slope: jax.Array
    on_rhs: Problem
    on_x: jax.Array
    on_y: jax.Array
    on_tau: jax.Array


@final
class Published(AbstractGradient):
    """The paper's formula and grids, for `Integral` losses: **wrong for tau**.

    Use it only to reproduce published results; `Adjoint()` is the corrected theorem.
    """

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
        path, last = march(system, params, buffers.path)
        value = loss.path_cost(system, target).value(params, path, last)
        gradient, pulled = _backward(
            system, loss, target, params, path, last, buffers.pulled
        )
        return value, gradient, _Buffers(path, pulled)


def _backward(system: System, loss, target, params: Problem, path, last, pulled):
    """The gradient, and the memory of what was pulled back through the delay."""
    sweep = _Sweep(system, loss, target, params, path, last)

    def body(m, carry):
        (adjoint, before, pulled), total = carry
        here = sweep.node(m, adjoint)
        pulled = write(pulled, m, here.on_y)
        after = sweep.step(m, adjoint, here, pulled)
        total = jax.tree.map(jnp.add, total, sweep.cells(m, here, pulled))
        moving = m < last
        adjoint, before = (
            jnp.where(moving, after, adjoint),
            jnp.where(moving, adjoint, before),
        )
        return (adjoint, before, pulled), total

    start = at_end(system, loss, target, params, sweep.x)
    zeros = jax.tree.map(jnp.zeros_like, (params.rhs, params.history, params.tau))
    carry = (start, start, pulled), zeros
    carry = lax.fori_loop(0, jnp.max(last) + 1, body, carry)
    (adjoint, before, pulled), (g_rhs, g_history, g_tau) = carry

    # lambda(0), on the line through lambda at the last two nodes, t_N <= 0 < t_{N-1}.
    share = sweep.cut / sweep.h
    at_zero = share * adjoint + (1 - share) * before
    on_history = sweep.pull_history(jnp.zeros_like(params.tau), -at_zero)
    g_history = jax.tree.map(jnp.add, g_history, on_history)
    g_observe = jax.tree.map(jnp.zeros_like, params.observe)
    gradient = eqx.tree_at(
        lambda p: (p.rhs, p.history, p.tau, p.observe),
        params,
        (g_rhs, g_history, g_tau, g_observe),
        is_leaf=lambda leaf: leaf is None,
    )
    return gradient, pulled


@final
@dataclass(frozen=True)
class _Sweep:
    """The way back over the nodes t_m = T - m h, and what is the same at all of them.
    The first cell, below t_{N-1}, is cut at zero."""

    system: System
    loss: AbstractLoss
    target: Any
    params: Problem
    path: Any
    last: Any

    @property
    def h(self):
        return self.system.grid.step(self.params.tau)

    @property
    def cut(self):
        """What is left of the last cell, in (0, h]."""
        return self.system.T - (self.last - 1) * self.h

    def node(self, m, cotangent) -> _Node:
        """F at t_m, and the cotangent of it pulled back to what it depends on."""
        params = self.params
        t, now, y = self._at(m)
        slope, back = jax.vjp(
            lambda rhs, x, y, tau: self.system.slope(rhs, x, y, tau, t),
            params.rhs,
            now,
            y,
            params.tau,
        )
        return _Node(slope, *back(cotangent))

    def step(self, m, adjoint, here: _Node, pulled):
        """lambda at t_{m+1}, by Heun's method."""
        h = self.h
        k1 = self._costs(m) - here.on_x - self._later(pulled, m)
        ahead = self.node(m + 1, adjoint - h * k1).on_x
        k2 = self._costs(m + 1) - ahead - self._later(pulled, m + 1)
        return adjoint - 0.5 * h * (k1 + k2)

    def cells(self, m, here: _Node, pulled):
        """What t_m adds to the integrals for theta, phi and tau, by the trapezium
        rule."""
        n, steps = self.system.grid.n, self.last
        above, below = self._weights(m)
        all_cells = above + below
        shifted = read(pulled, jnp.maximum(m - n, 0))
        delayed_cells = jnp.where(m > n, above, 0.0) + jnp.where(m >= n, below, 0.0)
        first_cells = jnp.where(steps - m < n, above, 0.0)
        first_cells += jnp.where(steps - m - 1 < n, below, 0.0)
        before = self.system.T - m * self.h - self.params.tau
        on_history = self.pull_history(before, -first_cells * here.on_y)
        on_rhs = jax.tree.map(lambda g: -all_cells * g, here.on_rhs)
        on_tau = delayed_cells * jnp.sum(shifted * here.slope, axis=0)
        on_tau -= all_cells * here.on_tau
        return on_rhs, on_history, on_tau

    def pull_history(self, t, cotangent):
        """The cotangent of the history at time t, pulled back to phi."""
        history = self.params.history
        _, back = jax.vjp(lambda history: self.system.history(history, t), history)
        return back(cotangent)[0]

    def x(self, t):
        return dense(self.system.grid, self.path, self.h, self.last, t)

    def _at(self, m):
        """The time t_m, the state and the delayed state there."""
        params, t = self.params, self.system.T - m * self.h
        past = self.system.history(params.history, t - params.tau)
        seen = self.last - m >= self.system.grid.n
        return t, self.x(t), jnp.where(seen, self.x(t - params.tau), past)

    def _costs(self, m):
        """The derivative of the running cost at t_m."""
        running = self.loss.running_cost(self.system, self.target)
        assert running is not None
        t, now, _ = self._at(m)
        found, back = jax.vjp(lambda x: running(self.params.observe, x, t), now)
        return back(jnp.ones_like(found))[0]

    def _later(self, pulled, m):
        """F_y(t + tau)^T lambda(t + tau) at t_m, where t_m + tau is before T."""
        n = self.system.grid.n
        return jnp.where(m > n, read(pulled, jnp.maximum(m - n, 0)), 0.0)

    def _weights(self, m):
        """The trapezium weights of t_m for the cell above it and for the one below."""
        h, cut, steps = self.h, self.cut, self.last
        above = jnp.where(m == steps, 0.5 * cut * cut / h, 0.5 * h)
        below = jnp.where(m + 1 == steps, cut * (1 - 0.5 * cut / h), 0.5 * h)
        return (
            jnp.where((m >= 1) & (m <= steps), above, 0.0),
            jnp.where(m < steps, below, 0.0),
        )
