"""The sections on estimates, profiles, correlations and the minima of the search."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._figures.chart import loss_chart, profile_chart, search_chart
from .._problem.network_weights import named_indices
from .._search.batches import Minimum
from .blocks import Block, Charts, Matrix, Prose, Section, TableBlock

if TYPE_CHECKING:
    from .._results.estimate import Estimate
    from .._results.result import AbstractFit, FitResult


# With more parameters than this the matrix of correlations cannot be read.
_MOST_NAMES = 30
# Correlations above this are named.
_STRONG = 0.9
# The page shows this many profiles, and minima with this many parameters.
_MOST_PROFILES, _MOST_MINIMA, _MOST_COLUMNS = 60, 8, 12


def estimates(fit: "AbstractFit") -> list[Block]:
    """Return the printed table, with verdicts in words, and the sentences below it."""
    table = fit.cells()
    header, rows = table.header, table.rows
    if table.values and "verdict" in table.values[0]:
        header = (*header[:-1], "what the data say")
        verdicts = [values["verdict"] for values in table.values]
        rows = [(*row[:-1], verdict) for row, verdict in zip(rows, verdicts)]
    doubts = fit.doubts()
    sentences = [Prose(each, each in doubts) for each in fit.sentences()]
    return [*_judgement(fit), TableBlock([header, *rows], (0, 4)), *sentences]


def _judgement(fit: "AbstractFit") -> list[Block]:
    """Say whether the tests of the residuals contradict the model."""
    if not getattr(fit, "checks", ()):
        return []
    estimate: Any = fit
    count = len(estimate.failed_checks)
    if not count:
        return [Prose("No test of the residuals contradicts this model.")]
    which = "One test of the residuals contradicts"
    if count > 1:
        which = f"{count} tests of the residuals contradict"
    about = f"{which} this model with this noise. What follows holds only as far as "
    return [Prose(f"{about}the model is right.", is_doubt=True)]


def profiles(fit: "Estimate") -> Section | None:
    """Return the section on profiles; None without intervals by profiles."""
    if fit.assessment is None:
        return None
    share = f"{100 * fit.level:g}%"
    named = named_indices(len(fit.names), fit.networks)
    found = fit.system.shown_profiles([fit.assessment.profiles[j] for j in named])
    charts = [
        profile_chart(profile, share)
        for profile in found[:_MOST_PROFILES]
        if len(profile.values) > 1
    ]
    if not charts:
        return None
    about = (
        "In each chart one parameter is held at other values, and all others are "
        f"fitted again. The {share} interval ends where chi-square has risen to the "
        "dashed line. A profile that stays below it sets no limit there. The dots are "
        "fits; the line between them is interpolated."
    )
    if len(found) > _MOST_PROFILES:
        about += f" The first {_MOST_PROFILES} of {len(found)} parameters are shown."
    return Section("profiles", "Profiles", [Prose(about), Charts(charts)])


def correlations(fit: "Estimate") -> Section | None:
    """Return the section on correlations; None without two standard errors."""
    errors = np.array(list(fit.standard_errors.values()))
    has_error = np.isfinite(errors) & (errors > 0)
    kept = [j for j in named_indices(len(fit.names), fit.networks) if has_error[j]]
    if len(kept) < 2:
        return None
    values = fit.covariance[np.ix_(kept, kept)] / np.outer(errors[kept], errors[kept])
    names = [fit.names[j] for j in kept]
    blocks: list[Block] = [Prose(_about(names, values))]
    if len(kept) <= _MOST_NAMES:
        blocks.append(Matrix(names, values))
    return Section("correlations", "Correlations of the estimates", blocks)


def _about(names: Sequence[str], values: np.ndarray) -> str:
    """Name the strongly correlated pairs, and say what that means."""
    above = np.triu(np.abs(values), 1)
    pairs = np.argwhere(above > _STRONG)
    pairs = sorted(map(tuple, pairs), key=lambda pair: -above[pair])
    meaning = (
        "The correlation of two estimates says how far the other compensates "
        "for an error of one."
    )
    if not pairs:
        i, j = divmod(int(np.argmax(above)), len(names))
        return (
            f"{meaning} None is above {_STRONG} in size; the strongest is that of "
            f"`{names[i]}` and `{names[j]}`, {values[i, j]:.2f}."
        )
    named = [
        f"`{names[i]}` and `{names[j]}` ({values[i, j]:.3f})" for i, j in pairs[:5]
    ]
    more = f", and {len(pairs) - 5} further pairs" if len(pairs) > 5 else ""
    return (
        f"{meaning} Strongly correlated are {', '.join(named)}{more}: the data "
        "determine a combination of them better than each."
    )


def search(fit: "Estimate") -> Section | None:
    """Return the section on the search; None for a fit by multiple shooting, which
    starts from another fit."""
    minima = fit.system.shown_minima(fit.uncertainty)
    if not minima:
        return None
    about = (
        "Each dot is a start of the search that was followed to its end, sorted by the "
        "chi-square that it reached. Starts that reached the same minimum are a step. "
        "A best minimum that was reached often can be trusted more."
    )
    chart = search_chart(minima, fit.uncertainty.residual_variance)
    blocks: list[Block] = [Prose(about), Charts([chart])]
    return Section("search", "The search", [*blocks, _minima(fit, minima)])


def _minima(fit: "Estimate", minima: Sequence[Minimum]) -> TableBlock:
    """Return the table of the best minima with their parameters."""
    named = named_indices(len(fit.names), fit.networks)[:_MOST_COLUMNS]
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
    return TableBlock(rows, (0,), caption)


def descent(fit: "FitResult") -> Section | None:
    """Return the section on the course of gradient descent."""
    chart = loss_chart(fit.losses)
    if chart is None:
        return None
    about = (
        "Gradient descent follows one start to a minimum near it, and gives no error "
        "bars."
    )
    return Section("search", "The descent", [Prose(about), Charts([chart])])
