"""`ddefind simulate` and `ddefind check`."""

import json
from pathlib import Path

import numpy as np
import pytest

import ddefind as dd
from support.command import TEXT, VALUES, refused, run

pytestmark = pytest.mark.usefixtures("here")


def test_data_of_an_equation(capsys):
    options = ("--T", 20, "--points", 120, "--out", "data.csv")
    assert run("simulate", "--equation", TEXT, *VALUES, *options) == 0
    shown = capsys.readouterr()
    assert shown.out == "" and "120 times in [0, 20]" in shown.err
    data = dd.read_csv("data.csv")
    np.testing.assert_array_equal(data.t, np.linspace(0, 20, 120))
    truth = dd.equation(TEXT).problem(r=1.8, K=2.5, b=0.5, tau=0.8)
    exact = dd.solve(truth, T=20.0, steps_per_delay=200)(data.t)
    np.testing.assert_allclose(data.x, exact, rtol=0, atol=1e-6 * np.ptp(exact))


def test_noise_is_a_fraction_of_each_spread(capsys):
    model = "u' = -v(t - tau); v' = 100 * u(t - tau) - v"
    command = ("simulate", "-e", model, "--history", 1, 0, "--set", "tau=0.3")
    command += ("--T", 30, "--points", 4000)
    assert run(*command, "--out", "clean.csv") == 0
    assert run(*command, "--noise", 0.2, "--seed", 3, "--out", "noisy.csv") == 0
    clean, noisy = dd.read_csv("clean.csv"), dd.read_csv("noisy.csv")
    assert clean.names == noisy.names == ("u", "v")
    share = np.std(noisy.x - clean.x, axis=0) / np.std(clean.x, axis=0)
    np.testing.assert_allclose(share, 0.2, rtol=0.05)
    assert run(*command, "--noise", 0.2, "--seed", 3, "--out", "again.csv") == 0
    assert Path("again.csv").read_text() == Path("noisy.csv").read_text()
    assert run(*command, "--noise", 0.2, "--seed", 4, "--out", "other.csv") == 0
    assert Path("other.csv").read_text() != Path("noisy.csv").read_text()


def test_a_solution_that_jumps_is_said_to_be_less_exact(capsys):
    model = "x' = where(x > 1.31, 1, 2) - x(t - tau)"
    assert run("simulate", "-e", model, "--set", "tau=0.5", "--history", 1) == 0
    shown = capsys.readouterr()
    assert shown.out.count("\n") == 102
    assert "Shorter steps still changed the solution" in shown.err


def test_the_output_is_the_default(capsys):
    assert run("simulate", "-e", TEXT, *VALUES, "--points", 3, "--quiet") == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] == "t,x" and len(shown.out.splitlines()) == 4
    assert shown.err == ""


def test_what_is_observed_and_histories_with_parameters(capsys):
    options = ("--history", "affine", "--set", "a=0.1", "--set", "b=2")
    options += ("--observe", "twice = s * x", "--set", "s=2", "--points", 3)
    assert run("simulate", "-e", "x' = -k * x(t - 1)", "--set", "k=1", *options) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "t,twice" and lines[1] == "0.0,4.0"


def test_a_problem_in_a_file(here, capsys):
    (here / "model.py").write_text(
        "import ddefind as dd\n"
        "truth = dd.Problem(dd.models.Exponential(-1, -0.5), dd.Constant(2), tau=1)\n"
    )
    command = ("simulate", "--model", "model.py:truth", "--points", 2, "--T", 1)
    assert run(*command, "--set", "theta_0=0", "--set", "b=4") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "t,x" and lines[1] == "0.0,4.0"
    assert float(lines[2].split(",")[1]) == pytest.approx(2.0)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "Give a model"),
        (["-e", TEXT], "need a value: r, K, b, tau. Give them, as `--set r=1`"),
        (["-e", TEXT, *VALUES[:4], "--history", "affine"], "a, b, tau"),
        (["-e", TEXT, *VALUES, "--set", "q=1"], "There is no parameter 'q'"),
        (["-e", TEXT, *VALUES, "--history", "2"], "one finite number"),
        (["-e", TEXT, *VALUES, "--set", "r=1"], "gives 'r' twice"),
        (["-e", TEXT, *VALUES, "--T", "0"], "`--T` must be positive"),
        (["-e", TEXT, *VALUES, "--T", "nan"], "`--T` needs a number"),
        (["-e", TEXT, *VALUES, "--T", "1e9"], "too many to solve for"),
        (["-e", TEXT, *VALUES, "--points", "1"], "number from 2 on"),
        (["-e", TEXT, *VALUES, "--points", "100000000"], "`--points` must be from 2"),
        (["-e", TEXT, *VALUES, "--noise", "-1"], "`--noise` must be a number from 0"),
        (["-e", TEXT, *VALUES, "--out", "no/data.csv"], "There is no folder no"),
        (
            ["-e", "x' = x^2 + x(t - tau)", "--history", "1", "--set", "tau=1"],
            "not finite from t = 0.8 on, with b = 1, tau = 1",
        ),
    ],
)
def test_bad_input_is_refused(capsys, arguments, message):
    assert message in refused(capsys, "simulate", *arguments)


def test_only_simulated_data_are_replaced(capsys, tmp_path):
    file = tmp_path / "data.csv"
    command = ("simulate", "-e", TEXT, *VALUES, "--points", 3, "--out", file)
    assert run(*command) == run(*command, "--seed", 1) == 0
    assert len(dd.read_csv(file).t) == 3
    measured = "t,x\n0.0,1.0\n5.0,2.0\n10.0,3.0\n"
    file.write_text(measured)
    assert "not written by `ddefind simulate`" in refused(capsys, *command)
    assert file.read_text() == measured


def test_gradients_of_an_equation_agree(capsys):
    assert run("check", "-e", TEXT) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("parameter") and "Adjoint" in shown
    assert "Discrete and Forward agree with the differences" in shown


def test_gradients_as_json_with_data_and_values(here, capsys):
    # As many times, and about as many delays, as made-up data: one compilation.
    times = ("--T", 4, "--points", 29, "--out", "data.csv")
    assert run("simulate", "-e", TEXT, *VALUES, *times) == 0
    capsys.readouterr()
    options = ("--set", "r=1.5", "--set", "tau=0.75", "--history", 0.4, "--json")
    assert run("check", "data.csv", "-e", TEXT, *options) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["names"] == ["r", "K", "b", "tau"] and found["right"] is True
    np.testing.assert_allclose(found["Discrete"], found["Forward"], rtol=1e-9)
    np.testing.assert_allclose(found["Discrete"], found["differences"], rtol=1e-6)


def test_wrong_derivatives_are_found_out(here, capsys):
    (here / "model.py").write_text(
        "import ddefind as dd\nimport jax\n"
        "def rhs(x, y, tau, t): return -jax.lax.stop_gradient(y)\n"
        "problem = dd.Problem(rhs, dd.Constant(1.0), tau=0.9)\n"
    )
    assert run("check", "--model", "model.py:problem") == 3
    assert "derivatives are wrong" in capsys.readouterr().out


def test_checks_that_are_refused(capsys):
    assert "Give a model" in refused(capsys, "check")
    assert "no such file" in refused(capsys, "check", "no.csv", "-e", TEXT)


@pytest.mark.slow
def test_a_model_that_explodes_is_refused(capsys):
    exploding = ("check", "-e", "x' = exp(exp(9 + x^2)) + x(t - tau)")
    assert "Give values by `--set`" in refused(capsys, *exploding)


def test_a_model_that_explodes_is_checked_while_it_is_finite(capsys):
    assert run("check", "-e", "x' = r * x^3 * x(t - tau)", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["names"] == ["r", "b", "tau"] and found["worst"] < 1e-6
