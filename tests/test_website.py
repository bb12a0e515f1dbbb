"""The documentation site: its reference is complete, and its checks find mistakes."""

import inspect
import re
from pathlib import Path

import pytest
from website.api import entry, names_on
from website.check_links import broken_links, far_pages
from website.formulas import typeset_formulas
from website.gallery import BLOCK, PICTURE, draw, on_dark, with_cards, with_picture
from website.working_copy import make_working_copy, place_in_site

import ddefind as dd

ROOT = Path(__file__).parents[1]
API = sorted((ROOT / "docs" / "reference" / "api").glob("*.md"))


def is_first_name(name, thing):
    return inspect.isclass(thing) and thing.__name__ != name


def public_names():
    """All public functions and classes, by the names that pages use."""
    for name in dir(dd):
        thing = getattr(dd, name)
        if name.startswith("_") or is_first_name(name, thing):
            continue
        if not inspect.ismodule(thing):
            yield name
            continue
        for inner in getattr(thing, "__all__", vars(thing)):
            value = getattr(thing, inner)
            is_ours = getattr(value, "__module__", "").startswith(thing.__name__)
            is_tool = inner.startswith("_") or is_first_name(inner, value)
            is_tool |= name == "plots" and inner[:5] != "plot_"
            if callable(value) and is_ours and not is_tool:
                yield f"{name}.{inner}"


def test_the_reference_has_every_public_name_once():
    described = [name for page in API for name in names_on(page)]
    assert sorted(described) == sorted(public_names())


@pytest.mark.parametrize("page", API, ids=lambda page: page.stem)
def test_entries_have_a_description(page):
    for name in names_on(page):
        heading, *parts = entry(name).split("\n\n")
        assert heading == f"## `dd.{name}` {{ #{name} }}"
        assert [part for part in parts if not part.startswith("```")], name


def test_every_page_is_in_the_navigation():
    """So that it is at most two clicks away."""
    navigation = (ROOT / "mkdocs.yml").read_text().split("\nnav:")[1]
    for page in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]:
        place = place_in_site(page.relative_to(ROOT).as_posix())
        assert f" {place}\n" in navigation + "\n", place


def test_the_working_copy_has_links_that_hold_in_a_site(tmp_path):
    make_working_copy(ROOT, tmp_path / "docs")
    page = (tmp_path / "docs" / "how-to" / "pytorch.md").read_text()
    assert "](../files/examples/torch_fit.py)" in page
    assert (tmp_path / "docs" / "files" / "examples" / "torch_fit.py").is_file()
    changes = (tmp_path / "docs" / "project" / "changes.md").read_text()
    assert "](../how-to/experiments.md)" in changes


def test_mistakes_in_links_are_found(tmp_path):
    (tmp_path / "index.html").write_text(
        '<h1 id="top">A</h1><a href="b.html#no">b</a><a href="no.html">c</a>'
        '<img src="https://elsewhere.org/a.png"><a href="https://elsewhere.org">d</a>'
    )
    (tmp_path / "b.html").write_text('<a href="c.html">c</a><a href="#top">c</a>')
    (tmp_path / "c.html").write_text('<a href="d.html">d</a>')
    (tmp_path / "d.html").write_text('<a href="index.html#top">a</a>')
    assert broken_links(tmp_path) == [
        "b.html: there is no anchor #top",
        "index.html: there is no anchor b.html#no",
        "index.html: there is no no.html",
        "index.html: https://elsewhere.org/a.png is fetched from elsewhere",
    ]
    assert far_pages(tmp_path) == ["d.html"]


def test_formulas_become_mathml(tmp_path):
    page = tmp_path / "index.html"
    page.write_text(
        r'<span class="arithmatex">\(x &lt; \tau\)</span>'
        '\n<div class="arithmatex">\\[\n\\frac{1}{2}\n\\]</div>'
    )
    typeset_formulas(tmp_path)
    text = page.read_text()
    assert text.count("<math") == 2 and "<mfrac>" in text
    assert "arithmatex" not in text and "\\tau" not in text


# The gallery: every page has its parts, and its picture is drawn by its own code.

FOLDER = ROOT / "docs" / "gallery"
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
