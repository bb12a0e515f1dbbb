"""Data, fitted curve with its bands, and the prediction beyond the data."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._data.data import Data
from .._data.times import source_times
from .._figures.time_axis import axis_times, time_title
from .._util.errors import shown
from ..plots import learned_curve
from .blocks import Block, Charts, Section, Table, Text
from .chart import Chart, Kind, Mark, Series, range_of, thinned
from .ticks import ticks
from .views import times_as_numbers, views_of

if TYPE_CHECKING:
    from .._inference.predict import Prediction
    from .._results.result import AbstractFit

# The prediction goes on beyond the data for this share of their length.
_BEYOND = 0.25
# The number of points of all curves, and of a single one, so that the page stays small.
_ALL_POINTS, _MOST_POINTS, _FEWEST_POINTS = 6000, 601, 101
_ALL_DOTS = 6000
# How many experiments have a table of their prediction, and how many times it has.
_MOST_TABLES, _ROWS = 4, 6


def course(fit: "AbstractFit", until: float | None) -> Section:
    """The section on data and curve; `until` is the last time of the prediction."""
    views, left_out = views_of(fit)
    charts: list[Chart] = []
    tables: list[Block] = []
    notes: dict[str, None] = {}
    count = len(views) * len(fit.data.names)
    points = int(np.clip(_ALL_POINTS // count, _FEWEST_POINTS, _MOST_POINTS))
    for label, view in views.items():
        said, trouble = _predict(view, until, points)
        notes |= dict.fromkeys(trouble)
        if said is not None:
            notes |= dict.fromkeys(said.notes)
            if len(views) <= _MOST_TABLES and said.t[-1] > view.data.T:
                tables.append(_table(label, view.data, said))
        for index in range(len(view.data.names)):
            dots = max(_ALL_DOTS // count, 200)
            charts.append(_chart(label, view, index, said, points, dots))
    words = [Text(left_out)] if left_out else []
    blocks = [*words, Charts(charts), *map(Text, notes), *tables]
    return Section("course", "Data and fitted curve", blocks)


def _predict(
    fit: "AbstractFit", until: float | None, points: int
) -> "tuple[Prediction | None, list[str]]":
    """The prediction of a fit, as far as it can be computed, and why not farther."""
    if not hasattr(fit, "predict"):
        return None, []
    last = fit.data.T + _BEYOND * (fit.data.T - fit.time_zero)
    last = last if until is None else max(until, fit.data.T)
    trouble = []
    for end in dict.fromkeys((last, fit.data.T)):
        times = np.linspace(fit.time_zero, end, points)
        times = np.union1d(times, _round_times(fit.data, end))
        try:
            said = fit.predict(times, level=fit.level)  # type: ignore
        except ValueError as error:
            trouble.append(f"There is no prediction beyond the data. {error}")
            continue
        if np.all(np.isfinite(said.mean)):
            return said, trouble
        trouble.append("The fitted equation explodes beyond the data.")
    return None, trouble[:1]


def _round_times(data: Data, end: float) -> np.ndarray:
    """Some times after the data: round numbers in their source or, if that has dates,
    round numbers of days."""
    if end <= data.T:
        return np.zeros(0)
    zero = 0.0 if isinstance(data.origin, str) else data.origin
    limits = data.T + zero, end + zero
    found = np.array([tick.at for tick in ticks(limits, _ROWS)])
    return found[(found - zero) > data.T] - zero


def _chart(
    label: str,
    fit: "AbstractFit",
    index: int,
    said: "Prediction | None",
    points: int,
    dots: int,
) -> Chart:
    """One quantity of one experiment."""
    data, name = fit.data, fit.data.names[index]
    series, drawn = [], []
    if said is None:
        t = np.linspace(fit.time_zero, data.T, points)
        curve = learned_curve(fit, t)[:, index]  # type: ignore
        series.append(Series("fitted curve", "line", "curve", _times(data, t), curve))
        drawn.append(curve)
    else:
        series += _bands(data, said, index)
        drawn += [each.y for each in series if each.high is None]
    shown_dots, note = _dots(data, index, dots)
    series += shown_dots
    drawn += [each.y for each in shown_dots]
    ends = said is not None and said.t[-1] > data.T
    end = float(_times(data, np.array([data.T]))[0])
    return Chart(
        title=" – ".join(part for part in (label, name) if part),
        x_label=time_title(data),
        y_label=data.axis_labels[index + 1],
        series=series,
        marks=[Mark("x", end, "end of the data", "limit")] if ends else [],
        note=note,
        facets=(name, label),
        y_range=_heights(drawn, series),
        x_is_date=isinstance(data.origin, str),
    )


def _times(data: Data, t: np.ndarray) -> np.ndarray:
    return times_as_numbers(axis_times(data, t))


def _bands(data: Data, said: "Prediction", index: int) -> list[Series]:
    """The bands of a prediction, and its curve: dotted where the data do not determine
    it."""
    t, share = _times(data, said.t), f"{100 * said.level:g}%"
    is_known = said.determined[:, index]

    def known(values: np.ndarray) -> np.ndarray:
        return np.where(is_known, values[:, index], np.nan)

    new = f"{share} band of a new measurement"
    band = f"{share} confidence band of the curve"
    mean, low, high = said.mean[:, index], known(said.low), known(said.high)
    noisy = known(said.noisy_low), known(said.noisy_high)
    found = []
    if is_known.any() and np.isfinite(data.x[:, index]).any():
        found.append(Series(new, "band", "noisy", t, *noisy))
    if is_known.any():
        found += [
            Series(band, "band", "band", t, low, high),
            Series("fitted curve", "line", "curve", t, known(said.mean)),
        ]
    if not is_known.all():
        unknown = np.where(is_known, np.nan, mean)
        name = "curve that the data do not determine"
        found.append(Series(name, "dotted", "curve", t, unknown))
    return found


def _dots(data: Data, index: int, most: int) -> tuple[list[Series], str]:
    """The measured values, and those below a limit; and a note if not all are drawn."""
    values = data.x[:, index]
    rows = np.flatnonzero(np.isfinite(values))
    drawn = rows[thinned(len(rows), most)]
    note = (
        ""
        if len(drawn) == len(rows)
        else (f"{len(drawn):,} of the {len(rows):,} values are drawn.")
    )
    is_below = np.zeros(len(values), bool)
    if data.below is not None:
        is_below = data.below[:, index]
    found = []
    kinds: tuple[tuple[str, Kind], ...] = (("data", "dots"), ("below", "limits"))
    for (label, kind), chosen in zip(kinds, (~is_below, is_below)):
        at = drawn[chosen[drawn]]
        if len(at):
            t = _times(data, data.t[at])
            found.append(Series(label, kind, "data", t, values[at]))
    return found, note


def _heights(drawn: list[np.ndarray], series: list[Series]) -> tuple[float, float]:
    """A range that shows all of `drawn`, and of the bands as much as is not farther
    from these than they are from each other."""
    low, high = range_of(drawn, 0.0)
    span = (high - low) or abs(high) or 1.0
    bands = [y for each in series if each.high is not None for y in (each.y, each.high)]
    lowest, highest = range_of([*drawn, *bands], 0.0)
    room = 0.06 * span
    return max(lowest, low - span) - room, min(highest, high + span) + room


def _table(label: str, data: Data, said: "Prediction") -> Table:
    """Some times after the data, with the bands there."""
    later = np.flatnonzero(np.isin(said.t, _round_times(data, float(said.t[-1]))))
    name, times = source_times(data, said.t[later])
    cells = said.cells(later, name, list(map(_shown, times)))
    whose = f" of {shown(label)}" if label else ""
    return Table(
        [cells.header, *cells.rows], (), f"The prediction{whose} beyond the data"
    )


def _shown(time: Any) -> str:
    """A time of the source; a date without its time of day if that is midnight."""
    return time.removesuffix("T00:00:00") if isinstance(time, str) else f"{time:.6g}"
