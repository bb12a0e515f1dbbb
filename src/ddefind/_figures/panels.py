"""The figure and its panels, or the axes that the user gives; legends and labels."""

import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABEL_WIDTH = 26  # characters of a line of an axis label


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
    """Return whether this runs in a kernel of Jupyter."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel")


def show_once(figure: "Figure") -> None:
    """Let a notebook show a figure once.

    It shows the figures of pyplot at the end of a cell, and would show one again that
    is the value of the cell's last line. So pyplot forgets the figure when it is shown.
    """
    if _in_notebook():
        figure._ipython_display_ = lambda: _forget(figure)  # type: ignore


def _forget(figure: "Figure") -> None:
    """Let pyplot forget a figure that IPython is about to show, and raise what makes
    IPython show it in the usual way."""
    import matplotlib

    if "inline" in matplotlib.get_backend():
        close_figure(figure)
    raise NotImplementedError


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
    """Return panels of a new figure in rows of at most so many, of the given size in
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


def hide_frame(ax: "Axes") -> None:
    """Remove the upper and the right side of the frame."""
    ax.spines[["top", "right"]].set_visible(False)
