"""The setup of a least-squares fit: model, data, bounds, start values and step sizes.

`make_setup` puts it together from what the user gives. Where the user gives no bounds
for a delay or for the frequency of a history, it chooses them: see
`default_bounds.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._adaptive.methods import AbstractAdaptive
from .._data.data import Data
from .._data.smoothing import Curve, smooth
from .._loss.losses import SumOfSquares
from .._loss.path_costs import Points
from .._problem.delays import delay_count, is_delay
from .._problem.free_parameters import FreeParameters
from .._problem.general_delays import is_general, typical_delays
from .._problem.history import frequency_fields
from .._problem.parameters import Parameter, find, free_parameters, parameter_vector
from .._problem.problem import Problem
from .._problem.without_doses import without_doses
from .._solve.runge_kutta import AbstractSolver
from .._solve.time_grid import has_switches, points_of
from .._util import wording
from .._util.cores import cores
from ..noise._abstract import AbstractNoise
from .adaptive_sensitivity import COARSE, USUAL
from .default_bounds import bound_delay, bound_frequencies, bound_shape
from .degrees_of_freedom import degrees_of_freedom, residual_variance
from .known_inputs import bound_by_inputs, bound_doses
from .levenberg_marquardt import Box
from .natural_units import NaturalUnits, natural_sizes, natural_units
from .noise_setup import (
    bound_noise,
    likelihood_points,
    make_likelihood,
    without_noise,
)
from .normal_equations import LeastSquaresModel, MeshPlan, Priors

# The usual number of rows of the solver's ring buffer. A delay may have a few steps
# less than this.
CAPACITY = 512
# The usual number of rows of a path on a mesh: one compiled program then serves all
# usual numbers of steps in the record.
MESH_CAPACITY = 2048
# The least number of steps over the whole record, and on a mesh the largest one.
_STEPS_PER_RECORD, _MOST_STEPS_PER_RECORD = 100, 400
# The number of steps per delay of a short preliminary fit. (The record may need more
# steps: see `FitSetup.rate`.)
_COARSE_STEPS = 5
# A delay that is shorter than this share of the record has fewer steps than usual.
_USUAL_SHARE = 1 / 40
# One delay for which the user allows less than this share of the record is solved on a
# mesh, whose steps have nothing to do with it.
_SHORT_DELAY = 1e-4


@final
@dataclass(frozen=True)
class FitSetup:
    """A model with its data and bounds: what every start of a search shares.

    `lower`, `upper` and `guess` have one element for each free value. `guess` are the
    user's start values, NaN where there is none. The boolean arrays `is_history` and
    `is_frequency` mark the free values that belong to the history, and those that are
    frequencies of it; `is_given` [2, p] marks the lower and the upper bounds that the
    user gave. `workers` is the number of threads that fits run on."""

    model: LeastSquaresModel
    data: Data
    lower: np.ndarray
    upper: np.ndarray
    guess: np.ndarray
    steps_per_delay: int
    is_history: np.ndarray
    is_frequency: np.ndarray
    is_given: np.ndarray
    workers: int

    # The delays and the solver's steps.

    def delays(self, theta: np.ndarray) -> np.ndarray:
        """The delays of each row of free values, learned or fixed, [rows, k]."""
        tau = self.model.learned.tau
        if not isinstance(tau, jax.Array):
            return np.asarray(_delays(self.model, jnp.asarray(theta)))
        indices = self.model.free.delays
        return theta[:, list(indices)] if indices else np.full((len(theta), 1), tau)

    def delay(self, theta: np.ndarray) -> np.ndarray:
        """The longest delay of each row of free values."""
        return self.delays(theta).max(axis=1)

    @property
    def rate(self) -> float:
        """The least number of steps per unit of time that resolves the record."""
        return _STEPS_PER_RECORD / self.data.T

    def steps(self, theta: np.ndarray) -> np.ndarray:
        """The steps per delay for each row of free values: enough to resolve both the
        delay and the record; fewer in a short delay. On a mesh these are the steps in
        the record, half of the `steps_per_delay` in the longest delay, but not more
        than a few hundred: most delays that are shorter have no influence on the steps
        that are needed."""
        least = self.steps_per_delay
        if self.model.is_adaptive:
            return np.full(len(theta), USUAL)
        if self.model.mesh is not None:
            return self._steps_in_record(theta, least / 2, _MOST_STEPS_PER_RECORD)
        share = self.delay(theta) / self.data.T
        least = np.ceil(np.minimum(1.0, share / _USUAL_SHARE) * least)
        by_record = np.ceil(_STEPS_PER_RECORD * share)
        most = max(self.steps_per_delay, CAPACITY // 2 - 3)
        return np.clip(by_record, least, most).astype(int)

    def steps_near(self, theta: np.ndarray, place: np.ndarray, n: int) -> np.ndarray:
        """Steps for each row of free values, so that they are as long as `n` steps per
        delay are at `place`, or somewhat shorter."""
        if self.model.is_adaptive or self.model.mesh is not None:
            return np.full(len(theta), n)
        share = self.delay(theta) / self.delay(place[None])
        return np.ceil(n * np.minimum(1.0, 4 * share)).astype(int)

    def coarse_steps(self, theta: np.ndarray) -> np.ndarray:
        """The same for short preliminary fits, which also keep to the `rate`."""
        if self.model.is_adaptive:
            return np.full(len(theta), COARSE)
        if self.model.mesh is not None:
            return self._steps_in_record(
                theta, _COARSE_STEPS, _MOST_STEPS_PER_RECORD // 2
            )
        steps = np.ceil(_STEPS_PER_RECORD * self.delay(theta) / self.data.T)
        return np.clip(steps, 1, _COARSE_STEPS).astype(int)

    def _steps_in_record(self, theta: np.ndarray, in_delay: float, most: int):
        steps = in_delay * self.data.T / np.maximum(self.delay(theta), 1e-300)
        return np.ceil(np.clip(steps, _STEPS_PER_RECORD, most)).astype(int)

    # The bounds.

    def box(self, count: int, held: np.ndarray | None = None) -> Box:
        """The bounds of `count` fits; `held` marks the values that may not move."""
        shape = (count, len(self.lower))
        held = np.zeros(shape, bool) if held is None else held
        return Box(
            np.broadcast_to(self.lower, shape),
            np.broadcast_to(self.upper, shape),
            np.broadcast_to(held, shape),
        )

    @property
    def bound_variance(self) -> np.ndarray:
        """The variance of a uniform distribution between the bounds of each value;
        infinite where a bound is missing."""
        width = self.upper - self.lower
        return np.where(np.isfinite(width), width, np.inf) ** 2 / 12

    # The data.

    def points(self, noise: np.ndarray | None = None) -> Points:
        """The data with their weights. Where the data have no standard deviations of
        their own, the weights are those of the noise levels `noise`, one for each
        quantity, or one."""
        if self.model.likelihood is not None:
            return likelihood_points(self)
        points = SumOfSquares().prepare(self.data).points
        if self.data.sd is not None or noise is None:
            return points
        return points._replace(weights=points.weights / noise**2)

    @property
    def problem(self) -> Problem:
        """The problem, whose free values are not filled in."""
        return eqx.combine(self.model.learned, self.model.fixed)

    @property
    def problem_noise(self) -> dict[str, AbstractNoise]:
        """The noise models of the quantities that have one."""
        return self.problem.noise or {}

    @cached_property
    def exploring(self) -> "FitSetup":
        """The setup with which a search explores: itself, or weighted least squares if
        the fit is by likelihood."""
        return self if self.model.likelihood is None else without_noise(self)

    @property
    def count(self) -> int:
        """The number of measured values."""
        return int(np.isfinite(self.data.x).sum())

    @cached_property
    def measured(self) -> np.ndarray:
        """For each quantity, whether it was measured at all."""
        return np.any(np.isfinite(self.data.x), axis=0)

    @property
    def has_few_values(self) -> np.ndarray:
        """For each of several quantities, whether it has no more values than there are
        parameters, so that its residuals say nothing about its noise."""
        count = np.isfinite(self.data.x).sum(axis=0)
        return (count > 0) & (count <= len(self.lower)) & (len(count) > 1)

    @cached_property
    def quantity_curve(self) -> Curve | None:
        """A smoothing spline through the measured quantities; a constant for one that
        was not measured. None if there are too few points."""
        data = self.data
        return smooth(Data(data.t, np.where(self.measured, data.x, 1.0)))

    @property
    def curve(self) -> Curve | None:
        """The same if the measured quantities are all states, so that the slopes of the
        curve can be compared with the right-hand side; else None."""
        is_state = self.measured.all() and not self.model.observes
        return self.quantity_curve if is_state else None

    @cached_property
    def units(self) -> NaturalUnits | None:
        """The natural sizes of the free values; None without a smooth curve, or if the
        delays are more than numbers."""
        curve, model = self.quantity_curve, self.model
        if curve is None or is_general(eqx.combine(model.learned.tau, model.fixed.tau)):
            return None
        return natural_units(model, curve, self.data.T, self.measured)

    @cached_property
    def natural_sizes(self) -> np.ndarray:
        """The natural size of each free value, 1 where nothing is known."""
        if self.model.likelihood is not None:
            sizes = self.exploring.natural_sizes
            return np.concatenate([sizes, np.abs(self.guess[len(sizes) :])])
        return natural_sizes(self.units, len(self.lower))

    # The noise.

    @property
    def needs_noise(self) -> bool:
        """Whether the estimates depend on the noise levels: with several quantities,
        with priors, or in a robust fit. Otherwise a common factor of all weights
        cancels."""
        several = self.data.x.shape[1] > 1
        return several or self.model.priors is not None or self.model.huber is not None

    @property
    def weights_are_absolute(self) -> bool:
        """Whether the weights are absolute, so that the sum of squares is a chi-square:
        the noise is given, or (in a robust fit) was estimated from clipped residuals,
        or has a model. Otherwise the variance of the residuals is estimated from the
        sum of squares."""
        model = self.model
        is_robust = model.huber is not None
        return self.data.sd is not None or is_robust or model.likelihood is not None

    @property
    def freedom(self) -> int:
        """Degrees of freedom with every free parameter counted as determined; see
        `degrees_of_freedom.py`."""
        likelihood = self.model.likelihood
        free = len(self.lower) if likelihood is None else likelihood.others
        return degrees_of_freedom(self.count, determined=free)

    def residual_variance(self, loss: float) -> float:
        """The variance of the weighted residuals of a fit with the sum of squares
        `loss`, by which the search converts differences of `loss` to chi-square."""
        return residual_variance(loss, self.freedom, is_known=self.weights_are_absolute)


def make_setup(
    problem: Problem,
    data: Data,
    parameters: Mapping[str, Any] | None,
    solver: AbstractSolver | AbstractAdaptive,
    steps_per_delay: int,
    huber: float | None = None,
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
    priors = _priors(parameters, free)
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
        free, learned, fixed, solver, priors, problem.dimension, huber, mesh
    )
    model = replace(model, likelihood=make_likelihood(problem, data, free))
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
    overlaps = shortest < 2 * data.T / _STEPS_PER_RECORD
    points = points_of(without_doses(problem), solver)
    return MeshPlan(points, np.asarray(data.T), overlaps)


@eqx.filter_jit
def _delays(model: LeastSquaresModel, theta: jax.Array) -> jax.Array:
    """The delays of each row of free values, or how long they typically are,
    [rows, k]."""

    def one(theta):
        learned = model.free.join_values(theta, model.learned)
        problem = eqx.combine(learned, model.fixed)
        return typical_delays(problem.tau, problem.start)

    return jax.vmap(one)(theta)


def _is_frequency(problem: Problem, free: FreeParameters) -> np.ndarray:
    """For each free value, whether it is a frequency of the history."""
    fields = tuple(f"history.{field}" for field in frequency_fields(problem.history))
    # An element of a vector has an index behind the name: `history.omega[1]`.
    return np.array([path.split("[")[0] in fields for path in free.paths])


def _priors(
    parameters: Mapping[str, Any] | None, free: FreeParameters
) -> Priors | None:
    """The priors of the free values; None if no parameter has one."""
    given = {
        key: parameter.prior
        for key, parameter in (parameters or {}).items()
        if isinstance(parameter, Parameter) and parameter.prior is not None
    }
    if not given:
        return None
    size = len(free.names)
    mean, weight, log = np.zeros(size), np.zeros(size), np.zeros(size, bool)
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
