"""Reading the experiments of a study from tables: measurements, known values, inputs
and doses, all counted from the same time 0."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from .._util import wording
from .._util.errors import DataError, quoted
from .columns import Columns, chosen_quantities, prepared, read_prepared
from .data import Data, read_any_table
from .doses import DoseRow, Doses, DoseTable, dose_table
from .inputs import (
    FurtherFiles,
    Inputs,
    InputSeries,
    Place,
    find_place,
    input_places,
    series,
)
from .table import Table, is_missing
from .times import read_times, times_as_in


class ExperimentRecord(NamedTuple):
    """One experiment as read from files. An input is what was recorded, or the text of
    a formula of time."""

    data: Data
    values: dict[str, float]
    inputs: dict[str, InputSeries | str]
    doses: list[DoseRow]


class _Rows(NamedTuple):
    """Rows of an experiment: those that hold measurements, without the columns of other
    things, and those that hold measurements or doses; the columns to read; and the
    doses beside the measurements, with the state that receives them."""

    measured: Table
    with_doses: Table
    columns: Columns | None
    dosing: list[tuple[str | None, DoseTable]]


@final
@dataclass(frozen=True)
class StudyFiles:
    """What to read: the arguments of `read_study`."""

    paths: tuple[str | os.PathLike[str], ...]
    group: str | None
    values: tuple[str, ...]
    inputs: Inputs
    doses: Doses | None
    time: str | None
    columns: Columns | None
    start: float | str | None
    where: Mapping[str, Any]
    sheet: str | None

    def records(self) -> list[ExperimentRecord]:
        """Read all experiments."""
        tables = self._tables()
        names = list(dict.fromkeys(n for t in tables.values() for n in t.columns))
        places, formulas = input_places(self.inputs, names)
        doses = self._dose_places(names)
        rows = {
            label: self._rows(label, table, names, places, doses)
            for label, table in tables.items()
        }
        starts = _starts({n: each.with_doses for n, each in rows.items()}, self.start)
        files, labels = FurtherFiles(self.time, self.group), list(tables)
        records = []
        for label, table in tables.items():
            data = self._data(label, rows[label], starts[label])
            known = {name: _known_value(label, table, name) for name in self.values}
            recorded = {
                name: series(table, place.column, data)
                if place.file is None and place.column
                else files.input(name, place, data, labels)
                for name, place in places.items()
            }
            given = [
                dose
                for state, dosing in rows[label].dosing
                for dose in dosing.doses(times_as_in(data, table), state, data.T)
            ]
            for state, place in doses:
                if place.file is not None:
                    given += files.doses(state, place, data, labels)
            records.append(
                ExperimentRecord(data, known, {**recorded, **formulas}, given)
            )
        check_spelling([each.data for each in records])
        return records

    def _tables(self) -> dict[str, Table]:
        """Return the rows of each experiment, by its label."""
        tables: dict[str, Table] = {}
        for path in self.paths:
            table = read_any_table(path, self.time, self.sheet)
            table = prepared(table, self.time, self.where)
            found = {Path(path).stem: table}
            if self.group is not None:
                found = _split_rows(table, self.group)
            for label, part in found.items():
                if label in tables:
                    raise part.error(
                        f"two experiments are called {quoted(label)}, here and in "
                        f"{tables[label].source}. Rename one of them."
                    )
                tables[label] = part
        _check_units(tables.values())
        return tables

    def _dose_places(self, names: Sequence[str]) -> list[tuple[str | None, Place]]:
        """Return the places of doses, with the state that receives them, where
        given."""
        if self.doses is None:
            return []
        by_state = self.doses if isinstance(self.doses, Mapping) else {None: self.doses}
        places = []
        for state, text in by_state.items():
            place = find_place(text, names)
            if place is None:
                raise ValueError(
                    f"{wording.DOSES}: {quoted(text)} is neither a column of the "
                    "measurements nor a file. Give the column of amounts, or a file "
                    "with the columns time, amount and state."
                )
            places.append((state, place))
        return places

    def _rows(
        self,
        label: str,
        table: Table,
        names: Sequence[str],
        inputs: Mapping[str, Place],
        doses: Sequence[tuple[str | None, Place]],
    ) -> _Rows:
        """Return the rows of an experiment that hold measurements or doses. `names` are
        the columns of all experiments."""
        dosing = [
            (state, dose_table(table, place.column))
            for state, place in doses
            if place.file is None and place.column in table.columns
        ]
        taken = [*self.values, *([self.group] if self.group else [])]
        taken += [p.column for p in inputs.values() if p.column and p.file is None]
        taken += [name for _, each in dosing for name in each.columns.values()]
        rest = table.without([] if self.columns is not None else taken)
        columns = _known_columns(self.columns, table, names)
        quantities, _ = chosen_quantities(rest, columns)
        cells = [table.columns[name] for each in quantities.values() for name in each]
        measured, with_doses = [], []
        for row in range(len(table.places)):
            is_dose = any([each.is_dose(row) for _, each in dosing])
            is_measured = not all(is_missing(column[row]) for column in cells)
            if any(each.is_without_measurement(row) for _, each in dosing):
                is_measured = False
            measured += [row] * is_measured
            with_doses += [row] * (is_measured or is_dose)
        if not measured:
            raise table.error(
                f"experiment {quoted(label)} has no measurement. Leave its rows out."
            )
        return _Rows(rest.rows(measured), table.rows(with_doses), columns, dosing)

    def _data(self, label: str, rows: _Rows, start: float | str | None) -> Data:
        try:
            fields = read_prepared(rows.measured, rows.columns, start)
        except DataError as error:
            if self.group is None:
                raise
            raise DataError(f"Experiment {quoted(label)}: {error}") from None
        return Data(**fields, label=label)


def _split_rows(table: Table, group: str) -> dict[str, Table]:
    """Return the rows of each experiment, in the order in which the column `group`
    names them first."""
    table.check_name(wording.GROUP, group)
    if group == table.time:
        raise table.error(
            f"column {quoted(group)} is the time, so it cannot name the experiments "
            f"({wording.GROUP})."
        )
    rows: dict[str, list[int]] = {}
    for row, label in enumerate(table.columns[group]):
        if is_missing(label):
            raise table.error(
                "the name of the experiment is missing. Write it into each row.",
                row,
                group,
            )
        rows.setdefault(label, []).append(row)
    return {label: table.rows(numbers) for label, numbers in rows.items()}


def _known_columns(
    columns: Columns | None, table: Table, names: Sequence[str]
) -> Columns | None:
    """Return the chosen columns without those that another file has, but not this one:
    experiments may measure different quantities."""
    if columns is None:
        return None
    elsewhere = set(names) - set(table.columns)
    if not isinstance(columns, Mapping):
        listed = [columns] if isinstance(columns, str) else list(columns)
        return [name for name in listed if name not in elsewhere] or listed
    kept = {
        name: each
        for name, each in columns.items()
        if not elsewhere.intersection([each] if isinstance(each, str) else each)
    }
    return kept or columns


def _check_units(tables: Iterable[Table]) -> None:
    """Check that a column has the same unit in all files that state one."""
    first: dict[str, tuple[str, str]] = {}
    for table in tables:
        for name, unit in table.units.items():
            known, source = first.setdefault(name, (unit, table.source))
            if unit != known:
                raise table.error(
                    f"the unit is {quoted(unit)}, but {quoted(known)} in {source}. "
                    "Convert the values to one unit.",
                    name=name,
                )


def _known_value(label: str, table: Table, name: str) -> float:
    """Return the number that a column holds in all rows of an experiment."""
    table.check_name(wording.VALUES, name)
    numbers = table.numbers(name, "A known value is a number.")
    given = np.flatnonzero(np.isfinite(numbers))
    if not len(given):
        raise table.error(
            f"no row of experiment {quoted(label)} has a value ({wording.VALUES})."
            " Write it into at least one of them.",
            name=name,
        )
    first = int(given[0])
    for row in given.tolist():
        if numbers[row] != numbers[first]:
            raise table.error(
                f"experiment {quoted(label)} has the value {numbers[row]:.15g} "
                f"here, but {numbers[first]:.15g} in {table.places[first]}. A known "
                f"value ({wording.VALUES}) is one number for a whole experiment. "
                f"What changes with time is an input: {wording.inputs(name)}.",
                row,
                name,
            )
    return float(numbers[first])


def _starts(tables: Mapping[str, Table], start: Any) -> dict[str, float | str | None]:
    """Return for each experiment the argument `start` with which its times are read.

    If none is given, all experiments are treated alike: the times are kept if all of
    them together begin at 0 or soon after, as in one file, and otherwise each
    experiment begins at time 0."""
    if start is not None:
        return dict.fromkeys(tables, start)
    times = {label: read_times(table) for label, table in tables.items()}
    dated = [label for label, each in times.items() if isinstance(each.origin, str)]
    if dated:
        for label, table in tables.items():
            if label not in dated:
                raise table.error(
                    "the times are numbers, but those of experiment "
                    f"{quoted(dated[0])} are dates. Write all in the same way.",
                    name=table.time,
                )
        return dict.fromkeys(tables)
    firsts = {n: float(each.origin) + float(each.t.min()) for n, each in times.items()}
    last = max(float(each.origin) + float(each.t.max()) for each in times.values())
    first = min(firsts.values())
    if 0 <= first <= (last - first) / 2:
        return dict.fromkeys(tables, 0.0)
    # A time that is shifted anyway keeps all its digits.
    return {n: None if times[n].origin else begin for n, begin in firsts.items()}


def check_spelling(experiments: Sequence[Data]) -> None:
    """Check that no quantity has two spellings, as `prey` in one experiment and `Prey`
    in another."""
    by_names = {data.names: data for data in reversed(experiments)}
    for one, other in combinations(by_names.values(), 2):
        for name in set(one.names) - set(other.names):
            for same in set(other.names) - set(one.names):
                if _plain(name) == _plain(same):
                    raise DataError(
                        f"Experiment {quoted(str(one.label))} has a column "
                        f"{quoted(name)}, and experiment {quoted(str(other.label))} a "
                        f"column {quoted(same)}. If they are the same quantity, give "
                        "it one name."
                    )


def _plain(name: str) -> str:
    """Return a name without capitals, units in brackets, blanks and marks."""
    return re.sub(r"[\W_]", "", re.sub(r"[\[(].*", "", name.lower())) or name
