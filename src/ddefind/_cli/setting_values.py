"""The values of settings in TOML files: how they are checked, and how written."""

import json
from collections.abc import Callable
from typing import Any

from .parse_options import Bounds


def read_value(name: str, value: Any) -> Any:
    """Return the value of a setting in a TOML file, as `FitSettings` holds it. A wrong
    value is an AttributeError, a TypeError or a ValueError."""
    return _READERS.get(name, _text)(value)


# The functions below do so for each kind of value.


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError
    return float(value)


def _numbers(value: Any) -> Any:
    """One number, or a list of them."""
    return [_number(v) for v in value] if isinstance(value, list) else _number(value)


def _text_or(other: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, str) else other(value)


def _history(value: Any) -> list[float]:
    values = _numbers(value)
    return values if isinstance(values, list) else [values]


def _names(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [_text(each) for each in value]


def _columns(value: Any) -> list[str] | dict[str, str]:
    return _table(_text)(value) if isinstance(value, dict) else _names(value)


def _table(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: {_text(name): read(each) for name, each in value.items()}


def _bounds(value: Any) -> Bounds:
    lower, upper = value
    return Bounds(_number(lower), _number(upper))


def _texts(value: Any) -> Any:
    """One text, or a table of them."""
    return _table(_text)(value) if isinstance(value, dict) else _text(value)


def _inputs(value: Any) -> dict[str, str]:
    """A table of places, or names of columns."""
    return (
        _table(_text)(value)
        if isinstance(value, dict)
        else {name: name for name in _names(value)}
    )


_READERS: dict[str, Callable[[Any], Any]] = {
    "data": lambda value: _text(value) if isinstance(value, str) else _names(value),
    "values": _names,
    "inputs": _inputs,
    "input_kind": _texts,
    "doses": _texts,
    "noise": _texts,
    "per_experiment": _names,
    "columns": _columns,
    "where": _table(_text),
    "time_zero": _text_or(_number),
    "history": _text_or(_history),
    "starts": _whole,
    "seed": _whole,
    "level": _number,
    "rtol": _number,
    "steps": _whole,
    "positive": _names,
    "prior": _table(_text),
    "network": _table(_text),
    "set": _table(_numbers),
    "start": _table(_numbers),
    "bounds": _table(_bounds),
}
# What a setting must be, if it is not a text.
EXPECTED = {
    "data": "a text, or a list of them",
    "values": "a list of names",
    "inputs": 'a table of columns or files by name, as u = "temperature.csv:T"',
    "input_kind": "a kind, or a table of kinds by input",
    "doses": 'a file or column, or a table of them by state, as gut = "AMT"',
    "noise": 'a kind, or a table of kinds by quantity, as hare = "poisson"',
    "per_experiment": "a list of names",
    "columns": "a list of names, or a table of columns by name",
    "where": 'a table of values by column, as treatment = "control"',
    "time_zero": "a number or a date",
    "history": "a kind, or numbers",
    "starts": "a whole number",
    "seed": "a whole number",
    "level": "a number",
    "rtol": "a number",
    "steps": "a whole number",
    "positive": "a list of names",
    "prior": 'a table of distributions by name, as K = "normal(2, 0.5)"',
    "network": 'a table of networks by name, as NN = "width=32 positive"',
    "set": "a table of numbers by name",
    "start": "a table of numbers by name",
    "bounds": "a table of ranges by name, as K = [0, 10]",
}


def toml_key(name: str) -> str:
    """Return a name as a TOML key, in quotes where it needs them."""
    plain = name.replace("_", "").isalnum() and name.isascii()
    return name if plain else f'"{_escaped(name)}"'


def toml_value(value: Any) -> str:
    """Return a number, a text or a list as TOML.

    >>> print(toml_value("x' = -x"), toml_value((0.0, float("inf"))))
    "x' = -x" [0.0, inf]
    >>> print(toml_value("a\\nb"))
    \"\"\"
    a
    b\"\"\"
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if not isinstance(value, str):
        return repr(value)
    lines = [_escaped(line) for line in value.split("\n")]
    return '"""\n' + "\n".join(lines) + '"""' if len(lines) > 1 else f'"{lines[0]}"'


def _escaped(line: str) -> str:
    """Return a line with special characters escaped. TOML has the escapes of JSON, and
    needs one for the delete character as well."""
    return json.dumps(line, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f")
