"""`check_gradient`: the gradient by every route, beside central differences."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from .._data.data import Data
from .._engine.adaptive.methods import AbstractAdaptive
from .._engine.engine import (
    AUTO,
    check_any_solver,
    default_solver,
    needs_mesh,
    time_grid,
)
from .._engine.runge_kutta import AbstractSolver
from .._engine.solution import check_steps
from .._problem.network_weights import Networks, named_indices, networks_of
from .._problem.parameters import parameter_arrays, parameter_vector
from .._problem.problem import Problem
from .._problem.without_doses import without_doses
from .._util.arrays import is_parameter
from .._util.shown import AbstractShown, Cells, Shown
from .adjoint import Adjoint
from .gradients import (
    AbstractGradient,
    Discrete,
    Forward,
    check_loss,
    check_problem_and_data,
    loss_and_gradient,
    loss_with_room,
    value_and_grad,
)
from .losses import AbstractLoss, SumOfSquares

ROUTES: tuple[AbstractGradient, ...] = (Discrete(), Forward(), Adjoint())
# The relative changes of a parameter for differences: with fixed steps, and with
# adaptive ones. The choice of adaptive steps depends on the parameters, so that the
# error of a solution jumps. For differences it is made as small as this tolerance.
_CHANGE, _CHANGE_IF_ADAPTIVE, _RTOL_OF_DIFFERENCES = 1e-4, 1e-3, 1e-11


@final
@dataclass(frozen=True)
class GradientCheck(AbstractShown):
    """The derivatives of a loss for the parameters `names`: by central differences, and
    by each route. Of the weights of a network only the largest error is printed."""

    names: tuple[str, ...]
    differences: np.ndarray
    routes: dict[str, np.ndarray]
    networks: Networks = field(default_factory=dict)

    def errors(self, route: str) -> np.ndarray:
        """Return the relative errors of a route. A derivative below a millionth of the
        largest one is compared with that millionth."""
        floor = 1e-6 * np.max(np.abs(self.differences), initial=1e-300)
        scale = np.maximum(np.abs(self.differences), floor)
        return np.abs(self.routes[route] - self.differences) / scale

    def shown(self) -> Shown:
        """Return the table."""
        header = ["parameter", "differences"]
        header += [cell for route in self.routes for cell in (route, "error")]
        rows = []
        for index in named_indices(len(self.names), self.networks):
            name = self.names[index]
            row = [name, f"{self.differences[index]:.6g}"]
            for route, derivatives in self.routes.items():
                error = self.errors(route)[index]
                row += [f"{derivatives[index]:.6g}", f"{error:.1e}"]
            rows.append(row)
        for owner, indices in self.networks.items():
            row = [owner, f"{len(indices)} weights"]
            for route in self.routes:
                row += ["", f"{np.max(self.errors(route)[list(indices)]):.1e}"]
            rows.append(row)
        widths = (9, 14, *(12, 8) * len(self.routes))
        return Shown([Cells(header, rows, min_widths=widths, most_rows=len(rows))])


def check_gradient(
    problem: Problem,
    data: Data,
    loss: AbstractLoss = SumOfSquares(),
    *,
    solver: AbstractSolver | AbstractAdaptive | Literal["auto"] = AUTO,
    steps_per_delay: int = 20,
) -> GradientCheck:
    """Print the gradient by every route beside central differences, to check a model of
    your own.

    `Discrete` and `Forward` agree with the differences to about 1e-9, `Adjoint` to the
    step error. With an adaptive solver the differences are those of a much more
    accurate solution; `Discrete` and `Forward` agree with them to about its tolerance,
    and there is no `Adjoint`, nor is there with several delays. Where a route does not
    agree, the model is not differentiable at these parameters, or the loss has a kink,
    as `L1` and `Integral(nodes="solver")` have.

    >>> import ddefind as dd
    >>> problem = dd.Problem(dd.models.Logistic(2.0, 1.0), dd.Constant(0.5), tau=0.9)
    >>> check = dd.check_gradient(problem, dd.Data([0, 1, 2], [0.5, 2.0, 1.0]))
    parameter     differences      Discrete     error       Forward     error ...
    theta_0          -1.00868      -1.00868   ...
    >>> bool(check.errors("Discrete").max() < 1e-6)
    True
    """
    check = compare_gradients(problem, data, loss, solver, steps_per_delay)
    print(check)
    return check


def compare_gradients(
    problem: Problem,
    data: Data,
    loss: AbstractLoss = SumOfSquares(),
    solver: AbstractSolver | AbstractAdaptive | Literal["auto"] = AUTO,
    steps_per_delay: int = 20,
) -> GradientCheck:
    """Return what `check_gradient` prints."""
    check_problem_and_data(problem, data)
    check_loss(loss)
    check_any_solver(solver)
    chosen = default_solver(problem, solver)
    is_general = isinstance(chosen, AbstractAdaptive)
    is_general = is_general or needs_mesh(without_doses(problem))
    n = check_steps(steps_per_delay)
    routes = {}
    for route in ROUTES:
        if is_general and route.is_formula:
            continue
        kinds: Any = {"loss": loss, "gradient": route, "solver": chosen}
        _, gradient = value_and_grad(problem, data, steps_per_delay=n, **kinds)
        routes[type(route).__name__] = parameter_vector(gradient)
    names = [
        name for each in parameter_arrays(problem) for name in each.elements(each.short)
    ]
    if isinstance(chosen, AbstractAdaptive):
        differences = _adaptive_differences(problem, data, loss, chosen)
    else:
        differences = _fixed_differences(problem, data, loss, chosen, n)
    networks = networks_of(problem, names)
    return GradientCheck(tuple(names), differences, routes, networks)


def _fixed_differences(
    problem: Problem, data: Data, loss: AbstractLoss, solver: Any, n: int
) -> np.ndarray:
    """Return differences of the discrete loss. All its values have the same capacity of
    the grid and come from one compiled program."""
    grid = time_grid(problem, data.T, solver, n, shrink=0.9)
    target, T = loss.prepare(data), jnp.asarray(data.T)

    def value(moved):
        return loss_and_gradient(moved, target, T, loss, None, solver, grid)

    return _differences(problem, value, _CHANGE)


def _adaptive_differences(
    problem: Problem, data: Data, loss: AbstractLoss, solver: AbstractAdaptive
) -> np.ndarray:
    """Return differences of the loss of a much more accurate solution."""
    factor = min(1.0, _RTOL_OF_DIFFERENCES / solver.rtol)
    atol = None if solver.atol is None else factor * solver.atol
    kind: Any = type(solver)
    accurate = kind(factor * solver.rtol, atol)

    def value(moved):
        return loss_with_room(moved, data, loss, None, accurate)

    return _differences(problem, value, _CHANGE_IF_ADAPTIVE)


def _differences(
    problem: Problem, value: Callable[[Problem], jax.Array], change: float
) -> np.ndarray:
    """Return fourth-order central differences of a function of the problem."""
    dynamic, static = eqx.partition(problem, is_parameter)
    flat, unravel = ravel_pytree(dynamic)
    result = np.empty(flat.size)
    base = np.asarray(flat)
    for e in range(flat.size):
        step = change * (abs(base[e]) or 1.0)
        unit = np.eye(flat.size)[e]
        shifted = [
            float(value(eqx.combine(unravel(base + k * step * unit), static)))
            for k in (-2, -1, 1, 2)
        ]
        result[e] = np.dot([1, -8, 8, -1], shifted) / (12 * step)
    return result
