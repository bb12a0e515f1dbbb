"""Figures of fits, predictions and profiles, drawn with matplotlib.

Each function returns a matplotlib `Figure`. It is one of pyplot's if pyplot is in use,
and that of the user's axes if `ax` is given. The colours can be told apart by
colour-blind readers, and lines differ in style as well, for readers of a grey print.

May import: `_data`, `_problem`, `_solve`, `_figures`.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from ._data.data import Data
from ._figures.colours import DATA, LEARNED, START, TRUE
from ._figures.function_panel import draw_function
from ._figures.panels import (
    add_figure_legend,
    add_legend,
    axis_label,
    figure_of,
    given_axes,
    hide_frame,
    new_figure,
    panel_grid,
    show_once,
)
from ._figures.profile_panel import draw_profile
from ._figures.time_axis import axis_times, set_time_axis, time_label
from ._problem.problem import Problem
from ._solve.solution import Solution
from ._solve.solve import solve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ._inference.learned_function import LearnedFunction
    from ._inference.predict import Prediction
    from ._inference.profile import Profile
    from ._results.estimate import Estimate
    from ._results.result import AbstractFit, FitResult

# The number of times at which trajectories are drawn.
CURVE_POINTS = 801
# How many experiments of a study stand side by side.
_MOST_COLUMNS = 3
# More dots than these are smaller, and an image within vector graphics.
_MANY_DOTS = 2000


def plot_fit(fit: "FitResult", ax: Any = None) -> "Figure":
    """Draw the result of gradient descent: for each quantity the data, the trajectory
    at the start and the learned one, and below them the loss in each epoch.

    `ax` are axes to draw on: one for each quantity, and perhaps one for the loss.
    """
    k = len(fit.data.names)
    if ax is None:
        figure = new_figure(7, 2.3 * k + 2.4)
        axes = list(figure.subplots(k + 1, 1))
        for above in axes[: k - 1]:
            above.sharex(axes[k - 1])
            above.tick_params(labelbottom=False)
    else:
        axes = given_axes(ax, k, k + 1)
    t = np.linspace(0.0, fit.data.T, CURVE_POINTS)
    start = observed(fit.start, _solution(fit, fit.start), t)
    learned = observed(fit.problem, fit.solution, t)
    for index, panel in enumerate(axes[:k]):
        if np.all(np.isfinite(start)):
            times = axis_times(fit.data, t)
            panel.plot(times, start[:, index], ":", color=START, label="start")
        _draw_learned(panel, fit, index, t, learned[:, index], "learned")
    axes[k - 1].set_xlabel(time_label(fit.data))
    for loss_axes in axes[k:]:
        losses = np.where(np.isfinite(fit.losses), fit.losses, np.nan)
        loss_axes.semilogy(losses, color=LEARNED, lw=1.2)
        loss_axes.set(xlabel="epoch", ylabel="loss", xlim=(0, max(len(losses) - 1, 1)))
    return _finished(axes, axes[:k], ax is None)


def plot_estimate(fit: "Estimate", ax: Any = None) -> "Figure":
    """Draw the result of least squares: for each quantity the data and the fitted
    trajectory with its confidence band and, below it, the residuals divided by the
    standard deviation of the noise.

    `ax` are axes to draw on: one for each quantity, or also one below each for the
    residuals of those that were measured. A study has such panels for each of its
    experiments.
    """
    if fit.experiments:
        return _plot_study(fit, ax)
    k, ratios = len(fit.data.names), _height_ratios(fit)
    if ax is None:
        figure = new_figure(7, 0.95 * sum(ratios) + 0.6)
        axes = list(
            figure.subplots(
                len(ratios), 1, sharex=True, height_ratios=ratios, squeeze=False
            ).ravel()
        )
    else:
        axes = given_axes(ax, k, len(ratios))
    above = _draw_estimate(fit, axes)
    return _finished(axes, above, ax is None)


def _height_ratios(fit: "Estimate") -> list[float]:
    """The heights of the panels of a fit: a low one for residuals below each quantity
    that was measured."""
    measured = np.any(np.isfinite(fit.data.x), axis=0)
    return [r for m in measured for r in ((3, 1.3) if m else (3,))]


def _plot_study(fit: "Estimate", ax: Any) -> "Figure":
    """Draw every experiment of a study side by side, each with its own time axis."""
    views = fit.experiments
    ratios = [_height_ratios(view) for view in views.values()]
    axes: list[list[Axes]] = []
    if ax is None:
        columns = min(len(views), _MOST_COLUMNS)
        rows = -(-len(views) // columns)
        height = 0.95 * max(map(sum, ratios)) + 0.6
        figure = new_figure(max(7, 3.6 * columns), height * rows)
        outer = figure.add_gridspec(rows, columns)
        for number, each in enumerate(ratios):
            inner = outer[divmod(number, columns)].subgridspec(
                len(each), 1, height_ratios=each
            )
            panels = inner.subplots(sharex=True, squeeze=False)
            axes.append(list(panels.ravel()))
    else:
        k = len(fit.data.names)
        given = given_axes(ax, k * len(views))
        axes = [given[first : first + k] for first in range(0, len(given), k)]
    above = []
    for (label, view), panels in zip(views.items(), axes):
        above += _draw_estimate(view, panels)
        panels[0].set_title(label, loc="left", fontsize="medium")
        _finished(panels, [], ax is None)
    if ax is None:
        add_figure_legend(above)
    return figure_of(above)


def _draw_estimate(fit: "Estimate", axes: "Sequence[Axes]") -> "list[Axes]":
    """Draw a fit on its panels; returns those of the quantities."""
    data = fit.data
    k, measured = len(data.names), np.any(np.isfinite(data.x), axis=0)
    rest, above = list(axes), []
    t = np.linspace(fit.time_zero, data.T, CURVE_POINTS)
    learned = learned_curve(fit, t)
    has_band = bool(np.all(np.isfinite(learned)))
    band = fit.predict(t, level=fit.level) if has_band else None
    residuals = fit.residuals
    for index in range(k):
        panel = rest.pop(0)
        above.append(panel)
        determined = None
        if band is not None:
            _draw_band(panel, data, band, index)
            determined = band.determined[:, index]
        values = learned[:, index]
        _draw_learned(panel, fit, index, t, values, "fitted curve", determined)
        if measured[index] and len(axes) > k:
            _draw_residuals(rest.pop(0), data, residuals[:, index])
    axes[-1].set_xlabel(time_label(data))
    return above


def plot_prediction(prediction: "Prediction", ax: Any = None) -> "Figure":
    """Draw the predicted trajectory of each quantity with its confidence band and, in a
    lighter shade, the band in which a new measurement would lie; and the data that were
    fitted, with a line at their end if the prediction goes on.

    `ax` are axes to draw on, one for each quantity.
    """
    k, data = len(prediction.names), prediction.data
    if ax is None:
        figure = new_figure(7, 2.4 * k + 0.9)
        axes = list(figure.subplots(k, 1, sharex=True, squeeze=False).ravel())
    else:
        axes = given_axes(ax, k)
    order = np.argsort(prediction.t)
    t, share = prediction.t[order], f"{100 * prediction.level:g}%"
    times = axis_times(data, t)
    # Where only later times are predicted, the data before them are shown as well.
    first = float(data.t[0]) if t[0] > data.T else float(t[0])
    for index, panel in enumerate(axes):
        noisy = prediction.noisy_low[order, index], prediction.noisy_high[order, index]
        label = f"{share} band of a new measurement"
        panel.fill_between(
            times, *noisy, color=LEARNED, alpha=0.12, lw=0, label=label, zorder=1
        )
        _draw_band(panel, data, prediction, index)
        mean = prediction.mean[order, index]
        determined = prediction.determined[order, index]
        _draw_curve(panel, times, mean, "prediction", determined)
        draw_data(panel, data, index)
        if t[-1] > data.T:
            end = axis_times(data, np.array([data.T]))[0]
            panel.axvline(end, color=TRUE, lw=1, ls="--", label="end of the data")
        is_shown = data.t >= first
        _set_heights(panel, (mean, data.x[is_shown, index]), noisy)
        panel.set_ylabel(axis_label(data.axis_labels[index + 1]))
        set_time_axis(panel, data, first, float(t[-1]))
    axes[-1].set_xlabel(time_label(data))
    return _finished(axes, axes, ax is None)


def plot_waterfall(fit: "Estimate", ax: Any = None) -> "Figure":
    """Draw the chi-square that each refined start of a least-squares search reached,
    sorted and relative to the lowest. Starts that reached the same minimum are a step.
    """
    from matplotlib.ticker import MaxNLocator

    axes = [new_figure(5.5, 3.4).subplots()] if ax is None else given_axes(ax, 1)
    minima = fit.search_result.minima
    losses = np.repeat([m.loss for m in minima], [max(m.starts, 1) for m in minima])
    rise = (np.sort(losses) - losses.min()) / fit.uncertainty.residual_variance
    panel = axes[0]
    panel.plot(np.arange(1, len(rise) + 1), rise, "o-", color=LEARNED, ms=4, lw=1)
    panel.set_yscale("symlog", linthresh=1.0)
    panel.set_ylim(-0.5, max(10.0, 2 * float(rise.max())))
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set(xlabel="refined start, sorted", ylabel="chi-square above the lowest")
    return _finished(axes, [], ax is None)


def plot_profiles(
    profiles: "Sequence[Profile]", level: float = 0.95, ax: Any = None
) -> "Figure":
    """Draw the rise of chi-square along the profile of each parameter, the rise that
    bounds the interval of the confidence `level` (dashed), and the ends of the interval
    (dotted).

    `ax` are axes to draw on, one for each profile.
    """
    count = len(profiles)
    columns = min(count, 3)
    if ax is None:
        axes = panel_grid(count, columns, 3.0 + 0.5 / columns, 2.6, sharey=True)
    else:
        axes = given_axes(ax, count)
    rises = [np.max(p.r / p.quantile) for p in profiles if len(p.r)]
    top = float(max(rises, default=1.0))
    for index, (panel, profile) in enumerate(zip(axes, profiles)):
        draw_profile(panel, profile, f"{100 * level:g}%", min(max(top**2, 1.35), 3.0))
        if ax is not None or index % columns == 0:
            panel.set_ylabel("rise of chi-square")
    return _finished(axes, [], ax is None)


def plot_functions(functions: "Sequence[LearnedFunction]", ax: Any = None) -> "Figure":
    """Draw the functions that networks have learned, each with its band: dashed and
    paler where the fitted trajectory did not come. Short lines at the lower edge are
    the arguments that it visited.

    `ax` are axes to draw on, one for each output of each function.
    """
    panels = [(f, output) for f in functions for output in range(f.network.outputs)]
    if ax is None:
        axes = panel_grid(len(panels), 2, 5.6 if len(panels) == 1 else 4.5, 3.4)
    else:
        axes = given_axes(ax, len(panels))
    for panel, (function, output) in zip(axes, panels):
        draw_function(panel, function, output)
    return _finished(axes, [], ax is None)


def _draw_learned(
    ax: "Axes",
    fit: "AbstractFit",
    index: int,
    t: np.ndarray,
    learned: np.ndarray,
    label: str,
    determined: np.ndarray | None = None,
) -> None:
    """Draw the data of quantity `index` and its learned values at the times `t`."""
    data = fit.data
    draw_data(ax, data, index)
    _draw_curve(ax, axis_times(data, t), learned, label, determined)
    # The axis is scaled to these, since the curve of a bad start may be far outside.
    _set_heights(ax, (learned, data.x[:, index]), ())
    ax.set_ylabel(axis_label(data.axis_labels[index + 1]))
    set_time_axis(ax, data, float(min(t[0], data.t[0])), data.T)


def _draw_curve(
    ax: "Axes",
    times: np.ndarray,
    values: np.ndarray,
    label: str,
    determined: np.ndarray | None,
) -> None:
    """Draw a curve, dotted where it is not `determined` by the data."""
    if determined is None:
        determined = np.ones(len(values), bool)
    style = {"color": LEARNED, "lw": 1.6}
    if np.any(determined):
        ax.plot(times, np.where(determined, values, np.nan), label=label, **style)
    if not np.all(determined):
        dotted = np.where(determined, np.nan, values)
        ax.plot(times, dotted, ":", label="not determined by the data", **style)


def _draw_residuals(ax: "Axes", data: Data, residuals: np.ndarray) -> None:
    """Draw the residuals of a quantity, in units of the noise."""
    ax.axhline(0, color=LEARNED, lw=1)
    _draw_dots(ax, data, residuals)
    finite = np.abs(residuals[np.isfinite(residuals)])
    height = max(3.0, 1.1 * float(np.max(finite, initial=0.0)))
    ax.set(ylabel="residual\n/ sd", ylim=(-height, height))


def draw_data(ax: "Axes", data: Data, index: int) -> None:
    """Draw the measured values of quantity `index` as dots."""
    if np.any(np.isfinite(data.x[:, index])):
        _draw_dots(ax, data, data.x[:, index], label="data")


def _draw_dots(ax: "Axes", data: Data, values: np.ndarray, **options: Any) -> None:
    is_many = len(data) > _MANY_DOTS
    size = {"ms": 1.5 if is_many else 3.2, "mew": 0, "rasterized": is_many}
    times = axis_times(data, data.t)
    ax.plot(times, values, "o", color=DATA, zorder=1.9, **size, **options)


def _draw_band(ax: "Axes", data: Data, prediction: "Prediction", index: int) -> None:
    """Draw the confidence band of quantity `index` where the data determine it."""
    order = np.argsort(prediction.t)
    determined = prediction.determined[order, index]
    low = np.where(determined, prediction.low[order, index], np.nan)
    high = np.where(determined, prediction.high[order, index], np.nan)
    times = axis_times(data, prediction.t[order])
    label = f"{100 * prediction.level:g}% confidence band of the curve"
    style = {"color": LEARNED, "alpha": 0.3, "lw": 0, "zorder": 1.5}
    ax.fill_between(times, low, high, label=label, **style)


def _set_heights(
    ax: "Axes", shown: "Sequence[np.ndarray]", band: "Sequence[np.ndarray]"
) -> None:
    """Let an axis show all values of `shown`, and of a band as much as is not farther
    from these than they are from each other."""
    values = np.concatenate(shown)
    values = values[np.isfinite(values)]
    if not len(values):
        return
    low, high = float(values.min()), float(values.max())
    span = (high - low) or abs(high) or 1.0
    around = np.concatenate([*band, [low, high]])
    around = around[np.isfinite(around)]
    low = max(float(around.min()), low - span) - 0.06 * span
    ax.set_ylim(low, min(float(around.max()), high + span) + 0.06 * span)


def _finished(
    axes: "Sequence[Axes]", with_legend: "Sequence[Axes]", is_new: bool
) -> "Figure":
    """Return the figure of some panels, with one legend for those `with_legend`."""
    for ax in axes:
        hide_frame(ax)
    if with_legend:
        add_legend(with_legend, is_new)
    figure = figure_of(axes)
    if is_new:
        figure.align_ylabels(axes)
    show_once(figure)
    return figure


def _solution(fit: "FitResult", problem: Problem) -> Solution:
    """Solve a problem over the time of the data, with the solver of the fit."""
    return solve(problem, fit.data.T, fit.solver, fit.steps_per_delay)


def learned_curve(fit: "Estimate | FitResult", t: np.ndarray) -> np.ndarray:
    """Return the learned trajectory at the times `t`, one row per time; of a system
    that is disturbed, the path that it took."""
    if getattr(fit, "process", None) is not None:
        return fit.predict(t).mean  # type: ignore
    return observed(fit.problem, fit.solution, t)


def observed(problem: Problem, solution: Solution, t: np.ndarray) -> np.ndarray:
    """Return the observed quantities of a solution at the times `t`, one row per time:
    the states, or what `problem.observe` makes of them."""
    x = solution(t)
    if problem.observe is not None:
        import jax

        x = jax.vmap(problem.observe)(x, t)
    return np.asarray(x)
