"""Statements of C, and the arrays of a program: each element in a variable of its own,
or in memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from .jaxpr import UntranslatedError, size_of

# An element: a known number, or a variable or an expression of C.
Element: TypeAlias = Any
_KINDS = {"float64": "double", "int64": "long long", "int32": "int", "bool": "bool"}
# Arrays of at most this many elements are kept in variables.
MOST_ELEMENTS = 400


@final
@dataclass(frozen=True, eq=False)
class Memory:
    """Memory for one array. `place` is the expression of its element `{}`. Arguments of
    a program are not `writable`."""

    place: str
    kind: str
    writable: bool

    def at(self, index: Element) -> str:
        """Return the expression of the element with this number."""
        return self.place.format(index if isinstance(index, str) else int(index))


class Elements(NamedTuple):
    """An array in variables: an object array of `Element`s, all of one kind."""

    array: np.ndarray
    kind: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @classmethod
    def filled(
        cls, shape: tuple[int, ...], kind: str, at: Callable[[tuple[int, ...]], Element]
    ) -> "Elements":
        """Make an array of `at(indices)`, called in the order of the rows."""
        return cls.of([at(where) for where in np.ndindex(shape)], shape, kind)

    @classmethod
    def of(cls, row: list[Element], shape: tuple[int, ...], kind: str) -> "Elements":
        """Make an array of its elements, in the order of the rows."""
        return cls(np.array(row, object).reshape(shape), kind)


class Stored(NamedTuple):
    """An array in memory, in the order of its rows."""

    memory: Memory
    shape: tuple[int, ...]

    @property
    def kind(self) -> str:
        return self.memory.kind

    @property
    def size(self) -> int:
        return size_of(self.shape)


Value: TypeAlias = Elements | Stored


def kind_of(dtype: Any) -> str:
    """Return the type of C for numbers of a dtype."""
    name = np.dtype(dtype).name
    if name not in _KINDS:
        raise UntranslatedError(f"numbers of the type {name}")
    return _KINDS[name]


def result_kind(variable: Any) -> str:
    """Return the type of C of a variable's elements."""
    return kind_of(variable.aval.dtype)


def elements(array: np.ndarray) -> Elements:
    """Return known numbers as elements."""
    if array.size > MOST_ELEMENTS:
        raise UntranslatedError(f"a constant array of shape {array.shape}")
    return Elements(array.astype(object), kind_of(array.dtype))


def is_known(element: Element) -> bool:
    """Whether an element is a known number."""
    return not isinstance(element, str)


def text_of(element: Element) -> str:
    """Return an element in C."""
    if isinstance(element, str):
        return element
    if isinstance(element, (bool, np.bool_)):
        return "true" if element else "false"
    if isinstance(element, (int, np.integer)):
        return f"{int(element)}LL" if element >= 0 else f"({int(element)}LL)"
    if np.isnan(element):
        return "NOT_A_NUMBER"
    if np.isinf(element):
        return "INFINITE" if element > 0 else "(-INFINITE)"
    return repr(float(element)) if element >= 0 else f"({float(element)!r})"


@final
class Writer:
    """The text of a program. `known` are the expressions with a name, with their types,
    for each block around the present one; `loaded` the elements of memory that were
    loaded and have not changed since; `used` is how much of the memory of a fit is in
    use, and `most` the largest amount so far."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.known: list[dict[tuple[str, str], str]] = [{}]
        self.loaded: list[dict[Memory, dict[str, str]]] = [{}]
        self.used = self.most = 0
        self._names = 0

    # Statements.

    def line(self, text: str) -> None:
        self.lines.append("  " * len(self.known) + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write statements between braces. Their memory is free afterwards."""
        self.line(head + " {")
        self.known.append({})
        self.loaded.append({})
        used = self.used
        yield
        self.used = used
        self.known.pop()
        self.loaded.pop()
        self.line("}")

    def name(self, prefix: str = "v") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def value(self, kind: str, expression: str) -> str:
        """Return a variable with the value of an expression that nothing can change."""
        for scope in reversed(self.known):
            if (kind, expression) in scope:
                return scope[kind, expression]
        name = self.fresh(kind, expression)
        self.known[-1][kind, expression] = name
        return name

    def fresh(self, kind: str, expression: str) -> str:
        """Write a new variable with the present value of an expression."""
        name = self.name()
        self.line(f"const {kind} {name} = {expression};")
        return name

    def variable(self, kind: str, start: Element) -> str:
        """Write a variable that may be changed."""
        name = self.name("m")
        self.line(f"{kind} {name} = {text_of(start)};")
        return name

    # Memory.

    def memory(self, shape: tuple[int, ...], kind: str) -> Stored:
        """Take memory for an array, until the present block ends."""
        first, self.used = self.used, self.used + size_of(shape)
        self.most = max(self.most, self.used)
        words = "words" if kind == "double" else "whole"
        place = f"{words}[({first}LL + ({{}})) * threads]"
        return Stored(Memory(place, kind, True), shape)

    def load(self, memory: Memory, index: Element) -> str:
        """Return the present value of an element in memory."""
        expression = memory.at(index)
        if not memory.writable:
            return self.value(memory.kind, expression)
        for scope in reversed(self.loaded):
            if expression in scope.get(memory, {}):
                return scope[memory][expression]
        name = self.fresh(memory.kind, expression)
        self.loaded[-1].setdefault(memory, {})[expression] = name
        return name

    def store(self, memory: Memory, index: Element, element: Element) -> None:
        self.line(f"{memory.at(index)} = {text_of(element)};")
        self.forget(memory)

    def forget(self, memory: Memory) -> None:
        """Forget what was loaded from memory that changes here."""
        for scope in self.loaded:
            scope.pop(memory, None)

    # Arrays.

    def in_variables(self, value: Value) -> Elements:
        """Return an array in variables."""
        if isinstance(value, Elements):
            return value
        if value.size > MOST_ELEMENTS:
            raise UntranslatedError(f"an array of shape {value.shape} in variables")
        loaded = [self.load(value.memory, j) for j in range(value.size)]
        return Elements.of(loaded, value.shape, value.kind)

    def in_memory(self, value: Value) -> Stored:
        """Return an array in memory: itself, or a copy."""
        return value if isinstance(value, Stored) else self.copy(value)

    def copy(self, value: Value) -> Stored:
        """Copy an array to new memory."""
        made = self.memory(value.shape, value.kind)
        self.copy_into(made, value)
        return made

    def copy_into(self, target: Stored, value: Value) -> None:
        if isinstance(value, Stored):
            with self.each(target.size) as j:
                self.store(target.memory, j, value.memory.at(j))
            return
        flat = value.array.reshape(-1)
        if flat.size > 8 and all(is_known(e) and e == flat[0] for e in flat):
            with self.each(target.size) as j:
                self.store(target.memory, j, flat[0])
        else:
            for j, element in enumerate(flat):
                self.store(target.memory, j, element)

    @contextmanager
    def each(self, count: int) -> Iterator[str]:
        """Write a loop from 0 to `count` - 1, and yield the name of its number."""
        name = self.name("i")
        with self.block(f"for (long long {name} = 0; {name} < {count}; ++{name})"):
            yield name

    def filled(
        self, shape: tuple[int, ...], kind: str, element: Callable[[Any], Element]
    ) -> Stored:
        """Make an array in memory, `element(number)` at each place."""
        made = self.memory(shape, kind)
        with self.each(made.size) as j:
            self.store(made.memory, j, element(j))
        return made
