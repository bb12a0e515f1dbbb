"""The study of coverage: its table on the page, and, slowly, a part of it again."""

import json
import runpy
from pathlib import Path

import pytest

from ddefind.experiments import EXPERIMENTS

DOCS = Path(__file__).parent.parent / "docs"
DEAD = {"cheyne": ["a"], "hiv": ["A[0]", "A[2]", "omega[0]", "omega[2]"]}


@pytest.fixture(scope="module")
def study():
    return runpy.run_path(str(DOCS / "make_coverage.py"))


def test_the_page_has_the_table_that_was_measured(study):
    results = json.loads((DOCS / "coverage.json").read_text())
    assert [r["model"] for r in results[::2]] == list(EXPERIMENTS)
    page = (DOCS / "uncertainty.md").read_text()
    table = page.split(study["BEGIN"])[1].split(study["END"])[0]
    assert table.strip() == study["table"](results)


@pytest.mark.slow
@pytest.mark.parametrize("model", EXPERIMENTS)
def test_intervals_cover_without_start_values(study, model):
    found = study["measure"](EXPERIMENTS[model], 0.1, 100)
    for name, row in found["parameters"].items():
        if name in DEAD.get(model, []):
            assert row["determined"] == 0
        elif row["expected"] == "room":
            assert row["inside"] >= 0.88 and row["determined"] >= 0.95
        else:
            assert row["inside"] >= 0.86
