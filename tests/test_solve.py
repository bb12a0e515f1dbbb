"""`solve` and `Solution`: times, shapes, compilation, refusals."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from support.fits import unchecked

# x' = -x(t - 1), x = 1 before 0: 1 - t, then 1 - t + (t - 1)^2 / 2.
DELAYED = dd.Problem(dd.models.Exponential(0.0, -1.0), dd.Constant(1.0), 1.0)


def with_tau(problem, tau):
    return eqx.tree_at(lambda p: p.tau, problem, jnp.asarray(tau, float))


def test_a_solution_is_a_function_of_time():
    solution = dd.solve(DELAYED, 2.0, dd.RK4(), 7)
    assert solution(0.5).shape == (1,)
    assert solution([0.5, 1]).shape == (2, 1)
    assert solution([]).shape == (0, 1)
    np.testing.assert_allclose(solution(1.5), [-0.375], rtol=1e-14)
    np.testing.assert_allclose(
        solution([0, 0.25, 2])[:, 0], [1.0, 0.75, -0.5], rtol=1e-14
    )


def test_before_zero_a_solution_is_its_history():
    history = dd.Periodic([1.0, 2.0], [3.0, 0.5], [0.1, 0.2])
    problem = dd.Problem(dd.models.Exponential(-1.0, -0.5), history, 0.7)
    solution = dd.solve(problem, 2.0, steps_per_delay=3)
    past = [-5.0, -0.7, -0.1]  # further back than one delay, too
    expected = [history(jnp.asarray(t)) for t in past]
    np.testing.assert_array_equal(solution(past), expected)
    np.testing.assert_array_equal(solution(-0.1), expected[-1])


def test_a_jump_at_zero_is_seen_from_both_sides():
    problem = dd.Problem(DELAYED.rhs, dd.Constant(1.0), 1.0, initial=2.0)
    solution = dd.solve(problem, 2.5, steps_per_delay=4)
    np.testing.assert_array_equal(solution([-1e-12, 0.0])[:, 0], [1.0, 2.0])
    np.testing.assert_allclose(solution([0.5, 1.5])[:, 0], [1.5, 0.125], rtol=1e-14)
    np.testing.assert_allclose(solution.t, [*np.arange(10) / 4, 2.5])


@pytest.mark.parametrize("T", [0.1, 3.0, 3.14, 3.2])
@pytest.mark.parametrize("initial", [None, 2.0])
def test_the_nodes_are_multiples_of_the_step_and_T(T, initial):
    problem = dd.Problem(DELAYED.rhs, dd.Constant(1.0), 1.0, initial=initial)
    solution = dd.solve(problem, T, dd.RK4(), 5)
    inner = np.arange(0, T - 1e-9, 0.2)
    np.testing.assert_allclose(solution.t, [*inner, T], rtol=1e-14)
    assert float(solution.t[-1]) == T
    assert solution.x.shape == (len(inner) + 1, 1)
    np.testing.assert_allclose(solution.x, solution(solution.t), rtol=1e-13, atol=1e-15)


def test_tau_beyond_T_reads_only_the_history():
    # x' = -cos(t - 5), so x = -sin(t - 5) + sin(-5) + 1.
    problem = dd.Problem(
        lambda x, y, tau, t: -y, lambda t: jnp.cos(t).reshape(1), 5.0, initial=[1.0]
    )
    solution = dd.solve(problem, 2.0, dd.RK4(), 200)
    t = np.linspace(0, 2, 11)
    exact = -np.sin(t - 5) + np.sin(-5.0) + 1
    np.testing.assert_allclose(solution(t)[:, 0], exact, rtol=1e-8)


def test_one_step_may_be_longer_than_T():
    solution = dd.solve(with_tau(DELAYED, 50.0), 2.0, dd.RK2(), 2)
    np.testing.assert_allclose(solution(2.0), [-1.0], rtol=1e-14)
    np.testing.assert_allclose(solution.t, [0.0, 2.0])


def test_many_components_are_solved_side_by_side():
    rates = [0.5, -0.3, 1.0]
    many = dd.Problem(
        dd.models.Exponential(-1.0, rates), dd.Affine([1, 2, 3], [3, 2, 1]), 0.8
    )
    found = dd.solve(many, 3.0)(2.2)
    for i, rate in enumerate(rates):
        one = dd.Problem(
            dd.models.Exponential(-1.0, rate), dd.Affine(1 + i, 3 - i), 0.8
        )
        np.testing.assert_allclose(found[i], dd.solve(one, 3.0)(2.2)[0], rtol=1e-14)


def test_tau_and_T_change_without_a_new_compilation():
    traced = []

    def rhs(x, y, tau, t):
        traced.append(1)
        return -y

    problem = dd.Problem(rhs, dd.Constant(1.0), 1.0)
    dd.solve(problem, 9.9, dd.RK2(), 10)(5.0)
    before = len(traced)
    for tau, T in ((1.2, 9.9), (0.95, 9.9), (0.8, 9.9), (1.0, 8.7)):
        solution = dd.solve(with_tau(problem, tau), T, dd.RK2(), 10)
        assert len(solution.t) == int(np.ceil(10 * T / tau - 1e-9)) + 1
    assert len(traced) == before


@pytest.mark.parametrize("initial", [None, 2.0])
def test_solve_inside_jit(initial):
    def at(tau, times):
        problem = dd.Problem(DELAYED.rhs, dd.Constant(1.0), tau, initial=initial)
        solution = dd.solve(problem, 4.0, dd.RK4(), 8, max_steps=60)
        return solution(times), solution.t, solution.x

    times = np.linspace(0, 4, 9)
    compiled = jax.jit(at)
    for tau in (1.0, 0.7):
        plain, t, x = at(tau, times)
        inside, t_inside, x_inside = compiled(tau, times)
        np.testing.assert_allclose(inside, plain, rtol=1e-13, atol=1e-15)
        # The number of steps is not known inside: the last entry is repeated.
        count = len(t)
        assert len(t_inside) > count
        np.testing.assert_allclose(t_inside[:count], t, rtol=1e-14)
        np.testing.assert_allclose(x_inside[:count], x, rtol=1e-13, atol=1e-15)
        assert np.all(np.asarray(t_inside[count:]) == 4.0)
        assert np.all(np.asarray(x_inside[count:]) == x_inside[count - 1])


def test_a_solution_leaves_jit_whole():
    solution = eqx.filter_jit(lambda p: dd.solve(p, 3.0, max_steps=100))(DELAYED)
    plain = dd.solve(DELAYED, 3.0)
    np.testing.assert_allclose(solution.t, plain.t, rtol=1e-14)
    np.testing.assert_allclose(solution(2.3), plain(2.3), rtol=1e-14)


def test_solve_inside_vmap():
    def end(tau, b):
        problem = dd.Problem(DELAYED.rhs, dd.Constant(b), tau)
        return dd.solve(problem, 4.0, dd.RK4(), 8)(np.array([1.1, 4.0]))

    taus, bs = np.array([1.0, 0.37, 9.0]), np.array([1.0, 2.0, 3.0])
    for tau, b, found in zip(taus, bs, jax.vmap(end)(taus, bs)):
        np.testing.assert_allclose(found, end(tau, b), rtol=1e-12, atol=1e-14)


def test_a_solution_inside_vmap_over_times():
    solution = dd.solve(DELAYED, 3.0)
    times = jnp.array([-1.0, 0.5, 2.9])
    np.testing.assert_array_equal(jax.vmap(solution)(times), solution(times))


@pytest.mark.parametrize("initial", [None, 2.0])
def test_too_many_steps_inside_jit_are_an_error_not_a_cut(initial):
    def end(tau, max_steps: int | None = 50):
        problem = dd.Problem(DELAYED.rhs, dd.Constant(1.0), tau, initial=initial)
        return dd.solve(problem, 10.0, dd.RK4(), 10, max_steps=max_steps)(10.0)

    compiled = eqx.filter_jit(end)
    np.testing.assert_allclose(compiled(jnp.asarray(2.0)), end(2.0, None))
    with pytest.raises(RuntimeError, match="more than 50 steps. Give `max_steps`"):
        compiled(jnp.asarray(1.9))


def test_a_time_beyond_T_is_refused():
    solution = dd.solve(DELAYED, 2.0)
    for t in (2.1, [0.0, 2.1], float("nan")):
        with pytest.raises(ValueError, match="ends at T = 2"):
            solution(t)
    assert np.isnan(jax.jit(lambda t: solution(t))(2.1)).all()
    with pytest.raises(ValueError, match="a number or a vector"):
        solution(np.zeros((2, 2)))


BAD = {
    "`T` must be positive and finite": [{"T": T} for T in (0.0, -1.0, np.inf, np.nan)],
    "`T` must be a positive number": [{"T": "ten"}],
    "`steps_per_delay` must be a positive": [
        {"solver": dd.RK4(), "steps_per_delay": n} for n in (0, -3, 2.5, "ten", None)
    ],
    r"instance, as `RK4\(\)`.*class `RK2`": [{"solver": dd.RK2}],
    "`solver` must be \"auto\" or a solver.*'RK4'": [{"solver": "RK4"}],
    "`problem` must be an instance": [{"problem": dd.Problem}],
    "`differentiate` must be": [{"differentiate": "both"}],
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_refused(message):
    kind = TypeError if re.search("instance|number|a solver", message) else ValueError
    for options in BAD[message]:
        with pytest.raises(kind, match=message):
            dd.solve(**unchecked({"problem": DELAYED, "T": 1.0, **options}))


def test_an_error_in_the_users_rhs_at_solve_time_keeps_its_type():
    class Mine(Exception):
        pass

    calls = []

    def rhs(x, y, tau, t):
        calls.append(1)
        if len(calls) > 1:
            raise Mine("my own message")
        return -y

    problem = dd.Problem(rhs, dd.Constant(1.0), 1.0)
    with pytest.raises(Mine, match="my own message"):
        dd.solve(problem, 1.0)
