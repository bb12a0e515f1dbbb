"""Routes to the gradient of a loss, chosen like solvers.

| route | what | for |
|---|---|---|
| `Discrete()` | the adjoint of the solver's own steps: exact | the default |
| `Forward()` | direct sensitivities, one per parameter: exact | few parameters |
"""

import abc
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ._engine import Buffers, System, march, pull
from ._loss import AbstractLoss
from ._problem import Problem


class AbstractGradient(eqx.Module):
    """A way to the loss and its gradient, for use inside a compiled program."""

    @abc.abstractmethod
    def __call__(
        self,
        system: System,
        loss: AbstractLoss,
        target: Any,
        params: Problem,
        buffers: Buffers,
    ) -> tuple[jax.Array, Problem, Buffers]:
        """The loss, its gradient in the shape of `params`, and the used buffers."""


def loss_value(system: System, loss: AbstractLoss, target, params: Problem, path):
    """The loss alone."""
    path, last = march(system, params, path)
    return loss.value(system, params, path, last, target), path


@final
class Discrete(AbstractGradient):
    """The exact gradient of the discretised loss, by the adjoint of the step loop.

    It costs a few solves, however many parameters there are.
    """

    def __call__(self, system, loss, target, params, buffers):
        path, last = march(system, params, buffers.path)
        buffers = buffers._replace(path=path)
        return pull(system, params, buffers, last, loss.forcing(system, target))


@final
class Forward(AbstractGradient):
    r"""The exact gradient of the discretised loss, by direct sensitivities: the equations
    of $\partial x / \partial p$ are solved beside that of $x$ (the paper's section 6.1).

    Its cost grows with the number of parameters.
    """

    def __call__(self, system, loss, target, params, buffers):
        vector, unravel = ravel_pytree(params)

        def value(vector):
            return loss_value(system, loss, target, unravel(vector), buffers.path)[0]

        def along(direction):
            return jax.jvp(value, (vector,), (direction,))

        if system.lanes is not None:
            raise NotImplementedError
        found, slopes = jax.vmap(along, out_axes=(None, 0))(jnp.eye(vector.size))
        return found, unravel(slopes), buffers
