"""Files that hold the text of an equation."""

import re
from pathlib import Path

from .._util.errors import DataError
from .._util.text_files import read_text

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
