"""`ddefind sweep` and `ddefind status`."""

import json
import os
import signal
import sqlite3
import sys
import time
from contextlib import closing

import numpy as np
import pytest

import ddefind as dd
from ddefind._cli.sweep_command import _sentence
from ddefind._sweeps.database import Overview, locked
from support.command import refused, rows, run
from support.fits import simulated
from support.sweep_kills import LONG, begun, recorded, wait_until

TABLE = """
files = ["lakes/*.csv"]

[equations]
decay = "x' = -k * x"
delayed = "x' = -k * x(t - tau)"

[settings.usual]
starts = 2
bounds = { tau = [0.1, 3] }
[settings.robust]
starts = 2
noise = "student"
"""
ROBUST = 'noise = "student"'
MODEL = dd.equation("x' = -k * x(t - tau)")


def write_lake(folder, number, seed=0):
    truth = MODEL.problem(k=1.0 + 0.05 * number, tau=1.0, b=1.0)
    data = simulated(truth, np.linspace(0, 6, 25), 0.02, seed=[number, seed])
    data.to_csv(folder / f"lake{number:03d}.csv")


@pytest.fixture
def home(here):
    (here / "lakes").mkdir()
    for number in range(3):
        write_lake(here / "lakes", number)
    (here / "lakes.toml").write_text(TABLE)
    return here


@pytest.mark.slow
def test_a_table_of_fits(home, capsys):
    assert run("sweep", "lakes.toml", "--out", "out", "--workers", "2") in (0, 3)
    shown = capsys.readouterr()
    assert "12 fits: 3 files x 2 equations x 2 kinds of settings" in shown.err
    assert "made by 2 processes of this machine" in shown.err
    assert "delayed-robust: x' = -k * x(t - tau)\n" in shown.out
    assert "with a `level` in the settings they are computed" in shown.out
    table = rows("out/table.csv")
    names = {f"{e}-{s}" for e in ("decay", "delayed") for s in ("usual", "robust")}
    assert {row["fit"] for row in table} == names and len(table) == 12
    # The true equation is not rejected, and the wrong one is, though it converged.
    rejected = {(row["fit"], row["rejected"]) for row in table}
    assert {("decay-usual", "yes"), ("delayed-usual", "no")} <= rejected
    assert "In 3 of 3 fits the residuals reject the model" in shown.out
    for row in (each for each in table if each["fit"] == "delayed-usual"):
        data = dd.read_csv(row["file"])
        method = dd.LeastSquares(starts=2)
        alone = dd.fit(MODEL, data, optimizer=method, intervals=False)
        for name, value in alone.values.items():
            assert float(row[name]) == pytest.approx(value, rel=1e-4)
            error = alone.standard_errors[name]
            assert float(row[f"{name}_se"]) == pytest.approx(error, rel=1e-3)
    assert table[0]["tau"] == ""
    assert run("sweep", "lakes.toml", "--out", "out", "--workers", "1") in (0, 3)
    assert rows("out/table.csv") == table
    capsys.readouterr()
    assert run("status", "out") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(": 3 of 3 fits (" in line and line.endswith(", done") for line in lines)
    # Another file is another data set.
    write_lake(home / "lakes", 1, seed=1)
    assert "the data of fit 1, 'lake001', have" in refused_later(capsys)
    capsys.readouterr()
    with locked(home / "out"):
        assert "another sweep is at work" in refused_later(capsys)


def refused_later(capsys):
    """What a sweep is refused with, after it has said what it is about to do."""
    assert run("sweep", "lakes.toml", "--out", "out", "--workers", "1") == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("Error: ")
    return last


@pytest.mark.slow
def test_an_interrupted_command_goes_on(home):
    for number in range(60):
        write_lake(home / "lakes", number)
    (home / "lakes.toml").write_text(TABLE.replace('decay = "x\' = -k * x"\n', ""))
    command = ("sweep", "lakes.toml", "--out", "out", "--workers", "2", "--quiet")
    process = begun("-m", "ddefind", *command)
    part = home / "out" / "delayed-usual"
    wait_until(lambda: len(recorded(part)) >= 4)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=LONG)
    assert process.returncode == 130 and "Traceback" not in errors
    before = recorded(part)
    assert run(*command) == 0
    after = recorded(part)
    assert {number: after[number] for number in before} == before
    assert len(rows("out/table.csv")) == 120


@pytest.mark.parametrize(
    "change, message",
    [
        (("files", "data"), "a sweep has no 'data'"),
        (('["lakes/*.csv"]', '["seas/*.csv"]'), "no file 'seas/*.csv'"),
        (('["lakes/*.csv"]', "[]"), "`files` must be a list of files"),
        (("starts", "start_"), "no setting 'start_'. Did you mean 'start'?"),
        ((ROBUST, "level = 'x'"), "`settings.robust.level` must be a number"),
        ((ROBUST, "group = 'g'"), "'group', which a sweep does not have"),
        ((ROBUST, "history = 'auto'"), "'auto' follows from the data"),
        ((ROBUST, "level = -1"), "settings 'robust': `--level` must"),
        ((ROBUST, "huber = 1.345"), 'Student noise, `noise = "student"`'),
        (("decay", '"a/b"'), "'a/b' in `equations` becomes a folder"),
        (("x' = -k * x\"", 'model.py:f"'), "must be a text, or a text file"),
        (("[equations]", "[equation]"), "a sweep has no 'equation', only"),
        (("[settings.usual]", "[settings.usual"), "lakes.toml: "),
        (("tau = [0.1", "tao = [0.1"), "no equation. Did you mean 'tau'?"),
        (("decay", "[others]\ndecay"), "a sweep has no 'others'"),
        (("decay", "Delayed"), "'Delayed-usual' and 'delayed-usual' would be in one"),
        (
            (TABLE[TABLE.index("[equations]") :], ""),
            "`equations` must be a table of eq",
        ),
    ],
)
def test_wrong_tables(home, capsys, change, message):
    old, new = change
    (home / "lakes.toml").write_text(TABLE.replace(old, new, 1))
    assert message in refused(capsys, "sweep", "lakes.toml", "--out", "out")
    assert not (home / "out").exists()


@pytest.mark.parametrize("label", ["lock", "Table.csv", "plan.json", "fits.sqlite"])
def test_an_equation_named_as_a_file_of_the_sweep(home, capsys, label):
    few = f'files = "lakes/*.csv"\nequations."{label}" = "x\' = -k * x"\n'
    (home / "lakes.toml").write_text(few)
    last = refused(capsys, "sweep", "lakes.toml", "--out", "out")
    assert f"`{label.lower()}` is a file of the sweep itself. Rename the eq" in last


def test_a_plan_outlives_a_sweep_that_is_refused(home, capsys, monkeypatch):
    def refuse(*_, **__):
        assert list(json.loads(plan.read_text())) == ["decay", "delayed"]
        raise dd.ResultError("It is of other data.")

    plan = home / "out" / "plan.json"
    plan.parent.mkdir()
    plan.write_text('{"decay": 3}')
    monkeypatch.setattr(dd, "fit_many", refuse)
    (home / "lakes.toml").write_text(TABLE.split("[settings")[0])
    assert run("sweep", "lakes.toml", "--out", "out", "--workers", "1") == 2
    assert plan.read_text() == '{"decay": 3}'


def test_an_equation_that_cannot_be_read(home, capsys):
    (home / "lakes.toml").write_text(TABLE.replace("-k * x(", "-k * (x("))
    assert run("sweep", "lakes.toml", "--out", "out") == 2
    assert "Error: The equation 'delayed': This '('" in capsys.readouterr().err
    assert not (home / "out").exists()


def test_wrong_options(home, capsys):
    assert "`--out DIR`" in refused(capsys, "sweep", "lakes.toml")
    given = ("sweep", "lakes.toml", "--out", "out")
    assert "from 1 on" in refused(capsys, *given, "--workers", "0")
    both = ("--workers", "2", "--scheduler", "tcp://127.0.0.1:1")
    assert "give one of them" in refused(capsys, *given, *both)
    (home / "file").write_text("")
    last = refused(capsys, "sweep", "lakes.toml", "--out", "file")
    assert "`--out`: file cannot be made: there is a file in its place" in last
    assert "not the folder of a sweep" in refused(capsys, "status", "lakes")


def test_no_dask(home, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    given = ("sweep", "lakes.toml", "--out", "out", "--scheduler", "tcp://127.0.0.1:1")
    assert "pip install 'ddefind[scale]'" in refused(capsys, *given)


def test_status_of_what_is_not_done(home, capsys):
    (home / "out").mkdir()
    (home / "out" / "plan.json").write_text('{"decay": 3}')
    assert run("status", "out") == 0
    assert capsys.readouterr().out == "decay: 0 of 3 fits, not begun\n"
    data = [dd.read_csv(path) for path in sorted((home / "lakes").iterdir())]
    few = dd.LeastSquares(starts=1)
    start = MODEL.problem(k=0.8, tau=0.8, b=0.8)
    seen = []

    def look(now):
        run("status", "sets")
        seen.append(capsys.readouterr().out)

    dd.fit_many(start, data, optimizer=few, folder="sets", progress=look)
    assert seen[-1].startswith("sets: 3 of 3 fits (") and "done" in seen[-1]
    with closing(sqlite3.connect(home / "sets" / "fits.sqlite")) as database:
        database.execute("DELETE FROM fits WHERE number = 2")
        database.commit()
    assert run("status", "sets") == 0
    assert "sets: 2 of 3 fits (" in (shown := capsys.readouterr().out)
    assert "stopped 0:00:" in shown
    with locked(home / "sets"):
        assert run("status", "sets", "--json") == 0
    (part,) = json.loads(capsys.readouterr().out)
    assert part["runs"] and part["done"] == 2 and part["tasks"] == 3
    assert time.time() - part["last"] < 600


@pytest.mark.parametrize("name", ["sweep.json", "fits.jsonl"])
def test_a_folder_of_an_earlier_version(home, capsys, name):
    (home / "out" / "decay-usual").mkdir(parents=True)
    (home / "out" / "decay-usual" / name).write_text("")
    (home / "out" / "plan.json").write_text('{"decay-usual": 3}')
    said = f"{name} was written by an earlier version of ddefind"
    assert said in refused(capsys, "status", "out")
    assert said in refused(capsys, "status", "out/decay-usual")
    assert said in refused_later(capsys)


def test_a_folder_that_is_a_link(home, capsys):
    (home / "far").mkdir()
    (home / "out").symlink_to("far")
    last = refused(capsys, "sweep", "lakes.toml", "--out", "out")
    assert "out: this is a symbolic link" in last and not list((home / "far").iterdir())
    assert "this is a symbolic link" in refused(capsys, "status", "out")


def test_a_clock_that_is_behind_that_of_the_sweep():
    later = Overview("x' = -x", 3, 1, 0, False, {}, None, time.time() + 9)
    assert _sentence("sets", later) == "sets: 1 of 3 fits, stopped 0:00:00 ago"
