"""The long studies: their tables on the pages, what they found, and, slowly, a part of
them again."""

import json
import runpy
from pathlib import Path

import pytest

from ddefind.paper import EXPERIMENTS, NOISE

DOCS = Path(__file__).parent.parent / "docs"
DEAD = {"cheyne": ["a"], "hiv": ["A[0]", "A[2]", "omega[0]", "omega[2]"]}
WEAK = {"logistic": ["A", "omega"], "enso": ["A", "omega"], "hiv": ["A[1]", "omega[1]"]}


@pytest.fixture(scope="module")
def coverage():
    return runpy.run_path(str(DOCS / "make_coverage.py"))


@pytest.fixture(scope="module")
def fits():
    return runpy.run_path(str(DOCS / "make_fit_study.py"))


def kept(name):
    return json.loads((DOCS / name).read_text())


def between(page, study):
    text = (DOCS / page).read_text()
    return text.split(study["BEGIN"])[1].split(study["END"])[0].strip()


def test_pages_have_the_tables_that_were_measured(coverage, fits):
    results = kept("coverage.json")
    assert [r["model"] for r in results[::2]] == list(EXPERIMENTS)
    assert between("uncertainty.md", coverage) == coverage["table"](results)
    results = kept("fit-study.json")
    assert [r["model"] for r in results[:: len(NOISE)]] == list(EXPERIMENTS)
    assert between("fitting.md", fits) == fits["tables"](results)


@pytest.mark.parametrize("result", kept("fit-study.json"), ids=lambda r: r["model"])
def test_fits_are_as_good_as_the_data_allow(result):
    assert 0.97 < result["chi_square"] < 1.03
    if result["noise"] == 0.1:
        assert result["as_good"] >= 0.99
        for name, row in result["parameters"].items():
            if name not in WEAK.get(result["model"], []):
                assert row["rms"] < 1.15 + 3 / (2 * result["repeats"]) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("model", EXPERIMENTS)
def test_the_best_fit_is_found_without_start_values(fits, model):
    found = fits["measure"](EXPERIMENTS[model], 0.1, 100)
    assert found["as_good"] >= 0.98
    assert all(row["typical"] < 1.6 for row in found["parameters"].values())


@pytest.mark.slow
@pytest.mark.parametrize("model", EXPERIMENTS)
def test_intervals_cover_without_start_values(coverage, model):
    found = coverage["measure"](EXPERIMENTS[model], 0.1, 100)
    for name, row in found["parameters"].items():
        if name in DEAD.get(model, []):
            assert row["determined"] == 0
        elif row["expected"] == "room":
            assert row["inside"] >= 0.88 and row["determined"] >= 0.95
        else:
            assert row["inside"] >= 0.86
