"""`fit` and `fit_many`: drive the compiled descent, report, and collect the results."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from . import _descent
from ._data import Data
from ._descent import Descent, State, begin, run
from ._engine import Grid
from ._errors import check_instance
from ._gradient import AbstractGradient, Discrete, check_inputs
from ._loss import AbstractLoss, SumOfSquares, Target
from ._optimizer import Adam, AbstractOptimizer
from ._parameters import Parameter, layout, values
from ._problem import Problem
from ._progress import Progress, Reporter
from ._result import FitBatch, FitResult, Status
from ._solve import check_steps, make_grid
from ._solver import RK4, AbstractSolver

_STATUS = {
    _descent.RUNNING: Status.interrupted,
    _descent.FINISHED: Status.finished,
    _descent.REACHED: Status.threshold,
    _descent.SETTLED: Status.settled,
    _descent.FAILED: Status.failed,
    _descent.NO_START: Status.no_start,
}
# The path of the parameters is kept up to this many of them.
_MAX_RECORDED = 1000
# Fits side by side in one program: enough to fill vector units, few enough for the cache.
_BLOCK = 64
# A stretch of epochs: what one call of the program runs at the most, and how long it should
# take, so that progress moves and Ctrl-C is heard.
_STRETCH, _STRETCH_SECONDS = 1000, 0.2


def fit(
    problem: Problem,
    data: Data,
    *,
    parameters: Mapping[str, Any] | None = None,
    loss: AbstractLoss = SumOfSquares(),
    optimizer: AbstractOptimizer = Adam(),
    gradient: AbstractGradient = Discrete(),
    solver: AbstractSolver = RK4(),
    steps_per_delay: int = 20,
    epochs: int = 500,
    threshold: float = 0.0,
    seed: int = 0,
    progress: bool | Callable[[Progress], None] | None = None,
) -> FitResult:
    """Learn a problem's parameters, delay and history from data, by gradient descent.

    **Arguments**

    - `problem`: the model; its values are the start.
    - `parameters`: by name, a `Parameter` (start, bounds), `Fixed`, `Tied` or a number to
      start from. All others are learned without bounds; tau stays positive.
    - `epochs`: the number of steps; the fit ends before if the loss is below `threshold`.
    - `seed`: for the starts that are `"random"`.
    - `progress`: a function called now and then; True or False for a bar or none. By
      default there is a bar on a terminal.

    Interrupted (Ctrl-C), it returns the best so far.

    >>> import ddefind as dd
    >>> truth = dd.Problem(dd.models.Exponential(-1.0, -0.5), dd.Constant(1.0), tau=1.0)
    >>> t = np.linspace(0, 5, 40)
    >>> start = dd.Problem(dd.models.Exponential(-0.7, -0.7), dd.Constant(0.8), tau=0.8)
    >>> found = dd.fit(start, dd.Data(t, dd.solve(truth, T=5)(t)), progress=False)
    >>> bool(found.loss < 1e-3)
    True
    """
    batch = _fit(
        [problem],
        [data],
        parameters,
        (loss, optimizer, gradient, solver),
        steps_per_delay,
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
    optimizer: AbstractOptimizer = Adam(),
    gradient: AbstractGradient = Discrete(),
    solver: AbstractSolver = RK4(),
    steps_per_delay: int = 20,
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
    - `starts`: values by name for each fit, or a number of fits, each with random starts
      of its own (see `Parameter`).

    >>> import ddefind as dd
    >>> truth = dd.Problem(dd.models.Exponential(-1.0, -0.5), dd.Constant(1.0), tau=1.0)
    >>> t = np.linspace(0, 5, 40)
    >>> x = np.asarray(dd.solve(truth, T=5)(t))
    >>> noisy = [x + 0.01 * np.random.default_rng(s).normal(size=x.shape) for s in range(3)]
    >>> found = dd.fit_many(truth, [dd.Data(t, x) for x in noisy], epochs=50, progress=False)
    >>> len(found), found.best.shape
    (3, (3, 4))
    """
    problems, sets, seeds, starts = _broadcast(problem, data, starts, seed)
    return _fit(
        problems,
        sets,
        parameters,
        (loss, optimizer, gradient, solver),
        steps_per_delay,
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
    count = starts if isinstance(starts, int) else None
    given = list(starts) if starts is not None and count is None else [{}]
    sizes = {
        "problem": len(problems),
        "data": len(sets),
        "starts": len(given) if count is None else count,
    }
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


def _fit(
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
    for problem, data in {
        (id(p), id(d)): (p, d) for p, d in zip(problems, sets)
    }.values():
        check_inputs(problem, data, loss, gradient, solver)
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
    fits = _Fits(descent, z, sets, np.array([float(p.tau) for p in start]), n, record)
    with Reporter(progress, int(epochs), len(sets)) as reporter:
        fits.run(reporter)
    return _collect(fits, start, sets, z, time.perf_counter() - began)


def _starts(problems, parameters, seeds, starts):
    """The layout that all fits share, each fit's problem at its start, and the free vectors
    as columns."""
    merged = []
    for own in starts:
        settings = dict(parameters or {})
        for name, value in own.items():
            before = settings.get(name)
            bounds = before if isinstance(before, Parameter) else Parameter()
            settings[name] = replace(bounds, start=value)
        merged.append(settings)
    found = [
        layout(problem, settings, seed=seed)
        for problem, settings, seed in zip(problems, merged, seeds)
    ]
    names = found[0][0]
    constant = np.array(names.source) < 0
    first = values(found[0][1])[constant]
    for index, (other, problem, _) in enumerate(found):
        if other != names:
            raise ValueError(f"Fit {index} has other parameters or bounds than fit 0.")
        if not np.array_equal(values(problem)[constant], first):
            raise ValueError(
                f"Fit {index} has other values of the fixed parameters than fit 0; "
                "they must agree."
            )
    return names, [p for _, p, _ in found], np.stack([z for *_, z in found], axis=-1)


@final
class _Fits:
    """The states of all fits of a call, kept on the host with a column for each fit, and
    run in blocks, stretch by stretch."""

    def __init__(
        self, descent: Descent, z, sets: list[Data], tau, n: int, record: bool
    ):
        self.descent, self.n, self.tau = descent, n, tau
        self.targets, self.T = _stack(descent.loss, sets)
        self.jump = descent.learned.initial is not None or (
            descent.fixed.initial is not None
        )
        self.record = record and len(z) <= _MAX_RECORDED
        self.rows = min(descent.epochs + 1, _STRETCH)
        self.size, self.workers = _block_size(descent.optimizer, z.shape[1])
        self.capacity = 0
        self.losses: list[list] = [[] for _ in sets]
        self.paths: list[list] = [[] for _ in sets]
        columns = [begin(descent, jnp.asarray(part)) for part in _lanes(z, self.size)]
        self.state = jax.tree.map(
            lambda *parts: np.concatenate(
                [_column(part, self.size) for part in parts], axis=-1
            )[..., : len(sets)],
            *columns,
        )

    def active(self) -> np.ndarray:
        return np.flatnonzero(self.state.status == _descent.RUNNING)

    def run(self, reporter: Reporter) -> None:
        stretch = 10
        try:
            with ThreadPoolExecutor(self.workers) as pool:
                while len(active := self.active()):
                    began = time.perf_counter()
                    # Neighbours in tau take about the same number of steps.
                    order = active[np.argsort(self.tau[active], kind="stable")]
                    blocks = np.split(order, range(self.size, len(order), self.size))
                    self._reserve(active)
                    stop = int(self.state.epoch[active].min()) + stretch
                    done = pool.map(lambda block: self._advance(block, stop), blocks)
                    for block, result in zip(blocks, done):
                        self._store(block, *result)
                    reporter.update(self.state, self.tau)
                    if time.perf_counter() - began < _STRETCH_SECONDS:
                        stretch = min(2 * stretch, self.rows)
        except KeyboardInterrupt:
            pass  # Fits that still run have the status of an interruption.

    def _reserve(self, active: np.ndarray) -> None:
        """Room for the shortest delay; when that grows scarce, for a much shorter one:
        room costs nothing, but a new program does."""
        ratio = float(np.max(self.T[active] / self.tau[active]))
        if make_grid(self.jump, ratio, self.n, 0.5).capacity > self.capacity:
            self.capacity = make_grid(self.jump, ratio, self.n, 1 / 16).capacity

    def _advance(self, block: np.ndarray, stop: int):
        """Run one block's program; the last block is filled up with copies at rest."""
        grid = Grid(self.n, self.jump, self.capacity)
        fill = np.resize(block, self.size)
        state = jax.tree.map(lambda a: a[..., fill], self.state)
        rest = np.arange(self.size) >= len(block)
        status = np.where(rest, _descent.FINISHED, state.status)
        state = state._replace(status=status)
        target, T = jax.tree.map(lambda a: a[..., fill], (self.targets, self.T))
        if self.size == 1:
            state, target, T = jax.tree.map(lambda a: a[..., 0], (state, target, T))
        result = run(
            self.descent,
            state,
            target,
            T,
            np.asarray(stop),
            grid,
            self.rows,
            self.record,
        )
        return jax.tree.map(lambda a: _column(a, self.size), result)

    def _store(self, block: np.ndarray, state: State, history, tau, count) -> None:
        width = len(block)
        for whole, part in zip(jax.tree.leaves(self.state), jax.tree.leaves(state)):
            whole[..., block] = part[..., :width]
        self.tau[block] = tau[..., :width]
        rows = int(count.ravel()[0])
        for lane, index in enumerate(block):
            self.losses[index].append(history.loss[:rows, lane])
            if self.record:
                self.paths[index].append(history.z[:rows, :, lane])


def _column(array, size: int) -> np.ndarray:
    """A program's result on the host, with a last axis over fits."""
    array = np.asarray(array)
    return array[..., None] if size == 1 else array


def _lanes(z: np.ndarray, size: int) -> list[np.ndarray]:
    """The free vectors in the shapes of the blocks; the last is filled up."""
    if size == 1:
        return list(z.T)
    count = -(-z.shape[1] // size) * size
    filled = z[:, np.resize(np.arange(z.shape[1]), count)]
    return np.split(filled, count // size, axis=1)


def _block_size(optimizer: AbstractOptimizer, fits: int) -> tuple[int, int]:
    """How many fits run side by side in a block, and how many blocks at a time."""
    if jax.default_backend() != "cpu":
        return (fits if optimizer.elementwise else 1), 1
    affinity = getattr(os, "sched_getaffinity", None)  # Linux: what we may really use
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    if not optimizer.elementwise:
        return 1, cores
    return min(_BLOCK, -(-fits // cores)), cores


def _stack(loss: AbstractLoss, sets: list[Data]) -> tuple[Target, np.ndarray]:
    """All data sets as one target with a last axis over fits; T of each."""
    prepared = {id(data): loss.prepare(data) for data in sets}
    targets = [prepared[id(data)] for data in sets]
    first = targets[0]
    if any(not _same_times(first, target) for target in prepared.values()):
        points = max(0 if t.points is None else len(t.points.times) for t in targets)
        pieces = max(
            0 if t.spline is None else len(t.spline.coefficients) for t in targets
        )
        targets = [target.pad(points, pieces) for target in targets]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves, axis=-1), *targets)
    return stacked, np.array([data.T for data in sets])


def _same_times(one: Target, other: Target) -> bool:
    pairs = []
    if one.points is not None and other.points is not None:
        pairs.append((one.points.times, other.points.times))
    if one.spline is not None and other.spline is not None:
        pairs.append((one.spline.knots, other.spline.knots))
    return all(np.array_equal(a, b) for a, b in pairs)


def _collect(fits: _Fits, start, sets, z, seconds: float) -> FitBatch:
    names, state = fits.descent.layout, fits.state
    first, best, final = (
        np.asarray(names.transform(v)).T for v in (z, state.best, state.z)
    )
    statuses = tuple(_STATUS[int(code)] for code in state.status)

    def result(index: int) -> FitResult:
        losses = np.concatenate([*fits.losses[index], np.empty(0)])
        losses = losses[~np.isnan(losses)]
        path = None
        if fits.record:
            path = np.concatenate(fits.paths[index])[: len(losses)]
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


def _message(fits: _Fits, index: int, final: np.ndarray, status: Status) -> str:
    if status not in (Status.failed, Status.no_start):
        return status.value
    names = fits.descent.layout.names
    where = ", ".join(f"{n} = {v:.4g}" for n, v in list(zip(names, final))[:12])
    return f"{status.value} (Epoch {int(fits.state.epoch[index])}, at {where}.)"
