"""The error of each known problem at three tolerances, and the work."""

import math
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from tests.support.delay_problems import ALL, Known

import ddefind as dd
from ddefind._engine.adaptive.equation import ExtendedEquation
from ddefind._engine.adaptive.march import REACHED_END, make_march
from ddefind._engine.adaptive.solution import as_path, explain, march_compiled

TOLERANCES = (1e-4, 1e-6, 1e-8)
_ROWS, _TRIES, _REPEATS = 8192, 65536, 5


def measure() -> list[dict]:
    """One row for each problem, with its results in the order of the tolerances."""
    rows = []
    for known in ALL.values():
        found = [measure_one(known, rtol) for rtol in TOLERANCES]
        rows.append({"name": known.name, "results": found})
        print(json_line(rows[-1]), flush=True)
    return rows


def json_line(row: dict) -> str:
    parts = (f"{each.get('error', float('nan')):.1e}" for each in row["results"])
    return f"{row['name']}: {', '.join(parts)}"


def measure_one(known: Known, rtol: float) -> dict[str, Any]:
    """The error, the numbers of steps and tries, and microseconds after compilation; or
    the message of an error."""
    solver = known.solver(rtol)
    result = march_compiled(known.problem, known.T, solver, "forward", _ROWS, math.inf)
    if int(result.status) != REACHED_END:
        return {"message": explain(known.problem, known.T, solver, result)}
    states = jax.vmap(as_path(known.problem, result))(jnp.asarray(known.times()))
    return {
        "error": float(f"{known.error(states):.3g}"),
        "steps": int(result.count),
        "tries": int(result.tries),
        "microseconds": float(f"{microseconds(known.problem, known.T, solver):.3g}"),
    }


def microseconds(problem: dd.Problem, T: float, solver: Any) -> float:
    """The time of one solution after compilation: the shortest of some rounds, each of
    which takes about 20 ms in one program, so that calls count for little."""
    many = _repeated(problem, T, solver)
    one = min(_seconds(lambda: many(1)) for _ in range(2))
    count = max(1, int(0.02 / one))
    rounds = [_seconds(lambda: many(count)) / count for _ in range(_REPEATS)]
    return 1e6 * min(rounds)


def _seconds(job) -> float:
    begin = time.perf_counter()
    jax.block_until_ready(job())
    return time.perf_counter() - begin


def _repeated(problem: dd.Problem, T: float, solver: Any):
    params, fixed = eqx.partition(problem, eqx.is_inexact_array)

    @jax.jit
    def program(params, count):
        equation = ExtendedEquation(eqx.combine(params, fixed))

        def body(_, carry):
            # Each solution depends on the one before, so that none is left out.
            total, path = carry
            result = make_march(equation, solver, T + 0.0 * total).run(path, _TRIES)
            return total + jnp.sum(result.x), result.path

        width = make_march(equation, solver, T).row_size
        carry = (jnp.zeros(()), jnp.zeros((_ROWS, width)))
        return lax.fori_loop(0, count, body, carry)[0]

    program(params, np.int64(1))
    return lambda count: program(params, np.int64(count))
