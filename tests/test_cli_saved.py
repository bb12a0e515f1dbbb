"""`ddefind predict` and `ddefind compare`: what they say of fits that were saved."""

import json
import shutil

import numpy as np
import pytest

import ddefind as dd
from support.command import NEAR, TEXT, VALUES, refused, rows, run
from support.results import load_estimate

PLAIN = "x' = r * x * (1 - x / K)"
MODEL = """
import ddefind as dd

problem = dd.Problem(lambda x, y, tau, t: -x, dd.Constant(0.4), tau=0.7)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with data, and fits of them: with and without a delay, and of dates."""
    folder = tmp_path_factory.mktemp("saved")
    options = ("--T", 20, "--points", 80, "--noise", 0.05, "--seed", 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run("simulate", "-e", TEXT, *VALUES, *options, "--out", "d.csv") == 0
        t, x = np.loadtxt("d.csv", delimiter=",", skiprows=2).T
        seconds = (t * 86400).round().astype("timedelta64[s]")
        days = np.datetime64("2024-01-01T00:00:00") + seconds
        lines = [f"{day},{x!r}" for day, x in zip(days, x.tolist())]
        (folder / "dates.csv").write_text("\n".join(["date,Fish (t)", *lines]))
        (folder / "model.py").write_text(MODEL)
        assert run("fit", "d.csv", "-e", TEXT, *NEAR, "--out", "delayed") == 0
        named = ("--columns", "x=Fish (t)", "--level", 0.9)
        assert run("fit", "dates.csv", "-e", TEXT, *NEAR, *named, "--out", "dates") == 0
        few = ("--starts", 1, "--start", "r=2", "--start", "K=2.5")
        assert run("fit", "d.csv", "-e", PLAIN, *few, "--out", "plain") == 3
        code = ("--model", "model.py:problem", "--starts", 1, "--out", "code")
        assert run("fit", "d.csv", *code) in (0, 3)
    return folder


@pytest.fixture(autouse=True)
def here(made, monkeypatch):
    monkeypatch.chdir(made)


def test_a_prediction_is_that_of_the_fit(capsys, tmp_path):
    out = tmp_path / "p.csv"
    assert run("predict", "delayed", "--until", 30, "--level", 0.8, "--out", out) == 0
    shown = capsys.readouterr()
    assert "80% band" in shown.out and "Written to" in shown.err
    # The table shows times after the data.
    first = float(shown.out.splitlines()[1].split()[0])
    assert 20 <= first < 22 and len(shown.out.splitlines()) == 13
    said = load_estimate("delayed").predict(30, level=0.8)
    table = rows(out)
    assert len(table) == 201 and float(table[-1]["t"]) == 30
    for kind in ("mean", "low", "high", "noisy_low", "noisy_high"):
        column = "x" if kind == "mean" else f"x_{kind}"
        found = [float(row[column]) for row in table]
        np.testing.assert_allclose(found, getattr(said, kind)[:, 0], rtol=1e-12)


def test_a_prediction_of_dates_is_one_of_dates(capsys):
    assert run("predict", "dates", "--until", "2024-01-31", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    last = found["rows"][-1]
    assert last["date"] == "2024-01-31T00:00:00" and found["level"] == 0.95
    expected = load_estimate("dates").predict(30.0)
    assert last["x_high"] == pytest.approx(expected.high[-1, 0])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["delayed", "--until", "2024-01-31"], "are numbers, but got '2024-01-31'"),
        (["dates", "--until", "30"], "the times are dates, but got 30"),
        (["dates", "--until", "soon"], "`--until`"),
        (["delayed", "--until", "0"], "not after the end of the history"),
        (["delayed", "--level", "90"], "between 0 and 1, as 0.9 for 90%"),
        (["delayed", "--until", "1e9"], "Ask for an earlier time."),
        (["nothing"], "no such file"),
        (["."], "this folder holds no saved fit"),
    ],
)
def test_predictions_that_are_refused(capsys, arguments, message):
    assert message in refused(capsys, "predict", *arguments)


def test_the_model_of_a_folder_is_found(capsys):
    assert run("predict", "code") == 0
    assert "95% band" in capsys.readouterr().out
    message = refused(capsys, "predict", "code/result.json")
    assert "Give the folder" in message


def test_fits_are_compared_by_their_criteria(capsys):
    assert run("compare", "plain", "delayed") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["model", "delayed", "plain"]
    assert run("compare", "plain", "delayed/result.json", "--json") == 0
    best, other = json.loads(capsys.readouterr().out)
    assert best["fit"] == "delayed/result.json" and other["bic_difference"] > 10
    fits = {"a": load_estimate("delayed"), "b": load_estimate("plain")}
    assert best["bic"] == pytest.approx(dd.compare(fits).criteria[0].bic)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["delayed"], "at least two"),
        (["delayed", "delayed"], "delayed is given twice"),
        (["delayed", "dates"], "fits of different data"),
    ],
)
def test_comparisons_that_are_refused(capsys, arguments, message):
    assert message in refused(capsys, "compare", *arguments)


def test_the_level_is_that_of_the_table_and_the_file(made):
    text = (made / "dates" / "table.txt").read_text()
    assert "90% interval" in text.splitlines()[0]
    assert "level = 0.9\n" in (made / "dates" / "fit.toml").read_text()
    fit = load_estimate("dates")
    assert fit.assessment is not None and fit.assessment.level == 0.9
    assert str(fit) == text.rstrip("\n")
    wide, narrow = (np.ptp(f.intervals["tau"]) for f in (fit.with_intervals(), fit))
    assert wide == pytest.approx(narrow * 1.96 / 1.645, rel=0.1)


def test_a_column_has_the_name_of_the_equation(made, tmp_path):
    assert load_estimate("dates").data.names == ("x",)
    toml = (made / "dates" / "fit.toml").read_text()
    assert '[columns]\nx = "Fish (t)"' in toml
    shutil.copytree(made / "dates", tmp_path / "again")
    options = ("--config", tmp_path / "again/fit.toml", "-q", "--out", tmp_path / "two")
    assert run("fit", *options) == 0
    again, before = load_estimate(tmp_path / "two"), load_estimate("dates")
    assert again.values == before.values and again.intervals == before.intervals
