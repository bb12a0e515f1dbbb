"""The fits of one group of a sweep: one equation, with one kind of settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ddefind as dd

from .._data.data import Data
from .._data.read_csv import read_csv
from .._util.errors import DataError
from .fit_arguments import fit_arguments
from .fit_settings import FitSettings
from .messages import Messages
from .model_file import model_of
from .sweep_table import Group

if TYPE_CHECKING:
    from .._results.batch import FitBatch

# How many files that cannot be read are named.
_MOST_NAMED = 5


def fit_group(
    files: Sequence[str],
    group: Group,
    executor: Any,
    out: Path,
    retry_failed: bool,
    messages: Messages,
) -> "FitBatch[Any]":
    """Fit all files, with the fits kept in a folder of the group's name."""
    model = model_of(group.settings)
    return dd.fit_many(
        model,
        _read(files, group.settings),
        **fit_arguments(group.settings, model),
        intervals=group.settings.level is not None,
        executor=executor,
        folder=out / group.name,
        retry_failed=retry_failed,
        progress=False if messages.quiet else None,
    )


def _read(files: Sequence[str], settings: FitSettings) -> list[Data]:
    """Read the files, or say which cannot be read."""
    sets, errors = [], []
    for file in files:
        try:
            data = read_csv(
                file,
                time=settings.time,
                columns=settings.columns,
                where=settings.where,
                sheet=settings.sheet,
                start=settings.time_zero,
            )
            sets.append(data)
        except DataError as error:
            errors.append(str(error))
    if errors:
        more = len(errors) - _MOST_NAMED
        shown = errors[:_MOST_NAMED] + ([f"and {more} more"] if more > 0 else [])
        raise DataError("\n".join(shown))
    return sets


def table_rows(
    files: Sequence[str], group: Group, batch: "FitBatch[Any]"
) -> list[dict[str, Any]]:
    """A row for each fit: its file, equation and settings, how it ended, and what was
    learned with its standard errors (and intervals, if they were asked for)."""
    rows = []
    for number, (file, status) in enumerate(zip(files, batch.statuses)):
        row: dict[str, Any] = {
            "fit": group.name,
            "file": file,
            "settings": group.settings_name,
            "status": status.name,
        }
        if status.has_fit:
            fit = batch[number]
            row["loss"] = fit.loss
            for each in fit.summary():
                name = each["name"]
                row[name] = each["estimate"]
                row[f"{name}_se"] = each["standard_error"]
                if "low" in each:
                    row |= {f"{name}_low": each["low"], f"{name}_high": each["high"]}
        rows.append(row)
    return rows
