"""Saved fits with several delays, delay formulas, values at zero, switches, delays that
are more than numbers, and adaptive solvers."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._problem.parameters import parameter_vector, with_values
from ddefind._results.saved_file import VERSION, saved_text
from ddefind._results.saved_problem import describe, read_problem, rebuild
from support.command import python
from support.fits import NEAR, Options, reloaded
from support.general_fits import general_fit, measured
from support.repeats import mostly_slow

TIMES = np.linspace(0, 12, 61)
MODELS = {
    "two delays": (
        "x' = r * x * (1 - x(t - tau_1) / K) - c * x(t - tau_2)",
        {"r": 1.2, "K": 2.5, "c": 0.3, "b": 0.5, "tau_1": 0.8, "tau_2": 2.1},
    ),
    "all at once": (
        "x' = -k * x(t - 2 * lag) + (t > 5) * d * x(t - lag); x(0) = s; x(t<=0) = b",
        {"k": 0.5, "d": 0.2, "lag": 0.6, "s": 3.0, "b": 1.0},
    ),
    "a switch": (
        "x' = -k * x(t - tau) + where(t < T_1, 0, d)",
        {"k": 0.6, "d": 0.5, "T_1": 4.2, "tau": 1.1, "b": 1.0},
    ),
    # One delay that may be short is solved on a mesh, too.
    "a short delay": (
        "x' = r * x * (1 - x(t - tau))",
        {"r": 0.9, "tau": 0.05, "b": 0.2},
    ),
}


@pytest.fixture(
    scope="module", params=mostly_slow(MODELS, {"all at once", "a short delay"})
)
def fit(request):
    text, values = MODELS[request.param]
    model = dd.equation(text)
    if "short" in request.param:
        values = {**values, "tau": dd.Parameter(0.05, 1e-4)}
    data = measured(model.problem(MODELS[request.param][1]), TIMES)
    return dd.fit(model, data, parameters=values, **NEAR)


def predicted(fit):
    prediction = fit.predict(np.array([0.5, fit.data.T - 1, fit.data.T + 2]))
    return [prediction.mean, prediction.sd, prediction.noisy_low]


def come_back(fit, folder):
    """The fit from a file, which can be saved again, and the content of the file."""
    found, path = reloaded(fit, folder), folder / "fit.json"
    assert str(found) == str(fit) and found.summary() == fit.summary()
    assert repr(found.model) == repr(fit.model) and found.solver == fit.solver
    np.testing.assert_array_equal(predicted(found), predicted(fit))
    times = fit.data.t
    np.testing.assert_array_equal(found.solution(times), fit.solution(times))
    found.save(folder / "again.json")
    assert (folder / "again.json").read_bytes() == path.read_bytes()
    return found, json.loads(path.read_text())


def test_a_fit_comes_back(fit, tmp_path):
    found, content = come_back(fit, tmp_path)
    assert content["version"] == VERSION == 3 and content["options"]["mesh"] is True
    name = fit.names[-1]
    assert found.profile(name).interval == fit.profile(name).interval
    again = [each.profile(name, level=0.8).interval for each in (found, fit)]
    assert again[0] == again[1]
    # The curve has the steps of the fit, and so its residuals.
    solution = found.solution(TIMES)
    np.testing.assert_allclose(solution, found.fitted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "kind", mostly_slow(["gamma", "neutral", "state"], {"neutral"})
)
def test_a_fit_with_a_general_delay_comes_back(kind, tmp_path):
    fit = general_fit(kind)
    found, content = come_back(fit, tmp_path)
    assert content["solver"] == "Tsit5" and content["options"]["mesh"] is False
    assert content["tolerances"] == {"rtol": 1e-6, "atol": None}
    assert found.values == fit.values and found.intervals == fit.intervals


def test_a_fresh_process_has_the_same_fit(tmp_path):
    text, values = MODELS["all at once"]
    model = dd.equation(text)
    data = measured(model.problem(values), TIMES)
    fit = dd.fit(model, data, parameters=values, intervals=False, **NEAR)
    path = tmp_path / "fit.json"
    fit.save(path)
    code = f"""
import ddefind as dd
fit = dd.load({str(path)!r})
print(fit)
print(fit.predict([14.0]).mean.item().hex(), fit.problem.switch_times)
"""
    mean = fit.predict([14.0]).mean.item().hex()
    assert python("-c", code).stdout == f"{fit}\n{mean} {fit.problem.switch_times}\n"


def python_problem(tau):
    def rhs(x, y, tau, t):
        return -0.5 * y["a"] + 0.2 * jnp.sin(t) * y["b"]

    return dd.Problem(rhs, dd.Constant(1.0), tau)


@pytest.mark.slow
def test_code_with_several_delays_is_given_again(tmp_path):
    truth = python_problem({"a": 1.1, "b": 2.3})
    fit = dd.fit(truth, measured(truth, TIMES), **NEAR)
    assert fit.names == ("history.b", "a", "tau.b")
    numbers = reloaded(fit, tmp_path, dd.SavedFit)
    assert numbers.values == fit.values and str(numbers) == str(fit)
    whole = reloaded(fit, tmp_path, problem=python_problem({"a": 1.0, "b": 1.0}))
    assert str(whole) == str(fit)
    np.testing.assert_array_equal(predicted(whole), predicted(fit))
    message = r"has the parameters history\.b\[1\], tau, but the file .*, tau\.a"
    with pytest.raises(dd.ResultError, match=message):
        other = dd.Problem(rhs_of_one, dd.Constant(1.0), 1.0)
        dd.load(tmp_path / "fit.json", problem=other)


def rhs_of_one(x, y, tau, t):
    return -0.5 * y


def test_gradient_descent_with_several_delays_comes_back(tmp_path):
    text, values = MODELS["two delays"]
    model = dd.equation(text)
    data = measured(model.problem(values), TIMES)
    start = {name: 1.02 * value for name, value in values.items()}
    fit = dd.fit(model, data, parameters=start, optimizer=dd.Adam(1e-3), epochs=5)
    found = reloaded(fit, tmp_path, dd.FitResult)
    assert str(found) == str(fit) and found.values == fit.values
    np.testing.assert_array_equal(found.solution(TIMES), fit.solution(TIMES))


@pytest.mark.parametrize(
    "tau, options",
    [
        ((1.0, 2.0), {}),
        ({"a": 1.0}, {}),
        (1.0, {"switches": (3.0,)}),
        (1.0, {"switches": lambda problem: problem.tau[None]}),
    ],
)
def test_only_one_number_is_described_by_classes(tau, options):
    def first(x, y, tau, t):
        return -x

    problem = dd.Problem(first, dd.Constant(1.0), tau, **options)
    model = dd.models.Exponential(1.0, 1.0)
    with_classes = dd.Problem(model, dd.Constant(1.0), 1.0, **options)
    assert describe(problem, None) is None
    assert (describe(with_classes, None) is None) == bool(options)


@pytest.mark.parametrize("fit", ["all at once"], indirect=True)
def test_a_file_that_hides_its_mesh_is_refused(fit, tmp_path):
    content = fit.file_content()
    content["options"] = content["options"] | {"mesh": False}
    refused(tmp_path, content, "`options.mesh` is false")


# Adaptive solvers, and delays that are more than numbers.


@pytest.fixture(scope="module")
def stiff_fit():
    """A constant delay, with the implicit solver and tolerances of its own."""
    model = dd.equation("x' = -k * x(t - tau)", history=1.0)
    truth = {"k": 0.8, "tau": 0.7}
    data, solver = measured(model.problem(truth)), dd.Radau(rtol=1e-5, atol=1e-8)
    how: Options = {"parameters": truth, "intervals": False, **NEAR}
    return dd.fit(model, data, solver=solver, **how)


def test_an_adaptive_solver_comes_back_with_its_tolerances(stiff_fit, tmp_path):
    found = reloaded(stiff_fit, tmp_path)
    assert found.solver == dd.Radau(rtol=1e-5, atol=1e-8)
    assert found.setup.model.engine == stiff_fit.setup.model.engine
    assert found.values == stiff_fit.values
    times = stiff_fit.data.t
    np.testing.assert_array_equal(found.solution(times), stiff_fit.solution(times))


def refused(folder, content, message):
    (folder / "fit.json").write_text(saved_text(content))
    with pytest.raises(dd.ResultError, match=message):
        dd.load(folder / "fit.json")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"tolerances": {"rtol": 3.0, "atol": None}}, "`rtol` must be a number from"),
        ({"tolerances": {"rtol": "NaN", "atol": None}}, "`rtol` must be a number"),
        ({"tolerances": {"rtol": 1e-6, "atol": -1.0}}, "`atol` must be a positive"),
        ({"tolerances": {"rtol": "small", "atol": None}}, "`tolerances.rtol` must be"),
        ({"tolerances": {"rtol": 1e-6}}, "`tolerances.atol` is missing"),
        ({"tolerances": None}, "`tolerances` is None, but `solver` is Radau"),
        ({"solver": "RK4"}, "but `solver` is RK4"),
        ({"solver": "Rodas"}, "`solver` must be one of .*DOP853, Radau, not Rodas"),
        ({"mesh": True}, "`options.mesh` is true, but Radau has no mesh"),
    ],
)
def test_a_file_with_impossible_steps_is_refused(stiff_fit, changes, message, tmp_path):
    content = {**stiff_fit.file_content(), **changes}
    if "mesh" in changes:
        content["options"] = {**content["options"], "mesh": content.pop("mesh")}
    refused(tmp_path, content, message)


def test_a_file_with_fixed_steps_for_a_general_delay_is_refused(tmp_path):
    content = general_fit("neutral").file_content()
    content |= {"solver": "RK4", "tolerances": None}
    refused(tmp_path, content, "`solver` is RK4, which solves problems")


@pytest.mark.slow
def test_a_delay_of_the_package_comes_back_with_a_model_of_it(tmp_path):
    tau = dd.GammaDelay(0.9, 2.5)
    truth = dd.Problem(dd.models.Logistic(1.2, 0.5), dd.Constant(0.5), tau)
    fit = dd.fit(truth, measured(truth), intervals=False, **NEAR)
    found, _ = come_back(fit, tmp_path)
    assert found.values == fit.values and type(found.problem.tau) is dd.GammaDelay


@pytest.mark.parametrize(
    "tau", [dd.Delay(0.9), dd.GammaDelay(0.9, 2.5), dd.UniformDelay(0.4, 1.5)]
)
def test_every_delay_of_the_package_is_described(tau):
    problem = dd.Problem(dd.models.Logistic(1.2, 0.5), dd.Constant(0.5), tau)
    described = read_problem(describe(problem, None))
    assert described is not None
    blank, _ = rebuild(described, most=9)
    again = with_values(blank, parameter_vector(problem))
    assert dd.parameter_values(again) == dd.parameter_values(problem)
    assert type(again.tau) is type(tau)


@pytest.mark.parametrize(
    "tau, message",
    [
        ({"class": "Delay", "arguments": {"slope": True}}, "do not belong together"),
        ({"class": "GammaDelay"}, "do not belong together"),
        ({"shapes": {"delay": [99]}}, "`problem.tau` has larger arrays"),
        ({"arguments": {"slope": "yes"}}, "`problem.tau.arguments.slope` must be"),
        ({"class": "Thread"}, "`problem.tau.class` is 'Thread', which is not of this"),
    ],
)
def test_a_file_with_a_delay_that_cannot_be_is_refused(tau, message, tmp_path):
    content = general_fit("neutral").file_content()
    delay = {"class": "Delay", "shapes": {"delay": []}, "arguments": {"slope": False}}
    models = {"theta_0": [], "theta_1": []}
    content["problem"] = {
        "rhs": {"class": "models.Logistic", "shapes": models, "arguments": {}},
        "history": {"class": "Constant", "shapes": {"b": [1]}, "arguments": {}},
        "tau": {**delay, **tau},
        "initial": None,
    }
    refused(tmp_path, content, message)


def own_delay(t, x):
    return 0.5 + 0.2 * x[0] ** 2


@pytest.mark.slow
def test_a_delay_of_own_code_is_given_again(tmp_path):
    def problem():
        return dd.Problem(rhs_of_one, dd.Constant(1.0), dd.Delay(own_delay))

    fit = dd.fit(problem(), measured(problem()), intervals=False, **NEAR)
    assert reloaded(fit, tmp_path, dd.SavedFit).values == fit.values
    whole = reloaded(fit, tmp_path, problem=problem())
    np.testing.assert_array_equal(predicted(whole), predicted(fit))


def test_what_is_described_of_a_delay():
    model, past = dd.models.Logistic(1.0, 1.0), dd.Constant(1.0)
    described = describe(dd.Problem(model, past, dd.GammaDelay(1.0, 2.0)), None)
    assert described is not None
    assert described["tau"] == {
        "class": "GammaDelay",
        "shapes": {"mean": [], "shape": []},
        "arguments": {},
    }
    assert describe(dd.Problem(model, past, dd.Delay(own_delay)), None) is None
    assert describe(dd.Problem(model, past, 1.0), None) == {**described, "tau": None}
