"""Writing the profiles of a saved fit: their figure, and a table of their fits."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._figures.panels import close_figure
from .._inference.profile import Profile
from .._results.estimate import Estimate
from .._util.text_files import write_whole
from ..plots import plot_profiles
from .figure_formats import FORMATS
from .output_folder import PROFILES, csv_text


def write_profiles(
    folder: Path,
    fit: Estimate,
    profiles: Sequence[Profile],
    level: float,
    formats: Sequence[str],
) -> list[str]:
    """Write a table and a figure of profiles into a folder, which may hold other files,
    and return the names of both."""
    files: dict[str, str | bytes] = {f"{PROFILES}.csv": csv_text(_rows(fit, profiles))}
    figure = plot_profiles(profiles, level)
    for form in formats:
        content = io.BytesIO()
        figure.savefig(content, format=form, **FORMATS[form])
        files[f"{PROFILES}.{form}"] = content.getvalue()
    close_figure(figure)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_whole(folder / name, content)
    return list(files)


def _rows(fit: Estimate, profiles: Sequence[Profile]) -> list[dict[str, Any]]:
    """Return a row for each fit on the way: the parameter that was held, its value, the
    rise of chi-square, and all parameters of the fit."""
    return [
        {
            "parameter": profile.name,
            "value": value,
            "chi_square_rise": rise,
            **dict(zip(fit.names, theta)),
        }
        for profile in profiles
        for value, rise, theta in zip(
            profile.values.tolist(), (profile.r**2).tolist(), profile.theta.tolist()
        )
    ]
