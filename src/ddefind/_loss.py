"""Losses: how far a trajectory is from the data.

A loss reads the trajectory at fixed times through the dense output, so that it is
continuously differentiable in the delay. (`Integral(nodes="solver")`, the published
protocol, reads it at the solver's own nodes, which move with tau: it has kinks.)
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ._arrays import as_parameter
from ._data import Data
from ._engine import System, locate
from ._hermite import hermite
from ._problem import Problem
from ._rows import read, take
from ._spline import Spline, spline


class AbstractCost(eqx.Module):
    """A distance of two vectors, `cost(x, target)`; any such function will do."""

    @abc.abstractmethod
    def __call__(self, x: jax.Array, target: jax.Array) -> jax.Array: ...


@final
class L1(AbstractCost):
    r"""$\sum_i w_i |x_i - \tilde x_i|$, with one weight or one per component.

    >>> float(L1()(np.array([1.0, 2.0]), np.array([0.0, 4.0])))
    3.0
    """

    weight: jax.Array = eqx.field(converter=as_parameter, default=1.0)

    def __call__(self, x, target):
        return jnp.sum(self.weight * jnp.abs(x - target))


@final
class L2(AbstractCost):
    r"""$\sum_i w_i (x_i - \tilde x_i)^2$, the squared norm.

    >>> float(L2(weight=2.0)(np.array([1.0, 2.0]), np.array([0.0, 4.0])))
    10.0
    """

    weight: jax.Array = eqx.field(converter=as_parameter, default=1.0)

    def __call__(self, x, target):
        return jnp.sum(self.weight * (x - target) ** 2)


@final
class Linf(AbstractCost):
    r"""$\max_i w_i |x_i - \tilde x_i|$.

    >>> float(Linf()(np.array([1.0, 2.0]), np.array([0.0, 4.0])))
    2.0
    """

    weight: jax.Array = eqx.field(converter=as_parameter, default=1.0)

    def __call__(self, x, target):
        return jnp.max(self.weight * jnp.abs(x - target))


class Points(NamedTuple):
    """What is compared where, in order of time."""

    times: Any  # [M]
    values: Any  # [M, k]
    weights: Any  # [M, k] or [M, 1]


class Target(NamedTuple):
    """What a loss keeps of a data set: points, the spline through the data, or both."""

    points: Points | None = None
    spline: Spline | None = None

    def pad(self, points: int, pieces: int) -> "Target":
        """The same target with more points, of no weight, and more pieces of spline."""
        padded = self
        if self.points is not None:
            more = points - len(self.points.times)
            times, values, weights = (
                np.pad(a, [(0, more)] + [(0, 0)] * (np.ndim(a) - 1), mode="edge")
                for a in self.points
            )
            weights[len(weights) - more :] = 0.0
            padded = padded._replace(points=Points(times, values, weights))
        if self.spline is not None:
            padded = padded._replace(spline=self.spline.pad(pieces))
        return padded


class AbstractForcing:
    """The loss of a path, and how it pulls at the path's rows (see `pull`)."""

    @abc.abstractmethod
    def value(self, params: Problem, path, last) -> Any: ...

    @abc.abstractmethod
    def begin(self, params: Problem, path, last) -> Any: ...

    @abc.abstractmethod
    def visit(self, i, state, params: Problem, path, last) -> Any: ...


class AbstractLoss(eqx.Module):
    """A loss. It must be a function of the path (`forcing`); for the adjoint equation also
    a function of the continuous trajectory (`running`, `terminal`, `impulses`)."""

    @abc.abstractmethod
    def prepare(self, data: Data) -> Target:
        """What it needs of a data set, as arrays."""

    @abc.abstractmethod
    def forcing(self, system: System, target: Target) -> AbstractForcing: ...

    @abc.abstractmethod
    def running_cost(self, system: System, target: Target) -> Callable | None:
        """The integrand, as a function of (observe, x, t), if there is one."""

    @abc.abstractmethod
    def terminal_cost(self, system: System, target: Target) -> Callable | None:
        """The cost at T, as a function of (observe, x), if there is one."""

    @abc.abstractmethod
    def impulses(self, system: System, target: Target) -> "PointForcing | None":
        """The costs at single times, if there are any."""


@final
class SumOfSquares(AbstractLoss):
    r"""$\sum_{j,i} (\hat x_i(t_j) - x_{ji})^2 / \sigma_{ji}^2$ at the measured times;
    without `sd` in the data, $\sigma = 1$. Gaps and replicates count as they are."""

    def prepare(self, data: Data) -> Target:
        measured = np.isfinite(data.x)
        weights = np.ones_like(data.x) if data.sd is None else data.sd**-2.0
        values = np.where(measured, data.x, 0.0)
        return Target(Points(data.t, values, np.where(measured, weights, 0.0)))

    def cost(self, x, value, weight, is_last):
        return jnp.sum(weight * (x - value) ** 2)

    def forcing(self, system, target):
        return PointForcing(self.cost, system, target.points)

    def running_cost(self, system, target):
        return None

    def terminal_cost(self, system, target):
        return None

    def impulses(self, system, target):
        return PointForcing(self.cost, system, target.points)


@final
class Integral(AbstractLoss):
    r"""$\int_0^T \ell(x(t), \tilde x(t))\, dt + G(x(T), \tilde x(T))$, where $\tilde x$ is
    the cubic spline through the data.

    **Arguments**

    - `running`: $\ell$, and `terminal`: $G$ (none by default): `L1()`, `L2()`, `Linf()` or
      any function of two vectors.
    - `nodes`: the integral is Simpson's rule between neighbouring data times, which are cut
      until there are at least this many intervals. With `"solver"` it is the trapezium
      rule on the solver's own nodes, beyond T if they end there, as the paper does.

    >>> Integral(L1()).nodes
    100
    """

    running: Callable = L2()
    terminal: Callable | None = None
    nodes: int | Literal["solver"] = eqx.field(static=True, default=100)

    def __check_init__(self):
        for name in ("running", "terminal"):
            value = getattr(self, name)
            if isinstance(value, type):
                raise TypeError(
                    f"`{name}` must be an instance, as `L2()`, but got the class "
                    f"`{value.__name__}`."
                )
            if not callable(value) and not (name == "terminal" and value is None):
                raise TypeError(f"`{name}` must be a function, but got {value!r}.")
        if self.nodes != "solver" and not (
            isinstance(self.nodes, int) and self.nodes >= 1
        ):
            raise ValueError(
                f'`nodes` must be a positive integer or "solver", got {self.nodes!r}.'
            )

    def prepare(self, data: Data) -> Target:
        target = spline(data)
        if self.nodes == "solver":
            return Target(spline=target)
        return Target(self._points(target, self.nodes), target)

    @staticmethod
    def _points(target: Spline, nodes: int) -> Points:
        """Simpson's rule: times and weights, with the target there."""
        knots = np.union1d(0.0, np.asarray(target.knots))
        cuts = -(-nodes // (len(knots) - 1))
        fractions = np.arange(2 * cuts) / (2 * cuts)
        times = (knots[:-1, None] + np.diff(knots)[:, None] * fractions).ravel()
        pattern = np.tile([2.0, 4.0], cuts)
        weights = (np.diff(knots)[:, None] / (6 * cuts) * pattern).ravel()
        times, weights = np.append(times, knots[-1]), np.append(weights, 0.0)
        # The first of every interval was counted twice: half belongs to the one before.
        ends = np.diff(knots) / (6 * cuts)
        weights[:: 2 * cuts][:-1] -= ends
        weights[:: 2 * cuts][1:] += ends
        return Points(times, _evaluate(target, times), weights[:, None])

    def cost(self, x, value, weight, is_last):
        total = weight[0] * self.running(x, value)
        if self.terminal is not None:
            total += jnp.where(is_last, self.terminal(x, value), 0.0)
        return total

    def forcing(self, system, target):
        if self.nodes == "solver":
            return NodeForcing(self, system, target.spline)
        return PointForcing(self.cost, system, target.points)

    def running_cost(self, system, target):
        def cost(observe, x, t):
            seen = system.observe(observe, x, t)
            return system.lift(self.running)(seen, target.spline(t))

        return cost

    def terminal_cost(self, system, target):
        terminal = self.terminal
        if terminal is None:
            return None

        def cost(observe, x):
            t = jnp.broadcast_to(system.T, jnp.shape(x)[1:])
            seen = system.observe(observe, x, t)
            return system.lift(terminal)(seen, target.spline(t))

        return cost

    def impulses(self, system, target):
        return None


def _evaluate(target: Spline, times: np.ndarray) -> np.ndarray:
    """The spline at many times in numpy: at set-up JAX would compile for nothing."""
    knots, c = np.asarray(target.knots), np.asarray(target.coefficients)
    piece = np.clip(np.searchsorted(knots, times, side="right") - 1, 0, len(c) - 1)
    u, c = (times - knots[piece])[:, None], c[piece]
    return c[:, 0] + u * (c[:, 1] + u * (c[:, 2] + u * c[:, 3]))


class ForcingState(NamedTuple):
    loss: Any
    tau: Any
    observe: Any
    more: Any = ()


@final
@dataclass(frozen=True)
class PointForcing(AbstractForcing):
    """A sum of costs at fixed times, and its derivative.

    Each point depends on the two rows at the ends of its piece. Row i is visited with the
    points on the piece before it, last first; what they ask of row i - 1 waits one visit.
    """

    cost: Callable
    system: System
    points: Points

    def shares(self, params: Problem, path, last):
        """For each point a function of (observe, tau, left, right), and those two rows."""
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

    loss: Integral
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
        total = (
            0.5 * (before + after) * self.system.lift(self.loss.running)(seen, target)
        )
        if self.loss.terminal is not None:
            end = self.system.lift(self.loss.terminal)(seen, target)
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
