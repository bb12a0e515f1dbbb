"""The settings of a fit, as options and TOML files give them and `fit.toml` keeps them.

In a TOML file, paths are relative to its folder."""

import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from .._fitting.fit_options import SETTINGS, with_fields
from .._util import wording
from .._util.errors import DataError, did_you_mean, quoted
from .._util.files import file_name, read_text
from .._util.version import __version__
from .parse_options import KINDS, GivenRange, OptionError, check_bounds, read_prior

# The method that is not the usual one.
_, MULTIPLE_SHOOTING = SETTINGS["method"].offered()
# What stands for all parameters of the equation in `--positive`.
ALL = "all"
# The solvers that have a tolerance.
_ADAPTIVE = ("tsit5", "radau")
# A line such as x' = ..., with any kind of prime.
_EQUATION = re.compile(r"^\s*\w+\s*['\u2019\u2032]\s*=", re.MULTILINE)


def is_equation_file(path: str) -> bool:
    """Whether a file is a text with an equation in it."""
    if not Path(path).is_file():
        return False
    try:
        text, _ = read_text(path)
    except DataError:
        return False
    return _EQUATION.search(text) is not None


def _unset(name: str) -> Any:
    """Return the value of a setting that is not given, as a field of a record."""
    is_table = KINDS[SETTINGS[name].kind].holds == "table"
    return field(default_factory=dict) if is_table else SETTINGS[name].unset


@final
@dataclass(frozen=True, kw_only=True)
@with_fields({name: _unset(name) for name in SETTINGS})
class FitSettings:
    """Everything that determines the numbers of a fit.

    The fields are the settings in `_fitting/fit_options.py`. `data` is a path, or
    several, and `model` is `FILE.py:NAME`. None stands for the default."""

    if TYPE_CHECKING:

        def __init__(self, **settings: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

    def __post_init__(self) -> None:
        for message in self._conflicts():
            raise OptionError(message)

    def _conflicts(self) -> Iterator[str]:
        """Yield what does not go together, and refuse wrong values."""
        if self.data is None:
            yield "Give a file of measurements: `ddefind fit DATA.csv ...`."
        if self.is_study and self.method == MULTIPLE_SHOOTING:
            yield (
                "Several experiments are fitted by `--method least-squares`, not by "
                "`--method multiple-shooting`."
            )
        if self.per_experiment and not self.is_study:
            yield (
                "`--per-experiment` goes with several experiments: name their column "
                "by `--group`, or give several files."
            )
        for name in self.per_experiment or ():
            if name in self.set or name in (self.values or ()):
                yield (
                    f"{name!r} is known: `--per-experiment` does not go with `--set` "
                    "or `--values`."
                )
        if (self.equation is None) == (self.model is None):
            yield "Give either `--equation TEXT` or `--model FILE.py:NAME`."
        if self.rtol is not None and self.solver not in _ADAPTIVE:
            yield (
                "`--rtol` goes with `--solver tsit5` or `--solver radau`, which choose "
                "their steps by it."
            )
        for name, value in vars(self).items():
            if value is not None:
                _check_value(name, value)
        for prior in self.prior.values():
            read_prior(prior)
        named = [name for name in self.positive or () if name != ALL]
        for name in named:
            if math.isfinite(self.bounds.get(name, GivenRange()).lower):
                shown = quoted(name)
                yield f"`--positive` and `--bounds` both limit {shown} from below."
        for option, names in (
            ("--start", self.start),
            ("--bounds", self.bounds),
            ("--prior", self.prior),
            ("--positive", named),
        ):
            for name in names:
                if name in self.set:
                    yield (
                        f"{name!r} is set to a value, and so not learned: `{option}` "
                        "does not go with `--set`."
                    )

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of measurements."""
        return (self.data,) if isinstance(self.data, str) else tuple(self.data or ())

    @property
    def is_study(self) -> bool:
        """Whether there may be several experiments."""
        return self.group is not None or len(self.paths) > 1

    def toml(self) -> str:
        """Return the text of a TOML file that repeats the fit."""
        lines = [
            f"# Written by ddefind {__version__}. To repeat the fit:",
            "#   ddefind fit --config fit.toml",
        ]
        tables = []
        for name, value in vars(self).items():
            if isinstance(value, dict):
                if value:
                    rows = [
                        f"{_toml_key(k)} = {_toml_value(v)}" for k, v in value.items()
                    ]
                    tables += ["", f"[{name}]", *rows]
            elif value is not None:
                lines.append(f"{name} = {_toml_value(value)}")
        return "\n".join([*lines, *tables]) + "\n"


def _check_value(name: str, value: Any) -> None:
    """Refuse a value of a setting that it cannot have."""
    option = SETTINGS[name]
    KINDS[option.kind].check(option.flag, value)
    if option.kind == "choice" and value not in option.offered():
        *others, last = option.offered()
        raise OptionError(
            f"`{option.flag}` must be {', '.join(others)} or {last}, but got "
            f"{quoted(value)}."
        )


def combine_settings(
    file: str | os.PathLike[str] | None, options: Mapping[str, Any]
) -> FitSettings:
    """Return the settings of a TOML file, overridden by options. Parameters are
    overridden one by one, by name."""
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


def checked_settings(
    file: str, given: Mapping[str, Any], known: Collection[str], table: str = ""
) -> dict[str, Any]:
    """Return settings of a TOML file, or of a named table in it, with their types
    checked. Refuse names that are not `known`."""
    settings: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            if name == "huber":
                hint = wording.instead_of_huber(
                    "setting `huber`", '`noise = "student"`'
                )
                raise OptionError(f"{file}: {hint}")
            hint = did_you_mean(name, known)
            raise OptionError(f"{file}: there is no setting {name!r}.{hint}")
        kind = KINDS[SETTINGS[name].kind]
        try:
            settings[name] = kind.read(value)
        except (AttributeError, TypeError, ValueError):
            raise OptionError(
                f"{file}: `{table}{name}` must be "
                f"{SETTINGS[name].expected or kind.expected}, but it is {value!r}."
            ) from None
    check_bounds(settings.get("bounds", {}))
    return settings


def _read(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file, with their paths."""
    text, _ = read_text(path)
    try:
        given = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise OptionError(f"{file_name(path)}: {error}.") from None
    settings = checked_settings(file_name(path), given, SETTINGS)
    return with_paths(settings, lambda place: os.path.join(path.parent, place))


def with_paths(
    settings: Mapping[str, Any], change: Callable[[str], str]
) -> dict[str, Any]:
    """Return settings with every path in them changed by a function."""
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
    """Return a function that changes the file of an input or of doses, and leaves
    columns and formulas as they are."""

    def changed(text: str) -> str:
        from .._data.table import find_place

        place = find_place(text)
        if place is None or place.file is None:
            return text
        column = "" if place.column is None else f":{place.column}"
        return change(place.file) + column

    return changed


def _toml_key(name: str) -> str:
    """Return a name as a TOML key, in quotes where it needs them."""
    plain = name.replace("_", "").isalnum() and name.isascii()
    return name if plain else f'"{_escaped(name)}"'


def _toml_value(value: Any) -> str:
    """Return a number, a text or a list as TOML.

    >>> print(_toml_value("x' = -x"), _toml_value((0.0, float("inf"))))
    "x' = -x" [0.0, inf]
    >>> print(_toml_value("a\\nb"))
    \"\"\"
    a
    b\"\"\"
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    if not isinstance(value, str):
        return repr(value)
    lines = [_escaped(line) for line in value.split("\n")]
    return '"""\n' + "\n".join(lines) + '"""' if len(lines) > 1 else f'"{lines[0]}"'


def _escaped(line: str) -> str:
    """Return a line with special characters escaped. TOML has the escapes of JSON, and
    needs one for the delete character as well."""
    return json.dumps(line, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f")
