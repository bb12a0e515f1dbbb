"""How a loss depends on a solved path: its value, and its derivatives for the rows.

`PointCosts` is a sum of costs at fixed times, at which it reads the dense output.
`NodeCosts` is an integral by the trapezium rule on the nodes of the solver."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
from jax import lax

from .._engine.aligned.path import (
    DenseOutput,
    MeshPath,
    add_two,
    hermite,
    hermite_at,
    hermite_slope,
    pull_hermite,
    read_two,
    slope_weights,
    state_weights,
)
from .._engine.engine import (
    AbstractPathCost,
    AbstractPointCost,
    MeshCost,
    PathCostState,
    Points,
    System,
)
from .._problem.problem import Problem
from .._util.arrays import read, take


@final
@dataclass(frozen=True)
class PointCosts(AbstractPointCost):
    """A sum of costs at fixed times: `cost(observed, value, weight, is_last)`.

    Each point depends on the two rows at the ends of the step in which it lies. The
    points of the step before row i are treated when row i is visited, the last one
    first; their cotangents for row i - 1 are kept until the next visit."""

    cost: Callable[..., jax.Array]
    system: System
    points: Points

    def cost_at(self, j, t, value, weight) -> Callable[[Any, jax.Array], jax.Array]:
        """Return the cost of point `j`, at the time `t`, as a function of (observe,
        x)."""
        is_last = jnp.broadcast_to(j == self.points.times.shape[0] - 1, jnp.shape(t))

        def cost(observe, x):
            observed = self.system.observe(observe, x, t)
            return self.system.lift(self.cost)(observed, value, weight, is_last)

        return cost

    def value(self, params: Problem, path: jax.Array, last: Any) -> jax.Array:
        grid = self.system.grid
        return self.total(params, DenseOutput(grid, path, grid.step(params.tau), last))

    def total(self, params: Problem, x: Callable[[Any], jax.Array]) -> jax.Array:
        def at(j, t, value, weight):
            return self.cost_at(j, t, value, weight)(params.observe, x(t))

        count = self.points.times.shape[0]
        return jnp.sum(jax.vmap(at)(jnp.arange(count), *self.points), axis=0)

    def on_mesh(self, params: Problem, path: MeshPath) -> MeshCost:
        """Return the sum of the costs of a solution on a mesh, and its cotangents.

        The points are visited in the order of time in one loop, which adds the
        cotangents of each to the two rows of its piece."""
        count = self.points.times.shape[0]

        def point(j, carry):
            piece, cost = carry
            t, value, weight = (read(jnp.asarray(a), j) for a in self.points)
            piece = lax.while_loop(
                lambda i: (i < path.last - 1) & (read(path.times, i + 1) <= t),
                lambda i: i + 1,
                piece,
            )
            rows, ends = read_two(path.rows, piece), read_two(path.times, piece)
            x = hermite_at(t, ends[0], ends[1], rows[0], rows[1])
            one, vjp = jax.vjp(self.cost_at(j, t, value, weight), params.observe, x)
            on_observe, on_x = vjp(jnp.ones_like(one))
            by_rows, by_ends, _ = pull_hermite(t, ends, rows, on_x)
            return piece, MeshCost(
                cost.value + one,
                jax.tree.map(jnp.add, cost.on_observe, on_observe),
                add_two(cost.on_rows, piece, by_rows),
                add_two(cost.on_times, piece, by_ends),
            )

        zeros = jax.tree.map(jnp.zeros_like, (params.observe, path.rows, path.times))
        start = jnp.asarray(0), MeshCost(jnp.zeros(()), *zeros)
        return lax.fori_loop(0, count, point, start)[1]

    def derivatives(self, params: Problem, states: jax.Array) -> tuple[Any, jax.Array]:
        """Return the gradient of the sum for the parameters of `observe`, and the
        gradient of each cost for the state at its time, given these states [M, d]."""

        def at(j, x, *point):
            cost, vjp = jax.vjp(self.cost_at(j, *point), params.observe, x)
            return vjp(jnp.ones_like(cost))

        count = self.points.times.shape[0]
        observe, on_states = jax.vmap(at)(jnp.arange(count), states, *self.points)
        return jax.tree.map(lambda g: jnp.sum(g, axis=0), observe), on_states

    def begin(self, params: Problem, path: jax.Array, last: Any) -> PathCostState:
        zero = jnp.zeros_like(params.tau)
        observe = jax.tree.map(jnp.zeros_like, params.observe)
        # The positions (times over h), after a first one before all steps, at which the
        # walk through the points ends.
        positions = jnp.asarray(self.points.times) / self.system.grid.step(params.tau)
        positions = jnp.concatenate([jnp.full_like(positions[:1], -2.0), positions])
        j = jnp.full(zero.shape, self.points.times.shape[0])
        kept = (jnp.zeros_like(path[0, 0]),) * 2
        return PathCostState(
            zero, zero, observe, (j, take(positions, j), kept, positions)
        )

    def visit(self, i, state: PathCostState, params: Problem, path, last):
        """Visit the points in the step before row i. `state.more` holds the number j of
        points that are still to come, the position of the last of them, the cotangents
        that were kept for this row, and all positions."""
        grid, lanes = self.system.grid, self.system.lanes is not None
        j, position, kept, positions = state.more
        node = grid.node(i - 1)

        def is_here(position):
            """Whether a point lies in the step before row i."""
            return (position >= node) & (i <= last)

        def any_here(carry):
            return jnp.any(is_here(carry[1]))

        def one(carry):
            j, position, *sums = carry
            rows = read(path, i - 1 + grid.delay_rows), read(path, i + grid.delay_rows)
            new = self.at_point(j - 1, position, position - node, params, *rows)
            after = j - 1
            if lanes:
                here = is_here(position)
                new = jax.tree.map(lambda a: jnp.where(here, a, 0.0), new)
                after = jnp.where(here, after, j)
            sums = jax.tree.map(jnp.add, tuple(sums), new)
            return after, take(positions, after), *sums

        totals = state.loss, state.tau, state.observe
        zeros = jax.tree.map(jnp.zeros_like, kept)
        carry = j, position, totals, zeros, kept
        j, position, totals, kept, here = lax.while_loop(any_here, one, carry)
        return PathCostState(*totals, (j, position, kept, positions)), *here

    def at_point(self, j, position, u, params: Problem, left, right):
        """Return the loss of point `j`, its gradients for tau and `observe`, and its
        cotangents for the two rows of its step, at the fraction `u` of it."""
        grid = self.system.grid
        h = grid.step(params.tau)
        x = hermite(u, left, right, h)
        _, values, weights = self.points
        cost = self.cost_at(j, position * h, take(values, j), take(weights, j))
        loss, vjp = jax.vjp(cost, params.observe, x)
        on_observe, g = vjp(jnp.ones_like(loss))
        (a0, a1), (b0, b1) = state_weights(u), slope_weights(u)
        # dx / dh: as tau grows, the step grows, and the point, whose time is fixed,
        # moves towards the beginning of the step.
        slope = hermite_slope(u, left, right, h)
        by_h = b0 * left[1] + b1 * right[1] - position * slope
        on_tau = jnp.sum(g * by_h, axis=0) / grid.n
        on_rows = (a0 * g, h * b0 * g), (a1 * g, h * b1 * g)
        return (loss, on_tau, on_observe), *on_rows


@final
@dataclass(frozen=True)
class NodeCosts(AbstractPathCost):
    """The integral of a running cost by the trapezium rule on the solver's nodes, up to
    the first one at or after T, and a terminal cost at that node."""

    running: Callable[..., jax.Array]
    terminal: Callable[..., jax.Array] | None
    system: System
    target: Callable[[Any], jax.Array]

    def begin(self, params: Problem, path: jax.Array, last: Any) -> PathCostState:
        zero = jnp.zeros_like(params.tau)
        observe = jax.tree.map(jnp.zeros_like, params.observe)
        return PathCostState(zero, zero, observe)

    def at(self, i, observe, tau, x, last) -> jax.Array:
        """Return the part of the loss that belongs to row `i`."""
        grid = self.system.grid
        h = grid.step(tau)
        t = grid.node(i) * h
        before = jnp.where(i > 0, grid.length(i - 1, h), 0.0)
        after = jnp.where(i < last, grid.length(i, h), 0.0)
        observed, target = self.system.observe(observe, x, t), self.target(t)
        total = (
            0.5 * (before + after) * self.system.lift(self.running)(observed, target)
        )
        if self.terminal is not None:
            end = self.system.lift(self.terminal)(observed, target)
            total += jnp.where(i == last, end, 0.0)
        return jnp.where(i <= last, total, 0.0)

    def visit(self, i, state: PathCostState, params: Problem, path, last):
        x = read(path, i + self.system.grid.delay_rows)[0]

        def part(observe, tau, x):
            return self.at(i, observe, tau, x, last)

        loss, vjp = jax.vjp(part, params.observe, params.tau, x)
        on_observe, on_tau, on_x = vjp(jnp.ones_like(loss))
        old = state.loss, state.tau, state.observe
        new = jax.tree.map(jnp.add, old, (loss, on_tau, on_observe))
        return PathCostState(*new), on_x, None

    def value(self, params: Problem, path: jax.Array, last: Any) -> jax.Array:
        def add(i, total):
            x = read(path, i + self.system.grid.delay_rows)[0]
            return total + self.at(i, params.observe, params.tau, x, last)

        start = jnp.zeros_like(params.tau)
        return lax.fori_loop(0, jnp.max(last) + 1, add, start)
