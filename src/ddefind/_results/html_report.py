"""The report of a fit as one page of HTML."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._data.study_data import longest_part
from .._data.times import source_times
from .._report.build import Given, build
from .._util import wording
from .._util.text_files import file_name
from .report import describe_noise
from .saved_file import saved_text

if TYPE_CHECKING:
    from .result import AbstractFit


def html_report(
    fit: "AbstractFit", until: float | None = None, settings: str | None = None
) -> str:
    """The page. `until` is the last time of the prediction, and `settings` is the text
    of the file with which the command line repeats the fit."""
    if not np.isfinite(fit.loss):
        raise ValueError(f"There is no fit: {fit.message}")
    if until is not None and not until > fit.data.T:
        data = longest_part(fit.data)
        given, end = source_times(data, np.array([until, data.T]))[1]
        raise ValueError(
            f"{wording.UNTIL} is {given}, but the data end at {end}. Give a later "
            "time, or leave it out."
        )
    setup = getattr(fit, "setup", None)
    noise = None if setup is None else describe_noise(setup)
    given = Given(noise, saved_text(fit.file_content()), settings)
    return build(fit, given, until)


def check_page(argument: str, path: Path) -> None:
    """Raise an error unless the name of a file is that of a page."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(
            f"{argument}: {file_name(path)} is not the name of a page. Give one that "
            "ends with .html."
        )
