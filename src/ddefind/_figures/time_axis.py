"""Axes of times, as they stand in the source of the data: numbers or dates."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from .._data.data import Data
from .panels import axis_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Times that begin so many records after zero are shown as counted from the first one:
# their own digits would all be the same.
_FAR = 1e6
_MICROSECONDS_PER_DAY = 86_400_000_000
_MARGIN = 0.015  # of the length of the axis


def axis_times(data: Data, t: np.ndarray) -> np.ndarray:
    """Return times of the data as an axis shows them."""
    if isinstance(data.origin, str):
        zero = np.datetime64(_first(data.origin).replace(tzinfo=None), "us")
        steps = np.round(np.asarray(t) * _MICROSECONDS_PER_DAY)
        return zero + steps.astype("timedelta64[us]")
    return np.asarray(t) if _is_far(data) else np.asarray(t) + data.origin


def set_time_axis(ax: "Axes", data: Data, first: float, last: float) -> None:
    """Let a time axis reach from `first` to `last`, times of the data, with ticks that
    do not overlap."""
    margin = _MARGIN * (last - first)
    limits = axis_times(data, np.array([first - margin, last + margin]))
    if isinstance(data.origin, str):
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(minticks=3, maxticks=8)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    ax.set_xlim(limits[0], limits[1])


def time_label(data: Data) -> str:
    """Return the label of the time axis of a figure."""
    return axis_label(time_title(data))


def time_title(data: Data) -> str:
    """Return what the times are called."""
    label = data.axis_labels[0]
    if isinstance(data.origin, str):
        return f"{label} (UTC)" if _first(data.origin).tzinfo else label
    return f"{label} - {data.origin:.15g}" if _is_far(data) else label


def _first(origin: str) -> datetime:
    """Return the date that is time 0, in UTC if it has a time zone."""
    first = datetime.fromisoformat(origin)
    return first.astimezone(UTC) if first.tzinfo else first


def _is_far(data: Data) -> bool:
    return not isinstance(data.origin, str) and abs(data.origin) > _FAR * data.T
