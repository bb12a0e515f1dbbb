"""The sections of the page, and what they are made of.

On the data and the fitted curve, on the residuals, on the estimates, on the fitted
equation, and on the settings."""

import base64
import platform
import re
from collections.abc import Sequence
from importlib.metadata import version
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from markupsafe import Markup, escape

from .._data.data import Data
from .._data.study_data import Records, parts_of
from .._data.times import source_times
from .._figures.chart import (
    Chart,
    Series,
    curve_series,
    function_charts,
    loss_chart,
    prediction_series,
    profile_chart,
    residual_chart,
    search_chart,
    thinned,
    trajectory_chart,
)
from .._inference.residual_tests import CHI, NORMAL, OUTLIER, SPREAD, WHITE
from .._problem.delays import constant_delays
from .._problem.network_weights import named_indices, network_name
from .._search.batches import Minimum
from .._util.errors import shown
from .._util.shown import listed
from .._util.version import __version__
from ..plots import learned_curve

if TYPE_CHECKING:
    from .._inference.learned_function import LearnedFunction
    from .._inference.predict import Prediction
    from .._results.estimate import Estimate
    from .._results.result import AbstractFit, FitResult


class Prose(NamedTuple):
    """A paragraph, with words between backticks as code. An `is_doubt` is set off."""

    text: str
    is_doubt: bool = False
    kind: str = "text"

    @property
    def html(self) -> Markup:
        return marked(self.text)


class TableBlock(NamedTuple):
    """A table with a header; the columns `left` are aligned to the left."""

    rows: Sequence[Sequence[str]]
    left: tuple[int, ...] = (0,)
    caption: str = ""
    kind: str = "table"


class Matrix(NamedTuple):
    """Correlations between the things `names`, each cell shaded by its size."""

    names: Sequence[str]
    values: np.ndarray
    kind: str = "matrix"


class Charts(NamedTuple):
    """Charts among which a reader can choose, by quantity and experiment."""

    charts: Sequence[Chart]
    kind: str = "charts"


class Code(NamedTuple):
    """Lines to be typed or read as they are."""

    text: str
    kind: str = "code"


class Typeset(NamedTuple):
    """A typeset formula: a picture, and the same as text for all who cannot see it."""

    picture: Markup
    text: str
    kind: str = "formula"


class Download(NamedTuple):
    """A file that is held by the page itself."""

    name: str
    address: str
    text: str
    kind: str = "download"


Block = Prose | TableBlock | Matrix | Charts | Code | Typeset | Download


class Section(NamedTuple):
    """A part of the page with a title; `key` is its address within the page."""

    key: str
    title: str
    blocks: Sequence[Block]


def marked(text: str) -> Markup:
    """Return a text as HTML, shown as it is, with words between backticks as code.

    >>> marked("`a<b>` is < 3")
    Markup('<code>a&lt;b&gt;</code> is &lt; 3')
    """
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(text))))


# The data and the fitted curve, and what the fit leaves of the data

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
    table = prediction.cells(later, name, list(map(_date, times)))
    whose = f" of {shown(label)}" if label else ""
    caption = f"The prediction{whose} beyond the data"
    return TableBlock([table.header, *table.rows], (), caption)


def _date(time: Any) -> str:
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
    views: Any = fit.experiments or {"": fit}
    most = max(1, _MOST_CHARTS // len(fit.data.names))
    if len(views) <= most:
        return views, []
    about = f"The first {most} of {len(views)} experiments are shown."
    return dict(islice(views.items(), most)), [about]


# The estimates

# With more parameters than this the matrix of correlations cannot be read.
_MOST_CORRELATED = 30
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
    if len(kept) <= _MOST_CORRELATED:
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


# The fitted equation: its networks, delayed state and equilibria

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
    if fit.experiments:
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


# The settings, how to repeat the fit, and the versions it was made with

# A saved fit that is larger than this many bytes is not held by the page.
_MOST_BYTES = 200_000
_MOST_LISTED = 40
_FILE = "fit.json"
_CONFIG = "fit.toml"


def repeat(fit: "AbstractFit", saved: str, settings: str | None) -> Section:
    """Return the section on settings: `saved` is the text of the saved fit, and
    `settings` that of the command line's settings, None in Python."""
    rows = [("", ""), *_data_rows(fit.data)]
    if hasattr(fit, "setup"):
        rows += _search_rows(fit)  # type: ignore
    rows.append(("solver", _solver(fit)))
    rows.append(("time", f"{fit.seconds:.2g} s"))
    blocks: list[Block] = [TableBlock(rows, (0, 1))]
    blocks += [Prose(note) for note in fit.data.notes]
    if settings is not None:
        words = (
            f"The file `{_CONFIG}` beside this page holds all settings. With it, "
            f"`ddefind fit --config {_CONFIG} --out again` repeats the fit:"
        )
        blocks += [Prose(words), Code(settings)]
    if len(saved) < _MOST_BYTES:
        held = base64.b64encode(saved.encode("utf-8", "surrogateescape")).decode()
        address = f"data:application/json;base64,{held}"
        words = "This page holds the fit itself, with its data. Save it, and go on:"
        code = f'import ddefind as dd\n\nfit = dd.load("{_FILE}")\nprint(fit)'
        blocks += [Prose(words), Download(_FILE, address, f"Save {_FILE}"), Code(code)]
    packages = [f"{name} {version(name)}" for name in ("jax", "numpy", "scipy")]
    system = f"{platform.system()} ({platform.machine()})"
    python = f"Python {platform.python_version()} on {system}"
    made_with = listed([f"ddefind {__version__}", *packages, python])
    blocks.append(Prose(f"Made with {made_with}."))
    return Section("asked", "Settings, and how to repeat this fit", blocks)


def _data_rows(data: Records) -> list[tuple[str, str]]:
    parts = parts_of(data)
    values = sum(int(np.isfinite(part.x).sum()) for part in parts)
    times = sum(len(part.t) for part in parts)
    span = ""
    if len(parts) == 1:
        ends = source_times(parts[0], parts[0].t[[0, -1]])[1]
        ends = [each if isinstance(each, str) else f"{each:.6g}" for each in ends]
        span = f", from {ends[0]} to {ends[1]}"
    what = f"{values} values at {times} times{span}"
    if len(parts) > 1:
        what = f"{values} values of {len(parts)} experiments"
    label = getattr(data, "label", None)
    rows = [("data", f"{label}: {what}" if label else what)]
    rows.append(("quantities", ", ".join(data.names)))
    if len(parts) > 1:
        rows.append(("experiments", _limited(list(data.labels))))  # type: ignore
    return rows


def _search_rows(fit: "Estimate") -> list[tuple[str, str]]:
    setup = fit.setup
    known = setup.indices_or_values()
    if not _has_delay(fit):
        known.pop("tau", None)  # which nothing reads
    fixed = [f"{n} = {v:.6g}" for n, v in known.items() if isinstance(v, float)]
    method = fit.system.method(fit.starts, fit.seed)
    known = "estimated" if fit.data.sd is None else "given"
    plain = f"Gaussian, standard deviations {known}"
    rows = [("method", method), ("noise", setup.misfit.title(setup) or plain)]
    given = {
        "known values": fixed,
        "given bounds": _bounds(fit),
        "priors": _priors(fit),
    }
    rows += [(name, _limited(texts)) for name, texts in given.items() if texts]
    return [*rows, ("confidence level", f"{100 * fit.level:g}%")]


def _bounds(fit: "Estimate") -> list[str]:
    """Return the bounds that the user gave."""
    found = []
    lower, upper = fit.setup.lower, fit.setup.upper
    for j in named_indices(len(fit.names), fit.networks):
        name = fit.names[j]
        has_low, has_high = fit.setup.is_given[:, j]
        low = f"{lower[j]:.6g} <= " if has_low and np.isfinite(lower[j]) else ""
        high = f" <= {upper[j]:.6g}" if has_high and np.isfinite(upper[j]) else ""
        if low or high:
            found.append(f"{low}{name}{high}")
    return found


def _priors(fit: "Estimate") -> list[str]:
    priors = fit.setup.model.priors
    if priors is None:
        return []
    columns = (np.asarray(each) for each in (priors.mean, priors.weight, priors.log))
    mean, weight, is_log = columns

    def shown(name: str, j: int) -> str:
        what = f"log {name}" if is_log[j] else name
        return f"{what} ~ {mean[j]:.4g} +- {1 / np.sqrt(weight[j]):.2g}"

    # The weights of the first layer of a network have one prior, all others another.
    groups = {}
    for owner, indices in fit.networks.items():
        weights = f"weights of {network_name(owner)}"
        first, last = indices[0], indices[-1]
        if weight[first] == weight[last]:
            groups[weights] = first
        else:
            groups |= {f"first {weights}": first, f"other {weights}": last}
    named = {fit.names[j]: j for j in named_indices(len(fit.names), fit.networks)}
    return [shown(n, j) for n, j in (named | groups).items() if weight[j] > 0]


def _solver(fit: "AbstractFit") -> str:
    name = type(fit.solver).__name__
    if steps := fit.solver.steps():
        return f"{name}, {steps}"
    if fit.max_step is not None:
        return f"{name}, steps of at most {fit.max_step:.4g}"
    if not _has_delay(fit):
        return f"{name}, steps of {float(fit.problem.tau) / fit.steps_per_delay:.4g}"
    return f"{name}, {fit.steps_per_delay} steps for each delay"


def _has_delay(fit: "AbstractFit") -> bool:
    return fit.model is None or fit.model.delayed


def _limited(texts: Sequence[str]) -> str:
    more = len(texts) - _MOST_LISTED
    return ", ".join(texts[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
