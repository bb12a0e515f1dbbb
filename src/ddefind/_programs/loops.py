"""Loops and choices. A loop changes variables, or memory if it reads or writes an array
at places that are known only at run time."""

import itertools
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from .jaxpr import (
    MOST_ELEMENTS,
    Block,
    Elements,
    Operation,
    Stored,
    UntranslatedError,
    Value,
    bodies,
    is_indexed,
    is_known,
    result_kind,
    shape_of,
    size_of,
    text_of,
)
from .shapes import dynamic_slice, dynamic_update_slice, reshape, stack

# A loop with at most this many rounds, and this many elements in all rounds together,
# is unrolled: then all places are known.
_MOST_ROUNDS, _MOST_WRITTEN = 16, 2500


@final
class Loops:
    """Translates loops; `run(block, inputs, frozen)` translates the blocks inside,
    which must not change what is `frozen`."""

    def __init__(self, translator: Any):
        self.writer, self.run = translator.writer, translator.run
        self.may_change = translator.may_change

    def while_(self, equation: Operation, inputs: Sequence[Value]) -> list[Value]:
        params = equation.params
        first = params["cond_nconsts"]
        second = first + params["body_nconsts"]
        (condition, _), (body, _) = bodies(equation)
        of_condition = self._constants(condition, inputs[:first])
        of_body = self._constants(body, inputs[first:second])
        names = [condition.inputs[first:], body.inputs[second - first :]]
        carried = [
            self._carried(
                equation,
                inputs,
                second + k,
                [(condition, names[0][k]), (body, names[1][k])],
            )
            for k in range(len(inputs) - second)
        ]
        constants = [*of_condition, *of_body]
        self._forget(carried)
        with self.writer.block("while (true)"):
            fixed = [*of_condition, *carried]
            (goes_on,) = self.run(condition, fixed, fixed)
            element = self.writer.in_variables(goes_on).array[()]
            self.writer.line(f"if (!{text_of(element)}) break;")
            after = self.run(body, [*of_body, *carried], constants)
            self._assign(carried, after)
        return carried

    def scan(self, equation: Operation, inputs: Sequence[Value]) -> list[Value]:
        params, length = equation.params, equation.params["length"]
        ((body, _),) = bodies(equation)
        first, second = _parts_of_scan(params)
        size = sum(size_of(shape_of(v)) for v in body.inputs)
        is_short = length <= _MOST_ROUNDS and length * size <= _MOST_WRITTEN
        if is_short and not any(
            e.primitive in ("while", "scan") for e in body.equations
        ):
            return self._unrolled(body, params, inputs)
        constants = self._constants(body, inputs[:first])
        carried = [
            self._carried(equation, inputs, k, [(body, body.inputs[k])])
            for k in range(first, second)
        ]
        rows = [self.writer.in_memory(value) for value in inputs[second:]]
        made = [
            self.writer.memory(shape_of(each), result_kind(each))
            for each in equation.outputs[len(carried) :]
        ]
        self._forget([*carried, *made])
        with self.writer.each(length) as j:
            place = f"({length - 1} - {j})" if params["reverse"] else j
            given = [*constants, *carried, *(self._row(each, place) for each in rows)]
            after = self.run(body, given, [*constants, *rows])
            for whole, part in zip(made, after[len(carried) :]):
                wide = reshape(self.writer, (1, *part.shape), part, {})
                start = [place] + [0] * len(part.shape)
                dynamic_update_slice(self.writer, whole, wide, start)
            self._assign(carried, after[: len(carried)])
        return [*carried, *made]

    def _row(self, rows: Stored, place: str) -> Value:
        """Read a row of an array in memory."""
        shape = rows.shape[1:]
        start = [place] + [0] * len(shape)
        row = dynamic_slice(self.writer, (1, *shape), rows, start)
        return reshape(self.writer, shape, row, {})

    def _unrolled(self, body: Block, params: Any, inputs: Sequence[Value]):
        """Translate a short scan, round by round."""
        (first, second), length = _parts_of_scan(params), params["length"]
        rounds = range(length)
        carried, made = list(inputs[first:second]), []
        rows = [self.writer.in_variables(each) for each in inputs[second:]]
        for j in reversed(rounds) if params["reverse"] else rounds:
            row = [Elements(np.asarray(r.array[j], object), r.kind) for r in rows]
            given = [*inputs[:first], *carried, *row]
            # Rows of earlier rounds must not change.
            after = self.run(body, given, [*inputs, *itertools.chain(*made)])
            carried, last = after[: len(carried)], after[len(carried) :]
            made.append(last)
        made = made[::-1] if params["reverse"] else made
        stacked = [
            stack(self.writer, (length, *each[0].shape), each, {"axis": 0})
            for each in map(list, zip(*made))
        ]
        return [*carried, *stacked]

    def cond(self, equation: Operation, inputs: Sequence[Value]) -> list[Value]:
        index, branches = inputs[0], bodies(equation)
        number = self.writer.in_variables(index).array[()]
        if is_known(number):
            return self.run(branches[int(number)][0], inputs[1:], inputs)
        results = [self._result(each) for each in equation.outputs]
        for k, (block, _) in enumerate(branches):
            with self.writer.block(f"if ({number} == {k})"):
                found = self.run(block, inputs[1:], inputs)
                self._assign(results, found)
        return results

    # Values that are carried from round to round.

    def _result(self, variable: Any) -> Value:
        """Make the place of a result of a choice."""
        shape, kind = shape_of(variable), result_kind(variable)
        if size_of(shape) > MOST_ELEMENTS:
            return self.writer.memory(shape, kind)
        return self._variables(Elements(np.full(shape, 0, object), kind))

    def _constants(self, block: Block, values: Sequence[Value]) -> list[Value]:
        """Return what stays the same in all rounds; in memory if indexed at run
        time."""
        return [
            self.writer.in_memory(value)
            if value.shape and is_indexed(block, name)
            else value
            for name, value in zip(block.inputs, values)
        ]

    def _carried(
        self,
        equation: Operation,
        inputs: Sequence[Value],
        number: int,
        uses: Sequence[tuple[Block, Any]],
    ) -> Value:
        """Make the place of an input that changes from round to round."""
        value = inputs[number]
        is_large = size_of(value.shape) > MOST_ELEMENTS
        if is_large or (value.shape and any(is_indexed(*use) for use in uses)):
            if isinstance(value, Stored):
                stored = [each for each in inputs if isinstance(each, Stored)]
                is_alone = sum(each.memory is value.memory for each in stored) == 1
                if is_alone and self.may_change(value.memory, equation.inputs[number]):
                    return value
            return self.writer.copy(value)
        return self._variables(self.writer.in_variables(value))

    def _forget(self, carried: Sequence[Value]) -> None:
        """Forget what was loaded from memory that each round may change."""
        for each in carried:
            if isinstance(each, Stored):
                self.writer.forget(each.memory)

    def _variables(self, value: Elements) -> Elements:
        """Make variables that may be changed, with these first values."""
        array, kind = value
        return Elements.filled(
            array.shape, kind, lambda where: self.writer.variable(kind, array[where])
        )

    def _assign(self, targets: Sequence[Value], values: Sequence[Value]) -> None:
        """Give all targets their new values at once: none is read after its change."""
        changed = {
            name
            for each in targets
            if isinstance(each, Elements)
            for name in each.array.reshape(-1)
        }
        pairs: list[tuple[str, Any]] = []
        copies: list[tuple[Stored, Value]] = []
        for target, value in zip(targets, values):
            if isinstance(target, Stored):
                copies.append((target, value))
                continue
            new = self.writer.in_variables(value).array.reshape(-1)
            for name, element in zip(target.array.reshape(-1), new):
                if element != name:
                    if element in changed:
                        element = self.writer.fresh(target.kind, element)
                    pairs.append((name, element))
        memories = [target.memory for target, _ in copies]
        for target, value in copies:
            if isinstance(value, Stored):
                if value.memory is target.memory:
                    continue
                if any(value.memory is each for each in memories):
                    raise UntranslatedError("arrays that change their places")
            self.writer.copy_into(target, value)
        for name, element in pairs:
            self.writer.line(f"{name} = {text_of(element)};")


def _parts_of_scan(params: Any) -> tuple[int, int]:
    """Return where, among the inputs of a scan, the carried ones and the rows begin."""
    if "num_consts" in params:
        constants, carried = params["num_consts"], params["num_carry"]
    else:  # JAX 0.11
        constants, carried, _ = map(len, params["ft_in"].unpack())
    return constants, constants + carried
