"""The ticks of an axis, by the locators of matplotlib."""

from datetime import UTC, datetime
from typing import Literal, NamedTuple

import numpy as np


class Tick(NamedTuple):
    """A value on an axis, and its label."""

    at: float
    label: str


Kind = Literal["round", "whole", "wide", "dates"]


def ticks(limits: tuple[float, float], most: int, kind: Kind = "round") -> list[Tick]:
    """Round values within the limits: at most some `most` of them. On a wide axis they
    are zero and powers of ten; dates are seconds since 1970."""
    if kind == "dates":
        return _dates(limits, most)
    if kind == "wide":
        return _within(limits, [Tick(0.0, "0"), *_powers(limits[1])])
    from matplotlib.ticker import MaxNLocator

    steps, integer = [1, 2, 2.5, 5, 10], kind == "whole"
    locator = MaxNLocator(nbins=most, steps=steps, integer=integer, min_n_ticks=1)
    values = np.asarray(locator.tick_values(*limits)).tolist()
    labels = _labels(values)
    return _within(limits, list(map(Tick, values, labels)))


def _labels(values: list[float]) -> list[str]:
    """Evenly spaced numbers with as many decimals as tell them apart; with an exponent
    if they are very large or very small."""
    step = abs(values[-1] - values[0]) / max(len(values) - 1, 1)
    form = "f" if step >= 1e-4 and max(map(abs, values)) < 1e7 else "e"
    labels: list[str] = []
    for decimals in range(13):
        labels = [f"{value:.{decimals}{form}}" for value in values]
        away = (abs(float(label) - at) for label, at in zip(labels, values))
        if max(away) <= 1e-6 * step:
            break
    return ["0" if abs(at) < 1e-6 * step else text for text, at in zip(labels, values)]


def _powers(highest: float) -> list[Tick]:
    top = int(np.floor(np.log10(max(highest, 1.0))))
    step = max(1, top // 4)
    return [Tick(10.0**n, f"{10.0**n:g}") for n in range(0, top + 1, step)]


def _within(limits: tuple[float, float], found: list[Tick]) -> list[Tick]:
    low, high = limits
    return [tick for tick in found if low <= tick.at <= high]


def _dates(limits: tuple[float, float], most: int) -> list[Tick]:
    from matplotlib.dates import AutoDateFormatter, AutoDateLocator, date2num

    ends = [datetime.fromtimestamp(second, UTC) for second in limits]
    locator = AutoDateLocator(minticks=3, maxticks=min(most, 6))
    numbers = np.asarray(locator.tick_values(*ends))  # type: ignore
    numbers = numbers[(numbers >= date2num(ends[0])) & (numbers <= date2num(ends[1]))]
    form = AutoDateFormatter(locator)
    return [Tick(86400.0 * number, str(form(number))) for number in numbers.tolist()]
