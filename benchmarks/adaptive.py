"""`DOP853` beside `Tsit5`, on smooth problems: the time at an error of 1e-9.

Each solver gets the largest tolerance with which the error, relative to the largest
value, is at most 1e-9 at all times. The figure is the time of `DOP853` over that of
`Tsit5`, inside of a compiled program."""

import time
from collections.abc import Callable, Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ddefind as dd
from ddefind._engine.adaptive.equation import ExtendedEquation
from ddefind._engine.adaptive.march import Tolerance, make_march
from ddefind._engine.adaptive.pieces import state_at

from ._report import Row, microseconds
from ._timing import in_turn, ratio

TITLE = "Adaptive steps at an error of 1e-9; figure: DOP853 over Tsit5"
_END, _ROWS, _ERROR = 20.0, 8192, 1e-9
_TIMES = np.linspace(0.0, _END, 203)
_TOLERANCES = 10.0 ** -np.arange(6.0, 12.6, 0.25)


def _oscillator(x, y, tau, t):
    return jnp.stack([x[1], -4.0 * x[0] - 0.3 * y[0]])


def _varying(t, x):
    return 1.0 + 0.3 * jnp.sin(t)


PROBLEMS = {
    "x' = -x(t - 1)": dd.Problem(lambda x, y, tau, t: -y, dd.Constant(1.0), 1.0),
    "logistic": dd.Problem(dd.models.Logistic(2.0, 1.0), dd.Constant(0.5), 0.9),
    "Mackey-Glass": dd.Problem(
        lambda x, y, tau, t: 2 * y / (1 + y**9.65) - x, dd.Constant(0.5), 2.0
    ),
    "delay 1 + 0.3 sin t": dd.Problem(
        lambda x, y, tau, t: x * (1 - y), dd.Constant(0.5), dd.Delay(_varying)
    ),
    "oscillator with feedback": dd.Problem(_oscillator, dd.Constant([1.0, 0.0]), 1.5),
}


def _program(problem: dd.Problem, solver) -> Callable[[float], jax.Array]:
    """Return the states at all times as a function of the tolerance."""
    equation, d = ExtendedEquation(problem), problem.dimension

    @jax.jit
    def states(rtol):
        march = make_march(equation, solver, _END)
        tolerance = Tolerance(rtol, jnp.asarray(-1.0))
        march = eqx.tree_at(lambda m: m.tolerance, march, tolerance)
        found = march.run(jnp.zeros((_ROWS, march.row_size)), 3 * _ROWS)
        return jax.vmap(lambda t: state_at(found.path, found.count, t, d))(_TIMES)

    return lambda rtol: jax.block_until_ready(states(rtol))


def rows() -> Iterator[Row]:
    for name, problem in PROBLEMS.items():
        exact = dd.solve(problem, _END, dd.Tsit5(2e-13, 1e-15), max_steps=60000)
        exact = np.asarray(exact(_TIMES))
        jobs, chosen = {}, {}
        for solver in (dd.Tsit5(), dd.DOP853()):
            program, kind = _program(problem, solver), type(solver).__name__
            for rtol in _TOLERANCES:
                error = np.max(np.abs(np.asarray(program(rtol)) - exact))
                if error <= _ERROR * np.max(np.abs(exact)):
                    break
            chosen[kind] = f"{kind} {rtol:.0e}: {error:.0e}"
            jobs[kind] = lambda program=program, rtol=rtol: program(rtol)
        seconds = in_turn(jobs, clock=time.process_time)
        figure = ratio(seconds["DOP853"], seconds["Tsit5"])
        measured = microseconds(float(np.median(seconds["DOP853"])))
        yield Row(name, measured, figure, 1.0, ", ".join(chosen.values()))
