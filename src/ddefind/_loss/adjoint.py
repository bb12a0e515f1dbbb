r"""`Adjoint`: the paper's Theorem 1, corrected; first optimise, then discretise.

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

The paper begins the first integral of $dL/d\tau$ at $\tau$ instead of 0: it forgets
that $x(t - \tau) = X_0(t - \tau)$ depends on $\tau$ there, with derivative $-X_0'(t -
\tau)$. Where x(0) is not X_0(0), $x(t - \tau)$ jumps at $t = \tau$, which adds $\langle
\lambda(\tau), F(x(\tau), x(0)) - F(x(\tau), X_0(0)) \rangle$ to $dL/d\tau$.

In the reversed time s = T - t the adjoint equation is itself a delay equation with the
delay tau, a history of zero and a jump at s = 0; so the solver of every problem solves
it, and the kinks of lambda at T - k tau are nodes. Costs at single times (least
squares) make lambda jump there: lambda = mu + J, with J a staircase and mu continuous.
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from .._problem.problem import Problem
from .._solve.hermite import hermite, hermite_slope
from .._solve.march import Grid, System, dense, integrate, locate, march
from .._util.buffers import read, take
from .gradients import AbstractGradient
from .losses import AbstractLoss, Target


class _Paths(NamedTuple):
    path: jax.Array
    adjoint: jax.Array


class _Trajectory(NamedTuple):
    """A solved path as a function of time, for the lanes' own times."""

    grid: Grid
    path: jax.Array
    h: Any
    last: Any

    def __call__(self, t):
        return dense(self.grid, self.path, self.h, self.last, t)


@final
class Adjoint(AbstractGradient):
    """The corrected Theorem 1: the adjoint equation backwards, then quadrature.

    It converges to the gradient of the continuous loss as the step goes to zero, at
    second order (first for `L1`, `Linf` and costs at single times, which make lambda
    rough). The default route, `Discrete()`, is the exact gradient of the discretised
    loss and cheaper."""

    def buffers(self, system: System) -> _Paths:
        return _Paths(system.path(), system.path(_adjoint_grid(system)))

    def __call__(self, system, loss, target, params, buffers):
        path, last = march(system, params, buffers.path)
        value = loss.path_cost(system, target).value(params, path, last)
        h = system.grid.step(params.tau)
        x = _Trajectory(system.grid, path, h, last)
        adjoint, stairs = _solve_adjoint(
            system, loss, target, params, x, buffers.adjoint
        )

        def multiplier(t):
            return adjoint(system.T - t) + stairs(t)

        gradient = _gradients(system, loss, target, params, x, multiplier)
        if system.grid.jump:
            more = _jump_at_tau(system, params, x, adjoint, stairs)
            gradient = eqx.tree_at(lambda p: p.tau, gradient, gradient.tau + more)
        return value, gradient, _Paths(path, adjoint.path)


def _adjoint_grid(system: System) -> Grid:
    grid = system.grid
    return Grid(grid.n, True, grid.capacity + grid.capacity // grid.n + 2)


def _stairs(system: System, loss: AbstractLoss, target: Target, params, x):
    """J(t), minus the sum of the cost gradients at the single times from t on."""
    path_cost = loss.impulses(system, target)
    if path_cost is None:
        return lambda t: 0.0
    _, slopes = path_cost.slopes(params, jax.vmap(x)(_lane_times(path_cost, params)))
    after = -jnp.cumsum(slopes[::-1], axis=0)[::-1]
    after = jnp.concatenate([after, jnp.zeros_like(after[:1])])
    times = _lane_times(path_cost, params)

    def stairs(t):
        # On a step, up to rounding, its middle: quadratures then see both sides.
        near = 1e-9 * system.T
        sides = [take(after, jnp.sum(times < t + e, axis=0)) for e in (-near, near)]
        return 0.5 * (sides[0] + sides[1])

    return stairs


def _lane_times(path_cost, params):
    """The single times, for every lane."""
    times = jnp.asarray(path_cost.points.times)
    if times.ndim == params.tau.ndim:
        times = jnp.expand_dims(times, tuple(range(1, params.tau.ndim + 1)))
    return jnp.broadcast_to(times, (times.shape[0], *params.tau.shape))


def at_end(system: System, loss, target, params: Problem, x):
    """lambda(T), minus the derivative of the terminal cost; `x` is the trajectory."""
    end = x(jnp.broadcast_to(system.T, params.tau.shape))
    terminal = loss.terminal_cost(system, target)
    if terminal is None:
        return jnp.zeros_like(end)
    found, back = jax.vjp(lambda x: terminal(params.observe, x), end)
    return -back(jnp.ones_like(found))[0]


def _solve_adjoint(system: System, loss, target, params: Problem, x, path):
    """lambda, less its stairs, as a function of s = T - t; and the stairs."""
    grid, tau, T = _adjoint_grid(system), params.tau, system.T
    running = loss.running_cost(system, target)
    stairs = _stairs(system, loss, target, params, x)
    h = grid.step(tau)

    def delayed(t, after_tau):
        """x(t - tau): from the path after time tau, from the history before it."""
        past = system.history(params.history, jnp.minimum(t - tau, 0.0))
        return jnp.where(after_tau, x(jnp.maximum(t - tau, 0.0)), past)

    def pull_x(t, cotangent, after_tau):
        """F_x(t)^T lambda."""
        y = delayed(t, after_tau)
        _, back = jax.vjp(lambda x: system.slope(params.rhs, x, y, tau, t), x(t))
        return back(cotangent)[0]

    def pull_y(t, y, cotangent):
        """F_y(t)^T lambda."""
        now = x(t)
        _, back = jax.vjp(lambda y: system.slope(params.rhs, now, y, tau, t), y)
        return back(cotangent)[0]

    # Where tau lies on the grid up to rounding, all that ask must find the same side.
    crossing = (T - tau) / h + 1e-9

    def slope(mu, mu_later, s):
        """d mu / ds, the adjoint equation; `mu_later` is mu(t + tau), zero beyond T."""
        t = jnp.maximum(T - s, 0.0)
        later = jnp.minimum(t + tau, T)
        found = pull_x(t, mu + stairs(t), s / h <= crossing)
        stairs_later = jnp.where(s >= tau, stairs(later), 0.0)
        found += pull_y(later, x(t), mu_later + stairs_later)
        if running is not None:
            cost = jax.vjp(lambda x: running(params.observe, x, t), x(t))
            found -= cost[1](jnp.ones_like(cost[0]))[0]
        return found

    def correct(i, mu):
        """Where x(0) is not X0(0), F_x(t) jumps at t = tau, inside a step. A share u of
        it is after tau; the solver, whose stages count as `seen`, takes another."""
        u = crossing - grid.node(i)
        seen = system.solver.step(
            lambda c, _: jnp.where(c <= u, 1.0, 0.0),
            jnp.zeros_like(u),
            jnp.ones_like(u),
            jnp.ones_like(u),
        )
        t = jnp.minimum(tau, T)
        now = mu + stairs(t)
        jump = pull_x(t, now, True) - pull_x(t, now, False)
        inside = (u >= 0) & (u < 1) & (tau < T)
        return jnp.where(inside, grid.length(i, h) * (u - seen), 0.0) * jump

    start = at_end(system, loss, target, params, x)
    zeros = jnp.zeros((grid.delay_rows, *start.shape), start.dtype)
    inside = {c: zeros[: grid.n] for c in system.solver.fractions if c != 1}
    last = grid.last(T, tau)
    fix = correct if system.grid.jump else None
    past = zeros, inside
    path = integrate(grid, system.solver, slope, h, past, start, last, path, fix)
    return _Trajectory(grid, path, h, last), stairs


def _gradients(system: System, loss, target, params: Problem, x, multiplier):
    """The three integrals, by the midpoint rule between neighbouring nodes.

    No cell has the jump of x'(t - tau) at t = tau inside, and a midpoint never meets
    it."""
    grid, tau, T = system.grid, params.tau, system.T
    h, path = x.h, x.path
    running = loss.running_cost(system, target)

    def piece(node, u):
        """The state and slope at the fraction `u` of the step after a node."""
        row = grid.row(node) + grid.delay_rows
        left, right = read(path, row), read(path, row + 1)
        return hermite(u, left, right, h), hermite_slope(u, left, right, h)

    def cell(k, total):
        begin, end = k * h, jnp.minimum((k + 1) * h, T)
        width = jnp.maximum(end - begin, 0.0)
        t = begin + 0.5 * width
        now = piece(k, 0.5 * width / h)[0]
        early = k < grid.n
        past, past_slope = jax.jvp(
            lambda t: system.history(params.history, t),
            (t - tau,),
            (jnp.ones_like(t),),
        )
        y, y_slope = piece(jnp.maximum(k - grid.n, 0), 0.5 * width / h)
        y, y_slope = jnp.where(early, past, y), jnp.where(early, past_slope, y_slope)
        _, back = jax.vjp(
            lambda rhs, y, tau: system.slope(rhs, now, y, tau, t), params.rhs, y, tau
        )
        g_rhs, g_y, g_tau = back(width * multiplier(t))
        _, back = jax.vjp(
            lambda history: system.history(history, t - tau), params.history
        )
        (g_history,) = back(jnp.where(early, g_y, 0.0))
        g_tau = jnp.sum(g_y * y_slope, axis=0) - g_tau
        g_observe = jax.tree.map(jnp.zeros_like, params.observe)
        if running is not None:
            _, back = jax.vjp(lambda o: running(o, now, t), params.observe)
            (g_observe,) = back(width)
        minus = jax.tree.map(jnp.negative, (g_rhs, g_history))
        return jax.tree.map(jnp.add, total, (*minus, g_tau, g_observe))

    zeros = jax.tree.map(
        jnp.zeros_like, (params.rhs, params.history, tau, params.observe)
    )
    cells = jnp.max(grid.node(x.last))
    g_rhs, g_history, g_tau, g_observe = lax.fori_loop(0, cells, cell, zeros)
    g_history, g_initial = _at_start(system, params, g_history, multiplier)
    g_observe = _beside_path(system, loss, target, params, x, g_observe)
    return eqx.tree_at(
        lambda p: (p.rhs, p.history, p.tau, p.initial, p.observe),
        params,
        (g_rhs, g_history, g_tau, g_initial, g_observe),
        is_leaf=lambda leaf: leaf is None,
    )


def _at_start(system: System, params: Problem, g_history, multiplier):
    """- X0_phi(0)^T lambda(0), or - lambda(0) where x(0) is a parameter of its own."""
    zero = jnp.zeros_like(params.tau)
    minus = -multiplier(zero)
    if system.grid.jump:
        return g_history, None if params.initial is None else minus
    _, back = jax.vjp(lambda history: system.history(history, zero), params.history)
    return jax.tree.map(jnp.add, g_history, back(minus)[0]), None


def _jump_at_tau(system: System, params: Problem, x, adjoint, stairs):
    """< lambda(tau), F(x(tau), x(0)) - F(x(tau), X0(0)) >: slopes on both sides of tau.

    lambda has a kink there, inside a piece of its path: it is continued to tau along
    its slope at the last node before, on the side of T."""
    grid = system.grid
    before, after = (
        x.path[grid.n + grid.delay_rows, 1],
        x.path[grid.n + 1 + grid.delay_rows, 1],
    )
    t = jnp.minimum(params.tau, system.T)
    node, row = locate(adjoint.grid, system.T - t, adjoint.h, adjoint.last)
    state, slope = take(adjoint.path, row)
    at_tau = state + (system.T - t - node * adjoint.h) * slope + stairs(t)
    jump = jnp.sum(at_tau * (after - before), axis=0)
    return jnp.where(params.tau < system.T, jump, 0.0)


def _beside_path(system: System, loss, target, params: Problem, x, g_observe):
    """What the terminal cost and the single costs ask of the observation's
    parameters."""
    terminal = loss.terminal_cost(system, target)
    if terminal is not None:
        end = x(jnp.broadcast_to(system.T, params.tau.shape))
        found, back = jax.vjp(lambda o: terminal(o, end), params.observe)
        (more,) = back(jnp.ones_like(found))
        g_observe = jax.tree.map(jnp.add, g_observe, more)
    path_cost = loss.impulses(system, target)
    if path_cost is not None:
        states = jax.vmap(x)(_lane_times(path_cost, params))
        more, _ = path_cost.slopes(params, states)
        g_observe = jax.tree.map(jnp.add, g_observe, more)
    return g_observe
