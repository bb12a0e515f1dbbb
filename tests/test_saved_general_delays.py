"""Saved fits with adaptive solvers, and with delays that are more than numbers."""

import json

import numpy as np
import pytest

import ddefind as dd
from ddefind._problem.parameters import parameter_vector, with_values
from ddefind._results.saved_file import saved_text
from ddefind._results.saved_problem import describe, read_problem, rebuild
from support.general_fits import TIMES, general_fit, measured
from support.repeats import mostly_slow
from support.results import as_estimate, load_estimate

NEAR = dd.LeastSquares(starts=1)


def predicted(fit):
    prediction = fit.predict(np.array([0.5, 6.0, 9.0]))
    return [prediction.mean, prediction.sd, prediction.noisy_low]


@pytest.mark.parametrize(
    "kind", mostly_slow(["gamma", "neutral", "state"], {"neutral"})
)
def test_a_fit_comes_back(kind, tmp_path):
    fit, path = general_fit(kind), tmp_path / "fit.json"
    fit.save(path)
    content = json.loads(path.read_text())
    assert content["solver"] == "Tsit5" and content["options"]["mesh"] is False
    assert content["tolerances"] == {"rtol": 1e-6, "atol": None}
    found = load_estimate(path)
    assert str(found) == str(fit) and found.values == fit.values
    assert found.intervals == fit.intervals and found.solver == fit.solver
    for one, two in zip(predicted(found), predicted(fit)):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(found.solution(TIMES), fit.solution(TIMES))
    found.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


@pytest.fixture(scope="module")
def stiff_fit():
    """A constant delay, with the implicit solver and tolerances of its own."""
    model = dd.equation("x' = -k * x(t - tau)", history=1.0)
    truth = {"k": 0.8, "tau": 0.7}
    return dd.fit(
        model,
        measured(model.problem(truth)),
        parameters=truth,
        solver=dd.Radau(rtol=1e-5, atol=1e-8),
        optimizer=NEAR,
        intervals=False,
    )


def test_an_adaptive_solver_comes_back_with_its_tolerances(stiff_fit, tmp_path):
    path = tmp_path / "fit.json"
    stiff_fit.save(path)
    found = load_estimate(path)
    assert found.solver == dd.Radau(rtol=1e-5, atol=1e-8)
    assert found.setup.model.mesh is None and found.values == stiff_fit.values
    np.testing.assert_array_equal(found.solution(TIMES), stiff_fit.solution(TIMES))


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
        ({"solver": "Rodas"}, "`solver` must be one of .*Tsit5, Radau, not Rodas"),
        ({"mesh": True}, "`options.mesh` is true, but Radau has no mesh"),
    ],
)
def test_a_file_with_impossible_steps_is_refused(stiff_fit, changes, message, tmp_path):
    content = {**stiff_fit.file_content(), **changes}
    if "mesh" in changes:
        content["options"] = {**content["options"], "mesh": content.pop("mesh")}
    (tmp_path / "fit.json").write_text(saved_text(content))
    with pytest.raises(dd.ResultError, match=message):
        dd.load(tmp_path / "fit.json")


def test_a_file_with_fixed_steps_for_a_general_delay_is_refused(tmp_path):
    content = general_fit("neutral").file_content()
    content |= {"solver": "RK4", "tolerances": None}
    (tmp_path / "fit.json").write_text(saved_text(content))
    with pytest.raises(dd.ResultError, match="`solver` is RK4, which solves problems"):
        dd.load(tmp_path / "fit.json")


@pytest.mark.slow
def test_a_delay_of_the_package_comes_back_with_a_model_of_it(tmp_path):
    tau = dd.GammaDelay(0.9, 2.5)
    truth = dd.Problem(dd.models.Logistic(1.2, 0.5), dd.Constant(0.5), tau)
    fit = dd.fit(truth, measured(truth), optimizer=NEAR, intervals=False)
    path = tmp_path / "fit.json"
    fit.save(path)
    found = load_estimate(path)
    assert found.values == fit.values and type(found.problem.tau) is dd.GammaDelay
    np.testing.assert_array_equal(predicted(found), predicted(fit))
    np.testing.assert_array_equal(found.solution(TIMES), fit.solution(TIMES))


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
    (tmp_path / "fit.json").write_text(saved_text(content))
    with pytest.raises(dd.ResultError, match=message):
        dd.load(tmp_path / "fit.json")


def rhs(x, y, tau, t):
    return -0.8 * y


def own_delay(t, x):
    return 0.5 + 0.2 * x[0] ** 2


@pytest.mark.slow
def test_a_delay_of_own_code_is_given_again(tmp_path):
    def problem():
        return dd.Problem(rhs, dd.Constant(1.0), dd.Delay(own_delay))

    fit = dd.fit(problem(), measured(problem()), optimizer=NEAR, intervals=False)
    path = tmp_path / "fit.json"
    fit.save(path)
    numbers = dd.load(path)
    assert type(numbers) is dd.SavedFit and numbers.values == fit.values
    whole = as_estimate(dd.load(path, problem=problem()))
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
