"""Both exact gradients where something special happens: a jump at 0, a delay beyond T,
costs and observations with parameters, time in the equation, gaps in the data."""

from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind import models
from ddefind._engine.aligned.engine import AlignedEngine
from ddefind._engine.engine import System
from support.gradients import check_gradients, grid_for
from support.repeats import mostly_slow
from support.vectors import flatten, near, tau_index, whole_steps

SQUARES, INTEGRAL = dd.SumOfSquares(), dd.Integral(dd.L2())
TWO = models.Exponential([-0.4, -0.9], [-1.3, 0.7])
PAST = dd.Periodic([0.5, 0.2], [2.0, 1.1], [1.0, 2.0])


def forced(x, y, tau, t, a=0.8, b=1.7):
    """An equation that asks for everything: x, y, tau and t."""
    return a * jnp.sin(b * t * x) - y * jnp.exp(-0.3 * tau)


def gauge(x, t, gain=0.6, drift=0.1):
    """A measurement of two components together, that drifts in time."""
    return gain * jnp.sum(x**2, keepdims=True) + drift * t


class Marked(eqx.Module):
    """A right-hand side with leaves that are no parameters."""

    a: jax.Array
    count: jax.Array
    label: str

    def __call__(self, x, y, tau, t):
        return self.a * y * self.count


PROBLEMS = {
    "two": dd.Problem(TWO, PAST, 0.83),
    "jump": dd.Problem(TWO, PAST, 0.83, initial=[2.0, 0.5]),
    "delay beyond T": dd.Problem(TWO, PAST, 6.1),
    "time": dd.Problem(forced, dd.Periodic(0.5, 2.0, 1.0), 0.83),
    "time, jump": dd.Problem(forced, dd.Affine(0.5, 1.0), 0.83, initial=2.0),
    "observe": dd.Problem(TWO, PAST, 0.83, observe=gauge),
    "observe, jump": dd.Problem(TWO, PAST, 0.83, initial=[2.0, 0.5], observe=gauge),
    "functions": dd.Problem(
        lambda x, y, tau, t: -y * tau, lambda t: jnp.cos(t).reshape(1), 0.83
    ),
    "functions, jump": dd.Problem(
        lambda x, y, tau, t: -y * tau, lambda t: jnp.cos(t).reshape(1), 0.83, initial=2
    ),
    "no parameters": dd.Problem(
        Marked(jnp.asarray(-0.5), jnp.asarray(2), "label"), dd.Affine(1.0, 1.0), 0.83
    ),
    "neural": dd.Problem(
        models.Neural(2, 4, 1, seed=1), dd.Neural(2, 3, 1, seed=2), 0.83
    ),
    "structured": dd.Problem(
        models.Structured(
            f=[lambda x, y, tau, t: y],
            g=[lambda x, y, tau, t: 1.0, lambda x, y, tau, t: y**2],
            h=[lambda x, y, tau, t: x],
            a=[2.0],
            b=[1.0, 0.5],
            c=[-1.0],
        ),
        dd.Constant(0.5),
        0.83,
    ),
}


def data_for(problem, T=4.0):
    # No time is a multiple of tau: with a jump at 0, x(t) has a kink in tau at tau = t.
    random = np.random.default_rng(5)
    t = np.concatenate([[0.0], random.uniform(0.1, T, 21), [T]])
    return dd.Data(t, random.normal(size=(23, problem.observed)))


def points(problem, T, n):
    """The problem itself, two points near it, and one of them with T / h an integer."""
    vectors = np.concatenate([flatten(problem)[0][None], near(problem, 2, seed=3)])
    if float(problem.tau) < T:
        vectors = np.concatenate([vectors, whole_steps(problem, vectors[1:2], T, n)])
    return vectors


def check(problem, data, loss, solver, n, other_delays=()):
    """The gradients of a problem, and of the same one with other delays."""
    vectors = [points(problem, data.T, n)]
    for tau in other_delays:
        other = eqx.tree_at(lambda p: p.tau, problem, jnp.asarray(tau))
        vectors.append(points(other, data.T, n))
    check_gradients(problem, data, loss, solver, n, np.concatenate(vectors))


# Delays beyond T: all of the past is history. And one of which a step is beyond T.
LONG = {"two": (6.1, 60.0), "jump": (6.1,)}


@pytest.mark.parametrize("name", sorted(PROBLEMS.keys() - {"delay beyond T"}))
def test_problems(name):
    problem = PROBLEMS[name]
    check(problem, data_for(problem), SQUARES, dd.RK4(), 7, LONG.get(name, ()))


@pytest.mark.parametrize("name", ["jump", "delay beyond T", "observe, jump"])
def test_problems_with_an_integral(name):
    problem = PROBLEMS[name]
    check(problem, data_for(problem), INTEGRAL, dd.RK2(), 6)


EULER, RK4 = dd.Euler(), dd.RK4()
PAIRS = product((EULER, RK4), ("two", "jump"))


@pytest.mark.parametrize(
    "solver, name", mostly_slow(PAIRS, [(EULER, "two"), (RK4, "jump")])
)
def test_one_step_a_delay(solver, name):
    check(PROBLEMS[name], data_for(PROBLEMS[name]), SQUARES, solver, 1)


@pytest.mark.parametrize("name", ["jump", "observe"])
def test_a_terminal_cost(name):
    loss = dd.Integral(dd.L2(), terminal=dd.L2(weight=3.0))
    check(PROBLEMS[name], data_for(PROBLEMS[name]), loss, dd.RK4(), 5)


def test_a_cost_of_the_users():
    def cost(x, target):
        return jnp.sum(jnp.log(1 + (x - target) ** 4))

    loss = dd.Integral(cost, terminal=lambda x, target: jnp.sum(x * target))
    check(PROBLEMS["two"], data_for(PROBLEMS["two"]), loss, dd.RK4(), 5)


def test_gaps_replicates_and_deviations():
    t = [0.0, 0.3, 0.3, 0.31, 1.0, 2.9, 2.9, 4.0]
    x = np.random.default_rng(7).normal(size=(8, 2))
    x[[1, 4], [0, 1]] = np.nan
    data = dd.Data(t, x, sd=[0.2, 3.0])
    check(PROBLEMS["jump"], data, SQUARES, dd.RK4(), 5)
    check(PROBLEMS["two"], data, INTEGRAL, dd.RK4(), 5)


def test_data_that_begin_late():
    data = dd.Data([1.7, 2.0, 2.2, 3.9], np.random.default_rng(8).normal(size=(4, 2)))
    check(PROBLEMS["jump"], data, SQUARES, dd.RK4(), 5)


@pytest.mark.parametrize(
    "name", mostly_slow(("jump", "delay beyond T", "observe", "time"), ("jump", "time"))
)
def test_the_published_nodes_off_the_grid(name):
    # On the grid this loss has a kink in tau: the last node jumps by a step.
    problem = PROBLEMS[name]
    data = data_for(problem)
    loss = dd.Integral(dd.L2(), terminal=dd.L2(0.7), nodes="solver")
    vectors = near(problem, 3, seed=3)
    steps = data.T * 7 / vectors[:, tau_index(problem)]
    assert np.all(np.abs(steps - np.round(steps)) > 1e-3)
    check_gradients(problem, data, loss, dd.RK2(), 7, vectors)


def test_memory_may_hold_anything_before():
    problem = PROBLEMS["jump"]
    data = data_for(problem)
    params, fixed = eqx.partition(problem, eqx.is_inexact_array)
    grid = grid_for(problem, data.T, 7, 0.5)
    system = System(fixed, AlignedEngine(dd.RK4()), grid, data.T, 2)
    target = SQUARES.prepare(data)

    @jax.jit
    def evaluate(buffers):
        value, gradient, _ = dd.Discrete()(system, SQUARES, target, params, buffers)
        return value, jax.tree.leaves(gradient)

    clean = dd.Discrete().buffers(system)
    stale = jax.tree.map(lambda a: jnp.full_like(a, jnp.nan), clean)
    value, gradient = evaluate(clean)
    assert np.isfinite(value)
    value_stale, gradient_stale = evaluate(stale)
    np.testing.assert_array_equal(value_stale, value)
    for found, expected in zip(gradient_stale, gradient):
        np.testing.assert_array_equal(found, expected)
