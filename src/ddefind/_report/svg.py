"""A chart as a picture (SVG), for paper and for readers without JavaScript.

It names only what each part is (`curve`, `data` ...), so that the style of the page
colours it, in light and in dark."""

from collections.abc import Iterator
from html import escape
from typing import final

import numpy as np

from .chart import Chart, Mark, Series
from .ticks import Kind, ticks

_WIDTH, _HEIGHT, _SMALL_WIDTH, _SMALL_HEIGHT = 760, 260, 330, 230
_LEFT, _RIGHT, _BOTTOM = 62, 12, 40
_LINE_OF_LEGEND = 18
_WIDTH_OF_LETTER = 6.9


def svg(chart: Chart) -> str:
    """The picture of a chart."""
    width = _SMALL_WIDTH if chart.is_small else _WIDTH
    legend, top = _legend(chart, width)
    height = (_SMALL_HEIGHT if chart.is_small else _HEIGHT) + top
    frame = _Frame(chart, width, height, top)
    axes = [*frame.horizontal_axis(), *frame.vertical_axis()]
    drawn = [_draw(frame, series) for series in chart.series]
    marks = [_draw_mark(frame, mark) for mark in chart.marks]
    name = escape(f"{chart.title}: {chart.y_label} against {chart.x_label}")
    inside = (
        f'<svg x="{_LEFT}" y="{top}" width="{frame.width}" height="{frame.height}" '
        f'viewBox="{_LEFT} {top} {frame.width} {frame.height}">'
        f"{''.join([*drawn, *marks])}</svg>"
    )
    return (
        f'<svg class="picture" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{name}">{"".join([*axes, inside, *legend])}</svg>'
    )


@final
class _Frame:
    """The place of values in a picture, and its axes."""

    def __init__(self, chart: Chart, width: float, height: float, top: float):
        self.chart = chart
        self.top, self.bottom = top, height - _BOTTOM
        self.left, self.right = _LEFT, width - _RIGHT
        self.width, self.height = self.right - self.left, self.bottom - top
        self._x, self._y = chart.x_limits, tuple(map(self._bent, chart.y_limits))

    def _bent(self, y: np.ndarray | float) -> np.ndarray | float:
        return np.arcsinh(y) if self.chart.y_is_wide else y

    def x(self, values: np.ndarray | float) -> np.ndarray:
        low, high = self._x
        return self.left + (np.asarray(values) - low) / (high - low) * self.width

    def y(self, values: np.ndarray | float) -> np.ndarray:
        low, high = self._y
        share = (self._bent(np.asarray(values)) - low) / (high - low)
        # What is far outside is cut by the frame; browsers know no huge numbers.
        return self.bottom - np.clip(share, -9, 10) * self.height

    def horizontal_axis(self) -> Iterator[str]:
        yield _line(self.left, self.bottom, self.right, self.bottom, "axis")
        for tick in ticks(self._x, 4 if self.chart.is_small else 8, self._x_kind()):
            x = float(self.x(tick.at))
            yield _line(x, self.bottom, x, self.bottom + 4, "axis")
            yield _text(x, self.bottom + 17, tick.label, "middle")
        middle = (self.left + self.right) / 2
        yield _text(middle, self.bottom + 34, self.chart.x_label, "middle")

    def vertical_axis(self) -> Iterator[str]:
        kind = "wide" if self.chart.y_is_wide else "round"
        for tick in ticks(self.chart.y_limits, 4 if self.chart.is_small else 5, kind):
            y = float(self.y(tick.at))
            yield _line(self.left, y, self.right, y, "grid")
            yield _text(self.left - 6, y + 4, tick.label, "end")
        middle = (self.top + self.bottom) / 2
        turned = f'transform="rotate(-90 13 {middle:.1f})"'
        yield _text(13, middle, _shortened(self.chart.y_label, 34), "middle", turned)

    def _x_kind(self) -> Kind:
        if self.chart.x_is_date:
            return "dates"
        return "whole" if self.chart.x_is_whole else "round"


def _draw(frame: _Frame, series: Series) -> str:
    x, y = frame.x(series.x), frame.y(series.y)
    if series.high is not None:
        return _band(x, y, frame.y(series.high), series.role)
    is_there = np.isfinite(series.y)
    if series.kind in ("dots", "limits"):
        shape = "v5 m-3 -3 l3 3 l3 -3 m-3 3" if series.kind == "limits" else "h0"
        path = "".join(
            f"M{a:.1f} {b:.1f}{shape}" for a, b in zip(x[is_there], y[is_there])
        )
        return f'<path class="{series.kind} {series.role}" d="{path}"/>'
    path = "".join(f"M{_points(x[run], y[run])}" for run in _runs(is_there))
    return f'<path class="line {series.kind} {series.role}" d="{path}"/>'


def _band(x: np.ndarray, low: np.ndarray, high: np.ndarray, role: str) -> str:
    path = ""
    for run in _runs(np.isfinite(low) & np.isfinite(high)):
        back = run[::-1]
        path += f"M{_points(x[run], high[run])}L{_points(x[back], low[back])}Z"
    return f'<path class="{role}" d="{path}"/>'


def _runs(is_there: np.ndarray) -> list[np.ndarray]:
    """The stretches of neighbouring values without a gap."""
    places = np.flatnonzero(is_there)
    ends = np.flatnonzero(np.diff(places) > 1) + 1
    return [run for run in np.split(places, ends) if len(run)]


def _points(x: np.ndarray, y: np.ndarray) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist()))


def _draw_mark(frame: _Frame, mark: Mark) -> str:
    if mark.along == "x":
        x = float(frame.x(mark.value))
        line = _line(x, frame.top, x, frame.bottom, f"mark {mark.role}")
        if x + _WIDTH_OF_LETTER * len(mark.label) > frame.right:
            return line + _text(x - 4, frame.top + 12, mark.label, "end")
        return line + _text(x + 4, frame.top + 12, mark.label, "start")
    y = float(frame.y(mark.value))
    line = _line(frame.left, y, frame.right, y, f"mark {mark.role}")
    return line + _text(frame.right - 4, y - 4, mark.label, "end")


def _legend(chart: Chart, width: float) -> tuple[list[str], float]:
    """The names of the series above the picture, if there are several, in as many lines
    as they need; and the height of these."""
    if len(chart.series) < 2:
        return [], 8.0
    parts, x, line = [], float(_LEFT), 1
    for series in chart.series:
        label = _shortened(series.label, int((width - _LEFT) / _WIDTH_OF_LETTER) - 6)
        room = 30 + _WIDTH_OF_LETTER * len(label)
        if x + room > width and x > _LEFT:
            x, line = float(_LEFT), line + 1
        y = line * _LINE_OF_LEGEND - 5
        parts += [_key(series, x, y - 4), _text(x + 24, y, label, "start")]
        x += room + 8
    return parts, line * _LINE_OF_LEGEND + 6.0


def _key(series: Series, x: float, y: float) -> str:
    """The sign of a series in the legend."""
    if series.high is not None:
        sign = f'd="M{x} {y - 5}h18v10h-18z"'
        return f'<path class="{series.role}" {sign}/>'
    if series.kind in ("dots", "limits"):
        return f'<path class="dots {series.role}" d="M{x + 9} {y}h0"/>'
    return f'<path class="line {series.kind} {series.role}" d="M{x} {y}h18"/>'


def _line(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    return f'<path class="{name}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}'
    return f"<text {place}>{escape(text)}</text>"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
