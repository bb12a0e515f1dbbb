"""Inputs and doses in files of their own."""

from collections.abc import Sequence
from typing import final

from .data import Data
from .dose_rows import DoseRow, amount_column, dose_columns, is_dose, read_doses
from .experiment_rows import rows_of_experiment, times_as_in
from .input_columns import Series, input_from_file
from .place import Place
from .read_columns import prepare
from .read_table import read_any_table
from .table import Table


@final
class FurtherFiles:
    """The files of inputs and doses, each of which is read once.

    `time` is the name of the column of times, in files that have it, and `group` that
    of the column which names the experiment."""

    def __init__(self, time: str | None, group: str | None):
        self.time, self.group = time, group
        self.tables: dict[str, tuple[Table, str]] = {}

    def table(self, path: str) -> tuple[Table, str]:
        """Return the table in a file, and the column of times."""
        if path not in self.tables:
            table = read_any_table(path, self.time, None)
            time = self.time if self.time in table.columns else None
            table, time, _ = prepare(table, time, {})
            self.tables[path] = table, time
        return self.tables[path]

    def input(
        self, name: str, place: Place, data: Data, labels: Sequence[str]
    ) -> Series:
        """Return an input of the experiment `data`, which is one of `labels`."""
        assert place.file is not None
        table, time = self.table(place.file)
        return input_from_file(table, time, place, name, data, self.group, labels)

    def doses(
        self, state: str | None, place: Place, data: Data, labels: Sequence[str]
    ) -> list[DoseRow]:
        """Return the doses of the experiment `data`, which is one of `labels`."""
        assert place.file is not None and data.label is not None
        table, time = self.table(place.file)
        table = rows_of_experiment(table, self.group, data.label, labels)
        columns = dose_columns(table, amount_column(table, place))
        given = [r for r in range(len(table.places)) if is_dose(table, columns, r)]
        t = times_as_in(data, table, time)
        return read_doses(table, columns, given, t, state, data.T)
