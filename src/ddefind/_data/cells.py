"""What a cell of a table says: a number, that nothing was measured, or neither."""

import math
import re

from .._util.errors import shown

# In capitals or not.
MISSING = ("", "NA", "N/A", "#N/A", "NaN", "null", "none", "-", ".")
_MISSING = frozenset(word.lower() for word in MISSING)
_INFINITE = frozenset(("inf", "infinity", "∞"))
# ASCII digits only; either decimal mark, and no thousands. Some write the true minus.
_NUMBER = re.compile(
    r"[-+\u2212]?(?:[0-9]+(?:\.[0-9]*|,[0-9]+)?|[.,][0-9]+)(?:[eE][-+\u2212]?[0-9]+)?"
)
_THOUSANDS = re.compile(
    r"[-+\u2212]?[0-9]{1,3}(?:[.,' \u00a0\u202f][0-9]{3})+(?:[.,][0-9]*)?"
)
_MAYBE_THOUSANDS = re.compile(r"[-+\u2212]?[1-9][0-9]{0,2},[0-9]{3}")
_BEGINS_AS_NUMBER = re.compile(r"[-+\u2212]?[.,]?[0-9]")


def is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None


def is_missing(cell: str) -> bool:
    return cell.lower() in _MISSING


def is_text(cell: str) -> bool:
    """Whether it says neither a number nor that there is none, and was not meant to.

    >>> [is_text(cell) for cell in ("north", "3.5 mg", "inf", "NA")]
    [True, False, False, False]
    """
    return not (is_missing(cell) or _is_infinite(cell) or _BEGINS_AS_NUMBER.match(cell))


def may_be_thousands(cell: str) -> bool:
    """Whether it is a number with a comma that may group thousands as well: 1,234."""
    return _MAYBE_THOUSANDS.fullmatch(cell) is not None


def parse_number(cell: str) -> float:
    """The number that a cell says, NaN for none; a ValueError says what is wrong.

    >>> parse_number("2.5e3"), parse_number("2,5"), parse_number("NA")
    (2500.0, 2.5, nan)
    """
    if is_number(cell):
        value = float(cell.replace(",", ".").replace("\u2212", "-"))
        if math.isinf(value):
            raise ValueError(f"{shown(cell)} is too large.")
        return value
    if is_missing(cell):
        return math.nan
    if _is_infinite(cell):
        raise ValueError(f"{shown(cell)} is not finite.")
    if _THOUSANDS.fullmatch(cell):
        raise ValueError(
            f"{shown(cell)} has separators of thousands. Write the number without them."
        )
    raise ValueError(f"{shown(cell)} is not a number.")


def _is_infinite(cell: str) -> bool:
    return cell.lower().lstrip("-+\u2212") in _INFINITE
