"""Figures of fits, predictions and profiles, drawn with matplotlib.

Each function returns a matplotlib `Figure`. The colours can be told apart by
colour-blind readers, and lines differ in style as well, for readers of a grey print.

May import: `_data`, `_problem`, `_solve`.
"""

from typing import TYPE_CHECKING

import numpy as np

from ._data.data import Data
from ._problem.problem import Problem
from ._solve.solution import Solution
from ._solve.solve import solve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ._inference.predict import Prediction
    from ._inference.profile_likelihood import Profile
    from ._results.estimate import Estimate
    from ._results.result import AbstractFit, FitResult

# The colours of data, start, learned and true trajectories.
DATA, START, LEARNED, TRUE = "#7a7a7a", "#d55e00", "#0072b2", "#000000"


def plot_fit(fit: "FitResult") -> "Figure":
    """Draw the result of gradient descent: for each quantity the data, the trajectory
    at the start and the learned one, and below them the loss in each epoch."""
    from matplotlib.figure import Figure

    k = len(fit.data.names)
    figure = Figure(figsize=(7, 2.4 * k + 2.2), layout="constrained")
    *axes, loss_axes = figure.subplots(k + 1, 1)
    t = _plot_times(fit.data.T)
    start = observed(fit.start, _solution(fit, fit.start), t)
    learned = observed(fit.problem, fit.solution, t)
    for index, ax in enumerate(axes):
        if np.all(np.isfinite(start)):
            ax.plot(t, start[:, index], ":", color=START, label="start")
        _draw_learned(ax, fit, index, t, learned[:, index])
    losses = np.where(np.isfinite(fit.losses), fit.losses, np.nan)
    loss_axes.semilogy(losses, color=LEARNED, lw=1.2)
    loss_axes.set(xlabel="epoch", ylabel="loss", xlim=(0, max(len(losses) - 1, 1)))
    for ax in (*axes, loss_axes):
        _hide_frame(ax)
    return figure


def _draw_learned(
    ax: "Axes", fit: "AbstractFit", index: int, t: np.ndarray, learned: np.ndarray
) -> None:
    """Draw the data of quantity `index` and its learned values at the times `t`."""
    draw_data(ax, fit.data, index)
    ax.plot(t, learned, color=LEARNED, lw=1.8, label="learned")
    # The axis is scaled to these, since the curve of a bad start may be far outside.
    values = np.concatenate([learned, fit.data.x[:, index]])
    low, high = np.nanmin(values), np.nanmax(values)
    margin = 0.25 * (high - low) + 1e-12 * abs(high)
    ax.set(ylim=(low - margin, high + margin), xlim=(0, fit.data.T))
    ax.set(xlabel="time", ylabel=fit.data.names[index])
    ax.legend(frameon=False, ncols=3, loc="upper right")


def plot_estimate(fit: "Estimate") -> "Figure":
    """Draw the result of least squares: for each quantity the data and the fitted
    trajectory with its 95% confidence band, and below them the residuals divided by the
    standard deviation of the noise."""
    from matplotlib.figure import Figure

    k = len(fit.data.names)
    figure = Figure(figsize=(7, 4.2 * k), layout="constrained")
    ratios = [3, 1.4] * k
    axes = figure.subplots(2 * k, 1, height_ratios=ratios, squeeze=False)[:, 0]
    t = _plot_times(fit.data.T, fit.time_zero)
    learned = learned_curve(fit, t)
    band = fit.predict(t) if np.all(np.isfinite(learned)) else None
    residuals = fit.residuals
    for index, name in enumerate(fit.data.names):
        above, below = axes[2 * index : 2 * index + 2]
        if band is not None:
            _draw_band(above, band, index, "95% confidence")
        _draw_learned(above, fit, index, t, learned[:, index])
        below.axhline(0, color=LEARNED, lw=1)
        below.plot(fit.data.t, residuals[:, index], ".", color=DATA, ms=4)
        below.set(
            xlabel="time", ylabel=f"residual / sd\n({name})", xlim=(0, fit.data.T)
        )
    for ax in axes:
        _hide_frame(ax)
    return figure


def plot_prediction(prediction: "Prediction") -> "Figure":
    """Draw the predicted trajectory of each quantity with its confidence band and, in a
    lighter shade, the band in which a new measurement would lie."""
    from matplotlib.figure import Figure

    k = len(prediction.names)
    figure = Figure(figsize=(7, 3 * k), layout="constrained")
    axes = figure.subplots(k, 1, squeeze=False)[:, 0]
    order = np.argsort(prediction.t)
    t, level = prediction.t[order], f"{100 * prediction.level:g}%"
    for index, (ax, name) in enumerate(zip(axes, prediction.names)):
        noisy = prediction.noisy_low[order, index], prediction.noisy_high[order, index]
        ax.fill_between(t, *noisy, color=LEARNED, alpha=0.1, lw=0, label="with noise")
        _draw_band(ax, prediction, index, f"{level} confidence")
        ax.plot(t, prediction.mean[order, index], color=LEARNED, lw=1.8)
        ax.set(xlabel="time", ylabel=name, xlim=(t[0], t[-1]))
        ax.legend(frameon=False, ncols=2, loc="upper right")
        _hide_frame(ax)
    return figure


def _draw_band(ax: "Axes", prediction: "Prediction", index: int, label: str) -> None:
    """Draw the confidence band of quantity `index`."""
    order = np.argsort(prediction.t)
    low, high = prediction.low[order, index], prediction.high[order, index]
    t = prediction.t[order]
    ax.fill_between(t, low, high, color=LEARNED, alpha=0.3, lw=0, label=label)


def plot_waterfall(fit: "Estimate") -> "Figure":
    """Draw the chi-square that each refined start of a least-squares search reached,
    sorted and relative to the lowest. Starts that reached the same minimum are a step.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.4), layout="constrained")
    ax = figure.subplots()
    minima = fit.search_result.minima
    losses = np.repeat([m.loss for m in minima], [max(m.starts, 1) for m in minima])
    rise = (np.sort(losses) - losses.min()) / fit.uncertainty.residual_variance
    ax.plot(np.arange(1, len(rise) + 1), rise, "o-", color=LEARNED, ms=4, lw=1)
    ax.set_yscale("symlog", linthresh=1.0)
    ax.set(xlabel="refined start, sorted", ylabel="chi-square above the lowest")
    _hide_frame(ax)
    return figure


def plot_profiles(profiles: "Sequence[Profile]") -> "Figure":
    """Draw the rise of chi-square along the profile of each parameter, the value that
    bounds the confidence interval (dashed), and the ends of the interval (dotted)."""
    from matplotlib.figure import Figure

    columns = min(len(profiles), 3)
    rows = -(-len(profiles) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.6 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, profile in zip(axes, profiles):
        ax.plot(*_smooth_profile(profile), color=LEARNED, lw=1)
        ax.plot(profile.values, profile.r**2, ".", color=LEARNED, ms=4)
        ax.axhline(profile.quantile**2, color=START, lw=1, ls="--")
        for end in profile.interval:
            if np.isfinite(end):
                ax.axvline(end, color=DATA, lw=1, ls=":")
        ax.set(xlabel=profile.name, ylabel="rise of chi-square")
        ax.set_ylim(-0.3, 3 * profile.quantile**2)
        _hide_frame(ax)
    for ax in axes[len(profiles) :]:
        ax.set_visible(False)
    return figure


def _smooth_profile(profile: "Profile") -> tuple[np.ndarray, np.ndarray]:
    """Return values between those that were fitted, and the rise of chi-square there.

    The signed square root of the rise is interpolated linearly, since it is almost a
    straight line, and then squared.
    """
    values = profile.values
    finer = np.linspace(values[:-1], values[1:], 12).T.ravel()
    signed_root = np.sign(values - profile.estimate) * profile.r
    return finer, np.interp(finer, values, signed_root) ** 2


def draw_data(ax: "Axes", data: Data, index: int) -> None:
    """Draw the measured values of quantity `index` as dots."""
    ax.plot(data.t, data.x[:, index], ".", color=DATA, ms=5, label="data")


def _hide_frame(ax: "Axes") -> None:
    """Remove the upper and the right side of the frame."""
    ax.spines[["top", "right"]].set_visible(False)


def _plot_times(T: float, begin: float = 0.0) -> np.ndarray:
    """Return the times at which trajectories are drawn."""
    return np.linspace(begin, T, 800)


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
