"""Many least-squares fits at once: their searches, together where that is possible.

Data sets are searched for in portions, one on each core at a time. What comes out are
arrays; the fit of a single data set is made of them when it is asked for. Data sets
whose search took an unusual way are fitted alone, and so are all of a kind that
`can_search` refuses."""

from collections.abc import Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._data.stack import DataStack
from .._kernels.jaxpr import UntranslatedError
from .._kernels.places import Place, others, place_for
from .._least_squares.setup import FitSetup
from .._many_fits.minima import rounding
from .._many_fits.search import Found, search
from .._many_fits.sets import DataSets, Sets
from .._many_fits.solver_check import needs_no_other_solver
from .._many_fits.stack import can_search, has_enough_data, make_sets
from .._problem.history import Smooth
from .._problem.parameters import parameter_vector
from .._solve.choose_solver import AUTO
from .._util.cores import cores
from .._util.host import on_host
from .many_estimates import Searched
from .request import FitOptions, FitTasks, SetupOf

# How many data sets a thread searches at a time: few enough that their arrays take
# little memory, and on a GPU enough to keep its processors busy. So many threads serve
# a GPU at the most: what is left in Python keeps more of them waiting for each other.
_PORTION, _ON_GPU, _MOST_THREADS = 256, 12_500, 8
# The bytes that the arrays of a portion may take, and how many normal equations there
# are for each start at a time.
_MOST_BYTES, _COPIES = 1e9, 12


def search_together(
    tasks: FitTasks, options: FitOptions, starts: int, setup_of: SetupOf
) -> Iterator[Searched]:
    """Search for all data sets of the tasks that can be searched together, in portions;
    those of unusual searches are left out."""
    first = tasks[0]
    if isinstance(first.problem.history, Smooth):
        return
    if not can_search(setup_of(first)[0]):
        return
    setups, kind = _kinds(tasks, setup_of, options)
    able = np.array([has_enough_data(setup, starts) for setup in setups])
    able &= np.array([_like(setups[0], setup) for setup in setups])
    numbers = np.flatnonzero(able[kind])
    if len(numbers) == 0:
        return
    place = place_for(len(numbers))
    on_gpu = place is Place.gpu
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

    def searched(portion: np.ndarray, place: Place) -> Searched:
        sets = make_sets(
            DataSets.of(tasks.stack(portion)),
            setups,
            kind[portion],
            tasks.seed + portion,
            lambda row: setup_of(tasks[int(portion[row])])[0],
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
    # One quantity without given noise: its plain sum of squares.
    is_plain = not sets.template.weights_are_absolute and best.squares.shape[2] == 1
    loss = best.squares[:, 0, 0] if is_plain else best.loss[:, 0]
    small = rounding(sets, sets.weights(found.weighting))
    delay = sets.delay(best.theta[:, 0])
    return Searched(numbers, found, small, sets.guess, loss, delay)


def _kinds(
    tasks: FitTasks, setup_of: SetupOf, options: FitOptions
) -> tuple[list[FitSetup], np.ndarray]:
    """Setups that differ in more than the measured values, and which of them each task
    has: they depend on the problem, the starts and the times."""
    known: dict[tuple, int] = {}
    setups: list[FitSetup] = []
    kind = np.zeros(len(tasks), int)
    for number, times in enumerate(_times_of_all(tasks)):
        problem = tasks.problems[number if len(tasks.problems) > 1 else 0]
        starts = tasks.starts[number if len(tasks.starts) > 1 else 0]
        key = id(problem), tuple(sorted(starts.items())), times
        key = (*key, number if options.has_random_starts else 0)
        if key not in known:
            known[key] = len(setups)
            setups.append(setup_of(tasks[number])[0])
        kind[number] = known[key]
    return setups, kind


def _times_of_all(tasks: FitTasks) -> Iterator[Hashable]:
    """Something for each task that says at which times it was measured."""
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


def _like(template: FitSetup, setup: FitSetup) -> bool:
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
