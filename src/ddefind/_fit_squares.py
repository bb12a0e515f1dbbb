"""Fits by least squares: one with all cores, or many beside each other."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np

from ._data import Data
from ._estimate import Estimate, make_estimate
from ._gradient import Discrete, check_inputs
from ._job import Job
from ._optimizer import LeastSquares
from ._problem import Problem
from ._progress import Reporter
from ._refine import Fitted
from ._result import FitBatch
from ._search import PHASES, search
from ._setting import cores, make_setting
from ._solve import check_steps


def least_squares(job: Job) -> FitBatch:
    """Least squares of each data set."""
    began = time.perf_counter()
    alone = len(job.sets) == 1
    total = len(PHASES) if alone else len(job.sets)
    tasks = zip(job.problems, job.sets, job.starts, job.seeds)
    with Reporter(job.progress, total, len(job.sets)) as reporter:
        if alone:
            problem, data, own, seed = next(tasks)
            workers = cores()
            found = [_one(job, problem, data, own, seed, reporter.show, workers)]
        else:
            found = _beside(job, tasks, reporter)
    return _batch(found, time.perf_counter() - began)


def _one(
    job: Job,
    problem: Problem,
    data: Data,
    own: Mapping[str, float],
    seed: int,
    report: Callable | None,
    workers: int,
) -> Estimate:
    began = time.perf_counter()
    optimizer = job.optimizer
    assert isinstance(optimizer, LeastSquares)
    check_inputs(problem, data, job.loss, Discrete(), job.solver)
    setting, problem = make_setting(
        problem,
        data,
        job.settings(own),
        job.solver,
        check_steps(10 if job.steps_per_delay is None else job.steps_per_delay),
        optimizer.huber,
        seed,
        workers,
    )

    def told(phase: str, fitted: Fitted) -> None:
        if report is not None:
            best = int(np.argmin(fitted.loss))
            tau = setting.delay(fitted.z)[best]
            report(phase, PHASES.index(phase) + 1, 0, fitted.loss[best], tau)

    searched = search(setting, optimizer.starts, seed, told)
    seconds = time.perf_counter() - began
    return make_estimate(setting, problem, searched, seed, seconds, job.model)


def _beside(job: Job, tasks: Iterable, reporter: Reporter) -> list[Estimate]:
    """All fits, as many at a time as there are cores; the first one compiles for
    all."""
    found = []

    def one(task: tuple) -> Estimate:
        problem, data, own, seed = task
        return _one(job, problem, data, own, seed, None, 1)

    tasks = iter(tasks)
    with ThreadPoolExecutor(cores()) as pool:
        for estimate in chain([one(next(tasks))], pool.map(one, tasks)):
            found.append(estimate)
            done, tau = len(found), float(estimate.problem.tau)
            reporter.show("fits", done, done, estimate.loss, tau)
    return found


def _batch(found: list[Estimate], seconds: float) -> FitBatch:
    best = np.stack([each.best for each in found])
    return FitBatch(
        names=found[0].names,
        best=best,
        first=np.stack([each.setting.guess for each in found]),
        final=best,
        loss=np.array([each.loss for each in found]),
        statuses=tuple(each.status for each in found),
        epochs=np.array([each.searched.evaluations for each in found]),
        seconds=seconds,
        results=lambda index: found[index],
    )
