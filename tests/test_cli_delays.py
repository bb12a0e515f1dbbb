"""The command line with several delays, delay formulas and switches in time; with
delays of the state, distributed and neutral ones; and with `--solver`."""

import json
import os
import tomllib
from pathlib import Path

import numpy as np
import pytest

import ddefind as dd
from support.command import options, refused, run
from support.fits import load_estimate
from support.general_fits import MODELS

pytestmark = pytest.mark.usefixtures("here")
GAMMA, NEUTRAL = (MODELS[kind][0] for kind in ("gamma", "neutral"))
TEXT = "x' = r * x * (1 - x(t - tau_1) / K) - c * x(t - tau_2)"
TRUTH = {"r": 1.2, "K": 2.5, "c": 0.3, "tau_1": 0.8, "tau_2": 2.1}
# Everything at once: a delay formula, a value at zero, a switch.
DOSE = "x' = -k * x(t - 2 * lag) + (t > 5) * dose * x(t - lag); x(0) = 5; x(t<=0) = 1"


@pytest.mark.slow
def test_two_delays_are_simulated_fitted_and_shown(capsys):
    simulate = ("simulate", "-e", TEXT, *options("--set", TRUTH), "--history", 0.5)
    times = ("--T", 20, "--points", 80, "--noise", 0.02, "--out", "data.csv")
    assert run(*simulate, *times) == 0
    capsys.readouterr()
    fit = ("fit", "data.csv", "-e", TEXT, "--starts", 4)
    assert run(*fit, "--bounds", "tau_1 in [0.2, 4]", "--out", "result") == 0
    printed = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in printed.splitlines()[1:7]}
    assert list(rows) == ["r", "K", "c", "b", "tau_1", "tau_2"]
    for name, value in TRUTH.items():
        assert abs(float(rows[name][1]) - value) < 5 * float(rows[name][2])
    assert run("show", "result") == 0
    shown = capsys.readouterr().out
    assert shown.startswith(TEXT) and printed.strip() in shown
    # The written settings repeat the fit.
    assert run("fit", "--config", "result/fit.toml", "--json", "--quiet") == 0
    again = json.loads(capsys.readouterr().out)
    saved = json.loads(Path("result/result.json").read_text())
    assert again["table"] == saved["table"]


@pytest.mark.parametrize("lag", [0.6, 0.004])
@pytest.mark.slow
def test_formulas_start_values_and_switches_are_simulated(capsys, lag):
    values = {"k": 0.5, "dose": 0.2, "lag": lag}
    command = ("simulate", "-e", DOSE, *options("--set", values), "--points", 21)
    assert run(*command, "--out", "data.csv") == 0
    assert "still moved" not in capsys.readouterr().err
    data = dd.read_csv("data.csv")
    t, problem = np.linspace(0, 10, 21), dd.equation(DOSE).problem(values)
    x = np.asarray(dd.solve(problem, 10.0, max_step=2e-3)(t))
    np.testing.assert_array_equal(data.t, t)
    np.testing.assert_allclose(data.x, x, rtol=0, atol=1e-6 * np.ptp(x))
    assert data.x[0] == 5.0


def test_a_delay_much_shorter_than_the_record_is_no_obstacle(capsys):
    # exp(-30) is 1e-13: the steps do not follow it.
    values = options("--set", {"a": -30, "b": 1})
    command = ("simulate", "-e", "x' = -x(t - exp(a))", *values)
    assert run(*command, "--points", 3, "--T", 2) == 0
    last = float(capsys.readouterr().out.split(",")[-1])
    assert last == pytest.approx(np.exp(-2), rel=1e-6)


@pytest.mark.parametrize(
    "model, values, names",
    [
        (TEXT, {}, ["r", "K", "c", "b", "tau_1", "tau_2"]),
        (DOSE, {"lag": 0.9}, ["k", "dose", "lag"]),
        # The switch is after five delays.
        ("x' = -k * x(t - tau) + (t > s) * d", {"s": 9.1}, ["k", "s", "d", "b", "tau"]),
    ],
)
@pytest.mark.slow
def test_gradients_agree(capsys, model, values, names):
    assert run("check", "-e", model, *options("--set", values), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["names"] == names and found["worst"] < 1e-6
    assert min(map(abs, found["differences"])) > 0
    assert "Adjoint" not in found


@pytest.mark.slow
def test_a_name_in_several_places_is_one_parameter(capsys):
    model = "x' = -k * x(t - 2 * tau) + c * x(t - tau); x(t<=0) = k"
    values = {"k": 0.7, "c": 0.4, "tau": 0.9}
    assert run("check", "-e", model, *options("--set", values), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["names"] == ["k", "c", "tau"]
    # The derivatives are those of a single parameter.
    problem = dd.equation(model).problem(values)
    t = np.linspace(0, 5.37 * 1.8, 29)
    x = np.asarray(dd.solve(problem, float(t[-1]))(t))
    data = dd.Data(
        t, x + 0.1 * np.ptp(x) * np.random.default_rng(0).normal(size=x.shape)
    )

    def loss(k):
        moved = dd.equation(model).problem({**values, "k": k})
        return float(dd.value_and_grad(moved, data, steps_per_delay=50)[0])

    slope = (loss(0.7001) - loss(0.6999)) / 2e-4
    assert found["differences"][0] == pytest.approx(slope, rel=1e-5)


@pytest.mark.slow
def test_random_values_whose_solution_is_not_finite_are_replaced(capsys):
    simulate = ("simulate", "-e", TEXT, *options("--set", TRUTH), "--history", 0.5)
    assert run(*simulate, "--T", 20, "--points", 30, "--out", "data.csv") == 0
    assert run("check", "data.csv", "-e", TEXT) == 0
    assert "Discrete and Forward agree" in capsys.readouterr().out
    wild = ("check", "data.csv", "-e", "x' = k * x^3 * x(t - tau)", "--set", "k=1e3")
    assert "The solution is not finite" in refused(capsys, *wild)


TWO = "x' = r * x - k * x(t - tau_1) - c * x(t - tau_2)"
DIFFERENCE, LATE = "x' = -k * x(t - tau_1 + tau_2)", {"tau_1": 1, "tau_2": 3}
ONES = {"r": 1, "k": 1, "c": 1, "b": 1, "tau_1": 1, "tau_2": 1}
BAD = [
    (
        ["simulate", "-e", TWO, *options("--set", {**ONES, "tau_1": -1})],
        "`tau_1` must be positive, but got -1",
    ),
    (
        ["check", "-e", "x' = -x(t - tau)", "--set", "tau=-2"],
        "`tau` must be positive, but got -2",
    ),
    (
        ["fit", "data.csv", "-e", TWO, "--start", "tau_1=-1"],
        "`tau_1` must start positive, but got -1",
    ),
    (
        ["fit", "data.csv", "-e", TWO, "--bounds", "tau_2 in [-2, -1]"],
        "`tau_2` has the upper bound -1, but a delay is positive",
    ),
    (
        ["simulate", "-e", DIFFERENCE, *options("--set", {"k": 1, "b": 1, **LATE})],
        "but `tau_1 - tau_2` (tau_1 = 1, tau_2 = 3) is -2",
    ),
    (
        ["fit", "data.csv", "-e", DIFFERENCE, *options("--start", LATE)],
        "`tau_1 - tau_2` is -2 at the start values. Give others by `--start`",
    ),
    (
        ["fit", "data.csv", "-e", TWO, "--set", "tau_3=1"],
        "There is no parameter 'tau_3'. Did you mean 'tau_2'?",
    ),
]


@pytest.mark.parametrize("arguments, message", BAD)
def test_bad_delays_are_refused(capsys, here, arguments, message):
    (here / "data.csv").write_text("t,x\n0,1\n1,2\n2,1\n3,2\n4,1\n5,2\n6,1\n7,2\n")
    assert message in refused(capsys, *arguments)
    assert os.listdir(here) == ["data.csv"]


def test_a_later_time_is_pointed_at(capsys):
    assert run("simulate", "-e", "x' = -k * x(t - tau_1) + x(t + tau_2)") == 2
    message, _, mark = capsys.readouterr().err.splitlines()
    assert message == "Error: Only earlier times are known: write x(t - ...)."
    assert mark.strip() == "^"


@pytest.mark.slow
def test_a_delay_of_the_state_is_simulated_and_fitted(capsys):
    text, truth = MODELS["state"]
    simulate = ("simulate", "-e", text, *options("--set", truth), "--T", 8)
    assert run(*simulate, "--points", 41, "--noise", 0.02, "--out", "data.csv") == 0
    assert "still moved" not in capsys.readouterr().err
    near = ("--starts", 1, *options("--start", truth))
    tolerance = ("--solver", "tsit5", "--rtol", "1e-5")
    assert run("fit", "data.csv", "-e", text, *near, *tolerance, "--out", "r") == 0
    printed = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in printed.splitlines()[1:5]}
    for name, value in truth.items():
        assert abs(float(rows[name][1]) - value) < 5 * float(rows[name][2])
    written = tomllib.loads(Path("r/fit.toml").read_text())
    assert written["solver"] == "tsit5" and written["rtol"] == 1e-5
    fit = load_estimate("r")
    assert fit.solver == dd.Tsit5(rtol=1e-5)
    curve = dd.read_csv("r/curve.csv", columns=["N"])
    np.testing.assert_allclose(curve.x, fit.solution(curve.t), rtol=1e-4)
    assert run("show", "r") == 0
    assert capsys.readouterr().out.startswith(text)


@pytest.mark.parametrize("kind", ["gamma", "neutral"])
def test_other_delays_are_simulated(kind, capsys):
    text, truth = MODELS[kind]
    simulate = ("simulate", "-e", text, *options("--set", truth), "--points", 5)
    assert run(*simulate, "--T", 8, "--out", "data.csv") == 0
    assert "still moved" not in capsys.readouterr().err
    data, problem = dd.read_csv("data.csv"), dd.equation(text).problem(truth)
    exact = dd.solve(problem, 8.0, dd.Tsit5(rtol=1e-11))(data.t)
    np.testing.assert_allclose(data.x, exact, atol=1e-7)


@pytest.mark.slow
def test_gradients_with_a_distributed_delay_are_checked(capsys):
    """The random shape of a gamma distribution is at least 1."""
    assert run("check", "-e", GAMMA, "--history", 0.5, "--json") == 0
    checked = json.loads(capsys.readouterr().out)
    assert checked["names"] == ["r", "K", "b", "m", "k"]
    assert checked["worst"] < 1e-5 and "Adjoint" not in checked


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--solver", "rk5"], "`--solver` must be auto, rk4, tsit5, dop853 or "),
        (["--rtol", "1e-5"], "`--rtol` goes with `--solver tsit5` or `--solver "),
        (["--solver", "rk4", "--rtol", "1e-5"], "`--rtol` goes with"),
        (["--solver", "radau", "--rtol", "3"], "`--rtol` must be a number from 1e-13"),
        (["--solver", "rk4"], "use `--solver auto`, `--solver tsit5`, or `--solver"),
    ],
)
def test_solvers_that_are_refused(capsys, arguments, message):
    Path("data.csv").write_text("t,x\n0,1\n1,2\n2,3\n3,3\n")
    assert message in refused(capsys, "fit", "data.csv", "-e", NEUTRAL, *arguments)


def test_a_tolerance_in_a_file_is_a_number(capsys):
    Path("fit.toml").write_text('data = "d.csv"\nequation = "x\' = -x"\nrtol = "low"')
    assert "`rtol` must be a number" in refused(capsys, "fit", "--config", "fit.toml")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["-e", "x' = -x(t - 1 + x)", "--history", "3"], "it is -2 just after t = 0"),
        (["-e", GAMMA, *options("--set", MODELS["gamma"][1] | {"k": 0.5})], "at least"),
    ],
)
def test_delays_that_are_refused(capsys, arguments, message):
    assert message in refused(capsys, "simulate", *arguments)
