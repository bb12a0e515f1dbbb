"""Text equations with values at time zero, `x(0) = 5`, and with switches in time."""

import pickle

import equinox as eqx
import jax
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
    assert dd.equation(DECAY + "; x(0) = D / V").latex().splitlines()[3:6] == [
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


VALUES = dict(T_1=3.0, d=2.0, tau=0.5, lag=1.25)


def times(text, **values):
    """The switch times of a text, sorted."""
    model = dd.equation(text, history=1.0)
    known = VALUES | values
    problem = model.problem({name: known[name] for name in model.required})
    assert eqx.tree_equal(pickle.loads(pickle.dumps(problem)), problem)
    return sorted(np.asarray(problem.switch_times).tolist())


@pytest.mark.parametrize(
    "text, expected",
    [
        ("x' = -x(t - tau)", []),
        ("x' = (t > 5) * d - x", [5.0]),
        ("x' = (5 < t) + (t >= 5) + (t < 5)", [5.0]),
        ("x' = where(T_1 < t, d, 0)", [3.0]),
        ("x' = where(t - T_1 < 2 * d, 1, 0)", [7.0]),
        ("x' = where(2 * t > d or not t / 2 < T_1, 1, 0)", [1.0, 6.0]),
        ("x' = (5 < t < 7) * x", [5.0, 7.0]),
        ("x' = (3 - t > t) + (-t < -2 * (1 - t))", [2 / 3, 1.5]),
        ("x' = on * x; on = late > d; late = t - start; start = T_1 + 1", [6.0]),
        ("x' = (two * t > d) * x; two = 2", [1.0]),
        ("x' = u(t - tau) - u; u = (t > T_1) * d", [3.0, 3.5]),
        ("x' = u(t - tau - lag) + x(t - lag); u = t > 1", [2.75]),
        ("x' = u(t - lag) + x(t - lag) - x(t - 2 * lag); u = t > 1", [2.25]),
        ("x' = (t < tau) + x(t - tau)", [0.5]),
        ("x' = (t < 1 + lag) + x(t - lag)", [2.25]),
        ("x' = min(t, 5) + max(T_1 - t, 0) + abs(4 - t)", [3.0, 4.0, 5.0]),
        ("x' = max(t, d, 2 * t - 7)", [2.0, 4.5, 7.0]),
    ],
)
def test_conditions_on_the_time_are_switches(text, expected):
    assert times(text) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    "condition",
    [
        "x > 5",
        "t > x",
        "t * x > 1",
        "t^2 > 4",
        "sin(t) > 0",
        "d * t > 1",
        "d / t > 1",
        "x(t - tau) < t",
        "T_1 > d",
        "t - t > d",
        "t == 5",
        "f(t - tau) > t",
        "f > t",
    ],
)
def test_other_conditions_are_no_switches(condition):
    assert times(f"x' = where({condition}, 1, 0); f = x + t") == []


def test_only_the_equations_have_switches():
    model = dd.equation("x' = -x; x(t<=0) = (t < -1)", observe="x * (t > 2)")
    assert model.problem().switches == ()
    assert dd.equation("x' = -x; f = t > 1", history=1.0).problem().switches == ()


def test_switch_times_can_be_differentiated():
    model = dd.equation("x' = u(t - tau) + x(t - tau); u = 2 * t > T_1", history=1.0)

    @jax.jit
    @jax.jacobian
    def slopes(values):
        return model.problem(T_1=values[0], tau=values[1]).switch_times

    np.testing.assert_allclose(slopes(jnp.array([3.0, 0.5])), [[0.5, 1.0]], rtol=1e-15)


def test_problems_with_switches_are_compiled_once():
    one, two = (dd.equation("x' = (t > 5) * d", history=1.0) for _ in range(2))
    problems = [model.problem(d=2.0) for model in (one, two)]
    assert problems[0].switches == problems[1].switches
    assert hash(problems[0].switches) == hash(problems[1].switches)
    assert np.isnan(np.asarray(dd.equation("x' = t > a").blank.switch_times)).all()


def test_many_arguments_of_a_minimum_have_no_switches():
    arguments = ", ".join(f"{i} * t + {i + 1}" for i in range(300))
    assert times(f"x' = min({arguments})") == []
