"""Fits by least squares: one with all cores, or many beside each other."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np

from .._data.data import Data
from .._least_squares.batches import RefinedFits
from .._least_squares.search import PHASES, search
from .._least_squares.setup import make_setup
from .._loss.gradients import Discrete, check_inputs
from .._problem.problem import Problem
from .._results.estimate import Estimate, make_estimate
from .._results.result import FitBatch
from .._solve.solution import check_steps
from .._util.cores import cores
from .._util.progress import Reporter
from .optimizers import LeastSquares
from .request import FitRequest


def least_squares(request: FitRequest) -> FitBatch:
    """Least squares of each data set."""
    began = time.perf_counter()
    alone = len(request.sets) == 1
    total = len(PHASES) if alone else len(request.sets)
    tasks = zip(request.problems, request.sets, request.starts, request.seeds)
    with Reporter(request.progress, total, len(request.sets)) as reporter:
        if alone:
            problem, data, own, seed = next(tasks)
            workers = cores()
            found = [_one(request, problem, data, own, seed, reporter.show, workers)]
        else:
            found = _beside(request, tasks, reporter)
    return _batch(found, time.perf_counter() - began)


def _one(
    request: FitRequest,
    problem: Problem,
    data: Data,
    own: Mapping[str, float],
    seed: int,
    report: Callable | None,
    workers: int,
) -> Estimate:
    began = time.perf_counter()
    optimizer = request.optimizer
    assert isinstance(optimizer, LeastSquares)
    check_inputs(problem, data, request.loss, Discrete(), request.solver)
    setup, problem = make_setup(
        problem,
        data,
        request.settings(own),
        request.solver,
        check_steps(10 if request.steps_per_delay is None else request.steps_per_delay),
        optimizer.huber,
        seed,
        workers,
    )

    def told(phase: str, fitted: RefinedFits) -> None:
        if report is not None:
            best = int(np.argmin(fitted.loss))
            tau = setup.delay(fitted.theta)[best]
            report(phase, PHASES.index(phase) + 1, 0, fitted.loss[best], tau)

    search_result = search(setup, optimizer.starts, seed, told)
    seconds = time.perf_counter() - began
    return make_estimate(setup, problem, search_result, seed, seconds, request.model)


def _beside(request: FitRequest, tasks: Iterable, reporter: Reporter) -> list[Estimate]:
    """All fits, as many at a time as there are cores; the first one compiles for
    all."""
    found = []

    def one(task: tuple) -> Estimate:
        problem, data, own, seed = task
        return _one(request, problem, data, own, seed, None, 1)

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
        first=np.stack([each.setup.guess for each in found]),
        final=best,
        loss=np.array([each.loss for each in found]),
        statuses=tuple(each.status for each in found),
        epochs=np.array([each.search_result.evaluations for each in found]),
        seconds=seconds,
        results=lambda index: found[index],
    )
