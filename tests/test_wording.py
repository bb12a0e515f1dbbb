"""Remedies in the words of Python and of the command line."""

import contextlib
import re
from typing import Any

import numpy as np
import pytest
import typer

import ddefind as dd
from ddefind._cli.main import app
from ddefind._util import wording
from support.command import run


def all_wordings():
    """Every wording of the vocabulary, by its name."""
    for name, value in vars(wording).items():
        if isinstance(value, wording.Wording):
            yield name, value
        elif callable(value) and not isinstance(value, type):
            with contextlib.suppress(TypeError):  # of those that make no wording
                made = value("Radau", "1e-9")
                if isinstance(made, wording.Wording):
                    yield name, made
    yield "inputs", wording.inputs("u")
    yield "solver", wording.solver("Radau")
    yield "solver_name", wording.solver_name("Radau")
    yield "standard_deviations", wording.standard_deviations(("x",))


WORDINGS = dict(all_wordings())


def options():
    program: Any = typer.main.get_command(app)
    declared = [
        each for command in program.commands.values() for each in command.params
    ]
    return {flag for each in declared for flag in each.opts}


def test_there_is_a_vocabulary():
    assert len(WORDINGS) > 25


@pytest.mark.parametrize("name", WORDINGS)
def test_both_ways_have_what_is_named(name):
    words = WORDINGS[name]
    # On the command line every option exists, and nothing of Python is said.
    for option in re.findall(r"--[\w-]+", words.command_line):
        assert option in options()
    assert "dd." not in words.command_line and "()" not in words.command_line
    # In Python every name exists, and no option is said.
    assert "--" not in words.python
    for public in re.findall(r"dd\.(\w+)", words.python):
        assert hasattr(dd, public)


def test_the_words_are_those_of_the_way():
    assert str(wording.starts(2)) == "`dd.LeastSquares(starts=2)`"
    with wording.command_line_words():
        assert f"{wording.starts(2)}" == "`--starts 2`"
    assert str(wording.starts(2)) == "`dd.LeastSquares(starts=2)`"


@pytest.mark.slow
def test_a_rejected_model_is_said_in_both_ways(tmp_path, capsys):
    t = np.linspace(0, 10, 60)
    path, text = tmp_path / "data.csv", "x' = -k * x"
    dd.Data(t, 2 + np.sin(2 * t) + 0.05 * np.cos(17 * t)).to_csv(path)
    # The model is rejected: the fit is done, but doubtful.
    assert run("fit", path, "-e", text, "--starts", 2) == 3
    shown = capsys.readouterr().out
    assert "rejected" in shown and "`--method multiple-shooting`" in shown
    assert "`--starts 200`" in shown and "dd." not in shown
    method = dd.LeastSquares(starts=2)
    fit = dd.fit(dd.equation(text), dd.read_csv(path), optimizer=method)
    assert "`dd.MultipleShooting()`" in str(fit) and "--" not in str(fit)


def test_data_far_from_time_zero(tmp_path, capsys):
    t = np.linspace(1000, 1010, 30)
    model = dd.equation("x' = -k * x(t - tau) * sin(t)")
    with pytest.raises(ValueError, match=r"`dd\.Data\(t - 1000, x\)`.*t \+ 1000"):
        dd.fit(model, dd.Data(t, np.cos(t)))
    path = tmp_path / "far.csv"
    dd.Data(t, np.cos(t)).to_csv(path)
    assert run("fit", path, "-e", str(model), "--time-zero", 0) == 2
    assert "`--time-zero 1000`" in capsys.readouterr().err
