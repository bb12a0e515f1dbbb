"""The profile of each parameter: how much worse the fit becomes at other values."""

from typing import TYPE_CHECKING

import numpy as np

from .._figures.profile_panel import smooth_profile
from .._problem.network_weights import named_indices
from .blocks import Charts, Section, Text
from .chart import Chart, Mark, Series

if TYPE_CHECKING:
    from .._inference.profile import Profile
    from .._results.estimate import Estimate

# The page shows the profiles of so many parameters.
_MOST_PROFILES = 60


def profile_charts(fit: "Estimate") -> Section | None:
    """The section on profiles; None where the intervals were left out or do not come
    from profiles."""
    if fit.assessment is None or fit.process is not None:
        return None
    share = f"{100 * fit.level:g}%"
    named = named_indices(len(fit.names), fit.networks)
    profiles = [fit.assessment.profiles[j] for j in named]
    charts = [
        _chart(profile, share)
        for profile in profiles[:_MOST_PROFILES]
        if len(profile.values) > 1
    ]
    if not charts:
        return None
    about = (
        "Each chart holds one parameter at other values, and fits all others anew. The "
        f"{share} interval ends where chi-square has risen to the dashed line. A "
        "profile that stays below it sets no limit there. The dots are fits; the line "
        "between them is interpolated."
    )
    words = [Text(about)]
    if len(profiles) > _MOST_PROFILES:
        text = f"The first {_MOST_PROFILES} of {len(profiles)} parameters are shown."
        words.append(Text(text))
    return Section("profiles", "Profiles", [*words, Charts(charts)])


def _chart(profile: "Profile", share: str) -> Chart:
    height = profile.quantile**2
    finer, rise = smooth_profile(profile)
    ends = [end for end in profile.interval if np.isfinite(end)]
    marks = [Mark("x", end, "", "limit") for end in ends]
    marks.append(Mark("y", height, share, "start"))
    top = float(np.clip(1.1 * np.max(profile.r) ** 2, 1.5 * height, 3 * height))
    return Chart(
        title=profile.name,
        x_label=profile.name,
        y_label="rise of chi-square",
        series=[
            Series("profile", "line", "curve", finer, rise),
            Series("fits", "dots", "curve", profile.values, profile.r**2),
        ],
        marks=marks,
        y_range=(-0.06 * height, top),
        is_small=True,
    )
