"""A program: what the `forward` of a torch module computes, as steps for JAX.

A program holds no torch object and no weights. Two modules of one architecture have
equal programs, so that what JAX compiled for one serves the other."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

# These two enter their operators.
from . import _operators_shapes as _operators_shapes, _operators_sums as _operators_sums
from ._operators import OPERATORS


@final
@dataclass(frozen=True)
class Ref:
    """The value number `index` of a program: a tensor, an input or a step's result."""

    index: int


@final
@dataclass(frozen=True)
class Literal:
    """A constant array, which can be compared and hashed."""

    data: bytes = field(repr=False)
    dtype: str
    shape: tuple[int, ...]

    @staticmethod
    def of(array: np.ndarray) -> "Literal":
        return Literal(array.tobytes(), array.dtype.name, array.shape)

    @property
    def array(self) -> np.ndarray:
        dtype = jax.dtypes.canonicalize_dtype(self.dtype)
        array = np.frombuffer(self.data, self.dtype).reshape(self.shape)
        return array.astype(dtype)


@final
@dataclass(frozen=True)
class Step:
    """One operator, what it is given, and the type of its result (None for several).

    `place` is the line of the user's code that it comes from."""

    operator: str
    arguments: tuple
    options: tuple[tuple[str, Any], ...]
    dtype: str | None
    place: str = field(compare=False)

    def run(self, values: list) -> Any:
        arguments = _fill(self.arguments, values)
        options = {name: _fill(value, values) for name, value in self.options}
        try:
            result = OPERATORS[self.operator](*arguments, **options)
        except Exception as error:
            raise NotImplementedError(
                f"`aten.{self.operator}` cannot be converted as it is used at "
                f"{self.place}: {error}"
            ) from error
        if self.dtype is None:
            return result
        return jnp.asarray(result, jax.dtypes.canonicalize_dtype(self.dtype))


def _fill(argument: Any, values: list) -> Any:
    """An argument with its references looked up."""
    if isinstance(argument, Ref):
        return values[argument.index]
    if isinstance(argument, Literal):
        return argument.array
    if isinstance(argument, tuple):
        return tuple(_fill(item, values) for item in argument)
    return argument


@final
@dataclass(frozen=True, eq=False)
class TorchProgram:
    """`program(tensors, *inputs)`, with the module's tensors by name.

    The inputs are brought into the shapes that `forward` wants, and its result into
    `shape`, (d,)."""

    tensors: tuple[str, ...]
    inputs: tuple[tuple[int, ...], ...]
    steps: tuple[Step, ...]
    output: Ref | Literal
    shape: tuple[int, ...]

    @functools.cached_property
    def _key(self) -> tuple:
        # As text 2 differs from 2.0, and a tuple from a `Ref`; literals by their bytes.
        arguments = [(s.arguments, s.options) for s in self.steps] + [self.output]
        shapes = self.tensors, self.inputs, self.shape
        steps = [(step.operator, step.dtype) for step in self.steps]
        text = repr((shapes, steps, arguments))
        return hash(text), text, tuple(literal.data for literal in _literals(arguments))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, TorchProgram) and self._key == other._key

    def __hash__(self) -> int:
        return self._key[0]

    def uses(self, number: int) -> bool:
        """Whether anything is computed from input `number`."""
        ref = Ref(len(self.tensors) + number)
        asked = [(step.arguments, step.options) for step in self.steps]
        return ref in _leaves((*asked, self.output))

    def __call__(self, tensors: Mapping[str, Any], *inputs: Any) -> jax.Array:
        values = [tensors[name] for name in self.tensors]
        values += [jnp.reshape(x, shape) for x, shape in zip(inputs, self.inputs)]
        for step in self.steps:
            values.append(step.run(values))
        return jnp.reshape(_fill(self.output, values), self.shape)


def _leaves(argument: Any) -> list:
    if isinstance(argument, (tuple, list)):
        return [leaf for item in argument for leaf in _leaves(item)]
    return [argument]


def _literals(argument: Any) -> list[Literal]:
    return [leaf for leaf in _leaves(argument) if isinstance(leaf, Literal)]
