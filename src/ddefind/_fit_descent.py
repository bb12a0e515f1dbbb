"""Fits by gradient descent: drive the compiled epochs, and collect the results."""

import time
from typing import Any

import jax.numpy as jnp
import numpy as np

from . import _descent
from ._blocks import Fits
from ._descent import Descent
from ._errors import check_instance
from ._gradient import Discrete, check_data, check_inputs
from ._job import Job
from ._optimizer import AbstractOptimizer
from ._parameters import Parameter, layout, values
from ._progress import Reporter
from ._result import FitBatch, FitResult, Status
from ._solve import check_steps

_STATUS = {
    _descent.RUNNING: Status.interrupted,
    _descent.FINISHED: Status.finished,
    _descent.REACHED: Status.threshold,
    _descent.SETTLED: Status.settled,
    _descent.FAILED: Status.failed,
    _descent.NO_START: Status.no_start,
}


def descend(job: Job, *, record: bool) -> FitBatch:
    began = time.perf_counter()
    loss, optimizer, solver, sets = job.loss, job.optimizer, job.solver, job.sets
    check_instance("optimizer", optimizer, AbstractOptimizer, "Adam(0.03)")
    assert isinstance(optimizer, AbstractOptimizer)
    gradient = Discrete() if job.gradient is None else job.gradient
    epochs = 500 if job.epochs is None else job.epochs
    for problem in {id(problem): problem for problem in job.problems}.values():
        check_inputs(problem, sets[0], loss, gradient, solver)
    for data in sets:
        check_data(data, sets[0].x.shape[1])
    n = check_steps(20 if job.steps_per_delay is None else job.steps_per_delay)
    if not isinstance(epochs, (int, np.integer)) or epochs < 0:
        raise ValueError(f"`epochs` must be an integer from 0 on, but got {epochs!r}.")
    names, start, z = _starts(job)
    if not names.names:
        raise ValueError("Every parameter is fixed: there is nothing to learn.")
    learned, fixed = names.split(start[0])
    descent = Descent(
        names,
        learned,
        fixed,
        loss,
        optimizer,
        gradient,
        solver,
        jnp.asarray(float(job.threshold or 0.0)),
        int(epochs),
        start[0].dimension,
    )
    distinct = {id(problem): problem for problem in start}
    taus = {key: float(problem.tau) for key, problem in distinct.items()}
    tau = np.array([taus[id(problem)] for problem in start])
    fits = Fits(descent, z, sets, tau, n, record)
    with Reporter(job.progress, int(epochs), len(sets)) as reporter:
        fits.run(reporter)
    return _collect(job, fits, start, z, time.perf_counter() - began)


def _starts(job: Job):
    """The layout that all fits share, each fit's problem at its start, and the free
    vectors as columns."""
    known: dict[Any, Any] = {}

    def find(problem, own, seed):
        settings = job.settings(own)
        random = any(
            isinstance(setting, Parameter) and isinstance(setting.start, str)
            for setting in settings.values()
        )
        # Fits that start alike share the work: there may be a hundred thousand.
        key = id(problem), id(own), seed if random else None
        if key not in known:
            known[key] = layout(problem, settings, seed=seed)
        return known[key]

    found = [find(*each) for each in zip(job.problems, job.starts, job.seeds)]
    names = found[0][0]
    constant = np.array(names.source) < 0
    first = values(found[0][1])[constant]
    distinct = {id(each): (index, each) for index, each in enumerate(found)}
    for index, (other, problem, _) in distinct.values():
        if other != names:
            raise ValueError(f"Fit {index} has other parameters or bounds than fit 0.")
        if not np.array_equal(values(problem)[constant], first):
            raise ValueError(
                f"Fit {index} has other values of the fixed parameters than fit 0; "
                "they must agree."
            )
    return names, [p for _, p, _ in found], np.stack([z for *_, z in found], axis=-1)


def _collect(job: Job, fits: Fits, start, z, seconds: float) -> FitBatch:
    names, state = fits.descent.layout, fits.state
    first, best, final = (
        np.asarray(names.transform(v)).T for v in (z, state.best, state.z)
    )
    statuses = tuple(_STATUS[int(code)] for code in state.status)

    def result(index: int) -> FitResult:
        losses, path = fits.history(index)
        if path is not None:
            path = np.asarray(names.transform(path.T)).T
        return FitResult(
            problem=names.problem(state.best[:, index], start[index]),
            start=start[index],
            data=job.sets[index],
            names=names.names,
            best=best[index],
            first=first[index],
            final=final[index],
            loss=float(state.best_loss[index]),
            losses=losses,
            path=path,
            status=statuses[index],
            message=_message(fits, index, final[index], statuses[index]),
            epochs=int(state.epoch[index]),
            seconds=seconds,
            solver=fits.descent.solver,
            steps_per_delay=fits.n,
            model=job.model,
        )

    return FitBatch(
        names=names.names,
        best=best,
        first=first,
        final=final,
        loss=state.best_loss,
        statuses=statuses,
        epochs=state.epoch,
        seconds=seconds,
        results=result,
    )


def _message(fits: Fits, index: int, final: np.ndarray, status: Status) -> str:
    if status not in (Status.failed, Status.no_start):
        return status.value
    names = fits.descent.layout.names
    where = ", ".join(f"{n} = {v:.4g}" for n, v in list(zip(names, final))[:12])
    return f"{status.value} (Epoch {int(fits.state.epoch[index])}, at {where}.)"
