"""Doses in files: rows with an amount, among the measurements or in their own file.

The names of the columns may be those of NONMEM, in capitals or not:

| column | meaning |
|---|---|
| `amount`, `AMT` | what is added at the time of the row; empty or 0: nothing |
| `state`, `compartment`, `CMT` | the name of the state to which it is added |
| `duration` | over how long, at a constant rate; empty or 0: at once |
| `rate`, `RATE` | the same as the rate at which it is given |
| `every`, `II` | the time between repeated doses |
| `count` | how many doses there are |
| `ADDL` | how many there are in addition to the first |
| `event` | `add`, or `set` for a state that is set to the amount |
| `EVID` | 0 is a measurement, 1 a dose; others are refused |
| `MDV` | 1: the row holds no measurement |

An amount or a duration may also be the name of a parameter.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from .._util import wording
from .._util.errors import quoted
from .parse_cell import is_missing, is_number, parse_number
from .place import Place
from .table import Table

# What the user may ask for: a column of amounts or a file or, by the name of the state,
# such a column or file.
Doses = str | Mapping[str, str]
AMOUNTS = ("amount", "amt", "dose")
_MEANINGS = {
    "state": ("state", "compartment", "cmt"),
    "duration": ("duration", "dur"),
    "rate": ("rate",),
    "every": ("every", "ii"),
    "count": ("count",),
    "additional": ("addl",),
    "event": ("event",),
    "evid": ("evid",),
    "mdv": ("mdv",),
    "steady": ("ss",),
}


@final
@dataclass(frozen=True)
class DoseRow:
    """A dose as a row gives it. `is_set` says whether the state is set to the amount,
    which is otherwise added to it."""

    state: str
    amount: float | str
    time: float
    duration: float | str | None = None
    every: float | None = None
    count: int = 1
    is_set: bool = False


def dose_columns(table: Table, amount: str) -> dict[str, str]:
    """Return the columns of a table that speak of doses, by their meanings."""
    lower = {name.lower(): name for name in table.columns}
    found = {"amount": amount}
    for meaning, names in _MEANINGS.items():
        column = next((lower[name] for name in names if name in lower), None)
        if column is not None:
            found[meaning] = column
    return found


def amount_column(table: Table, place: Place) -> str:
    """Return the column of amounts of a file of doses."""
    if place.column is not None:
        table.check_name(wording.DOSES, place.column)
        return place.column
    found = [name for name in table.columns if name.lower() in AMOUNTS]
    if len(found) == 1:
        return found[0]
    raise table.error(
        "no column is called amount. Say which holds the amounts, as "
        f"{wording.doses(f'{table.source}:COLUMN')}."
    )


def is_dose(table: Table, columns: Mapping[str, str], row: int) -> bool:
    """Return whether a row is a dose: it has an amount that is not 0."""
    cell = table.columns[columns["amount"]][row]
    is_given = not is_missing(cell) and not (is_number(cell) and not parse_number(cell))
    evid = _cell(table, columns, "evid", row)
    if "evid" not in columns or is_missing(evid):
        # A state may be set to 0.
        is_setting = _cell(table, columns, "event", row).lower() == "set"
        return is_given or (is_setting and not is_missing(cell))
    if evid not in ("0", "1"):
        raise table.error(
            f"{quoted(evid)} is neither 0, a measurement, nor 1, a dose. Leave the row "
            "out; after a reset, let a new experiment begin.",
            row,
            columns["evid"],
        )
    if is_given != (evid == "1"):
        said = "a dose, but the amount is 0" if evid == "1" else "no dose, but has one"
        raise table.error(f"{evid} says that this row is {said}.", row, columns["evid"])
    return is_given


def is_without_measurement(table: Table, columns: Mapping[str, str], row: int) -> bool:
    """Return whether a row is said to hold no measurement."""
    is_event = _cell(table, columns, "evid", row) not in ("", "0", ".")
    return is_event or _cell(table, columns, "mdv", row) == "1"


def read_doses(
    table: Table,
    columns: Mapping[str, str],
    rows: Iterable[int],
    t: np.ndarray,
    state: str | None,
    T: float,
) -> list[DoseRow]:
    """Return the doses in `rows` of a table, whose times are `t`. `state` receives
    them, or a column says which state does. They must begin between 0 and the last
    time of the measurements, `T`."""
    rows = list(rows)
    _check_states(table, columns, rows, state)
    doses = [_dose(table, columns, row, float(t[row]), state) for row in rows]
    for row, dose in zip(rows, doses):
        last = dose.time + (dose.count - 1) * (dose.every or 0.0)
        if dose.time < 0 or last > T:
            at, side = (dose.time, "before") if dose.time < 0 else (last, "after")
            raise table.error(
                f"the dose at {at:g} is {side} the record, which goes from 0 to {T:g} "
                "(counted from time 0). Leave it out, or correct its time.",
                row,
                columns["amount"],
            )
    return doses


def _dose(
    table: Table, columns: Mapping[str, str], row: int, time: float, state: str | None
) -> DoseRow:
    amount = _number_or_name(table, columns["amount"], row)
    assert amount is not None
    if _positive(table, columns, "steady", row):
        raise table.error(
            "a steady state before the dose is not computed. Write the doses before it "
            "as rows.",
            row,
            columns["steady"],
        )
    event = _cell(table, columns, "event", row).lower()
    if event not in ("", "add", "set"):
        raise table.error(
            f"{quoted(event)} is neither add nor set.", row, columns["event"]
        )
    count = _count(table, columns, row)
    return DoseRow(
        state or table.columns[columns["state"]][row],
        amount,
        time,
        _duration(table, columns, row, amount),
        _positive(table, columns, "every", row) if count > 1 else None,
        count,
        event == "set",
    )


def _check_states(
    table: Table, columns: Mapping[str, str], rows: Sequence[int], state: str | None
) -> None:
    """Check that each dose has a state, and one only."""
    if not rows:
        return
    column = columns.get("state")
    example = wording.doses_of("NAME", columns["amount"])
    if column is None:
        if state is None:
            raise table.error(
                "no column says which state receives the doses. Add a column state, or "
                f"name the state: {example}."
            )
        return
    cells = {table.columns[column][row]: row for row in reversed(rows)}
    if state is not None:
        others = [cell for cell in cells if cell.isidentifier() and cell != state]
        if len(cells) > 1 or others:
            listed = ", ".join(map(quoted, list(cells)[:4]))
            raise table.error(
                f"it names {listed}, but {quoted(state)} is to receive all doses. "
                "Write the names of the states into it, and say "
                f"{wording.doses(columns['amount'])}.",
                name=column,
            )
        return
    for cell, row in cells.items():
        if not cell.split("[")[0].isidentifier():
            raise table.error(
                f"{quoted(cell)} is not the name of a state. Write the names of the "
                f"states into it, or name the state of all doses: {example}.",
                row,
                column,
            )


def _duration(
    table: Table, columns: Mapping[str, str], row: int, amount: float | str
) -> float | str | None:
    """Return how long a dose lasts, from its duration or its rate. None: at once."""
    duration = rate = None
    if "duration" in columns:
        duration = _number_or_name(table, columns["duration"], row) or None
    if "rate" in columns:
        rate = _positive(table, columns, "rate", row)
    if rate is None:
        return duration
    if isinstance(amount, str):
        raise table.error(
            f"the amount is the parameter {quoted(amount)}. Give its duration instead "
            "of a rate.",
            row,
            columns["rate"],
        )
    by_rate = amount / rate
    if duration is not None and (
        isinstance(duration, str) or abs(duration - by_rate) > 1e-6 * by_rate
    ):
        raise table.error(
            f"{amount:g} at the rate {rate:g} takes {by_rate:g}, but the duration is "
            f"{duration}. Give one of them.",
            row,
            columns["rate"],
        )
    return by_rate


def _count(table: Table, columns: Mapping[str, str], row: int) -> int:
    """Return how many times a dose is given."""
    count = _positive(table, columns, "count", row) or 1.0
    count += _positive(table, columns, "additional", row) or 0.0
    if count != int(count):
        name = columns.get("count") or columns.get("additional")
        raise table.error(f"{count:g} is not a whole number.", row, name)
    if count > 1 and not _positive(table, columns, "every", row):
        raise table.error(
            f"there are {count:g} doses, but no time between them. Give it in a column "
            "every.",
            row,
            columns["amount"],
        )
    return int(count)


def _positive(
    table: Table, columns: Mapping[str, str], meaning: str, row: int
) -> float | None:
    """Return the number in a cell, or None if it is 0 or missing."""
    if meaning not in columns:
        return None
    name = columns[meaning]
    try:
        value = parse_number(table.columns[name][row])
    except ValueError as error:
        raise table.error(str(error), row, name) from None
    if value < 0:
        raise table.error(
            f"{value:g} is negative. Give a number from 0 on; what is to be learned "
            "is the name of a parameter in the column amount or duration.",
            row,
            name,
        )
    return None if np.isnan(value) or value == 0 else value


def _number_or_name(table: Table, name: str, row: int) -> float | str | None:
    """Return the number in a cell, the name of a parameter, or None."""
    cell = table.columns[name][row]
    if is_missing(cell):
        return None
    if cell.isidentifier():
        return cell
    try:
        return parse_number(cell)
    except ValueError as error:
        raise table.error(
            f"{error} Give a number, or the name of a parameter.", row, name
        ) from None


def _cell(table: Table, columns: Mapping[str, str], meaning: str, row: int) -> str:
    """Return a cell, or an empty text if there is no such column or nothing in it."""
    if meaning not in columns:
        return ""
    cell = table.columns[columns[meaning]][row]
    return "" if is_missing(cell) else cell
