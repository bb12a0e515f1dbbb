"""JAX's equations of a program, with all calls of functions written out, and its
arrays: each element in a variable of its own, or in memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, final

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

# Calls of functions, and the parameters that may contain the equations of the function.
_CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "remat2")
_CALLS += ("custom_vjp_call", "checkpoint", "remat", "custom_lin")
_BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr")
LOOPS = ("while", "scan", "cond")


@final
class UntranslatedError(Exception):
    """An error for a program that has no translation, or cannot run here."""


@final
@dataclass(frozen=True)
class Operation:
    """`outputs = primitive(inputs)`. The inputs are variables or literals."""

    primitive: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    params: dict[str, Any]


@final
@dataclass(frozen=True)
class Block:
    """The equations of a program, or of the body of a loop. `constants` are the arrays
    of some of its variables."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    equations: tuple[Operation, ...]
    constants: dict[Any, Any]

    def last_uses(self) -> dict[Any, int]:
        """Return for each variable the number of the last equation that reads it; for
        an output the number of equations."""
        last: dict[Any, int] = {}
        for number, equation in enumerate(self.equations):
            for each in equation.inputs:
                if not isinstance(each, Literal):
                    last[each] = number
        for each in self.outputs:
            if not isinstance(each, Literal):
                last[each] = len(self.equations)
        return last


def block_of(closed: ClosedJaxpr | Jaxpr) -> Block:
    """Return the equations of a program and of the functions that it calls."""
    jaxpr, values = _parts(closed)
    equations: list[Operation] = []
    constants: dict[Any, Any] = dict(zip(jaxpr.constvars, values))
    same: dict[Any, Any] = {}
    _write_out(jaxpr, same, equations, constants)
    outputs = tuple(_named(each, same) for each in jaxpr.outvars)
    return Block(tuple(jaxpr.invars), outputs, tuple(equations), constants)


def _parts(closed: ClosedJaxpr | Jaxpr) -> tuple[Jaxpr, Sequence[Any]]:
    """Return the equations as JAX has them, and the values of their constants."""
    if isinstance(closed, ClosedJaxpr):
        return closed.jaxpr, closed.consts
    return closed, ()


def _named(variable: Any, same: dict[Any, Any]) -> Any:
    """Return the variable of the whole program for one of a function."""
    return variable if isinstance(variable, Literal) else same.get(variable, variable)


def _write_out(
    jaxpr: Jaxpr,
    same: dict[Any, Any],
    equations: list[Operation],
    constants: dict[Any, Any],
) -> None:
    """Append the equations of `jaxpr`. `same` maps its variables to variables of the
    whole; a function that is called twice gets new ones each time."""
    for each in jaxpr.eqns:
        inputs = tuple(_named(variable, same) for variable in each.invars)
        name = each.primitive.name
        body = next((each.params[k] for k in _BODIES if k in each.params), None)
        if name in _CALLS and body is not None:
            inner, values = _parts(body)
            of_inner = dict(zip(inner.invars, inputs))
            for variable, value in zip(inner.constvars, values):
                of_inner[variable] = new = Variable(variable.aval)
                constants[new] = value
            _write_out(inner, of_inner, equations, constants)
            for outer, variable in zip(each.outvars, inner.outvars):
                same[outer] = _named(variable, of_inner)
        else:
            outputs = []
            for variable in each.outvars:
                same[variable] = new = Variable(variable.aval)
                outputs.append(new)
            equations.append(Operation(name, inputs, tuple(outputs), each.params))


@final
class Variable:
    """A new variable, which is equal to no other."""

    def __init__(self, aval: Any):
        self.aval = aval


def is_indexed(block: Block, variable: Any) -> bool:
    """Whether a program reads or writes elements of an array at places that are known
    only when it runs."""
    names = {variable}
    for each in block.equations:
        if not any(_is_one_of(used, names) for used in each.inputs):
            continue
        if each.primitive in ("dynamic_slice", "dynamic_update_slice"):
            if _is_one_of(each.inputs[0], names):
                return True
        elif each.primitive in ("reshape", "squeeze", "expand_dims"):
            names.add(each.outputs[0])
        elif each.primitive in LOOPS:
            for body, inputs in bodies(each):
                for inner, used in zip(body.inputs, inputs):
                    if _is_one_of(used, names) and is_indexed(body, inner):
                        return True
    return False


def _is_one_of(variable: Any, names: set[Any]) -> bool:
    return not isinstance(variable, Literal) and variable in names


def bodies(equation: Operation) -> list[tuple[Block, tuple[Any, ...]]]:
    """Return the programs inside of a loop or a choice, with their first inputs."""
    params, inputs = equation.params, equation.inputs
    if equation.primitive == "cond":
        return [(block_of(each), inputs[1:]) for each in params["branches"]]
    if equation.primitive == "scan":
        return [(block_of(params["jaxpr"]), inputs)]
    first, second = params["cond_nconsts"], params["body_nconsts"]
    carry = inputs[first + second :]
    return [
        (block_of(params["cond_jaxpr"]), (*inputs[:first], *carry)),
        (block_of(params["body_jaxpr"]), (*inputs[first : first + second], *carry)),
    ]


def shape_of(variable: Any) -> tuple[int, ...]:
    """Return the shape of a variable."""
    return tuple(variable.aval.shape)


def size_of(shape: tuple[int, ...]) -> int:
    """Return the number of elements of a shape."""
    return int(np.prod(shape, dtype=int))


def trace(function: Any, *arguments: Any) -> tuple[Block, Any]:
    """Return the equations of a function at `arguments`, and the result as shapes."""
    closed, result = jax.make_jaxpr(function, return_shape=True)(*arguments)
    return block_of(closed), result


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
        array = np.empty(shape, object)
        for where in np.ndindex(shape):
            array[where] = at(where)
        return cls(array, kind)


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


def elements(array: Any, kind: str) -> Elements:
    """Return known numbers as elements."""
    array = np.asarray(array)
    return Elements.filled(array.shape, kind, lambda where: array[where].item())


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
