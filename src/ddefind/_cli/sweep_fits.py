"""The fits of a sweep: groups of one equation, with one kind of settings, each fitted
to all files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

import ddefind as dd

from .._data.data import Data, read_csv
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


# How many files that cannot be read are named.
_MOST_NAMED = 5
# The settings of some parameters.
_BY_PARAMETER = ("set", "start", "bounds", "prior", "positive")


@final
@dataclass(frozen=True)
class GroupTask:
    """A group with its model and the data, and with those of its settings that the
    model has parameters for."""

    group: Group
    settings: FitSettings
    model: Any
    data: list[Data]


def read_groups(table: SweepTable) -> list[GroupTask]:
    """Read all equations and files, before anything is fitted."""
    models = [_model_of(group) for group in table.groups]
    names = [names_of_parameters(model) for model in models]
    known = set[str]().union(*names)
    data: dict[str, list[Data]] = {}
    tasks = []
    for group, model, own in zip(table.groups, models, names):
        kind = group.settings_name
        if kind not in data:
            data[kind] = _read(table.files, group.settings)
        settings = _settings_for(group, own, known)
        tasks.append(GroupTask(group, settings, model, data[kind]))
    return tasks


def _model_of(group: Group) -> Any:
    try:
        return read_model(vars(group.settings))
    except ValueError as error:
        raise OptionError(f"The equation {group.equation!r}: {error}") from None


def _settings_for(group: Group, own: set[str], known: set[str]) -> FitSettings:
    """The settings without those of parameters that only other equations have."""
    changes: dict[str, Any] = {}
    for field in _BY_PARAMETER:
        given: Any = getattr(group.settings, field)
        for name in given or ():
            if _whole(name) not in {*known, ALL}:
                raise OptionError(
                    f"The settings {group.settings_name!r}: `{field}` has {name!r}, "
                    "which is a parameter of no equation."
                    f"{did_you_mean(name, sorted(known))}"
                )
        if given:
            kept = [name for name in given if _whole(name) in {*own, ALL}]
            is_dict = isinstance(given, dict)
            changes[field] = {n: given[n] for n in kept} if is_dict else kept
    return replace(group.settings, **changes)


def _whole(name: str) -> str:
    """The name of the array that a parameter belongs to."""
    return name.split("[")[0]


def fit_group(
    task: GroupTask,
    executor: Any,
    out: Path,
    retry_failed: bool,
    messages: Messages,
) -> "FitBatch[Any]":
    """Fit all files, with the fits kept in a folder of the group's name."""
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


def _is_rejected(fit: Any) -> str:
    """Whether the residuals reject the model; empty where that cannot be tested."""
    if not np.isfinite(fit.loss):
        return ""
    rejected = getattr(fit, "rejected", None)
    return "" if rejected is None else "yes" if rejected else "no"


def more_than_chance(rejected: int, fits: int) -> bool:
    """Whether more fits are rejected than would be if the model were right for all:
    the tests reject a right model in at most 5% of fits."""
    return rejected > fits * LEVEL + 3 * np.sqrt(fits * LEVEL * (1 - LEVEL))


def table_rows(
    files: Sequence[str], group: Group, batch: "FitBatch[Any]"
) -> list[dict[str, Any]]:
    """A row for each fit: its file, equation and settings, how it ended, whether the
    residuals reject the model, and what was learned with its standard errors (and
    intervals, if they were asked for)."""
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
            row["loss"], row["rejected"] = fit.loss, _is_rejected(fit)
            for each in fit.summary():
                name = each["name"]
                row[name] = each["estimate"]
                row[f"{name}_se"] = each["standard_error"]
                if "low" in each:
                    row |= {f"{name}_low": each["low"], f"{name}_high": each["high"]}
        rows.append(row)
    return rows
