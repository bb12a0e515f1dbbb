"""Tutorials run, and every number in their text is one that their cells print.

A number is looked for where it has a decimal point, or stands alone in backticks or in
bold. It may also be a number of the code, such as a true value."""

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from website import notebooks

from support.command import run

FOLDER = Path(__file__).parent.parent / "docs" / "tutorials"
PATHS = sorted(FOLDER.glob("*.ipynb"))
LARGEST_PICTURE = 60_000

NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")
# Parts of a text without numbers to be looked for: links, formulas, blocks and code.
OTHER = re.compile(r"```.*?```|\]\([^)]*\)|\$\$.*?\$\$|\$[^$]+\$", re.DOTALL)
CODE = re.compile(r"`([^`]*)`")


def claimed(text: str) -> list[str]:
    """The numbers in a text that cells must print."""
    text = OTHER.sub(" ", text)
    marked = [*CODE.findall(text), *re.findall(r"\*\*([^*]+)\*\*", text)]
    plain = CODE.sub(" ", text)
    decimals = [each for each in NUMBER.findall(plain) if "." in each]
    return decimals + [each for each in marked if NUMBER.fullmatch(each)]


def is_among(claim: str, numbers: list[str]) -> bool:
    """Whether one of the numbers is the claim, rounded as it is written."""
    places = len(claim.partition(".")[2])
    value = float(claim.replace(",", ""))
    found = (float(each.replace(",", "")) for each in numbers)
    return any(round(each, places) == value for each in found)


def without_source(notebook: Any) -> list[str]:
    """The claims of a notebook that neither its outputs nor its code have."""
    printed = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            printed.append(cell.source)
            for output in cell.outputs:
                printed.append(output.get("text", ""))
                printed.append(output.get("data", {}).get("text/plain", ""))
    numbers = NUMBER.findall(" ".join(printed))
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    return [
        claim
        for text in texts
        for claim in claimed(text)
        if not is_among(claim, numbers)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_tutorial_runs_and_its_text_is_true(path):
    executed = notebooks.execute(path)
    assert without_source(executed) == []
    streams = [o for c in executed.cells for o in c.get("outputs", ())]
    assert not [o.text for o in streams if o.get("name") == "stderr"]
    files = notebooks.page(executed, path.stem)
    pictures = {name: len(content) for name, content in files.items() if "png" in name}
    assert len(pictures) >= 3 and max(pictures.values()) < LARGEST_PICTURE


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs_and_described(path):
    notebook: Any = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    first = notebook.cells[0].source
    assert first.startswith("# ") and "**Time**" in first and "**You need**" in first
    assert "## Exercises" in notebook.cells[-1].source
    assert "**Next**" in notebook.cells[-1].source
    for number, cell in enumerate(notebook.cells, start=1):
        assert cell.id == f"cell-{number}"
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None
            draws = re.search(r"plot|show\(", cell.source.splitlines()[-1])
            assert not draws or cell.metadata.get("alt"), cell.source
    # As nbformat writes it, so that tools leave it alone.
    assert path.read_text() == nbformat.writes(notebook) + "\n"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_links_of_tutorials_lead_to_files(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            for target in re.findall(r"\]\(([^)#\s]+)", cell.source):
                assert (path.parent / target).is_file(), target


@pytest.mark.slow
def test_the_commands_of_the_first_tutorial_run(tmp_path, monkeypatch, capsys):
    cells = nbformat.read(FOLDER / "population.ipynb", as_version=4).cells
    makes_file = next(cell.source for cell in cells if "flies.csv" in cell.source)
    block = next(cell.source for cell in cells if "```sh" in cell.source)
    block = block.split("```sh\n")[1].split("```")[0].replace("\\\n", " ")
    monkeypatch.chdir(tmp_path)
    exec(makes_file, {})
    lines = [shlex.split(line) for line in block.splitlines()]
    assert [line[1] for line in lines] == ["fit", "show", "predict", "profile"]
    for _, *arguments in lines:
        assert run(*arguments) == 0
    assert "with 95% confidence between 14.770 and 15.050." in capsys.readouterr().out
    assert (tmp_path / "flies" / "report.html").is_file()


def test_stale_numbers_are_found():
    code = nbformat.v4.new_code_cell("a = 2.5")
    code.outputs = [
        nbformat.v4.new_output("stream", text="tau  14.923  [14.770, 15.050]  1263\n")
    ]
    text = nbformat.v4.new_markdown_cell(
        "It is `14.92`, in 95% of cases above **14.770**, and `1263` in all. "
        "[Page](x-1.5.md), $0.7$ and `b[0.5]` are no claims, nor is 3. A stale one is "
        "14.93; so is **1262**."
    )
    notebook = nbformat.v4.new_notebook(cells=[code, text])
    assert without_source(notebook) == ["14.93", "1262"]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The folder of a working copy with a small notebook."""
    cells = [
        nbformat.v4.new_markdown_cell("# Title\n\nSee [another](other.ipynb#part)."),
        nbformat.v4.new_code_cell("import sys\nprint(sys.executable)\nprint(2)"),
        nbformat.v4.new_code_cell("print('word ' * 30)\nprint('cell  ' * 30, 'end')"),
        nbformat.v4.new_code_cell("assert True", metadata={"tags": ["check"]}),
        nbformat.v4.new_code_cell(
            "import matplotlib.pyplot as plt\nplt.plot([1, 2]);",
            metadata={"alt": "Nothing."},
        ),
    ]
    docs = tmp_path_factory.mktemp("docs")
    (docs / "tutorials").mkdir()
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbformat.write(notebook, docs / "tutorials" / "small.ipynb")
    notebooks.write(docs)
    return docs / "tutorials"


def test_a_notebook_becomes_a_page_with_pictures(small):
    page = (small / "small.md").read_text()
    assert "[another](other.md#part)" in page
    assert f"``` {{ .text .output }}\n{sys.executable}\n2\n```" in page
    # Long sentences are wrapped, long rows of a table are not.
    assert f"{'word ' * 16}word\nword" in page and f"{'cell  ' * 30}" in page
    assert "![Nothing.](small-1.png)" in page and "assert True" not in page
    assert (small / "small-1.png").read_bytes().startswith(b"\x89PNG")
    assert "(small.ipynb)" in page
    copy = nbformat.read(small / "small.ipynb", as_version=4)
    assert len(copy.cells) == 4 and copy.cells[1].outputs


def test_an_error_names_the_notebook_and_the_cell(tmp_path):
    cells = [nbformat.v4.new_markdown_cell("# A"), nbformat.v4.new_code_cell("1 / 0")]
    path = tmp_path / "broken.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    with pytest.raises(notebooks.NotebookError) as caught:
        notebooks.execute(path)
    said = str(caught.value)
    assert said.startswith("broken.ipynb: cell 2 of 2 failed")
    assert "1 / 0" in said and "ZeroDivisionError" in said and "\x1b" not in said
