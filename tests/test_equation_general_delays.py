"""Text equations whose delays depend on time and state, are distributed, or neutral."""

import copy
import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._problem.delays import AbstractConstantDelay
from ddefind._problem.general_delays import AbstractVaryingDelay
from ddefind._problem.parameters import free_parameters
from ddefind._search.make_setup import make_setup


def slope(problem, x, y, tau=None, t=0.0):
    """The right-hand side at given states, and at given delayed states by the texts of
    the delays."""
    y = jax.tree.map(jnp.array, y, is_leaf=lambda part: isinstance(part, list))
    tau = tau or dict.fromkeys(problem.tau, np.nan)
    return np.asarray(problem.rhs(jnp.array(x), y, tau, t))


@pytest.mark.parametrize(
    "argument, key, value",
    [
        ("t - a / (1 + x)", "a / (1 + x)", 1.5 / 4),
        ("t - x", "x", 3.0),
        ("t - a - x * y", "a + x * y", 1.5 + 6),
        ("t - a + y * sin(t)", "a - y * sin(t)", 1.5 - 2 * np.sin(5.0)),
        ("t - lag", "1 + x^2 / a", 1 + 9 / 1.5),
        ("t / 2", "t - t / 2", 2.5),
        ("a * t", "t - a * t", -2.5),
        ("2 * t - 0.5", "t - (2 * t - 0.5)", -4.5),
        ("exp(1 - 1 / t)", "t - exp(1 - 1 / t)", 5 - np.exp(0.8)),
        ("y - 2", "t - (y - 2)", 5.0),
        ("y", "t - y", 3.0),
        ("t + log(y)", "t - (t + log(y))", -np.log(2.0)),
        ("late", "t - t^2 / 9", 5 - 25 / 9),
        ("where(t > 4, t - 1, y)", "t - where(t > 4, t - 1, y)", 1.0),
    ],
)
def test_a_delay_may_depend_on_time_and_states(argument, key, value):
    text = f"x' = 2 * y({argument}) - x * a; y' = 1; lag = 1 + x^2 / a; late = t^2 / 9"
    model = dd.equation(text, history=[1.0, 1.0])
    assert model.names == ("a", "b[0]", "b[1]") and model.delayed
    problem = model.problem(a=1.5)
    (leaf,) = problem.tau.values()
    assert list(problem.tau) == [key]
    assert isinstance(leaf, AbstractVaryingDelay) and not leaf.slope
    found = leaf(jnp.array(5.0), jnp.array([3.0, 2.0]))
    assert found.shape == () and float(found) == pytest.approx(value, rel=1e-14)
    at = slope(problem, [3.0, 2.0], {key: [10.0, 20.0]}, t=5.0)
    np.testing.assert_allclose(at, [40 - 4.5, 1.0])
    assert dd.equation(str(model)) == dd.equation(text)


def test_formulas_of_parameters_stay_constant_delays():
    model = dd.equation("x' = -x(t - 2 * a) + x(t - lag) + x(-c + t); lag = a + 1")
    problem = model.problem(a=1.0, c=4.0, b=1.0)
    assert sorted(problem.tau) == ["2 * a", "a + 1", "c"]
    assert float(problem.tau["c"]) == 4.0
    assert isinstance(problem.tau["2 * a"], AbstractConstantDelay)
    assert float(problem.tau["a + 1"]()) == 2.0


def test_a_state_that_is_a_delay_is_the_state_in_the_equation():
    model = dd.equation("x' = x(t - y) * y; y' = x - y", history=1.0)
    at = slope(model.problem({}), [3.0, 2.0], {"y": [5.0, 6.0]}, tau={"y": 99.0})
    np.testing.assert_allclose(at, [10.0, 1.0])


def test_parameters_of_a_delay_are_those_of_the_equation():
    model = dd.equation("x' = -a * x(t - a * x); x(t<=0) = a")
    assert model.names == ("a",)
    assert model.settings == {
        "tau['a * x'].a": dd.Tied("rhs.a"),
        "history.a": dd.Tied("rhs.a"),
    }
    assert float(model.problem(a=2.0).tau["a * x"](0.0, jnp.array([3.0]))) == 6.0


def test_a_delayed_formula_may_have_a_delay_that_varies():
    model = dd.equation("x' = f(t - x); f = x * t + x(t - 1)", history=1.0)
    problem = model.problem({})
    assert sorted(problem.tau) == ["x", "x + 1"]
    assert float(problem.tau["x + 1"](0.0, jnp.array([0.5]))) == 1.5
    at = slope(problem, [0.5], {"x": [3.0], "x + 1": [7.0]}, t=2.0)
    np.testing.assert_allclose(at, [3.0 * 1.5 + 7.0])


def test_a_neutral_delay_reads_the_state_and_its_slope():
    model = dd.equation(
        "x' = -x + c * x'(t - tau) + y(t - tau) * tau; y' = x'(t - tau)"
    )
    assert model.names == ("c", "b[0]", "b[1]", "tau") and model.settings == {}
    problem = model.problem(c=3.0, b=1.0, tau=0.5)
    leaf = problem.tau["tau"]
    assert isinstance(leaf, AbstractVaryingDelay) and leaf.slope
    assert float(leaf(jnp.array(0.0), jnp.ones(2))) == 0.5
    y = {"tau": ([10.0, 20.0], [7.0, 8.0])}
    at = slope(problem, [1.0, 2.0], y, tau={"tau": 0.5})
    np.testing.assert_allclose(at, [-1 + 21 + 10, 7.0])
    with pytest.raises(ValueError, match="`tau` must be positive, but got -1"):
        model.problem(c=3.0, b=1.0, tau=-1.0)


@pytest.mark.parametrize(
    "text, key, value",
    [
        ("x' = x'(t - 2) + x(t - 1 - 1)", "2", 2.0),
        ("x' = x'(t - a - c)", "a + c", 4.0),
        ("x' = x'(x - 2)", "t - (x - 2)", 7.0),
        ("x' = f(t - a); f = x'(t - c)", "a + c", 4.0),
    ],
)
def test_slopes_at_other_delays(text, key, value):
    model = dd.equation(text, history=1.0)
    values = {name: {"a": 1.0, "c": 3.0}[name] for name in model.required}
    problem = model.problem(values)
    assert list(problem.tau) == [key] and problem.tau[key].slope
    assert float(problem.tau[key](6.0, jnp.ones(1))) == value
    expected = 4.0 + 5.0 * ("+ x(" in text)
    np.testing.assert_allclose(slope(problem, [1.0], {key: ([5.0], [4.0])}), [expected])
    assert dd.equation(str(model)) == dd.equation(text)


def test_only_the_delay_of_a_slope_is_neutral():
    model = dd.equation("x' = x'(t - lag) + x(t - tau) + x(t - 2 * lag)", history=1.0)
    tau = model.problem(lag=1.0, tau=2.0).tau
    assert tau["lag"].slope and float(tau["tau"]) == 2.0
    assert isinstance(tau["2 * lag"], AbstractConstantDelay)
    assert model.names == ("b", "lag", "tau")


@pytest.mark.parametrize(
    "kernel, key",
    [
        ("gamma(mean = m, shape = k)", "gamma(mean = m, shape = k)"),
        ("gamma(shape = k, mean = m)", "gamma(mean = m, shape = k)"),
        ("gamma(m, shape = k)", "gamma(mean = m, shape = k)"),
        ("gamma(m, k)", "gamma(mean = m, shape = k)"),
        ("gamma(m, half)", "gamma(mean = m, shape = k / 2 + 2)"),
        ("uniform(m, k)", "uniform(m, k)"),
        ("lognormal(sd = k / 2, mean = m)", "lognormal(mean = m, sd = k / 2)"),
        ("weibull(m, k)", "weibull(mean = m, shape = k)"),
        ("inverse_gaussian(m, k - 1)", "inverse_gaussian(mean = m, sd = k - 1)"),
        ("uniform(high = k, low = m)", "uniform(m, k)"),
        ("uniform(0, 2 * k)", "uniform(0, 2 * k)"),
    ],
)
def test_a_delay_may_be_distributed(kernel, key):
    text = f"x' = beta * delay(y, {kernel}) - m * k * x; y' = x; half = k / 2 + 2"
    model = dd.equation(text, history=[1.0, 2.0])
    assert set(model.names) == {"beta", "m", "k", "b[0]", "b[1]"}
    problem = model.problem(beta=2.0, m=1.5, k=4.0)
    (leaf,) = problem.tau.values()
    assert list(problem.tau) == [key]
    first = 0.0 if "uniform(0" in kernel else 1.5
    second = {"2 * k": 8.0, "k / 2": 2.0, "k - 1": 3.0}
    numbers = first, next((second[text] for text in second if text in kernel), 4.0)
    assert leaf().word == kernel.split("(")[0]
    np.testing.assert_array_equal(jax.tree.leaves(leaf()), numbers)
    at = slope(problem, [1.0, 2.0], {key: [10.0, 20.0]})
    np.testing.assert_allclose(at, [40 - 6.0, 1.0])
    assert dd.equation(str(model)) == dd.equation(text)


def test_impossible_distributions_are_named_with_their_values():
    model = dd.equation("x' = delay(x, gamma(m, k))", history=1.0)
    expected = r"shape of at least 1, but got `gamma\(mean = m, shape = k\)` \(m = 1, k"
    with pytest.raises(ValueError, match=expected):
        model.problem(m=1.0, k=0.5)
    with pytest.raises(ValueError, match="positive mean"):
        model.problem(m=-1.0, k=2.0)
    model = dd.equation("x' = delay(x, uniform(low, high))", history=1.0)
    with pytest.raises(ValueError, match=r"low < high, but got `uniform\(low, high\)`"):
        model.problem(low=2.0, high=1.0)
    tau = model.problem(low=0.0, high=1.0).tau
    assert eqx.tree_equal(tau["uniform(low, high)"](), dd.UniformDelay(0.0, 1.0))


def test_the_new_words_are_names_of_parameters():
    model = dd.equation(
        "x' = gamma * delay(x, gamma(gamma, mean)) - delay * x + uniform * shape"
    )
    names = ("gamma", "delay", "uniform", "shape", "b", "mean")
    assert model.names == names
    problem = model.problem({name: index + 1.0 for index, name in enumerate(names)})
    (leaf,) = problem.tau.values()
    assert eqx.tree_equal(leaf(), dd.GammaDelay(1.0, 6.0))
    at = slope(problem, [5.0], dict.fromkeys(problem.tau, [7.0]))
    np.testing.assert_allclose(at, [7.0 - 10.0 + 12.0])


@pytest.mark.parametrize("word", ["gamma", "delay", "uniform", "mean"])
def test_the_new_words_are_names_of_states_and_formulas(word):
    state = dd.equation(f"{word}' = -{word}(t - tau); x' = {word}(t)", history=1.0)
    problem = state.problem(tau=1.0)
    at = problem.rhs(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]), 1.0, 0.0)
    np.testing.assert_allclose(at, [-3.0, 1.0])
    formula = dd.equation(
        f"{word} = 2 * x; x' = {word}(t - tau) + {word} + m; "
        "m = delay(x, gamma(mean = 3, shape = 2))",
        history=1.0,
    )
    problem, key = formula.problem(tau=1.0), "gamma(mean = 3, shape = 2)"
    at = slope(problem, [1.0], {"tau": [3.0], key: [10.0]})
    np.testing.assert_allclose(at, [6.0 + 2.0 + 10.0])


def test_a_definition_may_have_the_name_of_what_it_uses():
    model = dd.equation("gamma = delay(x, gamma(mean = 3, shape = 2)); x' = gamma")
    assert model.delayed and model.names == ("b",)


TEXTS = [
    "x' = -x(t - a * x) + x'(t - c)",
    "x' = delay(x, gamma(a, shape = c)) - x(t / 2)",
    "x' = delay(x, uniform(a, a + c))",
]


@pytest.mark.parametrize("text", TEXTS)
def test_problems_can_be_pickled_copied_and_compiled_once(text):
    one = dd.equation(text).problem(a=2.0, c=3.0, b=1.0)
    two = dd.equation(text.replace(" ", "")).problem(a=2.0, c=3.0, b=1.0)
    assert jax.tree.structure(one) == jax.tree.structure(two)
    for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), two):
        assert eqx.tree_equal(other, one)
        slopes = [getattr(leaf, "slope", None) for leaf in other.tau.values()]
        assert slopes == [getattr(leaf, "slope", None) for leaf in one.tau.values()]


def test_values_may_be_traced():
    model = dd.equation("x' = delay(x, gamma(a * c, 2)) + x(t - c * x)", history=1.0)

    @jax.jit
    @jax.grad
    def derivative(c):
        tau = model.problem(a=2.0, c=c).tau
        mean = tau["gamma(mean = a * c, shape = 2)"]().mean
        return mean + tau["c * x"](0.0, jnp.array([5.0]))

    assert float(derivative(3.0)) == 7.0


def test_switches_beside_the_new_delays():
    model = dd.equation(
        "x' = where(t > tau + on, 1, x'(t - tau)) + x(t - x) + f(t - tau); f = t < 5",
        history=1.0,
    )
    assert sorted(model.problem(tau=2.0, on=1.0).switch_times.tolist()) == [3.0, 7.0]


@pytest.mark.parametrize(
    "formula, latex",
    [
        ("x(t - a / (1 + x))", r"x(t - \frac{a}{1 + x})"),
        ("x(t / 2) - x(x - 2)", r"x(\frac{t}{2}) - x(x - 2)"),
        ("c * x'(t - tau)", r"c \, x'(t - \tau)"),
        (
            "delay(x, gamma(m, k))",
            r"\int_{0}^{\infty} \mathrm{Gamma}\left(s; m, k\right) \, x(t - s) \, ds",
        ),
        (
            "delay(x, inverse_gaussian(m, k)) * k",
            r"\int_{0}^{\infty} \mathrm{InverseGaussian}\left(s; m, k\right) \, "
            r"x(t - s) \, ds \, k",
        ),
        (
            "delay(x, uniform(1, a))^2",
            r"\left(\frac{1}{a - 1} \int_{1}^{a} x(t - s) \, ds\right)^{2}",
        ),
    ],
)
def test_latex(formula, latex):
    rows = dd.equation(f"x' = {formula}").latex().splitlines()
    assert rows[1] == rf"\frac{{dx}}{{dt}} &= {latex} \\"


# Equations with the solution exp(a t), or without any parameter.

A, MEAN, SHAPE = 0.3, 1.7, 2.7
GAMMA = (1 + A * MEAN / SHAPE) ** -SHAPE
UNIFORM = (np.exp(-A * 0.5) - np.exp(-A * 2)) / (A * 1.5)


@pytest.mark.parametrize(
    "formula, values",
    [
        ("delay(x, gamma(m, k)) - g * x", dict(m=MEAN, k=SHAPE, g=GAMMA - A)),
        ("delay(x, uniform(0.5, h)) - g * x", dict(h=2.0, g=UNIFORM - A)),
        ("c * x'(t - tau) + g * x", dict(c=0.5, tau=1.0, g=A - A / 2 * np.exp(-A))),
        ("a * x(t - c * x) * exp(a * c * x)", dict(c=0.5)),
        ("a * x(t / 2) * exp(a * t / 2)", {}),
    ],
)
def test_texts_are_solved(formula, values):
    model = dd.equation(f"x' = {formula}; x(t<=0) = exp(a * t)")
    solution = dd.solve(
        model.problem(a=A, **values), T=3.0, solver=dd.Tsit5(rtol=1e-8, atol=1e-10)
    )
    t = np.linspace(0, 3, 7)
    np.testing.assert_allclose(np.asarray(solution(t))[:, 0], np.exp(A * t), rtol=1e-7)


def test_an_equation_may_have_no_parameter():
    model = dd.equation("u' = -u'(u - 2); u(t<=0) = 1 - t")
    assert model.names == () and dd.parameter_values(model.problem()) == {}
    solution = dd.solve(model.problem(), T=1.0, solver=dd.Tsit5())
    np.testing.assert_allclose(np.asarray(solution(np.array([1.0]))), [[2.0]])


@pytest.mark.parametrize(
    "text, delays, shapes",
    [
        ("x' = -x + c * x'(t - tau)", {"tau"}, set()),
        ("x' = -x + c * x'(t - lag) + c * x(t - tau)", {"lag", "tau"}, set()),
        ("x' = c * x(t - lag * x) - lag", set(), set()),
        ("x' = m * delay(x, gamma(m, k))", {"m"}, {"k"}),
        ("x' = delay(x, gamma(2 * m, k + 1)) - m * k", set(), set()),
        ("x' = delay(x, uniform(low, high))", {"low", "high"}, set()),
        ("x' = delay(x, uniform(1, low + high))", set(), set()),
        ("x' = delay(x, lognormal(m, k))", {"m", "k"}, set()),
        ("x' = delay(x, weibull(m, k)) * m", {"m"}, {"k"}),
    ],
)
def test_delays_and_shapes_are_known(text, delays, shapes):
    model = dd.equation(text, history=1.0)
    values = dict(c=1.0, m=2.0, k=3.0, tau=1.0, lag=2.0, low=3.0, high=4.0)
    problem = model.problem({name: values[name] for name in model.required})
    free, _, _ = free_parameters(problem, model.settings)
    assert {free.names[j] for j in free.delays} == delays
    assert {free.names[j] for j in free.shapes} == shapes


def test_delay_objects_know_their_delays_and_shapes():
    def rhs(x, y, tau, t):
        return -x

    tau = {
        "a": dd.Delay(1.0, slope=True),
        "b": dd.GammaDelay(2.0, 3.0),
        "c": dd.UniformDelay(0.0, 2.0),
        "d": dd.Delay(lambda t, x: jnp.ones(())),
        "e": 4.0,
    }
    free, _, _ = free_parameters(dd.Problem(rhs, dd.Constant(1.0), tau))
    assert [free.names[j] for j in free.delays] == ["delay", "mean", "low", "high", "e"]
    assert [free.names[j] for j in free.shapes] == ["shape"]


DATA = dd.Data(np.linspace(0, 20, 41), np.cos(np.linspace(0, 20, 41)))


def test_default_bounds_of_delays_and_shapes():
    model = dd.equation(
        "x' = c * x'(t - tau) + delay(x, gamma(m, k)) + delay(x, uniform(low, high))"
    )
    settings = {**model.settings, "k": dd.Parameter(start=40.0)}
    setup, _ = make_setup(model.blank, DATA, settings, dd.RK4(), 10)
    names = setup.model.free.names
    bounds = {n: (a, b) for n, a, b in zip(names, setup.lower, setup.upper)}
    for name in ("tau", "m", "low", "high"):
        assert bounds[name] == pytest.approx((0.004, 40.0))
    assert bounds["k"] == (1.0, 60.0) and bounds["c"] == (-np.inf, np.inf)


@pytest.mark.parametrize("bounds", [dict(lower=0.5), dict(upper=0.9)])
def test_a_shape_below_one_is_refused(bounds):
    model = dd.equation("x' = k * delay(x, gamma(m, k))")
    settings = {**model.settings, "k": dd.Parameter(**bounds)}
    with pytest.raises(ValueError, match=r"\['k'\]` has the bounds .* at least 1\."):
        make_setup(model.blank, DATA, settings, dd.RK4(), 10)
