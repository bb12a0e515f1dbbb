"""Numbers for JSON files: arrays as nested lists, and what JSON has no number for.

JSON knows neither NaN nor infinity. `nonfinite_as_words` writes them as the words
"NaN", "Infinity" and "-Infinity", which `float` and `numpy.array(..., dtype=float)`
read again, so nothing is lost. `nonfinite_as_none` writes None (`null` in JSON), for
readers who only need to know that there is no number.

Both accept any nesting of dictionaries, lists, tuples and arrays, and leave integers,
truth values, texts and None as they are. They do not import NumPy, so that a command
that computes nothing need not load it.
"""

import math
from collections.abc import Callable
from typing import Any


def nonfinite_as_words(value: Any) -> Any:
    """Replace NaN and infinities by "NaN", "Infinity" and "-Infinity", and arrays and
    tuples by nested lists.

    >>> import numpy as np
    >>> nonfinite_as_words(np.array([[1.5, np.nan], [np.inf, 2.0]]))
    [[1.5, 'NaN'], ['Infinity', 2.0]]
    >>> np.array(['NaN', '-Infinity'], dtype=float)
    array([ nan, -inf])
    """
    return _encoded(value, _word)


def nonfinite_as_none(value: Any) -> Any:
    """Replace NaN and infinities by None, and arrays and tuples by nested lists.

    >>> nonfinite_as_none({"loss": float("inf"), "interval": (0.5, float("nan"))})
    {'loss': None, 'interval': [0.5, None]}
    """
    return _encoded(value, lambda _: None)


def _word(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _encoded(value: Any, replacement: Callable[[float], str | None]) -> Any:
    """`value` with each number that is not finite as `replacement(number)`."""
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy and JAX
        value = value.tolist()
    if isinstance(value, dict):
        return {key: _encoded(each, replacement) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encoded(each, replacement) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return replacement(value)
    return value
