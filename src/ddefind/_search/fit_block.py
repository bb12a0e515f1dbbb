"""Fits from many starts, one after the other in one compiled program.

`StartTask` is what belongs to one start, `fit_one` minimises the sum of squares from
there, and `fit_block` does so for a block of starts."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from .._loss.path_costs import Points
from .._solve.mesh import Mesh
from .levenberg_marquardt import Box, Convergence, MinimiserResult, minimise
from .normal_equations import (
    LeastSquaresModel,
    normal_equations,
    row_equations,
    work_buffer,
)
from .sensitivity import AdaptiveSteps, Extended

# Residuals of 1e-12 of the data are rounding errors; this is the square of it.
_ROUNDING = 1e-24


class StartTask(NamedTuple):
    """One start of a fit: where it begins, its bounds, its data and its step size.

    The solver takes `n` steps per delay, or `rate` steps per unit of time where that
    is more. The number of steps that a `rate` gives changes with the delay from one
    iteration to the next, which makes S slightly discontinuous. A positive `rate`
    therefore serves short preliminary fits only; refinements to convergence use
    rate = 0. On a mesh the solver takes `n` steps in the record, and no `rate` is
    needed."""

    theta: Any  # [p]
    box: Box
    points: Points
    n: Any
    rate: Any
    limit: Any  # the largest number of evaluations


def fit_one(
    model: LeastSquaresModel,
    task: StartTask,
    capacity: int,
    convergence: Convergence | None = None,
) -> MinimiserResult:
    """Minimise the sum of squares of one task, inside a compiled program.

    `capacity` is the number of rows of the solver's memory, which limits the steps.
    What counts as `convergence` is up to the model if it is not given."""
    values, weights = jnp.asarray(task.points.values), task.points.weights
    steps = model.steps(task.theta, task.n, task.points.times[-1], capacity)

    def linearise(theta, memory):
        own = _at_least(model, task, theta, steps, capacity)
        equations = row_equations if model.stores_rows else normal_equations
        return equations(model, theta, task.points, own, memory)

    tiny = _ROUNDING * jnp.sum(weights * values**2)
    scale = None
    if model.likelihood is not None:
        tiny, scale = -jnp.inf, jnp.sum(model.likelihood.count)
    return minimise(
        linearise,
        task.theta,
        task.box,
        task.limit,
        tiny,
        work_buffer(model, task.theta, steps, capacity),
        model.convergence(steps) if convergence is None else convergence,
        scale,
    )


def _at_least(
    model: LeastSquaresModel, task: StartTask, theta: jax.Array, steps, capacity: int
):
    """The steps of a task, with as many per delay as its `rate` asks for."""
    if isinstance(steps, Mesh | AdaptiveSteps):
        return steps
    if model.experiments is not None:
        return model.for_each_part(
            lambda part, _, local, own: _at_least(part, task, local, own, capacity),
            theta,
            steps,
        )
    sensitivity = model.sensitivity(theta, steps, 0.0)
    assert isinstance(sensitivity, Extended)
    tau = sensitivity.tau(sensitivity.join(theta))
    by_rate = jnp.minimum(jnp.ceil(task.rate * tau), capacity - 4)
    return jnp.maximum(steps, by_rate.astype(int))


@eqx.filter_jit
def fit_block(
    model: LeastSquaresModel, tasks: StartTask, capacity: int
) -> MinimiserResult:
    """Minimise a block of tasks, one after the other in one compiled program.

    Every array of `tasks` has a first axis over the tasks. A task whose `limit` is zero
    costs nothing; such tasks fill up the last block."""
    return lax.map(lambda task: fit_one(model, task, capacity), tasks)
