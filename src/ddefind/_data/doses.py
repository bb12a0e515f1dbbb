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

An amount or a duration may also be the name of a parameter."""

from collections.abc import Mapping, Sequence
from typing import final

import numpy as np

from .._problem.doses import Dose, SetState
from .._util import wording
from .._util.errors import DataError, quoted
from .table import Table, is_missing, is_number, parse_number

# What the user may ask for: a column of amounts or a file or, by the name of the state,
# such a column or file.
Doses = str | Mapping[str, str]
_AMOUNTS = ("amount", "amt", "dose")
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
class DoseTable:
    """A table with doses in some rows. `columns` are those about doses, by meaning.

    `amount` is the column of amounts, or None for the one that is called so."""

    def __init__(self, table: Table, amount: str | None):
        if amount is None:
            found = [name for name in table.columns if name.lower() in _AMOUNTS]
            if len(found) != 1:
                raise table.error(
                    "no column is called amount. Say which holds the amounts, as "
                    f"{wording.doses(f'{table.source}:COLUMN')}."
                )
            (amount,) = found
        self.table, self.columns = table, {"amount": amount}
        lower = {name.lower(): name for name in table.columns}
        for meaning, names in _MEANINGS.items():
            column = next((lower[name] for name in names if name in lower), None)
            if column is not None:
                self.columns[meaning] = column

    def is_dose(self, row: int) -> bool:
        """Whether a row is a dose: it has an amount that is not 0."""
        cell = self._cell("amount", row)
        is_given = bool(cell) and not (is_number(cell) and not parse_number(cell))
        evid = self._cell("evid", row)
        if not evid:
            # A state may be set to 0.
            return is_given or (bool(cell) and self._event(row) == "set")
        if evid not in ("0", "1"):
            raise self._error(
                f"{quoted(evid)} is neither 0, a measurement, nor 1, a dose. Leave the "
                "row out; after a reset, let a new experiment begin.",
                row,
                "evid",
            )
        if is_given != (evid == "1"):
            no_dose = "no dose, but the row has one"
            meaning = "a dose, but the amount is 0" if evid == "1" else no_dose
            raise self._error(f"{evid} means {meaning}.", row, "evid")
        return is_given

    def is_without_measurement(self, row: int) -> bool:
        """Whether a row is said to hold no measurement."""
        return self._cell("evid", row) not in ("", "0") or self._cell("mdv", row) == "1"

    def doses(
        self, t: np.ndarray, state: str | None, T: float
    ) -> list[Dose | SetState]:
        """Return the doses in the rows of the table, whose times are `t`. `state`
        receives them, or a column says which state does. They must begin between 0 and
        the last time of the measurements, `T`."""
        rows = [row for row in range(len(self.table.places)) if self.is_dose(row)]
        self._check_states(rows, state)
        return [self._dose(row, float(t[row]), state, T) for row in rows]

    def _dose(
        self, row: int, time: float, state: str | None, T: float
    ) -> Dose | SetState:
        amount = self._number_or_name("amount", row)
        assert amount is not None
        if self._positive("steady", row):
            raise self._error(
                "a steady state before the dose is not computed. Write the doses "
                "before it as rows.",
                row,
                "steady",
            )
        event = self._event(row)
        if event not in ("", "add", "set"):
            raise self._error(f"{quoted(event)} is neither add nor set.", row, "event")
        state = state or self.table.columns[self.columns["state"]][row]
        count, duration = self._count(row), self._duration(row, amount)
        every = self._positive("every", row) if count > 1 else None
        last = time + (count - 1) * (every or 0.0)
        if time < 0 or last > T:
            at, side = (time, "before") if time < 0 else (last, "after")
            raise self._error(
                f"the dose at {at:g} is {side} the record, which goes from 0 to {T:g} "
                "(counted from time 0). Leave it out, or correct its time.",
                row,
                "amount",
            )
        if event == "set":
            return SetState(state, amount, time)
        return Dose(state, amount, time, duration, every, count)

    def _check_states(self, rows: Sequence[int], state: str | None) -> None:
        """Check that each dose has a state, and one only."""
        if not rows:
            return
        column = self.columns.get("state")
        example = wording.doses_of("NAME", self.columns["amount"])
        if column is None:
            if state is None:
                raise self.table.error(
                    "no column says which state receives the doses. Add a column "
                    f"state, or name the state: {example}."
                )
            return
        cells = {self.table.columns[column][row]: row for row in reversed(rows)}
        if state is not None:
            others = [cell for cell in cells if cell.isidentifier() and cell != state]
            if len(cells) > 1 or others:
                listed = ", ".join(map(quoted, list(cells)[:4]))
                raise self.table.error(
                    f"it names {listed}, but {quoted(state)} is to receive all doses. "
                    "Write the names of the states into it, and say "
                    f"{wording.doses(self.columns['amount'])}.",
                    name=column,
                )
            return
        for cell, row in cells.items():
            if not cell.split("[")[0].isidentifier():
                raise self._error(
                    f"{quoted(cell)} is not the name of a state. Write the names of "
                    f"the states into it, or name the state of all doses: {example}.",
                    row,
                    "state",
                )

    def _duration(self, row: int, amount: float | str) -> float | str | None:
        """Return how long a dose lasts, from its duration or rate; None: at once."""
        duration = self._number_or_name("duration", row) or None
        rate = self._positive("rate", row)
        if rate is None:
            return duration
        if isinstance(amount, str):
            raise self._error(
                f"the amount is the parameter {quoted(amount)}. Give its duration "
                "instead of a rate.",
                row,
                "rate",
            )
        by_rate = amount / rate
        if duration is not None and (
            isinstance(duration, str) or abs(duration - by_rate) > 1e-6 * by_rate
        ):
            raise self._error(
                f"{amount:g} at the rate {rate:g} takes {by_rate:g}, but the duration "
                f"is {duration}. Give one of them.",
                row,
                "rate",
            )
        return by_rate

    def _count(self, row: int) -> int:
        """Return how many times a dose is given."""
        count = self._positive("count", row) or 1.0
        count += self._positive("additional", row) or 0.0
        if count != int(count):
            name = "count" if "count" in self.columns else "additional"
            raise self._error(f"{count:g} is not a whole number.", row, name)
        if count > 1 and not self._positive("every", row):
            raise self._error(
                f"there are {count:g} doses, but no time between them. Give it in a "
                "column every.",
                row,
                "amount",
            )
        return int(count)

    def _event(self, row: int) -> str:
        return self._cell("event", row).lower()

    def _positive(self, meaning: str, row: int) -> float | None:
        """Return the number in a cell, or None if it is 0 or missing."""
        if meaning not in self.columns:
            return None
        value = self.table.number(row, self.columns[meaning])
        if value < 0:
            raise self._error(
                f"{value:g} is negative. Give a number from 0 on; what is to be "
                "learned is the name of a parameter in the column amount or duration.",
                row,
                meaning,
            )
        return None if np.isnan(value) or value == 0 else value

    def _number_or_name(self, meaning: str, row: int) -> float | str | None:
        """Return the number in a cell, the name of a parameter, or None."""
        cell = self._cell(meaning, row)
        if not cell or cell.isidentifier():
            return cell or None
        hint = "Give a number, or the name of a parameter."
        return self.table.number(row, self.columns[meaning], hint)

    def _cell(self, meaning: str, row: int) -> str:
        """Return a cell, or an empty text if there is no such column or value."""
        if meaning not in self.columns:
            return ""
        cell = self.table.columns[self.columns[meaning]][row]
        return "" if is_missing(cell) else cell

    def _error(self, message: str, row: int, meaning: str) -> DataError:
        return self.table.error(message, row, self.columns[meaning])
