"""The folder that a fit on the command line leaves behind."""

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from .._data.data import Data
from .._fitting.least_squares import LeastSquares
from .._results.estimate import Estimate
from .._results.result import AbstractFit, FitResult
from .._results.saved_file import RESULT, saved_text
from .._util.text_files import file_name, write_whole
from ..plots import observed
from .fit_file import FitFile
from .parse_options import OptionError

CONFIG, CURVE, FIGURE, INPUT = "fit.toml", "curve.csv", "figure.png", "input"
# Points of the fitted curve.
_POINTS = 801


def check_folder(folder: Path) -> None:
    """Refuse, before anything is computed, a folder that cannot be written or that
    holds other things than a fit."""
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


def read_inputs(request: FitFile) -> tuple[FitFile, dict[str, bytes]]:
    """The request with its files in the folder, and these files as they are now: a fit
    is repeated with them, whatever becomes of the originals."""
    assert request.data is not None
    path = Path(request.data)
    moved = {"data": f"{INPUT}/{path.name}"}
    files = {moved["data"]: path.read_bytes()}
    if request.model is not None:
        place, _, name = request.model.rpartition(":")
        model = f"{INPUT}/{Path(place).name}"
        moved["model"] = f"{model}:{name}"
        files[model] = Path(place).read_bytes()
    return replace(request, **moved), files


def write_folder(
    folder: Path,
    fit: Estimate | FitResult,
    content: dict[str, Any],
    inputs: tuple[FitFile, dict[str, bytes]],
) -> list[str]:
    """Write everything about a fit; the names of what was written.

    Each file is written whole or not at all; the curve and the figure, which take a
    moment, come after the result."""
    request, copies = inputs
    if isinstance(fit, Estimate) and request.starts is None:
        request = replace(request, starts=LeastSquares().starts)  # as it is now
    files: dict[str, str | bytes] = {
        **copies,
        CONFIG: request.toml(),
        "table.txt": content["text"] + "\n",
        "table.csv": _csv(content["table"]),
        RESULT: saved_text(content),
    }
    (folder / INPUT).mkdir(parents=True, exist_ok=True)
    for name in (CURVE, FIGURE):
        (folder / name).unlink(missing_ok=True)  # of an earlier fit
    for name, text in files.items():
        write_whole(folder / name, text)
    write_whole(folder / CURVE, _curve(fit))
    write_whole(folder / FIGURE, _figure(fit))
    return [*files, CURVE, FIGURE]


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _curve(fit: AbstractFit) -> str:
    """The fitted quantities at many times, as the source of the data counts them."""
    t = np.linspace(0, fit.data.T, _POINTS)
    x = observed(fit.problem, fit.solution, t)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    name, times = _own_times(fit.data, t)
    writer.writerow([name, *fit.data.names])
    writer.writerows([when, *row] for when, row in zip(times, x.tolist()))
    return text.getvalue()


def _own_times(data: Data, t: np.ndarray) -> tuple[str, list[Any]]:
    if not isinstance(data.origin, str):
        return "t", (t + data.origin).tolist()
    first = datetime.fromisoformat(data.origin)
    return "date", [(first + timedelta(days=day)).isoformat() for day in t.tolist()]


def _figure(fit: AbstractFit) -> bytes:
    content = io.BytesIO()
    fit.plot().savefig(content, format="png", dpi=150)
    return content.getvalue()
