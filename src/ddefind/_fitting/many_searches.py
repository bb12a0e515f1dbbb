"""Many least-squares fits at once: their searches, together where that is possible.

Data sets are searched for in portions, one on each core at a time. The results are
arrays; a single estimate is made of them when it is read. Data sets whose search took
an unusual way are fitted alone, and so are all of a kind that `can_search` refuses."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, final

import equinox as eqx
import jax
import numpy as np

from .._data.data import DataStack
from .._engine.choose import AUTO
from .._many_fits.minima import rounding
from .._many_fits.search import Found, needs_no_other_solver, search
from .._many_fits.sets import DataSets, Sets, can_search, has_enough_data, make_sets
from .._problem.history import Smooth
from .._problem.parameters import parameter_vector
from .._programs.jaxpr import UntranslatedError
from .._programs.program import Runner, others, place_for
from .._results.batch import FitBatch
from .._results.estimate import Estimate, FitOrigin, estimate_at
from .._results.status import STATUS, Status
from .._search.batches import Minimum, RefinedFits, SearchResult
from .._search.setup import FitSetup
from .._util import wording
from .._util.machine import cores, on_host
from .request import FitOptions, FitTask, FitTasks

# How many of the estimates that were read are kept.
_KEPT = 1024


def _notes(has_intervals: bool) -> tuple[str, ...]:
    """Return what is printed below many fits."""
    left_out = f"Intervals were left out; {wording.INTERVALS_OF_MANY}."
    return () if has_intervals else (left_out,)


@final
@dataclass(frozen=True)
class Searched:
    """The minima that searches found for the tasks with these `numbers`, in this order.

    A sum of squares below `rounding` is zero up to rounding errors. `guess` are the
    user's start values; `loss` and `delay` are shown while fits run."""

    numbers: np.ndarray
    found: Found
    rounding: np.ndarray
    guess: np.ndarray
    loss: np.ndarray
    delay: np.ndarray

    def search_result(self, row: int, setup: FitSetup) -> SearchResult:
        """Return the result of the search in this row."""
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
    """The estimates of many tasks, from searches that were done together or alone."""

    def __init__(self, tasks: FitTasks, setup_of: Callable[[FitTask], FitSetup]):
        self.tasks, self.setup_of = tasks, setup_of
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
        """Return the tasks that have no estimate yet."""
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
        setup = self.setup_of(task)
        origin = FitOrigin(task.seed, self.seconds / len(self.tasks))
        return estimate_at(setup, searched.search_result(row, setup), origin)

    def batch(self, seconds: float, has_intervals: bool) -> FitBatch[Estimate]:
        """Return all estimates as one batch."""
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
    """Return many estimates as one batch."""
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


# How many data sets a thread searches at a time: few enough that their arrays take
# little memory, and on a GPU enough to keep its processors busy.
_PORTION, _ON_GPU = 256, 12_500
# The most threads that serve a GPU: more would wait for each other in Python.
_MOST_THREADS = 8
# The bytes that the arrays of a portion may take, and how many normal equations there
# are for each start at a time.
_MOST_BYTES, _COPIES = 1e9, 12


def search_together(
    fits: ManyEstimates, options: FitOptions, starts: int
) -> Iterator[Searched]:
    """Search together, in portions, for all data sets of the tasks where that is
    possible; leave out those whose search took an unusual way."""
    tasks, setup_of = fits.tasks, fits.setup_of
    first = tasks[0]
    if isinstance(first.problem.history, Smooth) or not can_search(setup_of(first)):
        return
    setups, kind = _kinds(fits)
    able = np.array([has_enough_data(setup, starts) for setup in setups])
    able &= np.array([_shares_program(setups[0], setup) for setup in setups])
    numbers = np.flatnonzero(able[kind])
    if len(numbers) == 0:
        return
    place = place_for(len(numbers))
    on_gpu = place is Runner.gpu
    size = _ON_GPU if on_gpu else min(_PORTION, -(-len(numbers) // cores()))
    bytes_of_set = _COPIES * 8 * starts * (1 + len(setups[0].lower)) ** 2
    size = max(min(size, int(_MOST_BYTES / bytes_of_set)), 1)
    portions = np.split(numbers, range(size, len(numbers), size))

    def one(portion: np.ndarray) -> Searched:
        with on_host():
            for other in (place, *others(place)):
                with suppress(UntranslatedError):
                    return searched(portion, other)
        raise AssertionError("XLA runs every program.")

    def searched(portion: np.ndarray, place: Runner) -> Searched:
        sets = make_sets(
            DataSets.of(tasks.stack(portion)),
            setups,
            kind[portion],
            tasks.seed + portion,
            lambda row: setup_of(tasks[int(portion[row])]),
            place,
        )
        found = search(sets, starts)
        usual = found.is_usual
        if options.solver == AUTO:
            usual = usual & needs_no_other_solver(sets, found)
        return _result(portion[usual], sets.take(usual), found.take(usual))

    with ThreadPoolExecutor(min(cores(), _MOST_THREADS) if on_gpu else cores()) as pool:
        yield from pool.map(one, portions)


def _result(numbers: np.ndarray, sets: Sets, found: Found) -> Searched:
    best = found.best
    loss = sets.template.shown_loss(best.loss[:, 0], best.squares[:, 0])
    small = rounding(sets, sets.weights(found.weighting))
    delay = sets.delay(best.theta[:, 0])
    return Searched(numbers, found, small, sets.guess, loss, delay)


def _kinds(fits: ManyEstimates) -> tuple[list[FitSetup], np.ndarray]:
    """Return the setups that differ in more than the measured values, and which of them
    each task has: they depend on the problem, the starts and the times."""
    tasks, is_random = fits.tasks, fits.tasks.has_random_starts
    known: dict[tuple, int] = {}
    setups: list[FitSetup] = []
    kind = np.zeros(len(tasks), int)
    for number, times in enumerate(_times_of_all(tasks)):
        problem = tasks.problems[number if len(tasks.problems) > 1 else 0]
        starts = tasks.starts[number if len(tasks.starts) > 1 else 0]
        key = id(problem), tuple(sorted(starts.items())), times
        key = (*key, number if is_random else 0)
        if key not in known:
            known[key] = len(setups)
            setups.append(fits.setup_of(tasks[number]))
        kind[number] = known[key]
    return setups, kind


def _times_of_all(tasks: FitTasks) -> Iterator[Hashable]:
    """Yield a key for each task that says at which times it was measured."""
    sets = tasks.sets
    if isinstance(sets, DataStack):
        if sets.t.strides[0] == 0 and np.isfinite(sets.x).all():
            yield from [0] * len(tasks)
            return
        rows = zip(sets.t, np.isfinite(sets.x))
        each = [(t.tobytes(), measured.tobytes()) for t, measured in rows]
    else:
        each = [
            (d.sd is None, d.x.shape, d.t.tobytes(), np.isfinite(d.x).tobytes())
            for d in sets
        ]
    yield from each * (len(tasks) if len(each) == 1 else 1)


def _shares_program(template: FitSetup, setup: FitSetup) -> bool:
    """Whether two setups share a compiled program with all its constants: they differ
    in bounds and start values only."""
    one, other = template.model, setup.model
    if one.free != other.free or (template.data.sd is None) != (setup.data.sd is None):
        return False
    is_constant = np.array(one.free.source) < 0
    constants, others = (
        parameter_vector(eqx.combine(model.learned, model.fixed))[is_constant]
        for model in (one, other)
    )
    (leaves, tree), (leaves_of_other, tree_of_other) = (
        jax.tree.flatten(replace(model, learned=None)) for model in (one, other)
    )
    return (
        tree == tree_of_other
        and np.array_equal(constants, others, equal_nan=True)
        and all(map(_is_same, leaves, leaves_of_other))
    )


def _is_same(one: Any, other: Any) -> bool:
    if eqx.is_array_like(one) and eqx.is_array_like(other):
        return np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True)
    return one is other
