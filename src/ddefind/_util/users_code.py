"""What JAX cannot compile in a user's function, in a sentence with its line.

JAX calls a function once, with placeholders instead of numbers, and compiles what it
did with them. An `if` on a placeholder, or a function of NumPy, is an error of JAX.
Errors of other kinds are the user's own and pass as they are."""

import contextlib
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path

import equinox as eqx
import jax
import numpy as np

# Lines of code in these places are not the user's.
_LIBRARIES = (
    *(str(module.__file__).removesuffix("__init__.py") for module in (eqx, jax, np)),
    str(Path(__file__).parent.parent),
    "<string>",
    "<eval_with_key>",
)
_STANDARD = sysconfig.get_path("stdlib")

# What a function does that JAX cannot compile, and what to do instead, by the error.
_CALLS_NUMPY = (
    "gives a value that is not known yet to NumPy, or to a library that is built on it",
    "use the same function of `jax.numpy` (`import jax.numpy as jnp`), as `jnp.exp` "
    "for `np.exp`, and `jnp.stack([a, b])` for `np.array([a, b])`",
)
_TAKES_NUMBER = (
    "takes a value that is not known yet as a Python number, as functions of `math`, "
    "`float`, `int` and `range` do",
    "use `jax.numpy` (`import jax.numpy as jnp`), as `jnp.exp` for `math.exp`, and "
    "run loops a fixed number of times",
)
_REASONS = {
    jax.errors.TracerBoolConversionError: (
        "decides by a value that is not known yet",
        "choose with `jnp.where(condition, a, b)` (`import jax.numpy as jnp`) instead "
        "of `if`, `and`, `or`, `min` or `max`",
    ),
    jax.errors.NonConcreteBooleanIndexError: (
        "selects elements by a condition",
        "choose with `jnp.where(condition, a, b)` (`import jax.numpy as jnp`)",
    ),
    jax.errors.TracerArrayConversionError: _CALLS_NUMPY,
    jax.errors.ConcretizationTypeError: _TAKES_NUMBER,
    jax.errors.TracerIntegerConversionError: _TAKES_NUMBER,
}


def users_line(
    frames: Iterable[traceback.FrameSummary], libraries: tuple[str, ...] = ()
) -> str:
    """Return the last line of the user's own code in a stack trace, for error messages:
    not in JAX, NumPy or this package, nor in one of the other `libraries`."""
    frames = list(frames)
    known = (*_LIBRARIES, *libraries)

    def is_users(name: str) -> bool:
        is_standard = name.startswith(_STANDARD) and "site-packages" not in name
        return not (name.startswith(known) or is_standard)

    frame = ([each for each in frames if is_users(each.filename)] or frames)[-1]
    return f"{frame.filename}:{frame.lineno}: `{(frame.line or '').strip()}`"


@contextlib.contextmanager
def compilable(name: str) -> Iterator[None]:
    """Turn an error of JAX, about code that it cannot compile, into a sentence on the
    user's function `name`.

    >>> import math
    >>> def decay(x):
    ...     return math.exp(x)
    >>> with compilable("rhs"):
    ...     jax.eval_shape(decay, 1.0)
    Traceback (most recent call last):
    ...
    ValueError: `rhs` takes a value ... as a Python number, as functions of `math`, ...
    """
    try:
        yield
    except (TypeError, ValueError, IndexError) as error:
        reasons = [why for kind, why in _REASONS.items() if isinstance(error, kind)]
        if not reasons and isinstance(error.__cause__, jax.errors.JAXTypeError):
            reasons = [_CALLS_NUMPY]  # NumPy raises an error of its own after JAX's.
        if not reasons:
            raise
        what, remedy = reasons[0]
        place = users_line(traceback.extract_tb(error.__traceback__))
        raise ValueError(
            f"`{name}` {what}, at {place}. It is compiled once for all values: "
            f"{remedy}."
        ) from None
