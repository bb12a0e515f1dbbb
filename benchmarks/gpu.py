"""A hundred thousand fits on a GPU, after compilation, all in; beside the processor."""

import time
from collections.abc import Iterator
from typing import Any

import ddefind as dd
from ddefind._programs.kernels import has_gpu
from ddefind._programs.program import LEAST_FOR_GPU
from ddefind.paper import EXPERIMENTS

from ._report import Row
from .many import noisy

TITLE = "Many fits on a GPU; figure: seconds"
IS_LONG = True
_FITS, _FEW = 100_000, 5_000
# So few fits are made on the processor.
_FEWEST = LEAST_FOR_GPU // 2
_GOALS = {"exponential": 3.0, "logistic": 3.0, "hiv": 8.0}


def _seconds(fits: int, name: str, optimizer: Any, **options: Any) -> float:
    """The time of so many fits, when their program is known."""
    experiment = EXPERIMENTS[name]
    descends = isinstance(optimizer, dd.Adam)
    problem = experiment.start if descends else experiment.blank
    if not descends:
        options["parameters"] = experiment.bounds
    options |= dict(optimizer=optimizer, progress=False)
    stack = noisy(experiment.clean.t, experiment.clean.x, fits)
    for _ in range(2):
        began = time.perf_counter()
        dd.fit_many(problem, stack, **options)
    return time.perf_counter() - began


def rows() -> Iterator[Row]:
    if not has_gpu():
        yield Row("there is no GPU, or no CuPy", "-")
        return
    for name, goal in _GOALS.items():
        seconds = _seconds(_FITS, name, dd.Adam(0.03), epochs=500)
        what = f"{name}: Adam, {_FITS:,} x 500 epochs"
        nanoseconds = 1e9 * seconds / _FITS / 500
        yield Row(what, f"{nanoseconds:.3g} ns", seconds, goal, "an epoch of a fit")
    method = dd.LeastSquares(starts=8)
    seconds = _seconds(_FITS, "exponential", method)
    what = f"exponential: least squares, {_FITS:,} x 8 starts"
    yield Row(what, f"{1e3 * seconds / _FITS:.3g} ms", seconds, 10.0, "a fit")
    for name in _GOALS:
        few = _seconds(_FEW, name, method)
        beside = _seconds(_FEWEST, name, method) / _FEWEST
        note = f"a fit; on the processor {1e3 * beside:.3g} ms"
        what = f"{name}: least squares, {_FEW:,} x 8 starts"
        yield Row(what, f"{1e3 * few / _FEW:.3g} ms", few, None, note)
