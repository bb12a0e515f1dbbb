"""The way to another process: values as bytes, and back.

They are pickled, for the way only: nothing that is kept on a disk is a pickle.
Functions of a script or a notebook, and those without a name, go as code if
`cloudpickle` is installed, as it is with dask."""

import importlib
import pickle
from functools import lru_cache
from typing import Any, final

_ADVICE = (
    "Write the model as text, with `dd.equation`, or put its code in a module of its "
    "own that the workers can import"
)
# The name under which a script's own functions are pickled.
_SCRIPT = b"__main__"


@final
class CannotLoad(Exception):
    """A worker cannot make sense of what it was sent. The text says why."""


def packed(value: Any) -> bytes:
    """A value as bytes, or an error that says what cannot be sent."""
    try:
        plain = pickle.dumps(value)
        if _SCRIPT not in plain:
            return plain
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        plain, reason = None, error
    try:
        cloudpickle = importlib.import_module("cloudpickle")
    except ImportError:
        if plain is not None:
            return plain
        raise ValueError(
            f"The fits cannot be sent to other processes: {reason}. {_ADVICE}, or "
            "`pip install cloudpickle`."
        ) from None
    try:
        return cloudpickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"The fits cannot be sent to other processes: {error}. {_ADVICE}."
        ) from None


def unpacked(content: bytes) -> Any:
    """The value again, in a worker."""
    try:
        return pickle.loads(content)
    except (ImportError, AttributeError) as error:
        raise CannotLoad(
            f"A worker cannot load what is to be fitted: {error}. {_ADVICE}, or "
            "`pip install cloudpickle` here and where the workers are."
        ) from None


# What all chunks of a sweep share: it is loaded once, so that its compiled programs are
# found again.
unpacked_once = lru_cache(maxsize=4)(unpacked)
