"""`ddefind predict`, `compare` and `profile`: what they say of fits that were saved."""

import json
import shutil

import numpy as np
import pytest

import ddefind as dd
from ddefind._results.printed_table import interval_in_words
from support.command import NEAR, TEXT, VALUES, refused, rows, run
from support.fits import load_estimate

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
    assert "Give the folder" in refused(capsys, "predict", "code/result.json")


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


def test_it_says_the_interval_and_writes_table_and_figure(capsys, tmp_path):
    out = tmp_path / "new" / "folder"
    assert run("profile", "dates", "--out", out, "--format", "svg,pdf") == 0
    shown = capsys.readouterr()
    fit = load_estimate("dates")
    low, high = fit.intervals["tau"]
    assert f"with 90% confidence between {low:.5f} and {high:.5f}." in shown.out
    assert [line.split()[0] for line in shown.out.splitlines()[::2]] == [
        *("`r`", "`K`", "`b`", "`tau`")
    ]
    names = ("profiles.csv", "profiles.svg", "profiles.pdf")
    assert shown.err.strip() == f"Written to {out}: {', '.join(names)}"
    assert sorted(file.name for file in out.iterdir()) == sorted(names)
    table = [row for row in rows(out / "profiles.csv") if row["parameter"] == "tau"]
    profile = fit.profile("tau", 0.9)
    for column, values in (
        ("value", profile.values),
        ("chi_square_rise", profile.r**2),
        ("tau", profile.values),
        ("K", profile.theta[:, 1]),
    ):
        np.testing.assert_allclose([float(row[column]) for row in table], values)


def test_one_parameter_at_another_level(capsys):
    arguments = ("--parameter", "tau,K", "--level", 0.5, "--json", "-q")
    assert run("profile", "dates", *arguments) == 0
    shown = capsys.readouterr()
    tau, K = json.loads(shown.out)
    assert not shown.err and (tau["name"], K["name"]) == ("tau", "K")
    assert tau["level"] == 0.5
    wide = load_estimate("dates").intervals["tau"]
    assert wide[0] < tau["low"] < tau["estimate"] < tau["high"] < wide[1]
    assert min(tau["chi_square_rise"]) == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["dates", "--parameter", "tao"], "Did you mean 'tau'?"),
        (["dates", "--level", "90"], "between 0 and 1, as 0.9 for 90%"),
        (["dates", "--format", "pdf"], "`--out DIR`"),
        (["dates", "--out", "d.csv"], "d.csv cannot be a folder"),
        (["nowhere"], "no such file"),
    ],
)
def test_profiles_that_are_refused(capsys, arguments, message):
    assert message in refused(capsys, "profile", *arguments)


def test_profiles_go_with_the_fit_that_they_are_of(capsys, tmp_path):
    shutil.copytree("dates", tmp_path / "again")
    assert run("profile", tmp_path / "again", "--out", tmp_path / "again") == 0
    assert (tmp_path / "again" / "profiles.png").is_file()
    config = tmp_path / "again" / "fit.toml"
    assert run("fit", "--config", config, "--out", tmp_path / "again") == 0
    assert not list((tmp_path / "again").glob("profiles.*"))


def test_open_intervals_in_words():
    t = np.linspace(0, 4, 30)
    noise = 0.01 * np.random.default_rng(0).normal(size=30)
    data = dd.Data(t, 2 * np.exp(-t) + noise, names=["x"])
    model, bounds = dd.equation("x' = -(k + m) * x"), {"k": dd.Parameter(None, 0, 5)}
    fit = dd.fit(model, data, parameters=bounds, optimizer=dd.LeastSquares(starts=4))
    said = {name: interval_in_words(fit, fit.profile(name), 0.95) for name in fit.names}
    assert said["b"].startswith("`b` is 2.0")
    assert "with 95% confidence between 1.9" in said["b"]
    assert said["k"].endswith(
        "the data give no lower limit (its bound is 0) and no upper limit (its bound "
        "is 5)."
    )


class TestProgressOfIntervals:
    """The ends of the intervals are counted, each kind of work on its own."""

    def reports(self, work):
        seen = []
        work(lambda now: seen.append(now))
        assert all(now.phase == "intervals" for now in seen)
        return [(now.epoch, now.epochs) for now in seen], seen

    def test_all_ends_are_counted(self):
        fit = load_estimate("dates")
        counts, seen = self.reports(lambda p: fit.with_intervals(0.8, progress=p))
        assert counts[0] == (0, 8) and counts[-1][0] == counts[-1][1] >= 8
        assert counts == sorted(counts)
        assert seen[-1].loss == fit.loss and 0.7 < seen[-1].tau < 0.9

    def test_those_of_one_profile(self):
        fit = load_estimate("dates")
        counts, _ = self.reports(lambda p: fit.profile("K", 0.8, progress=p))
        assert counts[0] == (0, 2) and counts[-1] == (2, 2)

    def test_known_ones_take_no_work(self):
        fit = load_estimate("dates")
        assert self.reports(lambda p: fit.profile("K", 0.9, progress=p)) == ([], [])
