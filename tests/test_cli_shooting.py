"""`ddefind fit --method multiple-shooting`."""

import json

import numpy as np
from studies.process_noise import SYSTEMS, simulate

import ddefind as dd
from support.command import refused, run

TEXT = SYSTEMS["population"].text


def test_a_fit_with_process_noise(here, capsys):
    data = simulate(SYSTEMS["population"], 1, 0.05, seed=4)[0]
    columns = np.column_stack([data.t, data.x])
    np.savetxt("data.csv", columns, delimiter=",", header="t,x", comments="")
    method = ("--method", "multiple-shooting", "--starts", 4)
    assert run("fit", "data.csv", "-e", TEXT, *method, "--out", "result") == 0
    assert "Process noise (estimated)" in capsys.readouterr().out
    assert 'method = "multiple-shooting"' in (here / "result/fit.toml").read_text()
    saved = dd.load("result")
    assert isinstance(saved, dd.Estimate) and saved.process is not None
    # The curve is the path that the system took.
    t, x, low, high, *_ = np.loadtxt("result/curve.csv", delimiter=",", skiprows=1).T
    assert np.all((low < x) & (x < high))
    at_data = np.interp(data.t, t, x)
    assert np.abs(at_data - saved.fitted[:, 0]).max() < 0.02
    table = json.loads((here / "result/result.json").read_text())["table"]
    assert [row["name"] for row in table] == ["r", "K", "b", "tau"]


def test_an_unknown_method_is_refused(capsys):
    said = refused(capsys, "fit", "data.csv", "-e", TEXT, "--method", "shooting")
    assert "`--method` must be least-squares or multiple-shooting" in said
