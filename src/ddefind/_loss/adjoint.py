r"""The paper's Theorem 1: corrected (`Adjoint`), and as printed (`Published`).

With the adjoint $\lambda$ of the paper's equation (5),

$\lambda'(t) = \nabla\ell(x(t)) - F_x(t)^T \lambda(t)
    - [t < T - \tau]\, F_y(t + \tau)^T \lambda(t + \tau), \quad
    \lambda(T) = -\nabla G(x(T)),$

the gradients are

$dL/d\theta = -\int_0^T F_\theta(t)^T \lambda(t)\, dt,$

$dL/d\tau = \int_0^T \langle F_y(t)^T \lambda(t), x'(t - \tau) \rangle\, dt
    - \int_0^T \langle F_\tau(t), \lambda(t) \rangle\, dt,$

$dL/d\phi = -X_{0\phi}(0)^T \lambda(0)
    - \int_0^{\min(\tau, T)} X_{0\phi}(t - \tau)^T F_y(t)^T \lambda(t)\, dt.$

The paper begins the first integral of $dL/d\tau$ at $\tau$ instead of 0. It misses that
$x(t - \tau) = X_0(t - \tau)$ depends on $\tau$ there, with the derivative $-X_0'(t -
\tau)$. Where x(0) is not X_0(0), $x(t - \tau)$ jumps at $t = \tau$, which adds $\langle
\lambda(\tau), F(x(\tau), x(0)) - F(x(\tau), X_0(0)) \rangle$ to $dL/d\tau$.

In the reversed time s = T - t the adjoint equation is itself a delay equation: its
delay is tau, its history is zero, and its state jumps at s = 0. The same loop solves it
that solves every problem, and the breaking points of lambda, at T - k tau, are nodes.
Costs at single times (least squares) make lambda jump there. It is therefore split into
lambda = mu + J, where J is a step function and mu is continuous.

All this is for one delay that is a number: for several delays and for switches in time
`Discrete` is exact, and cheaper.

`Published` is the gradient as in the paper and its code, which is wrong for tau. It
serves to reproduce the published numbers, and differs from `Adjoint` in two ways:

- the formula: $dL/d\tau$ begins its first integral at $\tau$, not at 0, and so misses
  $\int_0^{\min(\tau,T)} \langle F_y^T \lambda, X_0'(t - \tau) \rangle\, dt$ (and the
  jump term);
- the grids: lambda is solved with Heun's method at the nodes $t_m = T - m h$, down to
  the first $t_N \le 0$, and the integrals are trapezium sums over them. The last cell
  reaches below 0, where it is cut by linear interpolation.

The published code puts a spline through the solver's nodes. Here the dense output is
used; the difference is far below the step error.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from .._engine.aligned.march import (
    HistoryStates,
    inner_fractions,
    integrate,
    make_path,
    solve_path,
)
from .._engine.aligned.path import DenseOutput, Grid, hermite, hermite_slope
from .._engine.engine import System
from .._problem.problem import Problem
from .._util.arrays import read, take, write
from .gradients import AbstractGradient
from .losses import AbstractLoss, Target
from .path_costs import PointCosts

# A function of time with the shape of a state.
_Curve = Callable[[Any], Any]


class _Paths(NamedTuple):
    """Memory for the path of the state and for that of the adjoint."""

    path: jax.Array
    adjoint: jax.Array


@final
class Adjoint(AbstractGradient):
    """The corrected Theorem 1: solve the adjoint equation backwards, then integrate.

    It converges to the gradient of the continuous loss as the step goes to zero, at
    second order (at first order for `L1`, `Linf` and costs at single times, for which
    lambda is less smooth). It is for one constant delay without switches. The default
    route, `Discrete()`, is the exact gradient of the discrete loss, it is cheaper, and
    it is for every problem.
    """

    is_formula: ClassVar[bool] = True

    def buffers(self, system: System) -> _Paths:
        grids = system.grid, _adjoint_grid(system)
        return _Paths(*(make_path(system, grid) for grid in grids))

    def __call__(self, system, loss, target, params, buffers):
        path, last = solve_path(system, params, buffers.path)
        value = loss.path_cost(system, target).value(params, path, last)
        x = DenseOutput(system.grid, path, system.grid.step(params.tau), last)
        mu, jumps = _solve_adjoint(system, loss, target, params, x, buffers.adjoint)

        def multiplier(t):
            """Compute lambda(t); `mu` is a function of the reversed time."""
            return mu(system.T - t) + jumps(t)

        # A cost at time zero belongs to lambda(0).
        zero = jnp.zeros_like(params.tau)
        at_zero = mu(system.T - zero) + jumps(zero - system.T)
        gradient = _gradients(system, loss, target, params, x, multiplier, at_zero)
        if system.grid.jump:
            more = _jump_at_tau(system, params, x, mu, jumps)
            gradient = eqx.tree_at(lambda p: p.tau, gradient, gradient.tau + more)
        return value, gradient, _Paths(path, mu.path)


def _adjoint_grid(system: System) -> Grid:
    """Return the grid of lambda in the reversed time, with the jump at s = 0."""
    grid = system.grid
    return Grid(grid.n, True, grid.capacity + grid.capacity // grid.n + 2)


def _jumps(
    system: System, loss: AbstractLoss, target: Target, params: Problem, x: _Curve
) -> _Curve:
    """Return the step function J(t): minus the sum of the gradients of all costs at
    single times from t on."""
    impulses = loss.impulses(system, target)
    if impulses is None:
        return lambda t: 0.0
    times = _lane_times(impulses, params)
    _, on_states = impulses.derivatives(params, jax.vmap(x)(times))
    from_time = -jnp.cumsum(on_states[::-1], axis=0)[::-1]
    from_time = jnp.concatenate([from_time, jnp.zeros_like(from_time[:1])])

    def jumps(t):
        # At a jump, up to rounding, the mean of both sides, as quadratures need it.
        near = 1e-9 * system.T
        sides = [take(from_time, jnp.sum(times < t + e, axis=0)) for e in (-near, near)]
        return 0.5 * (sides[0] + sides[1])

    return jumps


def _lane_times(impulses: PointCosts, params: Problem) -> jax.Array:
    """Return the single times of the costs, [M], or [M, lanes]."""
    times = jnp.asarray(impulses.points.times)
    if times.ndim == params.tau.ndim:
        times = jnp.expand_dims(times, tuple(range(1, params.tau.ndim + 1)))
    return jnp.broadcast_to(times, (times.shape[0], *params.tau.shape))


def at_end(
    system: System, loss: AbstractLoss, target: Target, params: Problem, x: _Curve
) -> jax.Array:
    """Return lambda(T), minus the gradient of the terminal cost; `x` is the
    trajectory."""
    end = x(jnp.broadcast_to(system.T, params.tau.shape))
    terminal = loss.terminal_cost(system, target)
    if terminal is None:
        return jnp.zeros_like(end)
    cost, vjp = jax.vjp(lambda x: terminal(params.observe, x), end)
    return -vjp(jnp.ones_like(cost))[0]


def _solve_adjoint(
    system: System,
    loss: AbstractLoss,
    target: Target,
    params: Problem,
    x: DenseOutput,
    path: jax.Array,
) -> tuple[DenseOutput, _Curve]:
    """Return mu = lambda - J as a function of s = T - t, and J as a function of t."""
    grid, tau, T = _adjoint_grid(system), params.tau, system.T
    running = loss.running_cost(system, target)
    jumps = _jumps(system, loss, target, params, x)
    h = grid.step(tau)

    def delayed(t, after_tau):
        """Return x(t - tau): from the path after time tau, before it from the
        history."""
        past = system.history(params.history, jnp.minimum(t - tau, 0.0))
        return jnp.where(after_tau, x(jnp.maximum(t - tau, 0.0)), past)

    def vjp_x(t, cotangent, after_tau):
        """Return F_x(t)^T cotangent."""
        y = delayed(t, after_tau)
        _, vjp = jax.vjp(lambda x: system.slope(params.rhs, x, y, tau, t), x(t))
        return vjp(cotangent)[0]

    def vjp_y(t, y, cotangent):
        """Return F_y(t)^T cotangent."""
        now = x(t)
        _, vjp = jax.vjp(lambda y: system.slope(params.rhs, now, y, tau, t), y)
        return vjp(cotangent)[0]

    # The position of t = tau. Where it is a node up to rounding, all comparisons with
    # it must agree on the side.
    crossing = (T - tau) / h + 1e-9

    def slope(position, mu, mu_later):
        """Return d mu / ds, the adjoint equation; `mu_later` is mu at the time t + tau,
        and zero beyond T."""
        s = position * h
        t = jnp.maximum(T - s, 0.0)
        later = jnp.minimum(t + tau, T)
        total = vjp_x(t, mu + jumps(t), s / h <= crossing)
        jumps_later = jnp.where(s >= tau, jumps(later), 0.0)
        total += vjp_y(later, x(t), mu_later + jumps_later)
        if running is not None:
            total -= running_gradient(running, params, x(t), t)
        return total

    def correct(i, mu):
        """Return the correction of the step that contains t = tau. If x(0) differs from
        X0(0), F_x jumps there. The exact share of the step after tau is u; the solver's
        stages, with their weights, count the share `counted`. The result is the
        difference times the jump."""
        u = crossing - grid.node(i)
        counted = system.solver.step(
            lambda c, _: jnp.where(c <= u, 1.0, 0.0),
            jnp.zeros_like(u),
            jnp.ones_like(u),
            jnp.ones_like(u),
        )
        t = jnp.minimum(tau, T)
        now = mu + jumps(t)
        jump = vjp_x(t, now, True) - vjp_x(t, now, False)
        inside = (u >= 0) & (u < 1) & (tau < T)
        return jnp.where(inside, grid.length(i, h) * (u - counted), 0.0) * jump

    start = at_end(system, loss, target, params, x)
    zeros = jnp.zeros((grid.delay_rows, *start.shape), start.dtype)
    inside = {c: zeros[: grid.n] for c in inner_fractions(system.solver)}
    history = HistoryStates(zeros, inside)
    last = grid.last(T, tau)
    extra = correct if system.grid.jump else None
    path = integrate(grid, system.solver, slope, h, history, start, last, path, extra)
    return DenseOutput(grid, path, h, last), jumps


def running_gradient(
    running: Callable, params: Problem, x: jax.Array, t: Any
) -> jax.Array:
    """Return the gradient of the running cost for the state."""
    cost, vjp = jax.vjp(lambda x: running(params.observe, x, t), x)
    return vjp(jnp.ones_like(cost))[0]


def _gradients(
    system: System,
    loss: AbstractLoss,
    target: Target,
    params: Problem,
    x: DenseOutput,
    multiplier: _Curve,
    at_zero: jax.Array,
) -> Problem:
    """Return the integrals of the theorem, by the midpoint rule between neighbouring
    nodes, and the share of x(0), with lambda(0) = `at_zero`.

    x'(t - tau) may jump at t = tau, which is a node: no midpoint meets the jump, and no
    cell contains it."""
    grid, tau, T = system.grid, params.tau, system.T
    h, path = x.step_size, x.path
    running = loss.running_cost(system, target)

    def piece(node, u):
        """Return the state and slope at the fraction `u` of the step after a node."""
        place = grid.row(node) + grid.delay_rows
        left, right = read(path, place), read(path, place + 1)
        return hermite(u, left, right, h), hermite_slope(u, left, right, h)

    def cell(k, total):
        begin, end = k * h, jnp.minimum((k + 1) * h, T)
        width = jnp.maximum(end - begin, 0.0)
        t = begin + 0.5 * width
        now = piece(k, 0.5 * width / h)[0]
        early = k < grid.n
        past, past_slope = jax.jvp(
            lambda t: system.history(params.history, t), (t - tau,), (jnp.ones_like(t),)
        )
        y, y_slope = piece(jnp.maximum(k - grid.n, 0), 0.5 * width / h)
        y, y_slope = jnp.where(early, past, y), jnp.where(early, past_slope, y_slope)
        _, vjp = jax.vjp(
            lambda rhs, y, tau: system.slope(rhs, now, y, tau, t), params.rhs, y, tau
        )
        g_rhs, g_y, g_tau = vjp(width * multiplier(t))
        _, vjp = jax.vjp(
            lambda history: system.history(history, t - tau), params.history
        )
        (g_history,) = vjp(jnp.where(early, g_y, 0.0))
        g_tau = jnp.sum(g_y * y_slope, axis=0) - g_tau
        g_observe = jax.tree.map(jnp.zeros_like, params.observe)
        if (integrand := running) is not None:
            _, vjp = jax.vjp(lambda o: integrand(o, now, t), params.observe)
            (g_observe,) = vjp(width)
        minus = jax.tree.map(jnp.negative, (g_rhs, g_history))
        return jax.tree.map(jnp.add, total, (*minus, g_tau, g_observe))

    zeros = jax.tree.map(
        jnp.zeros_like, (params.rhs, params.history, tau, params.observe)
    )
    cells = jnp.max(grid.node(x.last))
    g_rhs, g_history, g_tau, g_observe = lax.fori_loop(0, cells, cell, zeros)
    g_observe = _add_single_times(system, loss, target, params, x, g_observe)
    g_initial = jax.tree.map(jnp.zeros_like, params.initial)
    gradient = eqx.tree_at(
        lambda p: (p.rhs, p.history, p.tau, p.initial, p.observe),
        params,
        (g_rhs, g_history, g_tau, g_initial, g_observe),
        is_leaf=lambda leaf: leaf is None,
    )
    # The state x(0) contributes - x(0)_phi^T lambda(0).
    _, vjp = jax.vjp(system.start, params)
    (by_start,) = vjp(-at_zero)
    return jax.tree.map(jnp.add, gradient, by_start)


def _jump_at_tau(
    system: System, params: Problem, x: DenseOutput, mu: DenseOutput, jumps: _Curve
) -> jax.Array:
    """Return < lambda(tau), F(x(tau), x(0)) - F(x(tau), X0(0)) >, from the slopes of x
    on both sides of tau.

    The slope of lambda jumps at tau, inside a step of its own path. Its value there is
    extrapolated from the last node before, on the side of T, along the slope."""
    grid = system.grid
    row = grid.n + grid.delay_rows
    before, after = x.path[row, 1], x.path[row + 1, 1]
    t = jnp.minimum(params.tau, system.T)
    node, place = mu.locate(system.T - t)
    state, slope = take(mu.path, place)
    at_tau = state + (system.T - t - node * mu.step_size) * slope + jumps(t)
    jump = jnp.sum(at_tau * (after - before), axis=0)
    return jnp.where(params.tau < system.T, jump, 0.0)


def _add_single_times(
    system: System,
    loss: AbstractLoss,
    target: Target,
    params: Problem,
    x: _Curve,
    g_observe: Any,
) -> Any:
    """Return the gradient for the parameters of `observe`, with those of the terminal
    cost and of the costs at single times added."""
    terminal = loss.terminal_cost(system, target)
    if terminal is not None:
        end = x(jnp.broadcast_to(system.T, params.tau.shape))
        cost, vjp = jax.vjp(lambda o: terminal(o, end), params.observe)
        (more,) = vjp(jnp.ones_like(cost))
        g_observe = jax.tree.map(jnp.add, g_observe, more)
    impulses = loss.impulses(system, target)
    if impulses is not None:
        states = jax.vmap(x)(_lane_times(impulses, params))
        more, _ = impulses.derivatives(params, states)
        g_observe = jax.tree.map(jnp.add, g_observe, more)
    return g_observe


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
        path = make_path(system, system.grid)
        return _Buffers(path, path[:, 0])

    def __call__(self, system, loss, target, params, buffers):
        if loss.running_cost(system, target) is None:
            raise ValueError(
                "`Published()` is defined for an `Integral` loss only. Use `Adjoint()` "
                "or `Discrete()` for a sum of squares."
            )
        if system.grid.jump:
            raise ValueError(
                "`Published()` is not defined for an `initial` beside the history. Use "
                "`Adjoint()`."
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
    """Return the gradient, and the used memory `on_delayed`."""
    sweep = _Sweep(system, loss, target, params, path, last)

    def body(m, carry):
        (adjoint, before, on_delayed), total = carry
        here = sweep.node(m, adjoint)
        on_delayed = write(on_delayed, m, here.on_y)
        after = sweep.step(m, adjoint, here, on_delayed)
        total = jax.tree.map(jnp.add, total, sweep.cells(m, here, on_delayed))
        moving = m < last
        before = jnp.where(moving, adjoint, before)
        adjoint = jnp.where(moving, after, adjoint)
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
        """Return F at t_m, and its VJP for a `cotangent`."""
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
        """Return lambda at t_{m+1}, by Heun's method."""
        h = self.h
        k1 = self._cost_slope(m) - here.on_x - self._later(on_delayed, m)
        ahead = self.node(m + 1, adjoint - h * k1).on_x
        k2 = self._cost_slope(m + 1) - ahead - self._later(on_delayed, m + 1)
        return adjoint - 0.5 * h * (k1 + k2)

    def cells(self, m, here: _Node, on_delayed):
        """Return what t_m adds to the integrals for theta, phi and tau, by the
        trapezium rule."""
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
        """Return the VJP of the history at the time t, for the parameters phi."""
        history = self.params.history
        _, vjp = jax.vjp(lambda history: self.system.history(history, t), history)
        return vjp(cotangent)[0]

    def x(self, t) -> jax.Array:
        """Return the state at the time t."""
        return DenseOutput(self.system.grid, self.path, self.h, self.last)(t)

    def _at(self, m):
        """Return the time t_m, the state and the delayed state there."""
        params, t = self.params, self.system.T - m * self.h
        past = self.system.history(params.history, t - params.tau)
        after_tau = self.last - m >= self.system.grid.n
        return t, self.x(t), jnp.where(after_tau, self.x(t - params.tau), past)

    def _cost_slope(self, m) -> jax.Array:
        """Return the derivative of the running cost at t_m."""
        running = self.loss.running_cost(self.system, self.target)
        assert running is not None
        t, now, _ = self._at(m)
        return running_gradient(running, self.params, now, t)

    def _later(self, on_delayed, m) -> jax.Array:
        """Return F_y(t + tau)^T lambda(t + tau) at t_m, where t_m + tau is before T."""
        n = self.system.grid.n
        return jnp.where(m > n, read(on_delayed, jnp.maximum(m - n, 0)), 0.0)

    def _weights(self, m):
        """Return the trapezium weights of t_m for the cell above it and the one
        below."""
        h, cut, steps = self.h, self.cut, self.last
        above = jnp.where(m == steps, 0.5 * cut * cut / h, 0.5 * h)
        below = jnp.where(m + 1 == steps, cut * (1 - 0.5 * cut / h), 0.5 * h)
        return (
            jnp.where((m >= 1) & (m <= steps), above, 0.0),
            jnp.where(m < steps, below, 0.0),
        )
