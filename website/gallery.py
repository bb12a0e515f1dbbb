"""The gallery: pictures of its pages, each drawn by the code that the page shows.

A page of `gallery/` holds one comment `<!-- picture: what it shows -->`. Its first
block of Python is run. The figure that it leaves takes the place of the comment, in a
version for a light and one for a dark ground, and what it prints is put below the
block. The overview, `gallery/index.md`, gets a card with a small picture for each of
its links."""

import contextlib
import io
import multiprocessing
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

BLOCK = re.compile(r"^```python\n(?P<body>.*?)^```\n", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"<!-- picture: (?P<shows>[^\n]*?) -->")
_CARD = re.compile(
    r"^- \[(?P<title>[^\]]+)\]\((?P<page>[\w-]+)\.md\): (?P<text>.*)$", re.M
)
_WORKERS = 2

INK = "#333333"
STYLE: dict[Any, Any] = {
    "figure.figsize": (7, 3),
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": (
        "cycler('color', ['0072b2', 'd55e00', '009e73', 'cc79a7', 'b8860b', '56b4e9'])"
    ),
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "legend.frameon": False,
    "savefig.transparent": True,
    "svg.fonttype": "none",  # the reader's own font, and small files
    "svg.hashsalt": "gallery",  # the same file each time
}
ON_DARK = {
    INK: "#d8d8d8",
    "#000000": "#ffffff",
    "#5a5a5a": "#b4b4b4",
    "#0072b2": "#56b4e9",
    "#d55e00": "#ff9248",
    "#009e73": "#35d0a5",
    "#cc79a7": "#eda6cb",
    "#b8860b": "#e5b94a",
    "#56b4e9": "#a5dbff",
}
"""The colour that each colour of the figures has on a dark ground."""


class Drawn(NamedTuple):
    """What the code of a page leaves: a picture as SVG, and what it printed."""

    svg: str
    printed: str


def write(docs: Path) -> None:
    """Put the pictures into the pages of `docs/gallery`, which are changed in place."""
    folder = docs / "gallery"
    pages = [page for page in folder.glob("*.md") if page.name != "index.md"]
    # Fits take longest: they come first, so that both workers end together.
    pages.sort(key=lambda page: ("dd.fit(" not in page.read_text(), page.name))
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(_WORKERS, mp_context=spawn) as executor:
        for page, drawn in zip(pages, executor.map(draw, pages)):
            name = page.stem
            (folder / f"{name}.svg").write_text(drawn.svg)
            (folder / f"{name}-dark.svg").write_text(on_dark(drawn.svg))
            page.write_text(with_picture(page.read_text(), name, drawn.printed))
    index = folder / "index.md"
    index.write_text(with_cards(index.read_text()))


def draw(page: Path) -> Drawn:
    """Run the first block of a page, and return its figure and what it printed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    block = BLOCK.search(page.read_text())
    if block is None:
        sys.exit(f"{page.name}: there is no block of Python.")
    printed, svg = io.StringIO(), io.StringIO()
    with matplotlib.rc_context(STYLE), contextlib.redirect_stdout(printed):
        exec(compile(block["body"], str(page), "exec"), {"__name__": page.stem})
        if not plt.get_fignums():
            sys.exit(f"{page.name}: its first block leaves no figure.")
        plt.savefig(svg, format="svg", metadata={"Date": None})
        plt.close("all")
    return Drawn(svg.getvalue(), printed.getvalue())


def on_dark(svg: str) -> str:
    """A picture in the colours for a dark ground.

    >>> on_dark('<path style="stroke: #0072b2"/>')
    '<path style="stroke: #56b4e9"/>'
    """
    colours = re.compile("|".join(ON_DARK))
    return colours.sub(lambda found: ON_DARK[found[0]], svg)


def with_picture(text: str, name: str, printed: str) -> str:
    """The text of a page with its picture, and with what its first block printed."""
    if len(PICTURE.findall(text)) != 1:
        sys.exit(f"gallery/{name}.md: there must be one <!-- picture: ... -->.")
    if printed:
        output = f"\n```\n{printed}```\n"
        text = BLOCK.sub(lambda block: block[0] + output, text, count=1)
    return PICTURE.sub(lambda found: _image(name, found["shows"]), text)


def with_cards(text: str) -> str:
    """The text of the overview, with a picture in each entry of its list."""

    def card(found: re.Match[str]) -> str:
        title, page = found["title"], found["page"]
        picture = _image(page, title)
        return f"-   **[{title}]({page}.md)**\n\n    {picture}\n\n    {found['text']}\n"

    cards = [card(found) for found in _CARD.finditer(text)]
    if not cards:
        sys.exit("gallery/index.md: there is no list of models.")
    begin = text.index("- [")
    end = [found.end() for found in _CARD.finditer(text)][-1]
    grid = '<div class="grid cards" markdown>\n\n' + "\n".join(cards) + "\n</div>"
    return text[:begin] + grid + text[end:]


def _image(name: str, shows: str) -> str:
    """A picture for each ground; the site shows the one that fits."""
    light = f"![{shows}]({name}.svg#only-light)"
    return f"{light}![{shows}]({name}-dark.svg#only-dark)"
