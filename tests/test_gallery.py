"""The gallery: every page has its parts, and its picture is drawn by its own code."""

import re
from pathlib import Path

import pytest
from website.gallery import BLOCK, PICTURE, draw, on_dark, with_cards, with_picture

FOLDER = Path(__file__).parent.parent / "docs" / "gallery"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "index.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_equation_reference_picture_and_code(page):
    text = page.read_text()
    picture = PICTURE.search(text)
    assert picture and picture["shows"]
    before = text[: picture.start()]
    assert "$$" in before and re.search(r"\((.* )?(19|20)\d\d\)", before)
    block = BLOCK.search(text)
    assert block and "dd.equation(" in block["body"]
    assert "assert " in text.split("```python")[-1]  # what the page states is checked


def test_the_overview_links_to_every_page():
    index = (FOLDER / "index.md").read_text()
    links = re.findall(r"^- \[(.+)\]\((.+)\): .+\.$", index, re.MULTILINE)
    titles = {page.name: page.read_text().split("\n")[0][2:] for page in PAGES}
    assert len(links) == 12 and {page: title for title, page in links} == titles
    cards = with_cards(index)
    assert cards.count('<div class="grid cards" markdown>') == 1
    for page in PAGES:
        assert f"({page.stem}.svg#only-light)" in cards
        assert f"**[{titles[page.name]}]({page.name})**" in cards


def test_the_code_of_a_page_draws_its_picture(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n<!-- picture: A line -->\n\n```python\nimport matplotlib.pyplot as"
        " plt\nplt.plot([1, 2])\nprint('drawn')\n```\n\n```python\n1 / 0\n```\n"
    )
    drawn = draw(page)
    assert drawn.printed == "drawn\n"
    assert "<svg" in drawn.svg and "#0072b2" in drawn.svg
    assert "#0072b2" not in on_dark(drawn.svg) and "#56b4e9" in on_dark(drawn.svg)
    assert drawn == draw(page)  # the same file each time
    text = with_picture(page.read_text(), "page", drawn.printed)
    assert "![A line](page.svg#only-light)![A line](page-dark.svg#only-dark)" in text
    assert "print('drawn')\n```\n\n```\ndrawn\n```\n\n```python\n1 / 0\n" in text


@pytest.mark.parametrize(
    "text, message",
    [("# No code\n", "no block"), ("```python\na = 1\n```\n", "no figure")],
)
def test_a_page_without_code_or_figure_is_named(tmp_path, text, message):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(SystemExit, match=f"page.md: .*{message}"):
        draw(page)
    with pytest.raises(SystemExit, match="one <!-- picture"):
        with_picture(text, "page", "")
