"""Writing the folder of `ddefind fit --out`: the result, tables, curve, figure and
report.

Writing the profiles of a saved fit: their figure, and a table of their fits.

Reading fits that were saved, for commands that compute with them."""

import csv
import io
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from .._data.times import source_times
from .._figures.panels import close_figure
from .._fitting.least_squares import LeastSquares
from .._inference.profile import Profile
from .._results.estimate import Estimate
from .._results.load import SavedFit, load
from .._results.result import AbstractFit, FitResult, html_report
from .._results.saved_file import RESULT, saved_text
from .._util.errors import DataError
from .._util.files import file_name, nonfinite_as_none, write_whole
from ..plots import CURVE_POINTS, learned_curve, plot_profiles
from .file_kinds import ALL, FORMATS, figure_name
from .fit_settings import FitSettings, combine_settings, with_paths
from .model_file import read_model
from .options import EXPERIMENT
from .parse_options import OptionError

CONFIG, CURVE, INPUT = "fit.toml", "curve.csv", "input"
# The table of the function that a network has learned.
FUNCTION = "function_{}.csv"
REPORT = "report.html"
# What `ddefind profile` writes, with the endings of a table and of figures.
PROFILES = "profiles"


def check_folder(folder: Path) -> None:
    """Raise an error if the folder cannot be written, or holds other things than a fit.
    This is called before anything is computed."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / CONFIG).is_file():
        raise OptionError(
            f"`--out`: {file_name(folder)} holds other things than a fit. Choose "
            "another folder."
        )
    check_can_be_folder(folder)


def check_can_be_folder(folder: Path) -> None:
    """Raise an error if there is no folder to write to, and none can be made."""
    existing = folder
    if not folder.is_dir():
        existing = next((p for p in folder.absolute().parents if p.exists()), folder)
    if folder.exists() and not folder.is_dir() or not existing.is_dir():
        raise OptionError(f"`--out`: {file_name(folder)} cannot be a folder.")
    if not os.access(existing, os.W_OK):
        raise OptionError(f"`--out`: {file_name(existing)} cannot be written.")


def read_inputs(settings: FitSettings) -> tuple[FitSettings, dict[str, bytes]]:
    """Return copies of all files of a fit, of the data, the model, inputs and doses, by
    their paths within the folder, and the settings with these paths.

    With the copies the fit can be repeated even if the original files change.
    """
    copies: dict[str, bytes] = {}
    sources: dict[str, Path] = {}

    def copied(place: str) -> str:
        """Copy a file, and return its path within the folder."""
        place, colon, name = _file_and_name(place)
        path = Path(place)
        inside = f"{INPUT}/{path.name}"
        if sources.setdefault(inside, path) != path:
            # Another file of the same name.
            inside = f"{INPUT}/{len(copies)}-{path.name}"
        copies[inside] = path.read_bytes()
        return f"{inside}{colon}{name}"

    return replace(settings, **with_paths(vars(settings), copied)), copies


def _file_and_name(place: str) -> tuple[str, str, str]:
    """Return the parts of `FILE.py:NAME`, or of the path of another file."""
    path, colon, name = place.rpartition(":")
    return (path, colon, name) if path.endswith(".py") else (place, "", "")


def write_folder(
    folder: Path,
    fit: Estimate | FitResult,
    content: dict[str, Any],
    inputs: tuple[FitSettings, dict[str, bytes]],
    formats: Sequence[str] = ("png",),
) -> tuple[list[str], bool]:
    """Write everything about a fit. Return the names of the files, and whether they are
    complete.

    `content` is `fit.file_content()`, and `inputs` is what `read_inputs` returned. If
    making figure or report is interrupted, the folder is written without them.
    """
    settings, copies = inputs
    if isinstance(fit, Estimate) and settings.starts is None:
        # Write the default, which may be another one in a later version.
        settings = replace(settings, starts=LeastSquares().starts)
    files: dict[str, str | bytes] = {
        **copies,
        CONFIG: settings.toml(),
        "table.txt": content["text"] + "\n",
        "table.csv": csv_text(content["table"]),
        RESULT: saved_text(content),
    }
    try:
        files[CURVE] = _curve(fit, settings.group or EXPERIMENT)
        files |= _functions(fit)
        files |= _figures(fit, formats)
        files[REPORT] = html_report(fit, settings=settings.toml())
    except KeyboardInterrupt:
        pass
    finally:
        _write_files(folder, files)
    return list(files), REPORT in files


def _write_files(folder: Path, files: dict[str, str | bytes]) -> None:
    """Write all files into a folder, or none of them if there is an error.

    They are written to a temporary folder first. If there is no folder yet, the
    temporary one is renamed. Otherwise the files of an earlier fit are replaced one by
    one, which needs no more space, and a curve, functions, figure, report, profiles and
    what a search found are removed if they are not replaced.
    """
    is_new = not folder.exists()
    beside = folder.absolute().parent if is_new else folder
    beside.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=beside, prefix=".ddefind-") as temporary:
        complete = Path(temporary) / "complete"
        (complete / INPUT).mkdir(parents=True)
        for name, content in files.items():
            write_whole(complete / name, content)
        if is_new:
            complete.rename(folder)
            return
        (folder / INPUT).mkdir(exist_ok=True)
        old = {CURVE, REPORT, *map(figure_name, FORMATS)}
        for pattern in (FUNCTION.format("*"), ALL):
            old |= {path.name for path in folder.glob(pattern)}
        old |= {f"{PROFILES}.{ending}" for ending in ("csv", *FORMATS)}
        for name in old - set(files):
            (folder / name).unlink(missing_ok=True)
        for name in files:
            (complete / name).replace(folder / name)


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table, one dictionary per row, as the text of a CSV file, with empty
    cells where a number is not finite."""
    text = io.StringIO()
    if not rows:
        return ""  # All parameters are weights of networks.
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(nonfinite_as_none(rows))
    return text.getvalue()


def _curve(fit: Estimate | FitResult, group: str) -> str:
    """Return the fitted quantities at many times, with their bands where there are any,
    as the text of a CSV file. The times are those of the source of the data. In a study
    the column `group` names the experiment."""
    views = fit.experiments if isinstance(fit, Estimate) else {}
    if not views:
        return csv_text(_curve_rows(fit))
    return csv_text(
        [
            {group: label, **row}
            for label, view in views.items()
            for row in _curve_rows(view)
        ]
    )


def _curve_rows(fit: Estimate | FitResult) -> list[dict[str, Any]]:
    """Return a row for each of many times."""
    t = np.linspace(fit.time_zero, fit.data.T, CURVE_POINTS)
    x = learned_curve(fit, t)
    columns = dict(zip(fit.data.names, x.T))
    if isinstance(fit, Estimate) and np.all(np.isfinite(x)):
        said = fit.predict(t, level=fit.level)
        columns |= {
            f"{name}_{band}": values
            for band, bands in said.known_bands().items()
            for name, values in zip(said.names, bands.T)
        }
    name, times = source_times(fit.data, t)
    rows = np.stack(list(columns.values()), axis=1).tolist()
    names = [name, *columns]
    return [dict(zip(names, [time, *row])) for time, row in zip(times, rows)]


def _functions(fit: AbstractFit) -> dict[str, str]:
    """Return the tables of what networks have learned, by the names of their files."""
    return {
        FUNCTION.format(re.sub(r"[^\w@.-]+", "_", name)): csv_text(f.rows())
        for name, f in fit.functions.items()
    }


def _figures(fit: AbstractFit, formats: Sequence[str]) -> dict[str, bytes]:
    """Return the figure of a fit as the content of a file in each format."""
    figure = fit.plot()
    files = {}
    for form in formats:
        content = io.BytesIO()
        figure.savefig(content, format=form, **FORMATS[form])
        files[figure_name(form)] = content.getvalue()
    close_figure(figure)
    return files


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


def load_fit(path: Path) -> Estimate:
    """Return a fit by least squares, with its model."""
    fit = load_any_fit(path)
    if not isinstance(fit, Estimate):
        raise OptionError(
            f"{path}: this fit is by gradient descent, which has no error bars and no "
            "likelihood. Fit with least squares."
        )
    return fit


def load_any_fit(path: Path) -> Estimate | FitResult:
    """Return a fit with its model.

    A model that is code is not in the file of the fit. A folder of `ddefind fit` has
    copies of its files; code is run."""
    config = path / CONFIG
    settings = combine_settings(config, {}) if config.is_file() else None
    fit = load(path)
    if isinstance(fit, SavedFit):
        if settings is None:
            raise OptionError(
                f"{path}: the model of this fit is code, which the file does not hold. "
                "Give the folder that `ddefind fit --out` wrote."
            )
        try:
            model = read_model(vars(settings))
        except DataError as error:
            raise OptionError(
                f"{path}: the model of this fit is code, and the folder's copy of it "
                f"cannot be read. {error}"
            ) from None
        fit = load(path, problem=model)
        assert not isinstance(fit, SavedFit)
    return fit
