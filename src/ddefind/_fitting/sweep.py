"""`fit_many` on other workers, and kept in a folder: a sweep of numbered fits.

The fits of a chunk as rows, and rows as the fits that `fit_many` returns."""

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final

import jax
import jax.numpy as jnp
import numpy as np

from .._data.data import Data
from .._equation.equation import Equation
from .._problem.problem import Problem
from .._results.batch import FitBatch
from .._results.load import fit_of_kept, kept_content
from .._results.status import Status
from .._sweeps.database import Database, Row, Sweep, opened, row_of
from .._sweeps.digest import NoDigest, digest
from .._sweeps.executors import executor_of, packed, run_here, run_packed
from .._sweeps.schedule import Chunk, Schedule, chunks_of, submitted
from .._util import wording
from .._util.errors import ResultError, quoted, shown
from .._util.machine import cores
from .._util.progress import Reporter
from .._util.version import __version__
from .fit_options import SWEEPS, defaults, with_fields
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

# The most letters of a sentence on what went wrong.
_LONGEST = 2000
# The most fits that a worker gets at a time: fits by gradient descent run side by side
# and fill a block of the compiled program, or an accelerator if JAX has one.
_FITS, _FITS_SIDE_BY_SIDE, _FITS_ON_ACCELERATOR = 8, 64, 4096
# Fewer fits by least squares are cut into this many chunks, for as many workers.
_CHUNKS = 32


@final
@dataclass(frozen=True)
class FitChunk:
    """Makes fits by one method, as rows. The tasks that it gets have no equation, and
    no problems where all fits have the same: these are sent once."""

    method: AbstractMethod
    options: FitOptions
    problem: Problem
    equation: Equation | None
    parameters: Mapping[str, Any] | None

    def __call__(self, given: tuple[Sequence[int], FitTasks]) -> list[Row]:
        """Make the fits with these numbers, whose seeds follow one another. If one of
        them cannot be made, each is made alone."""
        numbers, tasks = given
        problems = tasks.problems or [self.problem]
        problems = problems[:1] if len(distinct(problems)) == 1 else problems
        whole = replace(
            tasks, problems=problems, equation=self.equation, parameters=self.parameters
        )
        try:
            batch = self.method.fit_many(whole, self.options)
            return [_row(batch, i, n, whole[i]) for i, n in enumerate(numbers)]
        except Exception as error:
            if len(numbers) == 1:
                return [_failure(numbers[0], error, tasks.sets[0])]
        rows = []
        for i, number in enumerate(numbers):
            problem, data = tasks.problems[i : i + 1], tasks.sets[i : i + 1]
            starts, seed = tasks.starts[i : i + 1], tasks.seed + i
            alone = FitTasks(problem, data, starts, seed, None)
            rows += self(((number,), alone))
        return rows


def _row(batch: FitBatch[Any], index: int, number: int, task: FitTask) -> Row:
    """Make the row of the fit with this number."""
    fit = batch[index]
    if fit.status is Status.interrupted:
        raise KeyboardInterrupt
    kept, table = kept_content(fit)
    best, final = batch.best[index], batch.final[index]
    errors = {
        row["name"]: row["standard_error"] for row in table if "standard_error" in row
    }
    record = {
        "loss": float(batch.loss[index]),
        "epochs": int(batch.epochs[index]),
        "seed": task.seed,
        "seconds": fit.seconds,
        "estimates": dict(zip(batch.names, best)),
        "standard_errors": errors,
        "noise": kept.get("noise"),
        "first": batch.first[index],
        "final": None if np.array_equal(best, final) else final,
        "data": data_digest(task.data),
    }
    details = {"content": kept, "names": batch.names, "notes": batch.notes}
    return row_of(number, task.data.label, fit.status.name, record, fit=details)


def _failure(number: int, error: Exception | str, data: Data) -> Row:
    """Make the row of a fit that could not be made, with a sentence that says why."""
    sentence = (" ".join(str(error).split()) or type(error).__name__)[:_LONGEST]
    record = {"data": data_digest(data)}
    return row_of(number, data.label, Status.error.name, record, error=sentence)


def data_digest(data: Data) -> str:
    """Return digits by which a changed data set is found among perhaps a million."""
    return digest(data)[:12]


def batch_of_rows(
    database: Database, tasks: FitTasks, seconds: float, is_interrupted: bool
) -> FitBatch[Any]:
    """Read the recorded fits as `fit_many` returns them."""
    count, errors = len(tasks), database.errors
    example = database.fit(min(database.numbers.difference(errors)))
    names = tuple(example["names"])
    best, first, final = (np.full((count, len(names)), np.nan) for _ in range(3))
    loss, epochs = np.full(count, np.inf), np.zeros(count, int)
    statuses = [Status.pending] * count
    # Row by row: a list of all records would take longer to make than to read.
    with database.rows() as rows:
        for number, status, record in rows:
            statuses[number] = Status[status]
            if number in errors:
                continue
            best[number] = estimates = list(record["estimates"].values())
            first[number], last = record["first"], record["final"]
            final[number] = estimates if last is None else last
            loss[number], epochs[number] = record["loss"], record["epochs"]

    @lru_cache(maxsize=16)
    def result(index: int) -> Any:
        if not statuses[index].has_fit:
            why = errors.get(index, statuses[index].value)
            raise ResultError(f"There is no fit {index}: {why}")
        content, task = database.fit(index)["content"], tasks[index]
        return fit_of_kept(content, task.problem, task.data, task.equation)

    notes = list(example["notes"])
    if errors:
        number, why = min(errors.items())
        notes.append(f"{len(errors)} ended with an error, fit {number} with: {why}")
    if is_interrupted and len(database) < count:
        pending = count - len(database)
        notes.append(f"Interrupted: {pending} fits are still to be made.")
    return FitBatch(
        names=names,
        best=best,
        first=first,
        final=final,
        loss=loss,
        statuses=tuple(statuses),
        epochs=epochs,
        seconds=seconds,
        results=result,
        notes=tuple(notes),
        labels=tasks.labels,
    )


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
        """Return these options, and all others."""
        names = {field.name for field in fields(cls)}
        sweep = cls(**{name: keywords[name] for name in names & set(keywords)})
        is_path = isinstance(sweep.folder, str | os.PathLike) and str(sweep.folder)
        if sweep.folder is not None and not is_path:
            raise ValueError(
                "`folder` must be the path of the folder in which the fits are kept, "
                f"but got {shown(sweep.folder)}."
            )
        if sweep.retry_failed and sweep.folder is None:
            raise ValueError("`retry_failed` needs the `folder` of an earlier sweep.")
        return sweep, {n: each for n, each in keywords.items() if n not in names}

    @property
    def is_plain(self) -> bool:
        """Whether the fits run here and now, and are not kept."""
        return self.executor is None and self.folder is None


def fit_sweep(
    method: AbstractMethod, tasks: FitTasks, options: FitOptions, sweep: SweepOptions
) -> FitBatch[Any]:
    """Fit the tasks on the executor, and keep them in the folder.

    Each fit depends only on its number and on what `tasks`, `method` and `options`
    contain, so that it does not matter where and when it runs."""
    began = time.perf_counter()
    with ExitStack() as stack:
        width = _width(method, len(tasks))
        if sweep.folder is None:
            database = Database()
        else:
            given = _sweep_of(method, tasks, options, width)
            changed = partial(_changed_data, tasks)
            files = opened(Path(sweep.folder), given, changed)
            database, width = stack.enter_context(files)
        again = set(database.errors) if sweep.retry_failed else set()
        chunks = chunks_of(len(tasks), width, database.numbers, again)
        is_finished = not chunks or _run(
            method, tasks, options, sweep.executor, database, chunks
        )
    if len(database) == len(database.errors):
        raise KeyboardInterrupt  # before there was any fit
    return batch_of_rows(database, tasks, time.perf_counter() - began, not is_finished)


def _sweep_of(
    method: AbstractMethod, tasks: FitTasks, options: FitOptions, width: int
) -> Sweep:
    """Describe the sweep, for comparison with the one in a folder."""
    problems = distinct(tasks.problems)
    number = {id(problem): index for index, problem in enumerate(problems)}
    values = {each.name: getattr(options, each.name) for each in fields(options)}
    del values["progress"]
    values["parameters"] = tasks.parameters
    seeds = range(tasks.seed, tasks.seed + len(tasks))
    settings = (
        method,
        values,
        _of_each((number[id(each)] for each in tasks.problems), tasks),
        list(zip(_of_each(map(dict, tasks.starts), tasks), seeds)),
    )
    first = tasks[0]
    about = type(first.problem.rhs).__qualname__
    versions = {
        "ddefind": __version__,
        "jax": jax.__version__,
        "float": str(jnp.finfo(jnp.result_type(float)).bits),
    }
    return Sweep(
        tasks=len(tasks),
        width=width,
        about=about if first.equation is None else str(first.equation),
        model=_digest("`problem`", (problems, first.equation)),
        data=_digest("`data`", _of_each(map(data_digest, tasks.sets), tasks)),
        settings=_digest("the options", settings),
        versions=versions,
    )


def _digest(argument: str, value: Any) -> str:
    """Return the digest of a value, or say of which argument it cannot be made."""
    try:
        return digest(value)
    except NoDigest as error:
        raise ValueError(
            f"{wording.SWEEP_FOLDER} must recognise {argument} later, but {error}."
        ) from None


def _of_each(given: Iterable[Any], tasks: FitTasks) -> list[Any]:
    """Return for each fit what was given once or for each fit."""
    parts = list(given)
    return parts * len(tasks) if len(parts) == 1 else parts


def _changed_data(tasks: FitTasks, database: Database) -> str:
    """Say which data have changed, as far as rows tell."""
    with database.rows() as rows:
        for number, _, record in rows:
            data = tasks[number].data
            if record["data"] != data_digest(data):
                label = "" if data.label is None else f", {quoted(data.label)},"
                return f": the data of fit {number}{label} have changed"
    return ""


def _width(method: AbstractMethod, fits: int) -> int:
    """Return how many fits run together, unless a folder has fixed that already."""
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
    database: Database,
    chunks: list[Chunk],
) -> bool:
    """Run the chunks, and return whether this was not interrupted by Ctrl-C."""
    first = tasks[0]
    quiet = replace(options, progress=False)
    of_model = first.problem, first.equation, tasks.parameters
    run = FitChunk(method, quiet, *of_model)
    is_shared = len(distinct(tasks.problems)) == 1
    wanted = sum(len(chunk.wanted) for chunk in chunks)
    with ExitStack() as stack:
        hand_out = _handing_out(run, executor, stack)

        def submit(chunk: Chunk, attempt: int) -> Future:
            some = [tasks[number] for number in chunk.numbers]
            part = FitTasks(
                [] if is_shared else [task.problem for task in some],
                [task.data for task in some],
                [task.starts for task in some],
                some[0].seed,
                None,
            )
            return hand_out((chunk.numbers, part), attempt)

        def failed(number: int, why: str) -> Row:
            return _failure(number, why, tasks[number].data)

        reporter = stack.enter_context(Reporter(options.progress, wanted, len(tasks)))
        schedule = Schedule(chunks, submit, failed, database, reporter)
        return schedule.run(finish=executor is None)


def _handing_out(
    run: FitChunk, executor: Any, stack: ExitStack
) -> Callable[[Any, int], Future]:
    """Return what hands numbered tasks to threads of this process or to an executor."""
    if executor is None:
        workers = 1 if _is_on_accelerator(run.method) else cores()
        pool = ThreadPoolExecutor(workers, thread_name_prefix="sweep")
        threads = stack.enter_context(pool)
        return lambda tasks, _: threads.submit(run_here, run, tasks)
    shared, words = packed(run), wording.are_for_command_line()
    others = stack.enter_context(executor_of(executor))
    return lambda tasks, attempt: submitted(
        others, run_packed, shared, packed(tasks), words, attempt
    )
