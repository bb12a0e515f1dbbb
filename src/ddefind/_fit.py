"""`fit` and `fit_many`: drive the compiled descent, report, and collect the results."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from . import _descent
from ._blocks import Fits
from ._data import Data
from ._descent import Descent
from ._errors import check_instance
from ._estimate import make_estimate
from ._gradient import AbstractGradient, Discrete, check_data, check_inputs
from ._loss import AbstractLoss, SumOfSquares
from ._optimizer import AbstractOptimizer, Adam, LeastSquares
from ._parameters import Parameter, layout, values
from ._problem import Problem
from ._progress import Progress, Reporter
from ._result import FitBatch, FitResult, Status
from ._search import search
from ._setting import cores, make_setting
from ._solve import check_steps
from ._solver import RK4, AbstractSolver

# Above, the normal equations cost more than they save.
_MOST_FOR_LEAST_SQUARES = 200

_STATUS = {
    _descent.RUNNING: Status.interrupted,
    _descent.FINISHED: Status.finished,
    _descent.REACHED: Status.threshold,
    _descent.SETTLED: Status.settled,
    _descent.FAILED: Status.failed,
    _descent.NO_START: Status.no_start,
}


def fit(
    problem: Problem,
    data: Data,
    *,
    parameters: Mapping[str, Any] | None = None,
    loss: AbstractLoss = SumOfSquares(),
    optimizer: AbstractOptimizer | LeastSquares | None = None,
    gradient: AbstractGradient = Discrete(),
    solver: AbstractSolver = RK4(),
    steps_per_delay: int | None = None,
    epochs: int = 500,
    threshold: float = 0.0,
    seed: int = 0,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Any:
    """Learn a problem's parameters, delay and history from data.

    By default by least squares from many starts, the problem's own values among them:
    the result is an `Estimate`. With more than 200 parameters, another loss or an
    `optimizer` that descends along gradients it is a `FitResult`, and the problem's
    values are the start.

    **Arguments**

    - `parameters`: by name, a `Parameter` (start, bounds, prior), `Fixed`, `Tied` or a
      number to start from. All others are learned without bounds; tau stays positive,
      and least squares keeps it between two sampling intervals and 0.9 of the record.
    - `optimizer`: `LeastSquares()`, `Adam()`, `RMSProp()`, `SGD()`, `LBFGS()`.
    - `steps_per_delay`: of the solver, 20 by default. Least squares begins with 10 and
      takes as many as its estimates need.
    - `seed`: for the starts.
    - `progress`: a function called now and then; True or False for a bar or none. By
      default there is a bar on a terminal.

    For gradient descent only: `gradient`; `epochs`, the number of steps, and
    `threshold`, a loss below which it ends before. Interrupted (Ctrl-C), it returns the
    best so far.

    >>> import ddefind as dd
    >>> truth = dd.Problem(dd.models.Exponential(-1.0, -0.5), dd.Constant(1.0), tau=1.0)
    >>> t = np.linspace(0, 5, 40)
    >>> start = dd.Problem(dd.models.Exponential(-0.7, -0.7), dd.Constant(0.8), tau=0.8)
    >>> found = dd.fit(start, dd.Data(t, dd.solve(truth, T=5)(t)), progress=False)
    >>> bool(found.loss < 1e-9)
    True
    """
    optimizer = _choose(optimizer, problem, loss)
    if isinstance(optimizer, LeastSquares):
        return _least_squares(
            [problem],
            [data],
            [{}],
            [seed],
            parameters,
            loss,
            optimizer,
            solver,
            steps_per_delay,
        )[0]
    batch = _descend(
        [problem],
        [data],
        parameters,
        (loss, optimizer, gradient, solver),
        20 if steps_per_delay is None else steps_per_delay,
        epochs,
        threshold,
        [seed],
        progress,
        record=True,
    )
    return batch[0]


def fit_many(
    problem: Problem | Sequence[Problem],
    data: Data | Sequence[Data],
    *,
    starts: int | Sequence[Mapping[str, float]] | None = None,
    parameters: Mapping[str, Any] | None = None,
    loss: AbstractLoss = SumOfSquares(),
    optimizer: AbstractOptimizer | LeastSquares | None = None,
    gradient: AbstractGradient = Discrete(),
    solver: AbstractSolver = RK4(),
    steps_per_delay: int | None = None,
    epochs: int = 500,
    threshold: float = 0.0,
    seed: int = 0,
    progress: bool | Callable[[Progress], None] | None = None,
) -> FitBatch:
    """Many fits of one model at once: of many data sets, from many starts, or both.

    They run as one compiled program in blocks that fill the vector units, on all cores;
    each ends as it would alone, to rounding.

    **Arguments**, where they differ from `fit`'s:

    - `problem`: one, or one for each fit, all of the same shape: different starts.
    - `data`: one data set for all fits, or one for each; times may differ.
    - `starts`: values by name for each fit, or a number of fits, each with random
      starts of its own (see `Parameter`).

    >>> import ddefind as dd
    >>> truth = dd.Problem(dd.models.Exponential(-1.0, -0.5), dd.Constant(1.0), tau=1.0)
    >>> t = np.linspace(0, 5, 40)
    >>> x = np.asarray(dd.solve(truth, T=5)(t))
    >>> noise = 0.01 * np.random.default_rng(0).normal(size=(3, 40, 1))
    >>> sets = [dd.Data(t, x + e) for e in noise]
    >>> found = dd.fit_many(truth, sets, progress=False)
    >>> len(found), found.best.shape
    (3, (3, 4))
    """
    problems, sets, seeds, starts = _broadcast(problem, data, starts, seed)
    optimizer = _choose(optimizer, problems[0], loss)
    if isinstance(optimizer, LeastSquares):
        return _least_squares(
            problems,
            sets,
            starts,
            seeds,
            parameters,
            loss,
            optimizer,
            solver,
            steps_per_delay,
        )
    return _descend(
        problems,
        sets,
        parameters,
        (loss, optimizer, gradient, solver),
        20 if steps_per_delay is None else steps_per_delay,
        epochs,
        threshold,
        seeds,
        progress,
        record=False,
        starts=starts,
    )


def _broadcast(problem, data, starts, seed):
    """One problem, data set, seed and start for each fit."""
    problems = [problem] if isinstance(problem, Problem) else list(problem)
    sets = [data] if isinstance(data, Data) else list(data)
    if starts is None or isinstance(starts, int):
        given, count = [{}], starts or 1
    else:
        given, count = list(starts), len(starts)
    sizes = {"problem": len(problems), "data": len(sets), "starts": count}
    fits = max(sizes.values())
    for name, size in sizes.items():
        if size < 1 or size not in (1, fits):
            shown = ", ".join(f"{n}: {s}" for n, s in sizes.items())
            raise ValueError(
                f"Give one or {fits} for `{name}`, as for the others ({shown})."
            )

    def every(items):
        return items * fits if len(items) == 1 else items

    seeds = [seed + index for index in range(fits)]
    return every(problems), every(sets), seeds, every(given)


def _choose(optimizer, problem: Problem, loss: AbstractLoss):
    """The optimiser: least squares where that is possible and usual."""
    check_instance("problem", problem, Problem, "Problem(rhs, history, tau)")
    squares = isinstance(loss, SumOfSquares)
    if optimizer is None:
        few = len(values(problem)) <= _MOST_FOR_LEAST_SQUARES
        return LeastSquares() if squares and few else Adam()
    if isinstance(optimizer, LeastSquares) and not squares:
        raise ValueError(
            f"`LeastSquares()` minimises `SumOfSquares()`, but `loss` is {loss}. Leave "
            "`loss` out, or take an optimiser such as `Adam()`."
        )
    return optimizer


def _least_squares(
    problems,
    sets,
    starts,
    seeds,
    parameters,
    loss,
    optimizer: LeastSquares,
    solver,
    steps_per_delay,
) -> FitBatch:
    """Least squares of each data set; several at a time run beside each other."""
    began = time.perf_counter()
    n = check_steps(10 if steps_per_delay is None else steps_per_delay)
    alone = len(sets) == 1

    def one(problem, data, own, seed):
        began = time.perf_counter()
        check_inputs(problem, data, loss, Discrete(), solver)
        setting, problem = make_setting(
            problem,
            data,
            _with_starts(parameters, own),
            solver,
            n,
            optimizer.huber,
            seed,
            None if alone else 1,
        )
        searched = search(setting, optimizer.starts, seed)
        seconds = time.perf_counter() - began
        return make_estimate(setting, problem, searched, seed, seconds)

    with ThreadPoolExecutor(1 if alone else cores()) as pool:
        found = list(pool.map(one, problems, sets, starts, seeds))
    best = np.stack([each.best for each in found])
    return FitBatch(
        names=found[0].names,
        best=best,
        first=np.stack([each.setting.guess for each in found]),
        final=best,
        loss=np.array([each.loss for each in found]),
        statuses=tuple(each.status for each in found),
        epochs=np.array([each.searched.evaluations for each in found]),
        seconds=time.perf_counter() - began,
        results=lambda index: found[index],
    )


def _descend(
    problems,
    sets,
    parameters,
    choices,
    steps_per_delay,
    epochs,
    threshold,
    seeds,
    progress,
    *,
    record,
    starts=None,
) -> FitBatch:
    began = time.perf_counter()
    loss, optimizer, gradient, solver = choices
    check_instance("optimizer", optimizer, AbstractOptimizer, "Adam(0.03)")
    for problem in {id(problem): problem for problem in problems}.values():
        check_inputs(problem, sets[0], loss, gradient, solver)
    for data in sets:
        check_data(data, sets[0].x.shape[1])
    n = check_steps(steps_per_delay)
    if not isinstance(epochs, (int, np.integer)) or epochs < 0:
        raise ValueError(f"`epochs` must be an integer from 0 on, but got {epochs!r}.")
    names, start, z = _starts(problems, parameters, seeds, starts or [{}] * len(sets))
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
        jnp.asarray(float(threshold)),
        int(epochs),
        start[0].dimension,
    )
    distinct = {id(problem): problem for problem in start}
    taus = {key: float(problem.tau) for key, problem in distinct.items()}
    tau = np.array([taus[id(problem)] for problem in start])
    fits = Fits(descent, z, sets, tau, n, record)
    with Reporter(progress, int(epochs), len(sets)) as reporter:
        fits.run(reporter)
    return _collect(fits, start, sets, z, time.perf_counter() - began)


def _with_starts(parameters, own: Mapping[str, float]) -> dict[str, Any]:
    """The settings of all fits, with one fit's own starts."""
    settings = dict(parameters or {})
    for name, value in own.items():
        before = settings.get(name)
        bounds = before if isinstance(before, Parameter) else Parameter()
        settings[name] = replace(bounds, start=value)
    return settings


def _starts(problems, parameters, seeds, starts):
    """The layout that all fits share, each fit's problem at its start, and the free
    vectors as columns."""
    known: dict[Any, Any] = {}

    def find(problem, own, seed):
        settings = _with_starts(parameters, own)
        random = any(
            isinstance(setting, Parameter) and isinstance(setting.start, str)
            for setting in settings.values()
        )
        # Fits that start alike share the work: there may be a hundred thousand.
        key = id(problem), id(own), seed if random else None
        if key not in known:
            known[key] = layout(problem, settings, seed=seed)
        return known[key]

    found = [find(*each) for each in zip(problems, starts, seeds)]
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


def _collect(fits: Fits, start, sets, z, seconds: float) -> FitBatch:
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
            data=sets[index],
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
