"""How a loss reads a path, and pulls at its rows.

`PointForcing` reads the dense output at fixed times; `NodeForcing` reads the solver's
own nodes."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jax import lax

from ._engine import System, locate
from ._hermite import hermite
from ._problem import Problem
from ._rows import read, take
from ._spline import Spline


class Points(NamedTuple):
    """What is compared where, in order of time."""

    times: Any  # [M]
    values: Any  # [M, k]
    weights: Any  # [M, k] or [M, 1]


class AbstractForcing:
    """The loss of a path, and how it pulls at the path's rows (see `pull`)."""

    @abc.abstractmethod
    def value(self, params: Problem, path, last) -> Any: ...

    @abc.abstractmethod
    def begin(self, params: Problem, path, last) -> Any: ...

    @abc.abstractmethod
    def visit(self, i, state, params: Problem, path, last) -> Any: ...


class ForcingState(NamedTuple):
    loss: Any
    tau: Any
    observe: Any
    more: Any = ()


@final
@dataclass(frozen=True)
class PointForcing(AbstractForcing):
    """A sum of costs at fixed times, and its derivative.

    Each point depends on the two rows at the ends of its piece. Row i is visited with
    the points on the piece before it, last first; what they ask of row i - 1 waits one
    visit."""

    cost: Callable
    system: System
    points: Points

    def shares(self, params: Problem, path, last):
        """For each point a function of (observe, tau, left, right), and those two
        rows."""
        grid, count = self.system.grid, self.points.times.shape[0]
        h = grid.step(params.tau)

        def share(j, s, value, weight):
            node, row = locate(grid, s, h, last)

            def cost(observe, tau, left, right):
                h = grid.step(tau)
                x = hermite(s / h - node, left, right, h)
                # Times and indices are shared by the lanes, which `lift` maps over.
                seen = self.system.observe(observe, x, jnp.broadcast_to(s, tau.shape))
                is_last = jnp.full(tau.shape, j == count - 1)
                return self.system.lift(self.cost)(seen, value, weight, is_last)

            return cost, (take(path, row), take(path, row + 1)), node

        return share, (jnp.arange(count), *self.points)

    def value(self, params: Problem, path, last):
        share, points = self.shares(params, path, last)

        def at(*point):
            cost, pieces, _ = share(*point)
            return cost(params.observe, params.tau, *pieces)

        return jnp.sum(jax.vmap(at)(*points), axis=0)

    def slopes(self, params: Problem, states):
        """The gradient of each cost for the state there, given the states [M, d]."""
        count = self.points.times.shape[0]

        def at(j, x, s, value, weight):
            def cost(x):
                t = jnp.broadcast_to(s, params.tau.shape)
                seen = self.system.observe(params.observe, x, t)
                is_last = jnp.full(params.tau.shape, j == count - 1)
                return self.system.lift(self.cost)(seen, value, weight, is_last)

            found, back = jax.vjp(cost, x)
            return back(jnp.ones_like(found))[0]

        return jax.vmap(at)(jnp.arange(count), states, *self.points)

    def begin(self, params: Problem, path, last) -> ForcingState:
        share, points = self.shares(params, path, last)

        def at(*point):
            cost, pieces, node = share(*point)
            loss, back = jax.vjp(cost, params.observe, params.tau, *pieces)
            on_observe, on_tau, left, right = back(jnp.ones_like(loss))
            return (loss, on_tau, on_observe), jnp.stack([left, right]), node

        totals, asked, nodes = jax.vmap(at)(*points)
        loss, tau, observe = jax.tree.map(lambda g: jnp.sum(g, axis=0), totals)
        j = jnp.full(params.tau.shape, self.points.times.shape[0] - 1)
        more = j, take(nodes, j), jnp.zeros_like(path[0]), asked, nodes
        return ForcingState(loss, tau, observe, more)

    def visit(self, i, state: ForcingState, params: Problem, path, last):
        begins, lanes = self.system.grid.node(i - 1), self.system.lanes is not None
        j, node, waiting, asked, nodes = state.more

        def any_left(carry):
            return jnp.any(carry[1] >= begins)

        def one(carry):
            j, node, total = carry
            new = take(asked, jnp.maximum(j, 0))
            if lanes:
                new = jnp.where(node >= begins, new, 0.0)
                j = jnp.where(node >= begins, j - 1, j)
            else:
                j = j - 1
            node = jnp.where(j < 0, -2, take(nodes, jnp.maximum(j, 0)))
            return j, node, total + new

        total = jnp.stack([jnp.zeros_like(waiting), waiting])
        j, node, total = lax.while_loop(any_left, one, (j, node, total))
        waiting, here = total
        return state._replace(more=(j, node, waiting, asked, nodes)), here[0], here[1]


@final
@dataclass(frozen=True)
class NodeForcing(AbstractForcing):
    """The derivative of an integral by the trapezium rule on the solver's nodes."""

    running: Callable
    terminal: Callable | None
    system: System
    target: Spline

    def begin(self, params: Problem, path, last) -> ForcingState:
        zero = jnp.zeros_like(params.tau)
        observe = jax.tree.map(jnp.zeros_like, params.observe)
        return ForcingState(zero, zero, observe)

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

    def visit(self, i, state: ForcingState, params: Problem, path, last):
        x = read(path, i + self.system.grid.lag)[0]

        def share(observe, tau, x):
            return self.at(i, observe, tau, x, last)

        found, back = jax.vjp(share, params.observe, params.tau, x)
        on_observe, on_tau, on_x = back(jnp.ones_like(found))
        old = state.loss, state.tau, state.observe
        new = jax.tree.map(jnp.add, old, (found, on_tau, on_observe))
        return ForcingState(*new), on_x, None

    def value(self, params: Problem, path, last):
        def add(i, total):
            x = read(path, i + self.system.grid.lag)[0]
            return total + self.at(i, params.observe, params.tau, x, last)

        start = jnp.zeros_like(params.tau)
        return lax.fori_loop(0, jnp.max(last) + 1, add, start)
