"""Equinox modules that evaluate formulas: one class for each text.

The module of a text has one field for each parameter. It can be the right-hand side,
the history or the observation function of a problem, like a module that is written in
Python.
"""

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from typing import Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp

from .._problem.history import AbstractHistory
from .._util.arrays import as_parameter
from ..models import AbstractModel
from .expression import (
    CONSTANTS,
    Expression,
    as_number,
    delayed_name,
    evaluate_formula,
    names_in,
    walk,
)
from .model_lines import ModelLine, ModelLines

# The part of a problem that a module serves as.
ModuleKind = Literal["rhs", "history", "observe"]


@final
@dataclass(frozen=True)
class FormulaProgram:
    """Formulas that compute a vector.

    `steps` are the definitions that the formulas use, by name and in the order in which
    they can be evaluated. `outputs` are the formulas of the components. `parameters`
    are the names of the parameters in them."""

    kind: ModuleKind
    states: tuple[str, ...]
    steps: tuple[tuple[str, Expression], ...]
    outputs: tuple[Expression, ...]
    parameters: tuple[str, ...]

    @property
    def parts(self) -> Iterator[Expression]:
        """All parts of all formulas."""
        formulas = (*(formula for _, formula in self.steps), *self.outputs)
        return (part for formula in formulas for part in walk(formula))

    def __call__(self, variables: dict[str, Any]) -> jax.Array:
        """The vector, given the values of all variables by name.

        The values of the definitions are added to `variables`."""
        for name, formula in self.steps:
            variables[name] = evaluate_formula(formula, variables)
        values = [as_number(evaluate_formula(o, variables)) for o in self.outputs]
        arrays = [jnp.asarray(value, jnp.result_type(float)) for value in values]
        if len(arrays) == 1:
            return jnp.broadcast_to(arrays[0], (1,))
        return jnp.stack([jnp.reshape(a, ()) if a.ndim else a for a in arrays])


def make_program(kind: ModuleKind, lines: ModelLines) -> FormulaProgram:
    """The program for one part of a model."""
    line_kind = {"rhs": "derivative", "history": "history", "observe": None}[kind]
    outputs = lines.observe if line_kind is None else lines.of(line_kind)
    steps = _steps(outputs, lines.definitions)
    used = [
        line
        for line in lines.model
        if line.kind == line_kind or (line.kind == "definition" and line.name in steps)
    ]
    used += lines.observe if line_kind is None else []
    known = {*lines.states, *CONSTANTS, *steps, "t"}
    if kind == "rhs":
        # Only a right-hand side has the delay as an argument. In other parts of the
        # model it is a parameter.
        known.add("tau")
    names = dict.fromkeys(name for line in used for name in names_in(line.formula))
    return FormulaProgram(
        kind,
        lines.states,
        tuple(steps.items()),
        tuple(output.formula for output in outputs),
        tuple(name for name in names if name not in known),
    )


def _steps(
    outputs: Sequence[ModelLine], definitions: Mapping[str, Expression]
) -> dict[str, Expression]:
    """The definitions that the outputs need, each one after those that it needs."""

    def needed(formula: Expression) -> list[str]:
        return [name for name in names_in(formula) if name in definitions]

    graph: dict[str, list[str]] = {}
    waiting = [name for output in outputs for name in needed(output.formula)]
    while waiting:
        name = waiting.pop()
        if name not in graph:
            graph[name] = needed(definitions[name])
            waiting += graph[name]
    return {name: definitions[name] for name in TopologicalSorter(graph).static_order()}


@cache
def module_class(program: FormulaProgram) -> type[eqx.Module]:
    """The class of the modules that run a program.

    Equal programs have the same class, so that JAX compiles the same text only once."""
    base, name_arguments = _MODULE_KINDS[program.kind]

    def __init__(self, *values):
        for name, value in zip(program.parameters, values, strict=True):
            setattr(self, name, as_parameter(value))

    def __call__(self, *arguments):
        parameters = {name: getattr(self, name) for name in program.parameters}
        arrays = map(jnp.asarray, arguments)
        return program(parameters | name_arguments(program.states, *arrays))

    def __reduce__(self):
        return _rebuild, (program, *(getattr(self, n) for n in program.parameters))

    def body(namespace):
        namespace["__annotations__"] = dict.fromkeys(program.parameters, jax.Array)
        namespace.update(
            __module__=__name__,
            __init__=__init__,
            __call__=__call__,
            __reduce__=__reduce__,
        )

    return types.new_class(f"Text{program.kind.capitalize()}", (base,), {}, body)


def _rebuild(program: FormulaProgram, *values: Any) -> eqx.Module:
    """Make a module again that was pickled; its class cannot be found by name."""
    return module_class(program)(*values)


def _components(states: Sequence[str], x: jax.Array) -> dict[str, jax.Array]:
    """The components of the state vector `x` by name.

    A single state remains a vector of length one, which saves operations: the vector
    need not be taken apart and put together again."""
    if x.shape != (len(states),):
        raise ValueError(
            f"The text is for {', '.join(states)}, but the vector of states has shape "
            f"{x.shape}: the history must return one value for each."
        )
    if len(states) == 1:
        return {states[0]: x}
    return {state: x[index] for index, state in enumerate(states)}


def _rhs_variables(
    states: Sequence[str], x: jax.Array, y: jax.Array, tau: jax.Array, t: jax.Array
) -> dict[str, jax.Array]:
    now = _components(states, x)
    delayed = _components([delayed_name(state) for state in states], y)
    return {**now, **delayed, "tau": tau, "t": t}


def _history_variables(states: Sequence[str], t: jax.Array) -> dict[str, jax.Array]:
    return {"t": t}


def _observe_variables(
    states: Sequence[str], x: jax.Array, t: jax.Array
) -> dict[str, jax.Array]:
    return {**_components(states, x), "t": t}


# The base class of each kind of module, and the names of its arguments' values.
_MODULE_KINDS: dict[ModuleKind, Any] = {
    "rhs": (AbstractModel, _rhs_variables),
    "history": (AbstractHistory, _history_variables),
    "observe": (eqx.Module, _observe_variables),
}
