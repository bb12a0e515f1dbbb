"""Reading the columns of a table: which one is the time, which are measured quantities
or replicates of one, and which hold standard deviations.

A table may have a row of units, percentages, values below a limit as `<0.1`, and rows
that are replicates."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._util import wording
from .._util.errors import quoted
from .table import (
    UNIT,
    Table,
    is_below_limit,
    is_missing,
    is_percentage,
    is_text,
    is_time_name,
    parse_number,
    without_below,
)
from .times import is_value, join_date_and_time, read_times

# What the user may ask for: the names of columns or, by the name of each quantity, its
# column, or the columns of its replicates.
Columns = str | Sequence[str] | Mapping[str, str | Sequence[str]]
SD_SUFFIX = "_sd"
_HINT = (
    "Leave the cell empty where nothing was measured, or the whole column out by {}."
)
# A quantity, if any, the word for a replicate, and its number or letter.
_REPLICATE = re.compile(
    r"(?:(?P<quantity>.*[^\s_.(\[-])[\s_.(\[-]+)?(?:rep|repl|replicate|replica)"
    r"(?:[\s_.#-]*[0-9]+|[\s_.#-]+[a-z])[)\]]?",
    re.IGNORECASE,
)
_REPLICATE_COLUMN = re.compile(r"(?:rep|repl|replicate|replica|repeat)s?", re.I)
_LISTED = 4  # values of a column that a message shows


def prepared(table: Table, time: str | None, where: Mapping[str, Any]) -> Table:
    """Return the rows of a table that are to be read, with the name of the column of
    times and the units. `time` and `where` are the arguments of `read_csv`."""
    if not table.places:
        raise table.error("there are no rows of data.")
    if time is None:
        table = join_date_and_time(table)
    table = _with_units(replace(table, time=_time_column(table, time)))
    for name, value in where.items():
        table = table.where(name, value)
    return table


def read_measurements(
    table: Table, columns: Columns | None, start: Any
) -> dict[str, Any]:
    """Read times, quantities and standard deviations from a table that was prepared by
    `prepared`, as the arguments of `Data`. An error says which cell is wrong."""
    t, origin, unit, time_notes = read_times(table, start)
    if len(np.unique(t)) < 2:
        raise table.error(
            "all rows have the same time. At least two different times are needed.",
            name=table.time,
        )
    quantities, notes = chosen_quantities(table, columns)
    group_notes = _check_groups(table, t, columns is not None)
    names = [name for replicates in quantities.values() for name in replicates]
    deviations = _deviation_columns(table, quantities)
    numeric = [] if unit else [table.time]  # Dates and times of day have a unit.
    table, below = _take_limits(table, names)
    table.check_decimals([*numeric, *names, *deviations])
    percent_notes = _check_percentages(table, names, deviations)
    hint = _HINT.format(wording.COLUMNS)
    x = np.stack([table.numbers(name, hint) for name in names], axis=1)
    if not np.any(np.isfinite(x)):
        raise table.error("nothing is measured: no column holds a number but the time.")
    sd = _deviations(table, names, x, deviations) if deviations else None
    empty = [name for name, column in zip(names, x.T) if np.all(np.isnan(column))]
    notes += [f"{quoted(name)} is never measured." for name in empty]
    counts = [len(replicates) for replicates in quantities.values()]
    if max(counts) > 1:
        t, x, sd, below = _stacked(t, counts, x, sd, below)
    notes = [*time_notes, *notes, *group_notes, *percent_notes]
    for name, count in zip(quantities, [] if below is None else below.sum(axis=0)):
        values, are = ("value", "is") if count == 1 else ("values", "are")
        if count:
            known = f"{are} only known to be below a limit."
            notes.append(f"{count} {values} of {quoted(name)} {known}")
    return {
        "t": t,
        "x": x,
        "sd": sd,
        "below": below,
        "names": tuple(quantities),
        "notes": (*table.notes, *notes),
        "origin": origin,
        "axis_labels": _axis_labels(table.time, quantities, {**table.units, **unit}),
    }


def _axis_labels(
    time: str, quantities: Mapping[str, Sequence[str]], units: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the labels of the axes: names as in the source, with their units."""
    labels = {time: time if time != "t" else "time"}
    for name, columns in quantities.items():
        labels[columns[0]] = columns[0] if len(columns) == 1 else name
    return tuple(
        f"{label} [{units[column]}]" if units.get(column) else label
        for column, label in labels.items()
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


def _with_units(table: Table) -> Table:
    """Return a table without its row of units, and with the unit of each column that
    has one.

    The first row holds units if there is text in the column of times, text or nothing
    in the others, and a row below it."""
    cells = {name: column[0] for name, column in table.columns.items() if column}
    is_units = len(table.places) > 1 and not is_value(cells[table.time])
    if not is_units or any(is_value(c) and not is_missing(c) for c in cells.values()):
        return table
    units = {name: _bare(cell) for name, cell in cells.items() if not is_missing(cell)}
    listed = ", ".join(f"{quoted(name)} [{unit}]" for name, unit in units.items())
    note = f"Units are those of {table.places[0]}: {listed}."
    rest = table.rows(range(1, len(table.places)))
    return replace(rest, notes=(*table.notes, note), units=units)


def _bare(unit: str) -> str:
    """Return a unit without the brackets around it."""
    is_bracketed = (unit[0], unit[-1]) in (("[", "]"), ("(", ")"))
    return unit[1:-1].strip() if is_bracketed else unit


def chosen_quantities(
    table: Table, columns: Columns | None
) -> tuple[dict[str, list[str]], list[str]]:
    """Return the columns of each quantity, and notes on columns that are replicates or
    were left out, since they hold text."""
    notes: list[str] = []
    if columns is not None:
        quantities = _chosen(table, columns)
    else:
        quantities, texts = _found(table)
        notes += [f"Column {quoted(n)} holds text and was left out." for n in texts]
    for quantity, replicates in quantities.items():
        if len(replicates) > 1:
            *others, last = map(quoted, replicates)
            notes.append(
                f"Columns {', '.join(others)} and {last} are read as replicates of one "
                f"quantity, {quoted(quantity)}."
            )
    return quantities, notes


def _found(table: Table) -> tuple[dict[str, list[str]], list[str]]:
    """Return the columns of each quantity of a table, and the columns of text."""
    others = [name for name in table.columns if name != table.time]
    plain = [name for name in others if quantity_of_deviation(name) is None]
    texts = [name for name in plain if _is_text(table.columns[name])]
    names = [name for name in plain if name not in texts]
    quantities = group_replicates(names)
    for name in others:
        base = quantity_of_deviation(name)
        if base is not None and base not in quantities and base not in plain:
            raise table.error(
                f"column {quoted(name)} is the standard deviation of {quoted(base)}, "
                "which is no quantity here. Rename it, or leave it out by "
                f"{wording.COLUMNS}."
            )
    if not names:
        raise table.error("there is no column of numbers beside the time.")
    return quantities, texts


def _chosen(table: Table, columns: Columns) -> dict[str, list[str]]:
    """Return the columns of each quantity in `columns`, which are checked."""
    if isinstance(columns, Mapping):
        quantities = {
            str(name): [each] if isinstance(each, str) else list(each)
            for name, each in columns.items()
        }
        names = [name for each in quantities.values() for name in each]
    else:
        names = [columns] if isinstance(columns, str) else list(columns)
        quantities = {name: [name] for name in names}
    for name in names:
        table.check_name(wording.COLUMNS, name)
        if name == table.time:
            raise table.error(
                f"column {quoted(name)} is the time. Leave it out of {wording.COLUMNS}."
            )
        base = quantity_of_deviation(name)
        if base in names:
            raise table.error(
                f"column {quoted(name)} is the standard deviation of {quoted(base)} "
                f"and is read with it. Leave it out of {wording.COLUMNS}."
            )
    if not names or len(set(names)) < len(names) or not all(quantities.values()):
        raise table.error(
            f"{wording.COLUMNS} must be different names, but got {columns!r}."
        )
    return quantities


def _is_text(cells: Sequence[str]) -> bool:
    """Whether a column holds text, and nothing that may be a number."""
    return all(is_text(c) or is_missing(c) for c in cells) and any(map(is_text, cells))


def _check_groups(table: Table, t: np.ndarray, are_chosen: bool) -> list[str]:
    """Check that no column of text distinguishes rows of the same time, as the name of
    a treatment does. Return notes on columns that do, but may: the rows are replicates.

    They may if the user has chosen the columns to read, so that `are_chosen`, or if the
    column is called replicate."""
    _, time_index, counts = np.unique(t, return_inverse=True, return_counts=True)
    if np.all(counts == 1):
        return []
    notes = []
    for name in filter(lambda name: _is_text(table.columns[name]), table.columns):
        values, text_index = np.unique(table.columns[name], return_inverse=True)
        pairs = np.unique(time_index * len(values) + text_index)
        if len(pairs) == len(counts):
            continue
        listed = ", ".join(quoted(str(value), 20) for value in values[:_LISTED])
        listed += ", ..." if len(values) > _LISTED else ""
        if not are_chosen and not _REPLICATE_COLUMN.fullmatch(name):
            one = wording.rows_where(name, str(values[0]))
            raise table.error(
                f"column {quoted(name)} ({listed}) distinguishes rows of the same "
                "time, which would be pooled as replicates. Read the rows of one value "
                f"by {one}, or each value as an experiment by {wording.group(name)}; "
                "if all are replicates, say which columns to read by "
                f"{wording.COLUMNS}."
            )
        notes.append(
            f"Rows of the same time that differ in column {quoted(name)} ({listed}) "
            "are taken as replicates."
        )
    return notes


def quantity_of_deviation(name: str) -> str | None:
    """Return the quantity whose standard deviation a column holds, judging by its
    name, or None for any other column."""
    has_suffix = name.endswith(SD_SUFFIX) and name != SD_SUFFIX
    return name.removesuffix(SD_SUFFIX) if has_suffix else None


def group_replicates(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns of each quantity, in their order. These are several if their
    names differ only in the number or letter of a replicate. Without another name in
    them, the quantity is called x.

    >>> group_replicates(["OD_rep1", "OD_rep2", "pH"])
    {'OD': ['OD_rep1', 'OD_rep2'], 'pH': ['pH']}
    >>> group_replicates(["rep 1", "rep 2"]), group_replicates(["rep1", "repA"])
    ({'x': ['rep 1', 'rep 2']}, {'rep1': ['rep1'], 'repA': ['repA']})
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_quantity_of_replicate(name) or name, []).append(name)
    quantities: dict[str, list[str]] = {}
    for quantity, columns in groups.items():
        # One replicate alone, or a quantity that is a column itself, stays as it is.
        if len(columns) == 1 or quantity in names:
            quantities |= {name: [name] for name in columns}
        else:
            quantities[quantity] = columns
    return dict(sorted(quantities.items(), key=lambda item: names.index(item[1][0])))


def _quantity_of_replicate(name: str) -> str | None:
    """Return the quantity of which a column is a replicate, judging by its name."""
    match = _REPLICATE.fullmatch(name)
    if match:
        return match["quantity"] or "x"
    unit = UNIT.search(name)
    match = _REPLICATE.fullmatch(name[: unit.start()]) if unit else None
    return f"{match['quantity'] or 'x'}{unit[0]}" if match and unit else None


def _stacked(
    t: np.ndarray, counts: Sequence[int], x: np.ndarray, *others: np.ndarray | None
) -> list[Any]:
    """Return times, values `x` and other arrays with one row for each time and
    replicate, from arrays with one column for each replicate.

    `counts` says how many columns each quantity has. Rows without any measurement are
    left out, but not those of a first replicate."""
    replicate = np.concatenate([np.arange(count) for count in counts])
    quantity = np.repeat(np.arange(len(counts)), counts)

    def stacked(array: np.ndarray) -> np.ndarray:
        rows = np.full((max(counts), len(t), len(counts)), np.nan)
        rows[replicate, :, quantity] = array.T
        return rows if array.dtype != bool else rows == 1

    kept = np.any(np.isfinite(stacked(x)), axis=2)
    kept[0] = True
    arrays = [None if array is None else stacked(array)[kept] for array in (x, *others)]
    return [np.broadcast_to(t, kept.shape)[kept], *arrays]


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


def _take_limits(table: Table, names: Sequence[str]) -> tuple[Table, np.ndarray | None]:
    """Return a table in which the cells `<0.1` of the columns `names` hold the limit,
    0.1, and an array of the rows and columns in which they stood, or None if there are
    none."""
    below = np.array(
        [[is_below_limit(cell) for cell in table.columns[name]] for name in names]
    ).T
    if not np.any(below):
        return table, None
    limits = {name: list(map(without_below, table.columns[name])) for name in names}
    return replace(table, columns={**table.columns, **limits}), below


def _check_percentages(
    table: Table, quantities: Sequence[str], deviations: Sequence[str]
) -> list[str]:
    """Check that each column holds percentages throughout or not at all, and that the
    standard deviations (of the same quantities, or none) do as the quantities. Return a
    note on each column of percentages."""
    first = {
        name: _first_percentage(table, name) for name in (*quantities, *deviations)
    }
    for quantity, deviation in zip(quantities, deviations):
        if (first[quantity] is None) != (first[deviation] is None):
            yes, no = quantity, deviation
            if first[quantity] is None:
                yes, no = no, yes
            raise table.error(
                f"column {quoted(yes)} holds percentages, but column {quoted(no)} does "
                "not. Write both with percent signs, or both without."
            )
    return [
        f"Percentages of column {quoted(name)} are read as fractions: {cell} is "
        f"{parse_number(cell):g}."
        for name, cell in first.items()
        if cell is not None
    ]


def _first_percentage(table: Table, name: str) -> str | None:
    """Return the first percentage of a column, or None if there are none. Both
    percentages and other numbers are an error."""
    cells = table.columns[name]
    first = next((cell for cell in cells if cell.endswith("%")), None)
    if first is None or not is_percentage(first):
        return None
    for row, cell in enumerate(cells):
        if not is_missing(cell) and not is_percentage(cell):
            raise table.error(
                f"{quoted(cell)} has no percent sign, but {quoted(first)} has. Write "
                "the whole column with percent signs, or without.",
                row,
                name,
            )
    return first
