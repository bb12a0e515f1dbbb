"""`ddefind fit` and `ddefind show`: what they show, write, repeat and refuse."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import ddefind as dd
import ddefind._cli.output_folder
import ddefind._fitting.least_squares
import ddefind._inference.system
from ddefind._search.search import search
from support.command import TEXT, VALUES, refused, rows, run
from support.fits import load_estimate

FILES = ["curve.csv", "figure.png", "fit.toml", "input", "result.json"]
FILES += ["report.html", "table.csv", "table.txt"]
STARTS = ("--start", "r=1", "--start", "K=1", "--start", "tau=0.5")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with data, and the result of a fit of them."""
    folder = tmp_path_factory.mktemp("made")
    options = ("--T", 20, "--points", 120, "--noise", 0.05, "--seed", 3)
    data, out = folder / "data.csv", folder / "result"
    assert run("simulate", "-e", TEXT, *VALUES, *options, "--out", data) == 0
    assert run("fit", data, "--equation", TEXT, *STARTS, "--out", out) == 0
    return folder


@pytest.fixture(autouse=True)
def copy_of_the_data(here, made):
    shutil.copy(made / "data.csv", here)


def test_the_parameters_are_recovered(made):
    true = {"r": 1.8, "K": 2.5, "b": 0.5, "tau": 0.8}
    table = rows(made / "result" / "table.csv")
    assert [row["name"] for row in table] == list(true)
    for row in table:
        estimate, error = float(row["estimate"]), float(row["standard_error"])
        assert abs(estimate - true[row["name"]]) < 4 * error < 0.1 * estimate
        assert float(row["low"]) < estimate < float(row["high"])
        assert row["verdict"] == "determined"


def test_everything_is_written(made):
    out = made / "result"
    assert sorted(os.listdir(out)) == sorted(FILES)
    fit = load_estimate(out)
    assert (out / "table.txt").read_text() == f"{fit}\n"
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "input/data.csv").read_bytes() == (made / "data.csv").read_bytes()
    curve = dd.read_csv(out / "curve.csv")
    bands = ("x_low", "x_high", "x_noisy_low", "x_noisy_high")
    assert len(curve) == 801 and curve.T == 20 and curve.names == ("x", *bands)
    np.testing.assert_allclose(curve.x[:, :1], fit.solution(curve.t), rtol=1e-12)
    said = fit.predict(curve.t)
    for index, each in enumerate(("low", "high", "noisy_low", "noisy_high"), start=1):
        np.testing.assert_allclose(curve.x[:, index], getattr(said, each)[:, 0])
    assert fit.data.label == "data"
    assert "starts = 32\n" in (out / "fit.toml").read_text()


def test_the_folder_repeats_the_fit_bit_for_bit(made):
    # Even if the data are no longer where they were.
    shutil.copytree(made / "result", "kept")
    assert run("fit", "--config", "kept/fit.toml", "--out", "again", "--quiet") == 0
    for name in ("table.csv", "curve.csv", "fit.toml", "input/data.csv"):
        assert Path(f"kept/{name}").read_bytes() == Path(f"again/{name}").read_bytes()
    paths = (Path("kept/result.json"), Path("again/result.json"))
    one, two = (json.loads(path.read_text()) for path in paths)
    differ = {key for key in one if one[key] != two[key]}
    assert differ <= {"seconds", "text", "checksum"}  # the text tells the seconds
    # And it may be written over.
    assert run("fit", "--config", "again/fit.toml", "--out", "again", "--seed", 1) == 0
    assert load_estimate("again").seed == 1


def test_formats_of_the_figure(made, here, capsys):
    command = ("fit", "--config", made / "result" / "fit.toml", "--out", "out")
    assert run(*command, "--format", "pdf,SVG", "--quiet") == 0
    assert (here / "out" / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert b"<svg" in (here / "out" / "figure.svg").read_bytes()
    assert not (here / "out" / "figure.png").exists()
    # Figures of an earlier fit do not stay beside those of a later one.
    assert run(*command, "--quiet") == 0
    assert [path.name for path in (here / "out").glob("figure.*")] == ["figure.png"]
    capsys.readouterr()
    said = refused(capsys, *command, "--format", "jpg")
    assert "`--format` must be png, pdf or svg, but got 'jpg'" in said
    said = refused(capsys, *command[:3], "--format", "pdf")
    assert "that `--out DIR` writes" in said


def test_the_result_goes_to_the_output_and_all_else_beside(made, capsys, here):
    assert run("fit", "data.csv", "-e", TEXT, "--out", "out") == 0
    shown = capsys.readouterr()
    assert shown.out == (here / "out" / "table.txt").read_text()
    assert shown.err.startswith("Data 'data': 120 times in [0, 20]")
    assert "result.json, curve.csv, figure.png, report.html\n" in shown.err
    assert "Open out/report.html in a browser" in shown.err
    assert run("fit", "data.csv", "-e", TEXT, "--quiet") == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("parameter  estimate") and shown.err == ""


def test_json(made, capsys):
    assert run("fit", "data.csv", "-e", TEXT, *STARTS, "--json", "-q") == 0
    found = json.loads(capsys.readouterr().out)
    fit = load_estimate(made / "result")
    assert found["table"] == fit.summary()
    assert found["status"] == fit.status.name and found["noise"] == fit.noise
    assert found["problem"]["equation"] == TEXT
    assert run("show", made / "result", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown | {"seconds": 0} == found | {"seconds": 0}


def test_show(made, capsys):
    for path in (made / "result", made / "result" / "result.json"):
        assert run("show", path) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"{TEXT}\n# history: constant\n# data: 120 times, x\n")
        assert shown.endswith((made / "result" / "table.txt").read_text())


def test_what_is_known_bounded_and_measured(capsys):
    options = ("--set", "r=1.8", "--bounds", "K in [2, 3]", "--bounds", "tau < 2")
    options += ("--observe", "x = s * x", "--set", "s=1", "--starts", 4, "--seed", 2)
    assert run("fit", "data.csv", "-e", TEXT, *options, "--out", "out") == 0
    fit = load_estimate("out")
    assert fit.names == ("K", "b", "tau")
    assert float(fit.problem.rhs.r) == 1.8
    assert fit.setup.lower[0] == 2 and fit.setup.upper.tolist()[::2] == [3, 2]
    assert fit.seed == 2 and "starts = 4\n" in Path("out/fit.toml").read_text()


def test_student_noise_takes_the_place_of_huber(capsys):
    says = refused(capsys, "fit", "data.csv", "-e", TEXT, "--huber", "1.345")
    assert "no `--huber` any more" in says and "`--noise student`" in says


def test_priors_and_signs(capsys):
    options = ("--prior", "K ~ normal(2.5, 0.1)", "--positive", "all")
    options += (*STARTS, "--starts", 1, "--steps", 12, "--out", "out")
    assert run("fit", "data.csv", "-e", TEXT, *options) == 0
    assert "1 start, " in capsys.readouterr().out
    fit = load_estimate("out")
    assert fit.setup.lower[:2].tolist() == [0, 0]
    assert fit.setup.steps_per_delay == 12
    priors = fit.setup.model.priors
    assert priors is not None
    np.testing.assert_allclose(priors.mean, [0, 2.5, 0, 0])
    np.testing.assert_allclose(priors.weight, [0, 100, 0, 0])


MODEL = """
import ddefind as dd
import neighbour

equation = dd.equation("x' = r * x * (1 - x(t - tau) / K)")


def rhs(x, y, tau, t):
    return neighbour.rate * x * (1 - y / 2.5)


def problem():
    return dd.Problem(rhs, dd.Constant(0.4), tau=0.7)


def broken():
    return dd.Problem(lambda x, y, tau, t: x * speed, dd.Constant(0.4), tau=0.7)


number = 3
"""


@pytest.fixture
def model(here):
    (here / "model.py").write_text(MODEL)
    (here / "neighbour.py").write_text("rate = 1.8\n")
    (here / "slip.py").write_text("def f(:\n")


def test_a_model_in_a_file(model, capsys, here):
    assert run("fit", "data.csv", "--model", "model.py:problem", "--out", "out") == 0
    found = dd.load("out")
    assert type(found) is dd.SavedFit
    assert abs(found.values["tau"] - 0.8) < 0.01
    assert (here / "out" / "input" / "model.py").read_text() == MODEL
    assert 'model = "input/model.py:problem"' in (here / "out/fit.toml").read_text()
    capsys.readouterr()
    assert run("show", "out") == 0
    assert capsys.readouterr().out.startswith("# data: 120 times, x\n\nparameter")


def test_an_equation_in_a_file(model):
    options = ("--model", "model.py:equation", "--history", 0.6, "--out", "out")
    assert run("fit", "data.csv", *options, "--starts", 4) == 0
    model = load_estimate("out").model
    assert model is not None and model.history == (0.6,)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--model", "model.py"], "or FILE.py:NAME, as model.py:problem"),
        (["--model", "model.py:problems"], "Did you mean 'problem'?"),
        (["--model", "modul.py:f"], "there is no such file. Did you mean 'model.py'?"),
        (["--model", "data.csv:f"], "its name needs .py"),
        (["--model", "model.py:number"], "a function that returns one, but it is int"),
        (["--model", "model.py:broken"], "model.py, line 17: NameError: name 'speed'"),
        (["--model", "slip.py:f"], "slip.py, line 1: SyntaxError"),
        (["--model", "model.py:problem", "--observe", "x"], "goes with `--equation`"),
        (["--model", "model.py:problem", "--history", "affine"], "has its own"),
    ],
)
def test_models_that_are_refused(model, capsys, options, message):
    assert message in refused(capsys, "fit", "data.csv", *options)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "Give a file of measurements"),
        (["data.csv"], "Give either `--equation TEXT` or `--model FILE.py:NAME`"),
        (["dat.csv", "-e", TEXT], "no such file. Did you mean 'data.csv'?"),
        (["data.csv", "-e", TEXT, "--history", "afine"], "Did you mean 'affine'?"),
        (["data.csv", "-e", TEXT, "--set", "r"], "`--set` needs NAME=NUMBER"),
        (["data.csv", "-e", TEXT, "--set", "Q=1"], "There is no parameter 'Q'"),
        (["data.csv", "-e", TEXT, "--bounds", "K"], "`--bounds` needs a range"),
        (["data.csv", "-e", TEXT, "--start", "K=5", "--bounds", "K < 3"], "bounds"),
        (["data.csv", "-e", TEXT, "--seed", "-1"], "--seed"),
        (["data.csv", "-e", TEXT, "--starts", "some"], "--starts"),
        (["data.csv", "-e", TEXT, "--colour"], "--colour"),
        (["data.csv", "-e", TEXT, "more.csv"], "more.csv"),
        (["data.csv", "-e", TEXT, "--time", "u"], "no column 'u' (`--time`)"),
        (["data.csv", "-e", TEXT, "--columns", "x,u"], "'u' (`--columns`)"),
        (["data.csv", "-e", TEXT, "--time-zero", "5"], "`--time-zero` is 5"),
        (["data.csv", "-e", "u' = -v(t - tau); v' = u"], "out when the data are read"),
        (["data.csv", "-e", TEXT, *VALUES, "--set", "b=1"], "nothing to learn"),
        (["--config", "fit.toml"], "no such file"),
        (["data.csv", "-e", TEXT, "--out", "data.csv"], "cannot be a folder"),
        (["data.csv", "-e", TEXT, "--out", "data.csv/a"], "cannot be a folder"),
        (["data.csv", "-e", TEXT, "--out", "."], "holds other things than a fit"),
    ],
)
def test_bad_input_is_refused(capsys, here, arguments, message):
    assert message in refused(capsys, "fit", *arguments)
    assert os.listdir(here) == ["data.csv"]


def test_a_bad_equation_is_shown(capsys):
    assert run("fit", "data.csv", "-e", "x' = -sine(x)") == 2
    error = capsys.readouterr().err
    assert "Did you mean 'sin'?" in error and "^" in error


def test_results_that_cannot_be_shown(capsys, made, here):
    assert "no such file" in refused(capsys, "show", "nothing")
    assert "not a fit" in refused(capsys, "show", "data.csv")
    assert "RESULT" in refused(capsys, "show")
    text = (made / "result" / "result.json").read_text()
    (here / "altered.json").write_text(text.replace("120 values", "121 values"))
    assert "altered" in refused(capsys, "show", "altered.json")


@pytest.mark.parametrize("kind", ["year", "date"])
def test_times_of_the_source_are_those_of_the_curve(here, kind):
    _, _, *lines = (here / "data.csv").read_text().splitlines()
    values = [line.split(",")[1] for line in lines]
    if kind == "year":
        times = [str(1900 + year) for year in range(120)]
    else:
        times = [str(day) for day in np.datetime64("2020-01-01") + np.arange(120)]
    rows_ = [f"{kind},fish", *map(",".join, zip(times, values))]
    (here / "fish.csv").write_text("\n".join(rows_))
    assert run("fit", "fish.csv", "-e", TEXT, "--starts", 8, "--out", "out") == 0
    first, *_, last = rows("out/curve.csv")
    if kind == "year":
        assert (float(first["t"]), float(last["t"])) == (1900, 2019)
    else:
        assert first["date"] == "2020-01-01T00:00:00"
        assert last["date"] == "2020-04-29T00:00:00"


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_interrupted_with_something_found(monkeypatch, capsys):
    monkeypatch.setattr(
        ddefind._fitting.least_squares,
        "search",
        # It ends after the first look.
        lambda setup, starts, seed, _: search(setup, starts, seed, interrupt),
    )
    assert run("fit", "data.csv", "-e", TEXT, "--out", "out") == 130
    assert "Interrupted; the best point so far is kept." in capsys.readouterr().out
    fit = dd.load("out")
    assert fit.status is dd.Status.interrupted
    assert abs(fit.values["tau"] - 0.8) < 0.01


def test_interrupted_with_nothing_found(monkeypatch, capsys, here):
    monkeypatch.setattr(ddefind._fitting.least_squares, "search", interrupt)
    assert run("fit", "data.csv", "-e", TEXT, "--out", "out") == 130
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.strip().endswith("Interrupted.")
    assert os.listdir(here) == ["data.csv"]


def test_interrupted_on_the_way_to_the_intervals(monkeypatch, capsys, here):
    monkeypatch.setattr(ddefind._inference.system, "assess_best", interrupt)
    assert run("fit", "data.csv", "-e", TEXT, "--out", "out") == 130
    shown = capsys.readouterr()
    assert "std. error" in shown.out and "intervals" in shown.out
    assert "Interrupted: the intervals are left out." in shown.err
    monkeypatch.undo()
    columns = set(rows(here / "out/table.csv")[0])
    assert columns == {"name", "estimate", "standard_error"}
    low, high = load_estimate(here / "out").with_intervals().intervals["tau"]
    assert low < 0.8 < high


def test_interrupted_while_it_draws(monkeypatch, capsys, here):
    monkeypatch.setattr(dd.Estimate, "plot", interrupt)
    assert run("fit", "data.csv", "-e", TEXT, "--out", "out") == 130
    said = capsys.readouterr().err
    assert "Written to out: input/data.csv" in said
    assert "lacks the curve, figure or" in said
    assert dd.load("out").status.ok
    assert not (here / "out" / "figure.png").exists()


def disk_is_full(*_, **__):
    raise OSError(28, "No space left on device")


@pytest.fixture
def no_space(monkeypatch):
    """A disk on which there is no space for `table.csv`."""
    write = ddefind._cli.output_folder.write_whole

    def write_or_fail(path, content):
        return (disk_is_full if path.name == "table.csv" else write)(path, content)

    monkeypatch.setattr(ddefind._cli.output_folder, "write_whole", write_or_fail)


def test_a_failure_while_writing_leaves_no_folder(no_space, capsys, here):
    assert run("fit", "data.csv", "-e", TEXT, *STARTS, "--out", "out") == 2
    error = capsys.readouterr().err
    assert error.endswith("Error: No space left on device.\n")
    assert os.listdir(here) == ["data.csv"]


def test_a_failure_while_writing_keeps_the_earlier_fit(no_space, made, here):
    shutil.copytree(made / "result", "out")
    before = {p: p.read_bytes() for p in Path("out").rglob("*") if p.is_file()}
    assert run("fit", "data.csv", "-e", TEXT, "--seed", 1, "--out", "out") == 2
    assert before == {p: p.read_bytes() for p in Path("out").rglob("*") if p.is_file()}


def test_a_failure_while_drawing_keeps_the_result(monkeypatch, made, here):
    shutil.copytree(made / "result", "out")
    monkeypatch.setattr(dd.Estimate, "plot", disk_is_full)
    assert run("fit", "data.csv", "-e", TEXT, "--seed", 1, "--out", "out") == 2
    assert load_estimate("out").seed == 1
    assert not Path("out/figure.png").exists()  # not even that of the earlier fit


@pytest.mark.slow
def test_a_fit_that_did_not_converge_has_its_own_code(monkeypatch, capsys):
    unsolvable = "x' = exp(exp(exp(30 + x^2))) + k * x(t - tau)"
    assert run("fit", "data.csv", "-e", unsolvable, "--starts", 2) == 3
    shown = capsys.readouterr()
    assert "Error: The loss is not finite at the start" in shown.err
    assert shown.out == ""
    monkeypatch.setattr(dd.Status, "ok", property(lambda self: False))
    assert run("fit", "data.csv", "-e", TEXT, "--starts", 2) == 3
    assert capsys.readouterr().out.startswith("parameter")


@pytest.mark.slow
def test_a_fit_by_gradient_descent(here):
    """Of a network that is too large for least squares."""
    network = ("-e", "x' = NN(x(t - tau))", "--network", "NN: width=600")
    starts = ("--start", "b=1", "--start", "tau=0.8")
    assert run("fit", "data.csv", *network, *starts, "--out", "out") == 0
    fit = dd.load("out")
    assert type(fit) is dd.FitResult and len(fit.names) > 1500
    assert list(rows(here / "out/table.csv")[0]) == ["name", "start", "estimate"]


def test_groups_of_rows(here, capsys):
    _, header, *lines = (here / "data.csv").read_text().splitlines()
    rows_ = [f"{header},group", *(f"{line},a" for line in lines), "0,99,b", "5,99,b"]
    (here / "groups.csv").write_text("\n".join(rows_))
    said = refused(capsys, "fit", "groups.csv", "-e", TEXT)
    assert 'by `--where "group=a"`' in said
    command = ("fit", "groups.csv", "-e", TEXT, *STARTS, "--where", "group=a")
    assert run(*command, "--out", "out") == 0
    assert "Rows in which column 'group' is 'a' were read." in capsys.readouterr().err
    assert load_estimate("out").data.x.max() < 99
    assert '[where]\ngroup = "a"\n' in (here / "out" / "fit.toml").read_text()
    assert run("fit", "--config", "out/fit.toml", "--quiet") == 0
    capsys.readouterr()
    said = refused(capsys, *command[:-1], "group")
    assert "`--where` needs a column and its value" in said
    said = refused(capsys, *command, "--sheet", "A")
    assert "`--sheet` is for workbooks" in said
