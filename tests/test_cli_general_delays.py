"""The command line with delays of the state, distributed and neutral ones, and with
`--solver`."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

import ddefind as dd
from support.command import refused, run
from support.general_fits import MODELS
from support.results import load_estimate

STATE, GAMMA, NEUTRAL = (MODELS[kind][0] for kind in ("state", "gamma", "neutral"))


def options(option, values):
    return [each for k, v in values.items() for each in (option, f"{k}={v}")]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("DDEFIND_CACHE", "off")
    monkeypatch.chdir(tmp_path)


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
        (
            ["--solver", "rk5"],
            "`--solver` must be auto, rk4, tsit5, dop853 or radau, but got",
        ),
        (
            ["--rtol", "1e-5"],
            "`--rtol` goes with `--solver tsit5` or `--solver dop853` or `--solver",
        ),
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
