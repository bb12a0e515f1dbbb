"""The package's exceptions, and pieces of helpful error messages.

A message names the argument, shows the value that was given, and says what to do, with
the nearest known name where a name was misspelt."""

import difflib
from collections.abc import Iterable
from typing import Any, final


@final
class DataError(ValueError):
    """Data that cannot be used as they are. The message says where the problem is
    (file, line and column, where there are such), what it is, and what to do."""


@final
class ResultError(ValueError):
    """A file that cannot be loaded as a saved fit: it is something else, damaged,
    altered, or from a newer version. The message says which, and what to do."""


def quoted(text: str, length: int = 40) -> str:
    """Return a text for a message: in quotes, escaped, and shortened to `length`.

    >>> print(quoted("12 mg"))
    '12 mg'
    """
    return repr(text if len(text) <= length else text[: length - 3] + "...")


def shown(value: Any, length: int = 60) -> str:
    """Return any value for a message: as Python writes it or, if long, by its kind.

    >>> shown(5), shown([0.5] * 100)
    ('5', 'a list of length 100')
    """
    text = repr(value)
    if len(text) <= length and "\n" not in text:
        return text
    kind = type(value).__name__
    if hasattr(value, "shape"):
        return f"an object {kind} of shape {value.shape}"
    return f"a {kind} of length {len(value)}" if hasattr(value, "__len__") else text


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to `name`, or None if none is."""
    known = list(known)
    similar = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    similar = similar or [other for other in known if other.lower() == name.lower()]
    return next(iter(similar), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `" Did you mean 'tau'?"` if a known name is similar to `name`, and
    otherwise a list of the known names.

    >>> did_you_mean("theta0", ["theta_0", "tau"])
    " Did you mean 'theta_0'?"
    """
    known = list(known)
    similar = nearest(name, known)
    if similar is not None:
        return f" Did you mean {similar!r}?"
    listed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
    return f" Known names: {listed}."


def check_instance(argument: str, value: Any, kind: type, example: str) -> None:
    """Raise a TypeError unless `value` is an instance of `kind`.

    A class that was given instead of an instance has a message of its own, since
    forgotten parentheses are the most frequent mistake. `example` shows an instance."""
    if isinstance(value, type) and issubclass(value, kind):
        raise TypeError(
            f"`{argument}` must be an instance, as `{example}`, but got the class "
            f"`{value.__name__}`. Add parentheses: `{value.__name__}(...)`."
        )
    if not isinstance(value, kind):
        raise TypeError(
            f"`{argument}` must be an instance such as `{example}`, but got "
            f"{shown(value)}."
        )


def check_positive(argument: str, value: Any) -> None:
    """Raise a ValueError unless `value` is a positive, finite number."""
    if not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ValueError(f"`{argument}` must be a positive number, but got {value!r}.")


def check_level(level: float) -> None:
    """Raise an error unless `level` is a confidence level."""
    if not (isinstance(level, (int, float)) and 0 < level < 1):
        raise ValueError(f"`level` must lie between 0 and 1, but got {level!r}.")
