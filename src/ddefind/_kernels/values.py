"""Where the elements of an array are: each in a variable of its own, or in memory."""

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from .jaxpr import UntranslatedError

# An element: a number that is known, or a variable or an expression of C.
Element: TypeAlias = Any
_KINDS = {"float64": "double", "int64": "long long", "int32": "int", "bool": "bool"}
# Arrays of at most so many elements are held in variables.
MOST_ELEMENTS = 400


@final
@dataclass(frozen=True, eq=False)
class Memory:
    """Memory for one array. `place` is the expression of its element `{}`. Memory that
    is not `writable` belongs to the arguments of a program."""

    place: str
    kind: str
    writable: bool

    def at(self, index: Element) -> str:
        """The element with this number."""
        return self.place.format(_whole(index))


def _whole(index: Element) -> str:
    return index if isinstance(index, str) else f"{int(index)}"


class Elements(NamedTuple):
    """An array in variables: an object array of `Element`s, all of one kind."""

    array: np.ndarray
    kind: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape


class Stored(NamedTuple):
    """An array in memory, in the order of its rows."""

    memory: Memory
    shape: tuple[int, ...]

    @property
    def kind(self) -> str:
        return self.memory.kind

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))


Value: TypeAlias = Elements | Stored


def kind_of(dtype: Any) -> str:
    """The type of C for numbers of a dtype."""
    name = np.dtype(dtype).name
    if name not in _KINDS:
        raise UntranslatedError(f"numbers of the type {name}")
    return _KINDS[name]


def elements(array: Any, kind: str) -> Elements:
    """Known numbers as elements."""
    array = np.asarray(array)
    made = np.empty(array.shape, object)
    for place in np.ndindex(array.shape):
        made[place] = array[place].item()
    return Elements(made, kind)


def is_known(element: Element) -> bool:
    """Whether an element is a number already."""
    return not isinstance(element, str)


def text_of(element: Element) -> str:
    """An element in C."""
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
