"""The estimates of many fits: arrays, and single estimates that are made when asked
for."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from .._least_squares.batches import RefinedFits
from .._least_squares.distinct_fits import Minimum
from .._least_squares.search import SearchResult
from .._least_squares.setup import FitSetup
from .._many_fits.search import Found
from .._results.batch import FitBatch
from .._results.estimate import Estimate, make_estimate
from .._results.search_fields import STATUS
from .._results.status import Status
from .._util import wording
from .request import FitTasks, SetupOf

# How many of the estimates that were asked for are kept.
_KEPT = 1024
# What is printed below many fits without intervals.
_LEFT_OUT = "Intervals were left out; {}."


def _notes(has_intervals: bool) -> tuple[str, ...]:
    return () if has_intervals else (_LEFT_OUT.format(wording.INTERVALS_OF_MANY),)


@final
@dataclass(frozen=True)
class Searched:
    """What searches have found for the tasks with these `numbers`, in the same order.

    A sum of squares below `rounding` is zero up to rounding errors. `guess` are the
    user's start values, `loss` and `delay` what is shown of a fit."""

    numbers: np.ndarray
    found: Found
    rounding: np.ndarray
    guess: np.ndarray
    loss: np.ndarray
    delay: np.ndarray

    def search_result(self, row: int, setup: FitSetup) -> SearchResult:
        """The result of the search in this row."""
        found, best = self.found, self.found.best
        fields = ("theta", "gram", "squares", "evaluations", "status", "n", "starts")
        arrays = {name: getattr(best, name)[row] for name in fields}
        theta, loss, starts = (array[row] for array in found.minima)
        return SearchResult(
            best=RefinedFits(**arrays, rounding=self.rounding[[row]]),
            points=setup.points(found.weighting[row]),
            noise=found.noise[row],
            minima=tuple(
                Minimum(theta[i], float(loss[i]), int(starts[i]))
                for i in np.flatnonzero(np.isfinite(loss))
            ),
            starts=int(found.starts[row]),
            evaluations=int(found.evaluations[row]),
            step_error=float(found.step_error[row]),
            interrupted=False,
        )


@final
class ManyEstimates:
    """The estimates of many tasks, as they come: those of searches that were done
    together, or single ones."""

    def __init__(self, tasks: FitTasks, setup_of: SetupOf):
        self.tasks, self._setup_of = tasks, setup_of
        self._place: dict[int, tuple[Searched, int]] = {}
        self._single: dict[int, Estimate] = {}
        self._made = lru_cache(_KEPT)(self._make)
        self.seconds = 0.0
        # The loss and the delay of the fit that came last.
        self.last = np.nan, np.nan

    @property
    def done(self) -> int:
        return len(self._place) + len(self._single)

    def missing(self) -> list[int]:
        """The tasks that have no estimate yet."""
        known = self._place.keys() | self._single.keys()
        return [n for n in range(len(self.tasks)) if n not in known]

    def add_searched(self, searched: Searched) -> None:
        for row, number in enumerate(searched.numbers.tolist()):
            self._place[number] = searched, row
        if len(searched.numbers):
            self.last = float(searched.loss[-1]), float(searched.delay[-1])

    def add(self, number: int, estimate: Estimate) -> None:
        self._single[number] = estimate
        delays = estimate.setup.delay(estimate.best[None])
        self.last = estimate.loss, float(delays[0])

    def __getitem__(self, number: int) -> Estimate:
        single = self._single.get(number)
        return self._made(number) if single is None else single

    def _make(self, number: int) -> Estimate:
        task, (searched, row) = self.tasks[number], self._place[number]
        setup, problem = self._setup_of(task)
        result = searched.search_result(row, setup)
        own_seconds = self.seconds / len(self.tasks)
        return make_estimate(
            setup, problem, result, task.seed, own_seconds, task.equation
        )

    def batch(self, seconds: float, has_intervals: bool) -> FitBatch[Estimate]:
        """All estimates, as `fit_many` returns them."""
        self.seconds = seconds
        template = self[0]
        count, p = len(self.tasks), len(template.names)
        best, first = np.zeros((count, p)), np.zeros((count, p))
        loss, evaluations = np.zeros(count), np.zeros(count, int)
        statuses = [Status.no_start] * count
        for searched in {id(s): s for s, _ in self._place.values()}.values():
            rows, found = searched.numbers, searched.found
            best[rows] = found.best.theta[:, 0]
            first[rows], loss[rows] = searched.guess, searched.loss
            evaluations[rows] = found.evaluations
            for number, code in zip(rows.tolist(), found.best.status[:, 0].tolist()):
                statuses[number] = STATUS[code]
        for number, estimate in self._single.items():
            best[number], first[number] = estimate.best, estimate.setup.guess
            loss[number] = estimate.loss
            evaluations[number] = estimate.search_result.evaluations
            statuses[number] = estimate.status
        return FitBatch(
            names=template.names,
            best=best,
            first=first,
            final=best,
            loss=loss,
            statuses=tuple(statuses),
            epochs=evaluations,
            seconds=seconds,
            results=self.__getitem__,
            notes=_notes(has_intervals),
            labels=self.tasks.labels,
        )


def batch_of(
    estimates: Sequence[Estimate], seconds: float, has_intervals: bool
) -> FitBatch[Estimate]:
    """Many estimates as one batch."""
    best = np.stack([each.best for each in estimates])
    return FitBatch(
        names=estimates[0].names,
        best=best,
        first=np.stack([each.setup.guess for each in estimates]),
        final=best,
        loss=np.array([each.loss for each in estimates]),
        statuses=tuple(each.status for each in estimates),
        epochs=np.array([each.search_result.evaluations for each in estimates]),
        seconds=seconds,
        results=estimates.__getitem__,
        notes=_notes(has_intervals),
    )
