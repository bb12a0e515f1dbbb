"""Losses and their gradients with adaptive solvers, for delays of every kind; and
gradient descent with them."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import ddefind as dd
from ddefind._engine.adaptive.engine import AdaptiveEngine, AdaptiveRoom, AdaptiveRooms
from ddefind._loss.gradients import loss_and_gradient
from support.repeats import mostly_slow

T = np.array([0.4, 1.05, 1.7, 2.33, 3.1])
DATA = dd.Data(T, np.cos(T))
PAST = dd.Affine(0.3, 0.8)


def feedback(a=1.1, b=0.4):
    """x' = -a y + b sin t."""
    return lambda x, y, tau, t, a=a, b=b: -a * y + b * jnp.sin(t)


def neutral(x, y, tau, t, a=1.1, c=0.4):
    return -a * x + c * y[1] + 0.3 * y[0]


def switched(x, y, tau, t, a=1.1, b=0.4, t_off=1.9):
    """As `feedback`, of which a part ends with a switch."""
    y = y["short"] * (t < t_off) + 0.5 * jnp.tanh(y["long"])
    return -a * y + b * jnp.sin(t)


def stiff(x, y, tau, t, k=2e3, b=300.0):
    return -k * (x - jnp.cos(t)) - b * y


def of_state(p=0.6, q=0.2):
    """The delay p + q x^2."""
    delay = dd.Delay(lambda t, x, p=p, q=q: p + q * x[0] ** 2)
    return dd.Problem(feedback(), PAST, delay)


def with_switch():
    return dd.Problem(
        switched,
        PAST,
        {"short": 0.47, "long": 1.21},
        initial=1.3,
        observe=lambda x, t: x**2,
        switches=lambda problem: problem.rhs.t_off[None],
    )


CASES = {
    "of state": (of_state(), dd.SumOfSquares(), "auto"),
    "neutral": (
        dd.Problem(neutral, PAST, dd.Delay(0.83, slope=True)),
        dd.Integral(dd.L2(), dd.L1(), nodes=20),
        "auto",
    ),
    "gamma": (
        dd.Problem(feedback(), PAST, dd.GammaDelay(0.9, 2.7)),
        dd.Integral(dd.Linf(), nodes=10),
        dd.Tsit5(1e-7),
    ),
    "uniform": (
        dd.Problem(feedback(), PAST, dd.UniformDelay(0.3, 1.1)),
        dd.Integral(lambda x, target: jnp.sum((x - target) ** 4), nodes=10),
        "auto",
    ),
    "several with a switch": (with_switch(), dd.Integral(dd.L1()), dd.Tsit5()),
    "stiff": (dd.Problem(stiff, PAST, 0.7), dd.SumOfSquares(), dd.Radau(1e-7)),
}


@pytest.mark.parametrize("name", mostly_slow(CASES, ("of state",)))
def test_both_routes_agree_with_differences(name):
    problem, loss, solver = CASES[name]
    check = dd.check_gradient(problem, DATA, loss, solver=solver)
    assert list(check.routes) == ["Discrete", "Forward"]
    size = np.abs(check.differences).max()
    assert size > 0.01
    discrete, forward = check.routes.values()
    np.testing.assert_allclose(discrete, forward, rtol=0, atol=1e-10 * size)
    np.testing.assert_allclose(discrete, check.differences, rtol=0, atol=5e-5 * size)


@pytest.mark.slow
def test_derivatives_converge_with_a_delay_of_the_state():
    """The stages at the end of a step that lands on a breaking point have delays that
    are not exact; they must not read beyond it."""
    gradients = (
        dd.value_and_grad(of_state(), DATA, solver=dd.Tsit5(rtol))[1]
        for rtol in (1e-10, 1e-8, 1e-5)
    )
    expected, near, far = (np.asarray(ravel_pytree(each)[0]) for each in gradients)
    assert np.abs(near - expected).max() < 2e-6 * np.abs(expected).max()
    assert np.abs(far - expected).max() < 2e-4 * np.abs(expected).max()


def long_problem():
    """One constant delay, and more oscillations than fit into 1024 rows."""
    problem = dd.Problem(feedback(1.2, 0.1), PAST, 1.2)
    t = np.linspace(1.0, 120.0, 40)
    return problem, dd.Data(t, np.cos(t))


@pytest.mark.slow
def test_a_long_solution_gets_more_rows():
    problem, data = long_problem()
    solver = dd.Tsit5(1e-10)
    assert len(dd.solve(problem, data.T, solver).t) > 1024
    value, gradient = dd.value_and_grad(problem, data, solver=solver)
    expected, slopes = dd.value_and_grad(problem, data, steps_per_delay=200)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    found = ravel_pytree(gradient)[0]
    np.testing.assert_allclose(found, ravel_pytree(slopes)[0], rtol=1e-5)


@pytest.mark.parametrize("gradient", [dd.Discrete(), dd.Forward()])
def test_no_solution_is_a_sentence_outside_and_nan_inside(gradient):
    negative = dd.Delay(lambda t, x: 1.0 - 0.5 * t)  # from t = 2 on
    problem, loss = dd.Problem(feedback(), PAST, negative), dd.SumOfSquares()
    with pytest.raises(ValueError, match="delay `tau` becomes negative: it is -"):
        dd.value_and_grad(problem, DATA, gradient=gradient)
    target, T = loss.prepare(DATA), jnp.asarray(DATA.T)
    method = loss, gradient, AdaptiveEngine(dd.Tsit5()), AdaptiveRoom()
    value, slopes = loss_and_gradient(problem, target, T, *method)
    assert np.isnan(value) and np.all(np.isnan(ravel_pytree(slopes)[0]))


@pytest.mark.parametrize("gradient", [dd.Adjoint(), dd.Published()])
def test_formulas_for_fixed_steps_are_refused(gradient):
    loss = dd.Integral()
    name = type(gradient).__name__
    constant = dd.Problem(feedback(), PAST, 0.7)
    options: dict[str, Any] = dict(loss=loss, gradient=gradient)
    with pytest.raises(ValueError, match=rf"`{name}\(\)` is for fixed steps, and `Tsi"):
        dd.value_and_grad(constant, DATA, solver=dd.Tsit5(), **options)
    match = rf"`{name}\(\)` is a formula for delays that"
    with pytest.raises(ValueError, match=match):
        dd.value_and_grad(of_state(), DATA, **options)
    with pytest.raises(ValueError, match=match):
        dd.fit(of_state(), DATA, optimizer=dd.Adam(), **options)


def test_what_needs_a_grid_is_refused():
    with pytest.raises(ValueError, match="`RK4` takes fixed steps"):
        dd.value_and_grad(of_state(), DATA, solver=dd.RK4())
    with pytest.raises(ValueError, match="`RK4` takes fixed steps"):
        dd.fit(of_state(), DATA, optimizer=dd.Adam(), solver=dd.RK4())
    loss = dd.Integral(nodes="solver")
    with pytest.raises(ValueError, match="solved with fixed steps. Give a number of"):
        dd.value_and_grad(of_state(), DATA, loss=loss)


@pytest.mark.slow
def test_adam_learns_a_delay_of_the_state():
    data = dd.Data(T, dd.solve(of_state(), 3.5)(T))
    result = dd.fit(of_state(0.5, 0.3), data, optimizer=dd.Adam(0.02), epochs=60)
    assert result.losses[0] > 20 * result.loss
    assert isinstance(result.solver, dd.Tsit5)
    # The delay was negative nowhere on the way: all losses are finite.
    assert np.all(np.isfinite(result.losses)) and len(result.losses) == 61
    value, _ = dd.value_and_grad(result.problem, data)
    np.testing.assert_allclose(result.loss, value, rtol=1e-12)


@pytest.mark.slow
def test_many_fits_are_those_of_single_ones():
    options: dict[str, Any] = dict(optimizer=dd.Adam(0.02), epochs=5)
    sets = [DATA, dd.Data(T, np.sin(T))]
    many = dd.fit_many(of_state(), sets, **options)
    for index, data in enumerate(sets):
        one = dd.fit(of_state(), data, **options)
        np.testing.assert_allclose(many.best[index], one.best, rtol=1e-12)


@pytest.mark.slow
def test_lbfgs_with_an_adaptive_solver():
    problem = dd.Problem(feedback(1.0, 0.3), PAST, 0.7)
    data = dd.Data(T, dd.solve(dd.Problem(feedback(), PAST, 0.6), 3.5)(T))
    options: dict[str, Any] = dict(optimizer=dd.LBFGS(), epochs=40)
    found = dd.fit(problem, data, solver=dd.Tsit5(1e-8), **options)
    assert found.loss < 1e-9
    np.testing.assert_allclose(found.problem.tau, 0.6, rtol=1e-3)


@pytest.mark.slow
def test_a_descent_gets_more_rows():
    problem, data = long_problem()
    options: dict[str, Any] = dict(optimizer=dd.Adam(1e-3), epochs=2)
    result = dd.fit(problem, data, solver=dd.Tsit5(1e-10), **options)
    expected = dd.fit(problem, data, steps_per_delay=200, **options)
    assert np.all(np.isfinite(result.losses))
    np.testing.assert_allclose(result.losses, expected.losses, rtol=1e-5)


@pytest.mark.slow
def test_a_point_beyond_all_solutions_steps_back():
    """Adam's steps are long at first: the shape of the distribution falls below 1."""
    problem = dd.Problem(feedback(), PAST, dd.GammaDelay(0.9, 1.05))
    assert AdaptiveRooms([problem]).longest == 0.9
    result = dd.fit(problem, DATA, optimizer=dd.Adam(0.2), epochs=12)
    assert result.loss < result.losses[0]
    assert result.problem.tau.shape >= 1
