"""Reading one cell of a table: it holds a number, a missing value, or text."""

import math
import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from .._util.errors import quoted

# Cells that stand for a missing value, compared in lower case.
_MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "-", "."))
_INFINITE = frozenset(("inf", "infinity", "∞"))
# ASCII digits with a decimal point or a decimal comma, without thousands separators.
# The sign may be a hyphen or the minus sign U+2212.
_NUMBER = re.compile(
    r"[-+\u2212]?(?:[0-9]+(?:\.[0-9]*|,[0-9]+)?|[.,][0-9]+)(?:[eE][-+\u2212]?[0-9]+)?"
)
_WITH_THOUSANDS = re.compile(
    r"[-+\u2212]?[0-9]{1,3}(?:[.,' \u00a0\u202f][0-9]{3})+(?:[.,][0-9]*)?"
)
_MAYBE_THOUSANDS = re.compile(r"[-+\u2212]?[1-9][0-9]{0,2},[0-9]{3}")
# A column in which Python's `float` reads the same numbers as `parse_number`.
_PLAIN_COLUMN = re.compile(r"[-+.0-9eE\n]*")
_BEGINS_AS_NUMBER = re.compile(r"[<≤]?\s*[-+\u2212]?[.,]?[0-9]")
_BELOW = "<≤"  # what stands before the limit that a value is below


def is_number(cell: str) -> bool:
    """Return whether a cell is a number with at most one decimal mark."""
    return _NUMBER.fullmatch(cell) is not None


def is_percentage(cell: str) -> bool:
    """Return whether a cell is a number with a percent sign, as 5.2% or 5,2 %."""
    return cell.endswith("%") and is_number(cell[:-1].rstrip())


def is_below_limit(cell: str) -> bool:
    """Return whether a cell is a number or percentage that a value is below.

    >>> [is_below_limit(cell) for cell in ("<0.1", "< 5 %", "0.1", "<LOD")]
    [True, True, False, False]
    """
    limit = without_below(cell)
    return limit != cell and (is_number(limit) or is_percentage(limit))


def without_below(cell: str) -> str:
    """Return a cell without the sign that a value is below it."""
    return cell[1:].lstrip() if cell[:1] in _BELOW and cell else cell


def is_missing(cell: str) -> bool:
    """Return whether a cell stands for a missing value."""
    return cell.lower() in _MISSING


def is_text(cell: str) -> bool:
    """Return whether a cell is text: neither a number, nor a missing value, nor
    something that begins like a number, which is probably a mistyped one.

    >>> [is_text(cell) for cell in ("north", "3.5 mg", "inf", "NA")]
    [True, False, False, False]
    """
    return not (is_missing(cell) or _is_infinite(cell) or _BEGINS_AS_NUMBER.match(cell))


def may_be_thousands(cell: str) -> bool:
    """Return whether a number's comma may be a thousands separator, as in 1,234."""
    return _MAYBE_THOUSANDS.fullmatch(cell) is not None


def parse_number(cell: str) -> float:
    """Return the number in a cell, or NaN for a missing value. A percentage is a
    fraction: 5.2% is 0.052.

    Raises a ValueError that says what is wrong with any other cell.

    >>> parse_number("2.5e3"), parse_number("2,5"), parse_number("NA")
    (2500.0, 2.5, nan)
    """
    if is_number(cell):
        value = float(_plain(cell))
        if math.isinf(value):
            raise ValueError(f"{quoted(cell)} is too large.")
        return value
    if is_percentage(cell):
        # Moving the decimal point is exact; dividing a float by 100 is not.
        return float(exact_number(cell[:-1].rstrip()).scaleb(-2))
    if is_missing(cell):
        return math.nan
    if _is_infinite(cell):
        raise ValueError(f"{quoted(cell)} is not finite.")
    if _WITH_THOUSANDS.fullmatch(cell):
        raise ValueError(
            f"{quoted(cell)} has separators of thousands. Write the number without "
            "them."
        )
    if is_below_limit(cell):
        raise ValueError(f"{quoted(cell)} is a limit: only measured values have one.")
    raise ValueError(f"{quoted(cell)} is not a number.")


def parse_numbers(cells: Sequence[str]) -> np.ndarray | None:
    """Return many cells as numbers at once, with NaN for empty ones, or None if they
    are not all plain numbers, so that each must be read by `parse_number`.

    >>> parse_numbers(["2.5e3", ""]), parse_numbers(["2,5", "NA"])
    (array([2500.,   nan]), None)
    """
    if not _PLAIN_COLUMN.fullmatch("\n".join(cells)):
        return None
    try:
        values = np.array([float(cell) if cell else math.nan for cell in cells])
    except ValueError:
        return None
    return None if np.any(np.isinf(values)) else values


def exact_number(cell: str) -> Decimal:
    """Return the number in a cell with all its digits."""
    return Decimal(_plain(cell))


def _plain(number: str) -> str:
    """Return a number in the digits and marks that Python reads."""
    return number.replace(",", ".").replace("\u2212", "-")


def _is_infinite(cell: str) -> bool:
    return cell.lower().lstrip("-+\u2212") in _INFINITE
