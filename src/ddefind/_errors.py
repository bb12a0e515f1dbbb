"""Messages that help: the nearest known name, and instances told from classes."""

import difflib
from collections.abc import Iterable
from typing import Any


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`" Did you mean 'tau'?"` when something known is close to `name`, else all known.

    >>> did_you_mean("theta0", ["theta_0", "tau"])
    " Did you mean 'theta_0'?"
    """
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    close = close or [other for other in known if other.lower() == name.lower()]
    if close:
        return f" Did you mean {close[0]!r}?"
    shown = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
    return f" Known names: {shown}."


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
