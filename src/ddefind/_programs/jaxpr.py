"""JAX's equations of a program, with all calls of functions written out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

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
class Variable:
    """A new variable, which is equal to no other."""

    def __init__(self, aval: Any):
        self.aval = aval


@final
@dataclass(frozen=True)
class Operation:
    """`outputs = primitive(inputs)`, with variables."""

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
    equations: Sequence[Operation]
    constants: dict[Any, np.ndarray]

    def last_uses(self) -> dict[Any, int]:
        """Return for each variable the number of the last equation that reads it; for
        an output the number of equations."""
        reads = [*(each.inputs for each in self.equations), self.outputs]
        return {each: number for number, some in enumerate(reads) for each in some}


def block_of(closed: ClosedJaxpr | Jaxpr) -> Block:
    """Return the equations of a program and of the functions that it calls."""
    jaxpr = closed.jaxpr if isinstance(closed, ClosedJaxpr) else closed
    inputs, equations, constants = tuple(jaxpr.invars), [], {}
    outputs = _write_out(closed, inputs, equations, constants)
    return Block(inputs, outputs, equations, constants)


def _write_out(
    closed: ClosedJaxpr | Jaxpr,
    inputs: tuple[Any, ...],
    equations: list[Operation],
    constants: dict[Any, np.ndarray],
) -> tuple[Any, ...]:
    """Append the equations of a function and return its outputs. A function that is
    called twice gets new variables each time."""
    jaxpr, values = closed, ()
    if isinstance(closed, ClosedJaxpr):
        jaxpr, values = closed.jaxpr, closed.consts
    names: dict[Any, Any] = dict(zip(jaxpr.invars, inputs))

    def constant(aval: Any, value: Any) -> Variable:
        new = Variable(aval)
        constants[new] = np.asarray(value, aval.dtype)
        return new

    def named(variable: Any) -> Any:
        if isinstance(variable, Literal):
            return constant(variable.aval, variable.val)
        return names[variable]

    names |= {v: constant(v.aval, value) for v, value in zip(jaxpr.constvars, values)}
    for each in jaxpr.eqns:
        name, given = each.primitive.name, tuple(map(named, each.invars))
        body = next((each.params[k] for k in _BODIES if k in each.params), None)
        if name in _CALLS and body is not None:
            made = _write_out(body, given, equations, constants)
        else:
            made = tuple(Variable(variable.aval) for variable in each.outvars)
            equations.append(Operation(name, given, made, each.params))
        names |= zip(each.outvars, made)
    return tuple(map(named, jaxpr.outvars))


def is_indexed(block: Block, variable: Any) -> bool:
    """Whether a program reads or writes elements of an array at places that are known
    only when it runs."""
    names = {variable}
    for each in block.equations:
        if names.isdisjoint(each.inputs):
            continue
        if each.primitive in ("dynamic_slice", "dynamic_update_slice"):
            if each.inputs[0] in names:
                return True
        elif each.primitive in ("reshape", "squeeze", "expand_dims"):
            names.add(each.outputs[0])
        elif each.primitive in LOOPS:
            for body, inputs in bodies(each):
                for inner, used in zip(body.inputs, inputs):
                    if used in names and is_indexed(body, inner):
                        return True
    return False


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
