"""The long studies: their tables on the pages, what they found, and, slowly, a part of
them again."""

import json

import pytest
from studies import fit_quality, interval_coverage
from studies.page_tables import read_table

from ddefind.paper import EXPERIMENTS, NOISE

DEAD = {"cheyne": ["a"], "hiv": ["A[0]", "A[2]", "omega[0]", "omega[2]"]}
WEAK = {"logistic": ["A", "omega"], "enso": ["A", "omega"], "hiv": ["A[1]", "omega[1]"]}


def kept(study):
    return json.loads(study.FILE.read_text("utf-8"))


def test_pages_have_the_tables_that_were_measured():
    results = kept(interval_coverage)
    assert [r["model"] for r in results[::2]] == list(EXPERIMENTS)
    shown = read_table(interval_coverage.PAGE, interval_coverage.NAME)
    assert shown == interval_coverage.table(results)
    results = kept(fit_quality)
    assert [r["model"] for r in results[:: len(NOISE)]] == list(EXPERIMENTS)
    shown = read_table(fit_quality.PAGE, fit_quality.NAME)
    assert shown == fit_quality.tables(results)


@pytest.mark.parametrize("result", kept(fit_quality), ids=lambda r: r["model"])
def test_fits_are_as_good_as_the_data_allow(result):
    assert 0.97 < result["chi_square"] < 1.03
    if result["noise"] == 0.1:
        assert result["as_good"] >= 0.99
        for name, row in result["parameters"].items():
            if name not in WEAK.get(result["model"], []):
                assert row["rms"] < 1.15 + 3 / (2 * result["repeats"]) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("model", EXPERIMENTS)
def test_the_best_fit_is_found_without_start_values(model):
    found = fit_quality.measure(EXPERIMENTS[model], 0.1, 100)
    assert found["as_good"] >= 0.98
    assert all(row["typical"] < 1.6 for row in found["parameters"].values())


@pytest.mark.slow
@pytest.mark.parametrize("model", EXPERIMENTS)
def test_intervals_cover_without_start_values(model):
    found = interval_coverage.measure(EXPERIMENTS[model], 0.1, 100)
    for name, row in found["parameters"].items():
        if name in DEAD.get(model, []):
            assert row["determined"] == 0
        elif row["expected"] == "room":
            assert row["inside"] >= 0.88 and row["determined"] >= 0.95
        else:
            assert row["inside"] >= 0.86
