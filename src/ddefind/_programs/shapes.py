"""Functions that move elements to places in another array.

Elements in variables are moved by the translator, without any code. Elements in memory
are copied by a loop, with `_number` as the number of the element that moves to a place.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .elementwise import apply
from .jaxpr import (
    MOST_ELEMENTS,
    Element,
    Elements,
    Stored,
    UntranslatedError,
    Value,
    is_known,
    size_of,
    text_of,
)
from .writer import Writer

Shape = tuple[int, ...]


def broadcast_in_dim(writer: Writer, shape: Shape, value: Value, params) -> Value:
    where = params["broadcast_dimensions"]
    lead = [1] * len(shape)
    for place, size in zip(where, value.shape):
        lead[place] = size
    if size_of(shape) <= MOST_ELEMENTS:
        array, kind = writer.in_variables(value)
        return Elements(np.broadcast_to(array.reshape(lead), shape), kind)
    if size_of(value.shape) == 1:
        (element,) = writer.in_variables(value).array.reshape(-1)
        return writer.filled(shape, value.kind, lambda _: element)
    value, strides = writer.in_memory(value), _strides(value.shape)
    steps = [0] * len(shape)
    for place, size, stride in zip(where, value.shape, strides):
        steps[place] = stride if size > 1 else 0
    return _moved(writer, value, shape, steps)


def reshape(writer: Writer, shape: Shape, value: Value, params) -> Value:
    if "new_sizes" in params and params.get("dimensions") is not None:
        raise UntranslatedError("reshape in another order")
    if isinstance(value, Stored):
        return Stored(value.memory, shape)
    return Elements(value.array.reshape(shape), value.kind)


def transpose(writer: Writer, shape: Shape, value: Value, params) -> Value:
    order = params["permutation"]
    if size_of(shape) <= MOST_ELEMENTS:
        array, kind = writer.in_variables(value)
        return Elements(array.transpose(order), kind)
    value, strides = writer.in_memory(value), _strides(value.shape)
    return _moved(writer, value, shape, [strides[k] for k in order])


def rev(writer: Writer, shape: Shape, value: Value, params) -> Value:
    array, kind = writer.in_variables(value)
    return Elements(np.flip(array, params["dimensions"]), kind)


def slice_(writer: Writer, shape: Shape, value: Value, params) -> Value:
    steps = params["strides"] or [1] * len(shape)
    starts, ends = params["start_indices"], params["limit_indices"]
    if isinstance(value, Elements):
        chosen = tuple(slice(*each) for each in zip(starts, ends, steps))
        return Elements(value.array[chosen], value.kind)
    strides = _strides(value.shape)
    first = sum(start * stride for start, stride in zip(starts, strides))
    moves = [step * stride for step, stride in zip(steps, strides)]
    return _moved(writer, value, shape, moves, first)


def dynamic_slice(
    writer: Writer, shape: Shape, value: Value, indices: Sequence[Element]
) -> Value:
    places = _clamped(writer, indices, value.shape, shape)
    if isinstance(value, Elements) and all(map(is_known, places)):
        chosen = tuple(slice(at, at + n) for at, n in zip(places, shape))
        return Elements(value.array[chosen], value.kind)
    stored = writer.in_memory(value)
    strides = _strides(stored.shape)
    first = _sum_of(writer, places, strides)
    return _moved(writer, stored, shape, strides, first)


def dynamic_update_slice(
    writer: Writer, value: Value, update: Value, indices: Sequence[Element]
) -> Value:
    """Change a part of an array: one in memory where it is."""
    places = _clamped(writer, indices, value.shape, update.shape)
    if isinstance(value, Elements):
        if not all(map(is_known, places)):
            raise UntranslatedError("an update of variables at an unknown place")
        array = value.array.copy()
        chosen = tuple(slice(at, at + n) for at, n in zip(places, update.shape))
        array[chosen] = writer.in_variables(update).array
        return Elements(array, value.kind)
    strides = _strides(value.shape)
    first = _sum_of(writer, places, strides)
    if isinstance(update, Elements):
        for where in np.ndindex(update.shape):
            offset = sum(a * b for a, b in zip(where, strides))
            index = _plus(first, offset)
            writer.store(value.memory, index, update.array[where])
        return value
    with writer.each(update.size) as j:
        index = _plus(first, _number(j, update.shape, strides))
        writer.store(value.memory, index, update.memory.at(j))
    return value


def concatenate(writer: Writer, shape: Shape, values: Sequence[Value], params) -> Value:
    axis = params["dimension"]
    if size_of(shape) <= MOST_ELEMENTS:
        arrays = [writer.in_variables(each).array for each in values]
        return Elements(np.concatenate(arrays, axis), values[0].kind)
    made, first = writer.memory(shape, values[0].kind), 0
    for each in values:
        start = [0] * len(shape)
        start[axis] = first
        dynamic_update_slice(writer, made, each, start)
        first += each.shape[axis]
    return made


def stack(writer: Writer, shape: Shape, values: Sequence[Value], params) -> Value:
    axis = params["axis"]
    wide = [
        reshape(writer, (*each.shape[:axis], 1, *each.shape[axis:]), each, {})
        for each in values
    ]
    return concatenate(writer, shape, wide, {"dimension": axis})


def parts(writer: Writer, name: str, value: Value, params) -> list[Value]:
    """Cut an array along an axis: `unstack` and `split`."""
    (array, kind), axis = writer.in_variables(value), params["axis"]
    if name == "split":
        ends = np.cumsum(params["sizes"])[:-1]
        return [Elements(part, kind) for part in np.split(array, ends, axis)]
    rows = np.moveaxis(array, axis, 0)
    return [Elements(np.asarray(row, object), kind) for row in rows]


def pad(writer: Writer, shape: Shape, value: Value, filling: Value, params) -> Value:
    widths = params["padding_config"]
    (before, kind), (element,) = (
        writer.in_variables(value),
        writer.in_variables(filling).array.reshape(-1),
    )
    if size_of(shape) > MOST_ELEMENTS or any(inside for *_, inside in widths):
        raise UntranslatedError(f"padding to the shape {shape}")

    def inner(shape: Shape, sign: int) -> tuple[slice, ...]:
        """Return the part that both arrays have, in one of them."""
        return tuple(
            slice(max(sign * low, 0), n - max(sign * high, 0))
            for n, (low, high, _) in zip(shape, widths)
        )

    array = np.full(shape, element, object)
    array[inner(shape, 1)] = before[inner(before.shape, -1)]
    return Elements(array, kind)


def iota(writer: Writer, shape: Shape, kind: str, params) -> Value:
    axis = params["dimension"]
    if size_of(shape) > MOST_ELEMENTS:
        stride = _strides(shape)[axis]
        return writer.filled(
            shape, kind, lambda j: f"(({kind})(({j} / {stride}) % {shape[axis]}))"
        )
    number = float if kind == "double" else int
    return Elements.filled(shape, kind, lambda where: number(where[axis]))


# Numbers of elements.


def _strides(shape: Shape) -> list[int]:
    """Return the distances of neighbours along each axis."""
    return [size_of(shape[k + 1 :]) for k in range(len(shape))]


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
    writer: Writer, value: Stored, shape: Shape, steps: Sequence[int], first: Any = 0
) -> Value:
    """Make an array with elements from memory: in variables if it is small."""
    kind, memory = value.kind, value.memory

    def load(where: Shape) -> Element:
        offset = sum(a * b for a, b in zip(where, steps))
        return writer.load(memory, _plus(first, offset))

    if size_of(shape) <= MOST_ELEMENTS:
        return Elements.filled(shape, kind, load)
    return writer.filled(
        shape, kind, lambda j: memory.at(_plus(first, _number(j, shape, steps)))
    )


def _clamped(
    writer: Writer, indices: Sequence[Element], whole: Shape, part: Shape
) -> list[Element]:
    """Compute where a part begins: moved into the whole, as JAX does."""
    kinds = ("long long",) * 3
    return [
        apply(writer, "clamp", "long long", kinds, (0, index, n - m), {})
        if n > m
        else 0
        for index, n, m in zip(indices, whole, part)
    ]


def _sum_of(writer: Writer, places: Sequence[Element], strides: Sequence[int]):
    """Compute the number of the element at some places."""
    known = sum(p * s for p, s in zip(places, strides) if is_known(p))
    terms = [
        f"{text_of(p)} * {s}LL" for p, s in zip(places, strides) if not is_known(p)
    ]
    if not terms:
        return known
    return writer.value("long long", " + ".join([*terms, f"{known}LL"]))


MOVES: dict[str, Callable[..., Value]] = {
    "broadcast_in_dim": broadcast_in_dim,
    "reshape": reshape,
    "squeeze": reshape,
    "expand_dims": reshape,
    "transpose": transpose,
    "rev": rev,
    "slice": slice_,
}
