"""How a loss reads a path, and pulls at its rows.

`PointCosts` reads the dense output at fixed times; `NodeCosts` reads the solver's
own nodes."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jax import lax

from .._data.spline import Spline
from .._problem.problem import Problem
from .._solve.hermite import hermite, hermite_slope, slope_weights, state_weights
from .._solve.march import System, dense
from .._util.buffers import read, take


class Points(NamedTuple):
    """What is compared where, in order of time."""

    times: Any  # [M]
    values: Any  # [M, k]
    weights: Any  # [M, k] or [M, 1]


class AbstractPathCost:
    """The loss of a path, and how it pulls at the path's rows (see `pull`)."""

    @abc.abstractmethod
    def value(self, params: Problem, path, last) -> Any: ...

    @abc.abstractmethod
    def begin(self, params: Problem, path, last) -> Any: ...

    @abc.abstractmethod
    def visit(self, i, state, params: Problem, path, last) -> Any: ...


class PathCostState(NamedTuple):
    loss: Any
    tau: Any
    observe: Any
    more: Any = ()


@final
@dataclass(frozen=True)
class PointCosts(AbstractPathCost):
    """A sum of costs at fixed times, and its derivative.

    Each point depends on the two rows at the ends of its piece. Row i is visited with
    the points on the piece before it, last first; what they ask of row i - 1 waits one
    visit."""

    cost: Callable
    system: System
    points: Points

    def cost_at(self, j, s, value, weight):
        """The cost of point `j`, at time `s`, as a function of (observe, x)."""
        is_last = jnp.broadcast_to(j == self.points.times.shape[0] - 1, jnp.shape(s))

        def cost(observe, x):
            seen = self.system.observe(observe, x, s)
            return self.system.lift(self.cost)(seen, value, weight, is_last)

        return cost

    def value(self, params: Problem, path, last):
        grid = self.system.grid
        h = grid.step(params.tau)

        def at(j, s, value, weight):
            x = dense(grid, path, h, last, s)
            return self.cost_at(j, s, value, weight)(params.observe, x)

        count = self.points.times.shape[0]
        return jnp.sum(jax.vmap(at)(jnp.arange(count), *self.points), axis=0)

    def slopes(self, params: Problem, states):
        """The gradient of the sum for `observe`, and of each cost for the state there,
        given the states [M, d]."""

        def at(j, x, *point):
            found, back = jax.vjp(self.cost_at(j, *point), params.observe, x)
            return back(jnp.ones_like(found))

        count = self.points.times.shape[0]
        observe, slopes = jax.vmap(at)(jnp.arange(count), states, *self.points)
        return jax.tree.map(lambda g: jnp.sum(g, axis=0), observe), slopes

    def begin(self, params: Problem, path, last) -> PathCostState:
        zero = jnp.zeros_like(params.tau)
        observe = jax.tree.map(jnp.zeros_like, params.observe)
        # Times over h, after a first one that no piece reaches: there the walk ends.
        places = jnp.asarray(self.points.times) / self.system.grid.step(params.tau)
        places = jnp.concatenate([jnp.full_like(places[:1], -2.0), places])
        j = jnp.full(zero.shape, self.points.times.shape[0])
        waiting = (jnp.zeros_like(path[0, 0]),) * 2
        return PathCostState(zero, zero, observe, (j, take(places, j), waiting, places))

    def visit(self, i, state: PathCostState, params: Problem, path, last):
        grid, lanes = self.system.grid, self.system.lanes is not None
        j, place, waiting, places = state.more
        begins = grid.node(i - 1)

        def is_here(place):
            return (place >= begins) & (i <= last)

        def any_here(carry):
            return jnp.any(is_here(carry[1]))

        def one(carry):
            j, place, *sums = carry
            rows = read(path, i - 1 + grid.delay_rows), read(path, i + grid.delay_rows)
            new = self.share(j - 1, place, place - begins, params, *rows)
            after = j - 1
            if lanes:
                here = is_here(place)
                new = jax.tree.map(lambda a: jnp.where(here, a, 0.0), new)
                after = jnp.where(here, after, j)
            return after, take(places, after), *jax.tree.map(jnp.add, tuple(sums), new)

        totals = state.loss, state.tau, state.observe
        nothing = jax.tree.map(jnp.zeros_like, waiting)
        carry = j, place, totals, nothing, waiting
        j, place, totals, waiting, here = lax.while_loop(any_here, one, carry)
        return PathCostState(*totals, (j, place, waiting, places)), *here

    def share(self, j, place, u, params: Problem, left, right):
        """What point `j` adds to the loss and to the gradients of tau and `observe`,
        and what it asks of the two rows of its piece, at the fraction `u` of it."""
        grid = self.system.grid
        h = grid.step(params.tau)
        x = hermite(u, left, right, h)
        _, values, weights = self.points
        cost = self.cost_at(j, place * h, take(values, j), take(weights, j))
        loss, back = jax.vjp(cost, params.observe, x)
        on_observe, g = back(jnp.ones_like(loss))
        (a0, a1), (b0, b1) = state_weights(u), slope_weights(u)
        # As tau grows, the piece grows, and the point comes to stand earlier in it.
        moved = b0 * left[1] + b1 * right[1] - place * hermite_slope(u, left, right, h)
        on_tau = jnp.sum(g * moved, axis=0) / grid.n
        asked = (a0 * g, h * b0 * g), (a1 * g, h * b1 * g)
        return (loss, on_tau, on_observe), *asked


@final
@dataclass(frozen=True)
class NodeCosts(AbstractPathCost):
    """The derivative of an integral by the trapezium rule on the solver's nodes."""

    running: Callable
    terminal: Callable | None
    system: System
    target: Spline

    def begin(self, params: Problem, path, last) -> PathCostState:
        zero = jnp.zeros_like(params.tau)
        observe = jax.tree.map(jnp.zeros_like, params.observe)
        return PathCostState(zero, zero, observe)

    def at(self, i, observe, tau, x, last):
        """The share of row `i` in the loss."""
        grid = self.system.grid
        h = grid.step(tau)
        t = grid.node(i) * h
        before = jnp.where(i > 0, grid.length(i - 1, h), 0.0)
        after = jnp.where(i < last, grid.length(i, h), 0.0)
        seen, target = self.system.observe(observe, x, t), self.target(t)
        total = 0.5 * (before + after) * self.system.lift(self.running)(seen, target)
        if self.terminal is not None:
            end = self.system.lift(self.terminal)(seen, target)
            total += jnp.where(i == last, end, 0.0)
        return jnp.where(i <= last, total, 0.0)

    def visit(self, i, state: PathCostState, params: Problem, path, last):
        x = read(path, i + self.system.grid.delay_rows)[0]

        def share(observe, tau, x):
            return self.at(i, observe, tau, x, last)

        found, back = jax.vjp(share, params.observe, params.tau, x)
        on_observe, on_tau, on_x = back(jnp.ones_like(found))
        old = state.loss, state.tau, state.observe
        new = jax.tree.map(jnp.add, old, (found, on_tau, on_observe))
        return PathCostState(*new), on_x, None

    def value(self, params: Problem, path, last):
        def add(i, total):
            x = read(path, i + self.system.grid.delay_rows)[0]
            return total + self.at(i, params.observe, params.tau, x, last)

        start = jnp.zeros_like(params.tau)
        return lax.fori_loop(0, jnp.max(last) + 1, add, start)
