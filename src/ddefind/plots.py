"""Figures, with matplotlib. Colours are safe for colour-blind readers, and lines differ
in style as well, so that they can be told apart in grey."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ._data import Data
from ._problem import Problem
from ._solve import Solution, solve

if TYPE_CHECKING:
    from ._result import FitResult

DATA, START, LEARNED, TRUE = "#7a7a7a", "#d55e00", "#0072b2", "#000000"


def plot_fit(fit: "FitResult") -> Any:
    """Data, start and learned trajectory of each quantity, and the loss."""
    from matplotlib.figure import Figure

    k = len(fit.data.names)
    figure = Figure(figsize=(7, 2.4 * k + 2.2), layout="constrained")
    *axes, below = figure.subplots(k + 1, 1)
    t = _times(fit.data.T)
    start = _observed(fit.start, _solution(fit, fit.start), t)
    learned = _observed(fit.problem, fit.solution, t)
    for index, ax in enumerate(axes):
        draw_data(ax, fit.data, index)
        if np.all(np.isfinite(start)):
            ax.plot(t, start[:, index], ":", color=START, label="start")
        ax.plot(t, learned[:, index], color=LEARNED, lw=1.8, label="learned")
        # A start that runs away must not flatten everything else.
        shown = np.concatenate([learned[:, index], fit.data.x[:, index]])
        low, high = np.nanmin(shown), np.nanmax(shown)
        margin = 0.25 * (high - low) + 1e-12
        ax.set(ylim=(low - margin, high + margin), xlim=(0, fit.data.T))
        ax.set(xlabel="time", ylabel=fit.data.names[index])
        ax.legend(frameon=False, ncols=3, loc="upper right")
    finite = np.where(np.isfinite(fit.losses), fit.losses, np.nan)
    below.semilogy(finite, color=LEARNED, lw=1.2)
    below.set(xlabel="epoch", ylabel="loss", xlim=(0, max(len(finite) - 1, 1)))
    for ax in (*axes, below):
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def draw_data(ax: Any, data: Data, index: int) -> None:
    ax.plot(data.t, data.x[:, index], ".", color=DATA, ms=5, label="data")


def _times(T: float) -> np.ndarray:
    return np.linspace(0, T, 800)


def _solution(fit: "FitResult", problem: Problem) -> Solution:
    return solve(problem, fit.data.T, fit.solver, fit.steps_per_delay)


def _observed(problem: Problem, solution: Solution, t: np.ndarray) -> np.ndarray:
    x = solution(t)
    if problem.observe is not None:
        import jax

        x = jax.vmap(problem.observe)(x, t)
    return np.asarray(x)
