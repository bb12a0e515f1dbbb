"""Turning the texts of options into names, numbers, bounds and histories."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, final

from .._util.errors import quoted

# A parameter, with the number of its component and the label of its experiment.
_NAME = r"[A-Za-z_][\w.]*(?:\[\d+(?:,\d+)*\])?(?:@[\w.-]+)?"
_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf)"
_INTERVAL = re.compile(  # K in [0, 10]
    rf"({_NAME})\s+in\s*[\[(]\s*({_NUMBER})\s*[,;]\s*({_NUMBER})\s*[\])]", re.ASCII
)
_NAME_FIRST = re.compile(  # K < 10
    rf"({_NAME})\s*([<>])=?\s*({_NUMBER})", re.ASCII
)
_NUMBER_FIRST = re.compile(  # 0 < K, or 0 < K < 10
    rf"({_NUMBER})\s*([<>])=?\s*({_NAME})(?:\s*([<>])=?\s*({_NUMBER}))?", re.ASCII
)


@final
class OptionError(ValueError):
    """An option that cannot be understood. The message says which one it is, and how to
    write it."""


def parse_assignments(
    option: str, texts: Iterable[str]
) -> dict[str, float | list[float]]:
    """Return values by name, from texts `NAME=NUMBER` or `NAME=NUMBER,NUMBER,...`.

    `option` is the option that they were given by, for error messages.

    >>> parse_assignments("--set", ["m=8", "b=1, 2"])
    {'m': 8.0, 'b': [1.0, 2.0]}
    """
    by_name: dict[str, float | list[float]] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        values = [parse_number(each) for each in value.split(",")]
        numbers = [each for each in values if each is not None and math.isfinite(each)]
        if not re.fullmatch(_NAME, name) or not equals or len(numbers) != len(values):
            raise OptionError(
                f"`{option}` needs NAME=NUMBER, as {option} r=1.5, but got "
                f"{quoted(text)}."
            )
        if name in by_name:
            raise OptionError(f"`{option}` gives {quoted(name)} twice.")
        by_name[name] = numbers if len(numbers) > 1 else numbers[0]
    return by_name


def parse_number(text: str) -> float | None:
    """Return a text as a number, or None if it is not one.

    >>> parse_number("-1e-3"), parse_number("1_000"), parse_number("much")
    (-0.001, None, None)
    """
    return float(text) if re.fullmatch(_NUMBER, text.strip(), re.ASCII) else None


def parse_whole(option: str, text: str, least: int = 0) -> int:
    """Return the value of an option as a whole number from `least` on.

    >>> parse_whole("--starts", "8")
    8
    """
    value = int(text) if re.fullmatch(r"[-+]?[0-9]{1,18}", text.strip()) else None
    if value is None or value < least:
        raise OptionError(
            f"`{option}` needs a whole number from {least} on, but got {quoted(text)}."
        )
    return value


def parse_real(option: str, text: str) -> float:
    """Return the value of an option as a finite number.

    >>> parse_real("--rtol", "1e-8")
    1e-08
    """
    value = parse_number(text)
    if value is None or math.isinf(value):
        raise OptionError(f"`{option}` needs a number, but got {quoted(text)}.")
    return value


def check_level(level: float) -> float:
    """Return a confidence level, or raise an error if it is none."""
    if not 0 < level < 1:
        raise OptionError(
            f"`--level` must lie between 0 and 1, as 0.9 for 90%, but got {level:g}."
        )
    return level


def number_or_text(text: str | None) -> float | str | None:
    """Return a time as a number, or as it is if it is not one."""
    if text is None:
        return None
    value = parse_number(text)
    return text if value is None else value


class Bounds(NamedTuple):
    """The lower and the upper bound of a parameter, infinite where there is none."""

    lower: float = -math.inf
    upper: float = math.inf


def parse_bounds(texts: Iterable[str]) -> dict[str, Bounds]:
    """Return bounds by name, from texts such as `K in [0, 10]`, `K > 0` or
    `0 < K < 10`.

    >>> parse_bounds(["K in [0, 10]", "tau < 5", "0.1 < tau"])
    {'K': Bounds(lower=0.0, upper=10.0), 'tau': Bounds(lower=0.1, upper=5.0)}
    """
    by_name: dict[str, Bounds] = {}
    for text in texts:
        name, new = _one_bound(text)
        old = by_name.get(name, Bounds())
        if any(math.isfinite(a) and math.isfinite(b) for a, b in zip(old, new)):
            raise OptionError(f"`--bounds` limits {quoted(name)} twice on one side.")
        by_name[name] = Bounds(max(old.lower, new.lower), min(old.upper, new.upper))
    check_bounds(by_name)
    return by_name


def _one_bound(text: str) -> tuple[str, Bounds]:
    """Return the name of the parameter and the bounds that one text gives."""
    text = text.strip()
    if match := _INTERVAL.fullmatch(text):
        return match[1], Bounds(float(match[2]), float(match[3]))
    if match := _NAME_FIRST.fullmatch(text):
        return match[1], _side(match[2] == "<", match[3])
    match = _NUMBER_FIRST.fullmatch(text)
    if match and match[4] in (None, match[2]):
        left = _side(match[2] == ">", match[1])
        right = Bounds() if match[4] is None else _side(match[4] == "<", match[5])
        lower, upper = max(left.lower, right.lower), min(left.upper, right.upper)
        return match[3], Bounds(lower, upper)
    raise OptionError(
        f'`--bounds` needs a range, as "K in [0, 10]", "K > 0" or "0 < K < 10", '
        f"but got {quoted(text)}."
    )


def _side(is_upper: bool, value: str) -> Bounds:
    return Bounds(upper=float(value)) if is_upper else Bounds(lower=float(value))


def check_bounds(bounds: Mapping[str, Bounds]) -> None:
    """Raise an error unless every lower bound is below its upper bound."""
    for name, (lower, upper) in bounds.items():
        if not lower < upper:
            raise OptionError(
                f"The bounds of {quoted(name)} need the lower one first, but got "
                f"{lower:g} and {upper:g}."
            )


_PRIOR_HINT = (
    '`--prior` needs a distribution, as "K ~ normal(2, 0.5)" with mean and standard '
    'deviation, or "K ~ lognormal(2, 1.5)" with median and factor, but got {}.'
)
_PRIOR = re.compile(
    rf"(normal|lognormal)\s*\(\s*({_NUMBER})\s*,\s*({_NUMBER})\s*\)", re.ASCII
)


class PriorOption(NamedTuple):
    """A prior: its kind, normal or lognormal, and its two numbers."""

    kind: str
    center: float
    spread: float


def parse_priors(texts: Iterable[str]) -> dict[str, str]:
    """Return priors by name, from texts such as `K ~ normal(2, 0.5)`.

    >>> parse_priors(["K ~ normal(2, 0.5)", "r~lognormal(1,3)"])
    {'K': 'normal(2, 0.5)', 'r': 'lognormal(1,3)'}
    """
    by_name: dict[str, str] = {}
    for text in texts:
        name, tilde, prior = (part.strip() for part in text.partition("~"))
        if not re.fullmatch(_NAME, name) or not tilde:
            raise OptionError(_PRIOR_HINT.format(quoted(text)))
        if name in by_name:
            raise OptionError(f"`--prior` gives {quoted(name)} twice.")
        read_prior(prior)
        by_name[name] = prior
    return by_name


def read_prior(text: str) -> PriorOption:
    """Return the prior that a text such as `normal(2, 0.5)` stands for."""
    match = _PRIOR.fullmatch(text.strip())
    if not match:
        raise OptionError(_PRIOR_HINT.format(quoted(text)))
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


_NEXT_COLUMN = re.compile(r",(?=\s*[A-Za-z_]\w*\s*=)", re.ASCII)


def parse_columns(texts: Iterable[str]) -> list[str] | dict[str, str] | None:
    """Return names of columns, or the columns by the names that the equation has for
    them. None stands for the default.

    >>> parse_columns(["a,b"]), parse_columns(["hare=Hare (n/km2)", "lynx"])
    (['a', 'b'], {'hare': 'Hare (n/km2)', 'lynx': 'lynx'})
    """
    by_name: dict[str, str] = {}
    has_other_names = False
    for text in texts:
        # The name of a column may contain commas, but not before a further NAME=.
        parts = _NEXT_COLUMN.split(text) if "=" in text else text.split(",")
        for part in (part.strip() for part in parts):
            name, equals, column = (each.strip() for each in part.partition("="))
            has_other_names |= bool(equals)
            if not name or equals and not column:
                raise OptionError(
                    "`--columns` needs names of columns, as `--columns a,b`, or "
                    '`--columns "hare=Hare (n/km2)"` to give one another name, but got '
                    f"{quoted(text)}."
                )
            if name in by_name:
                raise OptionError(f"`--columns` gives {quoted(name)} twice.")
            by_name[name] = column if equals else name
    if not by_name:
        return None
    return by_name if has_other_names else list(by_name)


def parse_where(texts: Iterable[str]) -> dict[str, str]:
    """Return the value of each column whose rows are read, from texts `NAME=VALUE`.

    >>> parse_where(["treatment=control"])
    {'treatment': 'control'}
    """
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not name or not equals or not value:
            raise OptionError(
                "`--where` needs a column and its value, as `--where "
                f"treatment=control`, but got {quoted(text)}."
            )
        values[name] = value
    return values


def parse_by_name(option: str, texts: Iterable[str]) -> str | dict[str, str] | None:
    """Return one text for all, or texts by name, from `TEXT` or from `NAME=TEXT`.

    >>> parse_by_name("--noise", ["poisson"]), parse_by_name("--noise", ["x=poisson"])
    ('poisson', {'x': 'poisson'})
    """
    texts = list(texts)
    by_name: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals and len(texts) == 1 and name:
            return name
        if not name or not value:
            raise OptionError(
                f"`{option}` needs one value for all, or NAME=VALUE for each, but got "
                f"{quoted(text)}."
            )
        if name in by_name:
            raise OptionError(f"`{option}` gives {quoted(name)} twice.")
        by_name[name] = value
    return by_name or None


def parse_inputs(texts: Iterable[str]) -> dict[str, str]:
    """Return the column, file or formula of each input, from texts `u`, `u,v` or
    `u=PLACE`.

    >>> parse_inputs(["u,v", "w=T.csv:T"])
    {'u': 'u', 'v': 'v', 'w': 'T.csv:T'}
    """
    inputs: dict[str, str] = {}
    for text in texts:
        name, equals, place = (part.strip() for part in text.partition("="))
        new = {name: place} if equals else {n: n for n in parse_names([text])}
        for each, where in new.items():
            if not re.fullmatch(_NAME, each) or not where:
                raise OptionError(
                    "`--inputs` needs a name, as `--inputs u`, or a name and its "
                    "place, as `--inputs u=temperature.csv:T`, but got "
                    f"{quoted(text)}."
                )
            if each in inputs:
                raise OptionError(f"`--inputs` gives {quoted(each)} twice.")
            inputs[each] = where
    return inputs


def parse_names(texts: Iterable[str]) -> list[str]:
    """Return names, from texts such as `r` or `r, K`."""
    return [name.strip() for text in texts for name in text.split(",")]


def parse_history(texts: Iterable[str]) -> str | list[float] | None:
    """Return the kind of history, or the values of a constant one. None stands for the
    default.

    >>> parse_history(["affine"]), parse_history(["10", "2"]), parse_history(["10, 2"])
    ('affine', [10.0, 2.0], [10.0, 2.0])
    """
    parts = [part.strip() for text in texts for part in text.split(",")]
    if not parts:
        return None
    numbers = [value for part in parts if (value := parse_number(part)) is not None]
    if len(numbers) == len(parts):
        return numbers
    if len(parts) > 1:
        raise OptionError(
            "`--history` needs a kind, as `--history affine`, or numbers, one for each "
            f"state, but got {quoted(' '.join(parts))}."
        )
    return parts[0]
