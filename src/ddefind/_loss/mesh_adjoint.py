r"""The corrected adjoint theorem on a mesh: several delays, `initial`, and switches.

With the delays $\tau_1, \dots, \tau_k$, the delayed states $y_q(t) = x(t - \tau_q)$ and
the switches in time $s_1, \dots, s_r$, the adjoint $\lambda$ solves

$$\lambda'(t) = \nabla\ell(x(t)) - F_x(t)^T \lambda(t)
    - \sum_q [t < T - \tau_q]\, F_{y_q}(t + \tau_q)^T \lambda(t + \tau_q), \qquad
    \lambda(T) = -\nabla G(x(T)).$$

A cost at a single time $t_j$ makes it jump, $\lambda(t_j^-) = \lambda(t_j^+) - \nabla
\ell_j(x(t_j))$. The gradient of the loss is that of the *Lagrangian* for the
parameters, in which x and $\lambda$ are given functions of time:

$$\mathcal{L} = \int_0^T \ell - \langle \lambda, F(x, y_1, \dots, y_k, \tau, t) \rangle
    \, dt + G + \sum_j \ell_j - \langle \lambda(0), x(0) \rangle
    + \sum_q d_q \tau_q + \sum_j e_j s_j.$$

There $y_q(t)$ is the history $X_0(t - \tau_q)$ for $t < \tau_q$, and the given $x(t -
\tau_q)$ afterwards. Both depend on $\tau_q$, with minus their slopes, hence

$$\frac{dL}{d\tau_q} = \int_0^T \langle F_{y_q}^T \lambda, x'(t - \tau_q) \rangle -
    \langle F_{\tau_q}, \lambda \rangle \, dt + d_q,$$

and the history gets $-\int_0^{\min(\tau_q, T)} X_{0\phi}(t - \tau_q)^T F_{y_q}^T
\lambda\, dt$ from each delay, and $-X_{0\phi}(0)^T \lambda(0)$ where it is also x(0).
The numbers d and e belong to jumps of x', which move with a delay or with a switch:

$$d_q = \langle \lambda(\tau_q), F(\dots, y_q = x(0), \dots)
    - F(\dots, y_q = X_0(0), \dots) \rangle, \qquad
  e_j = \langle \lambda(s_j), F(s_j^+) - F(s_j^-) \rangle,$$

where $\tau_q$ and $s_j$ are within (0, T). The delays and the switches may themselves
be computed from parameters. An input that jumps at $t_i$ and is read through a delay
makes F jump at $t_i + \tau_q$: this is one more $s_j$, which moves with $\tau_q$.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._problem.delays import delay_vector, in_structure
from .._problem.problem import Problem
from .._solve.breaking_points import NO_TABLE
from .._solve.mesh_past import stage_fractions
from .._solve.mesh_path import (
    MarchInputs,
    MeshPath,
    MeshSystem,
    march_mesh,
    movers_of,
)
from .._solve.solve import solve_mesh
from .._solve.system import System
from .._util.buffers import read
from .losses import AbstractLoss, Target
from .path_costs import PointCosts


class _Costs(NamedTuple):
    """The parts of a loss: the running and the terminal cost, and those at single
    times; each of them may be None."""

    running: Callable | None
    terminal: Callable | None
    impulses: PointCosts | None


class _Multiplier(NamedTuple):
    """lambda(t) = mu(T - t) + J(t), where mu is continuous, and J is the step function
    of the costs at single times, minus the sum of their gradients from t on."""

    mu: MeshPath
    jumps: Callable[[Any], jax.Array]
    T: Any

    def __call__(self, t: Any) -> jax.Array:
        return self.mu(self.T - t) + self.jumps(t)


def mesh_adjoint(
    system: System, loss: AbstractLoss, target: Target, params: Problem
) -> tuple[jax.Array, Problem]:
    """The loss of the solution on a mesh, and its gradient by the adjoint theorem."""
    problem = eqx.combine(params, system.fixed)
    x = solve_mesh(problem, system.solver, system.grid, "forward")
    path_cost = loss.path_cost(system, target)
    assert isinstance(path_cost, PointCosts)
    costs = _Costs(
        loss.running_cost(system, target),
        loss.terminal_cost(system, target),
        loss.impulses(system, target),
    )
    multiplier = _solve_adjoint(system, costs, params, x)
    integral = _gradient_of_integral(system, costs, params, x, multiplier)
    single = _gradient_at_single_times(system, costs, params, x, multiplier)
    return path_cost.total(params, x), jax.tree.map(jnp.add, integral, single)


def _slope(problem: Problem, z: jax.Array, t: Any) -> jax.Array:
    """F at the time `t`, where `z` holds x and the delayed states, [1 + k, d]."""
    delays, tau = delay_vector(problem.tau), problem.tau
    y = in_structure(tau, [z[1 + q] for q in range(len(delays))])
    return problem.rhs(z[0], y, in_structure(tau, list(delays)), t)


def _states(problem: Problem, x: MeshPath, t: Any) -> jax.Array:
    """x(t) and the delayed states, [1 + k, d], on the given trajectory. They depend on
    the problem by its delays and its history."""

    def delayed(s):
        early = problem.history(jnp.minimum(s, 0.0))
        return jnp.where(s < 0, early, x(jnp.maximum(s, 0.0)))

    past = jax.vmap(delayed)(t - delay_vector(problem.tau))
    return jnp.concatenate([x(t)[None], past])


def _reversed_times(system: System, problem: Problem, single: Any):
    """The times s = T - t of the rows of lambda, in their order, and the row of s = T.

    Beside equal steps there are two rows, one for each side, at every time at which
    lambda' or an integrand jumps: at the delays, the switches and the knots of inputs,
    at the `single` times of costs, and one delay before and after these."""
    mesh, T, delays = system.grid, system.T, delay_vector(problem.tau)
    shifts = jnp.concatenate([jnp.zeros(1), -delays, delays])
    known = [delays, _known(system, problem), single, jnp.stack([T, 0.0 * T])]
    events = jnp.concatenate(known)
    events = T - (events[:, None] + shifts).ravel()
    number = jnp.arange(mesh.capacity)
    steps = T * number / jnp.clip(jnp.ceil(T / mesh.tail), 1, mesh.capacity)
    times = jnp.concatenate([steps, events, events])
    # Times outside of the record are put after it.
    is_inside = (times > -mesh.side) & (times < T + mesh.side)
    times = jnp.sort(jnp.where(is_inside, jnp.clip(times, 0.0, T), 2 * T + number[-1]))
    # Times that are equal up to rounding errors become equal.
    is_new = jnp.append(True, jnp.diff(times) > 0.5 * mesh.side)
    times = lax.cummax(jnp.where(is_new, times, 0.0))
    return times, jnp.searchsorted(times, T - mesh.side)


def _solve_adjoint(
    system: System, costs: _Costs, params: Problem, x: MeshPath
) -> _Multiplier:
    """The adjoint equation in the reversed time s = T - t. It is itself a delay
    equation: its delays are the same, its history is zero, and its state jumps at s =
    0. The same loop solves it that solves every problem."""
    problem, T, mesh = eqx.combine(params, system.fixed), system.T, system.grid
    delays, running = delay_vector(problem.tau), costs.running
    shifts = jnp.concatenate([jnp.zeros(1), delays])
    single, jumps = _step_function(costs, params, x)

    def pull(number, t, cotangent):
        """The VJP of F at the time t for one of x, y_1, ..., y_k."""
        t = jnp.clip(t, 0.0, T)
        z = _states(problem, x, t)
        on_z = jax.vjp(lambda z: _slope(problem, z, t), z)[1](cotangent)[0]
        return read(on_z, number)

    def slope(mu, later, tau, s):
        """d mu / ds; `later` holds mu at the times t + tau_q, zero beyond T."""
        times = T - s + shifts
        multipliers = jnp.stack([mu, *later]) + jax.vmap(jumps)(times)
        numbers = jnp.arange(len(shifts))
        total = jnp.sum(jax.vmap(pull)(numbers, times, multipliers), axis=0)
        if (cost := running) is not None:
            now = x(times[0])
            total -= jax.grad(lambda x: cost(params.observe, x, times[0]))(now)
        return total

    times, last = _reversed_times(system, problem, single)
    start, k = _at_end(system, costs, params, x), len(delays)
    stages = len(stage_fractions(system.solver))
    history = jnp.zeros((len(times), stages, k, *start.shape))
    inputs = MarchInputs(None, delays, times, history, history[0, 0], start)
    structure = jax.tree.structure((0,) * k)
    middle = 0.5 * (times[1:] + times[:-1])
    after_end = jnp.sum(middle < delays[:, None], axis=1)
    adjoint = MeshSystem(slope, structure, system.solver, mesh, after_end, mesh.side)
    rows, _ = march_mesh(adjoint, inputs, last)
    return _Multiplier(MeshPath(times, rows, last), jumps, T)


def _at_end(system: System, costs: _Costs, params: Problem, x: MeshPath) -> jax.Array:
    """Minus the gradient of the terminal cost."""
    end, terminal = x(system.T), costs.terminal
    if terminal is None:
        return jnp.zeros_like(end)
    return -jax.grad(lambda x: terminal(params.observe, x))(end)


def _step_function(
    costs: _Costs, params: Problem, x: MeshPath
) -> tuple[jax.Array, Callable[[Any], jax.Array]]:
    """The single times of the costs, and the step function J."""
    if costs.impulses is None:
        return jnp.zeros(0), lambda t: jnp.zeros_like(x.rows[0, 0])
    times = jnp.asarray(costs.impulses.points.times)
    _, on_states = costs.impulses.derivatives(params, jax.vmap(x)(times))
    from_time = -jnp.cumsum(on_states[::-1], axis=0)[::-1]
    from_time = jnp.concatenate([from_time, jnp.zeros_like(from_time[:1])])
    return times, lambda t: read(from_time, jnp.searchsorted(times, t))


def _gradient_of_integral(
    system: System,
    costs: _Costs,
    params: Problem,
    x: MeshPath,
    multiplier: _Multiplier,
) -> Problem:
    """The gradient of the integral in the Lagrangian, by the midpoint rule on the steps
    of lambda. Where its integrand jumps, there is a node."""
    running, times = costs.running, multiplier.mu.times

    def integrand(params, t, at_t):
        problem = eqx.combine(params, system.fixed)
        z = _states(problem, x, t)
        total = -jnp.sum(at_t * _slope(problem, z, t))
        return total if running is None else total + running(params.observe, z[0], t)

    def cell(i, total):
        begin, end = read(times, i), read(times, i + 1)
        t = system.T - 0.5 * (begin + end)
        gradient = jax.grad(integrand)(params, t, multiplier(t))
        return jax.tree.map(lambda a, b: a + (end - begin) * b, total, gradient)

    zeros = jax.tree.map(jnp.zeros_like, params)
    return lax.fori_loop(0, multiplier.mu.last, cell, zeros)


def _gradient_at_single_times(
    system: System,
    costs: _Costs,
    params: Problem,
    x: MeshPath,
    multiplier: _Multiplier,
) -> Problem:
    """The gradient of all terms of the Lagrangian outside of the integral."""
    by_movers = _jump_terms(system, params, x, multiplier)
    _, terminal, impulses = costs

    def lagrangian(params):
        problem = eqx.combine(params, system.fixed)
        total = jnp.sum(by_movers * movers_of(problem))
        # A cost at time zero belongs to lambda(0).
        total -= jnp.sum(multiplier(-system.grid.side) * problem.start)
        if terminal is not None:
            total += terminal(params.observe, x(system.T))
        return total if impulses is None else total + impulses.total(params, x)

    return jax.grad(lagrangian)(params)


def _known(system: System, problem: Problem) -> jax.Array:
    """The times at which F jumps or has a kink as a function of time."""
    mesh = system.grid
    points, k = mesh.points, mesh.points.delays
    chosen = np.array(points.tables)[points.family] != NO_TABLE
    chosen |= points.matrix[:, k:].any(axis=1)
    sums = points.matrix[chosen]
    constants = jnp.asarray(mesh.constants)[np.flatnonzero(chosen)]
    return constants + jnp.sum(sums * movers_of(problem), axis=1)


def _jumps(system: System, problem: Problem) -> tuple[jax.Array, np.ndarray]:
    """The times at which F jumps as a function of time, and their derivatives for the
    movers, [jumps, movers]."""
    mesh = system.grid
    points, k = mesh.points, mesh.points.delays
    # The delays are treated apart.
    is_delay = (np.abs(points.matrix).sum(axis=1) == 1) & points.matrix[:, :k].any(1)
    is_delay &= np.array(points.tables)[points.family] == NO_TABLE
    chosen = np.array(points.doubled)[points.family] & ~is_delay
    sums = points.matrix[chosen]
    constants = jnp.asarray(mesh.constants)[np.flatnonzero(chosen)]
    return constants + jnp.sum(sums * movers_of(problem), axis=1), sums


def _jump_terms(
    system: System, params: Problem, x: MeshPath, multiplier: _Multiplier
) -> jax.Array:
    """The numbers d for the delays, which are zero unless x jumps at time zero, and the
    numbers e for the switches, as derivatives for the movers."""
    problem, side = eqx.combine(params, system.fixed), system.grid.side
    delays, zero = delay_vector(problem.tau), jnp.zeros(())

    def at_delay(q, t):
        z = _states(problem, x, t)
        after, before = z.at[1 + q].set(x(zero)), z.at[1 + q].set(problem.history(zero))
        return _slope(problem, after, t) - _slope(problem, before, t)

    def at_switch(t):
        z = _states(problem, x, t)
        return _slope(problem, z, t + side) - _slope(problem, z, t - side)

    def term(t, jump):
        # The mean of both sides, should there be a cost at this very time.
        mean = 0.5 * (multiplier(t - side) + multiplier(t + side))
        return jnp.where((t > 0) & (t < system.T), jnp.sum(mean * jump), 0.0)

    def inside(times):
        return jnp.clip(times, 0.0, system.T)

    by_movers = jnp.zeros_like(movers_of(problem))
    jumps = jax.vmap(at_delay)(jnp.arange(len(delays)), inside(delays))
    by_movers = by_movers.at[: len(delays)].set(jax.vmap(term)(delays, jumps))
    times, sums = _jumps(system, problem)
    if len(sums) > 0:
        terms = jax.vmap(term)(times, jax.vmap(at_switch)(inside(times)))
        by_movers += jnp.sum(terms[:, None] * sums, axis=0)
    return by_movers
