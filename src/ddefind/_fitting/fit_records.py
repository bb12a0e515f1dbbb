"""The fits of a chunk as rows, and rows as the fits that `fit_many` returns."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, NamedTuple, final

import numpy as np

from .._data.data import Data
from .._equation.equation import Equation
from .._problem.problem import Problem
from .._results.batch import FitBatch
from .._results.kept_fit import fit_of_kept, kept_content
from .._results.status import Status
from .._sweeps.database import Database, Row, row_of
from .._util.errors import ResultError
from .method import AbstractMethod
from .request import FitOptions, FitTasks

# The most letters of a sentence on what went wrong.
_LONGEST = 2000
# The digits of the digest of a data set, by which a changed one is named.
_DIGITS = 12
_OF_DATA = tuple(field.name for field in fields(Data))


@final
class NumberedTask(NamedTuple):
    """One fit of a sweep. `problem` is None where all fits have the same."""

    number: int
    problem: Problem | None
    data: Data
    starts: Mapping[str, float]
    seed: int


@final
@dataclass(frozen=True)
class FitChunk:
    """What a worker runs: fits by one method, as rows."""

    method: AbstractMethod
    options: FitOptions
    problem: Problem
    equation: Equation | None

    def __call__(self, tasks: Sequence[NumberedTask]) -> list[Row]:
        """Make the fits. If one of them cannot be made, each is made alone."""
        try:
            batch = self.method.fit_many(self._fit_tasks(tasks), self.options)
            return [_row(batch, i, task) for i, task in enumerate(tasks)]
        except Exception as error:
            if len(tasks) == 1:
                return [failure(tasks[0].number, error, tasks[0].data)]
        return [row for task in tasks for row in self([task])]

    def _fit_tasks(self, tasks: Sequence[NumberedTask]) -> FitTasks:
        """The tasks as a method takes them: their seeds follow one another."""
        problems = [self.problem if t.problem is None else t.problem for t in tasks]
        is_shared = all(problem is problems[0] for problem in problems)
        return FitTasks(
            problems[:1] if is_shared else problems,
            [task.data for task in tasks],
            [task.starts for task in tasks],
            tasks[0].seed,
            self.equation,
        )


def _row(batch: FitBatch[Any], index: int, task: NumberedTask) -> Row:
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
    label, status = task.data.label, fit.status.name
    return row_of(task.number, label, status, record, fit=details)


def failure(number: int, error: Exception | str, data: Data) -> Row:
    """Make the row of a fit that could not be made, with a sentence that says why."""
    sentence = (" ".join(str(error).split()) or type(error).__name__)[:_LONGEST]
    record = {"data": data_digest(data)}
    return row_of(number, data.label, Status.error.name, record, error=sentence)


def data_digest(data: Data) -> str:
    """Return what a data set is known again by, one of perhaps a million."""
    found = hashlib.sha256()
    for name in _OF_DATA:
        value = getattr(data, name)
        is_array = isinstance(value, np.ndarray)
        head = (name, value.dtype.str, value.shape) if is_array else (name, value)
        found.update(repr(head).encode())
        if is_array:
            found.update(np.ascontiguousarray(value).data)
    return found.hexdigest()[:_DIGITS]


def batch_of_rows(
    database: Database,
    count: int,
    problem_of: Callable[[int], tuple[Problem, Data, Equation | None]],
    seconds: float,
    is_interrupted: bool,
    labels: tuple[str, ...] | None,
) -> FitBatch[Any]:
    """Read the recorded fits as `fit_many` returns them."""
    example = database.fit(min(database.numbers.difference(database.errors)))
    names = tuple(example["names"])
    best, first, final = (np.full((count, len(names)), np.nan) for _ in range(3))
    loss, epochs = np.full(count, np.inf), np.zeros(count, int)
    statuses = [Status.pending] * count
    # Row by row: a list of all records would take longer to make than to read.
    for number, status, record in database.rows():
        statuses[number] = Status[status]
        if number in database.errors:
            continue
        best[number] = estimates = list(record["estimates"].values())
        first[number], last = record["first"], record["final"]
        final[number] = estimates if last is None else last
        loss[number], epochs[number] = record["loss"], record["epochs"]

    @lru_cache(maxsize=16)
    def result(index: int) -> Any:
        if not statuses[index].has_fit:
            why = database.errors.get(index, statuses[index].value)
            raise ResultError(f"There is no fit {index}: {why}")
        return fit_of_kept(database.fit(index)["content"], *problem_of(index))

    pending = count - len(database) if is_interrupted else 0
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
        notes=(*example["notes"], *_notes(database.errors, pending)),
        labels=labels,
    )


def _notes(errors: Mapping[int, str], pending: int) -> list[str]:
    """Say which fits there are not."""
    notes = []
    if errors:
        number = min(errors)
        why = errors[number]
        notes.append(f"{len(errors)} ended with an error, fit {number} with: {why}")
    if pending:
        notes.append(f"Interrupted: {pending} fits are still to be made.")
    return notes
