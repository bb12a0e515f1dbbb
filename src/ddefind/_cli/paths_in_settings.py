"""The paths in the settings of a fit: of data, model, inputs and doses."""

from collections.abc import Callable, Mapping
from typing import Any


def with_paths(
    settings: Mapping[str, Any], change: Callable[[str], str]
) -> dict[str, Any]:
    """Return settings with every path in them changed by a function. In a file of
    settings, paths are relative to its folder."""
    changed = dict(settings)
    for name in ("data", "model", "doses", "inputs"):
        value = changed.get(name)
        # A column or a formula is no path. Data and model always are.
        move = change if name in ("data", "model") else _if_file(change)
        if isinstance(value, str):
            changed[name] = move(value)
        elif isinstance(value, list):
            changed[name] = [move(each) for each in value]
        elif isinstance(value, dict):
            changed[name] = {key: move(each) for key, each in value.items()}
    return changed


def _if_file(change: Callable[[str], str]) -> Callable[[str], str]:
    """Return a function that changes the file in the place of an input or of doses, and
    leaves columns and formulas as they are."""

    def changed(text: str) -> str:
        from .._data.inputs import find_place  # NumPy comes with it.

        place = find_place(text, ())
        if place is None or place.file is None:
            return text
        column = "" if place.column is None else f":{place.column}"
        return change(place.file) + column

    return changed
