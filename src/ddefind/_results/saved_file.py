"""Saved fits as files: their format, and the kinds of fields in them.

A file is one JSON object. `format` and `version` say how to read it, `ddefind` which
version of the package wrote it, and `checksum` is the SHA-256 of all the rest, written
without blanks and with sorted keys. What is not finite is written as the words "NaN",
"Infinity" and "-Infinity". Reading one runs no code.

A field is described once, by its kind: it `write`s a value as plain words and numbers,
and `read`s what JSON holds as Python and NumPy have it, lists as tuples or arrays. A
value of another type, range or size is a `ResultError` that names the field. Every
element of an array stands in the file, so that no file can ask for more memory than its
own length.

Sizes have names: within a record, the first field that uses a name sets it, and all
others must agree."""

import abc
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from .._util import wording
from .._util.errors import DataError, ResultError, quoted
from .._util.files import file_name, nonfinite_as_words, read_bytes, write_whole
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


# The kinds of fields

Sizes = dict[str, int]
_WORDS = ("NaN", "Infinity", "-Infinity")


def _refuse(where: str, wanted: str, value: Any) -> ResultError:
    return ResultError(f"`{where}` must be {wanted}, but is {quoted(repr(value))}.")


class AbstractField(abc.ABC):
    """A kind of field."""

    @abc.abstractmethod
    def read(self, value: Any, where: str, sizes: Sizes) -> Any:
        """Check and return the value of the field called `where`."""

    @abc.abstractmethod
    def write(self, value: Any) -> Any:
        """Return a value as it stands in a file."""


class AbstractPlain(AbstractField):
    """A field that holds a value as it is."""

    def write(self, value: Any) -> Any:
        return nonfinite_as_words(value)


@final
@dataclass(frozen=True)
class Words(AbstractPlain):
    """A text; one of `choices` where there are any."""

    choices: tuple[str, ...] = ()

    def read(self, value: Any, where: str, sizes: Sizes) -> str:
        if not isinstance(value, str):
            raise _refuse(where, "a text", value)
        if self.choices and value not in self.choices:
            raise _refuse(where, f"one of {', '.join(self.choices)}", value)
        return value


@final
@dataclass(frozen=True)
class Flag(AbstractPlain):
    """True or false."""

    def read(self, value: Any, where: str, sizes: Sizes) -> bool:
        if not isinstance(value, bool):
            raise _refuse(where, "true or false", value)
        return value


@final
@dataclass(frozen=True)
class Whole(AbstractPlain):
    """An integer from `low` on, up to `high`."""

    low: int = 0
    high: int = 2**53

    def read(self, value: Any, where: str, sizes: Sizes) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not self.low <= value <= self.high:
            wanted = f"an integer from {self.low} to {self.high}"
            raise _refuse(where, wanted, value)
        return value


@final
@dataclass(frozen=True)
class Real(AbstractPlain):
    """A number; NaN and infinities stand as words."""

    low: float = -np.inf

    def read(self, value: Any, where: str, sizes: Sizes) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number and value not in _WORDS:
            raise _refuse(where, "a number", value)
        if float(value) < self.low:
            raise _refuse(where, f"at least {self.low:g}", value)
        return float(value)


@final
@dataclass(frozen=True, init=False)
class Array(AbstractPlain):
    """An array of numbers, integers or flags, with a name for the size of each axis."""

    dtype: type
    axes: tuple[str, ...]

    def __init__(self, dtype: type, *axes: str):
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "axes", axes)

    def read(self, value: Any, where: str, sizes: Sizes) -> np.ndarray:
        flat: list[Any] = []
        shape = self._flatten(value, where, len(self.axes), flat)
        item = {float: Real(), int: Whole(low=-1), bool: Flag()}[self.dtype]
        for each in flat:
            item.read(each, where, sizes)
        if len(shape) < len(self.axes):  # an empty list has no inner axes
            shape += tuple(sizes.get(axis, 0) for axis in self.axes[len(shape) :])
        for axis, size in zip(self.axes, shape):
            if sizes.setdefault(axis, size) != size:
                wanted = f"{sizes[axis]} long along {axis!r}"
                raise _refuse(where, wanted, f"{size} long")
        return np.array(flat, dtype=self.dtype).reshape(shape)

    def _flatten(
        self, value: Any, where: str, depth: int, flat: list[Any]
    ) -> tuple[int, ...]:
        """Append the elements of nested lists to `flat`, and return their shape."""
        if depth == 0:
            flat.append(value)
            return ()
        if not isinstance(value, list):
            raise _refuse(where, f"a list of {depth} dimensions", value)
        shapes = {self._flatten(each, where, depth - 1, flat) for each in value}
        if len(shapes) > 1:
            raise ResultError(f"`{where}` has rows of different lengths.")
        return (len(value), *(shapes.pop() if shapes else ()))


@final
@dataclass(frozen=True)
class ByType(AbstractPlain):
    """A plain field whose kind depends on the type that JSON gives it."""

    kinds: Mapping[type, AbstractField]

    def read(self, value: Any, where: str, sizes: Sizes) -> Any:
        kind = self.kinds.get(type(value))
        if kind is None:
            wanted = " or ".join(each.__name__ for each in self.kinds)
            raise _refuse(where, f"of the type {wanted}", value)
        return kind.read(value, where, sizes)


@final
@dataclass(frozen=True)
class Maybe(AbstractField):
    """Null, or a field."""

    field: AbstractField

    def read(self, value: Any, where: str, sizes: Sizes) -> Any:
        return None if value is None else self.field.read(value, where, sizes)

    def write(self, value: Any) -> Any:
        return None if value is None else self.field.write(value)


@final
@dataclass(frozen=True)
class Only(AbstractField):
    """The only element along the first axis of an array."""

    field: AbstractField

    def read(self, value: Any, where: str, sizes: Sizes) -> np.ndarray:
        return np.array([self.field.read(value, where, sizes)])

    def write(self, value: Any) -> Any:
        return self.field.write(value[0])


@final
@dataclass(frozen=True)
class Many(AbstractField):
    """A list of fields of one kind."""

    field: AbstractField
    axis: str = ""

    def read(self, value: Any, where: str, sizes: Sizes) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _refuse(where, "a list", value)
        if self.axis and sizes.setdefault(self.axis, len(value)) != len(value):
            raise _refuse(where, f"{sizes[self.axis]} long", f"{len(value)} long")
        return tuple(
            self.field.read(each, f"{where}[{index}]", sizes)
            for index, each in enumerate(value)
        )

    def write(self, value: Any) -> list[Any]:
        return [self.field.write(each) for each in value]


@final
@dataclass(frozen=True)
class Places(AbstractField):
    """A list with a field for each place: a tuple, of the class `make` if there is
    one."""

    fields: Sequence[AbstractField]
    make: Callable[..., Any] | None = None

    def read(self, value: Any, where: str, sizes: Sizes) -> Any:
        if not isinstance(value, list) or len(value) != len(self.fields):
            raise _refuse(where, f"a list of {len(self.fields)}", value)
        found = tuple(
            field.read(each, f"{where}[{index}]", sizes)
            for index, (field, each) in enumerate(zip(self.fields, value))
        )
        return found if self.make is None else self.make(*found)

    def write(self, value: Any) -> list[Any]:
        return [field.write(each) for field, each in zip(self.fields, value)]


@final
@dataclass(frozen=True)
class Named(AbstractField):
    """Any names, each with a field of one kind, which sets its own sizes."""

    field: AbstractField

    def read(self, value: Any, where: str, sizes: Sizes) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _refuse(where, "an object", value)
        return {
            name: self.field.read(each, f"{where}.{name}", dict(sizes))
            for name, each in value.items()
        }

    def write(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.field.write(each) for name, each in value.items()}


@final
@dataclass(frozen=True)
class Entries(AbstractField):
    """An object with these fields: those of a dict, or the attributes of the class
    `make`. The sizes that it sets are its own."""

    fields: Mapping[str, AbstractField]
    make: Callable[..., Any] = dict

    def read(self, value: Any, where: str, sizes: Sizes) -> Any:
        if not isinstance(value, dict):
            raise _refuse(where, "an object", value)
        prefix = f"{where}." if where else ""
        missing = [name for name in self.fields if name not in value]
        if missing:
            raise ResultError(f"`{prefix}{missing[0]}` is missing.")
        inner = dict(sizes)
        return self.make(
            **{
                name: field.read(value[name], f"{prefix}{name}", inner)
                for name, field in self.fields.items()
            }
        )

    def write(self, value: Any) -> dict[str, Any]:
        held = value if isinstance(value, Mapping) else None
        return {
            name: field.write(getattr(value, name) if held is None else held[name])
            for name, field in self.fields.items()
        }
