"""The command line: what it accepts, what it refuses, what it leaves behind."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from ddefind._cli.main import spread_values
from ddefind.paper import _run as paper_run
from support.command import python, run
from support.paper_results import made_up


@pytest.fixture
def quick(monkeypatch):
    """Fits that take no time; the list of the models that were run."""
    ran = []

    def fake(experiment, protocol, noise, repeats, seed, *, progress):
        ran.append(experiment.model)
        return [
            made_up(experiment.model, level, repeats, seed, protocol.name)
            for level in noise
        ]

    monkeypatch.setattr(paper_run, "run_model", fake)
    return ran


def saved(folder):
    return json.loads((folder / "results.json").read_text())


@pytest.mark.parametrize(
    "given, parsed",
    [
        ("--noise 0.1 0.3", "--noise 0.1 --noise 0.3"),
        ("--noise 0.1 --noise 0.3", "--noise 0.1 --noise 0.3"),
        ("--noise 0.1 hiv enso", "--noise 0.1 hiv enso"),
        ("hiv --noise 0.1 1e-2 --seed 3", "hiv --noise 0.1 --noise 1e-2 --seed 3"),
        ("--noise 0.1 -1", "--noise 0.1 --noise -1"),
        ("--seed 3 4", "--seed 3 4"),
        ("--noise hiv 0.3", "--noise hiv --noise 0.3"),
        ("--noise", "--noise"),
    ],
)
def test_several_values_may_follow_one_flag(given, parsed):
    assert spread_values(given.split()) == parsed.split()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["logistics"], "Unknown model 'logistics'. Did you mean 'logistic'?"),
        (["hiv", "--noise", "-1"], "a number from 0 on, but got -1"),
        (["hiv", "--noise", "0.1", "-1"], "a number from 0 on, but got -1"),
        (["hiv", "--noise", "much"], "--noise"),
        (["hiv", "--repeats", "0"], "`repeats` must be at least 1, but got 0"),
        (["hiv", "--repeats", "some"], "--repeats"),
        (["hiv", "--seed", "-4"], "`seed` must be at least 0"),
        (["hiv", "--protocol", "print"], "Unknown protocol 'print'"),
        (["hiv", "--colour"], "--colour"),
    ],
)
def test_bad_input_is_refused(arguments, message, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("paper", *arguments, "--out", out) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
    assert not out.exists()


def test_an_unknown_command_is_refused(capsys):
    assert run("papers") == 2
    assert "papers" in capsys.readouterr().err


def test_folders_that_cannot_be_used_are_refused(tmp_path, capsys, quick):
    (tmp_path / "notes.txt").write_text("mine")
    assert run("paper", "--out", tmp_path) == 2
    assert "holds other things" in capsys.readouterr().err
    assert run("paper", "--out", tmp_path / "notes.txt") == 2
    assert "is a file" in capsys.readouterr().err
    assert run("paper", "--out", tmp_path / "notes.txt" / "below") == 2
    assert "Cannot write" in capsys.readouterr().err
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert os.listdir(tmp_path) == ["notes.txt"] and not quick


def test_everything_is_written(tmp_path, capsys, quick):
    out = tmp_path / "deep" / "out"
    assert run("paper", "--repeats", 4, "--out", out) == 0
    shown = capsys.readouterr().out
    assert shown.count("rms z") == 15
    assert "Cramér-" in shown and "…" not in shown
    assert max(map(len, shown.splitlines()[5:-1])) <= 80
    assert sorted(quick) == ["cheyne", "enso", "exponential", "hiv", "logistic"]
    records = saved(out)
    assert len(records) == 15
    levels = [r["noise"] for r in records if r["model"] == "exponential"]
    assert levels == [0.1, 0.3, 0.9]
    assert records[0]["model"] == "exponential"
    assert (out / "tables.md").read_text().count("## ") == 15
    names = "exponential logistic enso cheyne hiv-T_star hiv-V_I hiv-V_NI".split()
    for name in names:
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (out / "figures" / f"{name}.svg").read_bytes()
    assert len(os.listdir(out / "figures")) == 2 * len(names)


def test_a_run_continues_where_it_was_interrupted(tmp_path, capsys, monkeypatch, quick):
    out = tmp_path / "out"
    fake = paper_run.run_model

    def interrupted(experiment, *arguments, **options):
        if experiment.model == "exponential":
            raise paper_run.Interrupted(experiment.model)
        return fake(experiment, *arguments, **options)

    command = ("paper", "exponential", "logistic", "--repeats", 4, "--out", out)
    monkeypatch.setattr(paper_run, "run_model", interrupted)
    monkeypatch.setattr(paper_run, "_TOGETHER", 1)
    assert run(*command) == 130
    assert "the same command continues" in capsys.readouterr().err
    before = saved(out)
    assert {record["model"] for record in before} == {"logistic"}
    monkeypatch.setattr(paper_run, "run_model", fake)
    quick.clear()
    assert run(*command) == 0
    assert quick == ["exponential"]
    assert "logistic: kept from before" in capsys.readouterr().out
    assert [r for r in saved(out) if r["model"] == "logistic"] == before
    # With everything there, nothing is run, and what was lost is drawn again.
    (out / "figures" / "logistic.png").unlink()
    assert run(*command) == 0
    assert quick == ["exponential"]
    assert (out / "figures" / "logistic.png").exists()


def test_other_settings_need_another_folder(tmp_path, capsys, quick):
    out = tmp_path / "out"
    command = ("paper", "hiv", "--repeats", 4, "--out", out)
    assert run(*command) == 0
    before = (out / "results.json").read_bytes()
    for name, value in (("seed", 1), ("repeats", 5), ("protocol", "stated")):
        assert run(*command, f"--{name}", value) == 2
        said = capsys.readouterr().err
        assert f"with {name} " in said and "Choose another `--out`" in said
    assert (out / "results.json").read_bytes() == before
    assert run(*command, "--noise", 0.1, 0.2) == 0
    assert [record["noise"] for record in saved(out)] == [0.1, 0.2, 0.3, 0.9]


def test_a_small_real_run(tmp_path):
    out = tmp_path / "out"
    options = ("--noise", 0.1, "--repeats", 2, "--protocol", "stated")
    assert run("paper", "exponential", *options, "--out", out) == 0
    (record,) = saved(out)
    assert record["protocol"] == "stated"
    assert record["statuses"] == {"finished": 2}
    true, mean = np.array(record["true"]), np.array(record["mean"])
    np.testing.assert_allclose(mean, true, rtol=0.3)


def test_help_tells_the_exit_codes():
    for arguments in (["--help"], ["paper", "--help"]):
        assert "2 input refused" in python("-m", "ddefind", *arguments).stdout


@pytest.mark.parametrize(
    "arguments", [["--help"], ["simulate", "-e", "x' = -x(t - 1)", "--history", "1"]]
)
def test_a_closed_pipe_ends_a_command_silently(arguments):
    """As in `ddefind --help | true`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ddefind", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 141


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished(tmp_path):
    out = tmp_path / "out"
    command = ["-m", "ddefind", "paper", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, *command], stderr=subprocess.PIPE, text=True
    )
    while not (out / "results.json").exists() or not saved(out):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, shown = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted" in shown and "Traceback" not in shown
    before = saved(out)
    assert 0 < len(before) < 15
    python(*command)
    after = saved(out)
    assert len(after) == 15
    kept = {record["model"] for record in before}
    assert [record for record in after if record["model"] in kept] == before
