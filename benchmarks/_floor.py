"""The same fits in hand-written C, compiled here and checked against ddefind."""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.interpolate import CubicSpline

import ddefind as dd

from ._cases import STEPS_PER_DELAY, Case
from ._loops import RATE

_ROWS = 1024  # of the tables in floor.c


def compiler() -> str | None:
    return shutil.which("cc")


@functools.cache
def _library(model: str) -> ctypes.CDLL:
    source = Path(__file__).with_name("floor.c")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "floor.so"
        flags = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
        command = [compiler(), *flags, f"-D{model}", source, "-o", target, "-lm"]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(target))


def _tables(case: Case, loss) -> tuple[str, np.ndarray, np.ndarray]:
    """The function for this loss, and the two tables that it reads."""
    if isinstance(loss, dd.SumOfSquares):
        return "descend_at_times", case.data.t.copy(), case.data.x.copy()
    spline = CubicSpline(case.data.t, case.data.x)
    nodes = np.arange(_ROWS) * float(case.problem.tau) / STEPS_PER_DELAY
    return "descend_at_nodes", spline(nodes), spline(nodes, nu=1)


def floor_loop(case: Case, loss, epochs: int) -> Callable[[], object]:
    """A job of `epochs` steps of gradient descent in C."""
    function, first, second = _tables(case, loss)
    descend = getattr(_library(case.name.upper()), function)
    descend.restype = ctypes.c_double
    params = eqx.filter(case.problem, eqx.is_inexact_array)
    start = np.array(ravel_pytree(params)[0])
    gradient = np.empty_like(start)

    def pointer(array):
        return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))

    def run(epochs=epochs, rate=RATE):
        moved = start.copy()
        tables = pointer(first), pointer(second), ctypes.c_int(len(case.data))
        clock = ctypes.c_long(epochs), ctypes.c_double(rate)
        T = ctypes.c_double(case.data.T)
        return descend(*clock, pointer(moved), T, *tables, pointer(gradient))

    _check(case, loss, run(epochs=1), gradient)
    return run


def _check(case: Case, loss, value: float, gradient: np.ndarray) -> None:
    """The floor must stand under the same computation."""
    expected, slope = dd.value_and_grad(
        case.problem,
        case.data,
        loss=loss,
        solver=dd.RK2(),
        steps_per_delay=STEPS_PER_DELAY,
    )
    np.testing.assert_allclose(value, expected, rtol=1e-9)
    slope = np.asarray(ravel_pytree(slope)[0])
    np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-9 * abs(slope).max())
