"""The fits of a chunk as records, and records as the fits that `fit_many` returns."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, NamedTuple, final

import numpy as np

from .._data.data import Data
from .._equation.equation import Equation
from .._problem.problem import Problem
from .._results.batch import FitBatch
from .._results.kept_fit import fit_of_kept, kept_content
from .._results.status import Status
from .._sweeps.logs import ERROR, AbstractLog
from .._sweeps.records import body_of, compressed, decompressed
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
    """What a worker runs: fits by one method, as records."""

    method: AbstractMethod
    options: FitOptions
    problem: Problem
    equation: Equation | None

    def __call__(self, tasks: Sequence[NumberedTask]) -> list[bytes]:
        """The record of each fit. If one of them cannot be made, each is made alone."""
        try:
            batch = self.method.fit_many(self._fit_tasks(tasks), self.options)
            return [body_of(_record(batch, i, task)) for i, task in enumerate(tasks)]
        except Exception as error:
            if len(tasks) == 1:
                return [failure(tasks[0].number, error, tasks[0].data)]
        return [body for task in tasks for body in self([task])]

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


def _record(batch: FitBatch[Any], index: int, task: NumberedTask) -> dict[str, Any]:
    fit = batch[index]
    if fit.status is Status.interrupted:
        raise KeyboardInterrupt
    kept, table = kept_content(fit)
    best, final = batch.best[index], batch.final[index]
    errors = {
        row["name"]: row["standard_error"] for row in table if "standard_error" in row
    }
    return {
        "number": task.number,
        "label": task.data.label,
        "status": fit.status.name,
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
        "fit": compressed({"content": kept, "notes": batch.notes}),
    }


def failure(number: int, error: Exception | str, data: Data) -> bytes:
    """The record of a fit that could not be made, with a sentence that says why."""
    sentence = " ".join(str(error).split()) or type(error).__name__
    record = {
        "number": number,
        "label": data.label,
        "status": Status.error.name,
        ERROR: sentence[:_LONGEST],
        "data": data_digest(data),
    }
    return body_of(record)


def data_digest(data: Data) -> str:
    """By what a data set is known again, one of perhaps a million."""
    found = hashlib.sha256()
    for name in _OF_DATA:
        value = getattr(data, name)
        is_array = isinstance(value, np.ndarray)
        head = (name, value.dtype.str, value.shape) if is_array else (name, value)
        found.update(repr(head).encode())
        if is_array:
            found.update(np.ascontiguousarray(value).data)
    return found.hexdigest()[:_DIGITS]


def batch_of_records(
    log: AbstractLog,
    count: int,
    problem_of: Callable[[int], tuple[Problem, Data, Equation | None]],
    seconds: float,
    is_interrupted: bool,
    labels: tuple[str, ...] | None,
) -> FitBatch[Any]:
    """The fits that are recorded, as `fit_many` returns them."""
    numbers = log.numbers()
    example = log.record(next(n for n in numbers if n not in log.failed))
    names = tuple(example["estimates"])
    best, first, final = (np.full((count, len(names)), np.nan) for _ in range(3))
    loss, epochs = np.full(count, np.inf), np.zeros(count, int)
    statuses = [Status.pending] * count
    reasons: dict[int, str] = {}
    for number, record in zip(numbers, log.records()):
        statuses[number] = Status[record["status"]]
        if ERROR in record:
            reasons[number] = record[ERROR]
            continue
        best[number] = _numbers(list(record["estimates"].values()))
        first[number] = _numbers(record["first"])
        last = record["final"]
        final[number] = best[number] if last is None else _numbers(last)
        loss[number], epochs[number] = float(record["loss"]), record["epochs"]

    @lru_cache(maxsize=16)
    def result(index: int) -> Any:
        if not statuses[index].has_fit:
            why = reasons.get(index, statuses[index].value)
            raise ResultError(f"There is no fit {index}: {why}")
        kept = decompressed(log.record(index)["fit"])["content"]
        return fit_of_kept(kept, *problem_of(index))

    notes = decompressed(example["fit"])["notes"]
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
        notes=(*notes, *_said(reasons, count - len(numbers), is_interrupted)),
        labels=labels,
    )


def _numbers(values: list[Any]) -> np.ndarray:
    return np.array(values, float)


def _said(reasons: dict[int, str], pending: int, is_interrupted: bool) -> list[str]:
    """What is printed of fits that there are not."""
    said = []
    if reasons:
        number, why = next(iter(reasons.items()))
        said.append(f"{len(reasons)} ended with an error, fit {number} with: {why}")
    if is_interrupted and pending:
        said.append(f"Interrupted: {pending} fits are still to be made.")
    return said


def quiet(options: FitOptions) -> FitOptions:
    """The options for a worker, whose progress nobody sees."""
    return replace(options, progress=False)
