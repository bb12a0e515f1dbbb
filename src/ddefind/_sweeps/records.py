"""A record of a log: one finished task, as one line of JSON with a checksum.

The last entries of a line are the time at which it was written, in seconds since 1970,
and the CRC-32 of all that stands before it. A line that is cut off, or that was
altered, has another one, or none."""

import json
import zlib
from base64 import b64decode, b64encode
from typing import Any

from .._util.json_numbers import nonfinite_as_words

_CHECKSUM = b',"crc":"%08x"}'
_LENGTH = len(_CHECKSUM % 0)


def body_of(record: dict[str, Any]) -> bytes:
    """A record as JSON. Floats keep every digit, and those that are not finite are the
    words "NaN", "Infinity" and "-Infinity"."""
    plain = nonfinite_as_words(record)
    return json.dumps(plain, allow_nan=False, separators=(",", ":")).encode()


def sealed(body: bytes, at: float) -> bytes:
    """The line of a record that is written at this time.

    >>> line = sealed(body_of({"number": 3, "loss": 0.1}), at=12.0)
    >>> record_of(line)
    {'number': 3, 'loss': 0.1, 'at': 12.0}
    >>> record_of(line[:-9]), record_of(line.replace(b"3", b"4", 1))
    (None, None)
    """
    body = body[:-1] + b',"at":%.3f' % at
    return body + _CHECKSUM % zlib.crc32(body) + b"\n"


def record_of(line: bytes) -> dict[str, Any] | None:
    """The record of a line; None if the line is cut off or was altered."""
    if not line.endswith(b"}\n"):
        return None
    body = line[: -_LENGTH - 1]
    if line[len(body) : -1] != _CHECKSUM % zlib.crc32(body):
        return None
    return json.loads(body + b"}")


def compressed(content: dict[str, Any]) -> str:
    """Details of a record in few letters: its JSON, compressed."""
    return b64encode(zlib.compress(body_of(content), 6)).decode()


def decompressed(text: str) -> dict[str, Any]:
    """The details that `compressed` made short."""
    return json.loads(zlib.decompress(b64decode(text)))
