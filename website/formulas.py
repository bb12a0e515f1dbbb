"""Formulas of the built site, as MathML, which browsers typeset themselves.

Zensical leaves LaTeX in elements of the class `arithmatex`; `latex2mathml` translates
it. So the site needs no program to typeset formulas."""

import html
import re
from functools import cache
from pathlib import Path

from latex2mathml.converter import convert

_FORMULA = re.compile(
    r'<(span|div) class="arithmatex">(?:\\\(|\\\[)(.*?)(?:\\\)|\\\])</\1>', re.DOTALL
)


def typeset_formulas(site: Path) -> None:
    """Replace LaTeX by MathML, in all pages of a site."""
    for page in site.rglob("*.html"):
        text = page.read_text()
        if "arithmatex" in text:
            page.write_text(_FORMULA.sub(_typeset, text))


def _typeset(found: re.Match[str]) -> str:
    return _mathml(html.unescape(found[2]).strip(), found[1] == "div")


@cache
def _mathml(latex: str, is_block: bool) -> str:
    """A formula as MathML.

    >>> "<mi>τ</mi>" in _mathml(r"\\tau", is_block=False).replace("&#x003C4;", "τ")
    True
    >>> "<mtable" in _mathml(r"\\begin{aligned} a &= b \\end{aligned}", is_block=True)
    True
    """
    latex = latex.replace("{aligned}", "{align*}")  # the name that latex2mathml knows
    formula = convert(latex, display="block" if is_block else "inline")
    return f'<div class="formula">{formula}</div>' if is_block else formula
