"""Costs: distances of two vectors, of which losses are made."""

import abc
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from .._util.arrays import as_parameter


class AbstractCost(eqx.Module):
    """A distance of two vectors, `cost(x, target)`. A loss also takes any function of
    two vectors; a class is for costs with settings."""

    @abc.abstractmethod
    def __call__(self, x: jax.Array, target: jax.Array) -> jax.Array: ...


def _checked(weight: jax.Array, x: jax.Array) -> jax.Array:
    """The weight, or an error unless it is one number or one for each component."""
    if jnp.shape(weight) not in ((), jnp.shape(x)):
        raise ValueError(
            f"`weight` has shape {jnp.shape(weight)}, but what is compared has shape "
            f"{jnp.shape(x)}. Give one number, or one for each component."
        )
    return weight


@final
class L1(AbstractCost):
    r"""$\sum_i w_i |x_i - \tilde x_i|$, with one weight or one per component.

    >>> float(L1()(np.array([1.0, 2.0]), np.array([0.0, 4.0])))
    3.0
    """

    weight: jax.Array = eqx.field(converter=as_parameter, default=1.0)

    def __call__(self, x: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.sum(_checked(self.weight, x) * jnp.abs(x - target))


@final
class L2(AbstractCost):
    r"""$\sum_i w_i (x_i - \tilde x_i)^2$, the squared norm.

    >>> float(L2(weight=2.0)(np.array([1.0, 2.0]), np.array([0.0, 4.0])))
    10.0
    """

    weight: jax.Array = eqx.field(converter=as_parameter, default=1.0)

    def __call__(self, x: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.sum(_checked(self.weight, x) * (x - target) ** 2)


@final
class Linf(AbstractCost):
    r"""$\max_i w_i |x_i - \tilde x_i|$.

    >>> float(Linf()(np.array([1.0, 2.0]), np.array([0.0, 4.0])))
    2.0
    """

    weight: jax.Array = eqx.field(converter=as_parameter, default=1.0)

    def __call__(self, x: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.max(_checked(self.weight, x) * jnp.abs(x - target))
