"""The error and the cost of the gradient: steps per delay, and direct or adjoint."""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import ddefind as dd
from ddefind._engine.aligned.engine import AlignedEngine
from ddefind._engine.aligned.path import make_grid
from ddefind._loss.gradients import loss_and_gradient
from ddefind.paper import EXPERIMENTS


def flat(
    problem: dd.Problem,
) -> tuple[np.ndarray, Callable[[Any], dd.Problem]]:
    """All parameters as one vector, and the function from such a vector to a
    problem."""
    arrays, rest = eqx.partition(problem, eqx.is_inexact_array)
    vector, unravel = ravel_pytree(arrays)
    return np.asarray(vector), lambda v: eqx.combine(unravel(v), rest)


def _gradient_function(
    problem: dd.Problem,
    data: dd.Data,
    loss: dd.AbstractLoss,
    route: dd.AbstractGradient,
    solver: dd.AbstractSolver,
    n: int,
) -> Callable[[np.ndarray], jax.Array]:
    """A compiled function from many parameter vectors to their gradients, which are
    computed one after the other."""
    grid = make_grid(False, data.T, n, float(problem.tau))
    target, (_, rebuild) = loss.prepare(data), flat(problem)
    engine = AlignedEngine(solver)

    def one(vector):
        moved = rebuild(vector)
        _, gradient = loss_and_gradient(
            moved, target, jnp.asarray(data.T), loss, route, engine, grid
        )
        return ravel_pytree(eqx.filter(gradient, eqx.is_inexact_array))[0]

    return jax.jit(lambda vectors: jax.lax.map(one, vectors))


def _microseconds(
    gradients: dict[str, Callable], vector: np.ndarray, copies: int
) -> dict[str, float]:
    """The time of one gradient by each of the functions. They run in turn, eight times;
    the first round compiles, and the shortest time of the others counts."""
    vectors = np.tile(vector, (copies, 1))
    best = dict.fromkeys(gradients, np.inf)
    for round_ in range(8):
        for name, gradient in gradients.items():
            began = time.perf_counter()
            gradient(vectors).block_until_ready()
            if round_:
                best[name] = min(best[name], time.perf_counter() - began)
    return {name: round(1e6 * seconds / copies, 2) for name, seconds in best.items()}


def steps_per_delay() -> list[dict]:
    """The gradient at the paper's starts with 10 to 100 steps per delay: its relative
    error compared with a fine solution, for tau and for the other parameters (each in
    units of its own value), and its time."""
    at_nodes = dd.Integral(dd.L2(), nodes="solver")
    routes = (
        (dd.Published(), at_nodes),
        (dd.Adjoint(), at_nodes),
        (dd.Discrete(), dd.Integral(dd.L2())),
    )
    rows = []
    for model, experiment in EXPERIMENTS.items():
        problem, data = experiment.start, experiment.clean
        vector, _ = flat(problem)
        size = np.where(vector == 0, 1.0, np.abs(vector))
        fine = dd.Integral(dd.L2(), nodes=8000)
        truth = size * np.asarray(
            _gradient_function(problem, data, fine, dd.Discrete(), dd.RK4(), 500)(
                vector[None]
            )[0]
        )
        for n in (10, 20, 50, 100):
            gradients = {
                type(route).__name__: _gradient_function(
                    problem, data, loss, route, dd.RK2(), n
                )
                for route, loss in routes
            }
            row: dict[str, Any] = {"model": model, "steps_per_delay": n}
            row["microseconds"] = _microseconds(gradients, vector, 100)
            for name, gradient in gradients.items():
                error = size * np.asarray(gradient(vector[None])[0]) - truth
                others = np.linalg.norm(error[:-1]) / np.linalg.norm(truth[:-1])
                errors = {"tau": abs(error[-1] / truth[-1]), "others": others}
                # With steps that are too long the solution explodes: no gradient.
                row[name] = {
                    which: float(value) if value < 1e6 else None
                    for which, value in errors.items()
                }
            rows.append(row)
    return rows


def routes() -> dict:
    """The time of a gradient by direct sensitivities and by the adjoint, as the number
    of parameters grows. The right-hand side is a network with one hidden layer (the
    smallest has none)."""
    experiment = EXPERIMENTS["logistic"]
    rows = []
    for width in (0, 1, 2, 4, 8, 16, 32, 64):
        rhs = dd.models.Neural(d=1, width=max(width, 1), depth=min(width, 1))
        problem = dd.Problem(rhs, dd.Constant(2.0), 1.0)
        vector, _ = flat(problem)
        gradients = {
            type(route).__name__: _gradient_function(
                problem, experiment.clean, dd.SumOfSquares(), route, dd.RK2(), 10
            )
            for route in (dd.Forward(), dd.Discrete(), dd.Adjoint())
        }
        rows.append({"parameters": len(vector), **_microseconds(gradients, vector, 50)})
    crossover = {name: _crossover(rows, name) for name in ("Discrete", "Adjoint")}
    return {"rows": rows, "crossover": crossover}


def _crossover(rows: list[dict], route: str) -> float | None:
    """The number of parameters from which on `Forward` takes longer than the route, by
    interpolation between the measurements on logarithmic scales; None if it never
    does."""
    p = np.log([row["parameters"] for row in rows])
    excess = np.log([row["Forward"] / row[route] for row in rows])
    above = np.flatnonzero(excess > 0)
    if not len(above):
        return None
    k = above[0]
    if k == 0:
        return float(np.exp(p[0]))
    share = -excess[k - 1] / (excess[k] - excess[k - 1])
    return float(np.exp(p[k - 1] + share * (p[k] - p[k - 1])))
