"""Where the starts of the search ended: the minima, and how often each was reached."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._inference.exchanges import distinct_minima
from .._least_squares.search import Minimum
from .._problem.network_weights import named_indices
from .blocks import Block, Charts, Section, Table, Text
from .chart import Chart, Series

if TYPE_CHECKING:
    from .._results.estimate import Estimate
    from .._results.result import FitResult

_MOST_MINIMA, _MOST_NAMES, _MOST_EPOCHS = 8, 12, 500


def search(fit: "Estimate") -> Section | None:
    """The section on the search; None for a fit by multiple shooting, whose start is
    another fit."""
    minima = distinct_minima(fit.uncertainty)
    if fit.process is not None or not minima:
        return None
    losses = np.repeat([m.loss for m in minima], [max(m.starts, 1) for m in minima])
    rise = (np.sort(losses) - losses.min()) / fit.uncertainty.residual_variance
    about = (
        "Each dot is a start of the search that was followed to its end, sorted by the "
        "chi-square that it reached. Starts that reached the same minimum are a step. "
        "Trust a best minimum more that was reached often."
    )
    chart = Chart(
        title="Where the starts ended",
        x_label="start, sorted",
        y_label="chi-square above the lowest",
        series=[Series("starts", "dots", "curve", np.arange(1.0, len(rise) + 1), rise)],
        y_range=(-0.6, max(10.0, 2 * float(rise.max()))),
        x_is_whole=True,
        y_is_wide=True,
    )
    blocks: list[Block] = [Text(about), Charts([chart])]
    return Section("search", "The search", [*blocks, _minima(fit, minima)])


def _minima(fit: "Estimate", minima: Sequence[Minimum]) -> Table:
    """The best minima with their parameters."""
    named = named_indices(len(fit.names), fit.networks)[:_MOST_NAMES]
    first = ("minimum", "chi-square above the best", "starts")
    rows: list[tuple[str, ...]] = [(*first, *(fit.names[j] for j in named))]
    variance = fit.uncertainty.residual_variance
    for number, each in enumerate(minima[:_MOST_MINIMA], 1):
        rise = (each.loss - minima[0].loss) / variance
        values = (f"{each.theta[j]:.4g}" for j in named)
        rows.append((str(number), f"{rise:.3g}", str(each.starts), *values))
    shown = min(len(minima), _MOST_MINIMA)
    caption = "The minimum that was found"
    if len(minima) > 1:
        caption = f"The {len(minima)} minima that were found"
    if len(minima) > shown:
        caption = f"The best {shown} of {len(minima)} minima"
    return Table(rows, (0,), caption)


def descent(fit: "FitResult") -> Section | None:
    """The section on the course of gradient descent."""
    is_there = np.flatnonzero(np.isfinite(fit.losses) & (fit.losses > 0))
    if len(is_there) < 2:
        return None
    step = -(-len(is_there) // _MOST_EPOCHS)
    drawn = is_there[::step]
    losses = np.log10(fit.losses[drawn])
    chart = Chart(
        title="The loss",
        x_label="epoch",
        y_label="log10 of the loss",
        series=[Series("loss", "line", "curve", drawn.astype(float), losses)],
    )
    about = (
        "Gradient descent follows one start to a minimum near it, and gives no error "
        "bars."
    )
    return Section("search", "The descent", [Text(about), Charts([chart])])
