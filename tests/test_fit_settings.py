"""Settings of `ddefind fit`: TOML files, and options that override them."""

import math
import tomllib

import pytest
from hypothesis import given, strategies as st

from ddefind._cli.fit_settings import FitSettings, combine_settings
from ddefind._cli.parse_options import GivenRange, OptionError

LOGISTIC = "x' = r * x * (1 - x(t - tau) / K)"
FULL = FitSettings(
    data="data.csv",
    time="Time [h]",
    columns=["x", 'a "b"'],
    time_zero=-1.5,
    equation="x' = -k * x(t - tau)\nk = 2 * q  # half",
    history=[1.0, 2.5e-7],
    observe="y = 2 * x",
    starts=7,
    seed=3,
    solver="radau",
    rtol=1e-7,
    level=0.9,
    steps=12,
    positive=["r", "s"],
    set={"m": 8.0, "history.b": [1.0, 2.0]},
    start={"b[0]": 1e-300},
    bounds={"K": GivenRange(0.1, 10.0), "tau": GivenRange(upper=5.0)},
    prior={"K": "normal(2, 0.5)", "r": "lognormal(1, 3)"},
)


def written(tmp_path, text):
    path = tmp_path / "fit.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_gives_the_request_back(tmp_path):
    path = written(tmp_path, FULL.toml())
    assert combine_settings(path, {}).data == str(tmp_path / "data.csv")
    assert combine_settings(path, {"data": "data.csv"}) == FULL
    assert 'equation = """\nx\' = -k' in FULL.toml()  # lines stay lines


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_text_survives(equation, name):
    request = FitSettings(data="d", equation=equation, set={name: 1.5})
    found = tomllib.loads(request.toml())
    # TOML has one kind of line end.
    assert found["equation"].replace("\r\n", "\n") == equation.replace("\r\n", "\n")
    assert found["set"] == {name: 1.5}


@given(st.floats(allow_nan=False))
def test_any_number_survives(value):
    request = FitSettings(
        data="d", equation="x", bounds={"K": GivenRange(-math.inf, value)}
    )
    assert tomllib.loads(request.toml())["bounds"]["K"] == [-math.inf, value]


def test_options_overrule_the_file_by_name(tmp_path):
    request = combine_settings(
        written(tmp_path, FULL.toml()),
        {
            "data": "/other.csv",
            "seed": 0,
            "set": {"m": 9.0, "n": 1.0},
            "bounds": {"K": GivenRange(0, 1)},
            "history": None,
            "columns": [],
        },
    )
    assert request.data == "/other.csv" and request.seed == 0
    assert request.set == {"m": 9.0, "n": 1.0, "history.b": [1.0, 2.0]}
    assert request.bounds == {"K": (0, 1), "tau": (-math.inf, 5.0)}
    assert request.history == FULL.history and request.columns == FULL.columns


def test_another_model_replaces_that_of_the_file(tmp_path):
    path = written(tmp_path, FULL.toml())
    request = combine_settings(path, {"model": "m.py:f"})
    assert request.equation is None and request.model == "m.py:f"
    path = written(tmp_path, 'data = "d"\nmodel = "m.py:f"\n')
    assert combine_settings(path, {}).model == str(tmp_path / "m.py:f")
    assert combine_settings(path, {"equation": LOGISTIC}).model is None


def test_natural_forms_are_read(tmp_path):
    path = written(
        tmp_path,
        'data = "/d.csv"\nequation = "x"\nhistory = 0.5\ncolumns = "x"\n'
        'time_zero = "2020-01-01"\n[set]\nm = 8\n[bounds]\nK = [0, inf]\n',
    )
    request = combine_settings(path, {})
    assert request.data == "/d.csv"
    assert request.history == [0.5] and request.columns == ["x"]
    assert request.time_zero == "2020-01-01"
    assert request.set == {"m": 8.0} and request.bounds == {"K": (0, math.inf)}


@pytest.mark.parametrize(
    "text, message",
    [
        ("equaton = 'x'", "no setting 'equaton'. Did you mean 'equation'?"),
        ("huber = 1.345", "any more: for data with outliers fit with Student noise"),
        ("huber = 1.345", '`noise = "student"`, which learns its width'),
        ("data = 3", "`data` must be a text, or a list of them, but it is 3"),
        ("seed = 1.5", "`seed` must be a whole number"),
        ("seed = true", "`seed` must be a whole number"),
        ("set = 3", "`set` must be a table of numbers by name"),
        ("[set]\nm = 'x'", "`set` must be a table of numbers by name"),
        ("[start]\nm = true", "`start` must be a table"),
        ("[bounds]\nK = 3", "`bounds` must be a table of ranges"),
        ("[bounds]\nK = [1]", "`bounds` must be a table of ranges"),
        ("[bounds]\nK = [2, 1]", "the lower one first"),
        ("history = {a = 1}", "`history` must be a kind, or numbers"),
        ("history = ['a', 1]", "`history` must be a kind, or numbers"),
        ("columns = [1]", "`columns` must be a list of names"),
        ("time_zero = [1]", "`time_zero` must be a number or a date"),
        ("data = ", "Invalid value (at end of document)"),
        ("a" * 100_000, "Expected '='"),
        ("[" * 5_000, "fit.toml"),
    ],
)
def test_a_bad_file_is_refused(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(OptionError) as caught:
        combine_settings(path, {"data": "d", "equation": "x"})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"data": None}, "Give a file of measurements"),
        ({"equation": None}, "either `--equation TEXT` or `--model"),
        ({"model": "m"}, "either"),
        (
            {"set": {"r": 1.0}, "start": {"r": 2.0}},
            "`--start` does not go with `--set`",
        ),
        ({"set": {"r": 1.0}, "bounds": {"r": (0, 1)}}, "`--bounds` does not go with"),
        ({"level": 95.0}, "`--level` must lie between 0 and 1"),
        ({"steps": 0}, "`--steps` needs a whole number from 1 on"),
        ({"positive": ["K"], "set": {"K": 1.0}}, "`--positive` does not go with"),
        ({"positive": ["K"], "bounds": {"K": GivenRange(1.0)}}, "both limit 'K'"),
        ({"prior": {"K": "normal(1, 0)"}}, "needs a positive SD"),
        ({"prior": {"K": "normal(1, 1)"}, "set": {"K": 1.0}}, "`--prior` does not go"),
    ],
)
def test_settings_that_are_refused(given, message):
    with pytest.raises(OptionError, match=message):
        FitSettings(**{"data": "d", "equation": LOGISTIC, **given})


def test_columns_by_name_replace_a_list(tmp_path):
    path = written(tmp_path, 'data = "d"\nequation = "x"\ncolumns = ["a", "b"]\n')
    settings = combine_settings(path, {"columns": {"hare": "Hare (n/km2)"}})
    assert settings.columns == {"hare": "Hare (n/km2)"}
    again = combine_settings(written(tmp_path, settings.toml()), {})
    assert again.columns == settings.columns
