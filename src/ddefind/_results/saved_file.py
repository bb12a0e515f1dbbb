"""Saved fits as files: JSON with a format's name, its version and a checksum.

A file is one JSON object. `format` and `version` say how to read it, `ddefind` which
version of the package wrote it, and `checksum` is the SHA-256 of all the rest, written
without blanks and with sorted keys. What is not finite is written as the words "NaN",
"Infinity" and "-Infinity". Reading one runs no code."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from .._util import wording
from .._util.errors import DataError, ResultError
from .._util.files import file_name, read_bytes, write_whole
from .._util.version import __version__

# Raise the version when the format changes: files of another one are not read.
FORMAT, VERSION = "ddefind fit", 3
# The name of a saved fit in a folder.
RESULT = "result.json"


def saved_text(content: dict[str, Any]) -> str:
    """Return the file of a saved fit; one line for each part."""
    body = {"format": FORMAT, "version": VERSION, "ddefind": __version__, **content}
    body["checksum"] = _checksum(body)
    lines = [
        f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}"
        for key, value in body.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_saved(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write a saved fit, whole or not at all."""
    write_whole(Path(path), saved_text(content))


def read_saved(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a saved fit. `path` is the file, or a folder with a `result.json`."""
    name = file_name(path)
    if Path(path).is_dir():
        if not (Path(path) / RESULT).exists():
            raise ResultError(
                f"{name}: this folder holds no saved fit: it has no file {RESULT}. "
                "Give a folder that `ddefind fit --out` wrote, or the file itself."
            )
        path = Path(path) / RESULT
        name = file_name(path)
    body = _parsed(path, name)
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise ResultError(f"{name}: this is not a fit that ddefind saved.")
    version = body.get("version")
    if type(version) is not int or version < 1:
        raise ResultError(f"{name}: its format version, {version!r}, is not valid.")
    if version != VERSION:
        options = body.get("options")
        has_huber = isinstance(options, dict) and options.get("huber") is not None
        raise ResultError(
            f"{name}: it was saved by another version of ddefind "
            f"({body.get('ddefind')}, format {version}; this one reads format "
            f"{VERSION}): fit again, or install that version."
            + (f" {wording.instead_of_huber('`huber`')}" if has_huber else "")
        )
    if body.pop("checksum", None) != _checksum(body):
        raise ResultError(
            f"{name}: the file was altered after it was saved: its checksum is another."
        )
    return body


def _parsed(path: str | os.PathLike[str], name: str) -> Any:
    try:
        return json.loads(read_bytes(path))
    except DataError as error:
        raise ResultError(str(error)) from None
    except json.JSONDecodeError as error:
        raise ResultError(
            f"{name}, line {error.lineno}: the file is damaged or cut off, or it is "
            "not a fit that ddefind saved."
        ) from None
    except (ValueError, RecursionError):
        raise ResultError(f"{name}: this is not a fit that ddefind saved.") from None


def _checksum(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
