"""What a section of the report is made of."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup, escape

from .._figures.chart import Chart


class Prose(NamedTuple):
    """A paragraph, with words between backticks as code. An `is_doubt` is set off."""

    text: str
    is_doubt: bool = False
    kind: str = "text"

    @property
    def html(self) -> Markup:
        return marked(self.text)


class TableBlock(NamedTuple):
    """A table with a header; the columns `left` are aligned to the left."""

    rows: Sequence[Sequence[str]]
    left: tuple[int, ...] = (0,)
    caption: str = ""
    kind: str = "table"


class Matrix(NamedTuple):
    """Correlations between the things `names`, each cell shaded by its size."""

    names: Sequence[str]
    values: np.ndarray
    kind: str = "matrix"


class Charts(NamedTuple):
    """Charts among which a reader can choose, by quantity and experiment."""

    charts: Sequence[Chart]
    kind: str = "charts"


class Code(NamedTuple):
    """Lines to be typed or read as they are."""

    text: str
    kind: str = "code"


class Typeset(NamedTuple):
    """A typeset formula: a picture, and the same as text for all who cannot see it."""

    picture: Markup
    text: str
    kind: str = "formula"


class Download(NamedTuple):
    """A file that is held by the page itself."""

    name: str
    address: str
    text: str
    kind: str = "download"


Block = Prose | TableBlock | Matrix | Charts | Code | Typeset | Download


class Section(NamedTuple):
    """A part of the page with a title; `key` is its address within the page."""

    key: str
    title: str
    blocks: Sequence[Block]


def marked(text: str) -> Markup:
    """Return a text as HTML, shown as it is, with words between backticks as code.

    >>> marked("`a<b>` is < 3")
    Markup('<code>a&lt;b&gt;</code> is &lt; 3')
    """
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(text))))
