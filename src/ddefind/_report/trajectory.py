"""Data, fitted curve with its bands, the prediction beyond the data, and what the fit
leaves of the data: residuals over time, their distribution, and tests."""

from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .._data.data import Data
from .._data.times import source_times
from .._figures.chart import (
    Chart,
    Series,
    curve_series,
    prediction_series,
    residual_chart,
    thinned,
    trajectory_chart,
)
from .._inference.residual_tests import CHI, NORMAL, OUTLIER, SPREAD, WHITE
from .._util.errors import shown
from ..plots import learned_curve
from .blocks import Block, Charts, Prose, Section, TableBlock

if TYPE_CHECKING:
    from .._inference.predict import Prediction
    from .._results.estimate import Estimate
    from .._results.result import AbstractFit


_Fit = TypeVar("_Fit", bound="AbstractFit")
# The page shows this many experiments of a study, times the number of quantities.
_MOST_CHARTS = 40
# The prediction goes on beyond the data for this share of their length.
_BEYOND = 0.25
# The number of points of all curves, and of a single one, so that the page stays small.
_ALL_POINTS, _MOST_POINTS, _FEWEST_POINTS = 6000, 601, 101
_ALL_DOTS = 6000
# How many experiments have a table of their prediction, and how many times it has.
_MOST_TABLES, _ROWS = 4, 6
_MOST_QUANTILES = 300
# What a right model fulfils, for each test.
_TESTS = {
    WHITE: "Successive residuals are not correlated (Ljung-Box).",
    NORMAL: "The residuals are distributed as the noise should be (Anderson-Darling).",
    OUTLIER: "No value is an outlier (Grubbs).",
    SPREAD: "Residuals do not grow with the level (Glejser).",
    CHI: "Chi-square agrees with the known noise.",
}


def data_and_curve(fit: "AbstractFit", until: float | None) -> Section:
    """Return the section on data and curve, with predictions up to `until`."""
    views, left_out = shown_experiments(fit)
    charts: list[Chart] = []
    tables: list[Block] = []
    notes: dict[str, None] = {}
    count = len(views) * len(fit.data.names)
    points = int(np.clip(_ALL_POINTS // count, _FEWEST_POINTS, _MOST_POINTS))
    for label, view in views.items():
        prediction, reasons = _predict(view, until, points)
        notes |= dict.fromkeys(reasons)
        if prediction is not None:
            notes |= dict.fromkeys(prediction.notes)
            if len(views) <= _MOST_TABLES and prediction.t[-1] > view.data.T:
                tables.append(_table(label, view.data, prediction))
        for index in range(len(view.data.names)):
            if prediction is None:
                t = np.linspace(view.time_zero, view.data.T, points)
                curve = learned_curve(view, t)[:, index]  # type: ignore
                curves = [curve_series(view.data, t, curve, "fitted curve")]
            else:
                curves = prediction_series(prediction, index)
            most = max(_ALL_DOTS // count, 200)
            charts.append(trajectory_chart(view.data, index, curves, label, most))
    blocks = [*map(Prose, left_out), Charts(charts), *map(Prose, notes), *tables]
    return Section("course", "Data and fitted curve", blocks)


def _predict(
    fit: "AbstractFit", until: float | None, points: int
) -> "tuple[Prediction | None, list[str]]":
    """Predict as far as possible; and say why not farther."""
    if not hasattr(fit, "predict"):
        return None, []
    last = fit.data.T + _BEYOND * (fit.data.T - fit.time_zero)
    last = last if until is None else max(until, fit.data.T)
    reasons = []
    for end in dict.fromkeys((last, fit.data.T)):
        times = np.linspace(fit.time_zero, end, points)
        times = np.union1d(times, _round_times(fit.data, end))
        try:
            prediction = fit.predict(times, level=fit.level)  # type: ignore
        except ValueError as error:
            reasons.append(f"There is no prediction beyond the data. {error}")
            continue
        if np.all(np.isfinite(prediction.mean)):
            return prediction, reasons
        reasons.append("The solution of the fitted equation diverges beyond the data.")
    return None, reasons[:1]


def _round_times(data: Data, end: float) -> np.ndarray:
    """Return some times after the data: round numbers in their source or, if that has
    dates, round numbers of days."""
    from matplotlib.ticker import MaxNLocator

    if end <= data.T:
        return np.zeros(0)
    zero = 0.0 if isinstance(data.origin, str) else data.origin
    locator = MaxNLocator(nbins=_ROWS, steps=[1, 2, 2.5, 5, 10], min_n_ticks=1)
    found = np.asarray(locator.tick_values(data.T + zero, end + zero)) - zero
    return found[(found > data.T) & (found <= end)]


def _table(label: str, data: Data, prediction: "Prediction") -> TableBlock:
    """Tabulate the prediction at some times after the data."""
    later = np.flatnonzero(
        np.isin(prediction.t, _round_times(data, float(prediction.t[-1])))
    )
    name, times = source_times(data, prediction.t[later])
    table = prediction.cells(later, name, list(map(_shown, times)))
    whose = f" of {shown(label)}" if label else ""
    caption = f"The prediction{whose} beyond the data"
    return TableBlock([table.header, *table.rows], (), caption)


def _shown(time: Any) -> str:
    """Write a time of the source; a date without its time of day at midnight."""
    return time.removesuffix("T00:00:00") if isinstance(time, str) else f"{time:.6g}"


def residuals(fit: "Estimate") -> Section:
    """Return the section on the residuals."""
    if fit.uncertainty.noise_unknown:
        about = "No degrees of freedom are left, so that residuals say nothing."
        return Section("residuals", "Residuals", [Prose(about)])
    views, _ = shown_experiments(fit)
    charts = []
    most = max(_ALL_DOTS // (len(views) * len(fit.data.names)), 100)
    for label, view in views.items():
        for index in range(len(view.data.names)):
            values = view.residuals[:, index]
            if np.isfinite(values).any():
                charts.append(residual_chart(view.data, index, values, label, most))
    quantiles = [
        _quantiles(name, each[np.isfinite(each)])
        for name, each in zip(fit.data.names, fit.residuals.T)
        if np.isfinite(each).sum() > 2
    ]
    kind = fit.system.kind_of_residuals or fit.setup.misfit.kind_of_residuals
    unit = (
        f"Residuals are {kind}. If the model is right, they lie around zero "
        "without a pattern, 95% of them between -2 and 2."
    )
    blocks: list[Block] = [Prose(unit), Charts(charts), *_tests(fit)]
    if quantiles:
        about = (
            "The sorted residuals against the quantiles of Gaussian noise. If the "
            "noise is Gaussian, they lie along the line."
        )
        blocks += [Prose(about), Charts(quantiles)]
    return Section("residuals", "Residuals", blocks)


def _quantiles(name: str, values: np.ndarray) -> Chart:
    """Describe sorted residuals against the quantiles of a Gaussian distribution."""
    from scipy.special import ndtri

    n, ordered = len(values), np.sort(values)
    expected = ndtri((np.arange(1, n + 1) - 0.5) / n)
    drawn = thinned(n, _MOST_QUANTILES)
    ends = expected[[0, -1]]
    return Chart(
        title=name,
        x_label="quantile of Gaussian noise",
        y_label="residual",
        series=[
            Series("Gaussian noise", "line", "curve", ends, ends),
            Series("residuals", "dots", "data", expected[drawn], ordered[drawn]),
        ],
        facets=(name, ""),
        is_small=True,
    )


def _tests(fit: "Estimate") -> list[Block]:
    """Describe the tests in words, each with its p-value."""
    if not fit.checks:
        return [Prose("There are too few values for tests of the residuals.")]
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
    return [TableBlock(rows, (0, 1, 3)), Prose(how)]


def shown_experiments(fit: _Fit) -> tuple[dict[str, _Fit], list[str]]:
    """Return the fit of each experiment by its label, or the only fit, without a label;
    and a sentence if some are left out."""
    views = getattr(fit, "experiments", {})
    if not views:
        return {"": fit}, []
    most = max(1, _MOST_CHARTS // len(fit.data.names))
    if len(views) <= most:
        return views, []
    about = f"The first {most} of {len(views)} experiments are shown."
    return dict(islice(views.items(), most)), [about]
