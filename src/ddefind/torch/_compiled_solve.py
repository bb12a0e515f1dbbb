"""The forward and the backward pass of `ddefind.torch.DelayODE`, compiled by JAX.

A batch of B histories is solved as one equation with d * B components, in the order
(d, B). The gradient of the weights, which all trajectories share, is then computed once
and not B times. One delay is solved on the grid that is aligned with it, several on a
mesh."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from .._engine.aligned.march import System, solve_path
from .._engine.aligned.path import DenseOutput, Grid, Points
from .._engine.aligned.reverse import reverse_march
from .._engine.mesh.mesh import Mesh
from .._engine.runge_kutta import AbstractSolver
from .._engine.solve import solve_mesh
from .._loss.path_costs import PointCosts
from .._problem.problem import Problem
from ._converted_program import ConvertedProgram


@final
@dataclass(frozen=True)
class SolvePlan:
    """Everything about a solve that is not an array. JAX compiles once for each plan.

    `batch` is the number of histories, or None for one without a batch axis."""

    rhs: ConvertedProgram
    history: ConvertedProgram
    solver: AbstractSolver
    batch: int | None


class Tensors(NamedTuple):
    """The arrays that a trajectory depends on.

    `rhs` and `history` are the tensors of the modules by name. `history_inputs` are the
    arguments of the history after the time, each with a first axis over the batch."""

    tau: Any
    rhs: dict[str, Any]
    history: dict[str, Any]
    history_inputs: tuple


@final
class _Rhs(eqx.Module):
    """The right-hand side for all components of a batch."""

    tensors: dict[str, Any]
    program: ConvertedProgram = eqx.field(static=True)
    batch: int | None = eqx.field(static=True)

    def __call__(self, x, y, tau, t):
        def one(x, y):
            return self.program(self.tensors, x, y, tau, t)

        if self.batch is None:
            return one(x, y)
        x, y = jax.tree.map(lambda state: state.reshape(-1, self.batch), (x, y))
        return jax.vmap(one, in_axes=-1, out_axes=-1)(x, y).ravel()


@final
class _History(eqx.Module):
    """The history for all components of a batch."""

    tensors: dict[str, Any]
    inputs: tuple
    program: ConvertedProgram = eqx.field(static=True)

    def __call__(self, t):
        def one(*inputs):
            return self.program(self.tensors, t, *inputs)

        if not self.inputs:
            return one()
        return jax.vmap(one, out_axes=-1)(*self.inputs).ravel()


def _problem(plan: SolvePlan, tensors: Tensors) -> Problem:
    """Return the equation to solve."""
    return Problem(
        _Rhs(tensors.rhs, plan.rhs, plan.batch),
        _History(tensors.history, tensors.history_inputs, plan.history),
        tensors.tau,
    )


def _system(
    plan: SolvePlan, grid: Grid, tensors: Tensors, T: Any
) -> tuple[System, Problem]:
    """Return the equation to solve up to time T on an aligned grid, and its
    parameters."""
    problem = _problem(plan, tensors)
    params, fixed = eqx.partition(problem, eqx.is_inexact_array)
    return System(fixed, plan.solver, grid, T, problem.dimension), params


def _split_batch(x: jax.Array, batch: int | None) -> jax.Array:
    """Reshape (times, d * B) to (B, times, d); without a batch nothing changes."""
    return x if batch is None else x.reshape(len(x), -1, batch).transpose(2, 0, 1)


def trajectory(
    plan: SolvePlan, grid: Grid | Mesh, times: Any, tensors: Tensors
) -> tuple[jax.Array, Callable[[Any], tuple[jax.Array, Tensors]]]:
    """Return the states at `times`, which must be sorted, and the vector-Jacobian
    product (VJP): from the cotangent of the states to those of times and tensors."""
    if isinstance(grid, Mesh):
        x, pull = _on_mesh(plan, grid, times, tensors)
        return x, functools.partial(_pull, pull)
    x, path, last = _on_grid(plan, grid, times, tensors)
    vjp = functools.partial(_on_grid_vjp, plan, grid, times, tensors, path, last)
    return x, vjp


@functools.partial(jax.jit, static_argnums=0)
def _on_mesh(plan: SolvePlan, mesh: Mesh, times: Any, tensors: Tensors) -> Any:
    """Return the states, and their VJP as JAX gives it, a tree of arrays."""

    def states(times, tensors):
        path = solve_mesh(_problem(plan, tensors), plan.solver, mesh, "reverse")
        return _split_batch(jax.vmap(path)(times), plan.batch)

    return jax.vjp(states, times, tensors)


@jax.jit
def _pull(pull: Any, cotangent: Any) -> Any:
    return pull(cotangent)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _on_grid(
    plan: SolvePlan, grid: Grid, times: jax.Array, tensors: Tensors
) -> tuple[jax.Array, Any, Any]:
    """Return the states, and the path and its last step, for `_on_grid_vjp`."""
    system, params = _system(plan, grid, tensors, times[-1])
    path, last = solve_path(system, params, system.path())
    x = jax.vmap(DenseOutput(grid, path, grid.step(tensors.tau), last))(times)
    return _split_batch(x, plan.batch), path, last


@functools.partial(jax.jit, static_argnums=(0, 1))
def _on_grid_vjp(
    plan: SolvePlan,
    grid: Grid,
    times: jax.Array,
    tensors: Tensors,
    path: Any,
    last: Any,
    cotangent: jax.Array,
) -> tuple[jax.Array, Tensors]:
    """Compute the VJP of `_on_grid`, by the adjoint."""
    system, params = _system(plan, grid, tensors, times[-1])
    if plan.batch is not None:  # the inverse of `_split_batch`
        cotangent = cotangent.transpose(1, 2, 0).reshape(len(times), -1)

    # The gradient of this cost is the cotangent.
    def cost(x, value, weight, is_last):
        return jnp.sum(value * x)

    points = Points(times, cotangent, jnp.ones((len(times), 1)))
    buffers = system.buffers()._replace(path=path)
    path_cost = PointCosts(cost, system, points)
    _, gradient, _ = reverse_march(system, params, buffers, last, path_cost)
    dense_output = DenseOutput(grid, path, grid.step(tensors.tau), last)
    derivatives = jax.vmap(dense_output.slope)(times)
    on_tensors = Tensors(
        gradient.tau,
        gradient.rhs.tensors,
        gradient.history.tensors,
        gradient.history.inputs,
    )
    return jnp.sum(cotangent * derivatives, axis=1), on_tensors
