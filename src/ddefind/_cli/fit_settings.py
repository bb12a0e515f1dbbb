"""The settings of a fit: from options and TOML files, and to the file `fit.toml`."""

import json
import math
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, final

from .._util.errors import did_you_mean, quoted
from .._util.text_files import file_name, read_text
from .._util.version import __version__
from .parse_options import Bounds, OptionError, check_bounds, check_level, read_prior

Values = dict[str, float | list[float]]
# The methods of a fit.
LEAST_SQUARES, MULTIPLE_SHOOTING = METHODS = ("least-squares", "multiple-shooting")
# What stands for all parameters of the equation in `--positive`.
ALL = "all"
# The solvers that have a tolerance.
ADAPTIVE = ("tsit5", "radau")


@final
@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """Everything that determines the numbers of a fit.

    The fields are named as the options of `ddefind fit` and as the entries of its TOML
    files. `data` is a path, and `model` a path and a name, `FILE.py:NAME`. None stands
    for the default.
    """

    data: str | None = None
    time: str | None = None
    columns: list[str] | dict[str, str] | None = None
    where: dict[str, str] = field(default_factory=dict)
    sheet: str | None = None
    time_zero: float | str | None = None
    equation: str | None = None
    model: str | None = None
    history: str | list[float] | None = None
    observe: str | None = None
    method: str | None = None
    starts: int | None = None
    seed: int = 0
    huber: float | None = None
    level: float | None = None
    solver: str | None = None
    rtol: float | None = None
    steps: int | None = None
    positive: list[str] | None = None
    set: Values = field(default_factory=dict)
    start: Values = field(default_factory=dict)
    bounds: dict[str, Bounds] = field(default_factory=dict)
    prior: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.data is None:
            raise OptionError(
                "Give a file of measurements: `ddefind fit DATA.csv ...`."
            )
        if (self.equation is None) == (self.model is None):
            raise OptionError(
                "Give either `--equation TEXT` or `--model FILE.py:NAME`."
            )
        if self.solver not in (None, "auto", "rk4", *ADAPTIVE):
            raise OptionError(
                "`--solver` must be auto, rk4, tsit5 or radau, but got "
                f"{quoted(self.solver)}."
            )
        if self.method not in (None, *METHODS):
            raise OptionError(
                f"`--method` must be {' or '.join(METHODS)}, but got "
                f"{quoted(self.method)}."
            )
        if self.rtol is not None and self.solver not in ADAPTIVE:
            raise OptionError(
                "`--rtol` goes with `--solver tsit5` or `--solver radau`, which choose "
                "their steps by it."
            )
        self._check_numbers()
        for prior in self.prior.values():
            read_prior(prior)
        named = [name for name in self.positive or () if name != ALL]
        for name in named:
            if math.isfinite(self.bounds.get(name, Bounds()).lower):
                raise OptionError(
                    f"`--positive` and `--bounds` both limit {quoted(name)} from below."
                )
        for option, names in (
            ("--start", self.start),
            ("--bounds", self.bounds),
            ("--prior", self.prior),
            ("--positive", named),
        ):
            for name in names:
                if name in self.set:
                    raise OptionError(
                        f"{name!r} is set to a value, and so not learned: `{option}` "
                        "does not go with `--set`."
                    )

    def _check_numbers(self) -> None:
        """Refuse numbers outside of their range, and `--huber` with another method."""
        for name, least in (("starts", 1), ("steps", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise OptionError(
                    f"`--{name}` needs a whole number from {least} on, but got {value}."
                )
        if self.level is not None:
            check_level(self.level)
        if self.huber is None:
            return
        if not 0 < self.huber < math.inf:
            raise OptionError(
                "`--huber` must be a positive number, as 1.345, but got "
                f"{self.huber:g}."
            )
        if self.method == MULTIPLE_SHOOTING:
            raise OptionError(
                "`--huber` goes with `--method least-squares`, not with "
                "`--method multiple-shooting`."
            )

    def toml(self) -> str:
        """Return the text of a TOML file that repeats the fit."""
        lines = [
            f"# Written by ddefind {__version__}. To repeat the fit:",
            "#   ddefind fit --config fit.toml",
        ]
        tables = []
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, dict):
                if value:
                    rows = [f"{_key(k)} = {_toml(v)}" for k, v in value.items()]
                    tables += ["", f"[{each.name}]", *rows]
            elif value is not None:
                lines.append(f"{each.name} = {_toml(value)}")
        return "\n".join([*lines, *tables]) + "\n"


def combine_settings(
    file: str | os.PathLike[str] | None, options: Mapping[str, Any]
) -> FitSettings:
    """Return the settings of a TOML file, if there is one, and of options, which
    override it. Parameters are overridden one by one, by name."""
    settings = {} if file is None else _read(Path(file))
    given = {
        name: value for name, value in options.items() if value not in (None, {}, [])
    }
    if "equation" in given or "model" in given:
        settings.pop("equation", None)
        settings.pop("model", None)
    for name, value in given.items():
        old = settings.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            value = {**old, **value}
        settings[name] = value
    return FitSettings(**settings)


def _read(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file, with its types checked."""
    text, _ = read_text(path)
    try:
        settings = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise OptionError(f"{file_name(path)}: {error}.") from None
    known = [each.name for each in fields(FitSettings)]
    for name, value in settings.items():
        if name not in known:
            hint = did_you_mean(name, known)
            raise OptionError(f"{file_name(path)}: there is no setting {name!r}.{hint}")
        try:
            settings[name] = _READERS.get(name, _text)(value)
        except (AttributeError, TypeError, ValueError):
            raise OptionError(
                f"{file_name(path)}: `{name}` must be {_EXPECTED.get(name, 'a text')}, "
                f"but it is {value!r}."
            ) from None
    check_bounds(settings.get("bounds", {}))
    # Paths are relative to the folder of the file.
    for name in ("data", "model"):
        if name in settings:
            settings[name] = os.path.join(path.parent, settings[name])
    return settings


# The functions below check a value of a TOML file and return it as `FitSettings` holds
# it. A wrong value is an AttributeError, a TypeError or a ValueError.


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


_READERS: dict[str, Callable[[Any], Any]] = {
    "columns": _columns,
    "where": _table(_text),
    "time_zero": _text_or(_number),
    "history": _text_or(_history),
    "starts": _whole,
    "seed": _whole,
    "huber": _number,
    "level": _number,
    "rtol": _number,
    "steps": _whole,
    "positive": _names,
    "prior": _table(_text),
    "set": _table(_numbers),
    "start": _table(_numbers),
    "bounds": _table(_bounds),
}
_EXPECTED = {
    "columns": "a list of names, or a table of columns by name",
    "where": 'a table of values by column, as treatment = "control"',
    "time_zero": "a number or a date",
    "history": "a kind, or numbers",
    "starts": "a whole number",
    "seed": "a whole number",
    "huber": "a number",
    "level": "a number",
    "rtol": "a number",
    "steps": "a whole number",
    "positive": "a list of names",
    "prior": 'a table of distributions by name, as K = "normal(2, 0.5)"',
    "set": "a table of numbers by name",
    "start": "a table of numbers by name",
    "bounds": "a table of ranges by name, as K = [0, 10]",
}


def _key(name: str) -> str:
    """Return a name as a TOML key, in quotes where it needs them."""
    plain = name.replace("_", "").isalnum() and name.isascii()
    return name if plain else f'"{_escaped(name)}"'


def _toml(value: Any) -> str:
    """Return a number, a text or a list as TOML.

    >>> print(_toml("x' = -x"), _toml((0.0, float("inf"))), _toml("a\\nb"))
    "x' = -x" [0.0, inf] \"\"\"
    a
    b\"\"\"
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if not isinstance(value, str):
        return repr(value)
    lines = [_escaped(line) for line in value.split("\n")]
    return '"""\n' + "\n".join(lines) + '"""' if len(lines) > 1 else f'"{lines[0]}"'


def _escaped(line: str) -> str:
    """Return a line with special characters escaped. TOML has the escapes of JSON, and
    needs one for the delete character as well."""
    return json.dumps(line, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f")
