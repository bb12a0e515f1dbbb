"""The long studies: their tables on the pages, what they found, and, slowly, a part of
them again."""

import json

import numpy as np
import pytest
from studies import fit_quality, interval_coverage, mid_cycle, process_noise
from studies.networks import __main__ as networks
from studies.page_tables import read_results, read_table
from studies.search_quality import __main__ as search_quality, models

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
    shown = read_table(mid_cycle.PAGE, mid_cycle.NAME)
    assert shown == mid_cycle.table(kept(mid_cycle))


def test_mid_cycle_records_are_fitted_to_the_precision_of_a_spline_history():
    for each in kept(mid_cycle):
        assert max(each["rms"]["auto"].values()) <= 1.5


def test_the_page_of_process_noise_has_the_table_that_was_measured():
    """The intervals of multiple shooting hold, and those of least squares do not."""
    results = kept(process_noise)
    assert [r["system"] for r in results[::2]] == list(process_noise.SYSTEMS)
    shown = read_table(process_noise.PAGE, process_noise.NAME)
    assert shown == process_noise.table(results)
    rows = [row for r in results for row in r["shooting"]["parameters"].values()]
    assert 0.88 < np.mean([row["inside"] for row in rows]) < 0.98
    assert min(row["inside"] for row in rows) > 0.85
    assert max(row["width"] for row in rows) < 1.5
    plain = [r["plain"]["parameters"]["tau"]["inside"] for r in results]
    assert max(plain) < 0.7


def test_the_search_finds_the_best_fit_of_random_models():
    results = read_results(search_quality.FILE, {})["models"]
    shown = read_table(search_quality.PAGE, search_quality.NAME)
    assert shown == models.summary(results)
    for hidden, goal in ((False, 0.97), (True, 0.93)):
        found = [each["found"] for each in results if each["hidden"] == hidden]
        assert len(found) > 20 and np.mean(found) >= goal


def check_fits(model, repeats):
    """Whether fits without start values are as good as the data allow."""
    experiment = EXPERIMENTS[model]
    found = fit_quality.measure(experiment, 0.1, repeats)
    assert found["as_good"] >= 0.98
    values = repeats * experiment.exact.x.size
    assert abs(found["chi_square"] - 1) < 0.01 + 3 * (2 / values) ** 0.5
    for name, row in found["parameters"].items():
        assert row["typical"] < 1.6
        if name not in WEAK.get(model, []):
            assert row["rms"] < 1.15 + 3 / (2 * repeats) ** 0.5


def test_the_best_fit_is_found_without_start_values():
    check_fits("exponential", 25)


@pytest.mark.slow
@pytest.mark.parametrize("model", EXPERIMENTS)
def test_the_best_fit_of_every_model_is_found_without_start_values(model):
    check_fits(model, 100)


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


def test_the_page_of_networks_has_the_table_that_was_measured():
    results = networks.read(networks.FILE)
    assert read_table(networks.PAGE, networks.NAME) == networks.table(results)
    for each in results:
        assert "failed" in each or 0.7 < each["residual"] < 1.3
