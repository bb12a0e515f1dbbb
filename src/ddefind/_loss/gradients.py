"""Methods for the gradient of a loss ("routes" to it), chosen like solvers.

| route | what it computes | when to use it |
|---|---|---|
| `Discrete()` | the adjoint of the solver's own steps: exact | the default |
| `Forward()` | sensitivities, one for each parameter: exact | few parameters |
| `Adjoint()` | the corrected theorem, which converges with the step | the paper's way |
| `Published()` | the paper's formula as printed: wrong for tau | reproducing it |

"Exact" means: the gradient of the loss of the discrete solution, up to rounding.

Adaptive steps have no grid that a loss could use in advance. The loss then reads the
solved path as a function of time, and JAX differentiates this reading; `_engine`
differentiates the path itself step by step. The buffers are then a flag, whether the
path had enough rows. Where there is no solution, the loss and its gradient are NaN.
"""

import abc
from typing import Any, ClassVar, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from .._data.data import Data, check_sizes
from .._engine.adaptive.methods import AbstractAdaptive
from .._engine.adaptive.solution import AdaptiveRoom, adaptive_path, solve_adaptive
from .._engine.aligned.march import Buffers, System, solve_path
from .._engine.aligned.path import Grid
from .._engine.aligned.reverse import reverse_march
from .._engine.engine import (
    AUTO,
    check_any_solver,
    default_solver,
    needs_mesh,
    time_grid,
)
from .._engine.mesh.march import march_mesh, mesh_path, prepare_march
from .._engine.mesh.mesh import Mesh
from .._engine.mesh.reverse import reverse_mesh
from .._engine.runge_kutta import AbstractSolver
from .._engine.solution import check_problem, check_steps, check_time
from .._engine.solve import solve_mesh
from .._problem.doses import check_dose_times
from .._problem.driving import check_inputs_known
from .._problem.general_delays import is_general
from .._problem.problem import Problem
from .._problem.without_doses import without_doses
from .._util import wording
from .._util.arrays import is_parameter
from .._util.errors import check_instance
from .losses import AbstractLoss, SumOfSquares, Target
from .path_costs import PointCosts


def _adaptive_loss(
    system: System, costs: PointCosts, params: Problem, differentiate: str
) -> tuple[jax.Array, jax.Array]:
    """Return the loss, differentiable in one of the two modes, and whether the path had
    enough rows."""
    problem = eqx.combine(params, system.fixed)
    x, has_room = adaptive_path(
        problem, system.T, system.solver, differentiate, system.grid.capacity
    )
    return costs.total(params, x), has_room


def _forward_adaptive(
    system: System, costs: PointCosts, params: Problem
) -> tuple[jax.Array, Problem, jax.Array]:
    """Return the loss and its gradient, by one march with the derivatives for all
    parameters."""
    vector, unravel = ravel_pytree(params)

    def value(params):
        return _adaptive_loss(system, costs, params, "forward")

    def along(direction):
        return jax.jvp(value, (params,), (unravel(direction),), has_aux=True)

    directions = jnp.eye(vector.size)
    total, derivatives, has_room = jax.vmap(along, out_axes=(None, 0, None))(directions)
    return total, unravel(derivatives), has_room


class AbstractGradient(eqx.Module):
    """A method to compute the loss and its gradient inside a compiled program.

    `is_formula` says that it is a formula for one constant delay, and so serves neither
    a mesh nor an adaptive solver."""

    is_formula: ClassVar[bool] = False

    @abc.abstractmethod
    def buffers(self, system: System) -> Any:
        """Allocate memory for the first call of `__call__`, which returns it for the
        next. With adaptive steps it is only whether the path had enough rows."""

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


def loss_value(
    system: System, loss: AbstractLoss, target: Target, params: Problem, path: Any
) -> tuple[jax.Array, Any]:
    """Return the loss without its gradient, and the used memory `path`."""
    if isinstance(system.grid, Mesh):
        problem = eqx.combine(params, system.fixed)
        x = solve_mesh(problem, system.solver, system.grid, "forward")
        return _point_costs(system, loss, target).total(params, x), path
    if isinstance(system.grid, AdaptiveRoom):
        costs = _point_costs(system, loss, target)
        return _adaptive_loss(system, costs, params, "forward")
    path, last = solve_path(system, params, path)
    return loss.path_cost(system, target).value(params, path, last), path


def _point_costs(system: System, loss: AbstractLoss, target: Target) -> PointCosts:
    """Return the loss on a mesh or with adaptive steps, where every loss is a sum of
    costs at fixed times."""
    path_cost = loss.path_cost(system, target)
    assert isinstance(path_cost, PointCosts)
    return path_cost


@final
class Discrete(AbstractGradient):
    """The exact gradient of the discrete loss, by the adjoint of every step.

    It costs as much as a few solutions, however many parameters there are.
    """

    def buffers(self, system: System) -> Buffers | jax.Array | None:
        if isinstance(system.grid, AdaptiveRoom):
            return jnp.asarray(True)
        return None if isinstance(system.grid, Mesh) else system.buffers()

    def __call__(self, system, loss, target, params, buffers):
        if isinstance(system.grid, AdaptiveRoom):
            costs = _point_costs(system, loss, target)

            def value(params):
                return _adaptive_loss(system, costs, params, "reverse")

            run = jax.value_and_grad(value, has_aux=True)
            (total, has_room), gradient = run(params)
            return total, gradient, has_room
        if isinstance(system.grid, Mesh):
            return *_discrete_on_mesh(system, loss, target, params), buffers
        path, last = solve_path(system, params, buffers.path)
        buffers = buffers._replace(path=path)
        path_cost = loss.path_cost(system, target)
        return reverse_march(system, params, buffers, last, path_cost)


def _discrete_on_mesh(
    system: System, loss: AbstractLoss, target: Target, params: Problem
) -> tuple[jax.Array, Problem]:
    """Return the loss on a mesh, and its gradient: the cotangents of the points go to
    the rows of the path, those of the rows to the inputs of the march, and those of the
    inputs, by JAX, to the parameters."""

    def prepare(params):
        problem = eqx.combine(params, system.fixed)
        mesh_system, inputs, last = prepare_march(problem, system.solver, system.grid)
        return inputs, (mesh_system, last)

    inputs, pull, (mesh_system, last) = jax.vjp(prepare, params, has_aux=True)
    rows, cursor = march_mesh(mesh_system, inputs, last)
    path = mesh_path(system.grid, inputs, rows, last)
    cost = _point_costs(system, loss, target).on_mesh(params, path)
    on_inputs = reverse_mesh(mesh_system, inputs, rows, cursor, last, cost.on_rows)
    on_times = on_inputs.times + cost.on_times
    (gradient,) = pull(on_inputs._replace(times=on_times))
    observe = jax.tree.map(jnp.add, gradient.observe, cost.on_observe)
    gradient = eqx.tree_at(
        lambda p: p.observe, gradient, observe, is_leaf=lambda leaf: leaf is None
    )
    return cost.value, gradient


@final
class Forward(AbstractGradient):
    r"""The exact gradient of the discrete loss, by direct sensitivities: the equations
    of $\partial x / \partial p$ are solved together with that of $x$ (the paper's
    section 6.1).

    Its cost grows with the number of parameters.
    """

    def buffers(self, system: System) -> jax.Array | None:
        if isinstance(system.grid, AdaptiveRoom):
            return jnp.asarray(True)
        return None if isinstance(system.grid, Mesh) else system.path()

    def __call__(self, system, loss, target, params, buffers):
        if isinstance(system.grid, AdaptiveRoom):
            costs = _point_costs(system, loss, target)
            return _forward_adaptive(system, costs, params)
        # One direction for each parameter of one fit, the same in all lanes.
        has_lanes = system.lanes is not None
        one_fit = jax.tree.map(lambda a: a[..., 0] if has_lanes else a, params)
        vector, unravel = ravel_pytree(one_fit)

        def value(params):
            return loss_value(system, loss, target, params, buffers)[0]

        def along(direction):
            direction = unravel(direction)
            if has_lanes:
                direction = jax.tree.map(
                    lambda d, a: jnp.broadcast_to(d[..., None], a.shape),
                    direction,
                    params,
                )
            return jax.jvp(value, (params,), (direction,))

        directions = jnp.eye(vector.size)
        total, derivatives = jax.vmap(along, out_axes=(None, 0))(directions)
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
    solver: AbstractSolver | AbstractAdaptive,
    grid: Grid | Mesh | AdaptiveRoom,
) -> Any:
    fixed = without_doses(fixed)
    params, pull = jax.vjp(without_doses, params)
    dimension = eqx.combine(params, fixed).dimension
    system = System(fixed, solver, grid, T, dimension)
    if gradient is None:
        path = Forward().buffers(system)
        return loss_value(system, loss, target, params, path)[0]
    value, found, _ = gradient(system, loss, target, params, gradient.buffers(system))
    return value, pull(found)[0]


def loss_with_room(
    problem: Problem,
    data: Data,
    loss: AbstractLoss,
    gradient: AbstractGradient | None,
    solver: AbstractAdaptive,
) -> Any:
    """Return what `loss_and_gradient` returns, with adaptive steps and room for all of
    them. If there is no solution up to the end of the data, an error says why."""
    target, T = loss.prepare(data), jnp.asarray(data.T)
    room = AdaptiveRoom()
    while True:
        found = loss_and_gradient(problem, target, T, loss, gradient, solver, room)
        if jnp.isfinite(found if gradient is None else found[0]):
            return found
        # Either the rows were too few, or there is no solution, or the loss of the
        # solution is not finite.
        path = solve_adaptive(without_doses(problem), data.T, solver, "forward")
        if path.rows.shape[0] <= room.capacity:
            return found
        room = AdaptiveRoom(path.rows.shape[0])


def value_and_grad(
    problem: Problem,
    data: Data,
    *,
    loss: AbstractLoss = SumOfSquares(),
    gradient: AbstractGradient = Discrete(),
    solver: AbstractSolver | AbstractAdaptive | Literal["auto"] = AUTO,
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
    chosen = check_inputs(problem, data, loss, gradient, solver)
    n = check_steps(steps_per_delay)
    if max_step is not None:
        max_step = check_time(max_step, "max_step")
    if isinstance(chosen, AbstractAdaptive):
        return loss_with_room(problem, data, loss, gradient, chosen)
    grid = time_grid(without_doses(problem), data.T, chosen, n, max_step)
    if isinstance(grid, Mesh):
        check_on_mesh(loss, gradient)
    target, T = loss.prepare(data), jnp.asarray(data.T)
    return loss_and_gradient(problem, target, T, loss, gradient, chosen, grid)


def check_on_mesh(loss: AbstractLoss, gradient: AbstractGradient) -> None:
    """Refuse a loss or a route that needs a grid aligned with one delay."""
    _refuse_solver_nodes(loss)
    if gradient.is_formula:
        raise ValueError(
            f"`{type(gradient).__name__}()` is a formula for one constant delay, "
            "without switches, on the grid that `steps_per_delay` gives. Use "
            "`dd.Discrete()`, which is exact for every problem."
        )


def _refuse_solver_nodes(loss: AbstractLoss) -> None:
    if getattr(loss, "nodes", None) == "solver":
        raise ValueError(
            '`Integral(nodes="solver")` is for one constant delay without switches, '
            "solved with fixed steps. Give a number of `nodes`, or none."
        )


def _check_adaptive(
    problem: Problem,
    loss: AbstractLoss,
    gradient: AbstractGradient,
    solver: AbstractAdaptive,
) -> None:
    """Refuse a loss or a route that needs fixed steps."""
    _refuse_solver_nodes(loss)
    if gradient.is_formula:
        route, name = type(gradient).__name__, type(solver).__name__
        raise ValueError(
            f"`{route}()` is a formula for delays that are numbers, but this problem "
            "has a delay that depends on time or state, is neutral or distributed. Use "
            "`Discrete()` or `Forward()`."
            if is_general(problem.tau)
            else f"`{route}()` is for fixed steps, and `{name}()` chooses its steps by "
            "the error. Use `Discrete()` or `Forward()`, or `solver=dd.RK4()`."
        )


def check_inputs(
    problem: Any, data: Any, loss: Any, gradient: Any, solver: Any
) -> AbstractSolver | AbstractAdaptive:
    """Check all arguments of a loss and its gradient. Return the solver, which "auto"
    leaves open."""
    check_problem_and_data(problem, data)
    check_inputs_known(problem, data.T)
    check_dose_times(problem.doses, data.T)
    check_loss(loss)
    check_instance("gradient", gradient, AbstractGradient, "Discrete()")
    check_any_solver(solver)
    chosen = default_solver(problem, solver)
    if isinstance(chosen, AbstractAdaptive):
        _check_adaptive(problem, loss, gradient, chosen)
    elif needs_mesh(without_doses(problem)):
        check_on_mesh(loss, gradient)
    return chosen


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
