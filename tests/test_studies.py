"""The long studies: their tables on the pages, what they found, and, slowly, a part of
them again."""

import json

import pytest
from studies import (
    delay_gradient,
    fit_quality,
    interval_coverage,
    mid_cycle,
    process_noise,
)
from studies.networks import __main__ as networks
from studies.page_tables import read_table
from studies.search_quality import __main__ as search_quality, models

from ddefind.paper import EXPERIMENTS
from support.repeats import mostly_slow

DEAD = {"cheyne": ["a"], "hiv": ["A[0]", "A[2]", "omega[0]", "omega[2]"]}
WEAK = {"logistic": ["A", "omega"], "enso": ["A", "omega"], "hiv": ["A[1]", "omega[1]"]}


@pytest.mark.parametrize(
    "study, table",
    [
        (interval_coverage, interval_coverage.table),
        (fit_quality, fit_quality.tables),
        (mid_cycle, mid_cycle.table),
        (process_noise, process_noise.table),
        (search_quality, lambda results: models.summary(results["models"])),
    ],
)
def test_a_page_has_the_table_that_was_measured(study, table):
    results = json.loads(study.FILE.read_text("utf-8"))
    assert read_table(study.PAGE, study.NAME) == table(results)


def test_the_page_of_networks_has_the_table_that_was_measured():
    results = networks.read(networks.FILE)
    assert read_table(networks.PAGE, networks.NAME) == networks.table(results)


CASES = [("exponential", 25), *((model, 100) for model in EXPERIMENTS)]


@pytest.mark.parametrize("model, repeats", mostly_slow(CASES, CASES[:1]))
def test_fits_without_start_values_are_as_good_as_the_data_allow(model, repeats):
    experiment = EXPERIMENTS[model]
    found = fit_quality.measure(experiment, 0.1, repeats)
    assert found["as_good"] >= 0.98
    values = repeats * experiment.exact.x.size
    assert abs(found["chi_square"] - 1) < 0.01 + 3 * (2 / values) ** 0.5
    for name, row in found["parameters"].items():
        assert row["typical"] < 1.6
        if name not in WEAK.get(model, []):
            assert row["rms"] < 1.15 + 3 / (2 * repeats) ** 0.5


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


@pytest.fixture(scope="module")
def blocks():
    """The lines of the table of the correction, by block: starts, and estimates."""
    table = read_table(delay_gradient.PAGE, delay_gradient.NAME)
    _, starts, estimates = table.split(delay_gradient.HEADER)
    return {"start": starts, "estimate": estimates}


def test_every_model_has_a_line_in_both_blocks(blocks):
    expected = [delay_gradient.title(experiment) for experiment in EXPERIMENTS.values()]
    for block in blocks.values():
        models = [line.split()[1] for line in block.splitlines() if line[:1] == "|"]
        assert models == expected


@pytest.mark.parametrize(
    ("model", "point"), [("exponential", "start"), ("enso", "estimate")]
)
@pytest.mark.slow
def test_a_line_measured_again_is_the_line_on_the_page(blocks, model, point):
    experiment = EXPERIMENTS[model]
    title = delay_gradient.title(experiment)
    row = delay_gradient.measure(experiment, delay_gradient.points(experiment)[point])
    (line,) = (text for text in blocks[point].splitlines() if f"| {title} " in text)
    # The last column is a step error: only its size means something.
    assert line.split("|")[:-2] == delay_gradient.line(title, row).split("|")[:-2]
    assert row.others < 1e-5
    assert row.adjoint == pytest.approx(row.truth, rel=1e-5)
    assert row.discrete == pytest.approx(row.truth, rel=1e-5)
    if model == "exponential":
        assert row.truth == pytest.approx(-27.857, abs=5e-4)
        assert row.published == pytest.approx(+5.742, abs=5e-4)
