"""Figures of fits, predictions and profiles, drawn with matplotlib.

Each function returns a matplotlib `Figure`: one of pyplot's if pyplot is in use, or the
figure of the user's axes if `ax` is given. The colours can be told apart by
colour-blind readers, and lines differ in style as well, for readers of a grey print.

May import: `_engine`, `_figures`.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ._engine.solution import observed
from ._engine.solve import solve
from ._figures.chart import (
    curve_series,
    function_charts,
    loss_chart,
    prediction_series,
    profile_chart,
    residual_chart,
    search_chart,
    trajectory_chart,
)
from ._figures.panels import (
    CURVES,
    add_figure_legend,
    add_legend,
    axis_label,
    draw,
    figure_of,
    given_axes,
    new_figure,
    panel_grid,
    show_once,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ._inference.learned_function import LearnedFunction
    from ._inference.predict import Prediction
    from ._inference.profile import Profile
    from ._results.estimate import Estimate
    from ._results.result import FitResult


# The number of times at which trajectories are drawn.
CURVE_POINTS = 801
# How many experiments of a study stand side by side.
_MOST_COLUMNS = 3


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
    t, data = np.linspace(0.0, fit.data.T, CURVE_POINTS), fit.data
    first = solve(fit.start, data.T, fit.solver, fit.steps_per_delay)
    start = observed(fit.start, first, t)
    learned = observed(fit.problem, fit.solution, t)
    for index, panel in enumerate(axes[:k]):
        curves = [curve_series(data, t, learned[:, index], "learned")]
        if np.all(np.isfinite(start)):
            before = curve_series(data, t, start[:, index], "start")
            curves = [replace(before, kind="dotted", role="start"), *curves]
        draw(panel, trajectory_chart(data, index, curves))
    _label_last(axes[:k])
    losses = loss_chart(fit.losses)
    if losses is not None and len(axes) > k:
        draw(axes[k], losses)
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
        shape: dict[str, Any] = {"height_ratios": ratios, "squeeze": False}
        axes = list(figure.subplots(len(ratios), 1, sharex=True, **shape).ravel())
    else:
        axes = given_axes(ax, k, len(ratios))
    above = _draw_estimate(fit, axes)
    return _finished(axes, above, ax is None)


def _height_ratios(fit: "Estimate") -> list[float]:
    """Return the heights of the panels of a fit: a low one for residuals below each
    quantity that was measured."""
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
            place = outer[divmod(number, columns)]
            inner = place.subgridspec(len(each), 1, height_ratios=each)
            axes.append(list(inner.subplots(sharex=True, squeeze=False).ravel()))
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
    """Draw a fit on its panels, and return the panels of the quantities."""
    data = fit.data
    k, measured = len(data.names), np.any(np.isfinite(data.x), axis=0)
    rest, above = list(axes), []
    t = np.linspace(fit.time_zero, data.T, CURVE_POINTS)
    learned, prediction = learned_curve(fit, t), None
    if np.all(np.isfinite(learned)):
        prediction = fit.predict(t, level=fit.level)
    residuals = fit.residuals
    for index in range(k):
        above.append(rest.pop(0))
        if prediction is None:
            curves = [curve_series(data, t, learned[:, index], "fitted curve")]
        else:
            curves = prediction_series(prediction, index)
            curves = [each for each in curves if each.role != "noisy"]
        draw(above[-1], trajectory_chart(data, index, curves))
        if measured[index] and len(axes) > k:
            draw(rest[0], residual_chart(data, index, residuals[:, index]))
            rest.pop(0).set_ylabel("residual\n/ sd")
    _label_last(axes)
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
    # Where only later times are predicted, the data before them are shown as well.
    first, last = float(prediction.t.min()), float(prediction.t.max())
    span = (float(data.t[0]) if first > data.T else first, last)
    for index, panel in enumerate(axes):
        curves = prediction_series(prediction, index, "prediction")
        draw(panel, trajectory_chart(data, index, curves, span=span))
    _label_last(axes)
    return _finished(axes, axes, ax is None)


def plot_waterfall(fit: "Estimate", ax: Any = None) -> "Figure":
    """Draw the chi-square that each refined start of a search reached, sorted and above
    the lowest. Starts that reached the same minimum are a step."""
    axes = [new_figure(5.5, 3.4).subplots()] if ax is None else given_axes(ax, 1)
    variance = fit.uncertainty.residual_variance
    draw(axes[0], search_chart(fit.search_result.minima, variance))
    return _finished(axes, [], ax is None)


def plot_profiles(
    profiles: "Sequence[Profile]", level: float = 0.95, ax: Any = None
) -> "Figure":
    """Draw the rise of chi-square along the profile of each parameter, the rise that
    bounds the interval of the confidence `level` and the ends of the interval (dashed).

    `ax` are axes to draw on, one for each profile.
    """
    count = len(profiles)
    columns = min(count, 3)
    if ax is None:
        axes = panel_grid(count, columns, 3.0 + 0.5 / columns, 2.6, sharey=True)
    else:
        axes = given_axes(ax, count)
    share, tops = f"{100 * level:g}%", [0.0]
    for index, (panel, profile) in enumerate(zip(axes, profiles)):
        if len(profile.values):
            chart = profile_chart(profile, share)
            draw(panel, chart)
            panel.set_title(_interval(share, *profile.interval), fontsize="small")
            tops.append(chart.y_limits[1])
        else:
            middle, about = (0.5, 0.5), "not followed"
            panel.annotate(about, middle, xycoords="axes fraction", ha="center")
            panel.set_xlabel(axis_label(profile.name))
        if ax is None and index % columns:
            panel.set_ylabel("")
    if ax is None and max(tops):
        axes[0].set_ylim(top=max(tops))  # It is the same axis in all panels.
    return _finished(axes, [], ax is None)


def _interval(share: str, low: float, high: float) -> str:
    """Return an interval as the title of its profile."""
    if np.isfinite(low) and np.isfinite(high):
        return f"{share} interval [{low:.4g}, {high:.4g}]"
    if np.isfinite(low):
        return f"{share} interval > {low:.4g}"
    end = f"< {high:.4g}" if np.isfinite(high) else "without limits"
    return f"{share} interval {end}"


def plot_functions(functions: "Sequence[LearnedFunction]", ax: Any = None) -> "Figure":
    """Draw the functions that networks have learned, each with its band: dashed and
    paler where the fitted trajectory did not come. The dots at the lower edge are the
    arguments that it visited.

    `ax` are axes to draw on, one for each output of each function.
    """
    outputs = [charts for each in functions for charts in function_charts(each)]
    if ax is None:
        axes = panel_grid(len(outputs), 2, 5.6 if len(outputs) == 1 else 4.5, 3.4)
    else:
        axes = given_axes(ax, len(outputs))
    for panel, charts in zip(axes, outputs):
        for chart, style in zip(charts, CURVES):
            draw(panel, chart, style)
        ends = np.array([chart.x_limits for chart in charts])
        panel.set_xlim(ends.min(), ends.max())
        add_legend([panel], False)
    return _finished(axes, [], ax is None)


def _label_last(axes: "Sequence[Axes]") -> None:
    """Leave the label of the times only at the lowest of some panels."""
    for panel in axes[:-1]:
        panel.set_xlabel("")


def _finished(
    axes: "Sequence[Axes]", with_legend: "Sequence[Axes]", is_new: bool
) -> "Figure":
    """Return the figure of some panels, with one legend for those `with_legend`."""
    if with_legend:
        add_legend(with_legend, is_new)
    figure = figure_of(axes)
    if is_new:
        figure.align_ylabels(axes)
    show_once(figure)
    return figure


def learned_curve(fit: "Estimate | FitResult", t: np.ndarray) -> np.ndarray:
    """Return the learned trajectory at the times `t`, one row per time; of a system
    that is disturbed, the path that it took."""
    return fit.system.curve(fit, t)
