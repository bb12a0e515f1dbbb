"""Turning the texts of options into names, numbers, bounds and histories."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, final

from .._util.errors import quoted

_NAME = r"[A-Za-z_][\w.]*(?:\[\d+(?:,\d+)*\])?"
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
