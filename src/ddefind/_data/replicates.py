"""Replicates that stand beside each other, in several columns, become rows."""

from collections.abc import Mapping, Sequence

import numpy as np

from .._util.errors import quoted


def stack_replicates(
    t: np.ndarray, counts: Sequence[int], columns: Mapping[str, np.ndarray | None]
) -> dict[str, np.ndarray]:
    """Return times and other arrays, by name, with one row for each time and replicate,
    from arrays with one column for each replicate. The first of these, the values, say
    what is measured; an array that is None is left out.

    `counts` says how many columns each quantity has. Rows without any measurement are
    left out, but not those of a first replicate."""
    arrays = {name: array for name, array in columns.items() if array is not None}
    if max(counts) == 1:
        return {"t": t, **arrays}
    stacked = {name: _stacked(array, counts) for name, array in arrays.items()}
    kept = np.any(np.isfinite(next(iter(stacked.values()))), axis=2)
    kept[0] = True
    times = np.broadcast_to(t, kept.shape)[kept]
    return {"t": times, **{name: array[kept] for name, array in stacked.items()}}


def replicate_notes(quantities: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a note on each quantity that has several columns."""
    notes = []
    for name, columns in quantities.items():
        if len(columns) > 1:
            *others, last = map(quoted, columns)
            notes.append(
                f"Columns {', '.join(others)} and {last} are read as replicates of one "
                f"quantity, {quoted(name)}."
            )
    return notes


def _stacked(columns: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """Return an (R, N, k) array of k quantities with at most R replicates, with NaN
    where a quantity has fewer, from an array with N rows and one column for each
    replicate."""
    places = [(r, k) for k, count in enumerate(counts) for r in range(count)]
    stacked = np.full((max(counts), len(columns), len(counts)), np.nan)
    for column, (replicate, quantity) in enumerate(places):
        stacked[replicate, :, quantity] = columns[:, column]
    return stacked
