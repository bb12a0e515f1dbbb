"""Many fits by the default, least squares: all data sets searched together, beside one
thread for each; and how the time grows with the fits, the data, the parameters and the
steps, and falls with the number of processes."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import ddefind as dd
from ddefind._fitting.request import FitOptions, FitTask
from ddefind._util.machine import cores
from ddefind.paper import EXPERIMENTS, Experiment

from ._report import Row

TITLE = "Many fits by least squares; figure: one thread per fit, times as long"
IS_LONG = True
_NOISE = 0.1
# The numbers of terms of x' = sum_i r_i x(t - tau)^i - d x.
_TERMS = (1, 2, 3, 4)
_PROCESSES = (1, 2)


def noisy(t: np.ndarray, x: np.ndarray, fits: int) -> dd.DataStack:
    sd = _NOISE * x.std(axis=0, ddof=1)
    noise = np.random.default_rng(0).normal(size=(fits, *x.shape))
    return dd.Data.stack(t, x + sd * noise)


def _seconds(job: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor seconds."""
    began = time.perf_counter(), time.process_time()
    job()
    return time.perf_counter() - began[0], time.process_time() - began[1]


def _alone(experiment: Experiment, sets: Sequence[dd.Data]) -> dd.Estimate:
    """Each fit on a thread of its own, as many at a time as there are cores."""
    method, blank = dd.LeastSquares(), experiment.blank
    options = FitOptions(progress=False)

    def one(number: int) -> dd.Estimate:
        task = FitTask((blank,), sets[number], experiment.bounds, number)
        return method.best_fit(task, options, 1)

    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(one, range(len(sets))))[0]


def _beside_threads(experiment: Experiment, fits: int) -> Row:
    clean = experiment.clean
    stack = noisy(clean.t, clean.x, fits)
    options: dict[str, Any] = dict(parameters=experiment.bounds, progress=False)
    dd.fit_many(experiment.blank, stack[:4], **options)
    _alone(experiment, list(stack[:4]))
    together = _seconds(lambda: dd.fit_many(experiment.blank, stack, **options))
    alone = _seconds(lambda: _alone(experiment, list(stack)))
    note = (
        f"processor {1e3 * together[1] / fits:.3g} ms a fit; alone "
        f"{1e3 * alone[0] / fits:.3g} ms, processor {1e3 * alone[1] / fits:.3g} ms"
    )
    measured = f"{1e3 * together[0] / fits:.3g} ms"
    times = alone[0] / together[0]
    return Row(f"{experiment.title}, {fits} sets", measured, times, None, note)


def _growth(what: str, problem: Any, stack: dd.DataStack, **options: Any) -> Row:
    options = dict(progress=False, **options)
    dd.fit_many(problem, stack[:4], **options)
    wall, processor = _seconds(lambda: dd.fit_many(problem, stack, **options))
    note = f"wall {1e3 * wall / len(stack):.3g} ms"
    return Row(what, f"{1e3 * processor / len(stack):.3g} ms", None, None, note)


def rows() -> Iterator[Row]:
    for name, fits in {"exponential": 1000, "logistic": 300, "hiv": 60}.items():
        yield _beside_threads(EXPERIMENTS[name], fits)
    model = EXPERIMENTS["exponential"]
    options: dict[str, Any] = dict(parameters=model.bounds)
    true = dd.solve(model.true, model.clean.T)
    for fits in (10, 100, 1000, 4000):
        stack = noisy(model.clean.t, model.clean.x, fits)
        yield _growth(f"{fits} fits: a fit", model.blank, stack, **options)
    for points in (25, 50, 100, 200, 400):
        t = np.linspace(0, model.clean.T, points)
        stack = noisy(t, np.asarray(true(t)), 100)
        yield _growth(f"{points} points: a fit", model.blank, stack, **options)
    for count in _TERMS:
        rates = " + ".join(f"r{i} * x(t - tau) ** {i}" for i in range(1, count + 1))
        equation = dd.equation(f"x' = {rates} - d * x")
        values: dict[str, Any] = dict(d=0.6, tau=1.0, b=0.3)
        for i in range(1, count + 1):
            values[f"r{i}"] = 1.2 * (-0.4) ** (i - 1)
        known = equation.problem(**values)
        t = np.linspace(0, 12, 100)
        stack = noisy(t, np.asarray(dd.solve(known, 12)(t)), 40)
        yield _growth(f"{count + 3} parameters: a fit", equation, stack)
    for steps in (10, 20, 40, 80):
        stack = noisy(model.clean.t, model.clean.x, 100)
        what = f"{steps} steps per delay: a fit"
        yield _growth(what, model.blank, stack, steps_per_delay=steps, **options)
    stack = noisy(model.clean.t, model.clean.x, 2000)
    for count in _PROCESSES:
        options["executor"] = count
        wall, _ = _seconds(
            lambda: dd.fit_many(model.blank, stack, progress=False, **options)
        )
        what = f"{len(stack)} fits by {count} processes, all in: a fit"
        yield Row(what, f"wall {1e3 * wall / len(stack):.3g} ms", None, None, "")
