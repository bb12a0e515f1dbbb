"""A converted torch module: the steps of its `forward`, run by JAX.

A program contains neither torch objects nor weights. Two modules of the same
architecture have equal programs, so that JAX compiles them only once."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

# The first two are imported because they register their operators.
from . import _operators_shapes as _operators_shapes, _operators_sums as _operators_sums
from ._operators import OPERATORS


@final
@dataclass(frozen=True)
class Ref:
    """A reference to a value of a program: a tensor, an input or the result of a step.

    The values are numbered in this order; `index` is the number."""

    index: int


@final
@dataclass(frozen=True)
class ConstantArray:
    """A constant array, which can be compared and hashed."""

    data: bytes = field(repr=False)
    dtype: str
    shape: tuple[int, ...]

    @staticmethod
    def of(array: np.ndarray) -> "ConstantArray":
        """Return the constant with the elements of `array`."""
        return ConstantArray(array.tobytes(), array.dtype.name, array.shape)

    @property
    def array(self) -> np.ndarray:
        """The constant as a numpy array, of a type that JAX has enabled."""
        dtype = jax.dtypes.canonicalize_dtype(self.dtype)
        array = np.frombuffer(self.data, self.dtype).reshape(self.shape)
        return array.astype(dtype)


@final
@dataclass(frozen=True)
class OperatorCall:
    """The call of one operator.

    `arguments` and `options` are its positional and its named arguments, with a `Ref`
    for each value that is computed before. `dtype` is the type of its result, or None
    for several results. `place` is the line of the user's code."""

    operator: str
    arguments: tuple
    options: tuple[tuple[str, Any], ...]
    dtype: str | None
    place: str = field(compare=False)

    def run(self, values: list) -> Any:
        """Return the result of the step, given the values before it."""
        arguments = _look_up(self.arguments, values)
        options = {name: _look_up(value, values) for name, value in self.options}
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


def _look_up(argument: Any, values: list) -> Any:
    """Return an argument with all references and constants replaced by their arrays."""
    if isinstance(argument, Ref):
        return values[argument.index]
    if isinstance(argument, ConstantArray):
        return argument.array
    if isinstance(argument, tuple):
        return tuple(_look_up(item, values) for item in argument)
    return argument


@final
@dataclass(frozen=True, eq=False)
class ConvertedProgram:
    """The steps of a module's `forward`.

    `program(tensors, *inputs)` computes the result. `tensors` are the parameters and
    buffers of the module, by name. The inputs are reshaped to `self.inputs`, as
    `forward` expects them, and the result to `self.shape`, which is (d,). Inputs that
    are tuples or dicts (`self.structure`) count as their elements, in the order of
    JAX's trees."""

    tensors: tuple[str, ...]
    inputs: tuple[tuple[int, ...], ...]
    structure: Any
    steps: tuple[OperatorCall, ...]
    output: Ref | ConstantArray
    shape: tuple[int, ...]

    @functools.cached_property
    def _key(self) -> tuple:
        """A key that is the same for equal programs, with its hash first."""
        # Programs are compared as text, in which 2 differs from 2.0 and a tuple from a
        # `Ref`. The text of a constant has no elements, so these are compared as bytes.
        arguments = [(s.arguments, s.options) for s in self.steps] + [self.output]
        shapes = self.tensors, self.inputs, self.structure, self.shape
        steps = [(step.operator, step.dtype) for step in self.steps]
        text = repr((shapes, steps, arguments))
        leaves = _leaves(arguments)
        constants = tuple(c.data for c in leaves if isinstance(c, ConstantArray))
        return hash(text), text, constants

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, ConvertedProgram) and self._key == other._key

    def __hash__(self) -> int:
        return self._key[0]

    def uses_input(self, number: int) -> bool:
        """Whether the input of this number (the first is 0) is used by any step."""
        ref = Ref(len(self.tensors) + number)
        arguments = [(step.arguments, step.options) for step in self.steps]
        return ref in _leaves((*arguments, self.output))

    def __call__(self, tensors: Mapping[str, Any], *inputs: Any) -> jax.Array:
        values = [tensors[name] for name in self.tensors]
        leaves = jax.tree.leaves(inputs)
        values += [jnp.reshape(x, shape) for x, shape in zip(leaves, self.inputs)]
        for step in self.steps:
            values.append(step.run(values))
        return jnp.reshape(_look_up(self.output, values), self.shape)


def _leaves(argument: Any) -> list:
    """Return the elements of nested tuples and lists."""
    if isinstance(argument, (tuple, list)):
        return [leaf for item in argument for leaf in _leaves(item)]
    return [argument]
