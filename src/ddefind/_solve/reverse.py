"""The way back: pull a loss's gradient through the steps of a march.

The loop runs over the rows from the last to the first. It *pulls*: step i stores the
cotangents of its delayed states, and the node that they belong to reads them
`delay_rows` steps later. To push them there would be a scatter, ten times as slow."""

from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from .._problem.problem import Problem
from .._util.buffers import read, write
from .hermite import slope_weights, state_weights
from .march import Buffers, System, delayed_states

# Which of a fraction's four weights: those of two states, or of two slopes.
_STATES, _SLOPES = 0, 2


def pull(system: System, params: Problem, buffers: Buffers, last, path_cost):
    """Reverse `march`: the loss, its gradient, and the buffers.

    `path_cost` says how the loss depends on the path: `begin(params, path, last)` is
    its state; `visit(i, state, params, path, last)` returns the new state and the
    cotangents of row i's state and slope (None for zero), from the last row to the
    first; the state has the fields `loss` and, for what acts beside the path, the
    gradients `tau` and `observe`."""
    path, stages, starts = buffers
    top = jnp.max(last)
    reverse = _Reverse(system, params, path, system.past(params)[1], top)

    def body(carry):
        i, cotangent, stages, starts, gradient, state = carry
        by_step, g_x, g_first, g_delayed = reverse.step(i, cotangent)
        if g_delayed:
            stages = write(stages, i, jnp.stack(g_delayed))
        state, on_x, on_first = path_cost.visit(i, state, params, path, last)
        g_first = g_first + reverse.step_size * reverse.asked(stages, i, _SLOPES)
        if on_first is not None:
            g_first = g_first + on_first
        by_slope, g_x_first, g_start = reverse.slope(i, g_first)
        starts = write(starts, i, g_start)
        cotangent = g_x + g_x_first + on_x + reverse.asked_at_start(starts, i)
        cotangent = cotangent + reverse.asked(stages, i, _STATES)
        gradient = jax.tree.map(
            lambda total, a, b: total + a + b, gradient, by_step, by_slope
        )
        return i - 1, cotangent, stages, starts, gradient, state

    zeros = jax.tree.map(jnp.zeros_like, (params.rhs, params.tau))
    begin = path_cost.begin(params, path, last)
    carry = top, jnp.zeros_like(path[0, 0]), stages, starts, zeros, begin
    carry = lax.while_loop(lambda carry: carry[0] >= 0, body, carry)
    _, cotangent, stages, starts, (g_rhs, g_tau), state = carry
    g_history, g_initial, g_tau_past = _pull_past(
        system, params, cotangent, stages, starts, top
    )
    gradient = eqx.tree_at(
        lambda p: (p.rhs, p.history, p.tau, p.initial, p.observe),
        params,
        (g_rhs, g_history, g_tau + g_tau_past + state.tau, g_initial, state.observe),
        is_leaf=lambda leaf: leaf is None,
    )
    return state.loss, gradient, Buffers(path, stages, starts)


@final
@dataclass(frozen=True)
class _Reverse:
    """The way back over a path, row by row, and what is the same at all of them.

    `inside` is the past inside the first steps, `top` the last row of any lane."""

    system: System
    params: Problem
    path: Any
    inside: Any
    top: Any

    @property
    def step_size(self):
        return self.system.grid.step(self.params.tau)

    @property
    def _weights(self):
        """Of the states and slopes around it, for each of the solver's fractions."""
        fractions = self.system.solver.fractions
        return [(*state_weights(c), *slope_weights(c)) for c in fractions]

    def step(self, i, cotangent):
        """The cotangent of row i + 1 pulled through step `i`: to (rhs, tau), the state
        and the slope at its beginning, and the past inside it."""
        system, params, grid = self.system, self.params, self.system.grid
        x, first = read(self.path, i + grid.delay_rows)
        left, right = read(self.path, i), read(self.path, i + 1)
        solver, h = system.solver, self.step_size
        delayed = delayed_states(grid, solver, i, left, right, self.inside, h)

        def advance(rhs, tau, x, first, delayed):
            return system.advance(rhs, tau, x, first, delayed, i)

        _, back = jax.vjp(advance, params.rhs, params.tau, x, first, delayed)
        g_rhs, g_tau, g_x, g_first, g_delayed = back(cotangent)
        for g, c, (*_, b0, b1) in zip(g_delayed, solver.fractions, self._weights):
            if c != 1:
                moved = jnp.sum(g * (b0 * left[1] + b1 * right[1]), axis=0) / grid.n
                g_tau += jnp.where(i < grid.n, 0.0, moved)
        return (g_rhs, g_tau), g_x, g_first, g_delayed

    def slope(self, i, cotangent):
        """The cotangent of the slope at row `i` pulled through F: to (rhs, tau), the
        state, and the state one delay earlier."""
        params, delay_rows = self.params, self.system.grid.delay_rows
        x, before = read(self.path, i + delay_rows)[0], read(self.path, i)[0]

        def slope(rhs, tau, x, y):
            return self.system.first(rhs, tau, x, y, i)

        _, back = jax.vjp(slope, params.rhs, params.tau, x, before)
        g_rhs, g_tau, g_x, g_before = back(cotangent)
        return (g_rhs, g_tau), g_x, g_before

    def asked(self, stages, i, which):
        """What later steps ask of row `i`, inside them: of its state or its slope."""
        grid, fractions = self.system.grid, self.system.solver.fractions
        left = read(stages, jnp.minimum(i + grid.delay_rows, grid.capacity - 1))
        right = read(stages, jnp.minimum(i + grid.delay_rows - 1, grid.capacity - 1))
        total = 0.0
        for c, w, from_left, from_right in zip(fractions, self._weights, left, right):
            as_left, as_right = w[which], w[which + 1]
            if as_left != 0:
                later = i + grid.delay_rows <= self.top
                total += as_left * jnp.where(later, from_left, 0.0)
            if as_right != 0:
                # Inside the first steps the past is the history, not a piece of path.
                later = i + grid.delay_rows - 1 <= self.top
                later = later if c == 1 else later & (i > 0)
                total += as_right * jnp.where(later, from_right, 0.0)
        return total

    def asked_at_start(self, starts, i):
        """What the later step that begins one delay after row `i` asks of it."""
        grid = self.system.grid
        found = read(starts, jnp.minimum(i + grid.delay_rows, grid.capacity - 1))
        return jnp.where(i + grid.delay_rows <= self.top, found, 0.0)


def _pull_past(system: System, params: Problem, cotangent, stages, starts, top):
    """The gradients for the history and x(0), from those of the rows that they fill."""
    grid, fractions = system.grid, system.solver.fractions

    def asked(cotangents):
        """Those that were stored: no step after the last one asked for anything."""
        rows = jnp.arange(cotangents.shape[0])
        return jnp.where(
            rows.reshape(-1, *(1,) * (cotangents.ndim - 1)) <= top, cotangents, 0.0
        )

    on_rows = asked(starts[: grid.delay_rows])
    on_inside = {}
    for position, c in enumerate(fractions):
        at_c = asked(stages[: grid.delay_rows, position])
        if c == 1:
            shifted = jnp.concatenate([jnp.zeros_like(at_c[:1]), at_c[:-1]])
            on_rows = on_rows + shifted
        else:
            on_inside[c] = at_c[: grid.n]

    def past(history, tau):
        moved = eqx.tree_at(
            lambda p: (p.history, p.tau),
            params,
            (history, tau),
            is_leaf=lambda leaf: leaf is None,
        )
        return system.past(moved), None if grid.jump else system.start(moved)

    _, back = jax.vjp(past, params.history, params.tau)
    on_start = None if grid.jump else cotangent
    g_history, g_tau = back(((on_rows, on_inside), on_start))
    g_initial = cotangent if params.initial is not None else None
    return g_history, g_initial, g_tau
