"""Text equations: the paper's models, parameters by name, histories, observation."""

import copy
import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import EXPERIMENTS, MODELS, flatten, paper_data
from hypothesis import given, settings
from hypothesis import strategies as st

import ddefind as dd
from ddefind._parameters import layout

LOGISTIC = "x' = r * x * (1 - x(t - tau) / K)"
TEXTS = {
    "exponential": ("x' = theta_0 * x + theta_1 * x(t - tau)", "affine"),
    "logistic": ("x' = theta_0 * x * (1 - theta_1 * x(t - tau))", "periodic"),
    "enso": ("x' = theta_0 * x - theta_1 * x^3 - theta_2 * x(t - tau)", "periodic"),
    "cheyne": (
        "dx/dt = p - V_0 * x * f / (alpha + f)\nf = x(t - tau)^8",
        "affine",
    ),
    "hiv": (
        """
        T' = k * T_0 * I(t - tau) * exp(-m * tau) - delta * T
        I' = (1 - n_p) * N * delta * T - c * I   # infectious virus
        H' = n_p * N * delta * T - c * H         # harmless virus
        """,
        "periodic",
    ),
}
# The same histories, written out in the text.
FORMULAS = {
    "affine": "x(t<=0) = a * t + b",
    "periodic": "x(t<=0) = A * sin(omega * t) + b",
}


def as_text(name, problem, history):
    """A problem of one of the paper's models, by text."""
    model = dd.equation(TEXTS[name][0], history=history)
    return model.problem({n: dd.parameter_values(problem)[n] for n in model.names})


def gradient(problem, name):
    experiment = EXPERIMENTS[name]
    value, slopes = dd.value_and_grad(
        problem,
        paper_data(name),
        loss=dd.Integral(dd.L2()),
        solver=dd.RK2(),
        steps_per_delay=experiment.n,
    )
    return float(value), dd.parameter_values(slopes)


def close(found, expected, tolerance=1e-12):
    expected = np.asarray(expected)
    np.testing.assert_allclose(
        found, expected, rtol=tolerance, atol=tolerance * np.max(np.abs(expected))
    )


@pytest.mark.parametrize("name", MODELS)
def test_the_papers_models_as_text_are_the_modules(name):
    experiment = EXPERIMENTS[name]
    text = as_text(name, experiment.start, TEXTS[name][1])
    solve = {"T": experiment.T, "steps_per_delay": experiment.n}
    close(dd.solve(text, **solve).x, dd.solve(experiment.start, **solve).x)
    (value, slopes), (expected, wanted) = (
        gradient(problem, name) for problem in (text, experiment.start)
    )
    close(value, expected)
    assert slopes.keys() == wanted.keys()
    close([slopes[n] for n in wanted], list(wanted.values()))


@pytest.mark.parametrize("name", ["exponential", "logistic"])
def test_a_history_in_the_text_is_the_module(name):
    text, kind = TEXTS[name]
    start = EXPERIMENTS[name].start
    model = dd.equation(f"{text}; {FORMULAS[kind]}")
    found = gradient(model.problem(dd.parameter_values(start)), name)
    expected = gradient(start, name)
    close(found[0], expected[0])
    for parameter, slope in expected[1].items():
        close(found[1][parameter], slope, 1e-11)


def test_names_states_and_the_order_of_parameters():
    model = dd.equation(LOGISTIC)
    assert model.states == model.observed == ("x",)
    assert model.names == model.required == ("r", "K", "b", "tau")
    assert model.delayed and model.settings == {}
    problem = model.problem({"r": 1, "rhs.K": 2.0}, b=[0.5], tau=np.float32(0.75))
    assert dd.parameter_values(problem) == {"r": 1, "K": 2, "b": 0.5, "tau": 0.75}
    assert float(problem.rhs.K) == 2.0 and problem.rhs.K.dtype == jnp.float64


def test_the_same_text_compiles_once():
    one, two = dd.equation(LOGISTIC), dd.equation("dx/dt=r*x*(1-x(t-tau)/K) # again")
    values = dict(r=1.0, K=2.0, b=0.5, tau=1.0)
    structures = [jax.tree.structure(m.problem(values)) for m in (one, two)]
    assert one == two and hash(one) == hash(two) and structures[0] == structures[1]
    other = dd.equation("x' = r * x * (2 - x(t - tau) / K)")
    assert one != other
    assert jax.tree.structure(other.problem(values)) != structures[0]


def test_problems_and_equations_can_be_pickled_and_copied():
    model = dd.equation(LOGISTIC + "; x(t<=0) = K / 2", observe="s * x")
    problem = model.problem(r=1.0, K=2.0, tau=1.0, s=3.0)
    for other in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem)):
        assert eqx.tree_equal(other, problem)
    assert pickle.loads(pickle.dumps(model)) == model


def test_problems_of_traced_values_can_be_differentiated():
    model = dd.equation("x' = -k * x(t - tau); y' = -y", history="constant")

    @jax.jit
    @jax.grad
    def slope(k, b):
        problem = model.problem({"b[0]": b, "b[1]": 1.0}, k=k, tau=1.0)
        return dd.solve(problem, T=0.5, max_steps=50)(0.5)[0]

    assert float(slope(2.0, 3.0)) == pytest.approx(-1.5, rel=1e-12)
    vector = jax.grad(lambda b: model.problem(k=1, b=b, tau=1).history.b[1])
    np.testing.assert_array_equal(vector(jnp.ones(2)), [0.0, 1.0])


# Values of formulas.

X, Y, TAU, T = np.array([0.7]), np.array([1.5]), 0.8, 2.5


def value(formula, **parameters):
    """What x' is at the values above."""
    model = dd.equation(f"x' = {formula}")
    known = dict.fromkeys(model.required, 1.0) | parameters
    problem = model.problem({n: known[n] for n in model.required})
    result = problem.rhs(jnp.asarray(X), jnp.asarray(Y), TAU, T)
    assert result.shape == (1,) and result.dtype == jnp.float64
    return float(result[0])


@pytest.mark.parametrize(
    "formula, expected",
    [
        ("x - 2 * x(t - tau) + x(t)", 0.7 - 3.0 + 0.7),
        ("2^3^2 / 512 + 2**-1", 1.5),
        ("-x^2", -0.49),
        ("(-x)^2", 0.49),
        ("x^-2", 0.7**-2),
        ("x^0.5 - sqrt(x)", 0.0),
        ("x^(1 + 1)", 0.49),
        ("- - x + +x", 1.4),
        ("7 / 2 / 2 - (1 - (2 - 3))", 1.75 - 2),
        ("exp(log(x)) + abs(-x)", 1.4),
        ("sin(t)^2 + cos(t)^2 + tan(0)", 1.0),
        ("tanh(x) - (exp(x) - exp(-x)) / (exp(x) + exp(-x))", 0.0),
        ("min(x, 2, t) + max(x, x(t - tau))", 2.2),
        ("min(3, 2) + max(2, 1, 5) + where(1 < 2, 1, 0)", 8.0),
        ("where(x > 1, 5, tau)", 0.8),
        ("where(0 < x <= 1 and not x == 3 or x != x, 1, 0)", 1.0),
        ("(x < 1) + (x > 0) - (x > 5)", 2.0),
        ("x < 1", 1.0),
        ("-(x >= 0.7)", -1.0),
        ("2 * (1 < 2) + (2 < 1)", 2.0),
        ("pi * 1e-3", np.pi / 1000),
        ("007 + .5 + 2. + 1E2", 109.5),
        ("1", 1.0),
        ("t", 2.5),
        ("r * n^2 + e", 1 * 9 + 1),
    ],
)
def test_formulas_mean_what_they_say(formula, expected):
    assert value(formula, n=3.0) == pytest.approx(expected, rel=1e-14, abs=1e-15)


ATOMS = ["x", "x(t - tau)", "a", "b_1", "t", "tau", "pi", "2", "0.5", "3"]


def _combine(inner):
    return st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(" ".join),
        st.tuples(inner, st.sampled_from(["<", "<=", ">", ">="]), inner).map(
            lambda parts: f"where({' '.join(parts)}, {parts[0]}, {parts[2]})"
        ),
        inner.map(lambda e: f"({e})"),
        inner.map(lambda e: f"-{e}"),
        st.tuples(inner, st.sampled_from(["2", "3", "-1"])).map(
            lambda parts: f"({parts[0]})^{parts[1]}"
        ),
        st.tuples(st.sampled_from(["exp", "sin", "abs", "tanh"]), inner).map(
            lambda parts: f"{parts[0]}({parts[1]})"
        ),
        st.tuples(inner, inner).map(lambda parts: f"min({', '.join(parts)})"),
    )


FORMULA = st.recursive(st.sampled_from(ATOMS), _combine, max_leaves=8)


@settings(max_examples=150, deadline=None)
@given(FORMULA)
def test_formulas_agree_with_python_and_print_as_themselves(formula):
    try:
        model = dd.equation(f"x' = {formula}")
    except dd.EquationError as error:
        assert "finite" in str(error)
        return
    assert dd.equation(str(model)) == model
    names = {name: getattr(np, name) for name in ("exp", "sin", "abs", "tanh", "pi")}
    names |= dict(min=np.minimum, where=np.where, a=1.25, b_1=-0.5, t=T, tau=TAU)
    python = formula.replace("^", "**").replace("x(t - tau)", "y")
    with np.errstate(all="ignore"):
        numbers = dict(x=np.float64(X[0]), y=np.float64(Y[0]), **names)
        exact = {str(n): f"np.float64({n})" for n in (2, 0.5, 3)}
        for text, number in exact.items():
            python = python.replace(f" {text} ", f" {number} ")
        try:
            expected = float(eval(python, {"np": np}, numbers))
        except ArithmeticError:
            return
    found = value(formula, a=1.25, b_1=-0.5)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_integer_powers_are_products():
    problem = dd.equation("x' = x(t - tau)^8 + x^(2 * 3)").problem(b=1, tau=1)
    text = str(jax.make_jaxpr(problem.rhs)(X, Y, TAU, T))
    assert "integer_pow[y=8]" in text and "integer_pow[y=6]" in text
    assert " pow " not in text and "log" not in text


def test_intermediate_names_in_any_order():
    text = "x' = g - h; h = 2 * g; g = a * f(t)"
    with pytest.raises(dd.EquationError, match="'f' is|no function 'f'"):
        dd.equation(text)
    model = dd.equation("x' = g - h; h = 2 * g; g = a * f; f = x(t - tau); u = w")
    assert model.names == ("a", "b", "tau")  # nothing needs w
    rhs = model.problem(a=3.0, b=1.0, tau=1.0).rhs
    assert float(rhs(X, Y, TAU, T)[0]) == pytest.approx(-4.5)


def test_a_condition_may_have_a_name():
    model = dd.equation("x' = where(late, 1, 2) + late; late = t > 2")
    assert float(model.problem(b=1.0).rhs(X, Y, TAU, T)[0]) == 2.0


def test_derivatives_are_written_in_many_ways():
    texts = ["x' = -x", "x'(t) = -x(t)", "dx/dt = -x", "dx(t) / dt=-x", "x ' = - x ;"]
    assert len({dd.equation(text) for text in texts}) == 1


def test_a_formula_goes_on_in_parentheses():
    model = dd.equation("x' = (a\n  + x(\n t - tau))  # one\r\ny' = 1\r")
    assert str(model) == "x' = a + x(t - tau)\ny' = 1"


# The delay.


def test_a_delay_may_be_a_number():
    model = dd.equation("x' = -x(t - 2.5) + y(t - 5 / 2); y' = tau - 1")
    assert model.names == ("b[0]", "b[1]", "tau") and "tau" not in model.required
    assert model.settings == {"tau": dd.Fixed(2.5)}
    problem = model.problem(b=1.0)
    assert float(problem.tau) == 2.5
    assert str(model).splitlines()[0] == "x' = -x(t - 2.5) + y(t - 2.5)"
    with pytest.raises(ValueError, match="text gives the delay as 2.5"):
        model.problem(b=1.0, tau=3.0)


def test_without_a_delay_tau_need_not_be_given():
    model = dd.equation("x' = -k * x")
    assert not model.delayed and model.required == ("k", "b")
    assert model.settings == {"tau": dd.Fixed()}
    assert float(model.problem(k=1.0, b=1.0, tau=0.1).tau) == 0.1
    problem = model.problem(k=1.0, b=1.0)
    assert float(dd.solve(problem, T=1.0)(1.0)[0]) == pytest.approx(np.exp(-1))
    assert dd.equation("x' = -x / tau").required == ("b", "tau")


# Names that stand in several places.

TIED = dd.equation(LOGISTIC + "; x(t<=0) = K / 2 + a * t + tau", observe="s * x / K")


def test_a_name_in_several_places_is_one_parameter():
    assert TIED.names == TIED.required == ("r", "K", "a", "tau", "s")
    assert TIED.settings == {
        "history.K": dd.Tied("rhs.K"),
        "history.tau": dd.Tied("tau"),
        "observe.K": dd.Tied("rhs.K"),
    }
    problem = TIED.problem(r=1, K=2, a=3, tau=0.5, s=4)
    assert float(problem.history.K) == float(problem.observe.K) == 2
    assert float(problem.history.tau) == 0.5
    assert float(problem.history(-1.0)[0]) == 1 - 3 + 0.5


def test_tied_names_are_short_in_a_fit():
    problem = TIED.problem(r=1, K=2, a=3, tau=0.5, s=4)
    parameters = TIED.settings | {"K": dd.Parameter(start=5.0, lower=0.1)}
    found, filled, _ = layout(problem, parameters)
    assert found.names == ("r", "K", "a", "tau", "s")
    assert float(filled.history.K) == float(filled.rhs.K) == 5.0
    t = np.linspace(0, 3, 20)
    fit = dd.fit(problem, dd.Data(t, t), parameters=parameters, epochs=3)
    learned = dd.parameter_values(fit.problem)
    assert list(fit.values) == ["r", "K", "a", "tau", "s"]
    assert learned["history.K"] == learned["rhs.K"] == fit.values["K"] != 5.0


def test_a_copy_cannot_be_given():
    with pytest.raises(ValueError, match="'history.K' always equals 'rhs.K'"):
        TIED.problem({"history.K": 3.0}, r=1, K=2, a=3, tau=0.5, s=4)


def test_fields_of_a_kind_of_history_are_not_the_texts_names():
    model = dd.equation("x' = b * x(t - tau)")
    assert model.names == ("rhs.b", "history.b", "tau") and model.settings == {}
    with pytest.raises(ValueError, match="'b' could mean any of rhs.b, history.b"):
        model.problem(b=1.0, tau=1.0)
    problem = model.problem({"rhs.b": 1.0, "history.b": 2.0, "tau": 1.0})
    assert float(problem.history.b[0]) == 2.0


@pytest.mark.parametrize(
    "given, kind, message",
    [
        (dict(r=1.0), ValueError, r"need a value: K, b, tau. Write problem\(K=..., b="),
        (dict(r=1.0, k=2.0), ValueError, "no parameter 'k'. Did you mean 'K'"),
        (dict(r="fast"), TypeError, "'r' needs a number, but got 'fast'"),
        (dict(r=np.nan), ValueError, "'r' needs one finite number, but got nan"),
        (dict(r=[1, 2]), ValueError, "'r' needs one finite number"),
        ({"r": 1.0, "rhs.r": 2.0}, ValueError, "'rhs.r' is given twice"),
        (dict(r=1, K=1, b=1, tau=-1.0), ValueError, "`tau` must be positive"),
    ],
)
def test_wrong_values_are_refused(given, kind, message):
    with pytest.raises(kind, match=message):
        dd.equation(LOGISTIC).problem(given)


# Histories.


@pytest.mark.parametrize(
    "history, names",
    [
        ("constant", ("b[0]", "b[1]", "tau")),
        ("affine", ("a[0]", "a[1]", "b[0]", "b[1]", "tau")),
        ("periodic", ("A[0]", "A[1]", "omega[0]", "omega[1]", "b[0]", "b[1]", "tau")),
    ],
)
def test_kinds_of_history(history, names):
    model = dd.equation("x' = y(t - tau); y' = -x", history=history)
    assert model.names == model.required == names
    problem = model.problem(dict.fromkeys({n.split("[")[0] for n in names}, 2.0))
    assert type(problem.history).__name__ == history.capitalize()
    assert problem.history(0.0).shape == (2,)


def test_a_neural_history_has_weights_of_its_own():
    model = dd.equation("x' = y(t - tau); y' = -x", history="neural")
    assert model.required == ("tau",)
    assert isinstance(model.problem(tau=1.0).history, dd.Neural)


@pytest.mark.parametrize("history", [2.5, [2.5, 2.5], (2.5, 2.5), np.full(2, 2.5)])
def test_numbers_are_a_constant_history_with_a_value(history):
    model = dd.equation("x' = y(t - tau); y' = -x", history=history)
    assert model.required == ("tau",) and model.names[0] == "b[0]"
    np.testing.assert_array_equal(model.problem(tau=1.0).history.b, [2.5, 2.5])
    assert float(model.problem({"tau": 1.0, "b[1]": 3.0}).history.b[1]) == 3.0


def test_a_module_or_a_function_is_a_history():
    model = dd.equation("x' = -x(t - tau)", history=dd.Affine(1.0, 2.0))
    assert model.required == ("tau",)
    assert dd.parameter_values(model.problem(tau=1.0)) == {"a": 1, "b": 2, "tau": 1}
    model = dd.equation("x' = -x(t - tau)", history=lambda t: jnp.exp(t)[None])
    assert float(dd.solve(model.problem(tau=1.0), T=1.0)(-1.0)[0]) == pytest.approx(
        np.exp(-1)
    )


def test_another_history_for_the_same_equations():
    model = dd.equation(LOGISTIC + "; x(t<=0) = K / 2", observe="2 * x")
    other = model.with_history("affine")
    assert other == dd.equation(LOGISTIC, history="affine", observe="2 * x")
    assert other.names == ("r", "K", "a", "b", "tau") and other.settings == {}
    assert other.with_history(None).names == ("r", "K", "b", "tau")


@pytest.mark.parametrize(
    "text, history, kind, message",
    [
        (LOGISTIC, "linear", ValueError, "There is no history 'linear'"),
        (LOGISTIC, "Affine", ValueError, "Did you mean 'affine'"),
        (LOGISTIC, [1.0, 2.0], ValueError, "'history' needs one finite number"),
        (LOGISTIC, [np.nan], ValueError, "'history' needs one finite number"),
        (LOGISTIC, {"x": 1}, TypeError, "'history' needs a number, but got {'x': 1}"),
        (LOGISTIC, dd.Constant, TypeError, r"Call it: `Constant\(...\)`"),
        (LOGISTIC, dd.Constant([1.0, 2.0]), ValueError, r"for x, but .* shape \(2,\)"),
        (LOGISTIC + "; x(t<=0) = 1", "affine", dd.EquationError, "has a history alre"),
    ],
)
def test_histories_that_do_not_fit_are_refused(text, history, kind, message):
    with pytest.raises(kind, match=message):
        dd.equation(text, history=history)


# What is measured.


def test_a_formula_is_measured():
    model = dd.equation("x' = -x(t - tau); z' = x", observe="scale * (x + 2 * z) + t")
    assert model.observed == ("y",) and model.names[-1] == "scale"
    problem = model.problem(b=[1.0, 2.0], tau=1.0, scale=10.0)
    assert problem.observed == 1
    np.testing.assert_allclose(problem.observe(jnp.array([1.0, 2.0]), 0.5), [50.5])


def test_several_quantities_are_measured_by_name():
    text = "x' = -x(t - tau); z' = x; total = x + z"
    model = dd.equation(text, observe="x; total; half = share / 2; x2 = share; share=z")
    assert model.observed == ("x", "total", "half", "x2", "share")
    problem = model.problem(b=1.0, tau=1.0)
    found = problem.observe(jnp.array([1.0, 4.0]), 0.0)
    np.testing.assert_array_equal(found, [1.0, 5.0, 2.0, 4.0, 4.0])


def test_what_is_measured_may_be_called_as_a_state():
    model = dd.equation("x' = -x(t - tau)", observe="x = 2 * x\ny = x^2 + c")
    problem = model.problem(b=1.0, tau=1.0, c=1.0)
    np.testing.assert_array_equal(problem.observe(jnp.array([3.0]), 0.0), [6.0, 10.0])


def test_a_formula_without_a_name_gets_a_free_one():
    assert dd.equation("y' = -y", observe="2 * y").observed == ("observed",)
    assert dd.equation("x' = -x", observe="2 * y * x").observed == ("observed",)
    assert dd.equation("x' = -x", observe="2 * x").observed == ("y",)


def test_a_fit_to_what_is_measured_finds_its_parameters():
    model = dd.equation("x' = -k * x(t - tau)", history=1.0, observe="s * x")
    t = np.linspace(0, 4, 30)
    x = dd.solve(model.problem(k=1.0, tau=0.8, s=3.0), T=4.0)(t)
    start = model.problem(k=0.8, tau=1.0, s=2.0)
    settings = model.settings | {"b": dd.Fixed()}
    fit = dd.fit(
        start,
        dd.Data(t, 3.0 * x),
        parameters=settings,
        optimizer=dd.LBFGS(),
        epochs=100,
    )
    assert fit.values == pytest.approx(dict(k=1.0, tau=0.8, s=3.0), rel=1e-5)


# Printing.


@pytest.mark.parametrize("name", MODELS)
def test_the_papers_models_print_as_themselves(name):
    text, kind = TEXTS[name]
    model = dd.equation(text)
    assert dd.equation(str(model)) == model and str(dd.equation(str(model))) == str(
        model
    )
    for model in (model, dd.equation(text, history=kind), dd.equation(text, history=2)):
        assert eval(repr(model), {"dd": dd}) == model


def test_what_is_not_in_the_text_prints_as_comments():
    model = dd.equation("x'=-x(t-tau)", history="affine", observe="2*x; ")
    assert str(model) == "x' = -x(t - tau)\n# history: affine\n# observe: y = 2 * x"
    assert eval(repr(model), {"dd": dd}) == model


@pytest.mark.parametrize(
    "formula, printed",
    [
        ("a-(b-c)-d*(e/(f*g))", "a - (b - c) - d * (e / (f * g))"),
        ("((a+b))*(c)", "(a + b) * c"),
        ("(a^b)^c + a^(b^c)", "(a^b)^c + a^b^c"),
        ("(-a)**2 - -a^2", "(-a)^2 - -a^2"),
        ("-(a*b) + (-a)*b", "-(a * b) + -a * b"),
        ("a^(-b) * a^(b+1)", "a^-b * a^(b + 1)"),
        (
            "where(not(a<b or c<d)and x>1,1,0)",
            "where(not (a < b or c < d) and x > 1, 1, 0)",
        ),
        ("(a < b) == (c < d)", "(a < b) == (c < d)"),
        ("0 < a < 1", "0 < a and a < 1"),
        ("1.50*x + 1e3 + 1E-7", "1.5 * x + 1000 + 1e-07"),
    ],
)
def test_formulas_print_with_the_parentheses_that_they_need(formula, printed):
    model = dd.equation(f"x' = {formula}")
    assert str(model) == f"x' = {printed}"
    assert dd.equation(str(model)) == model


@pytest.mark.parametrize(
    "formula, latex",
    [
        ("r * x * (1 - x(t - tau) / K)", r"r \, x \, \left(1 - \frac{x(t - \tau)}{K}\right)"),
        ("V_max * x^n / (K_1^n + x^n)", r"\frac{V_{\mathrm{max}} \, x^{n}}{K_{1}^{n} + x^{n}}"),
        ("-theta_0 * exp(-k12 * tau)", r"-\theta_{0} \, e^{-k_{12} \, \tau}"),
        ("a - (b - c) + -x", r"a - \left(b - c\right) + \left(-x\right)"),
        ("2 * 3 * x * 2^n", r"2 \cdot 3 \, x \cdot 2^{n}"),
        ("(a / b)^2 + (-x)^2", r"\left(\frac{a}{b}\right)^{2} + \left(-x\right)^{2}"),
        ("sqrt(x) + abs(x) * sin(pi * t)^2", r"\sqrt{x} + \left|x\right| \, \left(\sin\left(\pi \, t\right)\right)^{2}"),
        ("1e-8 * x(t - 2.5)^2", r"1 \cdot 10^{-8} \, x(t - 2.5)^{2}"),
        ("where(x >= 1 and not x == 2, lambda_, min(x, 1))", r"\begin{cases} \lambda & \text{if } x \ge 1 \land \lnot \left(x = 2\right) \\ \min\left(x, 1\right) & \text{otherwise} \end{cases}"),
    ],
)  # fmt: skip
def test_formulas_in_latex(formula, latex):
    rows = dd.equation(f"x' = {formula}").latex().splitlines()
    assert rows[1] == rf"\frac{{dx}}{{dt}} &= {latex} \\"


def test_models_in_latex():
    model = dd.equation(
        "x' = f; f = -x; z' = x", history="periodic", observe="x; y = 2 * z"
    )
    assert model.latex().splitlines() == [
        r"\begin{aligned}",
        r"\frac{dx}{dt} &= f \\",
        r"f &= -x \\",
        r"\frac{dz}{dt} &= x \\",
        r"x(t) &= A_{0} \, \sin\left(\omega_{0} \, t\right) + b_{0} \quad (t \le 0) \\",
        r"z(t) &= A_{1} \, \sin\left(\omega_{1} \, t\right) + b_{1} \quad (t \le 0) \\",
        r"\text{measured: } & x, \quad y = 2 \, z",
        r"\end{aligned}",
    ]
    text = dd.equation("alpha' = -alpha; alpha(t<=0) = b0 * t")
    assert r"\alpha(t) &= b_{0} \, t \quad (t \le 0)" in text.latex()
    assert text._repr_latex_().startswith(r"$\displaystyle \begin{aligned}")
