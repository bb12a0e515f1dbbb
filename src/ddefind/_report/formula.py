"""A typeset equation, drawn by matplotlib's mathtext as an outline that needs no
font."""

import logging
import re
from typing import NamedTuple

import numpy as np
from markupsafe import Markup, escape

_SIZE, _LEADING, _GAP = 19, 15, 8
# What mathtext calls otherwise.
_WORDS = {
    r"\le": r"\leq",
    r"\ge": r"\geq",
    r"\ne": r"\neq",
    r"\land": r"\wedge",
    r"\lor": r"\vee",
    r"\lnot": r"\neg",
}
_CASES = re.compile(
    r"\\begin\{cases\} ((?:(?!\\begin\{cases\}).)*?) & \\text\{if \} (.*?) \\\\ (.*?)"
    r" & \\text\{otherwise\} \\end\{cases\}"
)


class _Outline(NamedTuple):
    """The outline of a piece of a formula, and its extent above and below the line."""

    path: str
    width: float
    above: float
    below: float


def typeset(latex: str) -> Markup | None:
    """Draw the LaTeX of `Equation.latex`; None if mathtext cannot."""
    body = latex.removeprefix("\\begin{aligned}\n").removesuffix("\n\\end{aligned}")
    try:
        # The two sides of a line meet at its `&`.
        sides = (_simple(line).rpartition("&") for line in body.split(" \\\\\n"))
        rows = [(_outline(left), _outline(right)) for left, _, right in sides]
    except ValueError:
        return None
    margin = max(left.width for left, _ in rows)
    y, parts = 0.0, []
    for left, right in rows:
        y += max(left.above, right.above)
        parts += [_placed(left, margin - left.width, y)]
        parts += [_placed(right, margin + _GAP, y)]
        y += max(left.below, right.below) + _LEADING
    width = margin + _GAP + max(right.width for _, right in rows)
    size = f"0 0 {np.ceil(width) + 2:.0f} {np.ceil(y - _LEADING) + 4:.0f}"
    style = f"max-width:{width + 2:.0f}px"
    return Markup(
        f'<svg class="formula" viewBox="{size}" style="{style}" role="img" '
        f'aria-label="{escape(latex)}">{"".join(parts)}</svg>'
    )


def _simple(line: str) -> str:
    """Rewrite a line in the LaTeX that mathtext reads."""
    while (found := _CASES.search(line)) is not None:
        yes, condition, no = found.groups()
        text = (
            rf"\left\{{ {yes} \;\; \mathrm{{if}} \;\; {condition}, \;\; {no} \;\; "
            r"\mathrm{otherwise} \right."
        )
        line = line[: found.start()] + text + line[found.end() :]
    line = re.sub(r"\\text\{(.*?) ?\}", r"\\mathrm{\1} \\;", line)
    return re.sub(r"\\[a-z]+", lambda word: _WORDS.get(word[0], word[0]), line)


def _outline(latex: str) -> _Outline:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    from .pictures import outline

    latex = latex.strip()
    if not latex:
        return _Outline("", 0.0, 0.0, 0.0)
    if "&" in latex or "\\begin" in latex:
        raise ValueError(latex)
    # A list of fonts that is out of date would be complained of.
    log = logging.getLogger("matplotlib.font_manager")
    was_disabled, log.disabled = log.disabled, True
    try:
        fonts = FontProperties(math_fontfamily="cm")
        letters = TextPath((0, 0), f"${latex}$", size=_SIZE, prop=fonts)
    finally:
        log.disabled = was_disabled
    path = outline(letters, Affine2D().scale(1, -1))
    right, top = letters.vertices.max(axis=0)
    return _Outline(path, right, max(top, 0.0), max(-letters.vertices[:, 1].min(), 0.0))


def _placed(side: _Outline, x: float, y: float) -> str:
    if not side.path:
        return ""
    place = f"translate({x:.1f} {y + 2:.1f})"
    return f'<path transform="{place}" d="{side.path}"/>'
