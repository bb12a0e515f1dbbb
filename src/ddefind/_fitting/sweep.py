"""`fit_many` on other workers, and kept in a folder: a sweep of numbered fits."""

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final

import jax
import numpy as np

from .._results.batch import FitBatch
from .._sweeps.chunks import Chunk, chunks_of
from .._sweeps.executors import executor_of, threads_of
from .._sweeps.folder import opened
from .._sweeps.logs import ERROR, AbstractLog, MemoryLog
from .._sweeps.packing import packed
from .._sweeps.schedule import Schedule, submitted
from .._sweeps.worker import run_here, run_packed
from .._util import wording
from .._util.errors import ResultError, shown
from .._util.progress import Reporter
from .fit_options import SWEEPS, defaults, with_fields
from .fit_records import FitChunk, NumberedTask, batch_of_records, failure, quiet
from .method import AbstractMethod
from .optimizers import AbstractOptimizer
from .request import (
    FitKeywords,
    FitOptions,
    FitTask,
    FitTasks,
    LeastSquaresKeywords,
    distinct,
)
from .sweep_manifest import changed_data, manifest_of

# The most fits that a worker gets at a time: fits by gradient descent run side by side
# and fill a block of the compiled program, or an accelerator if JAX has one.
_FITS, _FITS_SIDE_BY_SIDE, _FITS_ON_ACCELERATOR = 8, 64, 4096
# Fewer fits by least squares are cut into so many chunks, for as many workers.
_CHUNKS = 32
# If the first so many fits that end all end with an error, the error is not theirs.
_MOST_ERRORS = 50


class SweepKeywords(TypedDict, total=False):
    """The types of the keyword arguments of a sweep, for type checkers."""

    executor: Any
    folder: str | os.PathLike[str] | None
    retry_failed: bool


class LeastSquaresSweepKeywords(LeastSquaresKeywords, SweepKeywords, total=False):
    """The keyword arguments of `fit_many` by least squares."""


class SweepFitKeywords(FitKeywords, SweepKeywords, total=False):
    """The keyword arguments of `fit_many`."""


@final
@dataclass(frozen=True, kw_only=True)
@with_fields(defaults(SWEEPS))
class SweepOptions:
    """Where the fits of `fit_many` run, and where they are kept."""

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[SweepKeywords]) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

    @classmethod
    def taken_from(cls, keywords: Mapping[str, Any]) -> tuple["SweepOptions", Any]:
        """These options, and all others."""
        own = {field.name for field in fields(cls)}
        sweep = cls(**{name: keywords[name] for name in own & set(keywords)})
        is_path = isinstance(sweep.folder, str | os.PathLike) and str(sweep.folder)
        if sweep.folder is not None and not is_path:
            raise ValueError(
                "`folder` must be the path of the folder in which the fits are kept, "
                f"but got {shown(sweep.folder)}."
            )
        if sweep.retry_failed and sweep.folder is None:
            raise ValueError("`retry_failed` needs the `folder` of an earlier sweep.")
        return sweep, {n: each for n, each in keywords.items() if n not in own}

    @property
    def is_plain(self) -> bool:
        """Whether the fits run here and now, and are not kept."""
        return self.executor is None and self.folder is None


def fit_sweep(
    method: AbstractMethod,
    tasks: FitTasks,
    options: FitOptions,
    sweep: SweepOptions,
) -> FitBatch[Any]:
    """Fit the tasks on the executor, and keep them in the folder.

    Each fit is a function of its number and of what `tasks`, `method` and `options`
    hold, so that it does not matter where it runs, and when."""
    began = time.perf_counter()
    with ExitStack() as stack:
        log: AbstractLog = MemoryLog()
        width = _width(method, len(tasks))
        if sweep.folder is not None:
            given = manifest_of(method, tasks, options, width)
            changed = partial(changed_data, tasks)
            folder = Path(sweep.folder)
            log, found = stack.enter_context(opened(folder, given, changed))
            width = found.width
        again = set(log.failed) if sweep.retry_failed else set()
        chunks = chunks_of(len(tasks), width, log.numbers(), again)
        is_finished = True
        if chunks:
            is_finished = _run(method, tasks, options, sweep.executor, log, chunks)
    if len(log) == len(log.failed):
        raise KeyboardInterrupt  # before there was any fit

    def parts_of(index: int) -> tuple:
        task = tasks[index]
        return task.problem, task.data, task.equation

    seconds = time.perf_counter() - began
    is_interrupted = not is_finished
    return batch_of_records(
        log, len(tasks), parts_of, seconds, is_interrupted, tasks.labels
    )


def _width(method: AbstractMethod, fits: int) -> int:
    """How many fits run together, unless a folder has fixed that already."""
    if _is_on_accelerator(method):
        return _FITS_ON_ACCELERATOR
    if isinstance(method, AbstractOptimizer):
        return _FITS_SIDE_BY_SIDE
    return min(_FITS, math.ceil(fits / _CHUNKS))


def _is_on_accelerator(method: AbstractMethod) -> bool:
    """Whether fits run on an accelerator of JAX's: only gradient descent does."""
    return isinstance(method, AbstractOptimizer) and jax.default_backend() != "cpu"


def _run(
    method: AbstractMethod,
    tasks: FitTasks,
    options: FitOptions,
    executor: Any,
    log: AbstractLog,
    chunks: list[Chunk],
) -> bool:
    """Run the chunks; False if Ctrl-C came before the end."""
    first = tasks[0]
    run = FitChunk(method, quiet(options), first.problem, first.equation)
    is_shared = len(distinct(tasks.problems)) == 1
    wanted = sum(len(chunk.wanted) for chunk in chunks)
    with ExitStack() as stack:
        hand_out = _handing_out(run, executor, stack)

        def submit(chunk: Chunk, attempt: int) -> Future:
            return hand_out(
                [_numbered(n, tasks[n], is_shared) for n in chunk.numbers], attempt
            )

        reporter = stack.enter_context(Reporter(options.progress, wanted, len(tasks)))
        keeping = _Keeping(log, tasks, reporter)
        schedule = Schedule(chunks, submit, keeping.keep, keeping.lose, keeping.tick)
        is_finished = schedule.run(finish=executor is None)
        keeping.end()
    return is_finished


def _handing_out(
    run: FitChunk, executor: Any, stack: ExitStack
) -> Callable[[list[NumberedTask], int], Future]:
    """What hands tasks out: to threads of this process, or to an executor."""
    if executor is None:
        workers = 1 if _is_on_accelerator(run.method) else None
        threads = stack.enter_context(threads_of(workers))
        return lambda tasks, _: threads.submit(run_here, run, tasks)
    shared, words = packed(run), wording.are_for_command_line()
    others = stack.enter_context(executor_of(executor))
    return lambda tasks, attempt: submitted(
        others, run_packed, shared, packed(tasks), words, attempt
    )


def _numbered(number: int, task: FitTask, is_shared: bool) -> NumberedTask:
    problem = None if is_shared else task.problem
    return NumberedTask(number, problem, task.data, task.starts, task.seed)


@final
class _Keeping:
    """Keeps records as they come, and shows how many there are.

    As long as no fit has been made, those that ended with an error wait: if none is
    ever made, the error is that of the call, and nothing is recorded."""

    def __init__(self, log: AbstractLog, tasks: Sequence[FitTask], reporter: Reporter):
        self.log, self.tasks, self.reporter = log, tasks, reporter
        self.has_fits = len(log) > len(log.failed)
        self.errors: dict[int, tuple[bytes, str]] = {}
        self.ended = 0
        self.lowest, self.tau = np.inf, np.nan

    def keep(self, chunk: Chunk, bodies: list[bytes]) -> None:
        made, failed = {}, {}
        for number, body in zip(chunk.numbers, bodies):
            if number not in chunk.wanted:
                continue
            record = json.loads(body)
            if ERROR in record:
                failed[number] = (body, record[ERROR])
                continue
            made[number] = body
            if float(record["loss"]) < self.lowest:
                self.lowest = float(record["loss"])
                self.tau = float(record["estimates"].get("tau", np.nan))
        self._keep(made, failed)

    def lose(self, number: int, why: str) -> None:
        """A fit whose worker ended, again and again."""
        body = failure(number, why, self.tasks[number].data)
        self._keep({}, {number: (body, why)})

    def _keep(
        self, made: dict[int, bytes], failed: dict[int, tuple[bytes, str]]
    ) -> None:
        self.ended += len(made) + len(failed)
        self.errors |= failed
        self.has_fits = self.has_fits or bool(made)
        if self.has_fits:
            bodies = made | {n: body for n, (body, _) in self.errors.items()}
            self.log.append(bodies, set(self.errors))
            self.errors = {}
        elif len(self.errors) >= _MOST_ERRORS:
            self.end()

    def end(self) -> None:
        """Refuse a sweep of which no fit was made."""
        if self.errors and not self.has_fits:
            number = min(self.errors)
            raise ResultError(
                "No fit could be made, and nothing was recorded. Fit "
                f"{number}: {self.errors[number][1]}"
            )

    def tick(self) -> None:
        """Put on the disk what is due, and show how far the sweep is."""
        self.log.sync()
        if self.ended:
            done = len(self.log)
            self.reporter.show("fits", self.ended, done, self.lowest, self.tau)
