"""The loss of a solution with adaptive steps, and its gradient in the two modes of JAX.

Steps that are chosen by the error have no grid that a loss could know in advance. The
loss reads the solved path as a function of time, and JAX differentiates this reading;
the path itself is differentiated step by step, by `_adaptive`.

Beside the loss, each function returns whether the path had enough rows. Where there is
no solution, the loss and its gradient are not numbers.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from .._problem.problem import Problem
from .._solve.adaptive_solution import adaptive_path
from .._solve.system import System
from .path_costs import PointCosts


def adaptive_loss(
    system: System, costs: PointCosts, params: Problem, differentiate: str
) -> tuple[jax.Array, jax.Array]:
    """The loss, differentiable in one of the two modes."""
    problem = eqx.combine(params, system.fixed)
    x, has_room = adaptive_path(
        problem, system.T, system.solver, differentiate, system.grid.capacity
    )
    return costs.total(params, x), has_room


def reverse_gradient(
    system: System, costs: PointCosts, params: Problem
) -> tuple[jax.Array, Problem, jax.Array]:
    """The loss and its gradient, by the adjoint of every step."""

    def value(params):
        return adaptive_loss(system, costs, params, "reverse")

    (total, has_room), gradient = jax.value_and_grad(value, has_aux=True)(params)
    return total, gradient, has_room


def forward_gradient(
    system: System, costs: PointCosts, params: Problem
) -> tuple[jax.Array, Problem, jax.Array]:
    """The loss and its gradient, by one march with the derivatives for all
    parameters."""
    vector, unravel = ravel_pytree(params)

    def value(params):
        return adaptive_loss(system, costs, params, "forward")

    def along(direction):
        return jax.jvp(value, (params,), (unravel(direction),), has_aux=True)

    directions = jnp.eye(vector.size)
    total, derivatives, has_room = jax.vmap(along, out_axes=(None, 0, None))(directions)
    return total, unravel(derivatives), has_room
