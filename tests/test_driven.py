"""Inputs and doses: solutions against scipy, and derivatives against differences."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._engine.choose import engine_for
from ddefind._engine.mesh.engine import solve_mesh
from ddefind._loss.gradients import loss_and_gradient
from ddefind._problem.parameters import parameter_vector, with_values
from ddefind._problem.without_doses import without_doses
from ddefind._search.batches import observed
from ddefind._search.make_setup import make_setup
from support.driven_problems import Structure, T, random_problem, reference

EVERYTHING = Structure(sets=2, jump=True)
STRUCTURES = {
    "everything": EVERYTHING,
    "inputs alone": Structure(bolus=False, infusion=False, sets=0),
    "smooth": Structure(("cubic", "cubic", "linear"), infusion=False, sets=0),
    "steps": Structure(("steps", "steps", "steps"), bolus=False, sets=0),
    "boluses": Structure(("linear", "linear", "steps"), infusion=False, sets=0),
    "jump": Structure(("steps", "cubic", "linear"), sets=0, jump=True),
    "sets": Structure(("cubic", "linear", "steps"), bolus=False, sets=2),
    "infusions": Structure(("steps", "linear", "cubic"), bolus=False, sets=0),
}
TIMES = np.sort(np.random.default_rng(5).uniform(0, T, 30))
PLACES, MOVING = (-2, -1, 1, 2), ("tau", "lag", "when", "long")


@eqx.filter_jit
def states(problem, solver, mesh, times):
    plain = without_doses(problem)
    z = jax.vmap(solve_mesh(plain, solver, mesh, "forward"))(times)
    return z if problem.doses is None else jax.vmap(problem.doses.state)(z, times)


def order_of(driven, solver, times):
    """The order of the usual errors with 1, 2 and 4 times the steps, and the largest
    error with the most steps."""
    plain, exact = without_doses(driven.problem), reference(driven)(times)
    mesh, errors = engine_for(plain, solver, T, 0.2).grid(plain, T, 4), []
    for factor in (1, 2, 4):
        counts, tail = mesh.counts * factor, mesh.tail / factor
        finer = replace(mesh, counts=counts, tail=tail, capacity=2048, overlaps=True)
        found = states(driven.problem, solver, finer, times)
        errors.append(np.abs(np.asarray(found) - exact))
    usual = [np.median(each) for each in errors]
    return np.log2(usual[0] / usual[-1]) / 2, errors[-1].max()


@pytest.mark.parametrize("seed", (1, 2))
def test_solutions_agree_with_scipy(seed):
    driven = random_problem(EVERYTHING, seed)
    known = [dose.time for dose in driven.doses if not isinstance(dose.time, str)]
    times = np.sort(np.concatenate([TIMES, known, [0.0, T]]))
    order, error = order_of(driven, dd.RK4(), times)
    assert error < 3e-7
    assert order == pytest.approx(4, abs=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("solver", (dd.Euler(), dd.RK2(), dd.RK4()))
@pytest.mark.parametrize("key", STRUCTURES)
def test_every_solver_keeps_its_order(solver, key):
    order, _ = order_of(random_problem(STRUCTURES[key], 11), solver, TIMES)
    assert order == pytest.approx(solver.order, abs=0.5)


RADAU = pytest.param(dd.Radau(1e-9, 1e-9), marks=pytest.mark.slow)


@pytest.mark.parametrize("solver", (dd.Tsit5(1e-10, 1e-10), RADAU))
def test_adaptive_solutions_agree_with_scipy(solver):
    driven = random_problem(EVERYTHING, 3)
    found = dd.solve(driven.problem, T, solver)(TIMES)
    np.testing.assert_allclose(found, reference(driven)(TIMES), rtol=0, atol=1e-7)


def check_columns(found, function, vector, names) -> None:
    """Compare derivatives, the last axis, with central differences, relative to the
    largest of each column, or to a thousandth of the largest of all.

    Of values that move nodes the solution has few derivatives, and there are many
    nodes: a step of one of three lengths must agree."""
    largest = 1e-3 * np.abs(found).max()
    for j, (name, value) in enumerate(zip(names, vector)):
        sizes = (4e-6, 1e-6, 2e-7) if name in MOVING else (1e-4,)
        column, error = found[..., j], np.inf
        for size in sizes:
            step = size * max(abs(value), 0.1)
            moves = [n * step * np.eye(len(vector))[j] for n in PLACES]
            around = np.array([function(vector + move) for move in moves])
            weights = np.array([1, -8, 8, -1]) / (12 * step)
            difference = np.einsum("k,k...->...", weights, around)
            error = np.minimum(error, np.abs(difference - column))
        assert np.max(error) < 1e-6 * max(np.abs(column).max(), largest), name


def check_derivatives(structure: Structure, seed: int):
    """The gradient of a loss, and the Jacobian of least squares."""
    driven = random_problem(structure, seed)
    problem, names = driven.problem, list(dd.parameter_values(driven.problem))
    vector = parameter_vector(problem)
    values = np.random.default_rng(seed).normal(size=(len(TIMES), 3))
    data = dd.Data(TIMES, values)
    loss, T_end = dd.SumOfSquares(), jnp.asarray(data.T)
    plain = without_doses(problem)
    engine = engine_for(plain, dd.RK4(), data.T, 0.25)
    grid = engine.grid(plain, data.T, 4)
    grid = replace(grid, capacity=512, overlaps=True)
    target = loss.prepare(data)

    def both(vector):
        moved = with_values(problem, vector)
        route = dd.Discrete(), engine, grid
        return loss_and_gradient(moved, target, T_end, loss, *route)

    gradient = parameter_vector(both(vector)[1])
    check_columns(gradient, lambda v: np.asarray(both(v)[0]), vector, names)
    bounds = {name: dd.Parameter(upper=3.5) for name in ("tau", "lag")}
    setup = make_setup(problem, data, bounds, dd.RK4(), 10)[0]

    def check_jacobian(n):
        def rows(vector):
            return observed(setup.model, vector, TIMES, n, 3)

        check_columns(rows(vector)[..., 1:], lambda v: rows(v)[..., 0], vector, names)

    try:
        check_jacobian(64)
    except AssertionError:
        # The mesh is made anew for every vector, and the number of its steps may change
        # just there: not for both of two lengths of a step.
        check_jacobian(65)


@pytest.mark.slow
@pytest.mark.parametrize("key", STRUCTURES)
def test_derivatives_of_many_problems(key):
    for seed in range(70):
        check_derivatives(STRUCTURES[key], seed)
