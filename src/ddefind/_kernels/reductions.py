"""Sums and other functions of all elements along some axes."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from .elementwise import apply
from .jaxpr import UntranslatedError
from .values import Element, Elements, Stored, Value, text_of
from .writer import Writer

_OPERATIONS = {
    "reduce_sum": "add",
    "reduce_prod": "mul",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "and",
    "reduce_or": "or",
}
# (All bits of -1 are set.)
_BEGIN: dict[str, Element] = {"add": 0, "mul": 1, "and": -1, "or": 0}
REDUCTIONS = {*_OPERATIONS, "argmax", "argmin", "dot_general", "cumsum"}


def reduced(
    writer: Writer, primitive: str, values: list[Value], kind: str, params: Any
) -> Value:
    """The result of one of the `REDUCTIONS`."""
    if primitive == "dot_general":
        return _product(writer, values[0], values[1], kind, params)
    if primitive == "cumsum":
        return _cumulated(writer, values[0], kind, params)
    axes, (value,) = params["axes"], values
    if primitive in ("argmax", "argmin"):
        sign = ">" if primitive == "argmax" else "<"
        of = value.kind
        return _along(
            writer, value, axes, kind, lambda own: _place(writer, own, of, sign)
        )
    operation = _OPERATIONS[primitive]
    if isinstance(value, Stored) and len(axes) == len(value.shape):
        return _of_memory(writer, value, operation, kind)
    function = _function(writer, operation, kind)
    return _along(writer, value, axes, kind, lambda own: reduce(function, own))


def _function(writer: Writer, operation: str, kind: str) -> Callable:
    def function(one: Element, other: Element) -> Element:
        return apply(writer, operation, kind, (kind, kind), (one, other), {})

    return function


def _along(writer: Writer, value: Value, axes, kind: str, function: Callable) -> Value:
    own = writer.in_variables(value)
    kept = [k for k in range(len(own.shape)) if k not in axes]
    shape = tuple(own.shape[k] for k in kept)
    rows = own.array.transpose(*kept, *axes).reshape(*shape, -1)
    made = np.empty(shape, object)
    for where in np.ndindex(shape):
        made[where] = function(list(rows[where]))
    return Elements(made, kind)


def _of_memory(writer: Writer, value: Stored, operation: str, kind: str) -> Value:
    """One element from a whole array in memory."""
    start = _BEGIN.get(operation)
    if start is None:
        start = writer.load(value.memory, 0)
    total = writer.variable(kind, start)
    with writer.each(value.size) as j:
        found = apply(
            writer, operation, kind, (kind, kind), (total, value.memory.at(j)), {}
        )
        writer.line(f"{total} = {text_of(found)};")
    made = np.empty((), object)
    made[()] = writer.fresh(kind, total)
    return Elements(made, kind)


def _place(writer: Writer, own: list[Element], kind: str, sign: str) -> Element:
    """The number of the first of the largest (or smallest) elements."""
    best, place = text_of(own[0]), "0LL"
    for number, each in enumerate(map(text_of, own[1:]), 1):
        # The first that is no number counts as the largest, and as the smallest.
        is_better = f"({each} {sign} {best} || ({each} != {each} && {best} == {best}))"
        is_better = writer.value("bool", is_better)
        place = writer.value("long long", f"({is_better} ? {number}LL : {place})")
        best = writer.value(kind, f"({is_better} ? {each} : {best})")
    return place


def _product(writer: Writer, a: Value, b: Value, kind: str, params: Any) -> Value:
    """A product of matrices or vectors."""
    (of_a, of_b), (batch_a, batch_b) = params["dimension_numbers"]
    if batch_a or batch_b:
        raise UntranslatedError("dot_general in batches")
    one, other = writer.in_variables(a).array, writer.in_variables(b).array
    kept_a = [k for k in range(one.ndim) if k not in of_a]
    kept_b = [k for k in range(other.ndim) if k not in of_b]
    shape = (*(one.shape[k] for k in kept_a), *(other.shape[k] for k in kept_b))
    inner = int(np.prod([one.shape[k] for k in of_a], dtype=int))
    rows = one.transpose(*kept_a, *of_a).reshape(-1, inner)
    columns = other.transpose(*kept_b, *of_b).reshape(-1, inner)
    times, plus = _function(writer, "mul", kind), _function(writer, "add", kind)
    made = np.empty((len(rows), len(columns)), object)
    for i, j in np.ndindex(made.shape):
        made[i, j] = reduce(plus, map(times, rows[i], columns[j]))
    return Elements(made.reshape(shape), kind)


def _cumulated(writer: Writer, value: Value, kind: str, params: Any) -> Value:
    own = writer.in_variables(value)
    rows = np.moveaxis(own.array, params["axis"], 0).copy()
    rows = rows[::-1] if params["reverse"] else rows
    plus = _function(writer, "add", kind)
    for j in range(1, len(rows)):
        for where in np.ndindex(rows.shape[1:]):
            place, before = (j, *where), (j - 1, *where)
            rows[place] = plus(rows[before], rows[place])
    rows = rows[::-1] if params["reverse"] else rows
    return Elements(np.moveaxis(rows, 0, params["axis"]), kind)
