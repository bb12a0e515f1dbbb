"""What the fit leaves of the data: residuals over time, their distribution, tests."""

from typing import TYPE_CHECKING

import numpy as np

from .._figures.time_axis import axis_times, time_title
from .._inference.residual_tests import CHI, NORMAL, OUTLIER, SPREAD, WHITE
from .blocks import Block, Charts, Section, Table, Text
from .chart import Chart, Mark, Series, thinned
from .views import times_as_numbers, views_of

if TYPE_CHECKING:
    from .._results.estimate import Estimate

_ALL_DOTS, _MOST_QUANTILES = 6000, 300
# What each test asks, in words.
_TESTS = {
    WHITE: "Neighbouring residuals are not alike (Ljung-Box).",
    NORMAL: "The residuals are distributed as the noise should be (Anderson-Darling).",
    OUTLIER: "No value is too far off (Grubbs).",
    SPREAD: "Residuals are not larger where the values are (Glejser).",
    CHI: "Chi-square agrees with the known noise.",
}


def residuals(fit: "Estimate") -> Section:
    """The section on the residuals."""
    if fit.uncertainty.noise_unknown:
        about = "No degrees of freedom are left, so that residuals say nothing."
        return Section("residuals", "Residuals", [Text(about)])
    views, _ = views_of(fit)
    charts = []
    most = max(_ALL_DOTS // (len(views) * len(fit.data.names)), 100)
    for label, view in views.items():
        for index in range(len(view.data.names)):
            values = view.residuals[:, index]
            rows = np.flatnonzero(np.isfinite(values))
            if len(rows):
                charts.append(_chart(label, view, index, rows, most))
    quantiles = [
        _quantiles(name, each[np.isfinite(each)])
        for name, each in zip(fit.data.names, fit.residuals.T)
        if np.isfinite(each).sum() > 2
    ]
    kind = "data minus curve, in units of the noise"
    if fit.setup.model.likelihood is not None:
        kind = (
            "quantile residuals: the value of a standard Gaussian variable that is as "
            "likely to be undercut as the measured value is under the noise model"
        )
    if fit.process is not None:
        kind = "data minus what the values before let expect, in units of their error"
    unit = (
        f"Residuals are {kind}. Those of a right model lie around zero without a "
        "pattern, 95% of them between -2 and 2."
    )
    blocks: list[Block] = [Text(unit), Charts(charts), *_tests(fit)]
    if quantiles:
        about = (
            "The sorted residuals against those that Gaussian noise would leave: with "
            "such noise they lie along the line."
        )
        blocks += [Text(about), Charts(quantiles)]
    return Section("residuals", "Residuals", blocks)


def _chart(
    label: str, fit: "Estimate", index: int, rows: np.ndarray, most: int
) -> Chart:
    data, values = fit.data, fit.residuals[:, index]
    drawn = rows[thinned(len(rows), most)]
    t = times_as_numbers(axis_times(data, data.t[drawn]))
    height = max(3.2, 1.1 * float(np.abs(values[rows]).max()))
    name = data.names[index]
    note = f"{len(drawn):,} of the {len(rows):,} residuals are drawn."
    return Chart(
        title=" – ".join(part for part in (label, name) if part),
        x_label=time_title(data),
        y_label=f"residual of {name}",
        series=[Series("residual", "dots", "data", t, values[drawn])],
        marks=[Mark("y", at, "", "limit") for at in (-2.0, 0.0, 2.0)],
        note=note if len(drawn) < len(rows) else "",
        facets=(name, label),
        y_range=(-height, height),
        x_is_date=isinstance(data.origin, str),
    )


def _quantiles(name: str, values: np.ndarray) -> Chart:
    """Sorted residuals against the quantiles of the Gaussian distribution."""
    from scipy.special import ndtri

    n = len(values)
    expected = ndtri((np.arange(1, n + 1) - 0.5) / n)
    drawn = thinned(n, _MOST_QUANTILES)
    ends = expected[[0, -1]]
    return Chart(
        title=name,
        x_label="residual that noise would leave",
        y_label="residual",
        series=[
            Series("Gaussian noise", "line", "curve", ends, ends),
            Series(
                "residuals", "dots", "data", expected[drawn], np.sort(values)[drawn]
            ),
        ],
        facets=(name, ""),
        is_small=True,
    )


def _tests(fit: "Estimate") -> list[Block]:
    """The tests in words, each with its p-value."""
    if not fit.checks:
        return [Text("There are too few values for tests of the residuals.")]
    failed = fit.failed_checks
    rows = [("what a right model fulfils", "quantity", "p-value", "")]
    rows += [
        (
            _TESTS[check.test],
            check.quantity or "all",
            "< 0.001" if check.p < 1e-3 else f"{check.p:.2g}",
            "contradicted" if check in failed else "not contradicted",
        )
        for check in fit.checks
    ]
    how = (
        f"All {len(rows) - 1} tests together contradict a right model in at most 5% of "
        "fits."
        if len(rows) > 2
        else "The test contradicts a right model in 5% of fits."
    )
    return [Table(rows, (0, 1, 3)), Text(how)]
