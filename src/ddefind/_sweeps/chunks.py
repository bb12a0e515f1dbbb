"""Numbered tasks in chunks: what a worker gets at a time.

Chunks depend on the numbers alone, not on what is done already or on how many workers
there are, so that a task always runs beside the same others. Results are then the same
to the last bit, whatever was interrupted."""

from collections.abc import Collection
from typing import NamedTuple, final


@final
class Chunk(NamedTuple):
    """The tasks that run together, and those of them whose results are wanted."""

    numbers: tuple[int, ...]
    wanted: frozenset[int]


def chunks_of(
    tasks: int, width: int, recorded: Collection[int], again: Collection[int] = ()
) -> list[Chunk]:
    """The chunks of tasks 0 ... `tasks` - 1 that are still to be run.

    Those `recorded` are not wanted. If these are only a part of a chunk, as after a
    record that was cut off, the chunk runs as a whole. The tasks `again` are recorded,
    but run once more, each alone.

    >>> for chunk in chunks_of(6, 2, recorded={0, 1, 2}, again={1}):
    ...     print(chunk.numbers, sorted(chunk.wanted))
    (2, 3) [3]
    (4, 5) [4, 5]
    (1,) [1]
    """
    chunks = []
    for first in range(0, tasks, width):
        numbers = tuple(range(first, min(first + width, tasks)))
        wanted = frozenset(numbers).difference(recorded)
        if wanted:
            chunks.append(Chunk(numbers, wanted))
    return chunks + [alone(number) for number in sorted(again)]


def alone(number: int) -> Chunk:
    """A chunk of one task."""
    return Chunk((number,), frozenset({number}))
