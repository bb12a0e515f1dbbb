"""Inputs and doses of experiments: in columns beside the measurements, or in files of
their own."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final

import numpy as np

from .._util import wording
from .._util.errors import did_you_mean, quoted
from .columns import prepared
from .data import Data, read_any_table
from .doses import DoseRow, amount_column, dose_table
from .table import Table
from .times import times_as_in

# What the user may ask for: names of columns or, by the name of each input, its column,
# file or formula.
Inputs = str | Sequence[str] | Mapping[str, str]
_ENDINGS = (".csv", ".tsv", ".txt", ".dat", ".xlsx")
# The column that names the experiment in a file that belongs to others.
_EXPERIMENT = "experiment"


@final
@dataclass(frozen=True)
class Place:
    """The place of numbers: a column beside the measurements, if `file` is None, or a
    file of its own, whose column may be left open."""

    column: str | None
    file: str | None = None


class InputSeries(NamedTuple):
    """An input as it was recorded: increasing times, and a value at each."""

    t: np.ndarray
    values: np.ndarray


def find_place(text: str, columns: Sequence[str]) -> Place | None:
    """Return the place that a text names: `COLUMN`, `FILE` or `FILE:COLUMN`. None if it
    is none of these.

    `columns` are those of the measurements. They come first."""
    if text in columns:
        return Place(text)
    path, colon, column = text.rpartition(":")
    if Path(text).is_file():
        return Place(None, text)
    if colon and (Path(path).is_file() or path.lower().endswith(_ENDINGS)):
        return Place(column or None, path)
    return Place(None, text) if text.lower().endswith(_ENDINGS) else None


def input_places(
    inputs: Inputs, columns: Sequence[str]
) -> tuple[dict[str, Place], dict[str, str]]:
    """Return the places of the values of each input, and the inputs that are formulas
    of time."""
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


@final
class FurtherFiles:
    """The files of inputs and doses, each of which is read once.

    `time` is the name of the column of times, in files that have it, and `group` that
    of the column which names the experiment."""

    def __init__(self, time: str | None, group: str | None):
        self.time, self.group = time, group
        self.tables: dict[str, Table] = {}

    def table(self, path: str) -> Table:
        """Return the table in a file."""
        if path not in self.tables:
            table = read_any_table(path, self.time, None)
            time = self.time if self.time in table.columns else None
            self.tables[path] = prepared(table, time, {})
        return self.tables[path]

    def input(
        self, name: str, place: Place, data: Data, labels: Sequence[str]
    ) -> InputSeries:
        """Return an input of the experiment `data`, which is one of `labels`."""
        assert place.file is not None
        table = self.table(place.file)
        column = place.column or self._only_column(table, name)
        table.check_name(wording.INPUTS, column)
        return series(self._rows(table, data, labels), column, data)

    def doses(
        self, state: str | None, place: Place, data: Data, labels: Sequence[str]
    ) -> list[DoseRow]:
        """Return the doses of the experiment `data`, which is one of `labels`."""
        assert place.file is not None
        table = self._rows(self.table(place.file), data, labels)
        if place.column is not None:
            table.check_name(wording.DOSES, place.column)
        rows = dose_table(table, place.column or amount_column(table))
        return rows.doses(times_as_in(data, table), state, data.T)

    def _only_column(self, table: Table, name: str) -> str:
        """Return the column called `name` or, if there is none, the only one beside the
        time."""
        known = (table.time, self.group, _EXPERIMENT)
        others = [each for each in table.columns if each not in known]
        if name in others:
            return name
        if len(others) == 1:
            return others[0]
        listed = ", ".join(map(quoted, others[:20]))
        place = f"{name}={os.fspath(table.source)}:COLUMN"
        raise table.error(
            f"no column is called {quoted(name)}, and several may be it: {listed}. Say "
            f"which it is, as {wording.inputs(place)}."
        )

    def _rows(self, table: Table, data: Data, labels: Sequence[str]) -> Table:
        """Return the rows that belong to the experiment `data`, one of `labels`.

        The experiments are named in the column `group` or, without it, in a column
        `experiment`. If the file has no such column, all rows belong to each."""
        names = (self.group, _EXPERIMENT)
        column = next((name for name in names if name in table.columns), None)
        if column is None:
            return table
        cells = table.columns[column]
        for row, cell in enumerate(cells):
            if cell not in labels:
                hint = did_you_mean(cell, labels)
                raise table.error(
                    f"no experiment is called {cell!r}.{hint}", row, column
                )
        return table.rows([row for row, cell in enumerate(cells) if cell == data.label])


def series(table: Table, column: str, data: Data) -> InputSeries:
    """Return the input of the experiment `data` in a column, in the order of time.
    Where a time is repeated, as beside replicates, its values must be the same."""
    t, label = times_as_in(data, table), str(data.label)
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
    return InputSeries(t[kept], values[kept])
