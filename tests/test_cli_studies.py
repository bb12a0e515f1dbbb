"""Experiments, inputs, doses and noise on the command line."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import ddefind as dd
from ddefind._cli.fit_settings import combine_settings
from support.command import TEXT, options, refused, rows, run
from support.repeats import entries

DRIVEN = "x' = u - k * x"


@pytest.fixture(autouse=True)
def files(here):
    Path("experiments.csv").write_text("culture,b,K\nlow,0.5,2.5\nhigh,1.5,3.0\n")
    Path("warm.csv").write_text("t,T,other\n0,1,0\n5,2,0\n10,1,0\n")
    Path("doses.csv").write_text("t,amount\n1,5\n4,D\n")
    Path("counts.csv").write_text("t,x\n0,5\n1,-3\n2,2\n3,1\n4,2\n")
    Path("zeros.csv").write_text("t,x\n0,5\n1,3\n2,0\n3,1\n4,2\n")


def test_a_study_is_simulated():
    command = ("simulate", "-e", TEXT, "--set", "r=1.8", "--set", "tau=0.8")
    table = ("--experiments", "experiments.csv", "--values", "K")
    times = ("--T", 10, "--points", 6, "--out", "study.csv")
    assert run(*command, *table, *times) == 0
    made = rows("study.csv")
    assert list(made[0]) == ["culture", "t", "x", "K"]
    assert [row["culture"] for row in made] == ["low"] * 6 + ["high"] * 6
    low, high = dd.read_study("study.csv", group="culture", values="K")
    model = dd.equation(TEXT)
    for experiment, b in ((low, 0.5), (high, 1.5)):
        values = {"r": 1.8, "tau": 0.8, "b": b, **(experiment.values or {})}
        exact = dd.solve(model.problem(values), 10.0, dd.Tsit5(rtol=1e-10))
        np.testing.assert_allclose(
            experiment.data.x, exact(experiment.data.t), atol=1e-5
        )


def test_noise_of_every_kind_is_simulated(capsys):
    decay = ("simulate", "-e", "x' = -k * x", "--set", "k=0.01", "--set", "b=100")
    for kind, spread in (
        ("lognormal(1.2)", 100 * np.log(1.2)),
        ("poisson", 10),
        ("combined(2, 0.1)", 12),
        ("x=student(5, 4)", 7),
    ):
        noise = ("--noise", kind, "--T", 1, "--points", 400)
        assert run(*decay, *noise, "--out", "x.csv") == 0
        x = dd.read_csv("x.csv").x
        assert 0.75 * spread < np.std(x) < 1.35 * spread
        assert kind != "poisson" or np.all(x == np.round(x))
    capsys.readouterr()
    said = refused(capsys, *decay, "--noise", "lognormal")
    assert "`--noise lognormal` needs factor in brackets" in said


@pytest.mark.slow
def test_a_fit_with_an_input_and_doses(capsys):
    places = ("--inputs", "u=warm.csv:T", "--doses", "doses.csv")
    values = ("--set", "k=0.7", "--set", "D=3")
    times = ("--T", 10, "--points", 61, "--noise", 0.02, "--out", "data.csv")
    assert run("simulate", "-e", DRIVEN, *values, "--history", 1, *places, *times) == 0
    Path("model.txt").write_text(DRIVEN + "\n")
    start = ("--start", "k=0.7", "--start", "D=3", "--set", "b=1")
    fit = ("fit", "model.txt", "data.csv", *places, *start, "--starts", 1)
    assert run(*fit, "--solver", "rk4", "--out", "result") == 0
    found = {row["name"]: row for row in rows("result/table.csv")}
    for name, true in {"k": 0.7, "D": 3.0}.items():
        value, error = (float(found[name][k]) for k in ("estimate", "standard_error"))
        assert abs(value - true) < 5 * error < 0.3 * true
    settings = tomllib.loads(Path("result/fit.toml").read_text())
    assert settings["model"] == "input/model.txt"
    assert settings["inputs"] == {"u": "input/warm.csv:T"}
    assert settings["doses"] == "input/doses.csv"
    again = combine_settings("result/fit.toml", {})
    assert again.inputs == {"u": "result/input/warm.csv:T"}
    capsys.readouterr()
    assert run("predict", "result", "--until", 10) == 0
    assert "with noise" in capsys.readouterr().out
    said = refused(capsys, "predict", "result", "--until", 12)
    assert "The input 'u' is not known from 10 to 12" in said


@pytest.mark.slow
def test_a_study_with_doses_is_fitted_and_predicted():
    """The doses of each experiment are part of its prediction."""
    Path("experiments.csv").write_text("id,b\nlow,1\nhigh,2\n")
    Path("doses.csv").write_text("id,t,amount\nlow,2,1\nhigh,3,2\n")
    text, doses = "x' = s - k * x(t - tau)", ("--doses", "x=doses.csv")
    true = {"s": 1, "k": 0.6, "tau": 0.8}
    study = ("--experiments", "experiments.csv", *doses, "--T", 8, "--points", 17)
    noise = ("--noise", "lognormal(1.01)", "--out", "study.csv")
    assert run("simulate", "-e", text, *options("--set", true), *study, *noise) == 0
    start = (*options("--start", true), "--starts", 2)
    fit = ("fit", "study.csv", "-e", text, "--group", "id", *doses, *start)
    assert run(*fit, "--out", "out") == 0
    until = ("--until", 8, "--out", "high.csv")
    assert run("predict", "out", "--experiment", "high", *until) == 0
    model = dd.equation(text).with_doses([dd.Dose("x", 2.0, 3.0)])
    exact = dd.solve(model.problem({**true, "b": 2.0}), T=8.0)
    for row in rows("high.csv")[1:]:
        value = float(exact(float(row["t"]))[0])
        if abs(float(row["t"]) - 3) > 0.1:
            assert float(row["x"]) == pytest.approx(value, rel=0.05)


# Options, and what is said of them.
REFUSED = r"""
zeros.csv --inputs u=short.csv
    The input 'u' is not known
zeros.csv --inputs u
    there is no column 'u' for the input 'u'.*`--inputs "u=FILE.csv:COLUMN"`
zeros.csv --inputs u=warn.csv:T
    warn.csv: there is no such file. Did you mean 'warm.csv'
zeros.csv --doses late.csv
    late.csv, line 3, column 'amount': the dose at 40 is after the record
zeros.csv --doses overlap.csv
    infusions.*overlap
study.csv --group id --doses label.csv
    no experiment is called 'lo'. Did you mean 'low'
zeros.csv --doses y=doses.csv
    'y', which is no state
counts.csv --noise poisson
    `x` has negative values
zeros.csv --noise lognormal
    `x` has zeros.*`<0.1`
zeros.csv --noise poison
    Did you mean 'poisson'
study.csv --group id --values K
    experiment 'low' has the value 3 here, but 2.*`--inputs
study.csv
    distinguishes rows of the same time.*`--group
study.csv --group ID
    there is no column 'ID' \(`--group`\). Did you mean 'id'
zeros.csv --per-experiment K
    `--per-experiment` goes with several experiments
study.csv --group id --set K=1 --per-experiment K
    `--per-experiment` does not go with `--set`
zeros.csv spelt.csv
    a column 'X', and experiment 'zeros' a column 'x'
zeros.csv --inputs u=warm.csv:T --input-kind step
    `--input-kind` must be linear, steps or cubic, but got 'step'
"""


@pytest.mark.parametrize("given, message", entries(REFUSED))
def test_bad_input_is_a_sentence_and_nothing_is_fitted(given, message, capsys):
    Path("short.csv").write_text("t,u\n0,1\n3,2\n")
    Path("late.csv").write_text("t,amount\n1,5\n40,2\n")
    Path("overlap.csv").write_text("t,amount,duration\n0.5,5,2\n1,5,2\n")
    Path("label.csv").write_text("t,amount,id\n1,5,lo\n")
    Path("spelt.csv").write_text("t,X\n0,1\n1,2\n")
    Path("study.csv").write_text("id,t,x,K\nlow,0,1,2\nlow,1,2,3\nhigh,0,1,2\n")
    equation = DRIVEN if "--inputs" in given else TEXT
    said = refused(capsys, "fit", *given.split(), "-e", equation, "--out", "out")
    assert re.search(message, said), said
    assert not Path("out").exists()
