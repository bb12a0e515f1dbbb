"""Whole least-squares fits of the paper's experiments, without start values, and one
refinement beside scipy's."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

import ddefind as dd
from ddefind._engine.aligned.engine import CAPACITY
from ddefind._search.batches import refine
from ddefind._util.arrays import write
from ddefind.paper import EXPERIMENTS, Experiment

from ._report import Row, microseconds
from ._timing import in_fresh_process, in_turn, ratio

TITLE = "Least squares, the paper's data at noise 0.1; figure: seconds, or times scipy"
_NOISE, _SETS = 0.1, 10
# Refinements that are timed together: what a call costs falls out.
_TOGETHER = 64
_COMPILE = """
import time
import ddefind as dd
from ddefind.paper import EXPERIMENTS

experiment, seconds = EXPERIMENTS["{model}"], []
for repeat in range(2):
    data = experiment.data(0.1, repeat, exact=True)
    start = time.perf_counter()
    dd.fit(
        experiment.blank,
        data,
        parameters=experiment.bounds,
        intervals=False,
        progress=False,
    )
    seconds.append(time.perf_counter() - start)
print(seconds[0] - seconds[1])
"""


def _fit(experiment: Experiment, repeat: int) -> dd.Estimate:
    data = experiment.data(_NOISE, repeat, exact=True)
    return dd.fit(
        experiment.blank,
        data,
        parameters=experiment.bounds,
        optimizer=dd.LeastSquares(),
        intervals=False,
        progress=False,
    )


def _whole(experiment: Experiment) -> Row:
    """All starts, phases and steps of a fit, after compilation; the note has its
    intervals, which are not in the figure."""
    _fit(experiment, 0).with_intervals()
    seconds, busy, starts, intervals = [], [], [], []
    for repeat in range(1, 1 + _SETS):
        begin = time.perf_counter(), time.process_time()
        found = _fit(experiment, repeat)
        seconds.append(time.perf_counter() - begin[0])
        busy.append(time.process_time() - begin[1])
        starts.append(found.starts)
        began = time.perf_counter()
        found.with_intervals()
        intervals.append(time.perf_counter() - began)
    median = float(np.median(seconds))
    note = (
        f"{np.median(starts):.0f} starts, {1e3 * np.median(busy):.0f} ms of processor; "
        f"intervals {1e3 * np.median(intervals):.0f} ms"
    )
    what = f"{experiment.title}: a fit"
    return Row(what, f"{1e3 * median:.0f} ms", median, 0.1, note)


def _residuals(found: dd.Estimate) -> Callable:
    """A compiled function of the free values: weighted residuals, and their
    Jacobian."""
    points = jax.tree.map(jnp.asarray, found.search_result.points)
    model, n = found.setup.model, found.steps_per_delay
    roots = jnp.sqrt(jnp.broadcast_to(points.weights, points.values.shape))

    @jax.jit
    def rows(z):
        steps = model.steps(z, n, points.times[-1], CAPACITY)
        sensitivity = model.sensitivity(z, steps, points.times[-1])
        empty = jnp.zeros((*points.values.shape, 1 + z.shape[0]))
        memory = sensitivity.memory(CAPACITY)
        seen, _ = sensitivity.visit(
            points, (0, len(points.times)), memory, write, empty
        )
        residual = roots * (seen[..., 0] - points.values)
        slopes = roots[..., None] * seen[..., 1:]
        return residual.ravel(), slopes.reshape(-1, z.shape[0])

    return lambda z: tuple(map(np.asarray, rows(z)))


def _by_scipy(found: dd.Estimate, start: np.ndarray) -> Callable[[], int]:
    """A job: scipy's least squares from `start`, which returns its evaluations. Values
    and Jacobian come from one call."""
    rows = _residuals(found)
    known: dict[bytes, tuple] = {}

    def at(z: np.ndarray) -> tuple:
        key = z.tobytes()
        if key not in known:
            known.clear()
            known[key] = rows(z)
        return known[key]

    def run() -> int:
        bounds = (found.setup.lower, found.setup.upper)
        jacobian: Any = lambda z: at(z)[1]  # noqa: E731
        ended = least_squares(
            lambda z: at(z)[0],
            start,
            jacobian,
            bounds=bounds,
            x_scale="jac",
            ftol=1e-11,
            xtol=1e-11,
            gtol=1e-11,
        )
        np.testing.assert_allclose(2 * ended.cost, best, rtol=1e-6)
        return ended.nfev

    best = float(found.search_result.best.loss[0])
    return run


def _refinement(experiment: Experiment) -> Row:
    """One start near the best fit, refined: microseconds of an evaluation with its
    share of the step, and the time of the whole beside scipy's."""
    found = _fit(experiment, 0)
    setting, points = found.setup, found.search_result.points
    start = np.clip(1.02 * found.best, setting.lower, setting.upper)
    z, n = np.tile(start, (_TOGETHER, 1)), np.full(_TOGETHER, found.steps_per_delay)

    def ours() -> int:
        return int(refine(setting, z, points, n).evaluations.sum())

    theirs = _by_scipy(found, start)
    evaluations, by_scipy = ours(), theirs()
    seconds = in_turn({"ours": ours, "scipy": theirs}, 11, time.process_time)
    measured = microseconds(np.median(seconds["ours"]) / evaluations)
    scipy = microseconds(np.median(seconds["scipy"]) / by_scipy)
    times = ratio(seconds["ours"] / _TOGETHER, seconds["scipy"])
    note = f"{evaluations // _TOGETHER} evaluations; scipy {by_scipy} of {scipy}"
    return Row(f"{experiment.title}: an evaluation", measured, times, 1, note)


def _paper() -> Row:
    """Every table of the paper with our default, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ddefind", "paper", "--protocol", "best"]
        begin = time.perf_counter()
        subprocess.run(
            [*command, "--out", folder], check=True, stdout=subprocess.DEVNULL
        )
        seconds = time.perf_counter() - begin
    return Row("300 fits of `paper`, all in", f"{seconds:.1f} s", seconds, 30)


def rows() -> Iterator[Row]:
    for experiment in EXPERIMENTS.values():
        yield _whole(experiment)
    for experiment in EXPERIMENTS.values():
        yield _refinement(experiment)
    for model in ("logistic", "hiv"):
        code = _COMPILE.format(model=model)
        seconds = [in_fresh_process(code, os.environ) for _ in range(3)]
        median = float(np.median(seconds))
        what = f"{EXPERIMENTS[model].title}: compilation"
        yield Row(what, f"{median:.2f} s", median, 1.5)
    yield _paper()
