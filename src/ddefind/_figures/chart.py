"""A chart as a description: matplotlib draws it in figures and in the pictures of a
page, and scripts draw it again in the browser."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

Kind = Literal["line", "dashed", "dotted", "dots", "limits", "band"]
# What something in a chart is, which decides its colour.
Role = Literal["data", "curve", "band", "noisy", "limit", "start"]
# Numbers are written with this many digits, which is finer than a pixel.
_DIGITS = 6


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
    """What a chart shows.

    `title` is above it and `note` below; `facets` are its quantity and experiment, by
    which a reader chooses among many charts. `x` may be dates, as seconds since 1970 in
    UTC, or whole numbers. `y_range` is set where the values alone would not show what
    matters. On an axis `y_is_wide`, zero and several powers of ten are seen at once, by
    the inverse hyperbolic sine. A curve that `is_loop` goes back and forth, and is a
    picture only."""

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
        """Return the description that the script of the page draws. It can stand inside
        of a `script` element: no text can end that."""
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
