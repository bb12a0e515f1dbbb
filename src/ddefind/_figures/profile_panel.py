"""The profile of one parameter on its panel."""

from typing import TYPE_CHECKING

import numpy as np

from .colours import DATA, LEARNED, START
from .panels import axis_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .._inference.profile import Profile


# Fits that are farther apart than this share of the range have no line between them.
_FAR = 0.75


def draw_profile(ax: "Axes", profile: "Profile", share: str, top: float) -> None:
    """Draw a profile up to `top` times the rise that bounds its interval."""
    from matplotlib.ticker import MaxNLocator

    if not len(profile.values):
        middle, about = (0.5, 0.5), "not followed"
        ax.annotate(about, middle, xycoords="axes fraction", ha="center")
        ax.set_xlabel(profile.name)
        return
    ax.plot(*smooth_profile(profile), color=LEARNED, lw=1)
    ax.plot(profile.values, profile.r**2, ".", color=LEARNED, ms=4)
    height = profile.quantile**2
    ax.axhline(height, color=START, lw=1, ls="--")
    low, high = profile.interval
    for end in (low, high):
        if np.isfinite(end):
            ax.axvline(end, color=DATA, lw=1, ls=":")
    ax.set_ylim(-0.06 * height, 1.05 * top * height)
    # In the middle, where the profile is low.
    ax.annotate(
        share,
        (0.5, height),
        xycoords=("axes fraction", "data"),
        xytext=(0, 2),
        textcoords="offset points",
        ha="center",
        va="bottom",
        color=START,
        fontsize="small",
    )
    ax.set_title(f"{share} interval {_limits(low, high)}", fontsize="small")
    ax.set_xlabel(axis_label(profile.name))
    ax.xaxis.set_major_locator(MaxNLocator(nbins=4, min_n_ticks=2))


def _limits(low: float, high: float) -> str:
    """Return an interval as the title of its profile."""
    if np.isfinite(low) and np.isfinite(high):
        return f"[{low:.4g}, {high:.4g}]"
    if np.isfinite(low):
        return f"> {low:.4g}"
    return f"< {high:.4g}" if np.isfinite(high) else "without limits"


def smooth_profile(profile: "Profile") -> tuple[np.ndarray, np.ndarray]:
    """Return values between those that were fitted, and the rise of chi-square there.

    The signed square root of the rise is interpolated linearly, since it is almost a
    straight line, and then squared. Across most of the range there is nothing to
    interpolate: values far apart, such as two signs, belong to different minima.
    """
    values = profile.values
    finer = np.linspace(values[:-1], values[1:], 12).T.ravel()
    signed_root = np.sign(values - profile.estimate) * profile.r
    rise = np.interp(finer, values, signed_root) ** 2
    is_far = np.repeat(np.diff(values) > _FAR * np.ptp(values), 12)
    return finer, np.where(is_far, np.nan, rise)
