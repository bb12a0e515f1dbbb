"""Normal equations by forward sensitivities, against gradients and differences."""

import numpy as np
import pytest

import ddefind as dd
from ddefind.paper import EXPERIMENTS
from support.least_squares_problems import (
    LOGISTIC,
    TRUTH,
    logistic_data,
    normal,
    normal_function,
    residual_rows,
    setup_of,
)
from support.repeats import mostly_slow


def check_gradient(problem, data, n, solver, parameters=None):
    """S and its slope, against reverse mode through another loop."""
    setup = setup_of(problem, data, parameters, n, solver)
    free = setup.model.free
    known = dd.parameter_values(problem)
    found = normal(setup, np.array([known[name] for name in free.names]), n)
    loss, gradient = dd.value_and_grad(problem, data, solver=solver, steps_per_delay=n)
    by_name = dd.parameter_values(gradient)
    expected = np.array([by_name[name] for name in free.names])
    np.testing.assert_allclose(found.gram[0, 0], loss, rtol=1e-10)
    np.testing.assert_allclose(
        2 * found.gram[0, 1:], expected, rtol=1e-10, atol=1e-10 * abs(expected).max()
    )
    np.testing.assert_allclose(found.gram, found.gram.T, rtol=1e-12)
    return found


def wave(problem, T, count=31):
    """Data that the problem does not fit."""
    t = np.linspace(0, T, count)
    return dd.Data(t, 2 + np.sin(t)[:, None] + np.arange(problem.dimension))


CASES = [(model, dd.RK4()) for model in EXPERIMENTS] + [("logistic", dd.RK2())]


@pytest.mark.parametrize(
    "model, solver", mostly_slow(CASES, [("hiv", dd.RK4()), ("logistic", dd.RK2())])
)
def test_slope_agrees_with_the_adjoint(model, solver):
    experiment = EXPERIMENTS[model]
    check_gradient(experiment.start, wave(experiment.start, experiment.T), 11, solver)


def linear(a, c):
    return dd.models.Exponential(a, c)


class TestCases:
    def test_a_dose(self):
        problem = dd.Problem(linear(-1.0, 0.5), dd.Constant(0.0), 1.3, initial=2.0)
        check_gradient(problem, wave(problem, 7.0), 7, dd.RK4())

    def test_a_delay_beyond_the_record(self):
        problem = dd.Problem(linear(-1.0, 0.5), dd.Affine(0.3, 1.0), 9.0)
        check_gradient(problem, wave(problem, 4.0), 13, dd.RK4())

    def test_gaps_replicates_and_weights(self):
        problem = EXPERIMENTS["hiv"].start
        t = np.array([0.0, 0.5, 0.5, 0.5, 2.0, 3.3, 3.3, 9.0, 10.0])
        random = np.random.default_rng(0)
        x = random.normal(5, 1, (len(t), 3))
        x[2:5, 1] = x[0, 0] = x[:, 2] = np.nan
        data = dd.Data(t, x, sd=random.uniform(0.5, 2, x.shape))
        found = check_gradient(problem, data, 10, dd.RK4())
        assert found.squares[2] == 0 and np.all(found.squares[:2] > 0)

    def test_what_is_observed_has_parameters(self):
        model = dd.equation(LOGISTIC, observe="seen = gain * x + t * drift")
        problem = model.problem(TRUTH | dict(gain=2.0, drift=-0.1))
        check_gradient(problem, wave(problem, 8.0), 10, dd.RK4(), model.settings)

    def test_text_with_ties(self):
        model = dd.equation("x' = K * x - x(t - tau)^3;  x(t<=0) = K / 2 + a * t")
        problem = model.problem(K=0.8, a=0.1, tau=0.9)
        data = wave(problem, 5.0)
        setup = setup_of(problem, data, model.settings)
        assert setup.model.free.names == ("K", "a", "tau")
        found = normal(setup, [0.8, 0.1, 0.9], 10)
        _, gradient = dd.value_and_grad(problem, data, steps_per_delay=10)
        both = float(gradient.rhs.K + gradient.history.K)
        np.testing.assert_allclose(2 * found.gram[0, 1], both, rtol=1e-10)

    def test_only_some_are_free(self):
        problem = EXPERIMENTS["cheyne"].start
        fixed = {"V_0": dd.Fixed(), "history.a": dd.Fixed()}
        found = check_gradient(problem, wave(problem, 3.0), 10, dd.RK4(), fixed)
        assert found.gram.shape == (5, 5)


def test_the_number_of_steps_need_not_be_known_when_compiling():
    problem, data = dd.equation(LOGISTIC).problem(TRUTH), logistic_data()
    compiled = normal_function(setup_of(problem, data))
    for n in (10, 100):
        loss, _ = dd.value_and_grad(problem, data, steps_per_delay=n)
        found = compiled(list(TRUTH.values()), n)
        np.testing.assert_allclose(found.gram[0, 0], loss, rtol=1e-10)


@pytest.mark.parametrize("model", mostly_slow(("logistic", "hiv"), ("logistic",)))
def test_jacobian_against_central_differences(model):
    experiment = EXPERIMENTS[model]
    data = wave(experiment.true, experiment.T)
    fixed = {f"rhs.{n}": dd.Fixed() for n in "k m delta c T_0 n_p N".split()}
    setup = setup_of(experiment.true, data, fixed if model == "hiv" else None, n=10)
    rows = residual_rows(setup, setup.points(), 10)
    names = setup.model.free.names
    values = dd.parameter_values(experiment.true)
    theta = np.array([values[name] for name in names]) * 1.03 + 0.01
    residual, jacobian = rows(theta)
    for j, size in enumerate(np.maximum(np.abs(theta), 0.1)):
        step = 1e-6 * size * (np.arange(len(theta)) == j)
        difference = (rows(theta + step)[0] - rows(theta - step)[0]) / (2e-6 * size)
        atol = 1e-6 * (1 + abs(difference).max())
        np.testing.assert_allclose(jacobian[:, j], difference, rtol=1e-5, atol=atol)
    gram = normal(setup, theta, 10).gram
    whole = np.column_stack([residual, jacobian])
    np.testing.assert_allclose(gram, whole.T @ whole, rtol=1e-9, atol=1e-12)
