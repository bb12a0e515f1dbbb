"""Methods for the gradient of a loss ("routes" to it), chosen like solvers.

| route | what it computes | when to use it |
|---|---|---|
| `Discrete()` | the adjoint of the solver's own steps: exact | the default |
| `Forward()` | sensitivities, one for each parameter: exact | few parameters |
| `Adjoint()` | the corrected theorem, which converges with the step | the paper's way |
| `Published()` | the paper's formula as printed: wrong for tau | reproducing it |

"Exact" means: the gradient of the loss of the discrete solution, up to rounding.
"""

import abc
from typing import Any, ClassVar, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from .._data.data import Data, check_sizes
from .._engine.choose import AUTO, check_any_solver, default_solver, engine_for
from .._engine.engine import AbstractEngine, System
from .._engine.runge_kutta import AbstractIntegrator
from .._engine.solution import check_problem, check_steps, check_time
from .._problem.doses import check_dose_times
from .._problem.driving import check_inputs_known
from .._problem.problem import Problem
from .._problem.without_doses import without_doses
from .._util import wording
from .._util.arrays import is_parameter
from .._util.errors import check_instance
from .losses import AbstractLoss, SumOfSquares, Target


class AbstractGradient(eqx.Module):
    """A method to compute the loss and its gradient inside a compiled program.

    `is_formula` says that it is a formula for one constant delay on an aligned grid."""

    is_formula: ClassVar[bool] = False

    @abc.abstractmethod
    def buffers(self, system: System) -> Any:
        """Allocate memory for the first call of `__call__`, which returns it for the
        next."""

    @abc.abstractmethod
    def __call__(
        self,
        system: System,
        loss: AbstractLoss,
        target: Any,
        params: Problem,
        buffers: Any,
    ) -> tuple[jax.Array, Problem, Any]:
        """Return the loss, its gradient in the shape of `params`, and the used
        buffers."""


@final
class Discrete(AbstractGradient):
    """The exact gradient of the discrete loss, by the adjoint of every step.

    It costs as much as a few solutions, however many parameters there are.
    """

    def buffers(self, system: System) -> Any:
        return system.engine.buffers(system)

    def __call__(self, system, loss, target, params, buffers):
        cost = loss.path_cost(system, target)
        return system.engine.gradient(system, cost, params, buffers)


@final
class Forward(AbstractGradient):
    r"""The exact gradient of the discrete loss, by direct sensitivities: the equations
    of $\partial x / \partial p$ are solved together with that of $x$ (the paper's
    section 6.1).

    Its cost grows with the number of parameters.
    """

    def buffers(self, system: System) -> Any:
        return system.engine.path(system)

    def __call__(self, system, loss, target, params, buffers):
        # One direction for each parameter of one fit, the same in all lanes.
        has_lanes = system.lanes is not None
        one_fit = jax.tree.map(lambda a: a[..., 0] if has_lanes else a, params)
        vector, unravel = ravel_pytree(one_fit)

        def value(params):
            cost = loss.path_cost(system, target)
            return system.engine.loss(system, cost, params, buffers)

        def along(direction):
            direction = unravel(direction)
            if has_lanes:
                direction = jax.tree.map(
                    lambda d, a: jnp.broadcast_to(d[..., None], a.shape),
                    direction,
                    params,
                )
            return jax.jvp(value, (params,), (direction,), has_aux=True)

        directions, axes = jnp.eye(vector.size), (None, 0, None)
        total, derivatives, buffers = jax.vmap(along, out_axes=axes)(directions)
        if has_lanes:
            unravel = jax.vmap(unravel, in_axes=-1, out_axes=-1)
        return total, unravel(derivatives), buffers


def loss_and_gradient(problem: Problem, *rest: Any) -> Any:
    """Return the loss of one problem and its gradient; with `gradient=None` the loss
    alone. The other arguments are those of `_loss_and_gradient`."""
    # In a compiled function a table of constants is an array like any other.
    return _loss_and_gradient(*eqx.partition(problem, is_parameter), *rest)


@eqx.filter_jit
def _loss_and_gradient(
    params: Problem,
    fixed: Problem,
    target: Target,
    T: jax.Array,
    loss: AbstractLoss,
    gradient: AbstractGradient | None,
    engine: AbstractEngine,
    grid: Any,
) -> Any:
    fixed = without_doses(fixed)
    params, pull = jax.vjp(without_doses, params)
    dimension = eqx.combine(params, fixed).dimension
    system = System(fixed, engine, grid, T, dimension)
    if gradient is None:
        cost = loss.path_cost(system, target)
        return engine.loss(system, cost, params, engine.path(system))[0]
    value, found, _ = gradient(system, loss, target, params, gradient.buffers(system))
    return value, pull(found)[0]


def loss_with_room(
    problem: Problem,
    target: Target,
    T: float,
    loss: AbstractLoss,
    gradient: AbstractGradient | None,
    engine: AbstractEngine,
    grid: Any,
) -> Any:
    """Return what `loss_and_gradient` returns, with room for all steps. If there is no
    solution up to the time T, an error says why."""
    end = jnp.asarray(T)
    while True:
        found = loss_and_gradient(problem, target, end, loss, gradient, engine, grid)
        value = found if gradient is None else found[0]
        larger = engine.larger_grid(grid, problem, T, value)
        if larger is None:
            return found
        grid = larger


def value_and_grad(
    problem: Problem,
    data: Data,
    *,
    loss: AbstractLoss = SumOfSquares(),
    gradient: AbstractGradient = Discrete(),
    solver: AbstractIntegrator | Literal["auto"] = AUTO,
    steps_per_delay: int = 20,
    max_step: float | None = None,
) -> tuple[jax.Array, Problem]:
    """Compute the loss, and its gradient for every parameter, as a problem.

    The solver `"auto"` is `RK4()` where the delays are numbers, and otherwise
    `Tsit5()`. `steps_per_delay` and `max_step` are for fixed steps.

    >>> import ddefind as dd
    >>> model = dd.models.Exponential(theta_0=0.0, theta_1=-1.0)
    >>> problem = dd.Problem(model, dd.Constant(1.0), tau=1.0)
    >>> loss, gradient = dd.value_and_grad(problem, dd.Data([0.0, 0.5], [1.0, 0.0]))
    >>> print(loss.round(6), gradient.rhs.theta_1.round(6), gradient.history.b.round(6))
    0.25 0.5 [0.5]
    """
    n = check_steps(steps_per_delay)
    if max_step is not None:
        max_step = check_time(max_step, "max_step")
    engine = check_inputs(problem, data, loss, gradient, solver, max_step)
    grid = engine.grid(without_doses(problem), data.T, n)
    target = loss.prepare(data)
    return loss_with_room(problem, target, data.T, loss, gradient, engine, grid)


def check_inputs(
    problem: Any,
    data: Any,
    loss: Any,
    gradient: Any,
    solver: Any,
    max_step: float | None = None,
) -> AbstractEngine:
    """Check all arguments of a loss and its gradient. Return the engine for them.

    A loss or a route that needs a grid aligned with one delay is refused if the engine
    has another."""
    check_problem_and_data(problem, data)
    check_inputs_known(problem, data.T)
    check_dose_times(problem.doses, data.T)
    check_loss(loss)
    check_instance("gradient", gradient, AbstractGradient, "Discrete()")
    check_any_solver(solver)
    chosen, plain = default_solver(problem, solver), without_doses(problem)
    engine = engine_for(plain, chosen, data.T, max_step)
    refusal = engine.refusal(plain, type(gradient).__name__)
    if refusal and getattr(loss, "nodes", None) == "solver":
        raise ValueError(
            '`Integral(nodes="solver")` is for one constant delay without switches, '
            "solved with fixed steps. Give a number of `nodes`, or none."
        )
    if refusal and gradient.is_formula:
        raise ValueError(refusal)
    return engine


def check_loss(loss: Any) -> None:
    """Raise an error unless `loss` is an instance of a loss."""
    check_instance("loss", loss, AbstractLoss, "SumOfSquares()")


def check_data(data: Any, observed: int) -> None:
    """Raise an error unless `data` is a `Data` with as many quantities as the problem
    observes."""
    check_instance("data", data, Data, "Data(t, x)")
    if data.x.shape[1] != observed:
        raise ValueError(
            f"The data have {data.x.shape[1]} quantities but the problem observes "
            f"{observed}. Give the problem an `observe(x, t)` that returns what was "
            f"measured, or {wording.OTHER_COLUMNS}."
        )


def check_problem_and_data(problem: Any, data: Any) -> None:
    """Check a problem, and the data to compare it with."""
    check_problem(problem)
    check_data(data, problem.observed)
    check_sizes(data.x)
