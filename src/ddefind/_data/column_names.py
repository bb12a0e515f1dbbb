"""What the names of columns say: which is the time, which hold standard deviations, and
which are replicates of one quantity."""

import re
from collections.abc import Sequence

# Names of a column of times. Capitals, a plural s and a unit in brackets make no
# difference. `t` is one as well, but not `T`, which may be a temperature.
_TIME_NAMES = (
    *("time", "date", "datetime", "timestamp"),
    *("year", "month", "week", "day", "hour", "zeit", "datum"),
)
SD_SUFFIX = "_sd"
_UNIT = re.compile(r"\s*[\[(][^\])]*[\])]$")
# A quantity, if any, the word for a replicate, and its number or letter.
_REPLICATE = re.compile(
    r"(?:(?P<quantity>.*[^\s_.(\[-])[\s_.(\[-]+)?(?:rep|repl|replicate|replica)"
    r"(?:[\s_.#-]*[0-9]+|[\s_.#-]+[a-z])[)\]]?",
    re.IGNORECASE,
)
_REPLICATE_COLUMN = re.compile(r"(?:rep|repl|replicate|replica|repeat)s?", re.I)


def is_time_name(name: str) -> bool:
    """Return whether a column of this name is taken for the time.

    >>> [is_time_name(name) for name in ("Time [h]", "Days", "temperature")]
    [True, True, False]
    """
    word = _UNIT.sub("", name)
    return word == "t" or word.lower().removesuffix("s") in _TIME_NAMES


def quantity_of_deviation(name: str) -> str | None:
    """Return the quantity whose standard deviation a column holds, judging by its
    name, or None for any other column."""
    return (
        name.removesuffix(SD_SUFFIX)
        if name.endswith(SD_SUFFIX) and name != SD_SUFFIX
        else None
    )


def is_replicate_name(name: str) -> bool:
    """Return whether the text in a column of this name numbers replicates."""
    return _REPLICATE_COLUMN.fullmatch(name) is not None


def group_replicates(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns of each quantity. These are several if their names differ only
    in the number or letter of a replicate. Without another name in them, the quantity
    is called x.

    >>> group_replicates(["OD_rep1", "OD_rep2", "pH"])
    {'OD': ['OD_rep1', 'OD_rep2'], 'pH': ['pH']}
    >>> group_replicates(["rep 1", "rep 2"]), group_replicates(["rep1", "repA"])
    ({'x': ['rep 1', 'rep 2']}, {'rep1': ['rep1'], 'repA': ['repA']})
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_quantity_of_replicate(name) or name, []).append(name)
    quantities: dict[str, list[str]] = {}
    for quantity, columns in groups.items():
        # One replicate alone, or a quantity that is a column itself, stays as it is.
        if len(columns) == 1 or quantity in names:
            quantities |= {name: [name] for name in columns}
        else:
            quantities[quantity] = columns
    return {name: quantities[name] for name in _in_order(quantities, names)}


def _quantity_of_replicate(name: str) -> str | None:
    """Return the quantity of which a column is a replicate, judging by its name."""
    match = _REPLICATE.fullmatch(name)
    if match:
        return match["quantity"] or "x"
    unit = _UNIT.search(name)
    match = _REPLICATE.fullmatch(name[: unit.start()]) if unit else None
    return f"{match['quantity'] or 'x'}{unit[0]}" if match and unit else None


def _in_order(quantities: dict[str, list[str]], names: Sequence[str]) -> list[str]:
    """Return the quantities in the order of their first columns."""
    return sorted(quantities, key=lambda name: names.index(quantities[name][0]))
