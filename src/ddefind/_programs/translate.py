"""From JAX's equations of one fit to the source of a program for many.

Each thread makes one fit after the other. The memory of the fits of all threads is
interleaved, so that threads that do the same at the same time read neighbours."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jax.extend.core import Literal

from .elementwise import ELEMENTWISE, REDUCTIONS, apply, reduced
from .jaxpr import (
    LOOPS,
    MOST_ELEMENTS,
    Block,
    Elements,
    Memory,
    Operation,
    Stored,
    UntranslatedError,
    Value,
    elements,
    is_indexed,
    kind_of,
    result_kind,
    shape_of,
    size_of,
)
from .loops import Loops
from .shapes import (
    MOVES,
    concatenate,
    dynamic_slice,
    dynamic_update_slice,
    iota,
    pad,
    parts,
    stack,
)
from .writer import Writer

# How the rows of an argument belong to the fits.
OWN, SET, SHARED = "own", "set", "shared"
# Arguments with at most this many elements are read once, at the beginning.
_READ_AT_ONCE = 40

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
    arguments, inputs = [], []
    row = {OWN: "fit", SET: "set", SHARED: "0"}
    for number, variable in enumerate(block.inputs):
        memory = _argument(arguments, "const ", f"in{number}", variable)
        inputs.append((variable, Stored(memory, shape_of(variable))))
    targets = [
        _argument(arguments, "", f"out{number}", variable)
        for number, variable in enumerate(block.outputs)
    ]
    with writer.block("for (long long fit = THREAD; fit < fits; fit += THREADS)"):
        writer.line("const long long set = set_of[fit];")
        for number, owner in enumerate(owners):
            place = f"{row[owner]} * in{number}_rows"
            writer.line(f"const long long in{number}_row = {place};")
        for number in range(len(targets)):
            place = f"fit * out{number}_rows"
            writer.line(f"const long long out{number}_row = {place};")
        given = [translator.read_small(block, *each) for each in inputs]
        results = translator.run(block, given, given)
        for memory, result in zip(targets, results):
            writer.copy_into(Stored(memory, result.shape), result)
    text = "\n".join(
        [
            _HEAD,
            "PROGRAM program(const long long fits,",
            "    const long long* __restrict__ set_of, double* memory,",
            "    " + ",\n    ".join(arguments) + ") {",
            "  const long long threads = THREADS;",
            "  double* words = memory + THREAD;",
            "  long long* whole = (long long*)words;",
            *writer.lines,
            "}",
            "",
        ]
    )
    return ProgramSource(text, writer.most)


def _argument(arguments: list[str], const: str, name: str, variable: Any) -> Memory:
    """Add an array to the arguments."""
    kind = result_kind(variable)
    passed = "unsigned char" if kind == "bool" else kind
    arguments.append(f"{const}{passed}* __restrict__ {name}")
    arguments.append(f"const long long {name}_step, const long long {name}_rows")
    return Memory(f"{name}[({{}}) * {name}_step + {name}_row]", kind, not const)


@final
class ProgramTranslator:
    """Translates the equations of a program and of the blocks inside of it.

    `_frozen` is memory that the present block must not change; `_names` are the values
    of its variables; `_later` are read after the present equation."""

    def __init__(self, writer: Writer):
        self.writer = writer
        self.loops = Loops(self)
        self._frozen: list[Memory] = []
        self._names: dict[Any, Value] = {}
        self._later: set[Any] = set()

    def read_small(self, block: Block, variable: Any, value: Stored) -> Value:
        """Read a small argument into variables, so that it is read once."""
        is_indexed_array = value.shape and is_indexed(block, variable)
        if value.size > _READ_AT_ONCE or is_indexed_array:
            return value
        return self.writer.in_variables(value)

    def run(
        self, block: Block, inputs: Sequence[Value], frozen: Iterable[Value]
    ) -> list[Value]:
        """Translate a block, and return the values of its outputs."""
        around = self._frozen, self._names, self._later
        memories = [each.memory for each in frozen if isinstance(each, Stored)]
        self._frozen = [*self._frozen, *memories]
        names = dict(zip(block.inputs, inputs))
        for variable, constant in block.constants.items():
            array = np.asarray(constant)
            if array.size > MOST_ELEMENTS:
                raise UntranslatedError(f"a constant array of shape {array.shape}")
            names[variable] = elements(array, kind_of(array.dtype))
        last = block.last_uses()
        for number, equation in enumerate(block.equations):
            self._names = names
            self._later = {v for v in names if last.get(v, -1) > number}
            given = [self._value(names, each) for each in equation.inputs]
            names |= zip(equation.outputs, self._translate(equation, given))
            for each in [v for v in names if last.get(v, -1) <= number]:
                del names[each]
        results = [self._value(names, each) for each in block.outputs]
        self._frozen, self._names, self._later = around
        return results

    @staticmethod
    def _value(names: dict[Any, Value], variable: Any) -> Value:
        if isinstance(variable, Literal):
            return elements(variable.val, result_kind(variable))
        return names[variable]

    def may_change(self, memory: Memory, variable: Any) -> bool:
        """Whether the present equation, which reads this variable, may write into its
        memory: no other reads it later."""
        if not memory.writable or any(memory is each for each in self._frozen):
            return False
        if not isinstance(variable, Literal) and variable in self._later:
            return False
        others = (self._names[name] for name in self._later)
        return not any(isinstance(o, Stored) and o.memory is memory for o in others)

    def _translate(self, equation: Operation, values: list[Value]) -> list[Value]:
        name, params, writer = equation.primitive, equation.params, self.writer
        if any(0 in shape_of(each) for each in (*equation.inputs, *equation.outputs)):
            raise UntranslatedError("arrays without elements")
        if name in LOOPS:
            loop = {"while": self.loops.while_, "scan": self.loops.scan}
            return loop.get(name, self.loops.cond)(equation, values)
        if name in ("unstack", "split"):
            return parts(writer, name, values[0], params)
        if len(equation.outputs) != 1:
            raise UntranslatedError(name)
        (output,) = equation.outputs
        shape, kind = shape_of(output), result_kind(output)
        if name in ELEMENTWISE:
            return [self._elementwise(equation, values, shape, kind)]
        if name in MOVES:
            return [MOVES[name](writer, shape, values[0], params)]
        if name in REDUCTIONS:
            return [reduced(writer, name, values, kind, params)]
        if name == "dynamic_slice":
            places = self._scalars(values[1:])
            return [dynamic_slice(writer, shape, values[0], places)]
        if name == "dynamic_update_slice":
            return [self._updated(equation, values)]
        if name == "iota":
            return [iota(writer, shape, kind, params)]
        if name == "concatenate":
            return [concatenate(writer, shape, values, params)]
        if name == "stack":
            return [stack(writer, shape, values, params)]
        if name == "pad":
            return [pad(writer, shape, values[0], values[1], params)]
        raise UntranslatedError(name)

    def _scalars(self, values: Sequence[Value]) -> list[Any]:
        return [self.writer.in_variables(each).array[()] for each in values]

    def _updated(self, equation: Operation, values: list[Value]) -> Value:
        value, update, *places = values
        indices = self._scalars(places)
        if isinstance(value, Elements) and any(isinstance(i, str) for i in indices):
            value = self.writer.copy(value)
        elif isinstance(value, Stored):
            if not self.may_change(value.memory, equation.inputs[0]):
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
