"""The kinds of fields of a saved fit.

A field is described once, by its kind: it `write`s a value as plain words and numbers,
and `read`s what JSON holds as Python and NumPy have it, lists as tuples or arrays. A
value of another type, range or size is a `ResultError` that names the field. Every
element of an array stands in the file, so that no file can ask for more memory than its
own length.

Sizes have names: within a record, the first field that uses a name sets it, and all
others must agree."""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from .._util.errors import ResultError, quoted
from .._util.files import nonfinite_as_words

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
