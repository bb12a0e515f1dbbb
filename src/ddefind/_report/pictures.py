"""Charts as pictures (SVG), for paper and for readers without JavaScript; and a typeset
equation, drawn by matplotlib's mathtext as an outline that needs no font.

Matplotlib draws charts as it draws figures. A picture says only what each part is, such
as `curve` or `data`, so that the style of the page colours it, in light and in dark."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, NamedTuple, final

import matplotlib.style
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import GraphicsContextBase, RendererBase
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.ticker import ScalarFormatter
from matplotlib.transforms import Affine2D

from .._figures.chart import Chart
from .._figures.panels import DATA, LEARNED, LIMIT, START, draw, figure_of

_WIDTH, _HEIGHT, _SMALL_WIDTH, _SMALL_HEIGHT = 760, 212, 330, 182
_LEFT, _RIGHT, _BOTTOM = 62, 12, 40
_LINE_OF_LEGEND = 18
_FONT, _WIDTH_OF_LETTER = 12, 6.9
_MOST_LETTERS = 34
_GRID = "#d8dee4"
# The page colours what has these colours.
_NAMES = {DATA: "data", LEARNED: "curve", START: "start", LIMIT: "limit", _GRID: "grid"}
_STYLE: dict[Any, Any] = {
    "font.size": _FONT,
    "text.parse_math": False,
    "legend.fontsize": _FONT,
    "axes.edgecolor": LIMIT,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.spines.left": False,
    "grid.color": _GRID,
    "grid.linewidth": 0.7,
    "xtick.color": LIMIT,
    "ytick.left": False,
}
_LETTERS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C"}


@contextmanager
def drawing() -> Iterator[Callable[[Chart], Markup]]:
    """Yield the function that draws a chart as a picture, for a `with` statement.

    Charts of one kind are drawn on the same axes, one after the other, since making the
    axes and their ticks takes matplotlib most of its time."""
    axes: dict[tuple[bool, ...], Axes] = {}

    def draw_on(chart: Chart) -> Markup:
        kind = (chart.is_small, chart.x_is_date, chart.x_is_whole, chart.y_is_wide)
        if kind not in axes:
            axes[kind] = Figure(dpi=72, frameon=False).add_axes((0, 0, 1, 1))
            axes[kind].patch.set_visible(False)
        return Markup(_picture(chart, axes[kind]))

    with matplotlib.style.context(["default", _STYLE]):
        yield draw_on


def _picture(chart: Chart, ax: Axes) -> str:
    """Return the picture of a chart, drawn on axes that may have another one."""
    for artist in (*ax.lines, *ax.collections, *ax.texts):
        artist.remove()
    width = _SMALL_WIDTH if chart.is_small else _WIDTH
    inner = _SMALL_HEIGHT if chart.is_small else _HEIGHT
    columns, rows = _legend_shape(chart, width - _LEFT)
    height = inner + _BOTTOM + 8 + _LINE_OF_LEGEND * rows
    draw(ax, chart)
    ax.set_xlabel(chart.x_label)
    label = chart.y_label
    is_long = len(label) > _MOST_LETTERS
    ax.set_ylabel(f"{label[: _MOST_LETTERS - 1]}…" if is_long else label)
    for axis in (ax.xaxis, ax.yaxis):
        if isinstance(axis.get_major_formatter(), ScalarFormatter):
            axis.set_major_formatter(_full_numbers(axis))
    values = ax.yaxis.get_major_formatter().format_ticks(list(ax.get_yticks()))
    left = max(_LEFT, _WIDTH_OF_LETTER * max(map(len, values)) + 28)
    across = width - left - _RIGHT
    ax.set_position((left / width, _BOTTOM / height, across / width, inner / height))
    ax.xaxis.set_label_coords(0.5, -22 / inner)
    ax.yaxis.set_label_coords((16 - left) / across, 0.5)
    if rows:
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
        place |= {"ncols": columns, "borderpad": 0, "borderaxespad": 0.4}
        place |= {"columnspacing": 1.2, "handlelength": 1.5, "labelspacing": 0.35}
        ax.legend(frameon=False, **place)
    figure, renderer = figure_of([ax]), _Renderer(width, height)
    figure.set_size_inches(width / 72, height / 72)
    figure.draw(renderer)
    if (legend := ax.get_legend()) is not None:
        legend.remove()
    name = escape(f"{chart.title}: {chart.y_label} against {chart.x_label}")
    return (
        f'<svg class="picture" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{name}">{renderer.content()}</svg>'
    )


def _full_numbers(axis: Axis) -> Any:
    """Return a formatter that writes numbers in full, and zero as zero."""

    def text(value: float, _: int | None) -> str:
        span = np.ptp(axis.get_view_interval())
        rounded = 0.0 if abs(value) < 1e-9 * span else value
        return f"{rounded:.10g}".replace("-", "\N{MINUS SIGN}")

    return text


def _legend_shape(chart: Chart, room: float) -> tuple[int, int]:
    """Return the numbers of columns and rows of the legend; none for a single curve."""
    labels = [each.label for each in chart.series]
    labels += [mark.label for mark in chart.marks if mark.along == "x" and mark.label]
    if len(labels) < 2:
        return 0, 0
    widths = [44 + _WIDTH_OF_LETTER * len(label) for label in labels]
    for columns in range(len(labels), 1, -1):
        if sum(map(max, np.array_split(widths, columns))) <= room:
            return columns, -(-len(labels) // columns)
    return 1, len(labels)


def outline(path: Path, transform: Any, clip: Any = None) -> str:
    """Write a transformed path as SVG does, in tenths of a unit."""
    cleaned: Any = path.cleaned(transform, True, clip, simplify=None, curves=True)
    parts, last = [], ""
    for (x, y), code in zip(_tenths(cleaned.vertices), cleaned.codes):
        if code == Path.STOP:
            break
        letter = _LETTERS.get(code, "Z")
        if letter == "Z":
            parts.append(letter)
        else:
            parts.append(f"{' ' if letter == last else letter}{x:g} {y:g}")
        last = letter
    return "".join(parts)


def _tenths(places: np.ndarray) -> list[list[float]]:
    """Round places to tenths, and cut huge ones, which browsers do not read."""
    return np.clip(np.round(places, 1), -9999, 9999).tolist()


def _short(number: float) -> str:
    return f"{round(number, 1):g}"


@final
class _Renderer(RendererBase):
    """A renderer that keeps the paths and texts which matplotlib draws as SVG.

    Paths that look alike are one element. Texts are measured roughly, since the browser
    chooses the font."""

    def __init__(self, width: float, height: float):
        super().__init__()
        self._size = width, height
        self._upside_down = Affine2D().scale(1, -1).translate(0, height)
        self._texts: list[str] = []
        # Paths by their clipping rectangle, and by their attributes.
        self._paths: dict[str, dict[str, str]] = {}

    def content(self) -> str:
        """Return all elements; those that are clipped stand in inner pictures."""
        parts = []
        for clip, paths in sorted(self._paths.items(), reverse=True):
            drawn = "".join(f'<path {kind} d="{d}"/>' for kind, d in paths.items())
            parts.append(f"<svg {clip}>{drawn}</svg>" if clip else drawn)
        return "".join([*parts, *self._texts])

    def get_canvas_width_height(self) -> tuple[float, float]:
        return self._size

    def get_text_width_height_descent(
        self, s: str, prop: Any, ismath: Any
    ) -> tuple[float, float, float]:
        size = prop.get_size_in_points()
        return _WIDTH_OF_LETTER / _FONT * size * len(s), 0.95 * size, 0.22 * size

    def draw_path(
        self,
        gc: GraphicsContextBase,
        path: Path,
        transform: Any,
        rgbFace: Any = None,  # noqa: N803
    ) -> None:
        clip = (-_WIDTH, -_WIDTH, 2 * _WIDTH, 2 * _WIDTH) if rgbFace is None else None
        path_text = outline(path, transform + self._upside_down, clip)
        self._add(gc, path_text, rgbFace)

    def draw_markers(
        self,
        gc: GraphicsContextBase,
        marker_path: Path,
        marker_trans: Any,
        path: Path,
        trans: Any,
        rgbFace: Any = None,  # noqa: N803
    ) -> None:
        codes: Any = marker_path.codes
        is_round = codes is not None and Path.CURVE4 in codes
        if not is_round and codes is not None:
            super().draw_markers(gc, marker_path, marker_trans, path, trans, rgbFace)
            return
        places = (trans + self._upside_down).transform(path.vertices)
        places = places[np.all(np.isfinite(places), axis=1)]
        corners = marker_trans.transform(marker_path.vertices) * (1, -1)
        if is_round:
            # Lines of no length with round ends.
            drawn, width = "h0", np.ptp(corners[:, 0])
        else:
            # The marks of ticks.
            places, width = places + corners[0], None
            drawn = f"l{' '.join(map(_short, corners[1] - corners[0]))}"
        marks = "".join(f"M{x:g} {y:g}{drawn}" for x, y in _tenths(places))
        self._add(gc, marks, rgbFace, width)

    def draw_text(
        self,
        gc: GraphicsContextBase,
        x: float,
        y: float,
        s: str,
        prop: Any,
        angle: float,
        ismath: Any = False,
        mtext: Any = None,
    ) -> None:
        anchor = ""
        if mtext is not None:
            # Where the text is held, so that it stays there in a font of other widths.
            place = mtext.get_transform().transform(mtext.get_unitless_position())
            x, y = (x, self._size[1] - place[1]) if angle else (place[0], y)
            kind = {"center": "middle", "right": "end"}.get(mtext.get_ha())
            anchor = f' text-anchor="{kind}"' if kind else ""
        place = f'x="{_short(x)}" y="{_short(y)}"'
        size = prop.get_size_in_points()
        more = "" if size == _FONT else f' font-size="{_short(size)}"'
        if angle:
            more += f' transform="rotate({-angle:g} {_short(x)} {_short(y)})"'
        self._texts.append(f"<text {place}{anchor}{more}>{escape(s)}</text>")

    def _add(
        self, gc: GraphicsContextBase, path: str, face: Any, dot: float | None = None
    ) -> None:
        """Add a line, dots of the size `dot`, or an area of the colour `face`."""
        width = dot or gc.get_linewidth()
        red, green, blue, alpha = to_rgba(gc.get_rgb() if width else face)
        name = _NAMES.get(to_hex((red, green, blue)), "limit")
        kind = f'class="{"dots " if dot else "" if width else "fill "}{name}"'
        if alpha != 1:
            kind += f' opacity="{alpha:g}"'
        if width:
            kind += f' stroke-width="{_short(width)}"'
        dashes: Any = gc.get_dashes()[1]
        if dashes is not None:
            kind += f' stroke-dasharray="{" ".join(map(_short, dashes))}"'
        box, clip = gc.get_clip_rectangle(), ""
        if box is not None:
            top = self._size[1] - box.y1
            x, y, w, h = map(_short, (box.x0, top, box.width, box.height))
            clip = f'x="{x}" y="{y}" width="{w}" height="{h}" '
            clip += f'viewBox="{x} {y} {w} {h}"'
        paths = self._paths.setdefault(clip, {})
        paths[kind] = paths.get(kind, "") + path


# A typeset equation

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
