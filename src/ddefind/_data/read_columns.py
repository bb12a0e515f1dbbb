"""Reading the columns of a table: which one is the time, which are measured quantities,
and which hold standard deviations."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._util import wording
from .._util.errors import quoted
from .column_names import (
    SD_SUFFIX,
    group_replicates,
    is_time_name,
    quantity_of_deviation,
)
from .date_and_time import join_date_and_time
from .detection_limits import limit_notes, take_limits
from .parse_cell import is_missing, is_text
from .percentages import check_percentages
from .repeated_times import check_groups
from .replicates import replicate_notes, stack_replicates
from .table import Table
from .time_column import has_numbers, read_times
from .units_row import take_units

# What the user may ask for: the names of columns or, by the name of each quantity, its
# column, or the columns of its replicates.
Columns = str | Sequence[str] | Mapping[str, str | Sequence[str]]
_HINT = (
    "Leave the cell empty where nothing was measured, or the whole column out by {}."
)


class Measurements(NamedTuple):
    """The content of a table, as the arguments of `Data`: times `t` of shape (N,), and
    values `x`, standard deviations `sd` and whether a value is `below` its limit, of
    shape (N, k)."""

    t: np.ndarray
    x: np.ndarray
    sd: np.ndarray | None
    below: np.ndarray | None
    names: tuple[str, ...]
    notes: tuple[str, ...]
    origin: float | str
    axis_labels: tuple[str, ...]


def read_measurements(
    table: Table,
    time: str | None,
    columns: Columns | None,
    start: Any,
    where: Mapping[str, Any],
) -> Measurements:
    """Read times, quantities and standard deviations from a table.

    `time`, `columns`, `start` and `where` are the arguments of `read_csv`. An error
    says which cell is wrong.
    """
    table, time, units = prepare(table, time, where)
    return read_prepared(table, time, units, columns, start)


def prepare(
    table: Table, time: str | None, where: Mapping[str, Any]
) -> tuple[Table, str, dict[str, str]]:
    """Return the rows of a table that are to be read, the name of the column of times,
    and the unit of each column that has one."""
    if not table.places:
        raise table.error("there are no rows of data.")
    if time is None:
        table = join_date_and_time(table)
    time = _time_column(table, time)
    table, units = take_units(table, time)
    for name, value in where.items():
        table = table.where(name, value)
    return table, time, units


def read_prepared(
    table: Table,
    time: str,
    units: Mapping[str, str],
    columns: Columns | None,
    start: Any,
) -> Measurements:
    """Read a table that was prepared by `prepare`."""
    t, origin, unit, time_notes = read_times(table, time, start)
    texts = [name for name in table.columns if _is_text(table.columns[name])]
    quantities, notes = chosen_quantities(table, time, columns)
    group_notes = check_groups(table, t, texts, columns is not None)
    names = [name for replicates in quantities.values() for name in replicates]
    deviations = _deviation_columns(table, quantities)
    numeric = [time] if has_numbers(table, time) else []
    table, limits = take_limits(table, names)
    table.check_decimals([*numeric, *names, *deviations])
    hint = _HINT.format(wording.COLUMNS)
    percent_notes = check_percentages(table, names, deviations)
    x = np.stack([table.numbers(name, hint) for name in names], axis=1)
    if not np.any(np.isfinite(x)):
        raise table.error("nothing is measured: no column holds a number but the time.")
    sd = _deviations(table, names, x, deviations) if deviations else None
    empty = [name for name, column in zip(names, x.T) if np.all(np.isnan(column))]
    notes += [f"{quoted(name)} is never measured." for name in empty]
    counts = [len(replicates) for replicates in quantities.values()]
    rows = stack_replicates(t, counts, {"x": x, "sd": sd, "below": limits})
    below = None if limits is None else rows["below"] == 1
    return Measurements(
        rows["t"],
        rows["x"],
        rows.get("sd"),
        below,
        tuple(quantities),
        (
            *table.notes,
            *time_notes,
            *notes,
            *group_notes,
            *percent_notes,
            *limit_notes(tuple(quantities), below),
        ),
        origin,
        _axis_labels(time, quantities, {**units, **unit}),
    )


def _axis_labels(
    time: str, quantities: Mapping[str, Sequence[str]], units: Mapping[str, str]
) -> tuple[str, ...]:
    """Return what stands on the axes: the names of the time and of each quantity in the
    source, with their units."""
    labels = [time if time != "t" else "time"]
    first = [time]
    for name, columns in quantities.items():
        labels.append(columns[0] if len(columns) == 1 else name)
        first.append(columns[0])
    return tuple(
        f"{label} [{units[column]}]" if units.get(column) else label
        for label, column in zip(labels, first)
    )


def _time_column(table: Table, time: str | None) -> str:
    """Return the name of the column of times: `time` if it is given, else `t`, else the
    only column that is named like a time."""
    if time is not None:
        table.check_name(wording.TIME, time)
        return time
    if "t" in table.columns:
        return "t"
    candidates = [name for name in table.columns if is_time_name(name)]
    if len(candidates) == 1:
        return candidates[0]
    listed = ", ".join(quoted(name) for name in list(candidates or table.columns)[:20])
    problem = (
        f"several columns may be the time: {listed}."
        if candidates
        else f"no column is called t or time; the columns are {listed}."
    )
    raise table.error(f"{problem} Say which is the time: {wording.TIME_NAME}.")


def chosen_quantities(
    table: Table, time: str, columns: Columns | None
) -> tuple[dict[str, list[str]], list[str]]:
    """Return the columns of each quantity, and notes on columns that are replicates or
    were left out, since they hold text."""
    if columns is not None:
        quantities = _chosen(table, time, columns)
        return quantities, replicate_notes(quantities)
    texts = [name for name in table.columns if _is_text(table.columns[name])]
    # Each column but the time, with the quantity whose standard deviation it is.
    others = {
        name: quantity_of_deviation(name) for name in table.columns if name != time
    }
    notes = [
        f"Column {quoted(name)} holds text and was left out."
        for name, base in others.items()
        if base is None and name in texts
    ]
    names = [
        name for name, base in others.items() if base is None and name not in texts
    ]
    quantities = group_replicates(names)
    for name, base in others.items():
        if base is None or base in quantities or others.get(base, base) is None:
            continue
        raise table.error(
            f"column {quoted(name)} is the standard deviation of {quoted(base)}, "
            "which is no quantity here. Rename it, or leave it out by "
            f"{wording.COLUMNS}."
        )
    if not names:
        raise table.error("there is no column of numbers beside the time.")
    return quantities, notes + replicate_notes(quantities)


def _chosen(table: Table, time: str, columns: Columns) -> dict[str, list[str]]:
    """Return the columns of each quantity in `columns`, after checking that each is a
    column of a quantity."""
    if isinstance(columns, Mapping):
        quantities = {
            str(name): [each] if isinstance(each, str) else list(each)
            for name, each in columns.items()
        }
        names = [name for each in quantities.values() for name in each]
        is_lacking = not all(quantities.values())
    else:
        names = [columns] if isinstance(columns, str) else list(columns)
        quantities, is_lacking = {name: [name] for name in names}, False
    for name in names:
        table.check_name(wording.COLUMNS, name)
        if name == time:
            raise table.error(
                f"column {quoted(name)} is the time. Leave it out of {wording.COLUMNS}."
            )
        base = quantity_of_deviation(name)
        if base in names:
            raise table.error(
                f"column {quoted(name)} is the standard deviation of {quoted(base)} "
                f"and is read with it. Leave it out of {wording.COLUMNS}."
            )
    if not names or len(set(names)) < len(names) or is_lacking:
        raise table.error(
            f"{wording.COLUMNS} must be different names, but got {columns!r}."
        )
    return quantities


def _is_text(cells: Sequence[str]) -> bool:
    """Return whether a column holds text, and nothing that may be a number."""
    return all(is_text(c) or is_missing(c) for c in cells) and any(map(is_text, cells))


def _deviation_columns(
    table: Table, quantities: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return the column of standard deviations of each column of a quantity, or an
    empty list if there are none. Replicates may share one, by the name of their
    quantity. Some, but not all, is an error."""
    names = [name for replicates in quantities.values() for name in replicates]
    known = set(table.columns).difference(names)
    columns, without = [], []
    for quantity, replicates in quantities.items():
        for name in replicates:
            choices = [name + SD_SUFFIX, quantity + SD_SUFFIX]
            found = [choice for choice in choices if choice in known]
            columns += found[:1]
            without += [] if found else [name]
    if columns and without:
        raise table.error(
            f"there is a column {quoted(columns[0])}, but none of standard deviations "
            f"of {quoted(without[0])}. Give them for all quantities, or for none."
        )
    return columns


def _deviations(
    table: Table, names: Sequence[str], x: np.ndarray, columns: Sequence[str]
) -> np.ndarray:
    """Read the standard deviations of the quantities `names`, whose values are `x`.
    Each must be positive, and present wherever its quantity is measured."""
    hint = _HINT.format(wording.COLUMNS)
    sd = np.stack([table.numbers(column, hint) for column in columns], axis=1)
    not_positive = np.argwhere(sd <= 0)
    if len(not_positive):
        row, index = map(int, not_positive[0])
        raise table.error(
            f"a standard deviation must be positive, but is {sd[row, index]:g}.",
            row,
            columns[index],
        )
    lacking = np.argwhere(np.isfinite(x) & np.isnan(sd))
    if len(lacking):
        row, index = map(int, lacking[0])
        raise table.error(
            f"{quoted(names[index])} is measured here, but its standard deviation is "
            "missing.",
            row,
            columns[index],
        )
    return sd
