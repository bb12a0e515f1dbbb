r"""Least squares of a model: its tasks, its normal equations, and their minimum.

$S = \sum_{j,i} w_{ji} (\hat x_i(t_j) - x_{ji})^2$ at the measured times, with w = 1 /
sd^2, plus what priors add."""

import math
from typing import Any, NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
from jax import lax

from .._loss.path_costs import Points
from .._problem.free_parameters import FreeParameters
from .._problem.problem import Problem
from .._solve.grid import Grid
from .._solve.runge_kutta import AbstractSolver
from .._solve.system import System
from .._util.buffers import read
from .levenberg_marquardt import Box, Found, Normal, minimise
from .sensitivity import Extended, Ring, visit

# Residuals that are rounding errors, relative to the data: the square of 1e-12.
_ROUNDING = 1e-24


class Priors(NamedTuple):
    """What is known of the free values beforehand: (g(theta) - mean)^2 * weight is
    added to S, with g the identity or, where `log`, the logarithm. `weight` zero:
    nothing."""

    mean: Any
    weight: Any
    log: Any


@final
class Model(eqx.Module):
    """Everything of a least-squares problem that its fits share.

    `free` maps free values without transforming them: bounds are kept by the method.
    `huber`: residuals beyond so many standard deviations count linearly."""

    free: FreeParameters = eqx.field(static=True)
    learned: Problem
    fixed: Problem
    solver: AbstractSolver
    priors: Priors | None
    dimension: int = eqx.field(static=True)
    huber: float | None = eqx.field(static=True)

    @property
    def observes(self) -> bool:
        """Whether something else than the state itself is measured."""
        return self.fixed.observe is not None or self.learned.observe is not None

    def extended(self, theta, n, T) -> Extended:
        """The model at the free values `theta`, with n steps in a delay."""
        jump = self.learned.initial is not None or self.fixed.initial is not None
        system = System(self.fixed, self.solver, Grid(n, jump, 0), T, self.dimension)
        return Extended(
            system, lambda theta: self.free.join(theta, self.learned), theta
        )


class Task(NamedTuple):
    """One fit: where it starts, what it may do, and its data.

    There are `n` steps in a delay or, where that is more, `rate` in a unit of time. A
    rate follows the delay, but its steps jump: it is for looks, not for the end."""

    theta: Any
    box: Box
    points: Points
    n: Any
    rate: Any
    limit: Any  # of the number of evaluations


def normal_equations(model: Model, theta, points: Points, n, ring: Ring):
    """The normal equations at the free values `theta`, with n steps in a delay."""
    extended = model.extended(theta, n, points.times[-1])

    def add(total: Normal, j, seen):
        weight = read(points.weights, j)
        residual = seen[:, 0] - read(points.values, j)
        measured = jnp.where(weight > 0, residual**2, 0.0)
        rows = jnp.concatenate([residual[:, None], seen[:, 1:]], axis=1)
        if model.huber is not None:
            most = model.huber**2 / jnp.where(weight > 0, weight, 1.0)
            measured = jnp.minimum(measured, most) / _clipped(model.huber)
            rows = _robust(model.huber, weight, rows)
        products = rows[:, :, None] * rows[:, None, :]
        gram = total.gram + jnp.sum(weight[:, None, None] * products, axis=0)
        return Normal(gram, total.squares + measured)

    size = 1 + theta.shape[0]
    nothing = Normal(jnp.zeros((size, size)), jnp.zeros(jnp.shape(points.values)[1:]))
    total, ring = visit(extended, points, ring, add, nothing)
    if model.priors is not None:
        total = total._replace(gram=total.gram + _prior_gram(model.priors, theta))
    return total, ring


def _robust(huber: float, weight, rows):
    r"""Huber's loss as a square: beyond `huber` standard deviations the residual is
    replaced by the root of the loss, $\sqrt{k(2|r| - k)}$, and the Jacobian by its
    derivatives."""
    size = jnp.sqrt(weight) * jnp.abs(rows[:, 0])
    far = size > huber
    safe = jnp.where(far, size, huber)
    root = jnp.sqrt(huber * (2 * safe - huber))
    of_residual = jnp.where(far, root / safe, 1.0)
    of_slope = jnp.where(far, huber / root, 1.0)
    scale = jnp.concatenate(
        [of_residual[:, None], jnp.broadcast_to(of_slope[:, None], rows[:, 1:].shape)],
        axis=1,
    )
    return rows * scale


def _clipped(huber: float) -> float:
    """The mean square of a standard Gaussian number that is clipped at `huber`: what
    outliers are clipped to must not count as noise (Huber's second proposal)."""
    inside = math.erf(huber / math.sqrt(2))
    density = math.exp(-(huber**2) / 2) / math.sqrt(2 * math.pi)
    return inside - 2 * huber * density + huber**2 * (1 - inside)


def _prior_gram(priors: Priors, theta):
    size = jnp.where(priors.log, jnp.where(theta > 0, theta, jnp.nan), 1.0)
    away = jnp.where(priors.log, jnp.log(size), theta) - priors.mean
    weight = priors.weight
    away = jnp.where(weight > 0, away, 0.0)
    slope = jnp.where(weight > 0, 1 / size, 0.0)
    corner = jnp.sum(weight * away**2)[None, None]
    side = (weight * away * slope)[None]
    square = jnp.diag(weight * slope**2)
    return jnp.block([[corner, side], [side.T, square]])


def refine(model: Model, task: Task, capacity: int) -> Found:
    """The minimum of one fit, from its start."""
    values, weights = jnp.asarray(task.points.values), task.points.weights

    def evaluate(theta, ring):
        tau = model.free.join(theta, model.learned).tau
        by_rate = jnp.minimum(jnp.ceil(task.rate * tau), capacity - 4)
        n = jnp.maximum(task.n, by_rate.astype(int))
        return normal_equations(model, theta, task.points, n, ring)

    return minimise(
        evaluate,
        task.theta,
        task.box,
        task.limit,
        values.shape[1],
        _ROUNDING * jnp.sum(weights * values**2),
        model.extended(task.theta, task.n, 0.0).ring(capacity),
    )


@eqx.filter_jit
def fit_block(model: Model, tasks: Task, capacity: int) -> Found:
    """Many fits, one after the other in one program; arrays have a first axis over
    fits. One whose limit is zero costs nothing."""
    return lax.map(lambda task: refine(model, task, capacity), tasks)
