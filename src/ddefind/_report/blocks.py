"""What a section of the report is made of."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from markupsafe import Markup, escape

from .._figures.chart import Chart


@final
@dataclass(frozen=True)
class Text:
    """A paragraph. Words between backticks are shown as code. An `is_doubt` is set off:
    it warns of something."""

    text: str
    is_doubt: bool = False
    kind: str = "text"

    @property
    def html(self) -> Markup:
        return marked(self.text)


@final
@dataclass(frozen=True)
class Table:
    """A table with a header; the columns `left` are aligned to the left."""

    rows: Sequence[Sequence[str]]
    left: tuple[int, ...] = (0,)
    caption: str = ""
    kind: str = "table"


@final
@dataclass(frozen=True)
class Matrix:
    """Correlations between the things `names`, each cell shaded by its size."""

    names: Sequence[str]
    values: np.ndarray
    kind: str = "matrix"

    def shade(self, i: int, j: int) -> str:
        """Return the strength of the colour of a cell, in percent."""
        return f"{100 * min(abs(float(self.values[i, j])), 1.0):.0f}"


@final
@dataclass(frozen=True)
class Charts:
    """Charts among which a reader can choose, by quantity and experiment."""

    charts: Sequence[Chart]
    kind: str = "charts"

    def data(self, chart: Chart) -> Markup:
        return Markup(chart.as_json())


@final
@dataclass(frozen=True)
class Code:
    """Lines to be typed or read as they are."""

    text: str
    kind: str = "code"


@final
@dataclass(frozen=True)
class Formula:
    """A typeset formula: a picture, and the same as text for those who do not see it;
    only the text where there is no picture."""

    picture: Markup | None
    text: str
    kind: str = "formula"


@final
@dataclass(frozen=True)
class Download:
    """A file that is held by the page itself."""

    name: str
    address: str
    text: str
    kind: str = "download"


Block = Text | Table | Matrix | Charts | Code | Formula | Download


@final
@dataclass(frozen=True)
class Section:
    """A part of the page with a title; `key` is its address within the page."""

    key: str
    title: str
    blocks: Sequence[Block]


def marked(text: str) -> Markup:
    """A text as HTML: whatever it holds is shown as it is, and words between backticks
    are code.

    >>> marked("`a<b>` is < 3")
    Markup('<code>a&lt;b&gt;</code> is &lt; 3')
    """
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(text))))
