"""The formats in which `ddefind fit --out` writes its figure."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .._util.errors import quoted
from .parse_options import OptionError

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
