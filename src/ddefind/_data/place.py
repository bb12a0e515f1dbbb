"""Where the numbers of an input or of doses stand: in a column, or in a file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

_ENDINGS = (".csv", ".tsv", ".txt", ".dat", ".xlsx")


@final
@dataclass(frozen=True)
class Place:
    """Where numbers stand: in a column beside the measurements, if `file` is None, or
    in a file of its own, whose column may be left open."""

    column: str | None
    file: str | None = None


def find_place(text: str, columns: Sequence[str]) -> Place | None:
    """Return the place that a text names: `COLUMN`, `FILE` or `FILE:COLUMN`. None if it
    is none of these.

    `columns` are those of the measurements. They come first."""
    if text in columns:
        return Place(text)
    path, colon, column = text.rpartition(":")
    if Path(text).is_file():
        return Place(None, text)
    if colon and (Path(path).is_file() or path.lower().endswith(_ENDINGS)):
        return Place(column or None, path)
    return Place(None, text) if text.lower().endswith(_ENDINGS) else None
