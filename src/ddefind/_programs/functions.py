"""Functions of arrays: of single elements, in C or simplified; of all elements along
some axes, such as sums; and those that move elements to places in another array.

Elements in variables are moved by the translator, without any code. Elements in memory
are copied by a loop, with `_number` as the number of the element that moves to a place.
"""

import math
import operator
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np

from .jaxpr import UntranslatedError, size_of
from .writer import (
    MOST_ELEMENTS,
    Element,
    Elements,
    Stored,
    Value,
    Writer,
    is_known,
    kind_of,
    text_of,
)

Shape = tuple[int, ...]
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OPERATORS = {"add": "+", "add_any": "+", "sub": "-", "mul": "*", "div": "/"}
# Functions with the same name in C.
_FUNCTIONS = """exp log sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh
atanh sqrt cbrt pow exp2 expm1 log1p floor ceil erf erfc lgamma""".split()
# Other functions of the elements {0}, {1} and {2}, which are of the type {kind}.
_FORMULAS = {
    **{n: f"({{0}} {sign} {{1}})" for n, sign in (_COMPARED | _OPERATORS).items()},
    "abs": "fabs({0})",
    "clamp": "({1} != {1} ? {1} : "
    "{2} < {0} || {1} > {2} ? {2} : {1} < {0} ? {0} : {1})",
    "is_finite": "(fabs({0}) < INFINITE)",
    "logistic": "(1 / (1 + exp(-{0})))",
    # The result is NaN if one of the arguments is.
    "max": "(({0} > {1} || {0} != {0}) ? {0} : {1})",
    "min": "(({0} < {1} || {0} != {0}) ? {0} : {1})",
    "neg": "(-{0})",
    "rem": "fmod({0}, {1})",
    "rsqrt": "(1 / sqrt({0}))",
    "sign": "({0} > 0 ? 1 : ({0} < 0 ? -1 : {0}))",
    "square": "({0} * {0})",
}
# Of whole numbers and bools.
_OF_WHOLE = {
    "abs": "({0} < 0 ? -{0} : {0})",
    "and": "({0} & {1})",
    "clz": "(LEADING_ZEROS((unsigned {kind}){0}) - {unused})",
    # C has no value for some quotients.
    "div": "({1} == 0 ? -1 : {1} == -1 ? -{0} : {0} / {1})",
    "max": "(({0} > {1}) ? {0} : {1})",
    "min": "(({0} < {1}) ? {0} : {1})",
    "not": "(~{0})",
    "or": "({0} | {1})",
    "rem": "({1} == 0 ? {0} : {1} == -1 ? 0 : {0} % {1})",
    "shift_left": "({1} >= {bits} || {1} < 0 ? 0 : {0} << {1})",
    "shift_right_logical": "({1} >= {bits} || {1} < 0 ? 0 : "
    "({kind})((unsigned {kind}){0} >> {1}))",
    "xor": "({0} ^ {1})",
}
_OF_BOOLS = {
    "and": "({0} && {1})",
    "not": "(!{0})",
    "or": "({0} || {1})",
    "xor": "({0} != {1})",
}
_UNCHANGED = ("copy", "copy_p", "stop_gradient")
ELEMENTWISE = {*_FUNCTIONS, *_FORMULAS, *_OF_WHOLE, *_UNCHANGED, "reduce_precision"}
ELEMENTWISE |= {"convert_element_type", "integer_pow", "round", "select_n"}
# Functions that are computed at once if all arguments are known.
_KNOWN: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in _COMPARED},
    "add": operator.add,
    "add_any": operator.add,
    "clamp": lambda low, x, high: min(max(x, low), high),
    "max": np.maximum,
    "min": np.minimum,
    "mul": operator.mul,
    "neg": operator.neg,
    "sub": operator.sub,
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
    if primitive in _UNCHANGED:
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
    if primitive == "convert_element_type":
        (value,) = arguments
        if kind in _BITS and not math.isfinite(value):
            return None
        return {"bool": bool, "double": float}.get(kind, int)(value)
    if primitive == "not" and kind == "bool":
        return not arguments[0]
    if primitive not in _KNOWN:
        return None
    found = _KNOWN[primitive](*arguments)
    found = found.item() if isinstance(found, np.generic) else found
    if kind not in _BITS:
        return found
    half = 1 << (_BITS[kind] - 1)
    return (int(found) + half) % (2 * half) - half


def _expression(primitive, kind, kinds, texts, params) -> str:
    """Return a function of elements in C."""
    is_float, (first, *others) = kinds[0] == "double", texts
    if primitive in _FUNCTIONS:
        return f"{primitive}({', '.join(texts)})"
    if primitive == "select_n":
        if kinds[0] == "bool":
            return f"({first} ? {others[1]} : {others[0]})"
        chosen = others[-1]
        for number in range(len(others) - 2, -1, -1):
            chosen = f"({first} == {number} ? {others[number]} : {chosen})"
        return chosen
    if primitive == "convert_element_type":
        return _converted(first, is_float, kind)
    if primitive == "round":
        is_to_even = int(params.get("rounding_method", 1))
        return f"{'rint' if is_to_even else 'round'}({first})"
    formulas = _FORMULAS | ({} if is_float else _OF_WHOLE)
    formulas |= _OF_BOOLS if kind == "bool" else {}
    if primitive not in formulas:
        raise UntranslatedError(primitive)
    bits = _BITS.get(kinds[0], 64)
    return formulas[primitive].format(
        *texts, kind=kinds[0], bits=bits, unused=64 - bits
    )


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

    def combined(operation: str) -> Callable[[Element, Element], Element]:
        return lambda *both: apply(writer, operation, kind, (kind, kind), both, {})

    if primitive == "dot_general":
        one, other = (writer.in_variables(each).array for each in values)
        return _product(one, other, combined("mul"), combined("add"), kind, params)
    (value,) = values
    if primitive == "cumsum":
        back = slice(None, None, -1 if params["reverse"] else 1)
        rows = np.moveaxis(writer.in_variables(value).array, params["axis"], 0)[back]
        sums = accumulate(rows, np.frompyfunc(combined("add"), 2, 1))
        array = np.array(list(sums), object)[back]
        return Elements(np.moveaxis(array, 0, params["axis"]), kind)
    operation, axes = _OPERATIONS.get(primitive, ""), params["axes"]
    if operation and isinstance(value, Stored) and len(axes) == len(value.shape):
        start = _BEGIN.get(operation)
        start = writer.load(value.memory, 0) if start is None else start
        total = writer.variable(kind, start)
        with writer.each(value.size) as j:
            found = combined(operation)(total, value.memory.at(j))
            writer.line(f"{total} = {text_of(found)};")
        return Elements.of([writer.fresh(kind, total)], (), kind)
    array = writer.in_variables(value).array
    kept = [k for k in range(array.ndim) if k not in axes]
    shape = tuple(array.shape[k] for k in kept)
    rows = array.transpose(*kept, *axes).reshape(size_of(shape), -1)
    if operation:
        found = [reduce(combined(operation), row) for row in rows]
    else:
        sign = ">" if primitive == "argmax" else "<"
        found = [_place(writer, row, value.kind, sign) for row in rows]
    return Elements.of(found, shape, kind)


def _place(writer: Writer, row: np.ndarray, kind: str, sign: str) -> Element:
    """Compute the number of the first of the largest (or smallest) elements."""
    best, place = text_of(row[0]), "0LL"
    for number, each in enumerate(map(text_of, row[1:]), 1):
        # The first NaN counts as the largest, and as the smallest.
        is_better = f"({each} {sign} {best} || ({each} != {each} && {best} == {best}))"
        is_better = writer.value("bool", is_better)
        place = writer.value("long long", f"({is_better} ? {number}LL : {place})")
        best = writer.value(kind, f"({is_better} ? {each} : {best})")
    return place


def _product(
    one: np.ndarray,
    other: np.ndarray,
    times: Callable,
    plus: Callable,
    kind: str,
    params: Any,
) -> Value:
    """Compute a product of matrices or vectors."""
    (of_one, of_other), batches = params["dimension_numbers"]
    if any(batches):
        raise UntranslatedError("dot_general in batches")
    kept = [k for k in range(one.ndim) if k not in of_one]
    kept_other = [k for k in range(other.ndim) if k not in of_other]
    shape = (*(one.shape[k] for k in kept), *(other.shape[k] for k in kept_other))
    inner = size_of(tuple(one.shape[k] for k in of_one))
    rows = one.transpose(*kept, *of_one).reshape(-1, inner)
    columns = other.transpose(*kept_other, *of_other).reshape(-1, inner)
    found = [reduce(plus, map(times, row, each)) for row in rows for each in columns]
    return Elements.of(found, shape, kind)


# Moves.


def _broadcast_in_dim(writer: Writer, shape: Shape, values, params) -> Value:
    (value,), steps = values, [0] * len(shape)
    if size_of(value.shape) == 1 and size_of(shape) > MOST_ELEMENTS:
        (element,) = writer.in_variables(value).array.reshape(-1)
        return writer.filled(shape, value.kind, lambda _: element)
    sizes, strides = value.shape, _strides(value.shape)
    for place, size, stride in zip(params["broadcast_dimensions"], sizes, strides):
        steps[place] = stride if size > 1 else 0
    return _moved(writer, value, shape, steps)


def _reshape(writer: Writer, shape: Shape, values, params) -> Value:
    if "new_sizes" in params and params.get("dimensions") is not None:
        raise UntranslatedError("reshape in another order")
    return reshape(values[0], shape)


def reshape(value: Value, shape: Shape) -> Value:
    """Return an array with another shape."""
    if isinstance(value, Stored):
        return Stored(value.memory, shape)
    return Elements(value.array.reshape(shape), value.kind)


def _transpose(writer: Writer, shape: Shape, values, params) -> Value:
    strides = _strides(values[0].shape)
    steps = [strides[k] for k in params["permutation"]]
    return _moved(writer, values[0], shape, steps)


def _rev(writer: Writer, shape: Shape, values, params) -> Value:
    array, kind = writer.in_variables(values[0])
    return Elements(np.flip(array, params["dimensions"]), kind)


def _slice(writer: Writer, shape: Shape, values, params) -> Value:
    strides = _strides(values[0].shape)
    first = sum(a * b for a, b in zip(params["start_indices"], strides))
    steps = params["strides"] or [1] * len(shape)
    moves = [step * stride for step, stride in zip(steps, strides)]
    return _moved(writer, values[0], shape, moves, first)


def dynamic_slice(
    writer: Writer, shape: Shape, value: Value, indices: Sequence[Element]
) -> Value:
    first = _first(writer, indices, value.shape, shape)
    return _moved(writer, value, shape, _strides(value.shape), first)


def dynamic_update_slice(
    writer: Writer, value: Value, update: Value, indices: Sequence[Element]
) -> Value:
    """Change a part of an array: one in memory where it is."""
    first = _first(writer, indices, value.shape, update.shape)
    strides = _strides(value.shape)
    if isinstance(value, Elements):
        if not is_known(first):
            raise UntranslatedError("an update of variables at an unknown place")
        array, places = value.array.copy(), first + _offsets(update.shape, strides)
        new = writer.in_variables(update).array
        array.reshape(-1)[np.ravel(places)] = np.ravel(new)
        return Elements(array, value.kind)
    if isinstance(update, Elements):
        offsets = _offsets(update.shape, strides)
        for offset, element in zip(offsets.flat, update.array.flat):
            writer.store(value.memory, _plus(first, offset), element)
        return value
    with writer.each(update.size) as j:
        index = _plus(first, _number(j, update.shape, strides))
        writer.store(value.memory, index, update.memory.at(j))
    return value


def _concatenate(writer: Writer, shape: Shape, values, params) -> Value:
    axis = params["dimension"]
    if size_of(shape) <= MOST_ELEMENTS:
        arrays = [writer.in_variables(each).array for each in values]
        return Elements(np.concatenate(arrays, axis), values[0].kind)
    made, first = writer.memory(shape, values[0].kind), 0
    for each in values:
        start = [first if k == axis else 0 for k in range(len(shape))]
        dynamic_update_slice(writer, made, each, start)
        first += each.shape[axis]
    return made


def stack(writer: Writer, shape: Shape, values, params) -> Value:
    axis = params["axis"]
    part = (*shape[:axis], 1, *shape[axis + 1 :])
    wide = [reshape(each, part) for each in values]
    return _concatenate(writer, shape, wide, {"dimension": axis})


def _pad(writer: Writer, shape: Shape, values, params) -> Value:
    widths = params["padding_config"]
    (before, kind), filling = map(writer.in_variables, values)
    if size_of(shape) > MOST_ELEMENTS or any(inside for *_, inside in widths):
        raise UntranslatedError(f"padding to the shape {shape}")

    def inner(shape: Shape, sign: int) -> tuple[slice, ...]:
        """Return the part that both arrays have, in one of them."""
        return tuple(
            slice(max(sign * low, 0), n - max(sign * high, 0))
            for n, (low, high, _) in zip(shape, widths)
        )

    array = np.full(shape, filling.array[()], object)
    array[inner(shape, 1)] = before[inner(before.shape, -1)]
    return Elements(array, kind)


def _iota(writer: Writer, shape: Shape, values, params) -> Value:
    axis, kind = params["dimension"], kind_of(params["dtype"])
    if size_of(shape) > MOST_ELEMENTS:
        stride = _strides(shape)[axis]
        return writer.filled(
            shape, kind, lambda j: f"(({kind})(({j} / {stride}) % {shape[axis]}))"
        )
    number = float if kind == "double" else int
    return Elements.filled(shape, kind, lambda where: number(where[axis]))


def parts(writer: Writer, name: str, value: Value, params) -> list[Value]:
    """Cut an array along an axis: `unstack` and `split`."""
    (array, kind), axis = writer.in_variables(value), params["axis"]
    if name == "split":
        ends = np.cumsum(params["sizes"])[:-1]
        return [Elements(part, kind) for part in np.split(array, ends, axis)]
    rows = np.moveaxis(array, axis, 0)
    return [Elements(np.asarray(row, object), kind) for row in rows]


# Numbers of elements.


def _strides(shape: Shape) -> list[int]:
    """Return the distances of neighbours along each axis."""
    return [size_of(shape[k + 1 :]) for k in range(len(shape))]


def _offsets(shape: Shape, steps: Sequence[int]) -> np.ndarray:
    """Return the number of each element, counted from the first one, in an array with
    these `steps` along each axis."""
    along = [step * number for step, number in zip(steps, np.indices(shape))]
    return sum(along, np.zeros(shape, int))


def _number(j: str, shape: Shape, steps: Sequence[int]) -> str:
    """Return the number of the element that moves to place `j` of an array of this
    shape, with these `steps` along each axis."""
    terms = []
    for size, stride, step in zip(shape, _strides(shape), steps):
        if step and size > 1:
            terms.append(f"(({j} / {stride}) % {size}) * {step}LL")
    return " + ".join(terms) or "0"


def _plus(first: Element, offset: Any) -> Element:
    """Return the number of an element, `offset` after the first."""
    if is_known(first) and is_known(offset):
        return first + offset
    if is_known(offset) and offset == 0:
        return first
    return f"{first} + {offset}"


def _moved(
    writer: Writer, value: Value, shape: Shape, steps: Sequence[int], first: Any = 0
) -> Value:
    """Make an array with the elements of another from `first` on, with these `steps`
    along each axis: in variables if it is small."""
    if isinstance(value, Elements) and is_known(first):
        if size_of(shape) <= MOST_ELEMENTS:
            places = first + _offsets(shape, steps)
            array = value.array.reshape(-1)[places]
            return Elements(np.asarray(array, object), value.kind)
    memory = writer.in_memory(value).memory
    if size_of(shape) <= MOST_ELEMENTS:
        offsets = _offsets(shape, steps).flat
        loaded = [writer.load(memory, _plus(first, offset)) for offset in offsets]
        return Elements.of(loaded, shape, value.kind)
    return writer.filled(
        shape, value.kind, lambda j: memory.at(_plus(first, _number(j, shape, steps)))
    )


def _first(
    writer: Writer, indices: Sequence[Element], whole: Shape, part: Shape
) -> Element:
    """Compute the number of the element at which a part begins: moved into the whole,
    as JAX does."""
    kinds = ("long long",) * 3
    known, terms = 0, []
    for index, n, m, stride in zip(indices, whole, part, _strides(whole)):
        if n > m:
            place = apply(writer, "clamp", kinds[0], kinds, (0, index, n - m), {})
            if is_known(place):
                known += place * stride
            else:
                terms.append(f"{text_of(place)} * {stride}LL")
    if not terms:
        return known
    return writer.value("long long", " + ".join([*terms, f"{known}LL"]))


MOVES: dict[str, Callable[[Writer, Shape, Sequence[Value], Any], Value]] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": _concatenate,
    "expand_dims": _reshape,
    "iota": _iota,
    "pad": _pad,
    "reshape": _reshape,
    "rev": _rev,
    "slice": _slice,
    "squeeze": _reshape,
    "stack": stack,
    "transpose": _transpose,
}
