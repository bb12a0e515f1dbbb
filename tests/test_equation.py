"""Text equations: the paper's models, parameters by name, histories, observation."""

import copy
import pickle
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._problem.parameters import free_parameters
from ddefind.paper import EXPERIMENTS
from support.repeats import mostly_slow

LOGISTIC = "x' = r * x * (1 - x(t - tau) / K)"
TEXTS = {
    "exponential": ("x' = theta_0 * x + theta_1 * x(t - tau)", "affine"),
    "logistic": ("x' = theta_0 * x * (1 - theta_1 * x(t - tau))", "periodic"),
    "enso": ("x' = theta_0 * x - theta_1 * x^3 - theta_2 * x(t - tau)", "periodic"),
    "cheyne": ("dx/dt = p - V_0 * x * f / (alpha + f)\nf = x(t - tau)^8", "affine"),
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


def gradient(problem, name):
    experiment = EXPERIMENTS[name]
    steps: Any = dict(solver=dd.RK2(), steps_per_delay=experiment.steps_per_delay)
    loss = dd.Integral(dd.L2())
    value, slopes = dd.value_and_grad(problem, experiment.clean, loss=loss, **steps)
    return float(value), dd.parameter_values(slopes)


def close(found, expected, tolerance=1e-12):
    expected = np.asarray(expected)
    np.testing.assert_allclose(
        found, expected, rtol=tolerance, atol=tolerance * np.max(np.abs(expected))
    )


@pytest.mark.parametrize("name", mostly_slow(EXPERIMENTS, ("cheyne", "hiv")))
def test_the_papers_models_as_text_are_the_modules(name):
    experiment = EXPERIMENTS[name]
    model = dd.equation(TEXTS[name][0], history=TEXTS[name][1])
    values = dd.parameter_values(experiment.start)
    text = model.problem({n: values[n] for n in model.names})
    solve = experiment.T, dd.RK4(), experiment.steps_per_delay
    close(dd.solve(text, *solve).x, dd.solve(experiment.start, *solve).x)
    value, slopes = gradient(text, name)
    expected, wanted = gradient(experiment.start, name)
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


def test_a_delay_may_be_a_number():
    model = dd.equation("x' = -x(t - 2.5) + y(t - 5 / 2); y' = tau - 1")
    assert model.names == ("b[0]", "b[1]", "tau") and "tau" not in model.required
    assert model.settings == {"tau": dd.Fixed(2.5)}
    problem = model.problem(b=1.0)
    assert float(problem.tau) == 2.5
    assert str(model).splitlines()[0] == "x' = -x(t - 2.5) + y(t - 2.5)"
    assert eqx.tree_equal(model.problem(dd.parameter_values(problem)), problem)
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


TIED = dd.equation(LOGISTIC + "; x(t<=0) = K / 2 + a * t + tau", observe="s * x / K")


def test_a_name_in_several_places_is_one_parameter():
    assert TIED.names == TIED.required == ("r", "K", "a", "tau", "s")
    assert TIED.settings == {
        "history.K": dd.Tied("rhs.K"),
        "history.tau": dd.Tied("tau"),
        "observe.K": dd.Tied("rhs.K"),
    }
    problem = TIED.problem(r=1, K=2, a=3, tau=0.5, s=4)
    assert problem.observe is not None
    assert float(problem.history.K) == float(problem.observe.K) == 2
    assert float(problem.history.tau) == 0.5
    assert float(problem.history(-1.0)[0]) == 1 - 3 + 0.5


def test_tied_names_are_short_in_a_fit():
    problem = TIED.problem(r=1, K=2, a=3, tau=0.5, s=4)
    parameters = TIED.settings | {"K": dd.Parameter(start=5.0, lower=0.1)}
    found, filled, _ = free_parameters(problem, parameters)
    assert found.names == ("r", "K", "a", "tau", "s")
    assert float(filled.history.K) == float(filled.rhs.K) == 5.0
    t = np.linspace(0, 3, 20)
    fit = dd.fit(problem, dd.Data(t, t), parameters=parameters, epochs=3)
    learned = dd.parameter_values(fit.problem)
    assert list(fit.values) == ["r", "K", "a", "tau", "s"]
    assert learned["history.K"] == learned["rhs.K"] == fit.values["K"] != 5.0


def test_a_copy_has_the_same_value_or_is_refused():
    problem = TIED.problem(r=1, K=2, a=3, tau=0.5, s=4)
    values = dd.parameter_values(problem)
    assert values["history.K"] == 2.0
    assert eqx.tree_equal(TIED.problem(values), problem)
    message = "'history.K' always equals 'rhs.K', but got 3"
    with pytest.raises(ValueError, match=message):
        TIED.problem(values | {"history.K": 3.0})


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
        (dict(r=1.0), ValueError, r'value: K, b, tau. Write problem\({"K": ..., '),
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
    solution = dd.solve(model.problem(tau=1.0), T=1.0)
    assert float(solution(-1.0)[0]) == pytest.approx(np.exp(-1))


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


def test_a_formula_is_measured():
    model = dd.equation("x' = -x(t - tau); z' = x", observe="scale * (x + 2 * z) + t")
    assert model.observed == ("y",) and model.names[-1] == "scale"
    problem = model.problem(b=[1.0, 2.0], tau=1.0, scale=10.0)
    assert problem.observed == 1 and problem.observe is not None
    np.testing.assert_allclose(problem.observe(jnp.array([1.0, 2.0]), 0.5), [50.5])


def test_several_quantities_are_measured_by_name():
    text = "x' = -x(t - tau); z' = x; total = x + z"
    model = dd.equation(text, observe="x; total; half = share / 2; x2 = share; share=z")
    assert model.observed == ("x", "total", "half", "x2", "share")
    problem = model.problem(b=1.0, tau=1.0)
    assert problem.observe is not None
    found = problem.observe(jnp.array([1.0, 4.0]), 0.0)
    np.testing.assert_array_equal(found, [1.0, 5.0, 2.0, 4.0, 4.0])


def test_what_is_measured_may_be_called_as_a_state():
    model = dd.equation("x' = -x(t - tau)", observe="x = 2 * x\ny = x^2 + c")
    problem = model.problem(b=1.0, tau=1.0, c=1.0)
    assert problem.observe is not None
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
    settings, data = model.settings | {"b": dd.Fixed()}, dd.Data(t, 3.0 * x)
    fit = dd.fit(start, data, parameters=settings, optimizer=dd.LBFGS(), epochs=100)
    assert fit.values == pytest.approx(dict(k=1.0, tau=0.8, s=3.0), rel=1e-5)
