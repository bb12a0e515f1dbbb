"""The delays of a problem: one number, or several in a tuple or a dict.

The delayed states that a right-hand side gets have the same structure as the delays:
with `tau={"maturation": 14.0, "incubation": 3.0}`, `y["maturation"]` is the state 14
units of time earlier. Inside the library the delays of a problem are numbered, in the
order of JAX's trees: a tuple in its own order, a dict in the order of its sorted keys.

A delay is a number, which is a parameter of its own; an `AbstractConstantDelay`, which
computes the number from parameters; or more than a number: see `general_delays.py`.
"""

import abc
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._util.arrays import as_parameter, is_concrete, is_parameter


class DelayRole(NamedTuple):
    """What a parameter is that stands by itself in a delay.

    - `title`: what it is called in messages.
    - `usual`: the range in which a shape is sought by default, the first number being
      the least that is possible; None for a length of time, which is sought where the
      times of the data can show it.
    - `drawn`: the range of random values for simulated data; None for the usual one.
    - `may_be_zero`: whether a length may be zero.
    """

    title: str
    usual: tuple[float, float] | None = None
    drawn: tuple[float, float] | None = None
    may_be_zero: bool = False


# The whole delay.
DELAY = DelayRole("the delay")


class AbstractDelay(eqx.Module):
    """The base class of delays in `tau` that are not numbers."""

    @abc.abstractmethod
    def describe(self) -> str:
        """Return the delay in words, with the values that its parameters have."""

    @abc.abstractmethod
    def roles(self) -> Mapping[str, DelayRole]:
        """Return the roles of the fields that stand in the delay by themselves.
        Parameters from which something is computed are not among them."""


class AbstractConstantDelay(AbstractDelay):
    """A delay that is computed from the parameters in its fields."""

    @abc.abstractmethod
    def __call__(self) -> jax.Array:
        """Return the delay, a number."""

    def roles(self) -> Mapping[str, DelayRole]:
        return {}


class AbstractDistributedDelay(AbstractDelay):
    """A delay with a kernel, see `kernels.py`, whose two numbers are parameters or
    computed from them."""

    @property
    @abc.abstractmethod
    def kernel(self) -> Any:
        """The class of the kernel."""

    @abc.abstractmethod
    def __call__(self) -> Any:
        """Return the kernel with the numbers that it has."""

    def check(self) -> None:
        """Raise an error if the numbers of the kernel are known and impossible."""
        kernel = self()
        a, b = jax.tree.leaves(kernel)
        if not is_concrete(a + b):
            return
        if kernel.is_impossible or np.isinf(float(a)) or np.isinf(float(b)):
            raise ValueError(f"{kernel.rule}, but got {self.describe()}.")


def is_delay(leaf: Any) -> bool:
    """Whether a part of `tau` is a whole delay."""
    return isinstance(leaf, AbstractDelay)


def as_delays(tau: Any) -> Any:
    """Return the argument `tau` of a problem, with every number as an array of JAX."""
    if isinstance(tau, (tuple, list)):
        return tuple(_as_delay(f"tau[{index}]", each) for index, each in enumerate(tau))
    if isinstance(tau, dict):
        for key in tau:
            if not isinstance(key, str) or not key:
                raise TypeError(
                    f"The delays in `tau` have texts for names, but one is {key!r}."
                )
        return {key: _as_delay(f"tau[{key!r}]", each) for key, each in tau.items()}
    return _as_delay("tau", tau)


def _as_delay(name: str, value: Any) -> Any:
    if not isinstance(value, (tuple, list, dict)):
        value = as_parameter(value)
    if isinstance(value, (jax.Array, AbstractDelay)):
        return value
    raise TypeError(
        f"`{name}` must be a positive number, but got {value!r}. Several delays are a "
        'tuple or a dict of numbers: tau=(1.0, 2.5), or tau={"a": 1.0, "b": 2.5}. A '
        "delay that depends on time and state is a `dd.Delay`."
    )


def is_several(tau: Any) -> bool:
    """Whether `tau` is a tuple or a dict of delays, and not one number."""
    return isinstance(tau, (tuple, dict))


def delay_values(tau: Any) -> Any:
    """Return the delays as numbers, in the structure of `tau`."""
    return jax.tree.map(
        lambda leaf: leaf() if is_delay(leaf) else leaf, tau, is_leaf=is_delay
    )


def delay_vector(tau: Any) -> jax.Array:
    """Return the delays as one vector."""
    return jnp.stack(jax.tree.leaves(delay_values(tau)))


def constant_delays(tau: Any) -> dict[str, float]:
    """Return by name the delays that are numbers, or computed from parameters alone."""
    leaves = jax.tree.leaves(tau, is_leaf=is_delay)
    return {
        name: float(leaf() if isinstance(leaf, AbstractConstantDelay) else leaf)
        for name, leaf in zip(delay_names(tau), leaves)
        if not is_delay(leaf) or isinstance(leaf, AbstractConstantDelay)
    }


def longest_delay(tau: Any) -> float:
    """Return the longest of the delays, whose values are known."""
    return max(float(value) for value in jax.tree.leaves(delay_values(tau)))


def delay_count(tau: Any) -> int:
    """Return the number of delays."""
    return len(jax.tree.leaves(tau, is_leaf=is_delay))


def in_structure(tau: Any, items: list) -> Any:
    """Return one item for each delay, in the structure of `tau`."""
    return jax.tree.unflatten(jax.tree.structure(tau, is_leaf=is_delay), items)


def delay_names(tau: Any) -> list[str]:
    """Return the name of each delay in messages: `tau`, `tau[1]`, or its own name."""
    paths = jax.tree_util.tree_flatten_with_path(tau, is_leaf=is_delay)[0]
    return [
        path[0].key
        if path and isinstance(path[0], jax.tree_util.DictKey)
        else f"tau{jax.tree_util.keystr(path)}"
        for path, _ in paths
    ]


def check_delays(tau: Any) -> None:
    """Raise an error unless every delay is a positive number, or computed from
    parameters that are not all known."""
    leaves = jax.tree.leaves(tau, is_leaf=is_delay)
    if not leaves:
        raise ValueError(
            "`tau` has no delay. For an equation without delay use a `rhs` that "
            "ignores `y`, with any positive `tau`."
        )
    for name, leaf in zip(delay_names(tau), leaves):
        if is_delay(leaf) and not isinstance(leaf, AbstractConstantDelay):
            continue  # It is more than a number, and checks itself.
        value: Any = leaf() if isinstance(leaf, AbstractConstantDelay) else leaf
        if jnp.shape(value) != ():
            raise ValueError(
                f"`{name}` must be one number, but has shape {jnp.shape(value)}. "
                "Several delays are a tuple or a dict of numbers: tau=(1.0, 2.5)."
            )
        if not is_concrete(value) or 0 < float(value) < float("inf"):
            continue
        if not is_delay(leaf):
            raise ValueError(
                f"`{name}` must be positive and finite, but got {float(value)}. For an "
                "equation without delay use a `rhs` that ignores `y`, with any "
                "positive `tau`."
            )
        parameters = jax.tree.leaves(eqx.filter(leaf, is_parameter))
        if not any(np.any(np.isnan(array)) for array in parameters):
            raise ValueError(
                f"A delay must be positive and finite, but {leaf.describe()} is "
                f"{float(value):g}."
            )
