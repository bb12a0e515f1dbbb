"""A problem without values of its parameters, and how to fill them in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .._problem.delays import DELAY
from .._problem.free_parameters import ParameterArray
from .._problem.parameters import (
    find,
    finite_numbers,
    parameter_arrays,
    parameter_vector,
)
from .._problem.problem import Problem
from .._util.arrays import is_parameter


@final
@dataclass(frozen=True)
class ProblemTemplate:
    """A problem whose parameters still need values.

    `blank` is the problem, with NaN for each missing value. `tied` maps the full names
    of arrays to the names of the arrays that they always equal. `tau_known` says that
    the delay in `blank` is its value; otherwise the delays must be given, too."""

    blank: Problem
    tied: Mapping[str, str]
    tau_known: bool

    @cached_property
    def arrays(self) -> list[ParameterArray]:
        """The arrays of parameters."""
        return parameter_arrays(self.blank, self.tied)

    @cached_property
    def names(self) -> dict[str, int]:
        """The number of each element by its name, without those tied to others."""
        return {
            name: array.first + index
            for array in self.arrays
            if array.name not in self.tied
            for index, name in enumerate(array.elements(array.short))
        }

    @property
    def known(self) -> np.ndarray:
        """The values of all parameters, NaN where a value is missing."""
        vector = parameter_vector(self.blank)
        if not self.tau_known:
            vector[[array.first for array in self.arrays if array.is_delay]] = np.nan
        return vector

    @property
    def required(self) -> list[str]:
        """The names of the parameters whose values are missing."""
        known = self.known
        return [name for name, e in self.names.items() if np.isnan(known[e])]

    def fill(self, given: Iterable[tuple[str, Any]]) -> Problem:
        """Return the problem with the given values, pairs of a name and a value. Values
        may be traced by JAX, so that a problem can be made inside of a function that is
        differentiated or compiled."""
        values: list[Any] = parameter_vector(self.blank).tolist()
        set_elements: set[int] = set()
        for key, value in given:
            elements = find(key, self.arrays)
            if not set_elements.isdisjoint(elements):
                raise ValueError(f"{key!r} is given twice, under two names.")
            set_elements.update(elements)
            for e, number in zip(elements, _element_values(key, value, len(elements))):
                values[e] = number
        missing = [n for n in self.required if self.names[n] not in set_elements]
        if missing:
            more = ", ..." if len(missing) > 1 else ""
            raise ValueError(
                f"These parameters need a value: {', '.join(missing)}. Write "
                f'problem({{"{missing[0]}": ...{more}}}).'
            )
        for name, source in self.tied.items():
            (copy,), (first,) = find(name, self.arrays), find(source, self.arrays)
            if copy in set_elements and values[copy] != values[first]:
                raise ValueError(
                    f"{name!r} always equals {source!r}, but got {values[copy]} and "
                    f"{values[first]}."
                )
            values[copy] = values[first]
        for array in self.arrays:
            value, name = values[array.first], array.short
            is_known = array.role == DELAY and not isinstance(value, Tracer)
            if is_known and value <= 0:
                raise ValueError(
                    f"`{name}` must be positive, but got {value:g}. An equation "
                    f"without this delay has x instead of x(t - {name})."
                )
        return self._problem(values)

    def _problem(self, values: list) -> Problem:
        """Return the problem with one value for each element."""
        arrays = [
            _array(values[array.first : array.first + array.size], array.shape)
            for array in self.arrays
        ]
        parameters, rest = eqx.partition(self.blank, is_parameter)
        filled = jax.tree.unflatten(jax.tree.structure(parameters), arrays)
        whole = eqx.combine(filled, rest)
        return Problem(
            whole.rhs,
            whole.history,
            whole.tau,
            initial=whole.initial,
            observe=whole.observe,
            switches=whole.switches,
            doses=whole.doses,
        )


def _element_values(key: str, value: Any, size: int) -> list:
    """Return the value of a parameter as `size` numbers, or as traced JAX scalars."""
    if not isinstance(value, Tracer):
        return finite_numbers(key, value, size).tolist()
    if value.size not in (1, size):
        raise ValueError(f"{key!r} needs one number or {size}, not {value.size}.")
    return list(jnp.broadcast_to(jnp.ravel(value), (size,)))


def _array(values: list, shape: tuple[int, ...]) -> jax.Array:
    if any(isinstance(value, jax.Array) for value in values):
        return jnp.stack([jnp.asarray(v, float) for v in values]).reshape(shape)
    return jnp.asarray(np.array(values, float).reshape(shape))
