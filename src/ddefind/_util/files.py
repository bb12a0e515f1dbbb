"""Reading and writing whole files, and numbers for JSON.

Reading raises a `DataError` that says what is wrong with the file. Writing replaces a
file in one step, so that a failure never leaves a file that is half written.

JSON has neither NaN nor infinity. `nonfinite_as_words` writes them as the words "NaN",
"Infinity" and "-Infinity", which `float` and `numpy.array(..., dtype=float)` read
again, so nothing is lost. `nonfinite_as_none` writes None (`null` in JSON), for readers
who only need to know that there is no number. Both accept any nesting of dictionaries,
lists, tuples and arrays. NumPy is not imported, so that a command that computes nothing
need not load it."""

import codecs
import math
import os
import re
import tempfile
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from .errors import DataError, nearest

# Byte order marks. UTF-32 comes before UTF-16, whose mark is the beginning of its own.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_NOT_TEXT = "This is not a text file. Export a spreadsheet as CSV (UTF-8) first."
# How many names of a folder are compared with that of a missing file: a folder may hold
# a million.
_MOST_NAMES_COMPARED = 1000


def read_text(path: str | os.PathLike[str]) -> tuple[str, tuple[str, ...]]:
    """Return the text of a file, and notes on how it was decoded."""
    name = file_name(path)
    text, notes = _decoded(read_bytes(path), name)
    if not text.strip():
        raise DataError(f"{name}: the file is empty.")
    control = _CONTROL_CHARACTER.search(text)
    if control:
        line = text.count("\n", 0, control.start()) + 1
        raise DataError(
            f"{name}, line {line}: the control character {control[0]!r}. {_NOT_TEXT}"
        )
    return text, notes


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file; a `DataError` says why it cannot be read."""
    name, path = file_name(path), Path(path)
    try:
        if path.is_file():
            return path.read_bytes()
        if path.is_dir():
            raise DataError(f"{name}: this is a folder, not a file.")
        if path.exists():
            raise DataError(
                f"{name}: this is not a regular file. Copy its content to one."
            )
        if not path.parent.is_dir():
            raise DataError(f"{name}: there is no folder {file_name(path.parent)}.")
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, _MOST_NAMES_COMPARED)]
    except OSError as error:
        raise DataError(f"{name}: {error.strerror or error}.") from None
    similar = nearest(path.name, names)
    hint = f" Did you mean {similar!r}?" if similar else ""
    raise DataError(f"{name}: there is no such file.{hint}")


def file_name(path: str | os.PathLike[str]) -> str:
    """Return a path for messages: on one line, and escaped if it cannot be printed."""
    if not isinstance(path, str | os.PathLike):
        kind = type(path).__name__
        raise TypeError(f"`path` must be the name of a file, but got {kind}.")
    name = str(path)
    return name if name.isprintable() and name else repr(name)


def _decoded(content: bytes, name: str) -> tuple[str, tuple[str, ...]]:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            try:
                return content[len(mark) :].decode(encoding), ()
            except UnicodeDecodeError:
                raise DataError(
                    f"{name}: it begins as {encoding.upper()}, but cannot be decoded. "
                    f"{_NOT_TEXT}"
                ) from None
    with suppress(UnicodeDecodeError):
        return content.decode("utf-8"), ()
    try:
        # Digits are the same in all such encodings; only letters of names can differ.
        text = content.decode("cp1252")
    except UnicodeDecodeError:
        raise DataError(f"{name}: {_NOT_TEXT}") from None
    return text, ("The file is not UTF-8: its letters were read as Windows-1252.",)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file in one step: whatever happens, the path holds either the whole new
    content or what it held before.

    The content goes to a temporary file in the same folder, which is then renamed."""
    # Names of files in a text may not be in the encoding of the system.
    is_text = isinstance(content, str)
    data = content.encode("utf-8", "surrogateescape") if is_text else content
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {file_name(path.parent)}")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:  # of a name that means nothing to the user
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def nonfinite_as_words(value: Any) -> Any:
    """Replace NaN and infinities by "NaN", "Infinity" and "-Infinity", and arrays and
    tuples by nested lists.

    >>> import numpy as np
    >>> nonfinite_as_words(np.array([[1.5, np.nan], [np.inf, 2.0]]))
    [[1.5, 'NaN'], ['Infinity', 2.0]]
    >>> np.array(['NaN', '-Infinity'], dtype=float)
    array([ nan, -inf])
    """
    words = {math.inf: "Infinity", -math.inf: "-Infinity"}
    return _encoded(value, lambda number: words.get(number, "NaN"))


def nonfinite_as_none(value: Any) -> Any:
    """Replace NaN and infinities by None, and arrays and tuples by nested lists.

    >>> nonfinite_as_none({"loss": float("inf"), "interval": (0.5, float("nan"))})
    {'loss': None, 'interval': [0.5, None]}
    """
    return _encoded(value, lambda _: None)


def _encoded(value: Any, replacement: Callable[[float], str | None]) -> Any:
    """Return `value` with each number that is not finite as `replacement(number)`."""
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy and JAX
        value = value.tolist()
    if isinstance(value, dict):
        return {key: _encoded(each, replacement) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encoded(each, replacement) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return replacement(value)
    return value
