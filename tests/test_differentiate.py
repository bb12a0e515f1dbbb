"""A user's own differentiation through `solve`: reverse, forward, and under vmap."""

from functools import cache
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd

Mode = Literal["reverse", "forward"]
MODES: dict[Mode, Any] = {"reverse": jax.jacrev, "forward": jax.jacfwd}
TIMES = np.array([0.0, 0.31, 1.13, 2.7])
POINT = np.array([-0.4, -1.3, 0.83, 0.5, 2.0, 1.0, 2.2])


def states(vector, mode: Mode = "reverse", jump=False):
    """x at some times, from (theta_0, theta_1, tau, A, omega, b, x(0))."""
    rhs = dd.models.Exponential(vector[0], vector[1])
    history = dd.Periodic(*(vector[i : i + 1] for i in (3, 4, 5)))
    initial = vector[6:7] if jump else None
    problem = dd.Problem(rhs, history, vector[2], initial=initial)
    solution = dd.solve(problem, 2.7, dd.RK4(), 6, differentiate=mode, max_steps=200)
    return solution(TIMES)[:, 0]


@cache
def compiled(jump):
    """The states of many vectors, one after the other."""
    return jax.jit(lambda vectors: jax.lax.map(lambda v: states(v, jump=jump), vectors))


def jacobian(jump, vector=POINT):
    """By fourth-order differences."""
    moves = 1e-4 * np.array([-2, -1, 1, 2])[:, None, None] * np.eye(len(vector))
    moved = compiled(jump)((vector + moves).reshape(-1, len(vector)))
    moved = np.asarray(moved).reshape(4, len(vector), -1)
    return np.tensordot([1, -8, 8, -1], moved, 1).T / 12e-4


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("jump", [False, True], ids=["smooth", "jump"])
@pytest.mark.parametrize("mode", MODES)
def test_either_mode(mode, jump):
    close(jax.jit(MODES[mode](lambda v: states(v, mode, jump)))(POINT), jacobian(jump))


def test_reverse_mode_inside_jit():
    def cost(vector):
        return jnp.sum(states(vector) ** 2)

    expected = 2 * np.asarray(states(POINT)) @ jacobian(False)
    close(jax.grad(cost)(POINT), expected)
    close(jax.jit(jax.grad(cost))(POINT), expected)
    close(jax.grad(jax.jit(cost))(POINT), expected)


@pytest.mark.parametrize("mode", MODES)
def test_either_mode_under_vmap(mode):
    points = np.stack([POINT, POINT * 1.1, POINT * [1, 1, 0.4, 1, 1, 1, 1]])
    found = jax.jit(jax.vmap(MODES[mode](lambda v: states(v, mode))))(points)
    for vector, one in zip(points, found):
        close(one, jacobian(False, vector))


@pytest.mark.parametrize("mode", MODES)
def test_the_nodes_can_be_differentiated_too(mode):
    def end(tau):
        problem = dd.Problem(
            dd.models.Exponential(-0.4, -1.3), dd.Affine(0.3, 1.0), tau
        )
        solution = dd.solve(problem, 2.7, dd.RK4(), 6, differentiate=mode)
        return solution.x[7, 0], solution.x[-1, 0], solution.t[7]

    found = MODES[mode](end)(0.83)
    moved = np.array([end(0.83 + k * 1e-4) for k in (-2, -1, 1, 2)])
    close(found, np.tensordot([1, -8, 8, -1], moved, 1) / 12e-4)


def test_the_derivative_in_time():
    # x' = -x(t - 1) = -1 up to t = 1; before 0 the slope is the history's.
    problem = dd.Problem(dd.models.Exponential(0.0, -1.0), dd.Affine(0.0, 1.0), 1.0)
    solution = dd.solve(problem, 2.0)

    def slope(t):
        return jax.grad(lambda t: solution(t)[0])(t)

    assert float(slope(-0.5)) == 0.0
    np.testing.assert_allclose([slope(1e-9), slope(0.3), slope(0.99)], -1, rtol=1e-12)
    np.testing.assert_allclose(slope(0.0), -1, rtol=1e-12)  # from inside, not the mean


def test_a_function_history_is_differentiated_for_tau():
    def end(tau, mode: Mode = "reverse"):
        problem = dd.Problem(
            lambda x, y, tau, t: -y, lambda t: jnp.cos(t).reshape(1), tau
        )
        return dd.solve(problem, 2.7, dd.RK4(), 6, differentiate=mode)(2.7)[0]

    moved = [end(0.83 + k * 1e-4) for k in (-2, -1, 1, 2)]
    expected = np.dot([1, -8, 8, -1], moved) / 12e-4
    close(jax.jacfwd(lambda tau: end(tau, "forward"))(0.83), expected)
    close(jax.grad(end)(0.83), expected)


def test_a_history_is_never_asked_for_what_comes_after_zero():
    # sqrt(0.5 - t) is not a number from 0.5 on: it must not spoil derivatives there.
    def root(t, size=2.0):
        return size * jnp.sqrt(0.5 - t).reshape(1)

    def late(problem):
        return dd.solve(problem, 2.0)(np.array([-1.0, 1.5]))

    problem = dd.Problem(dd.models.Exponential(-0.4, -1.3), root, 0.83)
    found = jax.jacrev(late)(problem).history.size
    np.testing.assert_allclose(found, late(problem) / 2.0, rtol=1e-12)  # it is linear


def test_the_wrong_mode_is_refused_by_jax():
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jacfwd(states)(POINT)
    with pytest.raises(ValueError, match="Reverse-mode"):
        jax.jacrev(lambda v: states(v, "forward"))(POINT)
