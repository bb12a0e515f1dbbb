"""Fits by gradient descent: drive the compiled epochs, and collect the results."""

import time
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._loss.gradients import Discrete, check_data, check_inputs
from .._problem.parameters import Parameter, free_parameters, parameter_vector
from .._results.result import FitBatch, FitResult, Status
from .._solve.solution import check_steps
from .._util.errors import check_instance
from .._util.progress import Reporter
from . import epochs as _descent
from .descent_batches import Fits
from .epochs import Descent
from .optimizers import AbstractOptimizer
from .request import FitRequest

_STATUS = {
    _descent.RUNNING: Status.interrupted,
    _descent.FINISHED: Status.finished,
    _descent.REACHED: Status.threshold,
    _descent.SETTLED: Status.settled,
    _descent.FAILED: Status.failed,
    _descent.NO_START: Status.no_start,
}


def descend(request: FitRequest, *, record: bool) -> FitBatch:
    began = time.perf_counter()
    loss, optimizer, solver, sets = (
        request.loss,
        request.optimizer,
        request.solver,
        request.sets,
    )
    check_instance("optimizer", optimizer, AbstractOptimizer, "Adam(0.03)")
    assert isinstance(optimizer, AbstractOptimizer)
    gradient = Discrete() if request.gradient is None else request.gradient
    epochs = 500 if request.epochs is None else request.epochs
    for problem in {id(problem): problem for problem in request.problems}.values():
        check_inputs(problem, sets[0], loss, gradient, solver)
    for data in sets:
        check_data(data, sets[0].x.shape[1])
    n = check_steps(20 if request.steps_per_delay is None else request.steps_per_delay)
    if not isinstance(epochs, (int, np.integer)) or epochs < 0:
        raise ValueError(f"`epochs` must be an integer from 0 on, but got {epochs!r}.")
    names, start, z = _starts(request)
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
        jnp.asarray(float(request.threshold or 0.0)),
        int(epochs),
        start[0].dimension,
    )
    distinct = {id(problem): problem for problem in start}
    taus = {key: float(problem.tau) for key, problem in distinct.items()}
    tau = np.array([taus[id(problem)] for problem in start])
    fits = Fits(descent, z, sets, tau, n, record)
    with Reporter(request.progress, int(epochs), len(sets)) as reporter:
        fits.run(reporter)
    return _collect(request, fits, start, z, time.perf_counter() - began)


def _starts(request: FitRequest):
    """The layout that all fits share, each fit's problem at its start, and the free
    vectors as columns."""
    known: dict[Any, Any] = {}

    def find(problem, own, seed):
        settings = request.settings(own)
        random = any(
            isinstance(setting, Parameter) and isinstance(setting.start, str)
            for setting in settings.values()
        )
        # Fits that start alike share the work: there may be a hundred thousand.
        key = id(problem), id(own), seed if random else None
        if key not in known:
            known[key] = free_parameters(problem, settings, seed=seed)
        return known[key]

    found = [
        find(*each) for each in zip(request.problems, request.starts, request.seeds)
    ]
    names = found[0][0]
    constant = np.array(names.source) < 0
    first = parameter_vector(found[0][1])[constant]
    distinct = {id(each): (index, each) for index, each in enumerate(found)}
    for index, (other, problem, _) in distinct.values():
        if other != names:
            raise ValueError(f"Fit {index} has other parameters or bounds than fit 0.")
        if not np.array_equal(parameter_vector(problem)[constant], first):
            raise ValueError(
                f"Fit {index} has other values of the fixed parameters than fit 0; "
                "they must agree."
            )
    return names, [p for _, p, _ in found], np.stack([z for *_, z in found], axis=-1)


def _collect(request: FitRequest, fits: Fits, start, z, seconds: float) -> FitBatch:
    names, state = fits.descent.free, fits.state
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
            data=request.sets[index],
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
            model=request.model,
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
    names = fits.descent.free.names
    where = ", ".join(f"{n} = {v:.4g}" for n, v in list(zip(names, final))[:12])
    return f"{status.value} (Epoch {int(fits.state.epoch[index])}, at {where}.)"
