"""From JAX's equations of one fit to the source of a program for many.

Each thread makes one fit after the other. The memory of the fits of all threads is
interleaved, so that threads that do the same at the same time read neighbours. A loop
changes variables, or memory if it reads or writes an array at places that are known
only at run time."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from .functions import (
    ELEMENTWISE,
    MOVES,
    REDUCTIONS,
    apply,
    dynamic_slice,
    dynamic_update_slice,
    parts,
    reduced,
    reshape,
    stack,
)
from .jaxpr import (
    Block,
    Operation,
    UntranslatedError,
    bodies,
    is_indexed,
    shape_of,
    size_of,
)
from .writer import (
    MOST_ELEMENTS,
    Elements,
    Memory,
    Stored,
    Value,
    Writer,
    elements,
    is_known,
    result_kind,
    text_of,
)

# How the rows of an argument belong to the fits.
OWN, SET, SHARED = "own", "set", "shared"
# Arguments with at most this many elements are read once, at the beginning.
_READ_AT_ONCE = 40
# A loop with at most this many rounds, and this many elements in all rounds together,
# is unrolled: then all places are known.
_MOST_ROUNDS, _MOST_WRITTEN = 16, 2500

_HEAD = """
#ifdef __CUDACC_RTC__
#define INFINITE __longlong_as_double(0x7ff0000000000000LL)
#define NOT_A_NUMBER __longlong_as_double(0x7ff8000000000000LL)
#define LEADING_ZEROS(x) __clzll(x)
#define PROGRAM extern "C" __global__ void __launch_bounds__(64)
#define THREAD (blockIdx.x * (long long)blockDim.x + threadIdx.x)
#define THREADS (gridDim.x * (long long)blockDim.x)
#else
#include <math.h>
#include <stdbool.h>
#define INFINITE ((double)INFINITY)
#define NOT_A_NUMBER ((double)NAN)
#define LEADING_ZEROS(x) ((x) ? __builtin_clzll(x) : 64)
#define PROGRAM void
#define THREAD 0LL
#define THREADS 1LL
#endif
"""


@final
@dataclass(frozen=True)
class ProgramSource:
    """A program in C. `words` is the number of elements of memory that a fit needs."""

    text: str
    words: int


def translate(block: Block, owners: Sequence[str]) -> ProgramSource:
    """Translate a program. `owners` says of each input whether each fit has a row, or
    each set, or whether all fits share it.

    Its arguments are the number of fits, the number of the set of each fit, the memory,
    and then each input and output, with two numbers: the distances of its elements and
    of its rows. (On a GPU the rows are columns, so that neighbouring threads read
    neighbouring elements.)"""
    writer = Writer()
    translator = ProgramTranslator(writer)
    row = {OWN: "fit", SET: "set", SHARED: "0"}
    inputs = [f"in{number}" for number in range(len(block.inputs))]
    outputs = [f"out{number}" for number in range(len(block.outputs))]
    sources = list(map(_argument, inputs, block.inputs))
    targets = list(map(_argument, outputs, block.outputs))
    with writer.block("for (long long fit = THREAD; fit < fits; fit += THREADS)"):
        writer.line("const long long set = set_of[fit];")
        rows = [*(row[owner] for owner in owners), *["fit"] * len(outputs)]
        for name, place in zip([*inputs, *outputs], rows):
            writer.line(f"const long long {name}_row = {place} * {name}_rows;")
        given: list[Value] = [source for _, source in sources]
        for number, variable in enumerate(block.inputs):
            # A small argument is read once, into variables.
            is_indexed_array = shape_of(variable) and is_indexed(block, variable)
            if size_of(shape_of(variable)) <= _READ_AT_ONCE and not is_indexed_array:
                given[number] = writer.in_variables(given[number])
        results = translator.run(block, given, given)
        for (_, target), result in zip(targets, results):
            writer.copy_into(target, result)
    text = "\n".join(
        [
            _HEAD,
            "PROGRAM program(const long long fits,",
            "    const long long* __restrict__ set_of, double* memory,",
            "    " + ",\n    ".join(text for text, _ in [*sources, *targets]) + ") {",
            "  const long long threads = THREADS;",
            "  double* words = memory + THREAD;",
            "  long long* whole = (long long*)words;",
            *writer.lines,
            "}",
            "",
        ]
    )
    return ProgramSource(text, writer.most)


def _argument(name: str, variable: Any) -> tuple[str, Stored]:
    """Return the text of an argument, and its array in memory."""
    kind, is_input = result_kind(variable), name.startswith("in")
    passed = "unsigned char" if kind == "bool" else kind
    text = (
        f"{'const ' if is_input else ''}{passed}* __restrict__ {name},\n"
        f"    const long long {name}_step, const long long {name}_rows"
    )
    place = f"{name}[({{}}) * {name}_step + {name}_row]"
    return text, Stored(Memory(place, kind, not is_input), shape_of(variable))


@final
class ProgramTranslator:
    """Translates the equations of a program and of the blocks inside of it.

    `_frozen` is memory that the present block must not change; `_names` are the values
    of its variables; `_later` are read after the present equation."""

    def __init__(self, writer: Writer):
        self.writer = writer
        self._frozen: list[Memory] = []
        self._names: dict[Any, Value] = {}
        self._later: set[Any] = set()

    def run(
        self, block: Block, inputs: Sequence[Value], frozen: Iterable[Value]
    ) -> list[Value]:
        """Translate a block, which must not change what is `frozen`, and return the
        values of its outputs."""
        around = self._frozen, self._names, self._later
        memories = [each.memory for each in frozen if isinstance(each, Stored)]
        self._frozen = [*self._frozen, *memories]
        self._names = names = dict(zip(block.inputs, inputs))

        def value(variable: Any) -> Value:
            if variable in block.constants:
                return elements(block.constants[variable])
            return names[variable]

        last = block.last_uses()
        for number, equation in enumerate(block.equations):
            self._names = names
            self._later = {v for v in names if last.get(v, -1) > number}
            given = list(map(value, equation.inputs))
            names |= zip(equation.outputs, self._translate(equation, given))
            for each in [v for v in names if last.get(v, -1) <= number]:
                del names[each]
        results = list(map(value, block.outputs))
        self._frozen, self._names, self._later = around
        return results

    def _may_change(self, memory: Memory, variable: Any) -> bool:
        """Whether the present equation, which reads this variable, may write into its
        memory: no other reads it later."""
        if not memory.writable or any(memory is each for each in self._frozen):
            return False
        others = (self._names[name] for name in self._later)
        return variable not in self._later and not any(
            isinstance(o, Stored) and o.memory is memory for o in others
        )

    def _translate(self, equation: Operation, values: list[Value]) -> list[Value]:
        name, params, writer = equation.primitive, equation.params, self.writer
        if any(0 in shape_of(each) for each in (*equation.inputs, *equation.outputs)):
            raise UntranslatedError("arrays without elements")
        if name == "while":
            return self._while(equation, values)
        if name == "scan":
            return self._scan(equation, values)
        if name == "cond":
            return self._cond(equation, values)
        if name in ("unstack", "split"):
            return parts(writer, name, values[0], params)
        if len(equation.outputs) != 1:
            raise UntranslatedError(name)
        (output,) = equation.outputs
        shape, kind = shape_of(output), result_kind(output)
        if name in ELEMENTWISE:
            return [self._elementwise(equation, values, shape, kind)]
        if name in MOVES:
            return [MOVES[name](writer, shape, values, params)]
        if name in REDUCTIONS:
            return [reduced(writer, name, values, kind, params)]
        if name == "dynamic_slice":
            places = self._scalars(values[1:])
            return [dynamic_slice(writer, shape, values[0], places)]
        if name == "dynamic_update_slice":
            return [self._updated(equation, values)]
        raise UntranslatedError(name)

    def _scalars(self, values: Sequence[Value]) -> list[Any]:
        return [self.writer.in_variables(each).array[()] for each in values]

    def _updated(self, equation: Operation, values: list[Value]) -> Value:
        value, update, *places = values
        indices = self._scalars(places)
        if isinstance(value, Elements) and any(isinstance(i, str) for i in indices):
            value = self.writer.copy(value)
        elif isinstance(value, Stored):
            if not self._may_change(value.memory, equation.inputs[0]):
                value = self.writer.copy(value)
        return dynamic_update_slice(self.writer, value, update, indices)

    def _elementwise(
        self,
        equation: Operation,
        values: list[Value],
        shape: tuple[int, ...],
        kind: str,
    ) -> Value:
        name, params, writer = equation.primitive, equation.params, self.writer
        kinds = [each.kind for each in values]

        def one(arguments: Sequence[Any]) -> Any:
            return apply(writer, name, kind, kinds, arguments, params)

        if size_of(shape) <= MOST_ELEMENTS:
            arrays = [writer.in_variables(each).array for each in values]
            arrays = [np.broadcast_to(each, shape) for each in arrays]
            return Elements.filled(shape, kind, lambda at: one([a[at] for a in arrays]))
        is_scalar = [each.shape == () for each in values]
        values = [
            writer.in_variables(each) if alone else writer.in_memory(each)
            for each, alone in zip(values, is_scalar)
        ]

        def at(j: str) -> Any:
            arguments = [
                each.array[()]
                if isinstance(each, Elements)
                else writer.load(each.memory, j)
                for each in values
            ]
            return one(arguments)

        return writer.filled(shape, kind, at)

    # Loops and choices.

    def _while(self, equation: Operation, inputs: Sequence[Value]) -> list[Value]:
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

    def _scan(self, equation: Operation, inputs: Sequence[Value]) -> list[Value]:
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
                wide = reshape(part, (1, *part.shape))
                start = [place] + [0] * len(part.shape)
                dynamic_update_slice(self.writer, whole, wide, start)
            self._assign(carried, after[: len(carried)])
        return [*carried, *made]

    def _row(self, rows: Stored, place: str) -> Value:
        """Read a row of an array in memory."""
        shape = rows.shape[1:]
        start = [place] + [0] * len(shape)
        row = dynamic_slice(self.writer, (1, *shape), rows, start)
        return reshape(row, shape)

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

    def _cond(self, equation: Operation, inputs: Sequence[Value]) -> list[Value]:
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
                if is_alone and self._may_change(value.memory, equation.inputs[number]):
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
