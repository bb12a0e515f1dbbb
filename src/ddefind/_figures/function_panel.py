"""A learned function on its panel."""

from typing import TYPE_CHECKING

import numpy as np

from .colours import DATA, LEARNED, SERIES
from .panels import axis_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .._inference.learned_function import LearnedFunction

# A band is not shown farther away from the function than this many times the spread of
# the function.
_FAR = 0.8


def draw_function(ax: "Axes", function: "LearnedFunction", output: int) -> None:
    """Draw one output of a function along its first argument, a curve for each value of
    the second."""
    curves = [each for each in function.curves() if each.output == output]
    styles = [(LEARNED, "-")] if len(curves) == 1 else SERIES
    named, explained, heights = [], [], []
    for curve, (colour, line) in zip(curves, styles):
        inside = np.where(curve.visited, curve.value, np.nan)
        label = curve.label or "learned function"
        drawn = ax.plot(curve.u, inside, line, color=colour, lw=1.6, label=label)
        named += drawn
        heights.append(curve.value[curve.visited])
        # The last visited point is part of both lines, so that they meet.
        edge = _with_neighbours(~curve.visited)
        beyond = np.where(edge, curve.value, np.nan)
        outside = ax.plot(curve.u, beyond, "--", color=colour, lw=1.1, alpha=0.55)
        outside[0].set_label("beyond what was visited")
        if curve.low is None or curve.high is None:
            explained = outside
            continue
        ends = curve.low, curve.high
        heights += [
            _within(end[curve.visited], curve.value[curve.visited]) for end in ends
        ]
        style = {"color": colour, "lw": 0, "zorder": 1.5}
        shade = {"alpha": 0.28 if len(curves) == 1 else 0.2, **style}
        shade["label"] = "95% confidence band"
        band = ax.fill_between(curve.u, *ends, where=curve.visited, **shade)
        ax.fill_between(curve.u, *ends, where=edge, alpha=0.1, **style)
        explained = [band, *outside]
    _draw_rug(ax, function.visited[:, 0])
    values = np.concatenate(heights)
    low, high = float(values.min()), float(values.max())
    room = 0.12 * ((high - low) or abs(high) or 1.0)
    ax.set_ylim(low - room, high + room)
    ax.set_xlim(*_ends(np.concatenate([curve.u for curve in curves])))
    ax.set_xlabel(axis_label(function.arguments[0]))
    ax.set_ylabel(axis_label(title_of(function, output)))
    ax.legend(handles=[*named, *explained], frameon=False, fontsize="small")


def title_of(function: "LearnedFunction", output: int) -> str:
    """What an output of a function is called: `NN(x)`, or `F(x, y)[0]`."""
    call = f"{function.name}({', '.join(function.arguments)})"
    return call if function.network.outputs == 1 else f"{call}[{output}]"


def _draw_rug(ax: "Axes", visited: np.ndarray) -> None:
    """Draw short lines at the lower edge for the visited values."""
    transform = ax.get_xaxis_transform()
    values = np.unique(visited)
    ax.vlines(values, 0.0, 0.03, color=DATA, lw=0.6, alpha=0.6, transform=transform)


def _with_neighbours(is_in: np.ndarray) -> np.ndarray:
    """Which points are in, or beside one that is."""
    beside = np.zeros_like(is_in)
    beside[1:] |= is_in[:-1]
    beside[:-1] |= is_in[1:]
    return is_in | beside


def _within(end: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The end of a band, as far as it is not far from the function."""
    low, high = _ends(values)
    spread = (high - low) or abs(high) or 1.0
    return np.clip(end, low - _FAR * spread, high + _FAR * spread)


def _ends(values: np.ndarray) -> tuple[float, float]:
    return float(values.min()), float(values.max())
