"""The compiled side of `ddefind.torch.DelayODE`: trajectories, and gradients back.

A batch of B histories is solved as one equation for all components together, ordered
(d, B): the weights that the histories share then have one gradient, not B."""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from .._loss.path_costs import PointCosts, Points
from .._problem.problem import Problem
from .._solve.grid import Grid
from .._solve.march import solve_path
from .._solve.path import DenseOutput
from .._solve.reverse import reverse_march
from .._solve.runge_kutta import AbstractSolver
from .._solve.system import System
from ._converted_program import TorchProgram


@final
@dataclass(frozen=True)
class SolvePlan:
    """All of a solve that is not an array: one compiled program belongs to it."""

    rhs: TorchProgram
    history: TorchProgram
    solver: AbstractSolver
    batch: int | None
    grid: Grid


class Tensors(NamedTuple):
    """What a trajectory depends on. The modules' tensors stand by name; `rows` has the
    arguments of each history, a batch of them."""

    tau: Any
    rhs: dict[str, Any]
    history: dict[str, Any]
    rows: tuple


@final
class _Rhs(eqx.Module):
    tensors: dict[str, Any]
    program: TorchProgram = eqx.field(static=True)
    batch: int | None = eqx.field(static=True)

    def __call__(self, x, y, tau, t):
        def one(x, y):
            return self.program(self.tensors, x, y, tau, t)

        if self.batch is None:
            return one(x, y)
        x, y = (state.reshape(-1, self.batch) for state in (x, y))
        return jax.vmap(one, in_axes=-1, out_axes=-1)(x, y).ravel()


@final
class _History(eqx.Module):
    tensors: dict[str, Any]
    rows: tuple
    program: TorchProgram = eqx.field(static=True)

    def __call__(self, t):
        def one(*rows):
            return self.program(self.tensors, t, *rows)

        if not self.rows:
            return one()
        return jax.vmap(one, out_axes=-1)(*self.rows).ravel()


def _system(plan: SolvePlan, tensors: Tensors, T) -> tuple[System, Problem]:
    problem = Problem(
        _Rhs(tensors.rhs, plan.rhs, plan.batch),
        _History(tensors.history, tensors.rows, plan.history),
        tensors.tau,
    )
    params, fixed = eqx.partition(problem, eqx.is_inexact_array)
    return System(fixed, plan.solver, plan.grid, T, problem.dimension), params


def _shared(x, batch: int | None):
    """(times, d) as it is; (times, d * B) as (B, times, d)."""
    return x if batch is None else x.reshape(len(x), -1, batch).transpose(2, 0, 1)


def _joined(x, batch: int | None):
    """The inverse of `_shared`."""
    return x if batch is None else x.transpose(1, 2, 0).reshape(x.shape[1], -1)


def _dense_output(plan: SolvePlan, tau, path, last) -> DenseOutput:
    return DenseOutput(plan.grid, path, plan.grid.step(tau), last)


@functools.partial(jax.jit, static_argnums=0)
def trajectory(plan: SolvePlan, times, tensors: Tensors):
    """The states at `times`, in order; and for `pulled` the path and its end."""
    system, params = _system(plan, tensors, times[-1])
    path, last = solve_path(system, params, system.path())
    x = jax.vmap(_dense_output(plan, tensors.tau, path, last))(times)
    return _shared(x, plan.batch), path, last


@functools.partial(jax.jit, static_argnums=0)
def pulled(plan: SolvePlan, times, tensors: Tensors, path, last, cotangent):
    """The gradients for the times and the tensors, from that of the states."""
    system, params = _system(plan, tensors, times[-1])
    cotangent = _joined(cotangent, plan.batch)

    def cost(x, value, weight, is_last):
        return jnp.sum(value * x)

    points = Points(times, cotangent, jnp.ones((len(times), 1)))
    buffers = system.buffers()._replace(path=path)
    path_cost = PointCosts(cost, system, points)
    _, gradient, _ = reverse_march(system, params, buffers, last, path_cost)
    slopes = jax.vmap(_dense_output(plan, tensors.tau, path, last).slope)(times)
    on_tensors = Tensors(
        gradient.tau,
        gradient.rhs.tensors,
        gradient.history.tensors,
        gradient.history.rows,
    )
    return jnp.sum(cotangent * slopes, axis=1), on_tensors
