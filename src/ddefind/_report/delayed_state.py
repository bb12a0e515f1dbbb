"""The state against what it was one delay ago, which shows how the system feeds back on
itself."""

from typing import TYPE_CHECKING

import numpy as np

from .._problem.delays import constant_delays
from .blocks import Block, Charts, Section, Text
from .chart import Chart, Series

if TYPE_CHECKING:
    from .._results.result import AbstractFit

_POINTS, _MOST_CHARTS = 1201, 6


def delayed_state(fit: "AbstractFit") -> Section | None:
    """The section on x(t) against x(t - tau); None if no delay is a number, and for
    fits whose curve is not a solution of the equation alone."""
    if fit.model is not None and not fit.model.delayed:
        return None
    if getattr(fit, "experiments", {}) or getattr(fit, "process", None) is not None:
        return None
    end = fit.data.T - fit.time_zero
    charts, names = [], fit.state_names
    for delay, tau in constant_delays(fit.problem.tau).items():
        if not 0 < tau < end:
            continue
        t = np.linspace(tau, end, _POINTS) + fit.time_zero
        now, before = np.asarray(fit.solution(t)), np.asarray(fit.solution(t - tau))
        for i, name in enumerate(names):
            if np.all(np.isfinite(now[:, i])):
                charts.append(_chart(name, delay, now[:, i], before[:, i]))
    if not charts:
        return None
    about = (
        "The fitted curve against itself one delay ago. A closed loop is a periodic "
        "oscillation, and an equilibrium is a point."
    )
    blocks: list[Block] = [Text(about), Charts(charts[:_MOST_CHARTS])]
    return Section("delayed", "The state one delay ago", blocks)


def _chart(name: str, delay: str, now: np.ndarray, before: np.ndarray) -> Chart:
    return Chart(
        title=f"{name}(t) against {name}(t - {delay})",
        x_label=f"{name}(t - {delay})",
        y_label=f"{name}(t)",
        series=[Series("fitted curve", "line", "curve", before, now)],
        is_small=True,
        is_loop=True,
    )
