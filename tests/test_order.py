"""Every solver keeps its order with a delay: at the nodes, and between them."""

import inspect
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import Polynomial

import ddefind as dd
from ddefind._engine import runge_kutta

# Every solver of the package: one that is added beside the others is tested, too.
KINDS: list[Any] = [
    kind
    for _, kind in inspect.getmembers(runge_kutta, inspect.isclass)
    if issubclass(kind, dd.AbstractSolver) and getattr(kind, "__final__", False)
]
SOLVERS = [kind() for kind in KINDS]
STEPS = (30, 60, 120)


def test_every_public_solver_is_among_them():
    public = [getattr(dd, each) for each in dir(dd)]
    kinds = {kind for kind in public if inspect.isclass(kind)}
    solvers = {kind for kind in kinds if issubclass(kind, dd.AbstractSolver)}
    assert solvers - {dd.AbstractSolver} == set(map(type, SOLVERS))


def growth():
    """x = e^{at} solves x' = p x + c x(t - tau) with c = (a - p) e^{a tau}."""
    a, p, tau = 0.8, -0.5, 1.0
    rhs = dd.models.Exponential(p, (a - p) * np.exp(a * tau))
    problem = dd.Problem(rhs, lambda t: jnp.exp(a * t).reshape(1), tau)
    return problem, lambda t: np.exp(a * t)


def by_steps(a, b, past, initial, t):
    """The solution of x' = a x + b x(t - 1), x = past before 0, x(0) = initial.

    On the k-th unit interval it is e^{as} p_k(s) + q_k, with s the time in it, where
    p_k' = b p_{k-1} and q_k = -b q_{k-1} / a.
    """
    p, q, result = Polynomial([0.0]), past, np.empty_like(t)
    for k in range(int(np.max(t)) + 1):
        begin = initial if k == 0 else np.exp(a) * p(1.0) + q
        q = -b * q / a
        p = (b * p).integ()
        p = p + (begin - q - p(0.0))
        here = (t >= k) & (t <= k + 1)
        result[here] = np.exp(a * (t[here] - k)) * p(t[here] - k) + q
    return result


def dose(initial, past=1.0, a=-0.4, b=-1.3):
    """A linear equation whose start may differ from its history."""
    given = None if initial == past else initial
    problem = dd.Problem(
        dd.models.Exponential(a, b), dd.Constant(past), 1.0, initial=given
    )
    return problem, lambda t: by_steps(a, b, past, initial, t)


def timed():
    """x = e^{-t} + t, by an equation that asks for the time at every stage."""

    def rhs(x, y, tau, t):
        return 1 - (y - t + tau) * jnp.exp(-tau)

    problem = dd.Problem(rhs, lambda t: jnp.exp(-t).reshape(1) + t, 1.0)
    return problem, lambda t: np.exp(-t) + t


def logistic():
    """A nonlinear equation, against a much finer solve."""
    rhs, history = dd.models.Logistic(1.1, 0.8), dd.Periodic(-0.2, 1.0, 0.5)
    problem = dd.Problem(rhs, history, tau=1.0)
    fine = dd.solve(problem, 4.0, dd.RK4(), 1600)
    return problem, lambda t: fine(t)[:, 0]


CASES = {
    "growth": growth,
    "kinks": lambda: dose(1.0),
    "jump": lambda: dose(2.5),
    "timed": timed,
    "logistic": logistic,
}


@cache
def case(key):
    return CASES[key]()


@cache
def solutions(key, solver, delays):
    problem, _ = case(key)
    T = delays * float(problem.tau)
    return [dd.solve(problem, T, solver, n) for n in STEPS]


def order(errors):
    return -np.polyfit(np.log(STEPS), np.log(errors), 1)[0]


def node_error(solution, exact):
    return np.max(np.abs(solution.x[:, 0] - exact(np.asarray(solution.t))))


def dense_error(solution, exact):
    t = np.linspace(0.0, float(solution.T), 3001)
    return np.max(np.abs(solution(t)[:, 0] - exact(t)))


@pytest.mark.parametrize("error", [node_error, dense_error], ids=["nodes", "between"])
@pytest.mark.parametrize("key", CASES)
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_every_solver_has_its_order(solver, key, error):
    _, exact = case(key)
    errors = [error(solution, exact) for solution in solutions(key, solver, 4.0)]
    assert order(errors) == pytest.approx(solver.order, abs=0.1)


@pytest.mark.parametrize("key", ["growth", "jump"])
def test_order_where_the_last_step_ends_beyond_T(key):
    _, exact = case(key)
    errors = [dense_error(found, exact) for found in solutions(key, dd.RK4(), np.pi)]
    assert order(errors) == pytest.approx(4, abs=0.1)


def test_rk4_is_exact_on_cubics_with_one_step_a_delay():
    # x' = -x(t - 1), x = 1 before 0 and x(0) = 2: a polynomial of degree k + 1 on the
    # interval [k, k + 1].
    problem = dd.Problem(lambda x, y, tau, t: -y, dd.Constant(1.0), 1.0, initial=2.0)
    solution = dd.solve(problem, 2.5, dd.RK4(), 1)
    t = np.linspace(0.0, 2.5, 26)
    s = t - 1
    first, second = 2 - t, 1 - 2 * s + s**2 / 2
    u = t - 2
    exact = np.select([t <= 1, t <= 2], [first, second], -0.5 - u + u**2 - u**3 / 6)
    np.testing.assert_allclose(solution(t)[:, 0], exact, rtol=0, atol=1e-14)
