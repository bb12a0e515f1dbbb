"""What measured values must be, so that a fit can calculate with them."""

from typing import Any

import numpy as np

from .._util.errors import DataError

# The square of a value, summed, must neither overflow nor vanish.
_LARGEST = 1e100


def check_values(x: np.ndarray) -> None:
    """Refuse values that are infinite or all missing."""
    if np.any(np.isinf(x)):
        row, column = np.argwhere(np.isinf(x))[0]
        raise DataError(
            f"`x` must be finite or NaN (not measured), but x[{row}, {column}] is "
            f"{x[row, column]}."
        )
    if not np.any(np.isfinite(x)):
        raise DataError("`x` holds no measurement: all values are NaN.")


def are_of_usual_size(largest: np.ndarray) -> np.ndarray:
    """Whether a computer can calculate with the squares of values, given the largest
    ones."""
    return (largest <= _LARGEST) & ((largest >= 1 / _LARGEST) | (largest == 0))


def check_sizes(x: np.ndarray) -> None:
    """Refuse values to fit whose squares are not numbers of a computer."""
    largest = float(np.nanmax(np.abs(x)))
    if not are_of_usual_size(np.array(largest)):
        raise DataError(
            f"The largest value of `x` is {largest:.3g}: a computer cannot calculate "
            "with its square. Give `x` in other units."
        )


def numbers(name: str, value: Any) -> np.ndarray:
    """Return the argument `name` as an array of float64."""
    try:
        return np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`{name}` must be an array of numbers, but got {type(value).__name__}: "
            f"{error}"
        ) from None
