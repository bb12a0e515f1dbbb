"""From what the user gives to the setup of a least-squares fit.

Where the user gives no bounds for a delay or for the frequency of a history, they are
chosen: see `default_bounds.py`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from .._adaptive.methods import AbstractAdaptive
from .._data.data import Data
from .._problem.delays import delay_count, is_delay
from .._problem.free_parameters import FreeParameters
from .._problem.history import frequency_fields
from .._problem.network_weights import weights_of
from .._problem.parameters import Parameter, find, free_parameters, parameter_vector
from .._problem.problem import Problem
from .._problem.without_doses import without_doses
from .._solve.runge_kutta import AbstractSolver
from .._solve.time_grid import has_switches, points_of
from .._util import wording
from .._util.cores import cores
from .default_bounds import bound_delay, bound_frequencies, bound_shape
from .known_inputs import bound_by_inputs, bound_doses
from .noise_setup import bound_noise, make_likelihood
from .normal_equations import LeastSquaresModel, MeshPlan
from .prior_equations import Priors
from .setup import STEPS_PER_RECORD, FitSetup
from .weight_widths import weight_widths

# One delay for which the user allows less than this share of the record is solved on a
# mesh, whose steps have nothing to do with it.
_SHORT_DELAY = 1e-4


def make_setup(
    problem: Problem,
    data: Data,
    parameters: Mapping[str, Any] | None,
    solver: AbstractSolver | AbstractAdaptive,
    steps_per_delay: int,
    seed: int = 0,
    workers: int | None = None,
) -> tuple[FitSetup, Problem]:
    """The setup of a fit, and the problem with the fixed parameters filled in.

    `parameters` are the user's settings by name: start values, bounds, priors, or what
    is fixed. `workers` is the number of threads, by default that of the cores."""
    free, problem, _ = free_parameters(problem, parameters, seed=seed, partial=True)
    if not free.names:
        raise ValueError("Every parameter is fixed: there is nothing to learn.")
    start = parameter_vector(problem)
    guess = np.array([start[free.source.index(j)] for j in range(len(free.names))])
    lower, upper = np.array(free.lower), np.array(free.upper)
    is_given = np.isfinite([lower, upper])
    is_history = np.array([path.startswith("history.") for path in free.paths])
    is_frequency = _is_frequency(problem, free)
    bound_frequencies(data, lower, upper, is_frequency)
    for j in free.delays:
        bound_delay(data, lower, upper, guess, free.names[j], j)
    bound_by_inputs(problem, data, free, lower, upper, is_given)
    bound_doses(problem, data, free, lower, upper)
    for j in free.shapes:
        bound_shape(lower, upper, guess, j)
    bound_noise(problem, data, free, lower, upper, guess)
    is_inside = (lower <= guess) & (guess <= upper)
    guess = np.where(is_inside, guess, np.nan)
    priors = _priors(parameters, free, weights_of(problem, free.names))
    # Levenberg-Marquardt enforces the bounds itself, on untransformed values. Here they
    # are left out: the model is a constant of the compiled programs, which fits with
    # other bounds can then use as well.
    free = replace(free, lower=(-np.inf,) * len(lower), upper=(np.inf,) * len(lower))
    learned, fixed = free.split(problem)
    shortest, mesh = shortest_delay(problem, free, lower), None
    is_adaptive = isinstance(solver, AbstractAdaptive)
    if not is_adaptive and _is_on_mesh(problem, data, shortest):
        assert isinstance(solver, AbstractSolver)
        mesh = mesh_plan(problem, data, solver, shortest)
    model = LeastSquaresModel(
        free,
        learned,
        fixed,
        solver,
        priors,
        problem.dimension,
        mesh,
        likelihood=make_likelihood(problem, data, free),
    )
    setup = FitSetup(
        model,
        data,
        lower,
        upper,
        guess,
        steps_per_delay,
        is_history,
        is_frequency,
        is_given,
        workers or cores(),
    )
    return setup, problem


def shortest_delay(problem: Problem, free: FreeParameters, lower: np.ndarray) -> float:
    """The shortest delay that is possible: the lower bound of a learned one, or the
    value of a fixed one. One that is computed has no lower bound: it may be short."""
    if any(map(is_delay, jax.tree.leaves(problem.tau, is_leaf=is_delay))):
        return 0.0
    values = parameter_vector(problem)
    numbers = [array.first for array in free.arrays if array.is_delay]
    sources = [free.source[e] for e in numbers]
    pairs = zip(numbers, sources)
    return min(float(lower[j] if j >= 0 else values[e]) for e, j in pairs)


def has_single_delay(problem: Problem) -> bool:
    """Whether there is one delay and no switch, so that a grid can be aligned with
    it."""
    return delay_count(problem.tau) == 1 and not has_switches(without_doses(problem))


def _is_on_mesh(problem: Problem, data: Data, shortest: float) -> bool:
    """Whether the fits are solved on a mesh, and not on a grid that is aligned with one
    delay."""
    return not has_single_delay(problem) or shortest < _SHORT_DELAY * data.T


def mesh_plan(
    problem: Problem, data: Data, solver: AbstractSolver, shortest: float
) -> MeshPlan:
    """How fits are solved on a mesh, if their delays may be as short as `shortest`."""
    overlaps = shortest < 2 * data.T / STEPS_PER_RECORD
    points = points_of(without_doses(problem), solver)
    return MeshPlan(points, np.asarray(data.T), overlaps)


def _is_frequency(problem: Problem, free: FreeParameters) -> np.ndarray:
    """For each free value, whether it is a frequency of the history."""
    fields = tuple(f"history.{field}" for field in frequency_fields(problem.history))
    # An element of a vector has an index behind the name: `history.omega[1]`.
    return np.array([path.split("[")[0] in fields for path in free.paths])


def _priors(
    parameters: Mapping[str, Any] | None, free: FreeParameters, weights: list[int]
) -> Priors | None:
    """The priors of the free values; None if no parameter has one. The `weights` of
    networks have a Gaussian one of zero mean, unless the user gives another."""
    given = {
        key: parameter.prior
        for key, parameter in (parameters or {}).items()
        if isinstance(parameter, Parameter) and parameter.prior is not None
    }
    if not given and not weights:
        return None
    size = len(free.names)
    mean, weight, log = np.zeros(size), np.zeros(size), np.zeros(size, bool)
    weight[weights] = weight_widths(free, weights) ** -2
    for key, prior in given.items():
        for element in find(key, list(free.arrays)):
            j = free.source[element]
            if j < 0:
                raise ValueError(
                    f"{wording.setting(key)} is fixed, so that its prior has no "
                    "effect. Remove the prior, or let the parameter be learned."
                )
            if prior.is_log and free.lower[j] < 0 and j not in free.delays:
                raise ValueError(
                    f"{wording.setting(key)}: a log-normal prior is for positive "
                    f"values. Add {wording.positive(key)}."
                )
            mean[j], weight[j], log[j] = prior.center, prior.width**-2.0, prior.is_log
    return Priors(mean, weight, log)
