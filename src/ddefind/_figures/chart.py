"""The charts of a fit as descriptions: trajectories, residuals, profiles, learned
functions, and the course of a search.

Matplotlib draws them in figures and in the pictures of a page, and scripts draw them
again in the browser."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

from .._data.data import Data

if TYPE_CHECKING:
    from .._inference.learned_function import FunctionCurve, LearnedFunction
    from .._inference.predict import Prediction
    from .._inference.profile import Profile
    from .._search.batches import Minimum


Kind = Literal["line", "dashed", "dotted", "dots", "limits", "band"]
# The role of something in a chart, which decides its colour.
Role = Literal["data", "curve", "band", "noisy", "limit", "start"]
# Numbers are written with this many digits, which is finer than a pixel.
_DIGITS = 6
# Times that begin this many records after zero are counted from the first one: their
# first digits would all be the same.
_FAR_FROM_ZERO = 1e6
_MICROSECONDS_PER_DAY = 86_400_000_000
# Fits that are farther apart than this share of the range of a profile have no line
# between them.
_FAR_APART = 0.75
# What a band may add to the height of a chart, in heights of the learned function.
_FAR_BAND = 0.8
_MOST_VISITED, _MOST_EPOCHS = 400, 500


@final
@dataclass(frozen=True)
class Series:
    """One curve, cloud of dots, or band from `y` to `high`. `limits` are dots that
    stand for values below them. Values that are not finite are gaps."""

    label: str
    kind: Kind
    role: Role
    x: np.ndarray
    y: np.ndarray
    high: np.ndarray | None = None


@final
@dataclass(frozen=True)
class Mark:
    """A straight line across a chart: at `value` of the axis `along`, with a label."""

    along: Literal["x", "y"]
    value: float
    label: str
    role: Role


@final
@dataclass(frozen=True)
class Chart:
    """The description of a chart.

    `title` is above it and `note` below; `facets` are its quantity and experiment, by
    which a reader chooses among many charts. `x` may be dates, as seconds since 1970 in
    UTC, or whole numbers. `y_range` is set where the values alone would not show what
    matters. An axis `y_is_wide` shows zero and several powers of ten at once. A curve
    that `is_loop` goes back and forth, and is a picture only."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    marks: Sequence[Mark] = ()
    note: str = ""
    facets: tuple[str, str] = ("", "")
    y_range: tuple[float, float] | None = None
    x_is_date: bool = False
    x_is_whole: bool = False
    y_is_wide: bool = False
    is_small: bool = False
    is_loop: bool = False

    @property
    def x_limits(self) -> tuple[float, float]:
        """The range of the horizontal axis, with a margin."""
        values = np.concatenate([each.x for each in self.series])
        low, high = float(values.min()), float(values.max())
        margin = 0.015 * ((high - low) or abs(high) or 1.0)
        return low - margin, high + margin

    @property
    def y_limits(self) -> tuple[float, float]:
        """The range of the vertical axis: as given, or all values with a margin."""
        if self.y_range is not None:
            return self.y_range
        return range_of([y for s in self.series for y in (s.y, s.high)])

    def as_json(self) -> str:
        """Return the description for the script of the page. It can stand inside of a
        `script` element: no text can end that."""
        content = {
            "x": self.x_label,
            "y": self.y_label,
            "isDate": self.x_is_date,
            "isWhole": self.x_is_whole,
            "isWide": self.y_is_wide,
            "xRange": self.x_limits,
            "yRange": self.y_limits,
            "series": [_series(each, self.x_is_date) for each in self.series],
            "marks": [vars(mark) for mark in self.marks],
        }
        text = json.dumps(content, allow_nan=False, separators=(",", ":"))
        return text.replace("<", "\\u003c").replace(">", "\\u003e")


def range_of(
    arrays: Sequence[np.ndarray | None], margin: float = 0.06
) -> tuple[float, float]:
    """Return the range of all finite values, with a margin."""
    values = np.concatenate([each for each in arrays if each is not None])
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    room = margin * ((high - low) or abs(high) or 1.0)
    return low - room, high + room


def _series(series: Series, is_date: bool) -> dict[str, Any]:
    content = {
        "label": series.label,
        "kind": series.kind,
        "role": series.role,
        "x": _numbers(series.x, 10 if is_date else _DIGITS + 2),
        "y": _numbers(series.y, _DIGITS),
    }
    if series.high is not None:
        content["high"] = _numbers(series.high, _DIGITS)
    return content


def _numbers(values: np.ndarray, digits: int) -> list[float | None]:
    """Round numbers to this many significant digits; None where there is a gap."""
    rounded = (float(f"{value:.{digits}g}") for value in values.tolist())
    return [value if np.isfinite(value) else None for value in rounded]


def thinned(count: int, most: int) -> np.ndarray:
    """Return the numbers of at most `most` of `count` things, spread evenly."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, most).round().astype(int))


def axis_times(data: Data, t: np.ndarray) -> np.ndarray:
    """Return times as in their source; dates as seconds since 1970 in UTC."""
    if isinstance(data.origin, str):
        zero = np.datetime64(_first(data.origin).replace(tzinfo=None), "us")
        steps = np.round(np.asarray(t) * _MICROSECONDS_PER_DAY)
        return (zero.astype(np.int64) + steps) / 1e6
    return np.asarray(t) if _is_far(data) else np.asarray(t) + data.origin


def time_title(data: Data) -> str:
    """Return the title of the time axis."""
    label = data.axis_labels[0]
    if isinstance(data.origin, str):
        return f"{label} (UTC)" if _first(data.origin).tzinfo else label
    return f"{label} - {data.origin:.15g}" if _is_far(data) else label


def _first(origin: str) -> datetime:
    """Return the date that is time 0, in UTC if it has a time zone."""
    first = datetime.fromisoformat(origin)
    return first.astimezone(UTC) if first.tzinfo else first


def _is_far(data: Data) -> bool:
    if isinstance(data.origin, str):
        return False
    return abs(data.origin) > _FAR_FROM_ZERO * data.T


def curve_series(data: Data, t: np.ndarray, values: np.ndarray, name: str) -> Series:
    """Describe a curve without a band."""
    return Series(name, "line", "curve", axis_times(data, t), values)


def prediction_series(
    prediction: "Prediction", index: int, name: str = "fitted curve"
) -> list[Series]:
    """Describe the bands and the curve, dotted where the data do not determine it."""
    order = np.argsort(prediction.t)
    data, share = prediction.data, f"{100 * prediction.level:g}%"
    t, mean = axis_times(data, prediction.t[order]), prediction.mean[order, index]
    is_known = prediction.determined[order, index]
    ends = {key: band[order, index] for key, band in prediction.known_bands().items()}
    found = []
    if is_known.any() and np.isfinite(data.x[:, index]).any():
        new = f"{share} band of a new measurement"
        noisy = ends["noisy_low"], ends["noisy_high"]
        found.append(Series(new, "band", "noisy", t, *noisy))
    if is_known.any():
        band = f"{share} confidence band of the curve"
        known = np.where(is_known, mean, np.nan)
        found.append(Series(band, "band", "band", t, ends["low"], ends["high"]))
        found.append(Series(name, "line", "curve", t, known))
    if not is_known.all():
        unknown = np.where(is_known, np.nan, mean)
        label = "curve that the data do not determine"
        found.append(Series(label, "dotted", "curve", t, unknown))
    return found


def trajectory_chart(
    data: Data,
    index: int,
    curves: Sequence[Series],
    label: str = "",
    most: int | None = None,
    span: tuple[float, float] = (-np.inf, np.inf),
) -> Chart:
    """Describe a quantity of the experiment `label`: its curves, and at most `most` of
    the values that were measured within the `span` of times."""
    dots, note = data_series(data, index, most or len(data.x), span)
    bands = [each for each in curves if each.high is not None]
    lines = [each for each in curves if each.high is None]
    end = float(axis_times(data, np.array([data.T]))[0])
    goes_on = any(each.x[-1] > end for each in curves)
    return Chart(
        title=_title(label, data.names[index]),
        x_label=time_title(data),
        y_label=data.axis_labels[index + 1],
        series=[*bands, *dots, *lines],
        marks=[Mark("x", end, "end of the data", "limit")] if goes_on else [],
        note=note,
        facets=(data.names[index], label),
        # The curve of a bad start may be far outside.
        y_range=_heights([*dots, *(s for s in lines if s.role != "start")], bands),
        x_is_date=isinstance(data.origin, str),
    )


def _title(label: str, name: str) -> str:
    return " – ".join(part for part in (label, name) if part)


def data_series(
    data: Data, index: int, most: int, span: tuple[float, float] = (-np.inf, np.inf)
) -> tuple[list[Series], str]:
    """Describe measured values and those below a limit, with a note if some are left
    out."""
    values = data.x[:, index]
    is_within = (data.t >= span[0]) & (data.t <= span[1])
    rows = np.flatnonzero(np.isfinite(values) & is_within)
    drawn = rows[thinned(len(rows), most)]
    note = ""
    if len(drawn) < len(rows):
        note = f"{len(drawn):,} of the {len(rows):,} values are drawn."
    is_below = np.zeros(len(values), bool)
    if data.below is not None:
        is_below = data.below[:, index]
    below, measured = drawn[is_below[drawn]], drawn[~is_below[drawn]]
    kinds: list[tuple[str, Kind, np.ndarray]] = [("data", "dots", measured)]
    kinds.append(("below", "limits", below))
    return [
        Series(label, kind, "data", axis_times(data, data.t[at]), values[at])
        for label, kind, at in kinds
        if len(at)
    ], note


def _heights(shown: Sequence[Series], bands: Sequence[Series]) -> tuple[float, float]:
    """Return a range that shows all values of `shown`, and the parts of the bands that
    are no farther from these than they are from each other."""
    values = [each.y for each in shown]
    low, high = range_of(values, 0.0)
    span = (high - low) or abs(high) or 1.0
    ends = [end for each in bands for end in (each.y, each.high)]
    lowest, highest = range_of([*values, *ends], 0.0)
    room = 0.06 * span
    return max(lowest, low - span) - room, min(highest, high + span) + room


def residual_chart(
    data: Data, index: int, values: np.ndarray, label: str = "", most: int | None = None
) -> Chart:
    """Describe the residuals `values` of a quantity, in units of the noise."""
    rows = np.flatnonzero(np.isfinite(values))
    drawn = rows[thinned(len(rows), most or len(rows))]
    times, name = axis_times(data, data.t[drawn]), data.names[index]
    height = max(3.2, 1.1 * float(np.max(np.abs(values[rows]), initial=0.0)))
    note = f"{len(drawn):,} of the {len(rows):,} residuals are drawn."
    return Chart(
        title=_title(label, name),
        x_label=time_title(data),
        y_label=f"residual of {name}",
        series=[Series("residual", "dots", "data", times, values[drawn])],
        marks=[Mark("y", at, "", "limit") for at in (-2.0, 0.0, 2.0)],
        note=note if len(drawn) < len(rows) else "",
        facets=(name, label),
        y_range=(-height, height),
        x_is_date=isinstance(data.origin, str),
    )


def profile_chart(profile: "Profile", share: str) -> Chart:
    """Describe a profile: its fits, the rise that bounds the interval of the confidence
    `share`, and the ends of the interval."""
    height = profile.quantile**2
    finer, rise = _smooth_profile(profile)
    marks = [Mark("x", e, "", "limit") for e in profile.interval if np.isfinite(e)]
    top = float(np.clip(1.1 * np.max(profile.r) ** 2, 1.5 * height, 3 * height))
    return Chart(
        title=profile.name,
        x_label=profile.name,
        y_label="rise of chi-square",
        series=[
            Series("profile", "line", "curve", finer, rise),
            Series("fits", "dots", "curve", profile.values, profile.r**2),
        ],
        marks=[*marks, Mark("y", height, share, "start")],
        y_range=(-0.06 * height, top),
        is_small=True,
    )


def _smooth_profile(profile: "Profile") -> tuple[np.ndarray, np.ndarray]:
    """Return values between those that were fitted, and the rise of chi-square there.

    The signed square root of the rise is interpolated linearly, since it is almost a
    straight line, and then squared. Across most of the range there is nothing to
    interpolate: values far apart, such as two signs, belong to different minima.
    """
    values = profile.values
    finer = np.linspace(values[:-1], values[1:], 12).T.ravel()
    signed_root = np.sign(values - profile.estimate) * profile.r
    rise = np.interp(finer, values, signed_root) ** 2
    is_far = np.repeat(np.diff(values) > _FAR_APART * np.ptp(values), 12)
    return finer, np.where(is_far, np.nan, rise)


def function_charts(
    function: "LearnedFunction", level: float = 0.95
) -> list[list[Chart]]:
    """Describe the curves of each output of a network, in charts of the same height."""
    curves = function.curves(level)
    found = []
    for output in range(function.network.outputs):
        shown = [curve for curve in curves if curve.output == output]
        heights = range_of([part for c in shown for part in _visited_part(c)], 0.1)
        charts = [_function_chart(function, each, heights, level) for each in shown]
        found.append([replace(each, is_small=len(shown) > 1) for each in charts])
    return found


def _function_chart(
    function: "LearnedFunction",
    curve: "FunctionCurve",
    heights: tuple[float, float],
    level: float,
) -> Chart:
    name = f"{function.name}({', '.join(function.arguments)})"
    if function.network.outputs > 1:
        name = f"{name}[{curve.output}]"
    u, inside = curve.u, curve.visited
    beyond = ~inside
    # The last visited point is part of both lines, so that they meet.
    beyond[1:] |= ~inside[:-1]
    beyond[:-1] |= ~inside[1:]

    def part(is_in: np.ndarray, *values: np.ndarray) -> list[np.ndarray]:
        return [np.where(is_in, each, np.nan) for each in values]

    series = []
    if curve.low is not None and curve.high is not None:
        ends, label = (curve.low, curve.high), f"{100 * level:g}% confidence band"
        series.append(Series(label, "band", "band", u, *part(inside, *ends)))
        series.append(Series("band beyond", "band", "noisy", u, *part(beyond, *ends)))
    (learned,), (further,) = part(inside, curve.value), part(beyond, curve.value)
    label = curve.label or "learned function"
    series.append(Series(label, "line", "curve", u, learned))
    series.append(Series("beyond", "dashed", "curve", u, further))
    visited = np.unique(function.visited[:, 0])
    visited = visited[(visited >= u[0]) & (visited <= u[-1])]
    visited = visited[thinned(len(visited), _MOST_VISITED)]
    floor = np.full(len(visited), heights[0] + 0.02 * (heights[1] - heights[0]))
    series.append(Series("visited", "dots", "data", visited, floor))
    return Chart(
        title=f"{name}, {curve.label}" if curve.label else name,
        x_label=function.arguments[0],
        y_label=name,
        series=series,
        y_range=heights,
    )


def _visited_part(curve: "FunctionCurve") -> list[np.ndarray]:
    """Return the values of a curve and its band where it was visited, without a band
    that is far from the curve."""
    values = curve.value[curve.visited]
    ends = [end for end in (curve.low, curve.high) if end is not None]
    low, high = float(values.min()), float(values.max())
    far = _FAR_BAND * ((high - low) or abs(high) or 1.0)
    return [values, *(np.clip(e[curve.visited], low - far, high + far) for e in ends)]


def search_chart(minima: Sequence["Minimum"], variance: float) -> Chart:
    """Describe how far above the lowest chi-square the starts of a search ended;
    `variance` is that of the residuals."""
    losses = np.repeat([m.loss for m in minima], [max(m.starts, 1) for m in minima])
    rises = (np.sort(losses) - losses.min()) / variance
    starts = np.arange(1.0, len(rises) + 1)
    return Chart(
        title="Where the starts ended",
        x_label="start, sorted",
        y_label="chi-square above the lowest",
        series=[Series("starts", "dots", "curve", starts, rises)],
        y_range=(-0.6, max(10.0, 2 * float(rises.max()))),
        x_is_whole=True,
        y_is_wide=True,
    )


def loss_chart(losses: np.ndarray) -> Chart | None:
    """Describe the loss in each epoch; None if fewer than two of them have one."""
    is_there = np.flatnonzero(np.isfinite(losses) & (losses > 0))
    if len(is_there) < 2:
        return None
    drawn = is_there[:: -(-len(is_there) // _MOST_EPOCHS)]
    values = np.log10(losses[drawn])
    return Chart(
        title="The loss",
        x_label="epoch",
        y_label="log10 of the loss",
        series=[Series("loss", "line", "curve", drawn.astype(float), values)],
    )
