"""The option `--network`: the size and the shape of a network in the equation."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from .._util.errors import did_you_mean, quoted
from .options import option
from .parse_options import OptionError, parse_number

_SIZES = "width", "depth"
_FLAGS = "positive", "increasing", "decreasing", "through-zero"
_BOUNDS = re.compile(
    r"\bbounds\s*=\s*[\[(]?\s*([^\s,\])]+)\s*,\s*([^\s,\])]+)\s*[\])]?"
)

Networks = Annotated[
    list[str] | None,
    option(
        "--network",
        metavar="NETWORK",
        help="The network that NN(...) in the equation stands for, if not the usual "
        'one of 16 units: "NN: width=32 depth=2 positive". It may be positive, '
        "increasing, decreasing, through-zero, or have bounds=0,1.",
    ),
]


def parse_networks(texts: Iterable[str]) -> dict[str, str]:
    """Return what is said of each network, by name.

    >>> parse_networks(["NN: width=32 positive"])
    {'NN': 'width=32 positive'}
    """
    by_name: dict[str, str] = {}
    for text in texts:
        name, colon, words = (part.strip() for part in text.partition(":"))
        if not colon or not name:
            raise OptionError(
                '`--network` needs a name and what is known of it, as "NN: width=32 '
                f'positive", but got {quoted(text)}.'
            )
        if name in by_name:
            raise OptionError(f"`--network` gives {quoted(name)} twice.")
        by_name[name] = words
    return by_name


def networks_of(option: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the networks as the argument of `ddefind.fit`."""
    return {name: _network(name, text) for name, text in option.items()} or None


def _network(network: str, text: str) -> Any:
    """Return the network of this name that words describe."""
    import ddefind as dd

    arguments: dict[str, Any] = {}
    whole = text
    if bounds := _BOUNDS.search(text):
        numbers = tuple(map(parse_number, bounds.groups()))
        if None in numbers:
            raise OptionError(
                f"`--network` has bounds of two numbers, as bounds=0,1, but got "
                f"{quoted(bounds[0])}."
            )
        arguments["bounds"] = numbers
        text = _BOUNDS.sub(" ", text)
    for word in re.sub(r"\s*=\s*", "=", text).replace(",", " ").split():
        name, equals, value = word.partition("=")
        name = name.lower().replace("_", "-")
        if name in _SIZES and equals and value.isdigit():
            arguments[name] = int(value)
        elif name in _FLAGS and not equals:
            arguments[name.replace("-", "_")] = True
        else:
            known = (*_SIZES, *_FLAGS, "bounds")
            raise OptionError(
                f"`--network` does not know {quoted(word)}.{did_you_mean(name, known)}"
                ' Write width=32, depth=2 or bounds=0,1, and "positive", "increasing", '
                '"decreasing" or "through-zero".'
            )
    try:
        return dd.Network(**arguments)
    except ValueError as error:
        raise OptionError(f'`--network "{network}: {whole}"`: {error}') from None
