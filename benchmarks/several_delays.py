"""Several delays: the cost of a gradient and of least squares, over that of one."""

import time
from collections.abc import Callable, Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import ddefind as dd
from ddefind._engine.choose import engine_for
from ddefind._engine.engine import System
from ddefind._engine.mesh.engine import MESH_CAPACITY
from ddefind._problem.parameters import parameter_vector
from ddefind._search.make_setup import make_setup
from ddefind._search.normal_equations import normal_equations

from ._loops import RATE
from ._report import Row, microseconds
from ._timing import in_turn, ratio

TITLE = "Several delays (RK4, 100 steps, 101 values); figure: over one delay"
_DELAYS = (1.0, 1.618, 2.303)
_GOALS = {1: None, 2: 2.4, 3: 3.3}
_EPOCHS, _END = 300, 10.0
_TIMES = np.linspace(0.0, _END, 101)


@eqx.filter_jit
def _descend(problem: dd.Problem, target, engine, grid) -> dd.Problem:
    params, fixed = eqx.partition(problem, eqx.is_inexact_array)
    system = System(fixed, engine, grid, jnp.asarray(_END), problem.dimension)
    route, loss = dd.Discrete(), dd.SumOfSquares()

    def epoch(_, carry):
        params, buffers = carry
        _, slope, buffers = route(system, loss, target, params, buffers)
        return jax.tree.map(lambda p, g: p - RATE * g, params, slope), buffers

    return lax.fori_loop(0, _EPOCHS, epoch, (params, route.buffers(system)))[0]


@eqx.filter_jit
def _linearise(model, theta, points, n) -> jax.Array:
    end = points.times[-1]
    steps = model.steps(theta, n, end, MESH_CAPACITY)
    memory = model.sensitivity(theta, steps, end).memory(MESH_CAPACITY)

    def evaluation(_, carry):
        theta, memory = carry
        normal, memory = normal_equations(model, theta, points, steps, memory)
        return theta - RATE * normal.gram[0, 1:], memory

    return lax.fori_loop(0, _EPOCHS, evaluation, (theta, memory))[0]


def _problem(delays: int, d: int) -> dd.Problem:
    """A logistic equation with a further feedback for each further delay."""

    def rhs(x, y, tau, t):
        states = jax.tree.leaves(y)
        further = sum((0.5 * x * state for state in states[1:]), 0.0)
        return 1.4 * x * (1 - states[0]) - further

    tau = _DELAYS[0] if delays == 1 else _DELAYS[:delays]
    return dd.Problem(rhs, dd.Affine(np.full(d, 0.1), np.full(d, 0.5)), tau)


def _jobs(delays: int, d: int) -> dict[str, Callable[[], object]]:
    problem = _problem(delays, d)
    data = dd.Data(_TIMES, np.ones((len(_TIMES), d)))
    step = None if delays == 1 else _DELAYS[0] / 10
    engine = engine_for(problem, dd.RK4(), _END, step)
    grid = engine.grid(problem, _END, 10)
    target = dd.SumOfSquares().prepare(data)
    setup, _ = make_setup(problem, data, None, dd.RK4(), 10)
    theta, points = jnp.asarray(parameter_vector(problem)), setup.points(np.ones(d))
    n = jnp.asarray(10 if delays == 1 else 100)
    return {
        "gradient": lambda: jax.block_until_ready(
            _descend(problem, target, engine, grid)
        ),
        "least squares": lambda: jax.block_until_ready(
            _linearise(setup.model, theta, points, n)
        ),
    }


def rows() -> Iterator[Row]:
    for d in (1, 3):
        jobs, compilation = {}, {}
        for delays in _GOALS:
            for what, job in _jobs(delays, d).items():
                begin = time.perf_counter()
                job()
                jobs[f"{what} {delays}"] = job
                compilation[f"{what} {delays}"] = time.perf_counter() - begin
        seconds = in_turn(jobs, repeats=11, clock=time.process_time)
        for name, each in seconds.items():
            what, delays = name.rsplit(" ", 1)
            note = f"compilation {compilation[name]:.2f} s"
            yield Row(
                f"{what}, {delays} delays, {d} states",
                microseconds(float(np.median(each)) / _EPOCHS),
                ratio(each, seconds[f"{what} 1"]),
                _GOALS[int(delays)],
                note,
            )
