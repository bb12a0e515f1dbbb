"""`ddefind profile`: the profiles of a saved fit, in words, as a table and a figure."""

import json
import shutil

import numpy as np
import pytest

import ddefind as dd
from ddefind._results.printed_table import interval_in_words
from support.command import NEAR, TEXT, VALUES, refused, rows, run
from support.results import load_estimate


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profiles")
    noise = ("--T", 20, "--points", 40, "--noise", 0.05, "--seed", 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run("simulate", "-e", TEXT, *VALUES, *noise, "--out", "d.csv") == 0
        fit = ("fit", "d.csv", "-e", TEXT, *NEAR, "--level", 0.9)
        assert run(*fit, "--out", "fitted") == 0
    return folder


@pytest.fixture(autouse=True)
def here(made, monkeypatch):
    monkeypatch.chdir(made)


def test_it_says_the_interval_and_writes_table_and_figure(capsys, tmp_path):
    out = tmp_path / "new" / "folder"
    assert run("profile", "fitted", "--out", out, "--format", "svg,pdf") == 0
    shown = capsys.readouterr()
    fit = load_estimate("fitted")
    low, high = fit.intervals["tau"]
    assert f"with 90% confidence between {low:.4f} and {high:.4f}." in shown.out
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
    assert run("profile", "fitted", *arguments) == 0
    shown = capsys.readouterr()
    tau, K = json.loads(shown.out)
    assert not shown.err and (tau["name"], K["name"]) == ("tau", "K")
    assert tau["level"] == 0.5
    wide = load_estimate("fitted").intervals["tau"]
    assert wide[0] < tau["low"] < tau["estimate"] < tau["high"] < wide[1]
    assert min(tau["chi_square_rise"]) == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["fitted", "--parameter", "tao"], "Did you mean 'tau'?"),
        (["fitted", "--level", "90"], "between 0 and 1, as 0.9 for 90%"),
        (["fitted", "--format", "pdf"], "`--out DIR`"),
        (["fitted", "--out", "d.csv"], "d.csv cannot be a folder"),
        (["nowhere"], "no such file"),
    ],
)
def test_what_is_refused(capsys, arguments, message):
    assert message in refused(capsys, "profile", *arguments)


def test_profiles_go_with_the_fit_that_they_are_of(capsys, tmp_path):
    shutil.copytree("fitted", tmp_path / "again")
    assert run("profile", tmp_path / "again", "--out", tmp_path / "again") == 0
    assert (tmp_path / "again" / "profiles.png").is_file()
    config = tmp_path / "again" / "fit.toml"
    assert run("fit", "--config", config, "--out", tmp_path / "again") == 0
    assert not list((tmp_path / "again").glob("profiles.*"))


def test_open_intervals_in_words():
    t = np.linspace(0, 4, 30)
    noise = 0.01 * np.random.default_rng(0).normal(size=30)
    data = dd.Data(t, 2 * np.exp(-t) + noise, names=["x"])
    fit = dd.fit(
        dd.equation("x' = -(k + m) * x"),
        data,
        parameters={"k": dd.Parameter(lower=0, upper=5)},
        optimizer=dd.LeastSquares(starts=4),
        progress=False,
    )
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
        fit = load_estimate("fitted")
        counts, seen = self.reports(lambda p: fit.with_intervals(0.8, progress=p))
        assert counts[0] == (0, 8) and counts[-1][0] == counts[-1][1] >= 8
        assert counts == sorted(counts)
        assert seen[-1].loss == fit.loss and 0.7 < seen[-1].tau < 0.9

    def test_those_of_one_profile(self):
        fit = load_estimate("fitted")
        counts, _ = self.reports(lambda p: fit.profile("K", 0.8, progress=p))
        assert counts[0] == (0, 2) and counts[-1] == (2, 2)

    def test_known_ones_take_no_work(self):
        fit = load_estimate("fitted")
        assert self.reports(lambda p: fit.profile("K", 0.9, progress=p)) == ([], [])
