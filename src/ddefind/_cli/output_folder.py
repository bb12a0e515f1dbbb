"""The folder of `ddefind fit --out`: writing a fit, reading it again for commands that
compute with it, and adding its profiles."""

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

import ddefind as dd

from .._data.times import source_times
from .._figures.panels import close_figure
from .._inference.profile import Profile
from .._results.result import html_report
from .._results.saved_file import RESULT, saved_text
from .._util.files import file_name, nonfinite_as_none, write_whole
from .fit_settings import FitSettings, combine_settings, with_paths
from .model_file import read_model
from .options import DISCOVERY, EXPERIMENT
from .parse_options import FORMATS, OptionError

CONFIG, CURVE, INPUT, REPORT = "fit.toml", "curve.csv", "input", "report.html"
# The table of the function that a network has learned.
_FUNCTION = "function_{}.csv"
# The files of `ddefind profile`, without their endings.
_PROFILES = "profiles"


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written, or that holds other things than a fit.
    This is called before anything is computed."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / CONFIG).is_file():
        raise OptionError(
            f"`--out`: {file_name(folder)} holds other things than a fit. Choose "
            "another folder."
        )
    check_can_be_folder(folder)


def check_can_be_folder(folder: Path) -> None:
    """Refuse a path where there is no folder to write to, and none can be made."""
    existing = folder
    if not folder.is_dir():
        existing = next((p for p in folder.absolute().parents if p.exists()), folder)
    if folder.exists() and not folder.is_dir() or not existing.is_dir():
        raise OptionError(f"`--out`: {file_name(folder)} cannot be a folder.")
    if not os.access(existing, os.W_OK):
        raise OptionError(f"`--out`: {file_name(existing)} cannot be written.")


def read_inputs(settings: FitSettings) -> tuple[FitSettings, dict[str, bytes]]:
    """Return copies of the files of data, model, inputs and doses by their paths within
    the folder, and the settings with these paths, which repeat the fit."""
    copies: dict[str, bytes] = {}
    sources: dict[str, Path] = {}

    def copied(place: str) -> str:
        """Copy a file, and return its path within the folder."""
        path, colon, name = place.rpartition(":")
        if not path.endswith(".py"):  # not FILE.py:NAME
            path, colon, name = place, "", ""
        path = Path(path)
        inside = f"{INPUT}/{path.name}"
        if sources.setdefault(inside, path) != path:
            # Another file of the same name.
            inside = f"{INPUT}/{len(copies)}-{path.name}"
        copies[inside] = path.read_bytes()
        return f"{inside}{colon}{name}"

    return replace(settings, **with_paths(vars(settings), copied)), copies


def write_folder(
    folder: Path,
    fit: "dd.Estimate | dd.FitResult",
    content: dict[str, Any],
    inputs: tuple[FitSettings, dict[str, bytes]],
    formats: Sequence[str] = ("png",),
) -> tuple[list[str], bool]:
    """Write everything about a fit. Return the names of the files, and whether they are
    complete.

    `content` is `fit.file_content()`, and `inputs` is what `read_inputs` returned. If
    the making of curve, figure or report is interrupted, the folder lacks them."""
    settings, copies = inputs
    if isinstance(fit, dd.Estimate) and settings.starts is None:
        # Write the default, which may be another one in a later version.
        settings = replace(settings, starts=dd.LeastSquares().starts)
    files: dict[str, str | bytes] = {
        **copies,
        CONFIG: settings.toml(),
        "table.txt": content["text"] + "\n",
        "table.csv": csv_text(content["table"]),
        RESULT: saved_text(content),
    }
    try:
        files[CURVE] = _curve(fit, settings.group or EXPERIMENT)
        for name, function in fit.functions.items():
            place = _FUNCTION.format(re.sub(r"[^\w@.-]+", "_", name))
            files[place] = csv_text(function.rows())
        files |= figure_files(fit.plot(), "figure", formats)
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
    one, which needs no more space, and its curve, functions, figures, report, profiles
    and discovery are removed if they are not replaced."""
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
        old = {CURVE, REPORT, *(f"figure.{form}" for form in FORMATS)}
        for pattern in (_FUNCTION.format("*"), DISCOVERY.format("*")):
            old |= {path.name for path in folder.glob(pattern)}
        old |= {f"{_PROFILES}.{ending}" for ending in ("csv", *FORMATS)}
        for name in old - set(files):
            (folder / name).unlink(missing_ok=True)
        for name in files:
            (complete / name).replace(folder / name)


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as the text of a CSV file; what is not finite is an empty cell."""
    text = io.StringIO()
    if not rows:
        return ""  # All parameters are weights of networks.
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(nonfinite_as_none(rows))
    return text.getvalue()


def study_csv(
    group: str, experiments: "Sequence[dd.Experiment]", values: Sequence[str] = ()
) -> str:
    """Return the text of a file with the data of all experiments. Its first column,
    `group`, names the experiment, and the last ones hold known `values`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for number, each in enumerate(experiments):
        header, *rows = csv.reader(io.StringIO(each.data.csv()))
        if not number:
            writer.writerow([group, *header, *values])
        known = [repr((each.values or {})[name]) for name in values]
        writer.writerows([each.label, *row, *known] for row in rows)
    return text.getvalue()


def _curve(fit: "dd.Estimate | dd.FitResult", group: str) -> str:
    """Return the fitted curves and their bands as the text of a CSV file, with times as
    in the source of the data. In a study the column `group` names the experiment."""
    views = fit.experiments
    rows = []
    for label, one in (views or {None: fit}).items():
        t = np.linspace(one.time_zero, one.data.T, dd.plots.CURVE_POINTS)
        x = dd.plots.learned_curve(one, t)
        columns = dict(zip(one.data.names, x.T))
        if isinstance(one, dd.Estimate) and np.all(np.isfinite(x)):
            prediction = one.predict(t, level=one.level)
            for band, bands in prediction.known_bands().items():
                for name, values in zip(prediction.names, bands.T):
                    columns[f"{name}_{band}"] = values
        experiment = {group: label} if views else {}
        time, times = source_times(one.data, t)
        for at, row in zip(times, np.stack(list(columns.values()), axis=1).tolist()):
            rows.append({**experiment, time: at, **dict(zip(columns, row))})
    return csv_text(rows)


def figure_files(figure: Any, name: str, formats: Sequence[str]) -> dict[str, Any]:
    """Return a figure as files in these formats, by their names, and close it."""
    files = {}
    for form in formats:
        content = io.BytesIO()
        figure.savefig(content, format=form, **FORMATS[form])
        files[f"{name}.{form}"] = content.getvalue()
    close_figure(figure)
    return files


def write_profiles(
    folder: Path,
    fit: "dd.Estimate",
    profiles: Sequence[Profile],
    level: float,
    formats: Sequence[str],
) -> list[str]:
    """Write a table and a figure of profiles into a folder, which may hold other files,
    and return the names of the files. The table has a row for each fit on the way."""
    rows = [
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
    files: dict[str, str | bytes] = {f"{_PROFILES}.csv": csv_text(rows)}
    files |= figure_files(dd.plots.plot_profiles(profiles, level), _PROFILES, formats)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_whole(folder / name, content)
    return list(files)


def load_fit(path: Path) -> "dd.Estimate":
    """Return a saved fit by least squares, with its model."""
    fit = load_any_fit(path)
    if not isinstance(fit, dd.Estimate):
        raise OptionError(
            f"{path}: this fit is by gradient descent, which has no error bars and no "
            "likelihood. Fit with least squares."
        )
    return fit


def load_any_fit(path: Path) -> "dd.Estimate | dd.FitResult":
    """Return a saved fit with its model. A model that is code is not in the file of the
    fit; its copy in the folder of `ddefind fit` is run."""
    config = path / CONFIG
    settings = combine_settings(config, {}) if config.is_file() else None
    fit = dd.load(path)
    if isinstance(fit, dd.SavedFit):
        if settings is None:
            raise OptionError(
                f"{path}: the model of this fit is code, which the file does not hold. "
                "Give the folder that `ddefind fit --out` wrote."
            )
        try:
            model = read_model(vars(settings))
        except dd.DataError as error:
            raise OptionError(
                f"{path}: the model of this fit is code, and the folder's copy of it "
                f"cannot be read. {error}"
            ) from None
        fit = dd.load(path, problem=model)
        assert not isinstance(fit, dd.SavedFit)
    return fit
