"""The classic data sets: their numbers are those that two sources have."""

import inspect
import zipfile
from pathlib import Path

import numpy as np
import pytest

import ddefind as dd
from ddefind._cli.main import main
from support.command import python, refused, run

ROOT = Path(__file__).parent.parent
# Times and values as they were when the sources were compared: how many rows there are,
# the first and the last one, and the sum of each quantity.
SERIES = {
    "lynx_hare": (21, (0, 30.0, 4.0), (20, 24.7, 8.6), (715.7, 423.5)),
    "blowflies": (201, (0, 948), (400, 2627), (523_253,)),
    "influenza": (14, (0, 3, 0), (13, 4, 20), (1559, 937)),
    "nino34": (792, (0, -1.80), (65.9167, 2.32), (-125.0,)),
}


@pytest.mark.parametrize("name", SERIES)
def test_series_have_the_numbers_of_their_sources(name):
    data = getattr(dd.datasets, name)()
    rows, first, last, sums = SERIES[name]
    assert data.x.shape == (rows, len(sums))
    table = np.column_stack([data.t, data.x])
    assert np.allclose(table[0], first) and np.allclose(table[-1], last)
    assert np.allclose(np.sum(data.x, axis=0), sums)
    assert np.ptp(np.diff(data.t)) < 1.01e-4  # one value a year, month or day


def test_known_facts_of_the_series():
    pelts = dd.datasets.lynx_hare()
    years = 1900 + pelts.t[np.argmax(pelts.x, axis=0)]
    assert years.tolist() == [1903, 1904]  # the hares' peak comes first
    boys = dd.datasets.influenza()
    assert boys.t[np.argmax(boys.x[:, 0])] == 5 and boys.x[:, 0].max() == 298
    nino = dd.datasets.nino34()
    warmest = 1950 + nino.t[np.argsort(nino.x[:, 0])[-20:]]
    assert {1982, 1997, 2015} <= set(np.floor(warmest))


def test_theophylline_is_a_study_of_twelve():
    study = dd.datasets.theophylline(values=["dose", "weight"])
    assert [each.label for each in study] == [str(n) for n in range(1, 13)]
    values = np.concatenate([each.data.x[:, 0] for each in study])
    assert values.shape == (120,) and np.isclose(values.sum(), 653.65)
    times = np.concatenate([each.data.t for each in study])
    assert np.isclose(times.sum(), 778.09) and times.min() == 0.25
    known = [dict(each.values or {}) for each in study]
    assert np.isclose(sum(each["dose"] for each in known), 3785.278)
    assert np.isclose(sum(each["weight"] for each in known), 835.0)


@pytest.mark.parametrize("name", dd.datasets.NAMES)
def test_every_set_names_its_reference_and_two_sources(name):
    text = inspect.getdoc(getattr(dd.datasets, name)) or ""
    for word in ("**Reference**", "**Sources**", " agree."):
        assert word in text
    head = dd.datasets.path(name).read_text().split("\n")[:2]
    assert all(line.startswith("# ") for line in head)
    page = (ROOT / "docs" / "reference" / "datasets.md").read_text()
    assert f"dd.datasets.{name}()" in page


def test_the_public_names_are_the_data_sets():
    assert set(dir(dd.datasets)) == {*dd.datasets.NAMES, "NAMES", "path"}
    with pytest.raises(ValueError, match="Did you mean 'lynx_hare'"):
        dd.datasets.path("lynxhare")


def test_the_command_writes_what_the_function_reads(tmp_path, capsys):
    for name in dd.datasets.NAMES:
        assert run("dataset", name, "--out", tmp_path / f"{name}.csv") == 0
    again = dd.read_csv(tmp_path / "lynx_hare.csv")
    assert np.array_equal(again.x, dd.datasets.lynx_hare().x)
    capsys.readouterr()
    assert run("dataset", "influenza") == 0
    assert capsys.readouterr().out == dd.datasets.path("influenza").read_text()
    assert run("dataset") == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == list(dd.datasets.NAMES)
    assert "nino34" in refused(capsys, "dataset", "nino")


def test_the_commands_of_the_page_run(here, capsys):
    page = (ROOT / "docs" / "reference" / "datasets.md").read_text()
    commands = page.split("```sh\n")[1].split("```")[0].strip().split("\n")
    assert [run(*each.split()[1:]) for each in commands] == [0, 0]
    assert (here / "influenza.csv").exists()
    capsys.readouterr()


def test_the_listing_loads_no_heavy_library():
    code = f"import sys; from {main.__module__} import main\ntry: main(['dataset'])"
    code += "\nexcept SystemExit: print({'jax', 'numpy'} & set(sys.modules))"
    assert python("-c", code).stdout.splitlines()[-1] == "set()"


@pytest.mark.slow
def test_the_wheel_holds_the_tables(tmp_path):
    python("-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("ddefind-*.whl")
    files = zipfile.ZipFile(wheel).namelist()
    for name in dd.datasets.NAMES:
        assert f"ddefind/datasets/{name}.csv" in files
