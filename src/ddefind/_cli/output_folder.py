"""Writing the folder of `ddefind fit --out`: the result, tables, curve and figure."""

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from .._data.source_times import source_times
from .._figures.panels import close_figure
from .._fitting.least_squares import LeastSquares
from .._results.estimate import Estimate
from .._results.result import AbstractFit, FitResult
from .._results.saved_file import RESULT, saved_text
from .._util.text_files import file_name, write_whole
from ..plots import CURVE_POINTS, learned_curve
from .figure_formats import FORMATS, figure_name
from .fit_settings import FitSettings
from .parse_options import OptionError

CONFIG, CURVE, INPUT = "fit.toml", "curve.csv", "input"


def check_folder(folder: Path) -> None:
    """Raise an error if the folder cannot be written, or holds other things than a fit.
    This is called before anything is computed."""
    if folder.is_dir():
        if any(folder.iterdir()) and not (folder / CONFIG).is_file():
            raise OptionError(
                f"`--out`: {file_name(folder)} holds other things than a fit. Choose "
                "another folder."
            )
        existing = folder
    else:
        existing = next((p for p in folder.absolute().parents if p.exists()), folder)
    if folder.exists() and not folder.is_dir() or not existing.is_dir():
        raise OptionError(f"`--out`: {file_name(folder)} cannot be a folder.")
    if not os.access(existing, os.W_OK):
        raise OptionError(f"`--out`: {file_name(existing)} cannot be written.")


def read_inputs(settings: FitSettings) -> tuple[FitSettings, dict[str, bytes]]:
    """Return copies of the data file and the model file, by their paths within the
    folder, and the settings with these paths.

    With the copies the fit can be repeated even if the original files change.
    """
    assert settings.data is not None
    path = Path(settings.data)
    paths = {"data": f"{INPUT}/{path.name}"}
    copies = {paths["data"]: path.read_bytes()}
    if settings.model is not None:
        place, _, name = settings.model.rpartition(":")
        model = f"{INPUT}/{Path(place).name}"
        paths["model"] = f"{model}:{name}"
        copies[model] = Path(place).read_bytes()
    return replace(settings, **paths), copies


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
    drawing the figure fails or is interrupted, the folder is written without it.
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
        files[CURVE] = _curve(fit)
        files |= _figures(fit, formats)
    except KeyboardInterrupt:
        pass
    finally:
        _write_files(folder, files)
    return list(files), figure_name(formats[-1]) in files


def _write_files(folder: Path, files: dict[str, str | bytes]) -> None:
    """Write all files into a folder, or none of them if there is an error.

    They are written to a temporary folder first. If there is no folder yet, the
    temporary one is renamed. Otherwise the files of an earlier fit are replaced one by
    one, which needs no more space, and a curve and figure that are not replaced are
    removed.
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
        for name in {CURVE, *map(figure_name, FORMATS)} - set(files):
            (folder / name).unlink(missing_ok=True)
        for name in files:
            (complete / name).replace(folder / name)


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table, one dictionary per row, as the text of a CSV file."""
    text = io.StringIO()
    if not rows:
        return ""  # All parameters are weights of networks.
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _curve(fit: Estimate | FitResult) -> str:
    """Return the fitted quantities at many times, with their bands where there are any,
    as the text of a CSV file. The times are those of the source of the data."""
    t = np.linspace(fit.time_zero, fit.data.T, CURVE_POINTS)
    x = learned_curve(fit, t)
    columns = dict(zip(fit.data.names, x.T))
    if isinstance(fit, Estimate) and np.all(np.isfinite(x)):
        said = fit.predict(t, level=fit.level)
        for suffix in ("low", "high", "noisy_low", "noisy_high"):
            values = getattr(said, suffix).T
            columns |= {f"{n}_{suffix}": each for n, each in zip(said.names, values)}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    name, times = source_times(fit.data, t)
    writer.writerow([name, *columns])
    rows = np.stack(list(columns.values()), axis=1).tolist()
    writer.writerows([time, *row] for time, row in zip(times, rows))
    return text.getvalue()


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
