"""The sections on the fitted equation: its networks, delayed state and equilibria."""

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from .._figures.chart import Chart, Series, function_charts
from .._problem.delays import constant_delays
from .blocks import Block, Charts, Prose, Section, TableBlock

if TYPE_CHECKING:
    from .._inference.learned_function import LearnedFunction
    from .._results.estimate import Estimate
    from .._results.result import AbstractFit


_MOST_FUNCTIONS = 12
# The number of points of a curve against its delayed state, and of such curves.
_POINTS, _MOST_LOOPS = 1201, 6


def learned_functions(fit: "AbstractFit") -> Section | None:
    """Return the section on learned functions; None without networks."""
    functions = list(fit.functions.values())
    if not functions:
        return None
    about = (
        "Each chart shows a function that a network has learned, over the arguments "
        "that the fitted curve visited; the dots at the lower edge are these. Where it "
        "is dashed, the data say nothing about it."
    )
    words = [Prose(about), *map(_weights, functions[:_MOST_FUNCTIONS])]
    words += [Prose(f.note, is_doubt=True) for f in functions if f.note]
    if len(functions) > _MOST_FUNCTIONS:
        text = f"The first {_MOST_FUNCTIONS} of {len(functions)} functions are shown."
        words.append(Prose(text))
    level = getattr(fit, "level", 0.95)
    outputs = (function_charts(f, level) for f in functions[:_MOST_FUNCTIONS])
    charts = Charts([chart for charts in chain(*outputs) for chart in charts])
    return Section("functions", "Learned functions", [*words, charts])


def _weights(function: "LearnedFunction") -> Prose:
    """Say how many of its weights the data determine."""
    count = f"{function.weight_count} weights"
    if function.determined is None:
        return Prose(f"`{function.name}` has {count}.")
    return Prose(
        f"The data determine {function.determined:.0f} of the {count} of "
        f"`{function.name}`; the prior that keeps it smooth determines the others."
    )


def delayed_state(fit: "AbstractFit") -> Section | None:
    """Return the section on x(t) against x(t - tau); None if no delay is a number, and
    for fits whose curve is not a solution of the equation alone."""
    if fit.model is not None and not fit.model.delayed:
        return None
    if getattr(fit, "experiments", {}):
        return None
    end = fit.data.T - fit.time_zero
    charts, names = [], fit.state_names
    for delay, tau in constant_delays(fit.problem.tau).items():
        if not 0 < tau < end:
            continue
        t = np.linspace(tau, end, _POINTS) + fit.time_zero
        for solution in fit.system.solutions(fit.solution):
            now, before = np.asarray(solution(t)), np.asarray(solution(t - tau))
            for i, name in enumerate(names):
                if np.all(np.isfinite(now[:, i])):
                    charts.append(_loop(name, delay, now[:, i], before[:, i]))
    if not charts:
        return None
    about = (
        "The fitted curve against its delayed state. A closed loop is a periodic "
        "oscillation, and an equilibrium is a point."
    )
    blocks: list[Block] = [Prose(about), Charts(charts[:_MOST_LOOPS])]
    return Section("delayed", "The delayed state", blocks)


def _loop(name: str, delay: str, now: np.ndarray, before: np.ndarray) -> Chart:
    return Chart(
        title=f"{name}(t) against {name}(t - {delay})",
        x_label=f"{name}(t - {delay})",
        y_label=f"{name}(t)",
        series=[Series("fitted curve", "line", "curve", before, now)],
        is_small=True,
        is_loop=True,
    )


def stability(fit: "Estimate") -> Section:
    """Return the section on stability, or why nothing can be said about it."""
    view = next(iter(fit.experiments.values()), fit)
    about = "The equilibria of the fitted equation, and how small disturbances develop."
    blocks: list[Block] = [Prose(about)]
    if fit.experiments:
        label = next(iter(fit.experiments))
        blocks.append(Prose(f"These are the equilibria of the experiment `{label}`."))
    try:
        found = view.stability()
    except ValueError as error:
        blocks.append(Prose(str(error)))
    else:
        if found.equilibria:
            table = found.cells()
            blocks.append(TableBlock([table.header, *table.rows], tuple(table.left)))
        blocks += map(Prose, found.sentences())
    return Section("stability", "Stability", blocks)
