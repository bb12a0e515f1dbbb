"""The loops on a mesh are compiled without copies of a path."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import ddefind as dd
from ddefind._engine.engine import time_grid
from ddefind._engine.mesh.mesh import Mesh
from ddefind._loss.gradients import loss_and_gradient
from ddefind._search.normal_equations import MeshPlan, normal_equations
from support.compiled_text import copies_in_loops, is_machine_code
from support.least_squares_problems import setup_of
from support.vectors import flatten

pytestmark = pytest.mark.usefixtures("without_cache")

T = np.linspace(0.0, 6.0, 40)
DATA = dd.Data(T, 1 + np.sin(T))


class Rhs(eqx.Module):
    r: jax.Array
    K: jax.Array
    c: jax.Array

    def __call__(self, x, y, tau, t):
        return self.r * x * (1 - y[0] / self.K) - self.c * x * y[1]


def problem():
    rhs = Rhs(jnp.asarray(1.1), jnp.asarray(2.0), jnp.asarray(0.3))
    return dd.Problem(rhs, dd.Constant(0.5), (0.9, 0.4))


def compiled(function, *arguments):
    return jax.jit(function).lower(*arguments).compile().as_text()


@pytest.mark.parametrize("overlaps", [False, True])
def test_the_gradient(overlaps):
    vector, rebuild = flatten(problem())
    grid = time_grid(problem(), 6.0, dd.RK4(), 10, 0.25 if overlaps else 0.1)
    assert isinstance(grid, Mesh) and grid.overlaps == overlaps
    loss = dd.SumOfSquares()
    method = loss, dd.Discrete(), dd.RK4(), grid

    def gradient(vector):
        target, end = loss.prepare(DATA), jnp.asarray(6.0)
        value, found = loss_and_gradient(rebuild(vector), target, end, *method)
        return value, ravel_pytree(eqx.filter(found, eqx.is_inexact_array))[0]

    text = compiled(gradient, jnp.asarray(vector))
    assert is_machine_code(text)
    assert not copies_in_loops(text, grid.capacity)


@pytest.mark.parametrize("overlaps", [False, True])
def test_least_squares(overlaps):
    setup = setup_of(problem(), DATA)
    plan = setup.model.mesh
    assert plan is not None
    plan = MeshPlan(plan.points, plan.record, overlaps)
    model, capacity = replace(setup.model, mesh=plan), 256
    points = jax.tree.map(jnp.asarray, setup.points())

    def normal(theta):
        steps = model.steps(theta, 100, points.times[-1], capacity)
        memory = model.sensitivity(theta, steps, points.times[-1]).memory(capacity)

        def one(_, carry):
            theta, memory, _ = carry
            found, memory = normal_equations(model, theta, points, steps, memory)
            return theta - 1e-6 * found.gram[0, 1:], memory, found.gram

        gram = jnp.zeros((theta.shape[0] + 1,) * 2)
        return jax.lax.fori_loop(0, 3, one, (theta, memory, gram))[2]

    theta = jnp.asarray([dd.parameter_values(problem())[n] for n in model.free.names])
    text = compiled(normal, theta)
    assert is_machine_code(text)
    assert not copies_in_loops(text, capacity)
