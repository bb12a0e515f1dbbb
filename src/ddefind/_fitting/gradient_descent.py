"""Gradient descent as a method: run the compiled epochs, and collect the results."""

import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import jax.numpy as jnp
import numpy as np

from .._engine.choose import engine_for
from .._engine.engine import of_each
from .._engine.solution import check_steps
from .._loss.gradients import Discrete, check_inputs
from .._problem.free_parameters import FreeParameters
from .._problem.network_weights import named_indices, networks_of
from .._problem.parameters import free_parameters, parameter_vector
from .._problem.problem import Problem
from .._problem.without_doses import without_doses
from .._results.batch import FitBatch
from .._results.result import FitResult
from .._results.status import Status
from .._util.progress import Reporter
from . import epochs as states
from .descent_batches import DescentBatch
from .epochs import Descent
from .request import FitOptions, FitTask, FitTasks, distinct

if TYPE_CHECKING:
    from .optimizers import AbstractOptimizer


_EPOCHS, _STEPS_PER_DELAY = 500, 20
_STATUS = {
    states.RUNNING: Status.interrupted,
    states.FINISHED: Status.finished,
    states.REACHED: Status.threshold,
    states.SETTLED: Status.settled,
    states.FAILED: Status.failed,
    states.NO_START: Status.no_start,
}
# The largest number of parameters that a message about a failed fit names.
_MOST_NAMED = 12


def descend(
    optimizer: "AbstractOptimizer",
    tasks: FitTasks,
    options: FitOptions,
    *,
    keep_paths: bool,
) -> "FinishedFits":
    """Check the options, and run all epochs of all fits. With `keep_paths` the
    parameters of every epoch are kept."""
    began = time.perf_counter()
    first, count = tasks.sets[0], len(tasks)
    gradient = Discrete() if options.gradient is None else options.gradient
    solver = check_inputs(
        tasks.problems[0], first, options.loss, gradient, options.solver
    ).solver
    for problem in distinct(tasks.problems[1:]):
        check_inputs(problem, first, options.loss, gradient, solver)
    tasks.check_data()
    steps = options.steps_per_delay
    steps = check_steps(_STEPS_PER_DELAY if steps is None else steps)
    epochs = _EPOCHS if options.epochs is None else options.epochs
    if not isinstance(epochs, (int, np.integer)) or epochs < 0:
        raise ValueError(f"`epochs` must be an integer from 0 on, but got {epochs!r}.")
    free, starts, z = _starts(tasks)
    learned, fixed = free.split(starts[0])
    plain = of_each(without_doses, starts)
    engine = engine_for(plain[0], solver, first.T)
    descent = Descent(
        free,
        learned,
        fixed,
        options.loss,
        optimizer,
        gradient,
        engine,
        jnp.asarray(float(options.threshold or 0.0)),
        int(epochs),
        plain[0].dimension,
    )
    stack = tasks.stack(np.arange(len(tasks.sets)))
    ends = np.broadcast_to(stack.T, count)
    grids = engine.grids(plain, ends, steps)
    batch = DescentBatch(descent, z, stack, grids, keep_paths)
    with Reporter(options.progress, int(epochs), count) as reporter:
        batch.run(reporter)
    return FinishedFits(tasks, batch, starts, z, steps, time.perf_counter() - began)


def _starts(tasks: FitTasks) -> tuple[FreeParameters, list[Problem], np.ndarray]:
    """Return the free parameters that all fits share, each fit's problem at its start,
    and the unconstrained start vectors as columns."""
    known: dict[Any, tuple[FreeParameters, Problem, np.ndarray]] = {}
    is_random = tasks.has_random_starts

    def start_of(task: FitTask) -> tuple[FreeParameters, Problem, np.ndarray]:
        # Fits that start alike share the work: there may be a hundred thousand.
        key = id(task.problem), id(task.starts), task.seed if is_random else None
        if key not in known:
            known[key] = free_parameters(task.problem, task.settings, seed=task.seed)
        return known[key]

    is_one = len(tasks.problems) == len(tasks.starts) == 1
    if is_one and not is_random:
        starts = [start_of(tasks[0])] * len(tasks)
    else:
        starts = [start_of(tasks[number]) for number in range(len(tasks))]
    free, problem, _ = starts[0]
    if not free.names:
        raise ValueError("Every parameter is fixed: there is nothing to learn.")
    constant = np.array(free.source) < 0
    constants = parameter_vector(problem)[constant]
    different = {id(start): (index, start) for index, start in enumerate(starts)}
    for index, (other, problem, _) in different.values():
        if other != free:
            raise ValueError(f"Fit {index} has other parameters or bounds than fit 0.")
        if not np.array_equal(parameter_vector(problem)[constant], constants):
            raise ValueError(
                f"Fit {index} has other values of the fixed parameters than fit 0; "
                "they must agree."
            )
    problems = [problem for _, problem, _ in starts]
    return free, problems, np.array([z for *_, z in starts]).T.copy()


@final
@dataclass(frozen=True)
class FinishedFits:
    """Fits that have ended, and how to read their results. `start` has each fit's
    problem at its start and `z` the unconstrained start vectors as columns."""

    tasks: FitTasks
    batch_state: DescentBatch
    start: list[Problem]
    z: np.ndarray
    steps_per_delay: int
    seconds: float

    @property
    def free(self) -> FreeParameters:
        return self.batch_state.descent.free

    def _values(self, z: np.ndarray) -> np.ndarray:
        """Return the free parameters of unconstrained columns, a row for each fit."""
        return np.asarray(self.free.transform(z)).T

    @cached_property
    def batch(self) -> FitBatch[FitResult]:
        """All results as arrays."""
        state = self.batch_state.state
        return FitBatch(
            names=self.free.names,
            best=self._values(state.best),
            first=self._values(self.z),
            final=self._values(state.z),
            loss=state.best_loss,
            statuses=tuple(_STATUS[int(code)] for code in state.status),
            epochs=state.epoch,
            seconds=self.seconds,
            results=self.result,
            labels=self.tasks.labels,
        )

    def result(self, index: int) -> FitResult:
        """Return the result of one fit."""
        batch, task, start = self.batch, self.tasks[index], self.start[index]
        z = self.batch_state.state.best[:, index]
        losses, path = self.batch_state.log(index)
        return FitResult(
            problem=self.free.problem(z, start),
            start=start,
            data=task.data,
            names=batch.names,
            best=batch.best[index],
            first=batch.first[index],
            final=batch.final[index],
            loss=float(batch.loss[index]),
            losses=losses,
            path=None if path is None else self._values(path.T),
            status=batch.statuses[index],
            message=self._message(index),
            epochs=int(batch.epochs[index]),
            seconds=self.seconds,
            solver=self.batch_state.descent.engine.solver,
            steps_per_delay=self.steps_per_delay,
            model=self.tasks.equation,
        )

    def _message(self, index: int) -> str:
        """Return the sentence of the status; of a failed fit with where it failed."""
        names, status = self.batch.names, self.batch.statuses[index]
        if status not in (Status.failed, Status.no_start):
            return status.value
        networks = networks_of(self.start[index], names)
        indices = named_indices(len(names), networks)[:_MOST_NAMED]
        final = self.batch.final[index]
        where = ", ".join(f"{names[j]} = {final[j]:.4g}" for j in indices)
        return f"{status.value} (Epoch {int(self.batch.epochs[index])}, at {where}.)"
