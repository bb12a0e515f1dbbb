"""The table of `docs/explanation/the-correction.md` says what the code computes."""

import pytest
from studies import delay_gradient
from studies.page_tables import read_table

from ddefind.paper import EXPERIMENTS


@pytest.fixture(scope="module")
def blocks():
    """The lines of the page's table, by block: the starts, and the estimates."""
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
