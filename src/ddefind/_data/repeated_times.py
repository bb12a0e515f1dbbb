"""Rows of the same time are replicates, unless a column of text tells them apart."""

from collections.abc import Iterable

import numpy as np

from .._util import wording
from .._util.errors import quoted
from .column_names import is_replicate_name
from .table import Table

_LISTED = 4  # values of a column that a message shows


def check_groups(
    table: Table, t: np.ndarray, text_columns: Iterable[str], are_chosen: bool
) -> list[str]:
    """Check that no column of text distinguishes rows of the same time, as the name of
    a treatment does. Return notes on columns that do, but may.

    They may if the user has chosen the columns to read, so that `are_chosen`, or if the
    column is called replicate.
    """
    _, time_index, counts = np.unique(t, return_inverse=True, return_counts=True)
    if np.all(counts == 1):
        return []
    notes = []
    for name in text_columns:
        values, text_index = np.unique(table.columns[name], return_inverse=True)
        pairs = np.unique(time_index * len(values) + text_index)
        if len(pairs) == len(counts):
            continue
        listed = _listed(values)
        if not are_chosen and not is_replicate_name(name):
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


def _listed(values: np.ndarray) -> str:
    """Return the first of some values, for a message."""
    shown = ", ".join(quoted(str(value), 20) for value in values[:_LISTED])
    return shown + (", ..." if len(values) > _LISTED else "")
