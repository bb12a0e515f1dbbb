"""Mackey-Glass (A1) by JiTCDDE and by this package: error and time of one solution.

Both are timed after compilation, on the same machine in the same run. JiTCDDE runs in
an interpreter of its own, and is left out where there is none that has it."""

import json
import os
import subprocess
import sys
import tempfile
import time

import jax
from tests.support.delay_problems import ALL

import ddefind as dd

from .solutions import microseconds

_TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
_PROGRAM = """
import json, sys, time, warnings
import jitcdde
from jitcdde import t, y

warnings.simplefilter("ignore")
times, tolerances = json.loads(sys.argv[1])
begin = time.perf_counter()
past = y(0, t - 14)
dde = jitcdde.jitcdde([0.2 * past / (1 + past**10) - 0.1 * y(0)], verbose=False)
dde.compile_C()
compilation = time.perf_counter() - begin
rows = []
for rtol in tolerances:
    seconds = []
    for _ in range(7):
        dde.purge_past()
        dde.constant_past([0.5])
        dde.set_integration_parameters(
            rtol=rtol, atol=1e-3 * rtol, first_step=0.1, max_step=10
        )
        begin = time.perf_counter()
        dde.step_on_discontinuities()
        states = [float(dde.integrate(time)[0]) for time in times]
        seconds.append(time.perf_counter() - begin)
    rows.append([rtol, states, 1e6 * min(seconds)])
print(json.dumps([jitcdde.__version__, compilation, rows]))
"""


def measure() -> dict | None:
    """The errors and times of both, or None without JiTCDDE."""
    known = ALL["A1"]
    times = known.times().tolist()
    python = os.environ.get("JITCDDE_PYTHON", sys.executable)
    # It compiles with setuptools, which would read the settings of this project.
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, "-c", _PROGRAM, json.dumps([times, _TOLERANCES])],
            capture_output=True,
            text=True,
            cwd=folder,
        )
    if done.returncode != 0:
        print(f"JiTCDDE could not be measured: {done.stderr.strip()[-200:]}")
        return None
    version, compilation, rows = json.loads(done.stdout.splitlines()[-1])
    theirs = [
        {"rtol": rtol, "error": _error(states), "microseconds": round(microseconds)}
        for rtol, states, microseconds in rows
    ]
    ours = []
    for rtol in _TOLERANCES:
        solver = dd.Tsit5(rtol)
        states = dd.solve(known.problem, known.T, solver)(known.times())
        spent = microseconds(known.problem, known.T, solver)
        error = float(f"{known.error(states):.3g}")
        ours.append({"rtol": rtol, "error": error, "microseconds": round(spent, 1)})
    return {
        "version": version,
        "compilation": round(compilation, 1),
        "own_compilation": round(_own_compilation(), 1),
        "theirs": theirs,
        "ours": ours,
    }


def _error(states: list[float]) -> float:
    return float(f"{ALL['A1'].error([[state] for state in states]):.3g}")


def _own_compilation() -> float:
    """Seconds until the first solution, less those of the second."""
    known, seconds = ALL["A1"], []
    jax.config.update("jax_enable_compilation_cache", False)
    for _ in range(2):
        begin = time.perf_counter()
        # A tolerance that was not used before is compiled again.
        jax.block_until_ready(dd.solve(known.problem, known.T, dd.Tsit5(3e-7)).x)
        seconds.append(time.perf_counter() - begin)
    jax.config.update("jax_enable_compilation_cache", True)
    return seconds[0] - seconds[1]
