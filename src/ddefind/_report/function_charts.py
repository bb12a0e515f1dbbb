"""What networks have learned: each function with its band."""

from typing import TYPE_CHECKING

import numpy as np

from .._figures.function_panel import title_of
from .blocks import Charts, Section, Text
from .chart import Chart, Series, range_of, thinned

if TYPE_CHECKING:
    from .._inference.learned_function import FunctionCurve, LearnedFunction
    from .._results.result import AbstractFit

# The page shows so many functions, and so many visited values of each.
_MOST_FUNCTIONS, _MOST_DOTS = 12, 400
# What a band may add to the height of a chart, in heights of the function.
_FAR = 0.8


def function_charts(fit: "AbstractFit") -> Section | None:
    """The section on learned functions; None without networks."""
    functions = list(fit.functions.values())
    if not functions:
        return None
    about = (
        "Each chart shows a function that a network has learned, over the arguments "
        "that the fitted curve visited; the dots at the lower edge are these. Where it "
        "is dashed, the data say nothing of it."
    )
    words = [Text(about), *map(_counted, functions[:_MOST_FUNCTIONS])]
    words += [Text(f.note, is_doubt=True) for f in functions if f.note]
    if len(functions) > _MOST_FUNCTIONS:
        text = f"The first {_MOST_FUNCTIONS} of {len(functions)} functions are shown."
        words.append(Text(text))
    charts = [c for f in functions[:_MOST_FUNCTIONS] for c in _charts(f, fit)]
    return Section("functions", "What was learned", [*words, Charts(charts)])


def _counted(function: "LearnedFunction") -> Text:
    """How many of its weights the data determine."""
    count = f"{function.weight_count} weights"
    if function.determined is None:
        return Text(f"`{function.name}` has {count}.")
    return Text(
        f"The data determine {function.determined:.0f} of the {count} of "
        f"`{function.name}`; the prior that keeps it smooth determines the others."
    )


def _charts(function: "LearnedFunction", fit: "AbstractFit") -> list[Chart]:
    """A chart of each curve, those of one output with the same height."""
    level = getattr(fit, "level", 0.95)
    curves = function.curves(level)
    found = []
    for output in range(function.network.outputs):
        own = [curve for curve in curves if curve.output == output]
        heights = range_of([part for curve in own for part in _shown(curve)], 0.1)
        for curve in own:
            chart = _chart(function, curve, heights, len(own) > 1, level)
            found.append(chart)
    return found


def _chart(
    function: "LearnedFunction",
    curve: "FunctionCurve",
    heights: tuple[float, float],
    is_small: bool,
    level: float,
) -> Chart:
    name, u = title_of(function, curve.output), curve.u
    inside = curve.visited
    beyond = ~inside
    # The last visited point is part of both lines, so that they meet.
    beyond[1:] |= ~inside[:-1]
    beyond[:-1] |= ~inside[1:]
    series = []
    if curve.low is not None and curve.high is not None:
        ends = curve.low, curve.high
        label = f"{100 * level:g}% confidence band"
        outside = [np.where(beyond, end, np.nan) for end in ends]
        ends = [np.where(inside, end, np.nan) for end in ends]
        series.append(Series(label, "band", "band", u, *ends))
        series.append(Series("band beyond", "band", "noisy", u, *outside))
    lines = np.where(inside, curve.value, np.nan), np.where(beyond, curve.value, np.nan)
    series.append(Series("learned function", "line", "curve", u, lines[0]))
    series.append(Series("beyond", "dashed", "curve", u, lines[1]))
    visited = np.unique(function.visited[:, 0])
    visited = visited[(visited >= u[0]) & (visited <= u[-1])]
    visited = visited[thinned(len(visited), _MOST_DOTS)]
    floor = np.full(len(visited), heights[0] + 0.02 * (heights[1] - heights[0]))
    series.append(Series("visited", "dots", "data", visited, floor))
    return Chart(
        title=f"{name}, {curve.label}" if curve.label else name,
        x_label=function.arguments[0],
        y_label=name,
        series=series,
        y_range=heights,
        is_small=is_small,
    )


def _shown(curve: "FunctionCurve") -> list[np.ndarray]:
    """What a chart shows of a curve and its band where it was visited."""
    values = curve.value[curve.visited]
    ends = [end for end in (curve.low, curve.high) if end is not None]
    low, high = float(values.min()), float(values.max())
    far = _FAR * ((high - low) or abs(high) or 1.0)
    return [values, *(np.clip(e[curve.visited], low - far, high + far) for e in ends)]
