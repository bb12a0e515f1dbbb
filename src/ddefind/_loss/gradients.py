"""Routes to the gradient of a loss, chosen like solvers.

| route | what | for |
|---|---|---|
| `Discrete()` | the adjoint of the solver's own steps: exact | the default |
| `Forward()` | direct sensitivities, one per parameter: exact | few parameters |
| `Adjoint()` | the corrected theorem, converging with the step | the paper's method |
| `Published()` | the paper's formula as printed: wrong for tau | reproducing it |
"""

import abc
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from .._data.data import Data
from .._problem.problem import Problem
from .._solve.march import Buffers, System, march
from .._solve.reverse import pull
from .._solve.runge_kutta import RK4, AbstractSolver
from .._solve.solution import check_steps, make_grid
from .._util.errors import check_instance
from .losses import AbstractLoss, SumOfSquares


class AbstractGradient(eqx.Module):
    """A way to the loss and its gradient, for use inside a compiled program."""

    @abc.abstractmethod
    def buffers(self, system: System) -> Any:
        """Memory to start with; `__call__` hands it on from one use to the next."""

    @abc.abstractmethod
    def __call__(
        self,
        system: System,
        loss: AbstractLoss,
        target: Any,
        params: Problem,
        buffers: Any,
    ) -> tuple[jax.Array, Problem, Any]:
        """The loss, its gradient in the shape of `params`, and the used buffers."""


def loss_value(system: System, loss: AbstractLoss, target, params: Problem, path):
    """The loss alone."""
    path, last = march(system, params, path)
    return loss.path_cost(system, target).value(params, path, last), path


@final
class Discrete(AbstractGradient):
    """The exact gradient of the discretised loss, by the adjoint of the step loop.

    It costs a few solves, however many parameters there are.
    """

    def buffers(self, system) -> Buffers:
        return system.buffers()

    def __call__(self, system, loss, target, params, buffers):
        path, last = march(system, params, buffers.path)
        buffers = buffers._replace(path=path)
        return pull(system, params, buffers, last, loss.path_cost(system, target))


@final
class Forward(AbstractGradient):
    r"""The exact gradient of the discretised loss, by direct sensitivities: the
    equations of $\partial x / \partial p$ are solved beside that of $x$ (the paper's
    section 6.1).

    Its cost grows with the number of parameters.
    """

    def buffers(self, system):
        return system.path()

    def __call__(self, system, loss, target, params, buffers):
        # One direction per parameter of one fit; lanes move along it together.
        shapes = jax.tree.map(
            lambda a: a if system.lanes is None else a[..., 0], params
        )
        vector, unravel = ravel_pytree(shapes)

        def value(params):
            return loss_value(system, loss, target, params, buffers)[0]

        def along(direction):
            direction = unravel(direction)
            if system.lanes is not None:
                direction = jax.tree.map(
                    lambda d, a: jnp.broadcast_to(d[..., None], a.shape),
                    direction,
                    params,
                )
            return jax.jvp(value, (params,), (direction,))

        found, slopes = jax.vmap(along, out_axes=(None, 0))(jnp.eye(vector.size))
        if system.lanes is None:
            return found, unravel(slopes), buffers
        return found, jax.vmap(unravel, in_axes=-1, out_axes=-1)(slopes), buffers


@eqx.filter_jit
def loss_and_gradient(problem, target, T, loss, gradient, solver, grid):
    """The loss and its gradient of one problem, compiled. Without `gradient`, the
    loss."""
    params, fixed = eqx.partition(problem, eqx.is_inexact_array)
    system = System(fixed, solver, grid, T, problem.dimension)
    if gradient is None:
        return loss_value(system, loss, target, params, system.path())[0]
    return gradient(system, loss, target, params, gradient.buffers(system))[:2]


def value_and_grad(
    problem: Problem,
    data: Data,
    *,
    loss: AbstractLoss = SumOfSquares(),
    gradient: AbstractGradient = Discrete(),
    solver: AbstractSolver = RK4(),
    steps_per_delay: int = 20,
) -> tuple[jax.Array, Problem]:
    """The loss, and its gradient for every parameter, in the shape of the problem.

    >>> import ddefind as dd
    >>> model = dd.models.Exponential(theta_0=0.0, theta_1=-1.0)
    >>> problem = dd.Problem(model, dd.Constant(1.0), tau=1.0)
    >>> loss, gradient = dd.value_and_grad(problem, dd.Data([0.0, 0.5], [1.0, 0.0]))
    >>> print(loss.round(6), gradient.rhs.theta_1.round(6), gradient.history.b.round(6))
    0.25 0.5 [0.5]
    """
    check_inputs(problem, data, loss, gradient, solver)
    n = check_steps(steps_per_delay)
    grid = make_grid(problem.initial is not None, data.T, n, float(problem.tau))
    target = loss.prepare(data)
    T = jnp.asarray(data.T)
    return loss_and_gradient(problem, target, T, loss, gradient, solver, grid)


def check_inputs(problem, data, loss, gradient, solver) -> None:
    check_instance("problem", problem, Problem, "Problem(rhs, history, tau)")
    check_instance("loss", loss, AbstractLoss, "SumOfSquares()")
    check_instance("gradient", gradient, AbstractGradient, "Discrete()")
    check_instance("solver", solver, AbstractSolver, "RK4()")
    check_data(data, problem.observed)


def check_data(data, observed: int) -> None:
    check_instance("data", data, Data, "Data(t, x)")
    if data.x.shape[1] != observed:
        raise ValueError(
            f"`data` has {data.x.shape[1]} quantities but the problem observes "
            f"{observed}. Give the problem an `observe(x, t)` that returns what was "
            "measured, or the data a column of NaN for each that was not: "
            "`data.select(names)`."
        )
