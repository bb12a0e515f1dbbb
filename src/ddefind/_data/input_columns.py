"""Inputs from files: a column beside the measurements, or a file of its own."""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .._util import wording
from .._util.errors import did_you_mean, quoted
from .data import Data
from .experiment_rows import ExperimentRows, rows_of_experiment, times_as_in
from .place import Place, find_place
from .table import Table

# What the user may ask for: names of columns or, by the name of each input, its column,
# file or formula.
Inputs = str | Sequence[str] | Mapping[str, str]


class Series(NamedTuple):
    """An input as it was recorded: increasing times, and a value at each."""

    t: np.ndarray
    values: np.ndarray


def input_places(
    inputs: Inputs, columns: Sequence[str]
) -> tuple[dict[str, Place], dict[str, str]]:
    """Return where the values of each input stand, and the inputs that are formulas of
    time."""
    if not isinstance(inputs, Mapping):
        names = (inputs,) if isinstance(inputs, str) else inputs
        inputs = {name: name for name in names}
    places: dict[str, Place] = {}
    formulas: dict[str, str] = {}
    for name, text in inputs.items():
        place = find_place(text, columns)
        if place is not None:
            places[name] = place
        elif text.isidentifier() or text == name:
            hint = did_you_mean(text, columns) if columns else ""
            raise ValueError(
                f"{wording.INPUTS}: there is no column {quoted(text)} for the input "
                f"{quoted(name)}.{hint} Give a column, a file with its column as "
                f"{wording.inputs(f'{name}=FILE.csv:COLUMN')}, or a formula of t."
            )
        else:
            formulas[name] = text
    return places, formulas


def input_from_rows(rows: ExperimentRows, column: str, data: Data) -> Series:
    """Return an input from a column beside the measurements."""
    return _series(rows.table, column, rows.times(data), rows.label)


def input_from_file(
    table: Table,
    time: str,
    place: Place,
    name: str,
    data: Data,
    group: str | None,
    labels: Sequence[str],
) -> Series:
    """Return the input `name` of the experiment `data` from the table of a file of its
    own."""
    assert data.label is not None
    column = place.column or _only_column(table, time, name, group)
    table.check_name(wording.INPUTS, column)
    rows = rows_of_experiment(table, group, data.label, labels)
    return _series(rows, column, times_as_in(data, rows, time), data.label)


def _only_column(table: Table, time: str, name: str, group: str | None) -> str:
    """Return the column called `name` or, if there is none, the only one beside the
    time."""
    others = [each for each in table.columns if each not in (time, group, "experiment")]
    if name in others:
        return name
    if len(others) == 1:
        return others[0]
    listed = ", ".join(map(quoted, others[:20]))
    raise table.error(
        f"no column is called {quoted(name)}, and several may be it: {listed}. Say "
        f"which it is, as {wording.inputs(f'{name}={os.fspath(table.source)}:COLUMN')}."
    )


def _series(table: Table, column: str, t: np.ndarray, label: str) -> Series:
    """Return the values of a column in the order of time. Where it is repeated at one
    time, as beside replicates, its values must be the same."""
    values = table.numbers(column, "An input is a number; leave unknown cells empty.")
    known = np.isfinite(values)
    rows = np.flatnonzero(known)[np.argsort(t[known], kind="stable")]
    if not len(rows):
        raise table.error(
            f"experiment {quoted(label)} has no value of this input.", name=column
        )
    same = np.flatnonzero(np.diff(t[rows]) == 0)
    for index in same.tolist():
        one, other = int(rows[index]), int(rows[index + 1])
        if values[one] != values[other]:
            raise table.error(
                f"the input is {values[other]:.15g} here, but {values[one]:.15g} at "
                f"the same time in {table.places[one]}, in experiment {quoted(label)}. "
                "Give one value for each time; where an input jumps, use steps: "
                f"{wording.input_kind('steps')}.",
                other,
                column,
            )
    kept = np.delete(rows, same)
    return Series(t[kept], values[kept])
