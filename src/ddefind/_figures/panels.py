"""Figures with panels, or the axes that the user gives, and charts drawn on them."""

import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .chart import Chart, Mark, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LABEL_WIDTH = 26  # characters of a line of an axis label
# The colours can be told apart by colour-blind readers.
DATA, LEARNED, START, LIMIT = "#5a5a5a", "#0072b2", "#d55e00", "#8c959f"
_COLOURS = {"data": DATA, "start": START, "limit": LIMIT}
# Colours and lines of several curves in one panel.
CURVES = ((LEARNED, "-"), (START, "-."), ("#000000", ":"))
_LINES = {"dashed": "--", "dotted": ":"}
# More dots than these are smaller, and an image within vector graphics.
_MANY_DOTS = 2000


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of this size in inches.

    If pyplot is in use, or in a notebook, it is one of pyplot's figures, so that
    `plt.show()` and the notebook show it, and `plt.savefig` and `plt.gcf` find it.
    """
    size = (width, height)
    if "matplotlib.pyplot" not in sys.modules and not _in_notebook():
        from matplotlib.figure import Figure

        return Figure(figsize=size, layout="constrained")
    from matplotlib import pyplot

    return pyplot.figure(figsize=size, layout="constrained")


def _in_notebook() -> bool:
    """Whether this runs in a kernel of Jupyter."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel")


def show_once(figure: "Figure") -> None:
    """Let a notebook show a figure once.

    It shows the figures of pyplot at the end of a cell, and would show one again that
    is the value of the cell's last line. So pyplot forgets the figure when it is shown.
    """

    def forget() -> None:
        import matplotlib

        if "inline" in matplotlib.get_backend():
            close_figure(figure)
        # This error makes IPython show the figure in the usual way.
        raise NotImplementedError

    if _in_notebook():
        figure._ipython_display_ = forget  # type: ignore


def close_figure(figure: "Figure") -> None:
    """Let pyplot, where it is in use, no longer keep a figure that was written."""
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)


def given_axes(ax: Any, *counts: int) -> list["Axes"]:
    """Return the user's axes as a list, which must have one of the lengths `counts`."""
    from matplotlib.axes import Axes

    axes = list(np.ravel(np.array(ax, dtype=object)))
    wrong = [each for each in axes if not isinstance(each, Axes)]
    if wrong:
        kind = type(wrong[0]).__name__
        raise TypeError(
            f"`ax` must be matplotlib axes, one or several, but got {kind}."
        )
    if len(axes) not in counts:
        wanted = " or ".join(map(str, dict.fromkeys(counts)))
        raise ValueError(
            f"`ax` must hold {wanted} axes for this figure, but got {len(axes)}."
        )
    return axes


def panel_grid(
    count: int, columns: int, width: float, height: float, **options: Any
) -> list["Axes"]:
    """Return panels of a new figure in rows of at most `columns`, of the given size in
    inches; `options` are those of matplotlib's `subplots`."""
    columns = min(count, columns)
    rows = -(-count // columns)
    figure = new_figure(width * columns, height * rows)
    panels = list(figure.subplots(rows, columns, squeeze=False, **options).ravel())
    for empty in panels[count:]:
        empty.set_visible(False)
    return panels[:count]


def figure_of(axes: Sequence["Axes"]) -> "Figure":
    """Return the figure that holds some axes."""
    figure = axes[0].get_figure(root=True)
    assert figure is not None
    return figure


def add_figure_legend(axes: Sequence["Axes"]) -> None:
    """Add one legend for all panels above all of them."""
    handles, labels = _entries(axes)
    place: dict[str, Any] = {"loc": "outside upper left", "ncols": len(labels)}
    figure_of(axes).legend(handles, labels, frameon=False, fontsize="small", **place)


def _entries(axes: Sequence["Axes"]) -> tuple[list[Any], list[str]]:
    """Return the lines of all panels, and what they are called, each once."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels()):
            entries.setdefault(label, handle)
    return list(entries.values()), list(entries)


def add_legend(axes: Sequence["Axes"], is_new: bool) -> None:
    """Add one legend for all panels: above the first one or, if the figure is not new
    but the user's, within it."""
    handles, labels = _entries(axes)
    if is_new:
        columns = 2 if max(map(len, labels)) > 20 and len(labels) > 3 else len(labels)
        place: dict[str, Any] = {
            "loc": "lower left",
            "bbox_to_anchor": (0.0, 1.0),
            "ncols": columns,
        }
    else:
        place = {"loc": "best"}
    axes[0].legend(handles, labels, frameon=not is_new, fontsize="small", **place)


def axis_label(text: str) -> str:
    """Return a label in lines that are not too long for a panel, in which a dollar is a
    dollar and begins no formula."""
    lines = textwrap.wrap(text.replace("$", r"\$"), _LABEL_WIDTH)
    return "\n".join(lines)


def draw(ax: "Axes", chart: Chart, curve: tuple[str, str] = CURVES[0]) -> None:
    """Draw a chart without its title; `curve` is the colour and line of its curves."""
    for series in chart.series:
        _draw_series(ax, series, _on_axis(chart, series.x), curve)
    for mark in chart.marks:
        _draw_mark(ax, mark, chart)
    _set_axes(ax, chart)


def _on_axis(chart: Chart, x: Any) -> Any:
    """Return horizontal places as matplotlib is given them."""
    if not chart.x_is_date:
        return np.asarray(x)
    return np.round(np.asarray(x) * 1e6).astype("datetime64[us]")


def _draw_series(
    ax: "Axes", series: Series, x: np.ndarray, curve: tuple[str, str]
) -> None:
    colour = _COLOURS.get(series.role, curve[0])
    if series.high is not None:
        alpha = 0.12 if series.role == "noisy" else 0.3
        style: dict[str, Any] = {"lw": 0, "alpha": alpha, "zorder": 1.5}
        style |= {"color": colour, "label": series.label}
        ax.fill_between(x, series.y, series.high, **style)
    elif series.kind in ("dots", "limits"):
        is_many = len(x) > _MANY_DOTS
        style = {"ms": 1.5 if is_many else 3.2, "mew": 0, "rasterized": is_many}
        shape = "o" if series.kind == "dots" else "v"
        style |= {"color": colour, "label": series.label, "zorder": 1.9}
        ax.plot(x, series.y, shape, **style)
    else:
        line = _LINES.get(series.kind, curve[1])
        style = {"lw": 1.1, "alpha": 0.55} if series.kind == "dashed" else {"lw": 1.6}
        ax.plot(x, series.y, line, color=colour, label=series.label, **style)


def _draw_mark(ax: "Axes", mark: Mark, chart: Chart) -> None:
    """Draw a straight line: one across the horizontal axis has its label in the legend,
    and the other one in the middle, where curves are low."""
    style: dict[str, Any] = {"lw": 1, "ls": "--", "color": _COLOURS[mark.role]}
    if mark.along == "x":
        if mark.label:
            style["label"] = mark.label
        ax.axvline(_on_axis(chart, mark.value)[()], **style)
        return
    ax.axhline(mark.value, zorder=1.8, **style)
    if mark.label:
        ax.annotate(
            mark.label,
            (0.5, mark.value),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            color=_COLOURS[mark.role],
            fontsize="small",
        )


def _set_axes(ax: "Axes", chart: Chart) -> None:
    """Set the ranges of the axes, their labels, and ticks that do not overlap."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import MaxNLocator

    if chart.x_is_date:
        dates = AutoDateLocator(minticks=3, maxticks=8)
        ax.xaxis.set_major_locator(dates)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(dates))
    elif chart.x_is_whole:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    elif chart.is_small:
        ax.xaxis.set_major_locator(MaxNLocator(nbins=4, min_n_ticks=2))
    if chart.y_is_wide:
        ax.set_yscale("symlog", linthresh=1.0)
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlim(*_on_axis(chart, chart.x_limits))
    ax.set_ylim(*chart.y_limits)
    ax.set_xlabel(axis_label(chart.x_label))
    ax.set_ylabel(axis_label(chart.y_label))
    ax.spines[["top", "right"]].set_visible(False)
