"""Data of several experiments, made from the solutions of a model."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import ddefind as dd

from .._data.data import read_any_table
from .._data.inputs import FurtherFiles, find_place, input_places
from .._data.table import Table, parse_number
from .._fitting.read_study import as_dose, as_input
from .._util import wording
from .._util.errors import quoted
from .fit_arguments import doses_of
from .parse_options import OptionError

# The label of a single experiment.
_ONLY = "data"


class Conditions(NamedTuple):
    """One experiment: its name, its values of parameters, its inputs and doses."""

    label: str
    values: dict[str, float]
    inputs: dict[str, Any]
    doses: list[Any]


def read_conditions(
    model: "dd.Equation | dd.Problem",
    experiments: str | None,
    inputs: Mapping[str, str],
    input_kind: str | Mapping[str, str] | None,
    doses: str | dict[str, str] | None,
    T: float,
) -> tuple[str | None, list[Conditions]]:
    """Return the conditions of each experiment and, if there are several, the name of
    the column that names them: the first one of the file `experiments`, which has a row
    for each experiment and values of parameters in the other columns."""
    group, rows = None, {_ONLY: {}}
    if experiments is not None:
        group, rows = _rows(read_any_table(experiments, None, None))
    files, labels = FurtherFiles(None, group), list(rows)
    places, formulas = input_places(inputs, ())
    kinds = input_kind or "linear"
    found = []
    for label, values in rows.items():
        # Times in files are those of the simulation.
        here = dd.Data([0.0, T], [0.0, 0.0], label=label)
        tables = {
            name: as_input(name, files.input(name, place, here, labels), label, kinds)
            for name, place in places.items()
        }
        given = [
            as_dose(row)
            for state, text in _by_state(doses_of(doses, model))
            for row in files.doses(state, _dose_file(text), here, labels)
        ]
        found.append(Conditions(label, values, {**tables, **formulas}, given))
    return group, found


def study_csv(
    group: str,
    experiments: Sequence["tuple[Conditions, dd.Data]"],
    values: Sequence[str],
) -> str:
    """Return the text of a file with the data of all experiments. Its first column,
    `group`, names the experiment, and the last ones hold known `values`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for number, (conditions, data) in enumerate(experiments):
        header, *rows = csv.reader(io.StringIO(data.csv()))
        if not number:
            writer.writerow([group, *header, *values])
        known = [repr(conditions.values[name]) for name in values]
        writer.writerows([conditions.label, *row, *known] for row in rows)
    return text.getvalue()


def check_values(conditions: Sequence[Conditions], values: Sequence[str]) -> None:
    """Refuse columns to be written that are not among those of the experiments."""
    for name in values:
        if name not in conditions[0].values:
            raise OptionError(
                f"`--values` names {quoted(name)}, which is no column of the file of "
                "`--experiments`."
            )


def _rows(table: Table) -> tuple[str, dict[str, dict[str, float]]]:
    """Return the name of the first column, and the values of each experiment."""
    group, *names = table.columns
    rows: dict[str, dict[str, float]] = {}
    for row, label in enumerate(table.columns[group]):
        if label in rows:
            raise table.error(
                f"two experiments are called {quoted(label)}. Rename one of them.", row
            )
        rows[label] = {name: _value(table, name, row) for name in names}
    if not rows:
        raise table.error("there is no experiment: a row for each is needed.")
    return group, rows


def _value(table: Table, name: str, row: int) -> float:
    try:
        value = parse_number(table.columns[name][row])
    except ValueError as error:
        raise table.error(str(error), row, name) from None
    if np.isnan(value):
        raise table.error("the value is missing.", row, name)
    return value


def _by_state(
    doses: str | dict[str, str] | None,
) -> list[tuple[str | None, str]]:
    if doses is None:
        return []
    return [(None, doses)] if isinstance(doses, str) else list(doses.items())


def _dose_file(text: str) -> Any:
    place = find_place(text, ())
    if place is None:
        raise OptionError(
            f"{wording.DOSES} needs a file with the columns time, amount and state, "
            f"but got {quoted(text)}."
        )
    return place
