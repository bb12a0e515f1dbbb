"""Reading the experiments of a study from tables: measurements, known values, inputs
and doses, all counted from the same time 0."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, final

from .._util import wording
from .._util.errors import DataError, quoted
from .data import Data
from .dose_rows import (
    DoseRow,
    Doses,
    dose_columns,
    is_dose,
    is_without_measurement,
    read_doses,
)
from .experiment_rows import (
    ExperimentRows,
    is_empty_row,
    known_value,
    split_rows,
    start_of_each,
)
from .further_files import FurtherFiles
from .input_columns import (
    Inputs,
    Series,
    input_from_rows,
    input_places,
)
from .place import Place, find_place
from .read_columns import Columns, chosen_quantities, prepare, read_prepared
from .read_table import read_any_table
from .table import Table


class Record(NamedTuple):
    """One experiment as it stands in files. An input is what was recorded, or the text
    of a formula of time."""

    data: Data
    values: dict[str, float]
    inputs: dict[str, Series | str]
    doses: list[DoseRow]


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

    def records(self) -> list[Record]:
        """Read all experiments."""
        pieces = self._pieces()
        names = list(dict.fromkeys(n for piece in pieces for n in piece.table.columns))
        places, formulas = input_places(self.inputs, names)
        doses = self._dose_places(names)
        measured = [self._measured(each, names, places, doses) for each in pieces]
        starts = start_of_each([each.with_doses for each in measured], self.start)
        labels = [piece.label for piece in pieces]
        files = FurtherFiles(self.time, self.group)
        records = []
        for piece, rows, start in zip(pieces, measured, starts):
            data = self._data(rows.measured, rows.columns, start)
            records.append(
                Record(
                    data,
                    {name: known_value(piece, name) for name in self.values},
                    {
                        **{
                            name: input_from_rows(piece, place.column, data)
                            if place.file is None and place.column
                            else files.input(name, place, data, labels)
                            for name, place in places.items()
                        },
                        **formulas,
                    },
                    self._doses(piece, rows, doses, data, files, labels),
                )
            )
        check_spelling([each.data for each in records])
        return records

    def _pieces(self) -> list[ExperimentRows]:
        """Return the rows of each experiment, with labels that differ."""
        pieces: list[ExperimentRows] = []
        for path in self.paths:
            table = read_any_table(path, self.time, self.sheet)
            table, time, units = prepare(table, self.time, self.where)
            if self.group is None:
                pieces.append(ExperimentRows(Path(path).stem, table, time, units))
            else:
                pieces += split_rows(table, time, units, self.group)
        _check_labels(pieces)
        _check_units(pieces)
        return pieces

    def _dose_places(self, names: Sequence[str]) -> list[tuple[str | None, Place]]:
        """Return where doses stand, with the state that receives them, where that is
        said."""
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

    def _measured(
        self,
        piece: ExperimentRows,
        names: Sequence[str],
        inputs: Mapping[str, Place],
        doses: Sequence[tuple[str | None, Place]],
    ) -> "_MeasuredRows":
        """Return the rows of an experiment that hold measurements, and those that hold
        measurements or doses."""
        table = piece.table
        taken = [*self.values, *([self.group] if self.group else [])]
        taken += [p.column for p in inputs.values() if p.column and p.file is None]
        dosing = []
        for state, place in doses:
            if place.file is None and place.column in table.columns:
                columns = dose_columns(table, place.column)
                dosing.append((state, columns))
                taken += columns.values()
        rest = table.without([] if self.columns is not None else taken)
        columns = _known_columns(self.columns, table, names)
        quantities, _ = chosen_quantities(rest, piece.time, columns)
        cells = [name for each in quantities.values() for name in each]
        given = [
            any(is_dose(table, columns, row) for _, columns in dosing)
            for row in range(len(table.places))
        ]
        held = [
            not is_empty_row(table, cells, row)
            and not any(is_without_measurement(table, c, row) for _, c in dosing)
            for row in range(len(table.places))
        ]
        if not any(held):
            raise table.error(
                f"experiment {quoted(piece.label)} has no measurement. Leave its rows "
                "out."
            )
        without = ExperimentRows(piece.label, rest, piece.time, piece.units)
        return _MeasuredRows(
            without.rows_where(lambda row: held[row]),
            piece.rows_where(lambda row: held[row] or given[row]),
            columns,
            dosing,
        )

    def _data(
        self, rows: ExperimentRows, columns: Columns | None, start: float | str | None
    ) -> Data:
        try:
            read = read_prepared(rows.table, rows.time, rows.units, columns, start)
        except DataError as error:
            if self.group is None:
                raise
            raise DataError(f"Experiment {quoted(rows.label)}: {error}") from None
        return Data(**read._asdict(), label=rows.label)

    def _doses(
        self,
        piece: ExperimentRows,
        rows: "_MeasuredRows",
        places: Sequence[tuple[str | None, Place]],
        data: Data,
        files: FurtherFiles,
        labels: Sequence[str],
    ) -> list[DoseRow]:
        """Return the doses of an experiment: those in its rows, then those of files."""
        table, doses = piece.table, []
        for state, columns in rows.dosing:
            given = [r for r in range(len(table.places)) if is_dose(table, columns, r)]
            doses += read_doses(table, columns, given, piece.times(data), state, data.T)
        for state, place in places:
            if place.file is not None:
                doses += files.doses(state, place, data, labels)
        return doses


class _MeasuredRows(NamedTuple):
    measured: ExperimentRows
    with_doses: ExperimentRows
    columns: Columns | None
    dosing: list[tuple[str | None, dict[str, str]]]


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


def _check_labels(pieces: Sequence[ExperimentRows]) -> None:
    sources: dict[str, str] = {}
    for piece in pieces:
        if piece.label in sources:
            raise piece.table.error(
                f"two experiments are called {quoted(piece.label)}, here and in "
                f"{sources[piece.label]}. Rename one of them."
            )
        sources[piece.label] = piece.table.source


def _check_units(pieces: Sequence[ExperimentRows]) -> None:
    """Check that a column has the same unit in all files that tell it."""
    first: dict[str, tuple[str, str]] = {}
    for piece in pieces:
        for name, unit in piece.units.items():
            known, source = first.setdefault(name, (unit, piece.table.source))
            if unit != known:
                raise piece.table.error(
                    f"the unit is {quoted(unit)}, but {quoted(known)} in {source}. "
                    "Convert the values to one unit.",
                    name=name,
                )


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
