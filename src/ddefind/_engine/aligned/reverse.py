r"""Reverse mode: the gradient of a loss, by the adjoint of every step of a march.

The loop visits the rows of a path from the last to the first and carries the cotangent
of the state, the derivative of the loss for the state of the present row. The steps are
those that `march.py` has taken, so the gradient is the exact one of the discrete
solution.

A delayed state acts across many rows: step i reads the rows one delay earlier. Its
VJP stores the cotangents of its delayed states in a buffer at row i, and the row to
which they belong reads them `delay_rows` iterations later. (To add them to the earlier
rows at once would be a scatter, which is ten times as slow.)

With the Hermite piece between the places i and i + 1 of a path,

$$y(c) = a_0(c)\, x_i + a_1(c)\, x_{i+1} + h\,(b_0(c)\, x'_i + b_1(c)\, x'_{i+1}),$$

a cotangent g of y(c) gives $a_0 g$ to the state and $h b_0 g$ to the slope at its left
end, and likewise at its right end.
"""

from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ..._problem.problem import Problem
from ..._util.arrays import read, write
from ..engine import AbstractPathGradient, System
from .march import Buffers, HistoryStates, Past, history_states, take_step
from .path import WholePath, slope_weights, state_weights

# Which of the four weights of a fraction: those of two states, or of two slopes.
_STATES, _SLOPES = 0, 2


def reverse_march(
    system: System,
    params: Problem,
    buffers: Buffers,
    last: Any,
    path_gradient: AbstractPathGradient,
) -> tuple[jax.Array, Problem, Buffers]:
    """Return the loss of a solved path, its gradient in the shape of `params`, and the
    used buffers. `buffers.path` and its row `last` come from `solve_path`."""
    path, stages, starts = buffers
    top = jnp.max(last)
    history = history_states(system, params)
    reverse = _Reverse(system, params, path, history.inside, top)

    def body(carry):
        i, cotangent, stages, starts, gradient, state = carry
        by_step, g_x, g_first, g_delayed = reverse.step(i, cotangent)
        if g_delayed:
            stages = write(stages, i, jnp.stack(g_delayed))
        state, on_x, on_first = path_gradient.visit(i, state, params, path, last)
        later = reverse.from_later_stages(stages, i, _SLOPES)
        g_first = g_first + reverse.step_size * later
        if on_first is not None:
            g_first = g_first + on_first
        by_slope, g_x_first, g_start = reverse.slope(i, g_first)
        starts = write(starts, i, g_start)
        cotangent = g_x + g_x_first + on_x + reverse.from_later_start(starts, i)
        cotangent = cotangent + reverse.from_later_stages(stages, i, _STATES)
        gradient = jax.tree.map(
            lambda total, a, b: total + a + b, gradient, by_step, by_slope
        )
        return i - 1, cotangent, stages, starts, gradient, state

    zeros = jax.tree.map(jnp.zeros_like, (params.rhs, params.tau))
    state = path_gradient.begin(params, path, last)
    carry = top, jnp.zeros_like(path[0, 0]), stages, starts, zeros, state
    carry = lax.while_loop(lambda carry: carry[0] >= 0, body, carry)
    _, cotangent, stages, starts, (g_rhs, g_tau), state = carry
    g_history, g_tau_history = _history_gradient(system, params, stages, starts, top)
    g_tau = g_tau + g_tau_history + state.tau
    g_initial = jax.tree.map(jnp.zeros_like, params.initial)
    gradient = eqx.tree_at(
        lambda p: (p.rhs, p.history, p.tau, p.initial, p.observe),
        params,
        (g_rhs, g_history, g_tau, g_initial, state.observe),
        is_leaf=lambda leaf: leaf is None,
    )
    by_start = jax.vjp(system.start, params)[1](cotangent)[0]
    gradient = jax.tree.map(jnp.add, gradient, by_start)
    return state.loss, gradient, Buffers(path, stages, starts)


@final
@dataclass(frozen=True)
class _Reverse:
    """The VJPs of one step. `inside` is the history inside the first steps, `top` the
    last row of any lane."""

    system: System
    params: Problem
    path: jax.Array
    inside: dict[float, jax.Array]
    top: jax.Array

    @property
    def step_size(self) -> jax.Array:
        return self.system.grid.step(self.params.tau)

    @property
    def _past(self) -> Past:
        grid, fractions = self.system.grid, self.system.solver.fractions
        return Past(grid, fractions, WholePath(), self.inside, self.step_size)

    @property
    def _weights(self) -> list[tuple[float, ...]]:
        """The Hermite weights (a0, a1, b0, b1) of each of the solver's fractions."""
        fractions = self.system.solver.fractions
        return [(*state_weights(c), *slope_weights(c)) for c in fractions]

    def step(self, i, cotangent):
        """Return the VJP of step `i`, for the `cotangent` of the state of row i + 1:
        the cotangents of (rhs, tau), of the state and the slope of row i, and of the
        delayed states at the solver's fractions."""
        system, params, grid = self.system, self.params, self.system.grid
        x, first = read(self.path, i + grid.delay_rows)
        left, right = self._past.piece(self.path, i)
        delayed = self._past.at_fractions(i, left, right)

        def advance(rhs, tau, x, first, delayed):
            h = grid.step(tau)

            def slope(position, x, y):
                return system.slope(rhs, x, y, tau, position * h)

            return take_step(grid, system.solver, slope, h, i, x, first, delayed)

        _, vjp = jax.vjp(advance, params.rhs, params.tau, x, first, delayed)
        g_rhs, g_tau, g_x, g_first, g_delayed = vjp(cotangent)
        # The delayed states are Hermite pieces, which depend on tau through h.
        fractions = system.solver.fractions
        for g, c, (*_, b0, b1) in zip(g_delayed, fractions, self._weights):
            if c != 1:
                by_h = jnp.sum(g * (b0 * left[1] + b1 * right[1]), axis=0) / grid.n
                g_tau += jnp.where(i < grid.n, 0.0, by_h)
        return (g_rhs, g_tau), g_x, g_first, g_delayed

    def slope(self, i, cotangent):
        """Return the VJP of F at row `i`, for the `cotangent` of the slope: the
        cotangents of (rhs, tau), of the state, and of the state one delay earlier."""
        params, grid = self.params, self.system.grid
        x, y = read(self.path, i + grid.delay_rows)[0], read(self.path, i)[0]

        def slope(rhs, tau, x, y):
            t = grid.node(i) * grid.step(tau)
            return self.system.slope(rhs, x, y, tau, t)

        _, vjp = jax.vjp(slope, params.rhs, params.tau, x, y)
        g_rhs, g_tau, g_x, g_y = vjp(cotangent)
        return (g_rhs, g_tau), g_x, g_y

    def from_later_stages(self, stages, i, which):
        """Return the cotangent of row `i` from the stages of the two steps one delay
        later, in which it is an end of the Hermite piece: of its state, or of its slope
        over h."""
        grid, fractions = self.system.grid, self.system.solver.fractions
        as_left_end = i + grid.delay_rows
        as_right_end = as_left_end - 1
        lefts = read(stages, jnp.minimum(as_left_end, grid.capacity - 1))
        rights = read(stages, jnp.minimum(as_right_end, grid.capacity - 1))
        total = 0.0
        for c, weights, left, right in zip(fractions, self._weights, lefts, rights):
            of_left, of_right = weights[which], weights[which + 1]
            if of_left != 0:
                exists = as_left_end <= self.top
                total += of_left * jnp.where(exists, left, 0.0)
            if of_right != 0:
                exists = as_right_end <= self.top
                # Inside the first n steps the past is the history, not a piece.
                exists = exists if c == 1 else exists & (i > 0)
                total += of_right * jnp.where(exists, right, 0.0)
        return total

    def from_later_start(self, starts, i):
        """Return the cotangent of the state of row `i` from the step that begins one
        delay later, whose slope at its beginning depends on it."""
        grid = self.system.grid
        later = i + grid.delay_rows
        g_start = read(starts, jnp.minimum(later, grid.capacity - 1))
        return jnp.where(later <= self.top, g_start, 0.0)


def _history_gradient(system: System, params: Problem, stages, starts, top):
    """Return the gradients for the history, and for tau through the history.

    The steps of the first delay have stored the cotangents of the history: `stages`
    those inside them, `starts` those at their beginnings."""
    grid, fractions = system.grid, system.solver.fractions

    def written(cotangents):
        """Set the rows after `top`, which were never visited, to zero."""
        rows = jnp.arange(cotangents.shape[0])
        rows = rows.reshape(-1, *(1,) * (cotangents.ndim - 1))
        return jnp.where(rows <= top, cotangents, 0.0)

    on_rows = written(starts[: grid.delay_rows])
    on_inside = {}
    for k, c in enumerate(fractions):
        on_stage = written(stages[: grid.delay_rows, k])
        if c == 1:
            # The end of a step is the beginning of the next one.
            shifted = jnp.concatenate([jnp.zeros_like(on_stage[:1]), on_stage[:-1]])
            on_rows = on_rows + shifted
        else:
            on_inside[c] = on_stage[: grid.n]

    def states(history, tau):
        moved = eqx.tree_at(
            lambda p: (p.history, p.tau),
            params,
            (history, tau),
            is_leaf=lambda leaf: leaf is None,
        )
        return history_states(system, moved)

    _, vjp = jax.vjp(states, params.history, params.tau)
    return vjp(HistoryStates(on_rows, on_inside))
