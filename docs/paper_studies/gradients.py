"""The gradient's error and cost: steps a delay, and direct against adjoint."""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.flatten_util import ravel_pytree

import ddefind as dd
from ddefind._loss.gradients import loss_and_gradient
from ddefind._solve.solution import make_grid
from ddefind.paper import EXPERIMENTS


def flat(problem: dd.Problem):
    """All parameters as one vector, and the way back."""
    arrays, rest = eqx.partition(problem, eqx.is_inexact_array)
    vector, unravel = ravel_pytree(arrays)
    return np.asarray(vector), lambda v: eqx.combine(unravel(v), rest)


def _gradient_function(problem, data, loss, route, solver, n) -> Callable:
    """The compiled gradient of many parameter vectors, one after the other."""
    grid = make_grid(False, data.T, n, float(problem.tau))
    target, (_, rebuild) = loss.prepare(data), flat(problem)

    def one(vector):
        moved = rebuild(vector)
        found = loss_and_gradient(moved, target, data.T, loss, route, solver, grid)[1]
        return ravel_pytree(eqx.filter(found, eqx.is_inexact_array))[0]

    return jax.jit(lambda vectors: jax.lax.map(one, vectors))


def _microseconds(jobs: dict[str, Callable], vector: np.ndarray, copies: int) -> dict:
    """The time of one gradient by each job: the best of several rounds, in turn."""
    vectors = np.tile(vector, (copies, 1))
    best = dict.fromkeys(jobs, np.inf)
    for round_ in range(8):
        for name, job in jobs.items():
            began = time.perf_counter()
            job(vectors).block_until_ready()
            if round_:
                best[name] = min(best[name], time.perf_counter() - began)
    return {name: round(1e6 * seconds / copies, 2) for name, seconds in best.items()}


def steps_per_delay() -> list[dict]:
    """The gradient at the paper's starts for N_tau from 10 to 100: its error against a
    fine solution, for tau and for the rest, each parameter in units of itself; and its
    cost."""
    at_nodes = dd.Integral(dd.L2(), nodes="solver")
    routes = {
        dd.Published(): at_nodes,
        dd.Adjoint(): at_nodes,
        dd.Discrete(): dd.Integral(dd.L2()),
    }
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
            jobs = {
                type(route).__name__: _gradient_function(
                    problem, data, loss, route, dd.RK2(), n
                )
                for route, loss in routes.items()
            }
            row: dict[str, Any] = {"model": model, "steps_per_delay": n}
            row["microseconds"] = _microseconds(jobs, vector, 100)
            for name, job in jobs.items():
                error = size * np.asarray(job(vector[None])[0]) - truth
                others = np.linalg.norm(error[:-1]) / np.linalg.norm(truth[:-1])
                found = {"tau": abs(error[-1] / truth[-1]), "others": others}
                # Steps that are too long explode: there is no gradient.
                row[name] = {k: float(v) if v < 1e6 else None for k, v in found.items()}
            rows.append(row)
    return rows


def routes() -> dict:
    """The cost of a gradient by direct sensitivities and by the adjoint, as the number
    of parameters grows: a network as the right-hand side, with one hidden layer (the
    smallest without)."""
    experiment = EXPERIMENTS["logistic"]
    rows = []
    for width in (0, 1, 2, 4, 8, 16, 32, 64):
        rhs = dd.models.Neural(d=1, width=max(width, 1), depth=min(width, 1))
        problem = dd.Problem(rhs, dd.Constant(2.0), 1.0)
        vector, _ = flat(problem)
        jobs = {
            type(route).__name__: _gradient_function(
                problem, experiment.clean, dd.SumOfSquares(), route, dd.RK2(), 10
            )
            for route in (dd.Forward(), dd.Discrete(), dd.Adjoint())
        }
        rows.append({"parameters": len(vector), **_microseconds(jobs, vector, 50)})
    crossover = {name: _crossover(rows, name) for name in ("Discrete", "Adjoint")}
    return {"rows": rows, "crossover": crossover}


def _crossover(rows: list[dict], route: str) -> float | None:
    """Where `Forward` begins to cost more than the route, on the logarithmic lines
    between the measurements."""
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
