"""Losses: how far a trajectory is from the data, and the distances they are made of.

A loss reads the trajectory at fixed times through the dense output, so that it is
continuously differentiable in the delay. (`Integral(nodes="solver")`, the protocol of
the paper, reads it at the nodes of the solver, which move with tau, and has kinks.)
"""

import abc
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._data.data import Data
from .._data.spline import Spline, spline
from .._engine.engine import AbstractPathCost, Points, System
from .._util.arrays import as_parameter
from .path_costs import NodeCosts, PointCosts


class AbstractCost(eqx.Module):
    """A distance of two vectors, `cost(x, target)`. A loss also takes any function of
    two vectors; a class is for costs with settings."""

    @abc.abstractmethod
    def __call__(self, x: jax.Array, target: jax.Array) -> jax.Array: ...


def _checked(weight: jax.Array, x: jax.Array) -> jax.Array:
    """Return the weight, or raise an error unless it is one number or one per
    component."""
    if jnp.shape(weight) not in ((), jnp.shape(x)):
        raise ValueError(
            f"`weight` has shape {jnp.shape(weight)}, but what is compared has shape "
            f"{jnp.shape(x)}. Give one number, or one for each component."
        )
    return weight


@final
class L1(AbstractCost):
    r"""$\sum_i w_i |x_i - \tilde x_i|$, with one weight or one per component.

    >>> float(L1()(np.array([1.0, 2.0]), np.array([0.0, 4.0])))
    3.0
    """

    weight: jax.Array = eqx.field(converter=as_parameter, default=1.0)

    def __call__(self, x: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.sum(_checked(self.weight, x) * jnp.abs(x - target))


@final
class L2(AbstractCost):
    r"""$\sum_i w_i (x_i - \tilde x_i)^2$, the squared norm.

    >>> float(L2(weight=2.0)(np.array([1.0, 2.0]), np.array([0.0, 4.0])))
    10.0
    """

    weight: jax.Array = eqx.field(converter=as_parameter, default=1.0)

    def __call__(self, x: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.sum(_checked(self.weight, x) * (x - target) ** 2)


@final
class Linf(AbstractCost):
    r"""$\max_i w_i |x_i - \tilde x_i|$.

    >>> float(Linf()(np.array([1.0, 2.0]), np.array([0.0, 4.0])))
    2.0
    """

    weight: jax.Array = eqx.field(converter=as_parameter, default=1.0)

    def __call__(self, x: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.max(_checked(self.weight, x) * jnp.abs(x - target))


class Target(NamedTuple):
    """What a loss uses of a data set: points, the spline through the data, or both."""

    points: Any = None  # Points
    spline: Any = None  # Spline

    def pad(self, points: int, pieces: int) -> "Target":
        """Return the same target with this many points, the added ones of weight zero,
        and this many pieces of the spline."""
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


class AbstractLoss(eqx.Module):
    """A loss, described in two ways: as a function of the discrete path (`path_cost`),
    and for the adjoint equation as a function of the continuous trajectory, by a
    running cost, a terminal cost and costs at single times."""

    @abc.abstractmethod
    def prepare(self, data: Data) -> Target:
        """Return what the loss uses of a data set, as arrays."""

    @abc.abstractmethod
    def path_cost(self, system: System, target: Target) -> AbstractPathCost:
        """Return the loss as a function of a solved path."""

    @abc.abstractmethod
    def running_cost(self, system: System, target: Target) -> Callable | None:
        """Return the integrand, as a function of (observe, x, t), or None."""

    @abc.abstractmethod
    def terminal_cost(self, system: System, target: Target) -> Callable | None:
        """Return the cost at T, as a function of (observe, x), or None."""

    @abc.abstractmethod
    def impulses(self, system: System, target: Target) -> PointCosts | None:
        """Return the costs at single times, impulses for the adjoint, or None."""


@final
class SumOfSquares(AbstractLoss):
    r"""$\sum_{j,i} (\hat x_i(t_j) - x_{ji})^2 / \sigma_{ji}^2$ at the measured times;
    without `sd` in the data, $\sigma = 1$. Missing values have no weight, and each of
    several values at one time counts."""

    def prepare(self, data: Data) -> Target:
        measured = np.isfinite(data.x)
        sd = 1.0 if data.sd is None else data.sd
        weights = np.where(measured, sd, np.inf) ** -2.0
        return Target(Points(data.t, np.where(measured, data.x, 0.0), weights))

    def cost(self, x, value, weight, is_last) -> jax.Array:
        return jnp.sum(weight * (x - value) ** 2)

    def path_cost(self, system, target):
        return PointCosts(self.cost, system, target.points)

    def running_cost(self, system, target):
        return None

    def terminal_cost(self, system, target):
        return None

    def impulses(self, system, target):
        return PointCosts(self.cost, system, target.points)


@final
class Integral(AbstractLoss):
    r"""$\int_0^T \ell(x(t), \tilde x(t))\, dt + G(x(T), \tilde x(T))$, where $\tilde x$
    is the cubic spline through the data.

    **Arguments**

    - `running`: $\ell$, and `terminal`: $G$ (none by default). Each is `L1()`, `L2()`,
      `Linf()` or any function of two vectors.
    - `nodes`: the integral is computed by Simpson's rule. The intervals between
      neighbouring data times are divided until there are at least this many. With
      `"solver"` it is computed, as in the paper, by the trapezium rule on the nodes of
      the solver, the last of which may be beyond T.

    >>> Integral(L2()).nodes
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
        """Return Simpson's rule: its times, the target there, and its weights."""
        knots = np.union1d(0.0, np.asarray(target.knots))
        cuts = -(-nodes // (len(knots) - 1))
        fractions = np.arange(2 * cuts) / (2 * cuts)
        times = (knots[:-1, None] + np.diff(knots)[:, None] * fractions).ravel()
        pattern = np.tile([2.0, 4.0], cuts)
        weights = (np.diff(knots)[:, None] / (6 * cuts) * pattern).ravel()
        times, weights = np.append(times, knots[-1]), np.append(weights, 0.0)
        # The first time of an interval has the weight 2, of which one half belongs to
        # the end of the interval before it.
        ends = np.diff(knots) / (6 * cuts)
        weights[:: 2 * cuts][:-1] -= ends
        weights[:: 2 * cuts][1:] += ends
        return Points(times, _evaluate(target, times), weights[:, None])

    def cost(self, x, value, weight, is_last) -> jax.Array:
        total = weight[0] * self.running(x, value)
        if self.terminal is not None:
            total += jnp.where(is_last, self.terminal(x, value), 0.0)
        return total

    def path_cost(self, system, target):
        if self.nodes == "solver":
            return NodeCosts(self.running, self.terminal, system, target.spline)
        return PointCosts(self.cost, system, target.points)

    def running_cost(self, system, target):
        def cost(observe, x, t):
            observed = system.observe(observe, x, t)
            return system.lift(self.running)(observed, target.spline(t))

        return cost

    def terminal_cost(self, system, target):
        terminal = self.terminal
        if terminal is None:
            return None

        def cost(observe, x):
            t = jnp.broadcast_to(system.T, jnp.shape(x)[1:])
            observed = system.observe(observe, x, t)
            return system.lift(terminal)(observed, target.spline(t))

        return cost

    def impulses(self, system, target):
        return None


def _evaluate(target: Spline, times: np.ndarray) -> np.ndarray:
    """Evaluate the spline at many times, by numpy: JAX would compile a program for one
    use."""
    knots, c = np.asarray(target.knots), np.asarray(target.coefficients)
    piece = np.clip(np.searchsorted(knots, times, side="right") - 1, 0, len(c) - 1)
    u, c = (times - knots[piece])[:, None], c[piece]
    return c[:, 0] + u * (c[:, 1] + u * (c[:, 2] + u * c[:, 3]))
