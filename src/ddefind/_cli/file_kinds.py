"""Files that hold the text of an equation.

The formats in which `ddefind fit --out` writes its figure.

The files in which `ddefind discover --out` keeps what the search found."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .._util.errors import DataError, quoted
from .._util.files import read_text
from .parse_options import OptionError

# A line such as x' = ..., with any kind of prime.
_EQUATION = re.compile(r"^\s*\w+\s*['\u2019\u2032]\s*=", re.MULTILINE)


def is_equation_file(path: str) -> bool:
    """Return whether a file is a text with an equation in it."""
    if not Path(path).is_file():
        return False
    try:
        text, _ = read_text(path)
    except DataError:
        return False
    return _EQUATION.search(text) is not None


# Each format, with its settings of matplotlib's `savefig`.
FORMATS: dict[str, dict[str, Any]] = {"png": {"dpi": 150}, "pdf": {}, "svg": {}}


def parse_formats(texts: Iterable[str], out: Path | None) -> list[str]:
    """Return the formats that `--format` names, separated by commas; png if it names
    none. They need a folder `out` to be written to.

    >>> parse_formats(["pdf,svg"], Path("result")), parse_formats([], None)
    (['pdf', 'svg'], ['png'])
    """
    names = [name.strip().lower() for text in texts for name in text.split(",")]
    for name in names:
        if name not in FORMATS:
            raise OptionError(
                f"`--format` must be of {', '.join(FORMATS)}, but got {quoted(name)}."
            )
    if names and out is None:
        raise OptionError("`--format` is of the figure that `--out DIR` writes.")
    return list(dict.fromkeys(names)) or ["png"]


def figure_name(form: str) -> str:
    """Return the name of the figure's file."""
    return f"figure.{form}"


TEXT, JSON, FIGURE = "discovery.txt", "discovery.json", "discovery.{}"
ALL = FIGURE.format("*")


def sentences_in(folder: Path) -> list[str]:
    """What was said of the search whose fit is in a folder; nothing if there was
    none, or if its file cannot be read."""
    try:
        found = json.loads((folder / JSON).read_text("utf-8"))["sentences"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [text for text in found if isinstance(text, str)]
