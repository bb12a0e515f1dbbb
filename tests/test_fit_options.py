"""The options of a fit stand in one table, from which all else is made."""

import inspect
from dataclasses import fields
from typing import get_type_hints

import pytest

import ddefind as dd
from ddefind._cli.fit_settings import FitSettings
from ddefind._cli.parse_options import KINDS
from ddefind._fitting.fit_options import (
    ALL_FITS,
    DESCENT,
    OPTIONS,
    SETTINGS,
    SWEEPS,
    keywords,
)
from ddefind._fitting.request import FitKeywords, FitOptions, LeastSquaresKeywords
from ddefind._fitting.sweep import SweepKeywords, SweepOptions
from support.command import python

# One more record in the table, before anything is made from it.
ADDED = """
import sys
from ddefind._fitting import fit_options as table

added = table.Option(
    keyword="patience",
    default=7,
    text="how long a fit is waited for.",
    setting="patience",
    kind="count",
    placeholder="DAYS",
    help="How long you can wait.",
    is_passed=True,
)
table.OPTIONS += (added,)
table.SETTINGS["patience"] = added
"""
IN_PYTHON = """
import inspect, pydoc
import ddefind as dd
from ddefind._fitting.request import read_options

print(inspect.signature(dd.fit).parameters["patience"])
print(inspect.signature(dd.fit_many).parameters["patience"])
print(pydoc.render_doc(dd.fit))
print(read_options("fit", {"patience": 3}).patience, read_options("fit", {}).patience)
"""
ON_THE_COMMAND_LINE = """
from ddefind._cli.main import main

main(sys.argv[1:])
"""
PASSED_ON = """
from ddefind._cli.fit_settings import FitSettings, combine_settings, fit_arguments

given = FitSettings(data="d.csv", equation="x' = -x", patience=3)
open("fit.toml", "w").write(given.toml())
again = combine_settings("fit.toml", {"data": "d.csv"})
assert again == given
print(fit_arguments(again, None)["patience"])
"""


def output(program, *arguments, folder=None, code=0):
    """What is printed if the table has one more option."""
    done = python("-c", ADDED + program, *arguments, folder=folder, code=code)
    return done.stdout + done.stderr


def test_one_more_option_is_a_keyword_that_help_explains():
    shown = output(IN_PYTHON)
    assert shown.startswith("patience=7\npatience=7\n") and shown.endswith("3 7\n")
    assert "- `patience`: how long a fit is waited for." in shown


def test_one_more_option_is_on_the_command_line_and_checked_in_files(tmp_path):
    shown = output(ON_THE_COMMAND_LINE, "fit", "-h")
    assert "--patience DAYS" in shown and "How long you can wait." in shown
    (tmp_path / "fit.toml").write_text("patience = 'much'\n")
    command = (ON_THE_COMMAND_LINE, "fit", "d.csv", "-e", "x' = -x")
    shown = output(*command, "--config", "fit.toml", folder=tmp_path, code=2)
    assert "fit.toml: `patience` must be a whole number, but it is 'much'" in shown
    shown = output(*command, "--patience", "0", code=2)
    assert "`--patience` needs a whole number from 1 on, but got '0'" in shown


def test_one_more_option_is_written_read_and_passed_on(tmp_path):
    assert output(PASSED_ON, folder=tmp_path) == "3\n"


@pytest.mark.parametrize("function", [dd.fit, dd.fit_many])
def test_signature_and_docstring_have_the_keywords(function):
    given = inspect.signature(function).parameters
    listed = keywords(ALL_FITS, DESCENT)
    if function is dd.fit_many:
        listed += keywords(SWEEPS)
    for option in listed:
        assert given[option.keyword].default == option.default
        explained = option.of == SWEEPS or function is dd.fit
        assert not explained or f"- `{option.keyword}`: " in function.__doc__
    assert all(len(line) <= 88 for line in function.__doc__.splitlines())
    assert "{" not in function.__doc__.replace('{"NN"', "")


@pytest.mark.parametrize(
    "types, record, of",
    [
        (LeastSquaresKeywords, None, [ALL_FITS]),
        (FitKeywords, FitOptions, [ALL_FITS, DESCENT]),
        (SweepKeywords, SweepOptions, [SWEEPS]),
    ],
)
def test_type_checkers_know_the_same_keywords(types, record, of):
    names = {option.keyword for option in keywords(*of)}
    assert {*get_type_hints(types)} == names
    assert record is None or {f.name for f in fields(record)} == names


def test_each_option_is_there_once_and_of_a_known_kind():
    for names in zip(*((each.keyword, each.setting) for each in OPTIONS)):
        given = [name for name in names if name]
        assert len(given) == len(set(given))
    assert {option.kind for option in OPTIONS} <= set(KINDS)
    assert [f.name for f in fields(FitSettings)] == list(SETTINGS)
