"""A problem whose parameters wait for their values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .._problem.free_parameters import ParameterArray
from .._problem.parameters import (
    find,
    finite_numbers,
    parameter_arrays,
    parameter_vector,
)
from .._problem.problem import Problem


@final
@dataclass(frozen=True)
class Template:
    """A problem that is NaN where a value must be given.

    `tied` maps the full names of arrays to those that they equal; `tau_known` says that
    the delay's value need not be given."""

    blank: Problem
    tied: Mapping[str, str]
    tau_known: bool

    @cached_property
    def arrays(self) -> list[ParameterArray]:
        return parameter_arrays(self.blank, self.tied)

    @cached_property
    def names(self) -> dict[str, int]:
        """The elements by name, without those that are tied to others."""
        return {
            name: array.first + index
            for array in self.arrays
            if array.name not in self.tied
            for index, name in enumerate(array.elements(array.short))
        }

    @property
    def known(self) -> np.ndarray:
        """All values; NaN where there is none yet."""
        vector = parameter_vector(self.blank)
        if not self.tau_known:
            vector[self.names["tau"]] = np.nan
        return vector

    @property
    def required(self) -> list[str]:
        """The names that have no value yet."""
        known = self.known
        return [name for name, at in self.names.items() if np.isnan(known[at])]

    def fill(self, given: Iterable[tuple[str, Any]]) -> Problem:
        """The problem with the values that are given by name."""
        elements: list[Any] = parameter_vector(self.blank).tolist()
        named: set[int] = set()
        for key, value in given:
            where = find(key, self.arrays)
            if not named.isdisjoint(where):
                raise ValueError(f"{key!r} is given twice, under two names.")
            named.update(where)
            for element, number in zip(where, _spread(key, value, len(where))):
                elements[element] = number
        missing = [name for name in self.required if self.names[name] not in named]
        if missing:
            more = ", ..." if len(missing) > 1 else ""
            raise ValueError(
                f"These parameters need a value: {', '.join(missing)}. Write "
                f'problem({{"{missing[0]}": ...{more}}}).'
            )
        for name, source in self.tied.items():
            (copy,), (first,) = find(name, self.arrays), find(source, self.arrays)
            if copy in named and elements[copy] != elements[first]:
                raise ValueError(
                    f"{name!r} always equals {source!r}, but got {elements[copy]} and "
                    f"{elements[first]}."
                )
            elements[copy] = elements[first]
        return self._problem(elements)

    def _problem(self, elements: list) -> Problem:
        arrays = [
            _array(elements[array.first : array.first + array.size], array.shape)
            for array in self.arrays
        ]
        parameters, rest = eqx.partition(self.blank, eqx.is_inexact_array)
        filled = jax.tree.unflatten(jax.tree.structure(parameters), arrays)
        whole = eqx.combine(filled, rest)
        return Problem(whole.rhs, whole.history, whole.tau, observe=whole.observe)


def _spread(key: str, value: Any, size: int) -> list:
    """One number for each element; what is traced stays traced."""
    if not isinstance(value, Tracer):
        return finite_numbers(key, value, size).tolist()
    if value.size not in (1, size):
        raise ValueError(f"{key!r} needs one number or {size}, not {value.size}.")
    return list(jnp.broadcast_to(jnp.ravel(value), (size,)))


def _array(elements: list, shape: tuple[int, ...]) -> jax.Array:
    if any(isinstance(element, jax.Array) for element in elements):
        return jnp.stack([jnp.asarray(e, float) for e in elements]).reshape(shape)
    return jnp.asarray(np.array(elements, float).reshape(shape))
