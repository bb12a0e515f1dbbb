"""Messages that help: the nearest known name, and instances told from classes."""

import difflib
from collections.abc import Iterable
from typing import Any, final


@final
class DataError(ValueError):
    """Data that cannot be used as they are. The message says where the trouble stands
    (file, line and column, where there are such), what it is, and what to do."""


@final
class ResultError(ValueError):
    """A saved fit that cannot be used: not one, damaged, altered, or from a newer
    version. The message says which, and what to do."""


def shown(text: str, length: int = 40) -> str:
    """What stood there, in quotes, escaped, and never too much of it.

    >>> print(shown("12 mg"))
    '12 mg'
    """
    return repr(text if len(text) <= length else text[: length - 3] + "...")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is closest to `name`, if any is close."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    close = close or [other for other in known if other.lower() == name.lower()]
    return next(iter(close), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`" Did you mean 'tau'?"` when something known is close to `name`, else all known.

    >>> did_you_mean("theta0", ["theta_0", "tau"])
    " Did you mean 'theta_0'?"
    """
    known = list(known)
    close = nearest(name, known)
    if close is not None:
        return f" Did you mean {close!r}?"
    listed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
    return f" Known names: {listed}."


def check_instance(argument: str, value: Any, kind: type, example: str) -> None:
    """Refuse anything but an instance of `kind`, the class itself above all."""
    if isinstance(value, type) and issubclass(value, kind):
        raise TypeError(
            f"`{argument}` must be an instance, as `{example}`, but got the class "
            f"`{value.__name__}`. Add parentheses: `{value.__name__}(...)`."
        )
    if not isinstance(value, kind):
        raise TypeError(
            f"`{argument}` must be an instance such as `{example}`, but got {value!r}."
        )


def check_positive(argument: str, value: Any) -> None:
    """Refuse anything but a positive, finite number."""
    if not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ValueError(f"`{argument}` must be a positive number, but got {value!r}.")
