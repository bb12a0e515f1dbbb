"""Reading the experiments of a study: measurements, known values, inputs and doses, all
counted from the same time 0. Inputs and doses are columns beside the measurements, or
files of their own."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from .._problem.doses import Dose, SetState
from .._problem.inputs import Input
from .._util import wording
from .._util.errors import DataError, did_you_mean, quoted
from .columns import Columns, chosen_quantities, prepared, read_measurements
from .data import Data
from .doses import Doses, DoseTable
from .read_csv import read_any_table
from .study_data import Experiment
from .table import Place, Table, find_place, is_missing
from .times import read_times, times_as_in

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
# What the user may ask for: names of columns or, by the name of each input, its column,
# file or formula; and how inputs run between their values, or how each input does.
Inputs = str | Sequence[str] | Mapping[str, str]
Kinds = str | Mapping[str, str]
# The column that names the experiment in a file that belongs to others.
_EXPERIMENT = "experiment"


def read_study(
    path: Paths,
    *,
    group: str | None = None,
    values: str | Sequence[str] = (),
    inputs: Inputs = (),
    input_kind: Kinds = "linear",
    doses: Doses | None = None,
    time: str | None = None,
    columns: Columns | None = None,
    start: float | str | None = None,
    where: Mapping[str, Any] | None = None,
    sheet: str | None = None,
) -> list[Experiment]:
    """Read the experiments of a study, for `dd.fit`, from one file or from several.

    **Arguments**

    - `path`: a file, or a list of files. Each is read by the rules of `read_csv`.
    - `group`: the column that names the experiment to which a row belongs. Without it,
      each file is an experiment, which is called as the file.
    - `values`: columns of known values, each one number for a whole experiment, such as
      a dose or a temperature. They become the `values` of the experiment.
    - `inputs`: the columns of inputs. `{"u": "Temp (C)"}` gives an input another name
      than its column, `{"u": "weather.csv:Temp"}` takes it from another file, and
      `{"u": "sin(t)"}` is a formula of time. Rows that hold inputs need no measurement.
    - `input_kind`: how inputs run between their values, `"linear"`, `"steps"` or
      `"cubic"`; or a dict by name.
    - `doses`: the column of amounts, in rows of the same file, or a file of its own.
      `{"gut": "AMT"}` says that all are given to the state `gut`; otherwise a column
      `state` says to which state. Further columns are `duration` or `rate`, `every` and
      `count`, and `event`, which is `set` where a state is set to the amount; the names
      of NONMEM are understood, too.
    - `time`, `columns`, `start`, `where`, `sheet`: as for `read_csv`. If `start` is not
      given, either all experiments keep their times or each begins at time 0.

    Rows of another file of inputs or doses belong to the experiment that their column
    `group` or `experiment` names, and to all experiments if there is no such column.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "growth.csv"
    >>> _ = path.write_text("id,t,x,food\\na,0,1,5\\na,1,2,5\\nb,0,1,9\\nb,1,3,9\\n")
    >>> a, b = dd.read_study(path, group="id", values="food")
    >>> a.label, a.values, b.data
    ('a', {'food': 5.0}, Data 'b': 2 times in [0, 1], 1 quantity (x))
    """
    paths = (path,) if isinstance(path, str | os.PathLike) else tuple(path)
    if not paths:
        raise ValueError("`path` must be a file or a list of files, but it is empty.")
    values = (values,) if isinstance(values, str) else tuple(values)
    tables: dict[str, Table] = {}
    for each in paths:
        table = prepared(read_any_table(each, time, sheet), time, where or {})
        found = {Path(each).stem: table} if group is None else _by_label(table, group)
        for label, part in found.items():
            if label in tables:
                raise part.error(
                    f"two experiments are called {quoted(label)}, here and in "
                    f"{tables[label].source}. Rename one of them."
                )
            tables[label] = part
    _check_units(tables.values())
    names = list(dict.fromkeys(n for table in tables.values() for n in table.columns))
    places, formulas = input_places(inputs, names)
    _check_kinds(input_kind, [*places, *formulas])
    given = dose_places(doses, names)
    # Columns beside the measurements that hold other things.
    taken = [*values, *([] if group is None else [group])]
    taken += [p.column for p in places.values() if p.column and p.file is None]
    rows = {
        label: _rows_of(label, table, columns, names, taken, given)
        for label, table in tables.items()
    }
    starts = _starts({label: each.with_doses for label, each in rows.items()}, start)
    files, labels = FurtherFiles(time, group), list(tables)
    experiments = []
    for label, table in tables.items():
        try:
            fields = read_measurements(
                rows[label].measured, rows[label].columns, starts[label]
            )
        except DataError as error:
            if group is None:
                raise
            raise DataError(f"Experiment {quoted(label)}: {error}") from None
        data = Data(**fields, label=label)
        known = {name: _known_value(label, table, name) for name in values}
        of_this = {
            name: input_in(table, name, place.column, data, input_kind)
            if place.file is None and place.column
            else files.input(name, place, data, labels, input_kind)
            for name, place in places.items()
        }
        dosing = [
            dose
            for state, each in rows[label].dosing
            for dose in each.doses(times_as_in(data, table), state, data.T)
        ]
        for state, place in given:
            if place.file is not None:
                dosing += files.doses(state, place, data, labels)
        experiments.append(Experiment(data, {**of_this, **formulas}, dosing, known))
    _check_spelling([each.data for each in experiments])
    return experiments


def _by_label(table: Table, group: str) -> dict[str, Table]:
    """Return the rows of each experiment, as the column `group` names them."""
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


def _check_kinds(kinds: Kinds, inputs: Sequence[str]) -> None:
    """Refuse kinds of inputs that there are not, and unknown kinds."""
    by_name = {} if isinstance(kinds, str) else kinds
    for name in by_name:
        if name not in inputs:
            hint = did_you_mean(name, inputs) if inputs else ""
            raise ValueError(
                f"{wording.INPUT_KIND} names {quoted(name)}, which is no input.{hint}"
            )
    for kind in [kinds] if isinstance(kinds, str) else by_name.values():
        if kind not in ("linear", "steps", "cubic"):
            raise ValueError(
                f"{wording.INPUT_KIND} must be linear, steps or cubic, but got "
                f"{quoted(kind)}."
            )


class _Rows(NamedTuple):
    """Rows of an experiment: those that hold measurements, without the columns of other
    things, and those that hold measurements or doses; the columns to read; and the
    doses beside the measurements, with the state that receives them."""

    measured: Table
    with_doses: Table
    columns: Columns | None
    dosing: list[tuple[str | None, DoseTable]]


def _rows_of(
    label: str,
    table: Table,
    columns: Columns | None,
    names: Sequence[str],
    taken: Sequence[str],
    doses: Sequence[tuple[str | None, Place]],
) -> _Rows:
    """Return the rows of an experiment that hold measurements or doses. `names` are the
    columns of all experiments; those that are `taken` hold no measurements."""
    dosing = [
        (state, DoseTable(table, place.column))
        for state, place in doses
        if place.file is None and place.column in table.columns
    ]
    if columns is None:
        of_doses = [name for _, each in dosing for name in each.columns.values()]
        rest = table.without([*taken, *of_doses])
    else:
        rest, columns = table, _known_columns(columns, table, names)
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


def _known_columns(columns: Columns, table: Table, names: Sequence[str]) -> Columns:
    """Return the chosen columns without those that another file has, but not this one:
    experiments may measure different quantities."""
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


def _known_value(label: str, table: Table, name: str) -> float:
    """Return the number that a column holds in all rows of an experiment."""
    table.check_name(wording.VALUES, name)
    numbers = table.numbers(name, "A known value is a number.")
    given = np.flatnonzero(np.isfinite(numbers)).tolist()
    if not given:
        raise table.error(
            f"no row of experiment {quoted(label)} has a value ({wording.VALUES})."
            " Write it into at least one of them.",
            name=name,
        )
    first = given[0]
    for row in given:
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


def _check_spelling(experiments: Sequence[Data]) -> None:
    """Check that no quantity has two spellings, as `prey` and `Prey`."""

    def plain(name: str) -> str:
        """Return a name without capitals, units in brackets, blanks and marks."""
        return re.sub(r"[\W_]", "", re.sub(r"[\[(].*", "", name.lower())) or name

    by_names = {data.names: data for data in reversed(experiments)}
    for one, other in combinations(by_names.values(), 2):
        for name in set(one.names) - set(other.names):
            for same in set(other.names) - set(one.names):
                if plain(name) == plain(same):
                    raise DataError(
                        f"Experiment {quoted(str(one.label))} has a column "
                        f"{quoted(name)}, and experiment {quoted(str(other.label))} a "
                        f"column {quoted(same)}. If they are the same quantity, give "
                        "it one name."
                    )


# Inputs and doses


def input_places(
    inputs: Inputs, columns: Sequence[str] = ()
) -> tuple[dict[str, Place], dict[str, str]]:
    """Return the places of the values of each input, and the inputs that are formulas
    of time. Without measurements there are no `columns`."""
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


def dose_places(
    doses: Doses | None, columns: Sequence[str] = ()
) -> list[tuple[str | None, Place]]:
    """Return the places of doses, with the state that receives them, where given.
    Without measurements there are no `columns`."""
    by_state = doses if isinstance(doses, Mapping) else {None: doses}
    places = []
    for state, text in by_state.items():
        if text is None:
            continue
        place = find_place(text, columns)
        if place is None and columns:
            raise ValueError(
                f"{wording.DOSES}: {quoted(text)} is neither a column of the "
                "measurements nor a file. Give the column of amounts, or a file "
                "with the columns time, amount and state."
            )
        if place is None:
            raise ValueError(
                f"{wording.DOSES} needs a file with the columns time, amount and "
                f"state, but got {quoted(text)}."
            )
        places.append((state, place))
    return places


@final
class FurtherFiles:
    """The files of inputs and doses, each of which is read once.

    `time` is the name of the column of times, in files that have it, and `group` that
    of the column which names the experiment."""

    def __init__(self, time: str | None, group: str | None):
        self.time, self.group = time, group
        self.tables: dict[str, Table] = {}

    def input(
        self, name: str, place: Place, data: Data, labels: Sequence[str], kinds: Kinds
    ) -> Input:
        """Return an input of the experiment `data`, which is one of `labels`."""
        table = self._table(place)
        column = place.column or self._only_column(table, name)
        table.check_name(wording.INPUTS, column)
        return input_in(self._rows(table, data, labels), name, column, data, kinds)

    def doses(
        self, state: str | None, place: Place, data: Data, labels: Sequence[str]
    ) -> list[Dose | SetState]:
        """Return the doses of the experiment `data`, which is one of `labels`."""
        table = self._rows(self._table(place), data, labels)
        if place.column is not None:
            table.check_name(wording.DOSES, place.column)
        rows = DoseTable(table, place.column)
        return rows.doses(times_as_in(data, table), state, data.T)

    def _table(self, place: Place) -> Table:
        path = place.file
        assert path is not None
        if path not in self.tables:
            table = read_any_table(path, self.time, None)
            time = self.time if self.time in table.columns else None
            self.tables[path] = prepared(table, time, {})
        return self.tables[path]

    def _only_column(self, table: Table, name: str) -> str:
        """Return the column called `name`, or else the only one beside the time."""
        known = (table.time, self.group, _EXPERIMENT)
        others = [each for each in table.columns if each not in known]
        if name in others:
            return name
        if len(others) == 1:
            return others[0]
        listed = ", ".join(map(quoted, others[:20]))
        place = f"{name}={table.source}:COLUMN"
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


def input_in(table: Table, name: str, column: str, data: Data, kinds: Kinds) -> Input:
    """Return the input `name` of the experiment `data`, from a column. Where a time is
    repeated, as beside replicates, its values must be the same."""
    t, label = times_as_in(data, table), quoted(str(data.label))
    values = table.numbers(column, "An input is a number; leave unknown cells empty.")
    known = np.isfinite(values)
    rows = np.flatnonzero(known)[np.argsort(t[known], kind="stable")]
    if not len(rows):
        raise table.error(
            f"experiment {label} has no value of this input.", None, column
        )
    same = np.flatnonzero(np.diff(t[rows]) == 0)
    for index in same.tolist():
        one, other = int(rows[index]), int(rows[index + 1])
        if values[one] != values[other]:
            raise table.error(
                f"the input is {values[other]:.15g} here, but {values[one]:.15g} at "
                f"the same time in {table.places[one]}, in experiment {label}. Give "
                "one value for each time; where an input jumps, use steps: "
                f"{wording.input_kind('steps')}.",
                other,
                column,
            )
    kept = np.delete(rows, same)
    kind: Any = kinds if isinstance(kinds, str) else kinds.get(name, "linear")
    try:
        return Input(t[kept], values[kept], kind)
    except ValueError as error:
        raise ValueError(
            f"Input {quoted(name)} of experiment {label}: {error}"
        ) from None
