"""From the setups of many fits to one record of arrays: `Sets`."""

from collections.abc import Callable, Sequence

import equinox as eqx
import numpy as np

from .._data.data import Data
from .._kernels.places import Place
from .._least_squares.default_bounds import delays_to_try
from .._least_squares.natural_units import unit_exponents
from .._least_squares.setup import FitSetup
from .._problem.general_delays import is_general
from .._problem.parameters import parameter_vector
from .._problem.problem import Problem
from .curves import curves, rough_noises, spreads
from .sets import DataSets, Sets


def can_search(setup: FitSetup) -> bool:
    """Whether fits of this model can be searched for together: to a single data set,
    with delays that are numbers, fixed steps and plain least squares."""
    model = setup.model
    is_plain = setup.joint is None and model.likelihood is None
    if not is_plain or model.is_adaptive or setup.has_networks or model.stores_rows:
        return False
    problem = model.free.problem_at(np.ones(len(setup.lower)), _problem(setup))
    return not is_general(problem.tau)


def has_enough_data(setup: FitSetup, starts: int) -> bool:
    """Whether the data set has curves through all states, or there is a complete start,
    from which alone a fit begins."""
    if setup.has_few_values.any():
        return False
    is_complete = starts == 1 and bool(np.isfinite(setup.guess).all())
    return is_complete or (setup.has_curves and bool(setup.measured.all()))


def _problem(setup: FitSetup) -> Problem:
    return eqx.combine(setup.model.learned, setup.model.fixed)


def _tried(setup: FitSetup, j: int) -> tuple[float, float]:
    """The range from which starts for the delay j are drawn."""
    assert isinstance(setup.data, Data)
    return delays_to_try(setup.data, float(setup.lower[j]), float(setup.upper[j]))


def make_sets(
    data: DataSets,
    setups: Sequence[FitSetup],
    kind: np.ndarray,
    seed: np.ndarray,
    setup_of: Callable[[int], FitSetup],
    place: Place,
) -> Sets:
    """The sets of a batch. Set s has the bounds and start values of
    `setups[kind[s]]`."""
    template = setups[0]
    free, values = template.model.free, parameter_vector(_problem(template))
    delays = [array for array in free.arrays if array.is_delay]
    sources = [free.source[array.first] for array in delays]
    known = tuple(
        source if source >= 0 else float(values[array.first])
        for array, source in zip(delays, sources)
    )
    tried = np.array([[_tried(s, j) for j in free.delays] for s in setups]).reshape(
        len(setups), len(free.delays), 2
    )
    spread = spreads(data.x, data.measured)
    if data.sd is None:
        noise = rough_noises(data.t, data.x, data.measured, spread)
    else:
        squares = np.where(data.measured, data.sd, 0.0) ** 2
        noise = np.sqrt(squares.sum(axis=1) / np.maximum(data.measured.sum(axis=1), 1))
    lines = curves(data.t, data.x, data.measured)
    k = data.x.shape[2]
    exponents, shifts = np.zeros((len(template.lower), 2 * k + 1)), np.zeros((1, k))
    if template.units is not None:
        typical = np.ones(template.model.dimension)
        if not template.model.observes:
            typical = np.exp(lines.logs[0, :k])
        found = unit_exponents(template.model, template.measured, typical)
        # They are ratios of small numbers, up to the errors of differences at points
        # that depend on the data of the first set.
        exponents, shifts = (np.round(each, 4) + 0.0 for each in found)
    return Sets(
        template,
        data,
        lines,
        spread,
        noise,
        np.stack([s.lower for s in setups])[kind],
        np.stack([s.upper for s in setups])[kind],
        np.stack([s.guess for s in setups])[kind],
        tried[kind],
        exponents,
        shifts,
        seed,
        np.arange(len(kind)),
        known,
        setup_of,
        place,
    )
