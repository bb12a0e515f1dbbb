"""The rows of one experiment in a table, and what they say beside the measurements."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from .._util import wording
from .._util.errors import did_you_mean, quoted
from .data import Data
from .parse_cell import is_missing
from .source_times import time_of
from .table import Table
from .time_column import read_any_times

# The column that names the experiment in a file that belongs to others.
_EXPERIMENT = "experiment"


@final
@dataclass(frozen=True)
class ExperimentRows:
    """The rows of one experiment: its label, its rows, the column of times, and the
    unit of each column that has one."""

    label: str
    table: Table
    time: str
    units: dict[str, str]

    def times(self, data: Data) -> np.ndarray:
        """Return the times of the rows, as they are counted in the data."""
        return times_as_in(data, self.table, self.time)

    def rows_where(self, is_wanted: Callable[[int], bool]) -> "ExperimentRows":
        """Return the rows whose index is wanted."""
        rows = [row for row in range(len(self.table.places)) if is_wanted(row)]
        return replace(self, table=self.table.rows(rows))


def times_as_in(data: Data, table: Table, time: str) -> np.ndarray:
    """Return the times of a table as they are counted in the data."""
    if not table.places:
        return np.empty(0)
    times = read_any_times(table, time)
    if isinstance(times.origin, str) != isinstance(data.origin, str):
        kinds = ["numbers", "dates"]
        here, there = kinds[:: -1 if isinstance(times.origin, str) else 1]
        raise table.error(
            f"the times are {here}, but those of the measurements are {there}. Write "
            "both in the same way.",
            name=time,
        )
    return times.t + time_of(data, times.origin)


def split_rows(
    table: Table, time: str, units: dict[str, str], group: str
) -> list[ExperimentRows]:
    """Return the rows of each experiment, in the order in which the column `group`
    names them first."""
    table.check_name(wording.GROUP, group)
    if group == time:
        raise table.error(
            f"column {quoted(group)} is the time, so it cannot name the experiments "
            f"({wording.GROUP})."
        )
    cells = table.columns[group]
    for row, cell in enumerate(cells):
        if is_missing(cell):
            raise table.error(
                "the name of the experiment is missing. Write it into each row.",
                row,
                group,
            )
    return [
        ExperimentRows(
            label,
            table.rows([row for row, cell in enumerate(cells) if cell == label]),
            time,
            units,
        )
        for label in dict.fromkeys(cells)
    ]


def rows_of_experiment(
    table: Table, group: str | None, label: str, labels: Sequence[str]
) -> Table:
    """Return the rows of a further file, of inputs or doses, that belong to one of the
    experiments `labels`.

    They are named in the column `group` or, without it, in a column `experiment`. If
    the file has no such column, all rows belong to every experiment."""
    column = next((name for name in (group, _EXPERIMENT) if name in table.columns), "")
    if not column:
        return table
    cells = table.columns[column]
    for row, cell in enumerate(cells):
        if cell not in labels:
            hint = did_you_mean(cell, labels)
            raise table.error(f"no experiment is called {cell!r}.{hint}", row, column)
    return table.rows([row for row, cell in enumerate(cells) if cell == label])


def known_value(rows: ExperimentRows, name: str) -> float:
    """Return the number that a column holds in all rows of an experiment."""
    table = rows.table
    table.check_name(wording.VALUES, name)
    numbers = table.numbers(name, "A known value is a number.")
    given = np.flatnonzero(np.isfinite(numbers))
    if not len(given):
        raise table.error(
            f"no row of experiment {quoted(rows.label)} has a value ({wording.VALUES})."
            " Write it into at least one of them.",
            name=name,
        )
    first = int(given[0])
    for row in given.tolist():
        if numbers[row] != numbers[first]:
            raise table.error(
                f"experiment {quoted(rows.label)} has the value {numbers[row]:.15g} "
                f"here, but {numbers[first]:.15g} in {table.places[first]}. A known "
                f"value ({wording.VALUES}) is one number for a whole experiment. "
                f"What changes with time is an input: {wording.inputs(name)}.",
                row,
                name,
            )
    return float(numbers[first])


def is_empty_row(table: Table, names: Iterable[str], row: int) -> bool:
    """Return whether all cells of a row in the columns `names` are missing."""
    return all(is_missing(table.columns[name][row]) for name in names)


def start_of_each(
    pieces: Sequence[ExperimentRows], start: Any
) -> list[float | str | None]:
    """Return for each experiment the argument `start` with which its times are read.

    If none is given, all experiments are treated alike: the times are kept if all of
    them together begin at 0 or soon after, as in one file, and otherwise each
    experiment begins at time 0.
    """
    if start is not None:
        return [start] * len(pieces)
    times = [read_any_times(piece.table, piece.time) for piece in pieces]
    dates = [isinstance(each.origin, str) for each in times]
    if any(dates):
        if not all(dates):
            piece = pieces[dates.index(False)]
            other = pieces[dates.index(True)]
            raise piece.table.error(
                "the times are numbers, but those of experiment "
                f"{quoted(other.label)} are dates. Write all in the same way.",
                name=piece.time,
            )
        return [None] * len(pieces)
    firsts = [float(each.origin) + float(each.t.min()) for each in times]
    last = max(float(each.origin) + float(each.t.max()) for each in times)
    first = min(firsts)
    if 0 <= first <= (last - first) / 2:
        return [0.0] * len(pieces)
    # A time that is shifted anyway keeps all its digits.
    return [None if each.origin else begin for each, begin in zip(times, firsts)]
