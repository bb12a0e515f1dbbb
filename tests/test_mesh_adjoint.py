"""The corrected theorem with several delays, delay formulas, `initial` and switches."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._loss.gradients import loss_and_gradient
from ddefind._problem.delays import AbstractConstantDelay
from ddefind._solve.mesh import Mesh
from ddefind._solve.time_grid import time_grid
from support.repeats import mostly_slow
from support.vectors import flatten

T = np.linspace(0.0, 6.0, 13)
DATA = dd.Data(T, np.sin(T) + 0.5)
# dx/dtau jumps at t = tau after a jump at zero, where no rule for the integral is
# better than first order: it has many nodes.
INTEGRAL = dd.Integral(dd.L2(), terminal=dd.L2(0.5), nodes=100_000)


class Drug(eqx.Module):
    """A right-hand side with any number of delays, which jumps at `t_on` and at 4.3,
    and which depends on the delays."""

    a: jax.Array
    b: jax.Array
    c: jax.Array
    t_on: jax.Array

    def __call__(self, x, y, tau, t):
        on = jnp.where(t < self.t_on, 0.0, 1.0) * (1 + 0.1 * jnp.sin(t))
        delayed = jnp.stack(jax.tree.leaves(y))
        weights = self.b * jnp.exp(-0.1 * jnp.stack(jax.tree.leaves(tau)))
        uptake = jnp.where(t < 4.3, 1.0, 0.6) * (1 + 0.2 * x)
        return (self.c * on - self.a) * x - uptake * (weights @ delayed)


class Square(AbstractConstantDelay):
    """0.6 + p^2."""

    p: jax.Array

    def __call__(self):
        return 0.6 + self.p**2

    def describe(self):
        return f"0.6 + {self.p}^2"


class Scale(eqx.Module):
    k: jax.Array

    def __call__(self, x, t):
        return self.k * x


def drug(*tau, initial=None, observe=None):
    weights = jnp.array([0.5, 0.3, 0.2])[: len(tau)]
    rhs = Drug(jnp.asarray(0.4), weights, jnp.asarray(0.5), jnp.asarray(2.57))
    return dd.Problem(
        rhs,
        dd.Affine(0.4, 0.6),
        tau,
        initial=initial,
        observe=observe,
        switches=lambda problem: jnp.stack([problem.rhs.t_on, jnp.asarray(4.3)]),
    )


def smooth(x, y, tau, t):
    return -0.4 * x - 0.5 * y["a"] * (1 + 0.2 * x) - 0.3 * jnp.exp(-tau["b"]) * y["b"]


def in_dict(a, b, initial=None):
    return dd.Problem(smooth, dd.Affine(0.4, 0.6), {"a": a, "b": b}, initial=initial)


PROBLEMS = {
    "one delay and switches": drug(0.83),
    "two delays": in_dict(0.83, 1.31),
    "two delays and a jump at zero": in_dict(1.31, 0.83, initial=1.3),
    "a delay shorter than a step": in_dict(0.07, 1.31),
    "three delays and everything": drug(
        0.83,
        1.31,
        Square(jnp.asarray(1.2)),
        initial=1.3,
        observe=Scale(jnp.asarray(1.3)),
    ),
    "delays beyond the record": drug(6.1, Square(jnp.asarray(2.9)), initial=1.3),
}
LOSSES = {"integral": INTEGRAL, "sum of squares": dd.SumOfSquares()}
CASES = [(name, loss) for name in PROBLEMS for loss in LOSSES]
FAST = [
    ("two delays and a jump at zero", "sum of squares"),
    ("three delays and everything", "integral"),
]


def gradients(problem, loss, route, solver, steps):
    """The losses and gradients with steps of at most these lengths. All meshes have
    the same room, so that one program serves them."""
    grids = [time_grid(problem, DATA.T, solver, 1, max_step=h) for h in steps]
    meshes = [grid for grid in grids if isinstance(grid, Mesh)]
    room, target = max(mesh.capacity for mesh in meshes), loss.prepare(DATA)
    overlaps = any(mesh.overlaps for mesh in meshes)
    found = []
    for mesh in meshes:
        mesh = replace(mesh, capacity=room, overlaps=overlaps)
        value, gradient = loss_and_gradient(
            problem, target, mesh.T, loss, route, solver, mesh
        )
        found.append((float(value), flatten(gradient)[0]))
    return found


@pytest.mark.parametrize("name, loss", mostly_slow(CASES, FAST))
@pytest.mark.slow
def test_second_order(name, loss):
    """The error goes down by about 64, from steps of 0.1 to steps of 0.0125, for the
    whole gradient; and no derivative keeps an error."""
    problem, loss = PROBLEMS[name], LOSSES[loss]
    [(_, truth)] = gradients(problem, loss, dd.Discrete(), dd.RK4(), [0.002])
    (_, coarse), (_, fine) = gradients(
        problem, loss, dd.Adjoint(), dd.RK2(), [0.1, 0.0125]
    )
    errors = [np.linalg.norm(found - truth) for found in (coarse, fine)]
    assert errors[1] < errors[0] / 8**1.6, errors
    scale = np.maximum(np.abs(truth), 0.05 * np.max(np.abs(truth)))
    assert np.max(np.abs(fine - truth) / scale) < 2e-3


@pytest.mark.parametrize("initial", mostly_slow((None, 1.3), {1.3}))
def test_one_delay_agrees_with_the_aligned_grid(initial):
    problem = dd.Problem(
        dd.models.Logistic(1.1, 0.9), dd.Affine(0.4, 0.6), 0.83, initial=initial
    )
    options = {"loss": dd.Integral(), "gradient": dd.Adjoint()}
    aligned = dd.value_and_grad(problem, DATA, steps_per_delay=80, **options)
    on_mesh = dd.value_and_grad(problem, DATA, max_step=0.83 / 80, **options)
    np.testing.assert_allclose(on_mesh[0], aligned[0], rtol=1e-9)
    found, expected = flatten(on_mesh[1])[0], flatten(aligned[1])[0]
    np.testing.assert_allclose(found, expected, rtol=3e-4)


@pytest.mark.slow
def test_switches_without_effect():
    """A switch after the record, one before it, and one at which nothing jumps."""
    problem = drug(0.83)
    rhs = eqx.tree_at(lambda rhs: rhs.t_on, problem.rhs, jnp.asarray(7.0))
    idle = dd.Problem(rhs, problem.history, (0.83,), switches=(-1.0, 1.7, 4.3, 7.0))
    plain = dd.Problem(rhs, problem.history, (0.83,), switches=(4.3,))
    found, expected = (
        flatten(dd.value_and_grad(each, DATA, gradient=dd.Adjoint())[1])[0]
        for each in (idle, plain)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-9)


@pytest.mark.slow
def test_breaking_points_that_meet():
    """A jump that comes from one switch, a delay later, meets another switch."""

    def switched(x, y, tau, t):
        on = jnp.where(t < 1.0, 0.0, 1.0) - jnp.where(t < 2.5, 0.0, 0.7) * x
        return -0.4 * x - 0.5 * y[0] * (1 + 0.2 * x) + on

    problem = dd.Problem(switched, dd.Affine(0.4, 0.6), (1.5,), switches=(1.0, 2.5))
    check = dd.check_gradient(problem, DATA)
    assert check.errors("Discrete").max() < 1e-5
    assert check.errors("Adjoint").max() < 3e-3


@pytest.mark.slow
def test_check_gradient_shows_the_three_routes(capsys):
    check = dd.check_gradient(in_dict(0.83, 1.31, initial=1.3), DATA)
    printed = capsys.readouterr().out
    for text in ("Discrete", "Forward", "Adjoint", "initial"):
        assert text in printed
    assert check.errors("Discrete").max() < 1e-5
    assert check.errors("Adjoint").max() < 3e-3


def test_published_refuses_a_mesh():
    options = {"loss": dd.Integral(), "gradient": dd.Published()}
    several, one = in_dict(0.83, 1.31), EXPONENTIAL
    with pytest.raises(ValueError, match=r"one constant delay.*Use `Adjoint\(\)`"):
        dd.value_and_grad(several, DATA, **options)
    with pytest.raises(ValueError, match="one constant delay"):
        dd.value_and_grad(one, DATA, max_step=0.1, **options)
    with pytest.raises(ValueError, match="one constant delay"):
        dd.fit(several, DATA, optimizer=dd.Adam(0.03), epochs=1, **options)


def test_nodes_of_the_solver_need_the_aligned_grid():
    loss = dd.Integral(nodes="solver")
    with pytest.raises(ValueError, match="nodes"):
        dd.value_and_grad(EXPONENTIAL, DATA, loss=loss, max_step=0.1)
    with pytest.raises(ValueError, match="nodes"):
        dd.fit(in_dict(0.83, 1.31), DATA, loss=loss, optimizer=dd.Adam(0.03))


EXPONENTIAL = dd.Problem(dd.models.Exponential(-0.3, -0.2), dd.Constant(1.0), 0.9)
