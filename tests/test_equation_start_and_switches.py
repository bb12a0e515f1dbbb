"""Text equations with values at time zero, `x(0) = 5`, and with switches in time."""

import pickle

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd

DECAY = "x' = -k * x(t - tau) + y; y' = -y"


def test_a_value_at_time_zero_is_the_initial_of_a_problem():
    history = "; x(t<=0) = 0; y(t<=0) = c"
    model = dd.equation(DECAY + "; x(0) = 5" + history)
    assert model.names == ("k", "c", "tau")
    values = dict(k=1.0, c=2.0, tau=0.7)
    problem = model.problem(values)
    assert problem.has_jump
    np.testing.assert_array_equal(problem.start, [5.0, 2.0])
    plain = dd.equation(DECAY + history).problem(values)
    assert not plain.has_jump
    np.testing.assert_array_equal(plain.start, [0.0, 2.0])
    module = dd.Problem(plain.rhs, plain.history, plain.tau, initial=[5.0, 2.0])
    t = np.linspace(0, 3, 20)
    found, expected = (dd.solve(p, T=3.0)(t) for p in (problem, module))
    np.testing.assert_array_equal(found, expected)


def test_values_at_time_zero_are_formulas_of_parameters():
    text = DECAY + "; y(0) = k + tau; x(0) = dose / V; dose = 2 * d"
    model = dd.equation(text, history=1.0)
    assert model.names == ("k", "b[0]", "b[1]", "tau", "V", "d")
    assert model.settings == {
        "initial.k": dd.Tied("rhs.k"),
        "initial.tau": dd.Tied("tau"),
    }
    problem = model.problem(k=3.0, tau=0.5, V=4.0, d=6.0)
    np.testing.assert_array_equal(problem.start, [3.0, 3.5])
    assert eqx.tree_equal(pickle.loads(pickle.dumps(problem)), problem)
    assert eqx.tree_equal(model.problem(dd.parameter_values(problem)), problem)
    assert dd.equation(str(model), history=1.0) == model
    assert eval(repr(model), {"dd": dd}) == model
    assert "initial.tau" in model.with_history("affine").settings


def test_a_single_state_has_a_value_at_time_zero():
    problem = dd.equation("x' = -x; x(0) = x0", history=0.0).problem(x0=2.0)
    solution = dd.solve(problem, T=1.0)
    assert float(solution(1.0)[0]) == pytest.approx(2 * np.exp(-1), rel=1e-6)
    assert float(solution(-0.5)[0]) == 0.0


def test_values_at_time_zero_in_latex():
    rows = dd.equation(DECAY + "; x(0) = D / V").latex().splitlines()
    assert rows[3:6] == [
        r"x(0) &= \frac{D}{V} \\",
        r"x(t) &= b_{0} \quad (t < 0) \\",
        r"y(t) &= b_{1} \quad (t \le 0)",
    ]


def test_initial_may_be_a_function_of_the_problem():
    rhs, history = dd.models.Logistic(1.0, 2.0), dd.Constant(0.5)

    def double(problem):
        return 2 * problem.history(0.0)

    problem = dd.Problem(rhs, history, 1.0, initial=double)
    np.testing.assert_array_equal(problem.start, [1.0])
    expected = dd.Problem(rhs, history, 1.0, initial=1.0)
    found, wanted = (dd.solve(p, T=2.0)(2.0) for p in (problem, expected))
    np.testing.assert_array_equal(found, wanted)
    for initial, message in (
        (lambda problem: jnp.zeros(2), r"`initial` has shape \(2,\)"),
        (lambda problem: 1.0, r"`initial` has shape \(\)"),
    ):
        with pytest.raises(ValueError, match=message):
            dd.Problem(rhs, history, 1.0, initial=initial)
    with pytest.raises(TypeError, match=r"Call it: `Constant\(...\)`"):
        dd.Problem(rhs, history, 1.0, initial=dd.Constant)
