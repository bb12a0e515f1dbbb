"""The setup of a least-squares fit: model, data, bounds, start values and step sizes.

`make_setup.py` puts it together from what the user gives, for one experiment or for
several.

The degrees of freedom of a fit, and the variance of its residuals, are defined here
alone. What counts as determined by the data is an argument, because it differs between
the two stages of a fit:

- The *search* (`FitSetup.freedom`) counts every free parameter. It compares many
  unfinished fits with each other and needs one number that is the same for all of them
  and known before the first.
- The *inference* (`Uncertainty.freedom`) looks at the best fit alone and counts only
  the directions in parameter space that the data determine there. A direction without
  influence on the residuals absorbs no noise, and must not cost a degree of freedom."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._data.data import Data
from .._data.smoothing import Curve, smooth
from .._data.study_data import Records, parts_of
from .._engine.engine import STEPS_PER_RECORD, Points
from .._problem.delays import (
    AbstractConstantDelay,
    AbstractDistributedDelay,
    delay_names,
    is_delay,
)
from .._problem.free_parameters import JointParameters
from .._problem.general_delays import is_general, typical_delays
from .._problem.network_weights import weights_of
from .._problem.problem import Problem
from .._util import wording
from .levenberg_marquardt import Box
from .misfit import AbstractMisfit
from .normal_equations import LeastSquaresModel
from .symmetries import NaturalUnits, joint_units, natural_units

if TYPE_CHECKING:
    from .._equation.equation import Equation


def degrees_of_freedom(values: int, determined: int) -> int:
    """Return the number of measured values less the determined ones, at least one.

    >>> degrees_of_freedom(values=50, determined=4), degrees_of_freedom(3, 4)
    (46, 1)
    """
    return max(values - determined, 1)


def effective_count(
    information: np.ndarray, prior: np.ndarray, is_weight: np.ndarray
) -> float:
    """Count the weights of networks that the data determine: the sum of their shares.

    >>> shares = effective_count(np.diag([100.0, 2.0]), np.ones(2), np.ones(2, bool))
    >>> round(shares, 9)
    1.49
    """
    if not is_weight.any():
        return 0.0
    return float(np.sum(determined_shares(information, prior)[is_weight]))


def determined_shares(information: np.ndarray, prior: np.ndarray) -> np.ndarray:
    r"""Return the share to which the data determine each value, and not its prior:
    $1 - A_j (H^{-1})_{jj}$, with the `information` matrix H of data and priors and the
    information A of the `prior` of each value."""
    if not np.all(np.isfinite(information)):
        return np.zeros(len(prior))
    return np.clip(1 - prior * standard_errors(information) ** 2, 0.0, 1.0)


def standard_errors(information: np.ndarray) -> np.ndarray:
    """Return the standard errors for an information matrix; directions without
    information are left out.

    >>> standard_errors(np.diag([4.0, 25.0])).tolist()
    [0.5, 0.2]
    """
    scale = 1 / np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    scaled = scale[:, None] * information * scale
    variances = np.diagonal(np.linalg.pinv(scaled, rcond=1e-13, hermitian=True))
    return np.sqrt(np.maximum(variances, 0.0)) * scale


# How far a second difference may be from zero, relative to the values.
_TOLERANCE = 1e-9


def linear_values(model: LeastSquaresModel) -> np.ndarray:
    """Find the free values that are scales and offsets: they occur in `observe` alone,
    which is linear in all of them together; if only in some of them, the first ones.

    If a random start has a wrong scale, its sum of squares says nothing about its other
    values. For given other values the best scales and offsets follow from a linear
    equation, so that starts are compared with these: a short fit holds all other
    values."""
    free = model.free
    is_linear = np.zeros(len(free.names), bool)
    if not model.observes:
        return is_linear
    elsewhere = {
        source
        for array in free.arrays
        if not array.name.startswith("observe.")
        for source in free.source[array.first : array.first + array.size]
    }
    for j in range(len(free.names)):
        if j in elsewhere:
            continue
        is_linear[j] = True
        is_linear[j] = _is_affine(model, is_linear)
    return is_linear


def _is_affine(model: LeastSquaresModel, moves: np.ndarray) -> bool:
    """Whether moving these values together leaves second differences of zero."""
    random = np.random.default_rng(0)
    theta = np.exp(0.5 * random.normal(size=len(moves)))
    move = np.where(moves, random.normal(size=len(moves)), 0.0)
    x, t = jnp.asarray(np.exp(random.normal(size=model.dimension))), jnp.asarray(0.7)

    def observed(theta: np.ndarray) -> np.ndarray:
        observe = model.problem_at(jnp.asarray(theta)).observe
        assert observe is not None
        return np.asarray(observe(x, t))

    ahead, here, behind = (observed(theta + side * move) for side in (1, 0, -1))
    second = np.abs(ahead - 2 * here + behind)
    return bool(np.all(second <= _TOLERANCE * (np.abs(ahead) + np.abs(behind))))


@final
@dataclass(frozen=True)
class FitSetup:
    """A model with its data and bounds: what every start of a search shares.

    `lower`, `upper` and `guess` have one element for each free value. `guess` are the
    user's start values, NaN where there is none. The boolean arrays `is_history` and
    `is_frequency` mark the free values that belong to the history, and those that are
    frequencies of it; `is_given` [2, p] marks the lower and the upper bounds that the
    user gave. `workers` is the number of threads that fits run on.

    `joint` says how the free values are made of those of the experiments, of which a
    single data set is one; the setups of these are its `parts`. If the problems are
    made of texts, `equations` are these, one for each experiment."""

    model: LeastSquaresModel
    data: Records
    lower: np.ndarray
    upper: np.ndarray
    guess: np.ndarray
    steps_per_delay: int
    is_history: np.ndarray
    is_frequency: np.ndarray
    is_given: np.ndarray
    workers: int
    joint: JointParameters
    equations: tuple["Equation", ...] = ()

    @property
    def misfit(self) -> AbstractMisfit:
        """What fits make small."""
        return self.model.misfit

    # The experiments.

    @cached_property
    def parts(self) -> tuple["FitSetup", ...]:
        """The setup of each experiment of a study, or this one alone."""
        count = len(self.joint.place)
        return (self,) if count == 1 else tuple(map(self._part, range(count)))

    def _part(self, e: int) -> "FitSetup":
        place = self.joint.place[e]

        def local(array: np.ndarray, other: Any) -> np.ndarray:
            return np.where(place >= 0, array[..., place], other)

        known, model = self.joint.known[e], self.model.experiments.part(self.model, e)
        return replace(
            self,
            model=model,
            data=parts_of(self.data)[e],
            lower=local(self.lower, known),
            upper=local(self.upper, known),
            guess=local(self.guess, known),
            is_history=local(self.is_history, False),
            is_frequency=local(self.is_frequency, False),
            is_given=local(self.is_given, True),
            joint=JointParameters.alone(model.free),
            equations=self.equations[e : e + 1],
        )

    def local(self, theta: np.ndarray, e: int) -> np.ndarray:
        """Return the free values of experiment `e`, for rows of free values."""
        return self.joint.local(theta, e)

    def problems(self, theta: np.ndarray) -> tuple[Problem, ...]:
        """Return the problem of each experiment, with the free values `theta`."""
        return tuple(
            part.model.free.problem_at(self.local(theta, e), part.model.problem)
            for e, part in enumerate(self.parts)
        )

    def indices_or_values(self) -> dict[str, int | float]:
        """Return what is known of each parameter, by name: the number of a free value
        (an int), or a constant (a float). A constant that differs between experiments
        has no name."""
        local = [
            part.model.free.indices_or_values(part.model.problem) for part in self.parts
        ]
        if len(local) == 1:
            return local[0]
        known: dict[str, int | float] = {
            name: j for j, name in enumerate(self.model.free.names)
        }
        for name, value in local[0].items():
            if isinstance(value, float) and all(each[name] == value for each in local):
                known[name] = value
        return known

    @cached_property
    def is_weight(self) -> np.ndarray:
        """Which free values are weights of networks."""
        marks = []
        for part in self.parts:
            marks.append(np.zeros(len(part.lower), bool))
            marks[-1][weights_of(part.model.problem, part.model.free.names)] = True
        return self._marks(marks)

    def _marks(self, marks: Sequence[np.ndarray]) -> np.ndarray:
        """Mark the joint values that are marked in any experiment."""
        found = np.zeros(len(self.lower), bool)
        for part, place in zip(marks, self.joint.place):
            found[place[part & (place >= 0)]] = True
        return found

    @property
    def has_networks(self) -> bool:
        """Whether weights of networks are learned."""
        return bool(self.is_weight.any())

    # The delays and the solver's steps.

    def delays(self, theta: np.ndarray) -> np.ndarray:
        """Return all delays of each row of free values, learned or fixed, [rows, k]."""
        each = [
            part._own_delays(self.local(theta, e)) for e, part in enumerate(self.parts)
        ]
        return np.concatenate(each, axis=1)

    def _own_delays(self, theta: np.ndarray) -> np.ndarray:
        """Return the delays of one experiment."""
        tau = self.model.learned.tau
        if not isinstance(tau, jax.Array):
            return np.asarray(_delays(self.model, jnp.asarray(theta)))
        indices = self.model.free.delays
        return theta[:, list(indices)] if indices else np.full((len(theta), 1), tau)

    @cached_property
    def computed_delays(self) -> dict[str, int]:
        """The formulas of the delays that are computed from parameters, as is `tau_1 -
        tau_2`, or distributed, and their numbers among all delays.

        They have no bounds of their own, and can become negative while their parameters
        are within theirs. A fit never goes there: the sum of squares is not finite, and
        the step is rejected. Starts are drawn where they are positive."""
        tau = self.model.problem.tau
        leaves = jax.tree.leaves(tau, is_leaf=is_delay)
        names = delay_names(tau)
        kinds = AbstractConstantDelay | AbstractDistributedDelay
        return {names[q]: q for q, leaf in enumerate(leaves) if isinstance(leaf, kinds)}

    def check_guess(self) -> None:
        """Raise an error if a computed delay is not positive at the start values."""
        known = self.delays(self.guess[None])[0]
        for name, q in self.computed_delays.items():
            if known[q] <= 0:
                raise ValueError(
                    f"A delay must be positive, but `{name}` is {known[q]:.4g} at the "
                    f"start values. Give others {wording.START_VALUES}."
                )

    def delay(self, theta: np.ndarray) -> np.ndarray:
        """Return the longest delay of each row of free values."""
        return self.delays(theta).max(axis=1)

    @property
    def rate(self) -> float:
        """The least number of steps per unit of time that resolves the record."""
        return STEPS_PER_RECORD / self.data.T

    def steps(self, theta: np.ndarray) -> np.ndarray:
        """Return the number of steps for each row of free values: enough to resolve
        both the delay and the record."""
        given = self.delay, theta, self.data.T, self.steps_per_delay
        return self.model.engine.usual_steps(*given)

    def steps_near(self, theta: np.ndarray, place: np.ndarray, n: int) -> np.ndarray:
        """Return numbers for steps that are as long as those with `n` at `place`."""
        return self.model.engine.steps_near(self.delay, theta, place, n)

    def coarse_steps(self, theta: np.ndarray) -> np.ndarray:
        """Return the steps of short preliminary fits, which also keep to the `rate`."""
        return self.model.engine.coarse_steps(self.delay, theta, self.data.T)

    # The bounds.

    def box(self, count: int, held: np.ndarray | None = None) -> Box:
        """Return the bounds of `count` fits; `held` marks values that may not move."""
        shape = (count, len(self.lower))
        held = np.zeros(shape, bool) if held is None else held
        return Box(
            np.broadcast_to(self.lower, shape),
            np.broadcast_to(self.upper, shape),
            np.broadcast_to(held, shape),
        )

    @property
    def bound_variance(self) -> np.ndarray:
        """The variance of a uniform distribution between the bounds, if both exist."""
        width = self.upper - self.lower
        return np.where(np.isfinite(width), width, np.inf) ** 2 / 12

    # The data.

    def points(self, noise: np.ndarray | None = None) -> Points:
        """Return the data with their weights. Without standard deviations of the data
        these are the weights of the `noise` levels, one for each quantity, or one."""
        return self.misfit.points(self, noise)

    @cached_property
    def exploring(self) -> "FitSetup":
        """The setup that a search explores with: by least squares."""
        return self.misfit.explored(self)

    @property
    def count(self) -> int:
        """The number of measured values."""
        return int(np.isfinite(self.data.x).sum())

    @cached_property
    def measured(self) -> np.ndarray:
        """Whether each quantity was measured at all."""
        return np.any(np.isfinite(self.data.x), axis=0)

    @property
    def has_few_values(self) -> np.ndarray:
        """Whether each of several quantities has no more values than there are
        parameters beside weights of networks, so that its residuals say nothing about
        its noise."""
        count, named = np.isfinite(self.data.x).sum(axis=0), np.sum(~self.is_weight)
        return (count > 0) & (count <= named) & (len(count) > 1)

    @cached_property
    def quantity_curve(self) -> Curve | None:
        """A smoothing spline through the quantities of one experiment, constant for one
        that was not measured; None if there are too few points."""
        data = self.data
        return smooth(Data(data.t, np.where(self.measured, data.x, 1.0)))

    @property
    def curve(self) -> Curve | None:
        """The same if all states were measured, so that its slopes can be compared with
        the right-hand side; else None."""
        is_state = self.measured.all() and not self.model.observes
        return self.quantity_curve if is_state else None

    @property
    def has_quantity_curves(self) -> bool:
        """Whether there is a smooth curve through the data of every experiment."""
        return all(part.quantity_curve is not None for part in self.parts)

    @property
    def has_curves(self) -> bool:
        """Whether these curves are those of all states in every experiment."""
        return all(part.curve is not None for part in self.parts)

    @cached_property
    def units(self) -> NaturalUnits | None:
        """The natural sizes of the free values; None without a smooth curve, if the
        delays are more than numbers, or with networks, which have their own units."""
        return joint_units(self.joint, [part._own_units for part in self.parts])

    @property
    def _own_units(self) -> NaturalUnits | None:
        """The same for one experiment."""
        curve, model = self.quantity_curve, self.model
        if curve is None or self.has_networks or is_general(model.problem.tau):
            return None
        return natural_units(model, curve, self.data.T, self.measured)

    @cached_property
    def natural_sizes(self) -> np.ndarray:
        """The natural size of each free value; 1 where nothing is known."""
        return self.misfit.natural_sizes(self)

    @cached_property
    def is_linear(self) -> np.ndarray:
        """Which free values are scales and offsets of what is observed."""
        return self._marks([linear_values(part.model) for part in self.parts])

    # The noise.

    @property
    def needs_noise(self) -> bool:
        """Whether the estimates depend on the noise levels: with several quantities
        or with priors. Otherwise a common factor of all weights cancels."""
        return self.data.x.shape[1] > 1 or self.model.priors is not None

    @property
    def weights_are_absolute(self) -> bool:
        """Whether the weights are absolute, so that the sum of squares is a chi-square:
        the noise is given, or (with networks) was estimated from effective degrees of
        freedom, or has a model. Otherwise the variance of the residuals is estimated
        from the sum of squares."""
        return self.misfit.knows_variance(self) or self.has_networks

    @property
    def freedom(self) -> int:
        """Degrees of freedom with every free parameter but weights as determined."""
        free = int(np.sum(~self.is_weight)) - self.model.free.noise_count
        return degrees_of_freedom(self.count, determined=free)

    def residual_variance(self, loss: Any, freedom: Any = None) -> Any:
        """Return the variance of the weighted residuals, the unit of chi-square.

        It is one where the weights are already those of the noise, and where there is
        no fit (the weighted sum of squares `loss` is not finite). Otherwise it is
        estimated as `loss` over the degrees of `freedom`, by default those of the
        search."""
        freedom = self.freedom if freedom is None else freedom
        is_one = self.weights_are_absolute | ~np.isfinite(loss)
        return np.where(is_one, 1.0, np.maximum(loss / freedom, 1e-300))[()]

    def noise_is_unknown(self, determined: int) -> bool:
        """Whether nothing is known of the noise, which would have to be estimated from
        no more values than there are `determined` directions."""
        return not self.weights_are_absolute and self.count <= determined

    def p_of_fall(self, fall: float, more: float, left: float, freedom: float) -> float:
        """Return the p-value of a fall of S to what is `left`, with this number of
        `more` parameters: by a chi-square test or, where the noise is not known, by an
        F-test."""
        from scipy.special import chdtrc, fdtrc

        if self.weights_are_absolute:
            return float(chdtrc(more, fall))
        ratio = fall / more / max(left / freedom, 1e-300)
        return float(fdtrc(more, freedom, ratio))

    def final_noise(self, noise: np.ndarray, freedom: int) -> np.ndarray:
        """Return the noise levels of a fit with other degrees of `freedom` than its
        search had, if they are estimated from the residuals."""
        absolute = self.weights_are_absolute
        return noise if absolute else noise * np.sqrt(self.freedom / freedom)

    def shown_loss(self, loss: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """Return the loss that a fit shows, from `squares` [..., k]: of one quantity
        whose noise is not given the plain sum of squares."""
        is_plain = not self.weights_are_absolute and squares.shape[-1] == 1
        plain = squares[..., 0] if is_plain else loss
        return np.where(np.isfinite(loss), plain, loss)

    # The priors, and the number of parameters.

    def prior_penalty(self, theta: np.ndarray) -> float:
        """Compute what the priors add to the sum of squares."""
        priors: Any = self.model.priors
        if priors is None:
            return 0.0
        is_log = np.asarray(priors.log)
        value = np.where(is_log, np.log(np.where(is_log, theta, 1.0)), theta)
        return float(np.sum(priors.weight * (value - priors.mean) ** 2))

    def effective_weights(self, information: np.ndarray) -> float:
        """Count the weights of networks that the data determine."""
        if not self.has_networks:
            return 0.0
        priors = self.model.priors
        assert priors is not None
        return effective_count(information, priors.weight, self.is_weight)

    def effective_dimension(self, information: np.ndarray) -> float:
        """Count the parameters that the data determine."""
        (variances, count), priors = _variances(information), self.model.priors
        if priors is None:
            return float(count)
        return float(count - np.sum(variances * np.where(priors.log, 0, priors.weight)))

    def free_count(self, information: np.ndarray) -> float:
        """Count the free parameters, those with a prior by the share that the prior
        does not determine, and unlike `effective_dimension` also what the data do not
        determine."""
        p, priors = len(self.lower), self.model.priors
        if priors is None:
            return float(p)
        has_prior = np.asarray(priors.weight) != 0
        shares = np.where(has_prior, _variances(information)[0] * priors.weight, 0.0)
        return float(p - np.sum(shares))


# Directions of the scaled information matrix below this are not determined at all.
_ZERO_EIGENVALUE = 1e-10


def _variances(information: np.ndarray) -> tuple[np.ndarray, int]:
    """Compute the variances of the parameters from the matrix of the normal equations,
    over the determined directions; return also how many these are."""
    norms = np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    values, vectors = np.linalg.eigh(information / norms[:, None] / norms)
    kept = values > _ZERO_EIGENVALUE
    variances = np.sum(vectors[:, kept] ** 2 / values[kept], axis=1) / norms**2
    return variances, kept.sum()


@eqx.filter_jit
def _delays(model: LeastSquaresModel, theta: jax.Array) -> jax.Array:
    """Return the delays of each row, or how long they typically are, [rows, k]."""

    def one(theta):
        problem = model.problem_at(theta)
        return typical_delays(problem.tau, problem.start)

    return jax.vmap(one)(theta)
