"""The digest of a value: a text that is the same for the same content, in any process.

A sweep compares the digests of its model, data and settings with those in its folder.
Numbers, texts, arrays and records count by their content; functions and classes of the
user by their code and what it refers to, and parts of libraries by their names."""

import hashlib
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, final

import numpy as np

_LIBRARIES = tuple(
    path
    for path in map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))
    if path is not None
)
_OWN = __name__.partition(".")[0]
# The names of the module that Python was started with, here and in its workers.
_SCRIPT = ("__main__", "__mp_main__")


def digest(value: Any) -> str:
    """Return the digest of a value, 64 hexadecimal digits.

    >>> digest({"a": [1, 2.0]}) == digest({"a": [1, 2.0]}), digest(1) == digest(1.0)
    (True, False)
    """
    return _Digests().of(value).hex()


@final
class NoDigest(TypeError):
    """An error for a value that has no digest."""


@final
class _Digests:
    """The digests of objects by their ids, which `kept` keeps from being reused."""

    def __init__(self) -> None:
        self.known: dict[int, bytes] = {}
        self.kept: list[Any] = []

    def of(self, value: Any) -> bytes:
        """Return the digest of a value."""
        if value is None or isinstance(value, int | float | complex | str | bytes):
            return _hashed(type(value).__name__.encode(), repr(value).encode())
        key = id(value)
        if key not in self.known:
            self.kept.append(value)
            self.known[key] = b"itself"  # for an object that contains itself
            self.known[key] = _hashed(*self._parts(value))
        return self.known[key]

    def _parts(self, value: Any) -> Iterator[bytes]:
        """Yield the pieces of an object from which its digest is made."""
        if isinstance(value, type):
            yield from self._class(value)
        elif isinstance(value, FunctionType):
            yield from self._function(value)
        elif isinstance(value, CodeType):
            arguments = value.co_varnames[: value.co_argcount + value.co_kwonlyargcount]
            yield value.co_code
            yield from map(self.of, (value.co_names, arguments, value.co_consts))
        elif isinstance(value, ModuleType):
            yield value.__name__.encode()
        elif isinstance(value, BuiltinFunctionType):
            yield _name(value)
        elif hasattr(value, "__array__") and hasattr(value, "dtype"):
            array = np.asarray(value)
            yield f"array {array.dtype.str} {array.shape}".encode()
            has_objects = array.dtype.hasobject
            yield self.of(array.tolist()) if has_objects else array.tobytes()
        elif isinstance(value, Mapping):
            pairs = [(self.of(key), self.of(each)) for key, each in value.items()]
            yield from (b"mapping", *(part for pair in sorted(pairs) for part in pair))
        elif isinstance(value, set | frozenset):
            yield from (b"set", *sorted(map(self.of, value)))
        elif isinstance(value, list | tuple):
            yield from (_name(type(value)), *map(self.of, value))
        elif callable(inner := getattr(value, "__wrapped__", None)):
            yield from (_name(type(value)), self.of(inner))
        else:
            yield from self._object(value)

    def _object(self, value: Any) -> Iterator[bytes]:
        """Yield the class of an object, and its fields or what it is pickled by."""
        cls = type(value)
        yield self.of(cls)
        if is_dataclass(cls) and cls.__reduce__ is object.__reduce__:
            for field in fields(cls):
                yield field.name.encode()
                yield self.of(getattr(value, field.name, None))
            return
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:
            raise NoDigest(
                f"it holds an object of the class `{cls.__qualname__}`, whose content "
                "cannot be compared with that of another session"
            ) from None
        yield reduced.encode() if isinstance(reduced, str) else self.of(list(reduced))

    def _class(self, cls: type) -> Iterator[bytes]:
        yield _name(cls)
        if _is_library(cls.__module__):
            return
        yield from map(self.of, (base for base in cls.__bases__ if base is not object))
        for name, part in vars(cls).items():
            for wrapper in _WRAPPERS:
                part = getattr(part, wrapper, part)
            # Decorators such as `dataclass` make functions from text.
            code = getattr(part, "__code__", None)
            is_generated = code is not None and code.co_filename == "<string>"
            if name in _NO_CONTENT or is_generated:
                continue
            if isinstance(part, FunctionType | int | float | str | tuple):
                yield from (name.encode(), self.of(part))

    def _function(self, function: FunctionType) -> Iterator[bytes]:
        yield _name(function)
        if _is_library(function.__module__):
            return
        yield from map(self.of, (function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            yield self.of(cell.cell_contents)
        yield self.of(function.__code__)
        # The globals that the code refers to.
        for name in sorted(_names_in(function.__code__)):
            if name in function.__globals__:
                yield from (name.encode(), self.of(function.__globals__[name]))


# Attributes of classes that are no content: where they were written, and their texts.
_NO_CONTENT = (
    *("__module__", "__doc__", "__qualname__", "__firstlineno__"),
    *("__static_attributes__", "__match_args__", "__slots__"),
)
# The attributes in which decorators of Python and of equinox keep a method.
_WRAPPERS = ("__func__", "fget", "method")


def _names_in(code: CodeType) -> set[str]:
    """Return the names that a code and the functions within it use."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return set(code.co_names).union(*map(_names_in, inner))


def _hashed(*parts: bytes) -> bytes:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.digest()


def _name(value: Any) -> bytes:
    module = getattr(value, "__module__", None)
    # A script is the same when it is imported.
    module = "" if module in _SCRIPT else module
    return f"{module}.{value.__qualname__}".encode()


def _is_library(module: str | None) -> bool:
    """Whether a module is not of the user: its version says what it does."""
    if module in _SCRIPT:
        return False
    top = (module or "builtins").partition(".")[0]
    if top == _OWN or top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    return file is not None and ("site-packages" in file or file.startswith(_LIBRARIES))
