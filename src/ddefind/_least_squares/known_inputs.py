"""Delays through which inputs are read stay where the inputs are known, and times of
doses stay within the record.

The upper bound of such a delay, unless the user gives one, is the longest delay for
which the input is known at all times. A bound that the user gives must be covered.
"""

import jax
import numpy as np

from .._data.data import Data
from .._problem.coverage import any_inputs, check_covered, earliest_known
from .._problem.delays import delay_names, is_delay
from .._problem.doses import check_dose_times
from .._problem.free_parameters import FreeParameters
from .._problem.parameters import parameter_vector
from .._problem.problem import Problem
from .._util import wording
from .default_bounds import usual_delays


def bound_by_inputs(
    problem: Problem,
    data: Data,
    free: FreeParameters,
    lower: np.ndarray,
    upper: np.ndarray,
    is_given: np.ndarray,
) -> None:
    """Lower the upper bounds of delays, in place, to where inputs are known; or an
    error, if that is not possible. `is_given` [2, p] marks the user's bounds."""
    if not any_inputs(problem):
        return
    leaves = jax.tree.leaves(problem.tau, is_leaf=is_delay)
    numbers = iter(array for array in free.arrays if array.role == "delay")
    values, names = parameter_vector(problem), delay_names(problem.tau)
    # A delay that is computed has no bounds: where an input is not known, the sum of
    # squares is no number.
    shortest, longest = np.full((2, len(leaves)), np.nan)
    for q, leaf in enumerate(leaves):
        if is_delay(leaf):
            continue
        array = next(numbers)
        j = free.source[array.first]
        if j < 0:
            shortest[q] = longest[q] = values[array.first]
            continue
        limit = earliest_known(problem, q)
        if limit is not None and not is_given[1, j]:
            is_enough = limit > 2 * max(usual_delays(data)[0], lower[j])
            upper[j] = min(upper[j], limit) if is_enough else upper[j]
        shortest[q], longest[q] = lower[j], upper[j]
    advice = [f"give {name} a lower upper bound {wording.BOUNDS}" for name in names]
    check_covered(problem, data.T, shortest, longest, advice)


def bound_doses(
    problem: Problem,
    data: Data,
    free: FreeParameters,
    lower: np.ndarray,
    upper: np.ndarray,
) -> None:
    """Set the missing bounds of the times and durations of doses, in place, to those of
    the record; an error if a dose whose time is known is outside of it."""
    doses = problem.doses
    if doses is None:
        return
    check_dose_times(doses, data.T)
    for event in doses.events:
        for quantity in (event.times, event.duration):
            if quantity is None or quantity.name is None:
                continue
            name = f"doses.values.{quantity.name}"
            array = next(each for each in free.arrays if each.name == name)
            j = free.source[array.first]
            if j >= 0:
                is_time = quantity is event.times
                low = 0.0 if is_time else 1e-3 * data.T
                lower[j] = low if np.isinf(lower[j]) else lower[j]
                upper[j] = data.T if np.isinf(upper[j]) else upper[j]
