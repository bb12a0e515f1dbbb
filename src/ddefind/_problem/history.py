"""Histories: what the state was before time zero."""

import abc
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from .._util.arrays import as_vector_parameter
from .network import Network


class AbstractHistory(eqx.Module):
    """A history maps a time t <= 0 to the state there, a vector of d components.

    A new one needs its parameters as fields and `__call__`, continuous and
    differentiable in t: the gradient for the delay needs its slope.
    """

    @abc.abstractmethod
    def __call__(self, t: jax.Array) -> jax.Array:
        """The state at time `t`, of shape (d,)."""


@final
class Constant(AbstractHistory):
    r"""$X_0(t) = b$.

    >>> Constant(b=2.0)(-0.5)
    Array([2.], dtype=float64)
    """

    b: jax.Array = eqx.field(converter=as_vector_parameter)

    def __call__(self, t):
        return self.b


@final
class Affine(AbstractHistory):
    r"""$X_0(t) = a\,t + b$, for each component.

    >>> Affine(a=[1.0, 0.0], b=[4.0, 3.0])(-0.5)
    Array([3.5, 3. ], dtype=float64)
    """

    a: jax.Array = eqx.field(converter=as_vector_parameter)
    b: jax.Array = eqx.field(converter=as_vector_parameter)

    def __call__(self, t):
        return self.a * t + self.b


@final
class Periodic(AbstractHistory):
    r"""$X_0(t) = A \sin(\omega t) + b$, for each component.

    $(A, \omega)$ and $(-A, -\omega)$ are the same history.

    >>> Periodic(A=2.0, omega=1.0, b=1.0)(0.0)
    Array([1.], dtype=float64)
    """

    A: jax.Array = eqx.field(converter=as_vector_parameter)
    omega: jax.Array = eqx.field(converter=as_vector_parameter)
    b: jax.Array = eqx.field(converter=as_vector_parameter)

    def __call__(self, t):
        return self.A * jnp.sin(self.omega * t) + self.b


@final
class Neural(AbstractHistory):
    """A multilayer perceptron of the time: $X_0(t) = N(t)$.

    >>> Neural(d=2, width=8, depth=1, seed=0)(-0.5).shape
    (2,)
    """

    network: Network

    def __init__(self, d: int, width: int = 16, depth: int = 2, *, seed: int = 0):
        self.network = Network(1, d, width, depth, seed=seed)

    def __call__(self, t) -> Any:
        return self.network(jnp.reshape(t, (1,)))
