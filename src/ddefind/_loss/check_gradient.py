"""`check_gradient`: the gradient by every route, beside central differences."""

from dataclasses import dataclass, field
from typing import Any, Literal, final

import equinox as eqx
import numpy as np
from jax.flatten_util import ravel_pytree

from .._data.data import Data
from .._engine.choose import AUTO, check_any_solver, default_solver, engine_for
from .._engine.engine import AbstractEngine
from .._engine.runge_kutta import AbstractIntegrator
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
    loss_with_room,
    value_and_grad,
)
from .losses import AbstractLoss, SumOfSquares

ROUTES: tuple[AbstractGradient, ...] = (Discrete(), Forward(), Adjoint())


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
    solver: AbstractIntegrator | Literal["auto"] = AUTO,
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
    solver: AbstractIntegrator | Literal["auto"] = AUTO,
    steps_per_delay: int = 20,
) -> GradientCheck:
    """Return what `check_gradient` prints."""
    check_problem_and_data(problem, data)
    check_loss(loss)
    check_any_solver(solver)
    chosen, plain = default_solver(problem, solver), without_doses(problem)
    engine = engine_for(plain, chosen, data.T)
    n = check_steps(steps_per_delay)
    routes = {}
    for route in ROUTES:
        name = type(route).__name__
        if route.is_formula and engine.refusal(plain, name):
            continue
        kinds: Any = {"loss": loss, "gradient": route, "solver": chosen}
        _, gradient = value_and_grad(problem, data, steps_per_delay=n, **kinds)
        routes[name] = parameter_vector(gradient)
    names = [
        name for each in parameter_arrays(problem) for name in each.elements(each.short)
    ]
    differences = _differences(problem, data, loss, engine, n)
    networks = networks_of(problem, names)
    return GradientCheck(tuple(names), differences, routes, networks)


def _differences(
    problem: Problem, data: Data, loss: AbstractLoss, engine: AbstractEngine, n: int
) -> np.ndarray:
    """Return fourth-order central differences of the loss. All its values come from one
    compiled program, on grids with the same room."""
    engine, change = engine.for_differences()
    grid = engine.grid(without_doses(problem), data.T, n, shrink=0.9)
    target = loss.prepare(data)
    dynamic, static = eqx.partition(problem, is_parameter)
    flat, unravel = ravel_pytree(dynamic)
    result = np.empty(flat.size)
    base = np.asarray(flat)

    def value(vector: Any) -> Any:
        moved = eqx.combine(unravel(vector), static)
        return loss_with_room(moved, target, data.T, loss, None, engine, grid)

    for e in range(flat.size):
        step = change * (abs(base[e]) or 1.0)
        unit = np.eye(flat.size)[e]
        shifted = [float(value(base + k * step * unit)) for k in (-2, -1, 1, 2)]
        result[e] = np.dot([1, -8, 8, -1], shifted) / (12 * step)
    return result
