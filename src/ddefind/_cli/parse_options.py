"""Reading options: texts on the command line, and values in TOML files, become names,
numbers, bounds and histories.

`KINDS`, at the end, has both readers for each kind of setting in the table of options.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, final

from .._util.errors import DataError, quoted
from .._util.files import read_text

_Value = TypeVar("_Value")

# A parameter, with the number of its component and the label of its experiment.
_NAME = r"[A-Za-z_][\w.]*(?:\[\d+(?:,\d+)*\])?(?:@[\w.-]+)?"
_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf)"
_INTERVAL = re.compile(  # K in [0, 10]
    rf"({_NAME})\s+in\s*[\[(]\s*({_NUMBER})\s*[,;]\s*({_NUMBER})\s*[\])]", re.ASCII
)
_CHAIN = re.compile(  # K < 10, 0 < K, or 0 < K < 10
    rf"(?:({_NUMBER})\s*([<>])=?\s*)?({_NAME})(?:\s*([<>])=?\s*({_NUMBER}))?", re.ASCII
)
_PRIOR = re.compile(
    rf"(normal|lognormal)\s*\(\s*({_NUMBER})\s*,\s*({_NUMBER})\s*\)", re.ASCII
)
_PRIOR_NEEDED = (
    'a distribution, as "K ~ normal(2, 0.5)" with mean and standard deviation, or '
    '"K ~ lognormal(2, 1.5)" with median and factor'
)
# A line such as x' = ..., with any kind of prime.
_EQUATION = re.compile(r"^\s*\w+\s*['\u2019\u2032]\s*=", re.MULTILINE)
# A comma between columns, whose names may contain commas.
_NEXT_COLUMN = re.compile(r",(?=\s*[A-Za-z_]\w*\s*=)", re.ASCII)


@final
class OptionError(ValueError):
    """An option that cannot be understood. The message says how to write it."""


class GivenRange(NamedTuple):
    """Bounds of a parameter, infinite where there is none."""

    lower: float = -math.inf
    upper: float = math.inf


class PriorOption(NamedTuple):
    """A prior: its kind, normal or lognormal, and its two numbers."""

    kind: str
    center: float
    spread: float


def _refused(flag: str, needed: str, text: str) -> OptionError:
    return OptionError(f"`{flag}` needs {needed}, but got {quoted(text)}.")


def _by_name(
    flag: str,
    texts: Iterable[str],
    needed: str,
    read: Callable[[str, str], _Value | None],
    sign: str = "=",
) -> dict[str, _Value]:
    """Return values by name, each given once, from texts `NAME=VALUE`. `read` makes a
    value from name and text, or None; else the message says what is `needed`."""
    by_name: dict[str, _Value] = {}
    for text in texts:
        name, given, rest = (part.strip() for part in text.partition(sign))
        value = read(name, rest) if name and given else None
        if value is None:
            raise _refused(flag, needed, text)
        _add(flag, by_name, name, value)
    return by_name


def _add(flag: str, by_name: dict[str, _Value], name: str, value: _Value) -> None:
    if name in by_name:
        raise OptionError(f"`{flag}` gives {quoted(name)} twice.")
    by_name[name] = value


# Numbers


def parse_number(text: str) -> float | None:
    """Return a text as a number, or None if it is not one.

    >>> parse_number("-1e-3"), parse_number("1_000"), parse_number("much")
    (-0.001, None, None)
    """
    return float(text) if re.fullmatch(_NUMBER, text.strip(), re.ASCII) else None


def parse_whole(flag: str, text: str, least: int = 0) -> int:
    """Return the value of an option as a whole number from `least` on.

    >>> parse_whole("--starts", "8")
    8
    """
    value = int(text) if re.fullmatch(r"[-+]?[0-9]{1,18}", text.strip()) else None
    if value is None or value < least:
        raise _refused(flag, f"a whole number from {least} on", text)
    return value


def parse_real(flag: str, text: str) -> float:
    """Return the value of an option as a finite number.

    >>> parse_real("--rtol", "1e-8")
    1e-08
    """
    value = parse_number(text)
    if value is None or math.isinf(value):
        raise _refused(flag, "a number", text)
    return value


def check_level(level: float) -> float:
    """Return a confidence level, or raise an error if it is none."""
    if not 0 < level < 1:
        raise OptionError(
            f"`--level` must lie between 0 and 1, as 0.9 for 90%, but got {level:g}."
        )
    return level


def number_or_text(text: str) -> float | str:
    """Return a text as a number if it is one, else as it is."""
    value = parse_number(text)
    return text if value is None else value


# What is known of parameters


def parse_assignments(
    flag: str, texts: Iterable[str]
) -> dict[str, float | list[float]]:
    """Return values by name, from texts `NAME=NUMBER` or `NAME=NUMBER,NUMBER,...`.

    >>> parse_assignments("--set", ["m=8", "b=1, 2"])
    {'m': 8.0, 'b': [1.0, 2.0]}
    """

    def read(name: str, text: str) -> float | list[float] | None:
        values = [parse_number(each) for each in text.split(",")]
        numbers = [v for v in values if v is not None and math.isfinite(v)]
        if not re.fullmatch(_NAME, name) or len(numbers) != len(values):
            return None
        return numbers if len(numbers) > 1 else numbers[0]

    return _by_name(flag, texts, f"NAME=NUMBER, as {flag} r=1.5", read)


def parse_bounds(flag: str, texts: Iterable[str]) -> dict[str, GivenRange]:
    """Return bounds by name, from texts such as `K in [0, 10]`, `K > 0` or
    `0 < K < 10`.

    >>> parse_bounds("--bounds", ["K in [0, 10]", "tau < 5", "0.1 < tau"])
    {'K': GivenRange(lower=0.0, upper=10.0), 'tau': GivenRange(lower=0.1, upper=5.0)}
    """
    by_name: dict[str, GivenRange] = {}
    for text in texts:
        name, new = _one_bound(flag, text)
        old = by_name.get(name, GivenRange())
        if any(math.isfinite(a) and math.isfinite(b) for a, b in zip(old, new)):
            raise OptionError(f"`{flag}` limits {quoted(name)} twice on one side.")
        by_name[name] = GivenRange(max(old.lower, new.lower), min(old.upper, new.upper))
    check_bounds(by_name)
    return by_name


def _one_bound(flag: str, text: str) -> tuple[str, GivenRange]:
    """Return the name of the parameter and the bounds that one text gives."""
    written = text.strip()
    if match := _INTERVAL.fullmatch(written):
        return match[1], GivenRange(float(match[2]), float(match[3]))
    match = _CHAIN.fullmatch(written)
    sign = match and (match[2] or match[4])
    if not match or not sign or match[4] not in (None, sign):
        needed = 'a range, as "K in [0, 10]", "K > 0" or "0 < K < 10"'
        raise _refused(flag, needed, written)
    lower, upper = (match[1], match[5]) if sign == "<" else (match[5], match[1])
    return match[3], GivenRange(float(lower or -math.inf), float(upper or math.inf))


def check_bounds(bounds: Mapping[str, GivenRange]) -> None:
    """Raise an error unless every lower bound is below its upper bound."""
    for name, (lower, upper) in bounds.items():
        if not lower < upper:
            raise OptionError(
                f"The bounds of {quoted(name)} need the lower one first, but got "
                f"{lower:g} and {upper:g}."
            )


def parse_priors(flag: str, texts: Iterable[str]) -> dict[str, str]:
    """Return priors by name, from texts such as `K ~ normal(2, 0.5)`.

    >>> parse_priors("--prior", ["K ~ normal(2, 0.5)", "r~lognormal(1,3)"])
    {'K': 'normal(2, 0.5)', 'r': 'lognormal(1,3)'}
    """

    def read(name: str, text: str) -> str | None:
        if not re.fullmatch(_NAME, name):
            return None
        read_prior(text)
        return text

    return _by_name(flag, texts, _PRIOR_NEEDED, read, "~")


def read_prior(text: str) -> PriorOption:
    """Return the prior that a text such as `normal(2, 0.5)` stands for."""
    match = _PRIOR.fullmatch(text.strip())
    if not match:
        raise _refused("--prior", _PRIOR_NEEDED, text)
    prior = PriorOption(match[1], float(match[2]), float(match[3]))
    if prior.kind == "normal":
        if not 0 < prior.spread < math.inf or math.isinf(prior.center):
            raise OptionError(
                "`--prior`: normal(MEAN, SD) needs a positive SD, but got "
                f"{quoted(text)}."
            )
    elif not (0 < prior.center < math.inf and 1 < prior.spread < math.inf):
        raise OptionError(
            "`--prior`: lognormal(MEDIAN, FACTOR) needs a positive MEDIAN and a FACTOR "
            f"above 1, but got {quoted(text)}."
        )
    return prior


# Names, columns and texts


def parse_names(flag: str, texts: Iterable[str]) -> list[str]:
    """Return names, from texts such as `r` or `r, K`."""
    return [name.strip() for text in texts for name in text.split(",")]


def parse_columns(flag: str, texts: Iterable[str]) -> list[str] | dict[str, str] | None:
    """Return names of columns, or the columns by the names that the equation has for
    them. None stands for the default.

    >>> parse_columns("--columns", ["a,b"])
    ['a', 'b']
    >>> parse_columns("--columns", ["hare=Hare (n/km2)", "lynx"])
    {'hare': 'Hare (n/km2)', 'lynx': 'lynx'}
    """
    texts = list(texts)
    by_name: dict[str, str] = {}
    for text in texts:
        for part in _NEXT_COLUMN.split(text) if "=" in text else text.split(","):
            name, given, column = (each.strip() for each in part.partition("="))
            if not name or given and not column:
                needed = (
                    f"names of columns, as `{flag} a,b`, or "
                    f'`{flag} "hare=Hare (n/km2)"` to give one another name'
                )
                raise _refused(flag, needed, text)
            _add(flag, by_name, name, column if given else name)
    return by_name if any("=" in text for text in texts) else list(by_name) or None


def parse_where(flag: str, texts: Iterable[str]) -> dict[str, str]:
    """Return the value of each column whose rows are read, from texts `NAME=VALUE`.

    >>> parse_where("--where", ["treatment=control"])
    {'treatment': 'control'}
    """
    needed = f"a column and its value, as `{flag} treatment=control`"
    return _by_name(flag, texts, needed, lambda _, value: value or None)


def parse_by_name(flag: str, texts: Iterable[str]) -> str | dict[str, str] | None:
    """Return one text for all, or texts by name, from `TEXT` or from `NAME=TEXT`.

    >>> parse_by_name("--noise", ["poisson"]), parse_by_name("--noise", ["x=poisson"])
    ('poisson', {'x': 'poisson'})
    """
    texts = list(texts)
    if len(texts) == 1 and "=" not in texts[0] and texts[0].strip():
        return texts[0].strip()
    needed = "one value for all, or NAME=VALUE for each"
    return _by_name(flag, texts, needed, lambda _, value: value or None) or None


def parse_inputs(flag: str, texts: Iterable[str]) -> dict[str, str]:
    """Return the column, file or formula of each input, from texts `u`, `u,v` or
    `u=PLACE`.

    >>> parse_inputs("--inputs", ["u,v", "w=T.csv:T"])
    {'u': 'u', 'v': 'v', 'w': 'T.csv:T'}
    """
    by_name: dict[str, str] = {}
    for text in texts:
        name, given, place = (part.strip() for part in text.partition("="))
        for each in [name] if given else parse_names(flag, [text]):
            if not re.fullmatch(_NAME, each) or given and not place:
                needed = (
                    f"a name, as `{flag} u`, or a name and its place, as "
                    f"`{flag} u=temperature.csv:T`"
                )
                raise _refused(flag, needed, text)
            _add(flag, by_name, each, place if given else each)
    return by_name


def parse_networks(flag: str, texts: Iterable[str]) -> dict[str, str]:
    """Return the description of each network, by name.

    >>> parse_networks("--network", ["NN: width=32 positive"])
    {'NN': 'width=32 positive'}
    """
    needed = 'a name and what is known of it, as "NN: width=32 positive"'
    return _by_name(flag, texts, needed, lambda _, words: words, ":")


def parse_history(flag: str, texts: Iterable[str]) -> str | list[float] | None:
    """Return the kind of history, or the values of a constant one. None stands for the
    default.

    >>> parse_history("--history", ["affine"]), parse_history("--history", ["10, 2"])
    ('affine', [10.0, 2.0])
    """
    parts = parse_names(flag, texts)
    if not parts:
        return None
    numbers = [value for part in parts if (value := parse_number(part)) is not None]
    if len(numbers) == len(parts):
        return numbers
    if len(parts) > 1:
        needed = f"a kind, as `{flag} affine`, or numbers, one for each state"
        raise _refused(flag, needed, " ".join(parts))
    return parts[0]


# Files


def is_equation_file(path: str) -> bool:
    """Whether a file is a text with an equation in it."""
    if not Path(path).is_file():
        return False
    try:
        text, _ = read_text(path)
    except DataError:
        return False
    return _EQUATION.search(text) is not None


# Figures. Each format has its settings of matplotlib's `savefig`.

FORMATS: dict[str, dict[str, Any]] = {"png": {"dpi": 150}, "pdf": {}, "svg": {}}


def parse_formats(texts: Iterable[str], out: Path | None) -> list[str]:
    """Return the formats that `--format` names, by default png. They need a folder
    `out` to be written to.

    >>> parse_formats(["pdf,svg"], Path("result")), parse_formats([], None)
    (['pdf', 'svg'], ['png'])
    """
    names = [name.lower() for name in parse_names("--format", texts)]
    for name in names:
        if name not in FORMATS:
            raise OptionError(
                f"`--format` must be png, pdf or svg, but got {quoted(name)}."
            )
    if names and out is None:
        raise OptionError("`--format` is for the figure that `--out DIR` writes.")
    return list(dict.fromkeys(names)) or ["png"]


# Values of TOML files: a wrong one is an AttributeError, a TypeError or a ValueError.


def _of_type(*types: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) not in types:
            raise TypeError
        return value

    return read


_text, _whole = _of_type(str), _of_type(int)


def _number(value: Any) -> float:
    return float(_of_type(int, float)(value))


def _numbers(value: Any) -> Any:
    """Return one number, or a list of them."""
    return [_number(v) for v in value] if isinstance(value, list) else _number(value)


def _names(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [_text(each) for each in value]


def _bounds(value: Any) -> GivenRange:
    lower, upper = value
    return GivenRange(_number(lower), _number(upper))


def _table(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: {_text(name): read(each) for name, each in value.items()}


_texts = _table(_text)


def _if_a(kind: type, read: Callable, otherwise: Callable) -> Callable[[Any], Any]:
    return lambda value: (read if isinstance(value, kind) else otherwise)(value)


@final
@dataclass(frozen=True)
class Kind:
    """A kind of setting. `parse(flag, text)` reads the command line, all texts together
    unless it `holds` only one value. `read` reads a value of a TOML file, which must be
    what is `expected`. `check(flag, value)` refuses values. A setting that holds a
    table is empty if it is not given. The help shows the `placeholder`."""

    parse: Callable[[str, Any], Any]
    read: Callable[[Any], Any]
    expected: str
    holds: Literal["one", "list", "table"] = "one"
    placeholder: str = "NAME"
    check: Callable[[str, Any], Any] = lambda flag, value: None


def _as_it_is(flag: str, text: str) -> str:
    return text


def _integer(least: int) -> Kind:
    def parse(flag: str, text: str) -> int:
        return parse_whole(flag, text, least)

    def check(flag: str, value: int) -> None:
        if value < least:
            raise OptionError(
                f"`{flag}` needs a whole number from {least} on, but got {value}."
            )

    return Kind(parse, _whole, "a whole number", placeholder="N", check=check)


def _table_of(parse: Callable, read: Callable, expected: str) -> Kind:
    return Kind(parse, _table(read), f"a table of {expected}", "table")


KINDS = {
    "text": Kind(_as_it_is, _text, "a text"),
    "choice": Kind(_as_it_is, _text, "a text"),
    "paths": Kind(_as_it_is, _if_a(str, _text, _names), "a text, or a list of them"),
    "time": Kind(
        lambda _, text: number_or_text(text),
        _if_a(str, _text, _number),
        "a number or a date",
        placeholder="TIME",
    ),
    "whole": _integer(0),
    "count": _integer(1),
    "number": Kind(parse_real, _number, "a number", placeholder="NUMBER"),
    "level": Kind(
        parse_real,
        _number,
        "a number",
        placeholder="NUMBER",
        check=lambda _, level: check_level(level),
    ),
    "names": Kind(parse_names, _names, "a list of names", "list"),
    "history": Kind(
        parse_history,
        _if_a(str, _text, _if_a(list, _numbers, lambda value: [_number(value)])),
        "a kind, or numbers",
        "list",
    ),
    "columns": Kind(
        parse_columns,
        _if_a(dict, _texts, _names),
        "a list of names, or a table of columns by name",
        "list",
    ),
    "texts": Kind(
        parse_by_name, _if_a(dict, _texts, _text), "a text, or a table of them", "list"
    ),
    "inputs": Kind(
        parse_inputs,
        _if_a(dict, _texts, lambda value: {name: name for name in _names(value)}),
        'a table of columns or files by name, as u = "temperature.csv:T"',
        "table",
    ),
    "where": _table_of(
        parse_where, _text, 'values by column, as treatment = "control"'
    ),
    "numbers by name": _table_of(parse_assignments, _numbers, "numbers by name"),
    "bounds": _table_of(parse_bounds, _bounds, "ranges by name, as K = [0, 10]"),
    "priors": _table_of(
        parse_priors, _text, 'distributions by name, as K = "normal(2, 0.5)"'
    ),
    "networks": _table_of(
        parse_networks, _text, 'networks by name, as NN = "width=32 positive"'
    ),
}
