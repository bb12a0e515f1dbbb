"""Whole files: read as text, with every obstacle named, and written at once or not at
all."""

import codecs
import os
import re
import tempfile
from itertools import islice
from pathlib import Path

from .errors import DataError, nearest

# UTF-32 first: its mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_NOT_TEXT = "This is not a text file. Export a spreadsheet as CSV (UTF-8) first."
# A folder may hold a million files: names near a missing one are sought among these.
_LOOKED_AT = 1000


def read_text(path: str | os.PathLike[str]) -> tuple[str, tuple[str, ...]]:
    """The text of a file, and notes on how it was read."""
    name = file_name(path)
    text, notes = _decoded(read_bytes(path), name)
    if not text.strip():
        raise DataError(f"{name}: the file is empty.")
    found = _CONTROL.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise DataError(
            f"{name}, line {line}: the control character {found[0]!r}. {_NOT_TEXT}"
        )
    return text, notes


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a file; a `DataError` says why there is none."""
    name = file_name(path)
    try:
        return _content(Path(path), name)
    except OSError as error:
        raise DataError(f"{name}: {error.strerror or error}.") from None


def file_name(path: str | os.PathLike[str]) -> str:
    """A path as messages show it: in one line, whatever it is made of."""
    if not isinstance(path, str | os.PathLike):
        kind = type(path).__name__
        raise TypeError(f"`path` must be the name of a file, but got {kind}.")
    name = str(path)
    return name if name.isprintable() and name else repr(name)


def _content(path: Path, name: str) -> bytes:
    if path.is_file():
        return path.read_bytes()
    if path.is_dir():
        raise DataError(f"{name}: this is a folder, not a file.")
    if path.exists():
        raise DataError(f"{name}: this is not a regular file. Copy its content to one.")
    if not path.parent.is_dir():
        raise DataError(f"{name}: there is no folder {file_name(path.parent)}.")
    with os.scandir(path.parent) as entries:
        close = nearest(path.name, [e.name for e in islice(entries, _LOOKED_AT)])
    hint = f" Did you mean {close!r}?" if close else ""
    raise DataError(f"{name}: there is no such file.{hint}")


def _decoded(content: bytes, name: str) -> tuple[str, tuple[str, ...]]:
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            try:
                return content[len(mark) :].decode(encoding), ()
            except UnicodeDecodeError:
                raise DataError(
                    f"{name}: it begins as {encoding.upper()}, but is not. {_NOT_TEXT}"
                ) from None
    try:
        return content.decode("utf-8"), ()
    except UnicodeDecodeError:
        pass
    try:
        # Numbers are the same in both; only letters of names can be others.
        text = content.decode("cp1252")
    except UnicodeDecodeError:
        raise DataError(f"{name}: {_NOT_TEXT}") from None
    return text, ("The file is not UTF-8: its letters were read as Windows-1252.",)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that, whatever happens, it is the old or the new one."""
    data = content.encode() if isinstance(content, str) else content
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {file_name(path.parent)}")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
