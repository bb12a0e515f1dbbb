"""Formulas as Equinox modules: a class for each text, with a field per parameter."""

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

Kind = Literal["rhs", "history", "observe"]


@final
@dataclass(frozen=True)
class FormulaProgram:
    """Formulas for a vector: `steps` name values on the way, `outputs` are the
    components, `parameters` the names whose values come from outside."""

    kind: Kind
    states: tuple[str, ...]
    steps: tuple[tuple[str, Expression], ...]
    outputs: tuple[Expression, ...]
    parameters: tuple[str, ...]

    @property
    def parts(self) -> Iterator[Expression]:
        """All parts of its formulas."""
        formulas = (*(formula for _, formula in self.steps), *self.outputs)
        return (part for formula in formulas for part in walk(formula))

    def __call__(self, names: dict[str, Any]) -> jax.Array:
        for name, formula in self.steps:
            names[name] = evaluate_formula(formula, names)
        values = [as_number(evaluate_formula(output, names)) for output in self.outputs]
        arrays = [jnp.asarray(value, jnp.result_type(float)) for value in values]
        if len(arrays) == 1:
            return jnp.broadcast_to(arrays[0], (1,))
        return jnp.stack([jnp.reshape(a, ()) if a.ndim else a for a in arrays])


def make_program(kind: Kind, lines: ModelLines) -> FormulaProgram:
    """What gives the slopes, the history or what is measured."""
    wanted = {"rhs": "derivative", "history": "history", "observe": None}[kind]
    goals = lines.observe if wanted is None else lines.of(wanted)
    steps = _steps(goals, lines.definitions)
    used = [
        line
        for line in lines.model
        if line.kind == wanted or (line.kind == "definition" and line.name in steps)
    ]
    used += lines.observe if wanted is None else []
    known = {*lines.states, *CONSTANTS, *steps, "t"}
    if kind == "rhs":
        known.add("tau")  # the others get no delay: for them it is a parameter
    names = dict.fromkeys(name for line in used for name in names_in(line.formula))
    return FormulaProgram(
        kind,
        lines.states,
        tuple(steps.items()),
        tuple(goal.formula for goal in goals),
        tuple(name for name in names if name not in known),
    )


def _steps(
    goals: Sequence[ModelLine], definitions: Mapping[str, Expression]
) -> dict[str, Expression]:
    """The definitions that the goals need, each after those that it needs."""

    def needed(formula):
        return [name for name in names_in(formula) if name in definitions]

    graph: dict[str, list[str]] = {}
    waiting = [name for goal in goals for name in needed(goal.formula)]
    while waiting:
        name = waiting.pop()
        if name not in graph:
            graph[name] = needed(definitions[name])
            waiting += graph[name]
    return {name: definitions[name] for name in TopologicalSorter(graph).static_order()}


@cache
def module_class(program: FormulaProgram) -> type[eqx.Module]:
    """The class of modules that compute a program. There is one for each program, so
    that JAX knows the same text again and compiles it once."""
    base, call = _KINDS[program.kind]

    def __init__(self, *values):
        for name, value in zip(program.parameters, values, strict=True):
            setattr(self, name, as_parameter(value))

    def __call__(self, *arguments):
        names = {name: getattr(self, name) for name in program.parameters}
        return program(names | call(program.states, *map(jnp.asarray, arguments)))

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


def _rebuild(program: FormulaProgram, *values) -> eqx.Module:
    return module_class(program)(*values)


def _components(states: Sequence[str], x: jax.Array) -> dict[str, jax.Array]:
    """The states by name. A single one stays a vector of length one, as in a module
    written by hand: nothing to take apart, nothing to put together."""
    if x.shape != (len(states),):
        raise ValueError(
            f"The text is for {', '.join(states)}, but the vector of states has shape "
            f"{x.shape}: the history must return one value for each."
        )
    if len(states) == 1:
        return {states[0]: x}
    return {state: x[index] for index, state in enumerate(states)}


def _rhs_names(states, x, y, tau, t):
    now = _components(states, x)
    delayed = _components([delayed_name(state) for state in states], y)
    return {**now, **delayed, "tau": tau, "t": t}


def _history_names(states, t):
    return {"t": t}


def _observe_names(states, x, t):
    return {**_components(states, x), "t": t}


_KINDS: dict[Kind, Any] = {
    "rhs": (AbstractModel, _rhs_names),
    "history": (AbstractHistory, _history_names),
    "observe": (eqx.Module, _observe_names),
}
