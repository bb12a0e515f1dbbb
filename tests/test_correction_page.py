"""The table of `docs/the-correction.md` says what the code computes."""

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "the-correction.md").read_text()


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(DOCS / "make_correction.py"))


@pytest.fixture(scope="module")
def blocks(script):
    """The lines of the page's table, by block: the starts, and the estimates."""
    table = PAGE.split(script["BEGIN"])[1].split(script["END"])[0]
    _, starts, estimates = table.split(script["HEADER"])
    return {"start": starts, "estimate": estimates}


def test_every_model_has_a_line_in_both_blocks(script, blocks):
    for block in blocks.values():
        models = [line.split()[1] for line in block.splitlines() if line[:1] == "|"]
        assert models == list(script["EXPERIMENTS"])


@pytest.mark.parametrize(
    ("model", "point"), [("Exponential", "start"), ("ENSO", "estimate")]
)
def test_a_line_measured_again_is_the_line_on_the_page(script, blocks, model, point):
    experiment = script["EXPERIMENTS"][model]
    row = script["measure"](experiment, getattr(experiment, point))
    (line,) = (text for text in blocks[point].splitlines() if f"| {model} " in text)
    # The last column is a step error: only its size means something.
    assert line.split("|")[:-2] == script["line"](model, row).split("|")[:-2]
    assert row.others < 1e-5
    assert row.adjoint == pytest.approx(row.truth, rel=1e-5)
    assert row.discrete == pytest.approx(row.truth, rel=1e-5)
    if model == "Exponential":
        assert row.truth == pytest.approx(-27.857, abs=5e-4)
        assert row.published == pytest.approx(+5.742, abs=5e-4)
