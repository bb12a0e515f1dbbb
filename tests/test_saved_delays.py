"""Saved fits with several delays, delay formulas, values at zero and switches."""

import json
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._results.saved_file import VERSION, saved_text
from ddefind._results.saved_problem import describe
from support.repeats import mostly_slow
from support.results import as_descent, as_estimate, load_estimate

NEAR = dd.LeastSquares(starts=1)
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


def noisy(problem):
    x = np.asarray(dd.solve(problem, 12.0)(TIMES))
    noise = 0.02 * np.std(x) * np.random.default_rng(1).normal(size=x.shape)
    return dd.Data(TIMES, x + noise)


@pytest.fixture(
    scope="module", params=mostly_slow(MODELS, {"all at once", "a short delay"})
)
def fit(request):
    text, values = MODELS[request.param]
    model = dd.equation(text)
    if "short" in request.param:
        values = {**values, "tau": dd.Parameter(0.05, 1e-4)}
    data = noisy(model.problem(MODELS[request.param][1]))
    return dd.fit(model, data, parameters=values, optimizer=NEAR)


def predicted(fit):
    prediction = fit.predict(np.array([0.5, 11.0, 14.0]))
    return [prediction.mean, prediction.sd, prediction.noisy_low]


def test_a_fit_comes_back(fit, tmp_path):
    path = tmp_path / "fit.json"
    fit.save(path)
    content = json.loads(path.read_text())
    assert content["version"] == VERSION == 3 and content["options"]["mesh"] is True
    found = load_estimate(path)
    assert str(found) == str(fit) and found.summary() == fit.summary()
    assert repr(found.model) == repr(fit.model)
    np.testing.assert_array_equal(predicted(found), predicted(fit))
    name = fit.names[-1]
    assert found.profile(name).interval == fit.profile(name).interval
    again = [each.profile(name, level=0.8).interval for each in (found, fit)]
    assert again[0] == again[1]
    solution = found.solution(TIMES)
    np.testing.assert_array_equal(solution, fit.solution(TIMES))
    # The curve has the steps of the fit, and so its residuals.
    np.testing.assert_allclose(solution, found.fitted, rtol=1e-9, atol=1e-9)
    found.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_a_fresh_process_has_the_same_fit(tmp_path):
    text, values = MODELS["all at once"]
    model = dd.equation(text)
    data = noisy(model.problem(values))
    fit = dd.fit(model, data, parameters=values, optimizer=NEAR, intervals=False)
    path = tmp_path / "fit.json"
    fit.save(path)
    code = f"""
import ddefind as dd
fit = dd.load({str(path)!r})
print(fit)
print(fit.predict([14.0]).mean.item().hex(), fit.problem.switch_times)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    mean = fit.predict([14.0]).mean.item().hex()
    assert done.stdout == f"{fit}\n{mean} {fit.problem.switch_times}\n"


def rhs(x, y, tau, t):
    return -0.5 * y["a"] + 0.2 * jnp.sin(t) * y["b"]


def python_problem(tau):
    return dd.Problem(rhs, dd.Constant(1.0), tau)


@pytest.mark.slow
def test_code_with_several_delays_is_given_again(tmp_path):
    truth = python_problem({"a": 1.1, "b": 2.3})
    fit = dd.fit(truth, noisy(truth), optimizer=NEAR)
    assert fit.names == ("history.b", "a", "tau.b")
    path = tmp_path / "fit.json"
    fit.save(path)
    numbers = dd.load(path)
    assert type(numbers) is dd.SavedFit
    assert numbers.values == fit.values and str(numbers) == str(fit)
    other = python_problem({"a": 1.0, "b": 1.0})
    whole = as_estimate(dd.load(path, problem=other))
    assert str(whole) == str(fit)
    np.testing.assert_array_equal(predicted(whole), predicted(fit))
    message = r"has the parameters history\.b\[1\], tau, but the file .*, tau\.a"
    with pytest.raises(dd.ResultError, match=message):
        dd.load(path, problem=dd.Problem(rhs_of_one, dd.Constant(1.0), 1.0))


def rhs_of_one(x, y, tau, t):
    return -0.5 * y


def test_gradient_descent_with_several_delays_comes_back(tmp_path):
    text, values = MODELS["two delays"]
    model = dd.equation(text)
    fit = dd.fit(
        model,
        noisy(model.problem(values)),
        parameters={name: 1.02 * value for name, value in values.items()},
        optimizer=dd.Adam(1e-3),
        epochs=5,
    )
    fit.save(tmp_path / "fit.json")
    found = as_descent(dd.load(tmp_path / "fit.json"))
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
    path = tmp_path / "fit.json"
    path.write_text(saved_text(content))
    with pytest.raises(dd.ResultError, match="`options.mesh` is false"):
        dd.load(path)
