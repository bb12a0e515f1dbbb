"""Text equations with several delays, with formulas as delays, and delayed formulas."""

import copy
import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._problem.delays import delay_values
from ddefind._problem.parameters import find, free_parameters, parameter_arrays

TWO = "x' = r * x * (1 - x(t - tau_1) / K) - c * x * y(t - tau_2); y' = x - y"


def curve(t):
    """Two states x and y that are known at any time."""
    return jnp.array([jnp.sin(t) + 2, jnp.cos(2 * t)])


def slope(model, values, t):
    """What x' and y' are at the time t, if the states are those of `curve`."""
    problem = model.problem(values)
    tau = delay_values(problem.tau)
    y = jax.tree.map(lambda delay: curve(t - delay), tau)
    return np.asarray(problem.rhs(curve(t), y, tau, t))


def delays(problem):
    return {key: float(value) for key, value in delay_values(problem.tau).items()}


def test_each_delay_with_a_name_is_a_parameter():
    model = dd.equation(TWO)
    names = ("r", "K", "c", "b[0]", "b[1]", "tau_1", "tau_2")
    assert model.names == model.required == names and model.settings == {}
    assert model.delayed and model.needs_tau
    values = dict(r=1.0, K=2.0, c=3.0, b=1.0, tau_1=0.5, tau_2=1.5)
    problem = model.problem(values)
    assert delays(problem) == {"tau_1": 0.5, "tau_2": 1.5}
    found, _, _ = free_parameters(problem, model.settings)
    assert found.names == names and found.delays == (5, 6)
    x, y = curve(3.0)
    expected = x * (1 - curve(2.5)[0] / 2) - 3 * x * curve(1.5)[1]
    np.testing.assert_allclose(slope(model, values, 3.0), [expected, x - y])


@pytest.mark.parametrize(
    "delay, key, value",
    [
        ("2 * a", "2 * a", 2.0),
        ("a - c", "a + c", 4.0),
        ("(a + c)", "a + c", 4.0),
        ("c + a", "c - a", 2.0),
        ("exp(a)", "exp(a)", np.e),
        ("c / 2", "c / 2", 1.5),
        ("pi * a^2", "pi * a^2", np.pi),
        ("where(a > c, a, c)", "where(a > c, a, c)", 3.0),
        ("twice - 1", "2 * (a + 1) + 1", 5.0),
        ("c", "c", 3.0),
    ],
)
def test_a_delay_may_be_a_formula(delay, key, value):
    text = f"x' = -x(t - {delay}) + 0 * y(t - {delay}); y' = a * c; x(t<=0) = 1"
    model = dd.equation(f"{text}; y(t<=0) = 2; twice = 2 * more; more = a + 1")
    assert set(model.names) == {"a", "c"}
    values = dict(a=1.0, c=3.0)
    assert delays(model.problem(values)) == pytest.approx({key: value}, rel=1e-15)
    np.testing.assert_allclose(slope(model, values, 7.0)[0], -curve(7.0 - value)[0])
    assert dd.equation(str(model)) == model


def test_a_number_among_several_delays_is_no_parameter():
    model = dd.equation("x' = -x(t - 2) + x(t - tau) + tau + x(t - 4 / 2)")
    assert model.names == model.required == ("b", "tau") and model.settings == {}
    assert delays(model.problem(b=1, tau=3)) == {"2": 2.0, "tau": 3.0}


@pytest.mark.parametrize(
    "text, tau",
    [
        ("x' = -x(t - lag); lag = tau", None),
        ("x' = -x(t - lag); lag = 4 / 2", 2.0),
        ("x' = -x(t - 1 - 1); unused = x(t - 5)", 2.0),
        ("x' = -f(t - 1) + x(t - 2); f = x(t - 1)", 2.0),
    ],
)
def test_a_single_tau_or_number_stays_one_number(text, tau):
    model = dd.equation(text)
    assert model.names == ("b", "tau")
    values = dict(b=1.0) if tau else dict(b=1.0, tau=3.0)
    assert float(model.problem(values).tau) == (tau or 3.0)
    assert model.settings == ({"tau": dd.Fixed(2.0)} if tau else {})


def test_a_delay_is_one_parameter_in_all_places():
    model = dd.equation(
        "x' = -x(t - tau_1) * tau_1 + a * x(t - (tau_1 + a)) - x(t - 0.5 * tau_2); "
        "x(t<=0) = tau_1 + tau_2",
        observe="x / tau_2",
    )
    assert model.names == model.required == ("a", "tau_2", "tau_1")
    assert model.settings == {
        "tau['tau_1 + a'].tau_1": dd.Tied("tau.tau_1"),
        "tau['tau_1 + a'].a": dd.Tied("rhs.a"),
        "history.tau_1": dd.Tied("tau.tau_1"),
        "history.tau_2": dd.Tied("tau['0.5 * tau_2'].tau_2"),
        "observe.tau_2": dd.Tied("tau['0.5 * tau_2'].tau_2"),
    }
    problem = model.problem(a=2.0, tau_1=1.0, tau_2=3.0)
    assert delays(problem) == {"0.5 * tau_2": 1.5, "tau_1": 1.0, "tau_1 + a": 3.0}
    assert float(problem.history(0.0)[0]) == 4.0
    parameters = model.settings | {"tau_2": dd.Parameter(start=5.0, lower=0.1)}
    found, filled, _ = free_parameters(problem, parameters)
    assert found.names == ("a", "tau_2", "tau_1")
    assert delays(filled)["0.5 * tau_2"] == 2.5
    assert float(filled.history.tau_2) == 5.0
    assert eqx.tree_equal(model.problem(dd.parameter_values(problem)), problem)


def test_tau_in_a_formula_is_one_parameter_everywhere():
    model = dd.equation("x' = -x(t - 2 * tau) / tau; x(t<=0) = tau")
    assert model.names == ("tau",)
    assert model.settings == {
        "tau['2 * tau'].tau": dd.Tied("rhs.tau"),
        "history.tau": dd.Tied("rhs.tau"),
    }
    assert delays(model.problem(tau=1.5)) == {"2 * tau": 3.0}


def test_dots_in_the_texts_of_delays_are_no_dots_of_names():
    model = dd.equation("x' = -x(t - 0.5 * a) + x(t - 1.5 * (a + d))", history=1.0)
    arrays = parameter_arrays(model.blank, list(model.settings))
    names = ["b", "a", "tau['1.5 * (a + d)'].a", "d"]
    assert [array.short for array in arrays] == names
    for name in ("a", "tau['0.5 * a'].a"):
        assert list(find(name, arrays)) == [1]
    with pytest.raises(ValueError, match="There is no parameter"):
        find("5 * a'].a", arrays)


def test_a_delay_that_is_not_positive_is_named_with_its_values():
    model = dd.equation("x' = -x(t - tau_1 + tau_2)", history=1.0)
    expected = r"but `tau_1 - tau_2` \(tau_1 = 1, tau_2 = 1.5\) is -0.5\."
    with pytest.raises(ValueError, match=expected):
        model.problem(tau_1=1.0, tau_2=1.5)
    with pytest.raises(ValueError, match=r"`log\(a\)` \(a = -1\) is nan"):
        dd.equation("x' = -x(t - log(a))", history=1.0).problem(a=-1.0)
    with pytest.raises(ValueError, match="`tau_2` must be positive"):
        dd.equation(TWO).problem(r=1, K=1, c=1, b=1, tau_1=1, tau_2=-1)
    with pytest.raises(ValueError, match="need a value: tau_2. Write"):
        dd.equation(TWO).problem(r=1, K=1, c=1, b=1, tau_1=1)


def test_a_blank_problem_knows_no_delay():
    blank = dd.equation("x' = -x(t - a - c) + x(t - tau) + x(t - 2)", history=1.0).blank
    expected = {"2": 2.0, "a + c": np.nan, "tau": np.nan}
    assert delays(blank) == pytest.approx(expected, nan_ok=True)


def test_problems_with_formulas_can_be_pickled_copied_and_compiled_once():
    texts = ["x' = -x(t - a - c) + x(t - 2)", "dx/dt = -x(t-(a+c))+x(t - 1 - 1)"]
    one, two = (dd.equation(text).problem(a=1, c=2, b=3) for text in texts)
    assert jax.tree.structure(one) == jax.tree.structure(two)
    for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), two):
        assert eqx.tree_equal(other, one)


def test_delays_of_traced_values_can_be_differentiated():
    model = dd.equation("x' = -x(t - a * c) + x(t - c)", history=1.0)

    @jax.jit
    @jax.grad
    def derivative(a):
        return delay_values(model.problem(a=a, c=3.0).tau)["a * c"]

    assert float(derivative(2.0)) == 3.0


@pytest.mark.parametrize(
    "text, expected",
    [
        ("f = x * y; x' = f(t - a) - x", lambda x, y: x(3) * y(3) - x(5)),
        ("f = x(t - c) * t; x' = f(t - a)", lambda x, y: 3 * x(2)),
        (
            "f = g(t - c) + y; g = x * h; h = t + a; x' = f(t - a) + f(t)",
            lambda x, y: x(2) * 4 + y(3) + x(4) * 6 + y(5),
        ),
        ("f = 2 * a; x' = f(t - a)", lambda x, y: 4.0),
        ("f = sin(t); x' = f(t - lag); lag = a + c", lambda x, y: np.sin(2.0)),
        ("f = x > y; x' = where(f(t - a), 1, 2)", lambda x, y: 2 - (x(3) > y(3))),
    ],
)
def test_a_formula_may_be_read_at_an_earlier_time(text, expected):
    model = dd.equation(text + "; y' = c - a; x(t<=0) = 1; y(t<=0) = 1")
    found = slope(model, dict(a=2.0, c=1.0), 5.0)[0]
    x, y = (lambda t: curve(t)[0]), (lambda t: curve(t)[1])
    assert found == pytest.approx(float(expected(x, y)), rel=1e-14)
    assert dd.equation(str(model)) == model
    assert text.split(";")[0] in str(model)


def test_a_formula_of_the_time_alone_needs_no_delay():
    model = dd.equation("x' = s(t - lag); s = sin(t)")
    assert model.names == ("lag", "b", "tau") and model.required == ("lag", "b")
    assert not model.delayed and not model.needs_tau
    history = dd.equation("x' = -x(t - tau); s = sin(t); q = s(t - a); x(t<=0) = q")
    assert history.names == ("a", "tau")
    assert float(history.problem(a=1.0, tau=1.0).history(-1.0)[0]) == np.sin(-2.0)


def test_what_is_measured_uses_no_delayed_formula():
    with pytest.raises(dd.EquationError, match=r"but 'g' needs f\(t - a - 1\)"):
        dd.equation("f = 2 * x; g = f(t - a - 1); x' = g", observe="g")


@pytest.mark.parametrize(
    "formula, latex",
    [
        ("x(t - tau_1 - tau_2)", r"x(t - \tau_{1} - \tau_{2})"),
        ("x(t - (a - c))", r"x(t - \left(a - c\right))"),
        ("x(t - 2 * tau) + f(t - tau)", r"x(t - 2 \, \tau) + f(t - \tau)"),
        ("x(t - tau / 2)", r"x(t - \frac{\tau}{2})"),
        ("x(t - exp(a))", r"x(t - e^{a})"),
    ],
)
def test_delays_in_latex(formula, latex):
    rows = dd.equation(f"x' = {formula}; f = x^2").latex().splitlines()
    assert rows[1] == rf"\frac{{dx}}{{dt}} &= {latex} \\"
