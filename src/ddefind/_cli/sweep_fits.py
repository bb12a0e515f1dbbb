"""The fits of a sweep: groups of one equation with one kind of settings, each fitted to
all files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

import ddefind as dd

from .._data.data import Data
from .._data.read_csv import read_csv
from .._inference.residual_tests import LEVEL
from .._util.errors import DataError, did_you_mean
from .fit_arguments import fit_arguments
from .fit_settings import ALL, FitSettings
from .messages import Messages
from .model_file import names_of_parameters, read_model
from .parse_options import OptionError
from .sweep_table import Group, SweepTable

if TYPE_CHECKING:
    from .._results.batch import FitBatch


# At most this many files that cannot be read are named.
_MOST_NAMED = 5
# Settings that name parameters.
_BY_PARAMETER = ("set", "start", "bounds", "prior", "positive")


@final
@dataclass(frozen=True)
class GroupTask:
    """A group with its model, its data, and the settings that apply to its model."""

    group: Group
    settings: FitSettings
    model: Any
    data: list[Data]


def read_groups(table: SweepTable) -> list[GroupTask]:
    """Read all equations and files, before anything is fitted."""
    models = [_model_of(group) for group in table.groups]
    parameters = [names_of_parameters(model) for model in models]
    known = set[str]().union(*parameters)
    data: dict[str, list[Data]] = {}
    tasks = []
    for group, model, names in zip(table.groups, models, parameters):
        kind = group.settings_name
        if kind not in data:
            data[kind] = _read(table.files, group.settings)
        settings = _settings_for(group, names, known)
        tasks.append(GroupTask(group, settings, model, data[kind]))
    return tasks


def _model_of(group: Group) -> Any:
    try:
        return read_model(vars(group.settings))
    except ValueError as error:
        raise OptionError(f"The equation {group.equation!r}: {error}") from None


def _settings_for(group: Group, names: set[str], known: set[str]) -> FitSettings:
    """Return the settings without parameters that only other equations have."""
    changes: dict[str, Any] = {}
    for field in _BY_PARAMETER:
        given: Any = getattr(group.settings, field)
        kept = []
        for name in given or ():
            array = name.split("[")[0]
            if array not in {*known, ALL}:
                raise OptionError(
                    f"The settings {group.settings_name!r}: `{field}` has {name!r}, "
                    "which is a parameter of no equation."
                    f"{did_you_mean(name, sorted(known))}"
                )
            if array in {*names, ALL}:
                kept.append(name)
        if given:
            is_dict = isinstance(given, dict)
            changes[field] = {n: given[n] for n in kept} if is_dict else kept
    return replace(group.settings, **changes)


def fit_group(
    task: GroupTask,
    executor: Any,
    out: Path,
    retry_failed: bool,
    messages: Messages,
) -> "FitBatch[Any]":
    """Fit all files. The fits are kept in a folder with the name of the group."""
    group = task.group
    return dd.fit_many(
        task.model,
        task.data,
        **fit_arguments(task.settings, task.model),
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


def more_than_chance(rejected: int, fits: int) -> bool:
    """Whether more fits are rejected than would be if the model were right for all:
    the tests reject a right model in at most 5% of fits."""
    return rejected > fits * LEVEL + 3 * np.sqrt(fits * LEVEL * (1 - LEVEL))


def table_rows(
    files: Sequence[str], group: Group, batch: "FitBatch[Any]"
) -> list[dict[str, Any]]:
    """Make a row for each fit: its file, equation and settings, how it ended, whether
    the residuals reject the model (empty where that cannot be tested), and the
    estimates with standard errors (and intervals, if the settings have a `level`)."""
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
            rejected = getattr(fit, "rejected", None) if np.isfinite(fit.loss) else None
            row["loss"] = fit.loss
            row["rejected"] = {None: "", True: "yes", False: "no"}[rejected]
            for each in fit.summary():
                name = each["name"]
                row[name] = each["estimate"]
                row[f"{name}_se"] = each["standard_error"]
                if "low" in each:
                    row |= {f"{name}_low": each["low"], f"{name}_high": each["high"]}
        rows.append(row)
    return rows
