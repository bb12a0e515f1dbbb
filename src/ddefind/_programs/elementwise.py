"""Functions of single elements, in C or simplified, and functions such as sums of all
elements along some axes."""

import math
import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from .jaxpr import (
    Element,
    Elements,
    Stored,
    UntranslatedError,
    Value,
    is_known,
    text_of,
)
from .writer import Writer

_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OPERATORS = {"add": "+", "add_any": "+", "sub": "-", "mul": "*", "div": "/"}
# Functions with the same name in C, and with another one.
_SAME = "exp log sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sqrt floor"
_SAME += " ceil erf erfc expm1 log1p cbrt exp2"
_FUNCTIONS = {name: name for name in _SAME.split()}
_FUNCTIONS |= {"pow": "pow", "atan2": "atan2", "lgamma": "lgamma", "rem": "fmod"}

ELEMENTWISE = {
    *_COMPARED,
    *_OPERATORS,
    *_FUNCTIONS,
    *"max min and or xor not neg abs sign is_finite integer_pow square".split(),
    *"rsqrt logistic select_n clamp convert_element_type round".split(),
    *"clz shift_left shift_right_logical".split(),
    *"copy copy_p stop_gradient reduce_precision".split(),
}
# The bits of whole numbers, and the least and the largest number in C.
_BITS = {"int": 32, "long long": 64}
_RANGES = {
    "int": ("(-2147483647 - 1)", "2147483647"),
    "long long": ("(-9223372036854775807LL - 1)", "9223372036854775807LL"),
}


def apply(
    writer: Writer,
    primitive: str,
    kind: str,
    kinds: Sequence[str],
    arguments: Sequence[Element],
    params: dict[str, Any],
) -> Element:
    """Return the result of a function for elements: its type is `kind`, and `kinds` are
    the types of the arguments.

    A product with a known zero is zero, whatever the other factor is: most derivatives
    of a step are known to be zero."""
    simple = _simple(primitive, kind, kinds, arguments, params)
    if simple is not None:
        return simple
    if primitive == "integer_pow":
        return _power(writer, kind, arguments[0], params["y"])
    if all(map(is_known, arguments)):
        known = _known(primitive, kind, arguments)
        if known is not None:
            return known
    texts = [text_of(each) for each in arguments]
    return writer.value(kind, _expression(primitive, kind, kinds, texts, params))


def _simple(primitive, kind, kinds, arguments, params) -> Element | None:
    """Return the result if it is one of the arguments, or a known number."""
    first, *others = arguments
    second = others[0] if others else None
    if primitive == "reduce_precision":
        if (params["exponent_bits"], params["mantissa_bits"]) != (11, 52):
            raise UntranslatedError("numbers of less precision")
        return first
    if primitive in ("copy", "copy_p", "stop_gradient"):
        return first
    if primitive == "convert_element_type" and kinds[0] == kind:
        return first
    if primitive in ("add", "add_any"):
        return second if _is(first, 0) else first if _is(second, 0) else None
    if primitive == "sub" and _is(second, 0):
        return first
    if primitive == "mul":
        if _is(first, 0) or _is(second, 0):
            return 0.0 if kind == "double" else 0
        return second if _is(first, 1) else first if _is(second, 1) else None
    if primitive == "div" and _is(second, 1):
        return first
    if primitive in ("and", "or") and kind == "bool":
        decisive = primitive == "or"
        for one, other in ((first, second), (second, first)):
            if is_known(one):
                return decisive if bool(one) == decisive else other
    if primitive == "select_n":
        if is_known(first):
            return others[int(first)]
        if all(type(e) is type(others[0]) and e == others[0] for e in others):
            return others[0]
    return None


def _is(element: Element, number: float) -> bool:
    """Whether an element is this known number."""
    return element is not None and is_known(element) and element == number


def _known(primitive, kind, arguments) -> Element | None:
    """Return a simple function of known numbers, None for others."""
    operations: dict[str, Callable[..., Any]] = {
        "add": operator.add,
        "add_any": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "neg": operator.neg,
        "max": np.maximum,
        "min": np.minimum,
        **{name: getattr(operator, name) for name in _COMPARED},
        "not": operator.not_,
        "clamp": lambda low, x, high: min(max(x, low), high),
    }
    if primitive == "convert_element_type":
        (value,) = arguments
        if kind in _BITS and not math.isfinite(value):
            return None
        return {"bool": bool, "double": float}.get(kind, int)(value)
    if primitive == "not" and kind != "bool":
        return None
    if primitive not in operations:
        return None
    found = operations[primitive](*arguments)
    found = found.item() if isinstance(found, np.generic) else found
    if kind not in _BITS:
        return found
    half = 1 << (_BITS[kind] - 1)
    return (int(found) + half) % (2 * half) - half


def _expression(primitive, kind, kinds, texts, params) -> str:
    """Return a function of elements in C."""
    a, *rest = texts
    b = rest[0] if rest else ""
    is_float = kinds[0] == "double"
    if primitive in _COMPARED:
        return f"({a} {_COMPARED[primitive]} {b})"
    if primitive == "div" and not is_float:
        # C has no value for some quotients.
        return f"({b} == 0 ? -1 : {b} == -1 ? -{a} : {a} / {b})"
    if primitive in _OPERATORS:
        return f"({a} {_OPERATORS[primitive]} {b})"
    if primitive == "rem" and not is_float:
        return f"({b} == 0 ? {a} : {b} == -1 ? 0 : {a} % {b})"
    if primitive in _FUNCTIONS:
        return f"{_FUNCTIONS[primitive]}({', '.join(texts)})"
    if primitive in ("max", "min"):
        sign = ">" if primitive == "max" else "<"
        # The result is NaN if one of the arguments is.
        also = f" || {a} != {a}" if is_float else ""
        return f"(({a} {sign} {b}{also}) ? {a} : {b})"
    if primitive in ("and", "or", "xor"):
        logical = {"and": "&&", "or": "||", "xor": "!="}
        bitwise = {"and": "&", "or": "|", "xor": "^"}
        sign = (logical if kind == "bool" else bitwise)[primitive]
        return f"({a} {sign} {b})"
    if primitive == "select_n":
        if kinds[0] == "bool":
            return f"({a} ? {rest[1]} : {rest[0]})"
        chosen = rest[-1]
        for number in range(len(rest) - 2, -1, -1):
            chosen = f"({a} == {number} ? {rest[number]} : {chosen})"
        return chosen
    if primitive == "clamp":
        low, x, high = texts
        inside = f"{high} < {low} || {x} > {high} ? {high} : {x} < {low} ? {low} : {x}"
        return f"({x} != {x} ? {x} : {inside})"
    if primitive == "convert_element_type":
        return _converted(a, is_float, kind)
    bits = _BITS.get(kinds[0], 64)
    others = {
        "not": f"(!{a})" if kind == "bool" else f"(~{a})",
        "neg": f"(-{a})",
        "square": f"({a} * {a})",
        "abs": f"fabs({a})" if is_float else f"({a} < 0 ? -{a} : {a})",
        "sign": f"({a} > 0 ? 1 : ({a} < 0 ? -1 : {a}))",
        "is_finite": f"(fabs({a}) < INFINITE)",
        "rsqrt": f"(1 / sqrt({a}))",
        "logistic": f"(1 / (1 + exp(-{a})))",
        "round": f"{'rint' if int(params.get('rounding_method', 1)) else 'round'}({a})",
        "clz": f"(LEADING_ZEROS((unsigned {kinds[0]}){a}) - {64 - bits})",
        "shift_left": f"({b} >= {bits} || {b} < 0 ? 0 : {a} << {b})",
        "shift_right_logical": f"({b} >= {bits} || {b} < 0 ? 0 : "
        f"({kind})((unsigned {kind}){a} >> {b}))",
    }
    if primitive not in others:
        raise UntranslatedError(primitive)
    return others[primitive]


def _converted(a: str, is_float: bool, kind: str) -> str:
    """Convert a number to another type. Too large ones become the largest of it."""
    if kind == "bool":
        return f"({a} != 0)"
    if kind == "double" or not is_float:
        return f"(({kind}){a})"
    low, high = _RANGES[kind]
    inside = f"({a} >= -(double){low} ? {high} : ({kind}){a})"
    return f"({a} != {a} ? 0 : {a} <= (double){low} ? {low} : {inside})"


def _power(writer: Writer, kind: str, x: Element, exponent: int) -> Element:
    """Compute x to a whole power, by squares."""

    def times(one: Element, other: Element) -> Element:
        return apply(writer, "mul", kind, (kind, kind), (one, other), {})

    if exponent < 0:
        below = _power(writer, kind, x, -exponent)
        return writer.value(kind, f"(1 / {text_of(below)})")
    result, square = (1.0 if kind == "double" else 1), x
    while exponent:
        if exponent % 2:
            result = times(result, square)
        exponent //= 2
        if exponent:
            square = times(square, square)
    return result


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
    """Compute one of the `REDUCTIONS`."""
    if primitive == "dot_general":
        return _product(writer, values[0], values[1], kind, params)
    if primitive == "cumsum":
        return _cumulated(writer, values[0], kind, params)
    axes, (value,) = params["axes"], values
    if primitive in ("argmax", "argmin"):
        sign, of = ">" if primitive == "argmax" else "<", value.kind
        return _along(
            writer, value, axes, kind, lambda row: _place(writer, row, of, sign)
        )
    operation = _OPERATIONS[primitive]
    if isinstance(value, Stored) and len(axes) == len(value.shape):
        return _of_memory(writer, value, operation, kind)
    function = _function(writer, operation, kind)
    return _along(writer, value, axes, kind, lambda row: reduce(function, row))


def _function(writer: Writer, operation: str, kind: str) -> Callable:
    """Return a function of two elements of one type."""

    def function(one: Element, other: Element) -> Element:
        return apply(writer, operation, kind, (kind, kind), (one, other), {})

    return function


def _along(writer: Writer, value: Value, axes, kind: str, function: Callable) -> Value:
    """Compute a function of all elements along some axes."""
    array = writer.in_variables(value).array
    kept = [k for k in range(array.ndim) if k not in axes]
    shape = tuple(array.shape[k] for k in kept)
    rows = array.transpose(*kept, *axes).reshape(*shape, -1)
    return Elements.filled(shape, kind, lambda where: function(list(rows[where])))


def _of_memory(writer: Writer, value: Stored, operation: str, kind: str) -> Value:
    """Reduce a whole array in memory to one element."""
    start = _BEGIN.get(operation)
    if start is None:
        start = writer.load(value.memory, 0)
    total = writer.variable(kind, start)
    with writer.each(value.size) as j:
        found = _function(writer, operation, kind)(total, value.memory.at(j))
        writer.line(f"{total} = {text_of(found)};")
    return Elements.filled((), kind, lambda _: writer.fresh(kind, total))


def _place(writer: Writer, row: list[Element], kind: str, sign: str) -> Element:
    """Compute the number of the first of the largest (or smallest) elements."""
    best, place = text_of(row[0]), "0LL"
    for number, each in enumerate(map(text_of, row[1:]), 1):
        # The first NaN counts as the largest, and as the smallest.
        is_better = f"({each} {sign} {best} || ({each} != {each} && {best} == {best}))"
        is_better = writer.value("bool", is_better)
        place = writer.value("long long", f"({is_better} ? {number}LL : {place})")
        best = writer.value(kind, f"({is_better} ? {each} : {best})")
    return place


def _product(writer: Writer, a: Value, b: Value, kind: str, params: Any) -> Value:
    """Compute a product of matrices or vectors."""
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
    made = Elements.filled(
        (len(rows), len(columns)),
        kind,
        lambda ij: reduce(plus, map(times, rows[ij[0]], columns[ij[1]])),
    )
    return Elements(made.array.reshape(shape), kind)


def _cumulated(writer: Writer, value: Value, kind: str, params: Any) -> Value:
    """Compute sums of all elements up to each."""
    rows = np.moveaxis(writer.in_variables(value).array, params["axis"], 0).copy()
    rows = rows[::-1] if params["reverse"] else rows
    plus = _function(writer, "add", kind)
    for j in range(1, len(rows)):
        for where in np.ndindex(rows.shape[1:]):
            place, before = (j, *where), (j - 1, *where)
            rows[place] = plus(rows[before], rows[place])
    rows = rows[::-1] if params["reverse"] else rows
    return Elements(np.moveaxis(rows, 0, params["axis"]), kind)
