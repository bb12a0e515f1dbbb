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

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ._engine import System, locate, march
from ._gradient import AbstractGradient
from ._hermite import hermite
from ._problem import Problem
from ._rows import read, take, write


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
        value = loss.forcing(system, target).value(params, path, last)
        gradient, pulled = _backward(
            system, loss, target, params, path, last, buffers.pulled
        )
        return value, gradient, _Buffers(path, pulled)


def _backward(system: System, loss, target, params: Problem, path, last, pulled):
    grid, tau, T = system.grid, params.tau, system.T
    n, h, steps = grid.n, grid.step(params.tau), last
    running = loss.running_cost(system, target)
    terminal = loss.terminal_cost(system, target)
    cut = T - (steps - 1) * h  # what is left of the last cell, in (0, h]

    def x(t):
        node, row = locate(grid, t, h, last)
        return hermite(t / h - node, take(path, row), take(path, row + 1), h)

    def at(m):
        """The time t_m, the state and the delayed state there."""
        t = T - m * h
        past = system.history(params.history, t - tau)
        return t, x(t), jnp.where(steps - m >= n, x(t - tau), past)

    def costs(m):
        t, now, _ = at(m)
        found, back = jax.vjp(lambda x: running(params.observe, x, t), now)
        return back(jnp.ones_like(found))[0]

    def node(m, cotangent) -> _Node:
        t, now, y = at(m)
        slope, back = jax.vjp(
            lambda rhs, x, y, tau: system.slope(rhs, x, y, tau, t),
            params.rhs,
            now,
            y,
            tau,
        )
        return _Node(slope, *back(cotangent))

    def later(pulled, m):
        """F_y(t + tau)^T lambda(t + tau) at t_m, where t_m + tau is before T."""
        return jnp.where(m > n, read(pulled, jnp.maximum(m - n, 0)), 0.0)

    def weights(m):
        """The trapezium weights of t_m for the cell above it and for the one below."""
        ends = m == steps
        above = jnp.where(ends, 0.5 * cut * cut / h, 0.5 * h)
        below = jnp.where(m + 1 == steps, cut * (1 - 0.5 * cut / h), 0.5 * h)
        return (
            jnp.where((m >= 1) & (m <= steps), above, 0.0),
            jnp.where(m < steps, below, 0.0),
        )

    def body(m, carry):
        (adjoint, before, pulled), total = carry
        here = node(m, adjoint)
        pulled = write(pulled, m, here.on_y)
        k1 = costs(m) - here.on_x - later(pulled, m)
        ahead = node(m + 1, adjoint - h * k1).on_x
        k2 = costs(m + 1) - ahead - later(pulled, m + 1)
        after = adjoint - 0.5 * h * (k1 + k2)

        above, below = weights(m)
        all_cells = above + below
        shifted = read(pulled, jnp.maximum(m - n, 0))
        delayed_cells = jnp.where(m > n, above, 0.0) + jnp.where(m >= n, below, 0.0)
        first_cells = jnp.where(steps - m < n, above, 0.0)
        first_cells += jnp.where(steps - m - 1 < n, below, 0.0)
        _, back = jax.vjp(
            lambda history: system.history(history, T - m * h - tau), params.history
        )
        (on_history,) = back(-first_cells * here.on_y)
        on_rhs = jax.tree.map(lambda g: -all_cells * g, here.on_rhs)
        on_tau = delayed_cells * jnp.sum(shifted * here.slope, axis=0)
        on_tau -= all_cells * here.on_tau
        total = jax.tree.map(jnp.add, total, (on_rhs, on_history, on_tau))
        moving = m < steps
        adjoint, before = (
            jnp.where(moving, after, adjoint),
            jnp.where(moving, adjoint, before),
        )
        return (adjoint, before, pulled), total

    start = jnp.zeros_like(path[0, 0])
    if terminal is not None:
        end = x(jnp.broadcast_to(T, tau.shape))
        found, back = jax.vjp(lambda x: terminal(params.observe, x), end)
        start = start - back(jnp.ones_like(found))[0]
    zeros = jax.tree.map(jnp.zeros_like, (params.rhs, params.history, tau))
    carry = (start, start, pulled), zeros
    carry = lax.fori_loop(0, jnp.max(steps) + 1, body, carry)
    (adjoint, before, pulled), (g_rhs, g_history, g_tau) = carry

    # lambda(0), on the line through lambda at the last two nodes, t_N <= 0 < t_{N-1}.
    share = cut / h
    at_zero = share * adjoint + (1 - share) * before
    _, back = jax.vjp(
        lambda history: system.history(history, jnp.zeros_like(tau)), params.history
    )
    g_history = jax.tree.map(jnp.add, g_history, back(-at_zero)[0])
    g_observe = jax.tree.map(jnp.zeros_like, params.observe)
    gradient = eqx.tree_at(
        lambda p: (p.rhs, p.history, p.tau, p.observe),
        params,
        (g_rhs, g_history, g_tau, g_observe),
        is_leaf=lambda leaf: leaf is None,
    )
    return gradient, pulled
