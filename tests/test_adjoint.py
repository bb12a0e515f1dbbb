"""The corrected theorem converges to the truth; the published one does not, for tau."""

import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind.paper import EXPERIMENTS
from support.gradients import gradients_of
from support.repeats import mostly_slow
from support.vectors import flatten, near, tau_index

STEPS = (20, 160)


def gradients(vectors, problem, data, loss, route, solver, n):
    """The gradient at each of the vectors `[points, p]`."""
    shortest = 0.99 * vectors[:, tau_index(problem)].min()
    function = gradients_of(problem, data, loss, solver, n, shortest, route)
    return np.asarray(function(vectors)[1])


def gradient(problem, data, loss, route, solver, n):
    found = dd.value_and_grad(
        problem, data, loss=loss, gradient=route, solver=solver, steps_per_delay=n
    )[1]
    return flatten(found)[0]


def orders(problems, data, loss, scale=1):
    """The measured order of `Adjoint` at each of the problems, which differ in their
    values alone, and in each group of parameters (theta, phi, tau), against `Discrete`
    on a grid so fine that its own error does not count. Errors change sign here and
    there: the order is taken from the first to the last step."""
    problem, vectors = problems[0], np.stack([flatten(one)[0] for one in problems])
    case = vectors, problem, data, loss
    truths = gradients(*case, dd.Discrete(), dd.RK4(), 1500 * scale)
    coarse, fine = (
        gradients(*case, dd.Adjoint(), dd.RK2(), n * scale) - truths for n in STEPS
    )
    at, size = tau_index(problem), len(flatten(problem.rhs)[0])
    measured = []
    for truth, first, last in zip(truths, coarse, fine):
        for group in (slice(0, size), slice(size, at), slice(at, at + 1)):
            before, after = np.linalg.norm(first[group]), np.linalg.norm(last[group])
            if before > 1e-9 * np.linalg.norm(truth):
                measured.append(np.log(before / after) / np.log(STEPS[1] / STEPS[0]))
    return np.array(measured)


FINE = 4000  # nodes of the integral


@pytest.mark.parametrize("model", mostly_slow(EXPERIMENTS, ("exponential",)))
def test_second_order_with_a_terminal_cost(model):
    experiment = EXPERIMENTS[model]
    _, rebuild = flatten(experiment.true)
    random = rebuild(near(experiment.true, 1, seed=5)[0])
    loss = dd.Integral(dd.L2(), terminal=dd.L2(0.5), nodes=FINE)
    found = orders([experiment.start, random], experiment.clean, loss)
    assert np.all(found > 1.6), found


@pytest.mark.parametrize("cost", mostly_slow((dd.L1(), dd.Linf()), (dd.L1(),)))
def test_first_order_with_kinks(cost):
    hiv, loss = EXPERIMENTS["hiv"], dd.Integral(cost, nodes=FINE)
    found = orders([hiv.start], hiv.clean, loss)
    assert np.all(found > 0.6), found


def test_first_order_with_costs_at_single_times():
    data = EXPERIMENTS["exponential"].clean
    found = orders([EXPERIMENTS["exponential"].start], data, dd.SumOfSquares())
    assert np.all(found > 0.6), found


def test_a_cost_at_time_zero():
    problem = dd.Problem(dd.models.Logistic(1.0, 0.8), dd.Constant(0.5), 0.9)
    data = dd.Data([0, 1, 2], [1.5, 2.0, 1.0])
    exact = gradient(problem, data, dd.SumOfSquares(), dd.Discrete(), dd.RK4(), 200)
    found = gradient(problem, data, dd.SumOfSquares(), dd.Adjoint(), dd.RK4(), 200)
    np.testing.assert_allclose(found, exact, rtol=0.03)


@pytest.mark.parametrize(
    "models, delays",
    [
        ((dd.models.Logistic(1.1, 0.9), dd.models.Logistic(0.9, 0.9)), (0.83, 2.37)),
        ((dd.models.Exponential(-0.3, -0.2),), (12.0,)),
    ],
    ids=["within the record", "beyond it"],
)
@pytest.mark.slow
def test_jump_at_zero(models, delays):
    problems = [
        dd.Problem(model, dd.Affine(0.4, 0.6), tau, initial=1.3)
        for model, tau in zip(models, delays)
    ]
    # dx/dtau jumps at t = tau, where no rule for the integral is better than first
    # order.
    loss = dd.Integral(dd.L2(), terminal=dd.L2(), nodes=400_000)
    found = orders(problems, EXPERIMENTS["logistic"].clean, loss)
    assert np.all(found > 1.5), found


@pytest.mark.parametrize("tau", mostly_slow((1.7, 12.3), (1.7,)))
def test_rhs_that_depends_on_time_and_delay(tau):
    def rhs(x, y, tau, t):
        return -x + jnp.exp(-0.3 * tau) * jnp.sin(2 * t) * y

    problem = dd.Problem(rhs, dd.Periodic(1.0, 2.0, 3.0), tau)
    loss = dd.Integral(dd.L2(), nodes=FINE)
    found = orders([problem], EXPERIMENTS["logistic"].clean, loss, 1 if tau < 10 else 4)
    assert np.all(found > 1.5), found


def test_observation_parameters():
    class Scale(dd.models.eqx.Module):
        k: jnp.ndarray

        def __call__(self, x, t):
            return self.k * x[:1]

    start = EXPERIMENTS["exponential"].start
    problem = dd.Problem(start.rhs, start.history, 2.0, observe=Scale(jnp.asarray(1.3)))
    data = EXPERIMENTS["exponential"].clean
    for loss in (dd.Integral(dd.L2(), terminal=dd.L2()), dd.SumOfSquares()):
        exact = gradient(problem, data, loss, dd.Discrete(), dd.RK4(), 1000)
        found = gradient(problem, data, loss, dd.Adjoint(), dd.RK2(), 1000)
        assert abs(found[-1] / exact[-1] - 1) < 1e-3


def test_published_formula_has_the_wrong_sign():
    problem, data = EXPERIMENTS["exponential"].start, EXPERIMENTS["exponential"].clean
    loss = dd.Integral(dd.L2())
    published = gradient(problem, data, loss, dd.Published(), dd.RK2(), 4000)
    corrected = gradient(problem, data, loss, dd.Adjoint(), dd.RK2(), 4000)
    at = tau_index(problem)
    assert abs(published[at] - 5.742) < 2e-3
    assert abs(corrected[at] + 27.857) < 2e-3
    others = np.arange(len(published)) != at
    np.testing.assert_allclose(published[others], corrected[others], rtol=2e-3)


def test_published_is_right_for_a_constant_history():
    problem = dd.Problem(dd.models.Logistic(1.5, 1.2), dd.Constant(1.7), 0.9)
    data, loss = EXPERIMENTS["logistic"].clean, dd.Integral(dd.L2())
    published = gradient(problem, data, loss, dd.Published(), dd.RK2(), 800)
    exact = gradient(problem, data, loss, dd.Discrete(), dd.RK2(), 800)
    np.testing.assert_allclose(published, exact, rtol=5e-3)


TIMES = np.linspace(0.0, 6.0, 13)
DATA = dd.Data(TIMES, np.sin(TIMES) + 0.5)
ONE = dd.Problem(dd.models.Exponential(-0.3, -0.2), dd.Constant(1.0), 0.9)
SEVERAL = dd.equation("x' = -x(t - c) - k * x(t - d)").problem(b=1, c=0.8, d=1.3, k=0.5)


START = EXPERIMENTS["exponential"].start
JUMP = dd.Problem(START.rhs, START.history, 2.0, initial=1.0)


@pytest.mark.parametrize(
    "problem, options, message",
    [
        (START, {"gradient": dd.Published()}, "Integral"),
        (JUMP, {"gradient": dd.Published(), "loss": dd.Integral(dd.L2())}, "initial"),
        (ONE, {"loss": dd.Integral(nodes="solver"), "max_step": 0.1}, "nodes"),
    ],
)
def test_what_formulas_and_nodes_cannot_do_is_refused(problem, options, message):
    with pytest.raises(ValueError, match=message):
        dd.value_and_grad(problem, DATA, **options)


@pytest.mark.parametrize("route", [dd.Adjoint(), dd.Published()])
def test_formulas_for_one_delay_refuse_a_mesh(route):
    options = {"loss": dd.Integral(), "gradient": route}
    match = rf"`{type(route).__name__}\(\)` is .* one constant .*Use `dd.Discrete\(\)`"
    with pytest.raises(ValueError, match=match):
        dd.value_and_grad(SEVERAL, DATA, **options)
    with pytest.raises(ValueError, match=match):
        dd.value_and_grad(ONE, DATA, max_step=0.1, **options)
    with pytest.raises(ValueError, match=match):
        dd.fit(SEVERAL, DATA, optimizer=dd.Adam(0.03), epochs=1, **options)


def test_nodes_of_the_solver_need_one_delay():
    with pytest.raises(ValueError, match="nodes"):
        dd.fit(SEVERAL, DATA, loss=dd.Integral(nodes="solver"), optimizer=dd.Adam(0.03))
