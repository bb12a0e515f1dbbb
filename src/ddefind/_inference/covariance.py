r"""How precise the estimates are: their covariance, and what it rests on.

The Fisher information at the minimum is $J^T W J$, with the Jacobian J of the model at
the data and the inverse variances W of the noise; its inverse is the covariance of the
estimates. Two kinds of values are left out of the inversion, because they would spoil
all others: directions that the data do not determine, and values on a bound.

Confidence intervals come from the profile likelihood (`profile_intervals.py`).

The *delta method* (`propagate`) gives the precision of a function of the parameters.
With the gradient $g$ of the function and the covariance $C = H H^T$ of the estimates,
the variance of the function is $g^T C g = |H^T g|^2$. A function that changes along a
direction that the data do not determine is itself not determined. A combination of the
same parameters that does not change along that direction is determined."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, final

import numpy as np

from .._data.study_data import rows_of
from .._problem.network_weights import Networks
from .._search.batches import SearchResult, refine
from .._search.setup import FitSetup, degrees_of_freedom, determined_shares

# Eigenvalues of the information matrix, scaled to a unit diagonal, that are below this
# are zero up to rounding errors. Beside networks, whose weights have priors, no
# direction is undetermined: only rounding errors of the matrix itself count there.
_ZERO_EIGENVALUE, _ZERO_WITH_PRIORS = 1e-10, 1e-15
# A change of a function matters if it is larger than this share of its standard
# deviation, or of the unit in which it is measured.
_SMALLEST_CHANGE = 1e-3


def quantile(level: float, freedom: int | None) -> float:
    """Return half the width of a two-sided interval in standard errors: of Student's
    distribution with `freedom` degrees of freedom, or of the normal distribution where
    the noise is known (None)."""
    from scipy.special import ndtri, stdtrit

    upper = 0.5 * (1 + level)
    return float(ndtri(upper) if freedom is None else stdtrit(freedom, upper))


_T = TypeVar("_T")


def _of_whole(
    compute: Callable[["Uncertainty"], _T], part: Callable[["Uncertainty", _T], _T]
) -> cached_property[_T]:
    """Return a property that is computed once for a whole study, and its `part` in an
    experiment."""

    def read(uncertainty: "Uncertainty") -> _T:
        whole = uncertainty.study
        if whole is None:
            return compute(uncertainty)
        return part(uncertainty, getattr(whole, compute.__name__))

    read.__doc__ = compute.__doc__
    return cached_property(read)


def _shared(compute: Callable[["Uncertainty"], _T]) -> cached_property[_T]:
    """Make a property that all experiments of a study share."""
    return _of_whole(compute, lambda _, value: value)


def _picked(known: Any) -> Callable[..., cached_property[np.ndarray]]:
    """Make a property of which an experiment has the rows of its own free values, and
    `known` for known values."""

    def part(uncertainty: "Uncertainty", array: np.ndarray) -> np.ndarray:
        place = uncertainty.place
        assert place is not None
        is_free = (place >= 0).reshape(-1, *(1,) * (array.ndim - 1))
        return np.where(is_free, array[place], known)

    return lambda compute: _of_whole(compute, part)


@final
@dataclass(frozen=True)
class Uncertainty:
    """Uncertainty of the estimates of a least-squares fit.

    Arrays have one element (or row) for each free value. For one experiment of a
    `study`, `place` are the numbers of its values in the study, -1 for a known value.
    The information matrix is that of the normal equations, unless it is `known`."""

    setup: FitSetup
    search_result: SearchResult
    study: "Uncertainty | None" = None
    place: np.ndarray | None = None
    known: np.ndarray | None = None

    @property
    def is_part(self) -> bool:
        """Whether this is the uncertainty in one experiment of a study."""
        return self.study is not None

    @property
    def whole(self) -> "Uncertainty":
        """That of the whole study; itself for one data set."""
        return self if self.study is None else self.study

    def for_whole(self, gradient: np.ndarray) -> np.ndarray:
        """Return derivatives for the free values of the whole study, from those for the
        values here, [functions, p]."""
        if self.place is None:
            return gradient
        found = np.zeros((len(gradient), len(self.whole.theta)))
        is_free = self.place >= 0
        found[:, self.place[is_free]] = gradient[:, is_free]
        return found

    @property
    def theta(self) -> np.ndarray:
        """The estimates."""
        return self.search_result.best.theta[0]

    @property
    def has_converged(self) -> bool:
        """Whether there is a fit, and its minimisation came to an end."""
        best = self.search_result.best
        return bool(np.isfinite(best.loss[0]) and best.converged[0])

    def losses(self, theta: np.ndarray) -> np.ndarray:
        """Compute S at the rows of `theta`, with the steps of the best fit."""
        result = self.search_result
        n = np.full(len(theta), int(result.best.n[0]))
        return refine(self.setup, theta, result.points, n, limit=1).loss

    @cached_property
    def parts(self) -> tuple["Uncertainty", ...]:
        """The uncertainty in each experiment of a study, or this one alone."""
        if len(self.setup.parts) == 1:
            return (self,)
        found, result, joint = [], self.search_result, self.setup.joint
        for e, (first, last) in enumerate(rows_of(self.setup.data)):
            local = self.setup.local(self.theta, e)
            rows = [
                None if a is None else np.asarray(a)[first:last] for a in result.points
            ]
            best, points = replace(result.best, theta=local[None]), result.points
            part = replace(result, best=best, points=type(points)(*rows), minima=())
            found.append(Uncertainty(self.setup.parts[e], part, self, joint.place[e]))
        return tuple(found)

    # What the data determine.

    @property
    def information(self) -> np.ndarray:
        """The information matrix, in the unit of chi-square."""
        best = self.search_result.best
        return best.gram[0, 1:, 1:] if self.known is None else self.known

    @_picked(False)
    def at_bound(self) -> np.ndarray:
        """Whether each estimate is on a bound."""
        width = self.setup.upper - self.setup.lower
        near = 1e-9 * np.where(np.isfinite(width), width, 0.0)
        theta = self.theta
        return (theta <= self.setup.lower + near) | (theta >= self.setup.upper - near)

    @_picked(0.0)
    def sensitivity_norms(self) -> np.ndarray:
        """The norm of each column of the weighted Jacobian.

        Zero means that the data do not depend on the value: doubling it would change
        the residuals by less than 1e-7 of the noise."""
        best = self.search_result.best
        if not np.isfinite(best.loss[0]):
            return np.zeros(len(self.theta))
        norms = np.sqrt(np.maximum(np.diagonal(self.information), 0.0))
        # Which directions are determined is not known yet: the noise is estimated as in
        # the search.
        variance = self.setup.residual_variance(float(best.loss_above_rounding[0]))
        size = np.maximum(np.abs(self.theta), 1e-3)
        relative_norms = norms * size / np.sqrt(variance)
        return np.where(relative_norms > 1e-7, norms, 0.0)

    @cached_property
    def _informative(self) -> np.ndarray:
        """The indices of the values that have an influence and are not on a bound."""
        return np.flatnonzero((self.sensitivity_norms > 0) & ~self.at_bound)

    @cached_property
    def _scaled_information(self) -> np.ndarray:
        """The information of the informative values, scaled to a unit diagonal."""
        norms, kept = self.sensitivity_norms[self._informative], self._informative
        information = self.information[np.ix_(kept, kept)]
        return information / norms[:, None] / norms

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and eigenvectors (columns) of the scaled information matrix."""
        return np.linalg.eigh(self._scaled_information)

    @property
    def _zero(self) -> float:
        """Eigenvalues up to this one are zero."""
        return _ZERO_WITH_PRIORS if self.setup.has_networks else _ZERO_EIGENVALUE

    @cached_property
    def dimension(self) -> int:
        """The number of directions that the data determine."""
        return int(np.sum(self._eigen[0] > self._zero))

    @_picked(0.0)
    def undetermined(self) -> np.ndarray:
        """The directions that the data do not determine, [p, directions]. An element is
        a change of a value multiplied by its sensitivity norm."""
        eigenvalues, vectors = self._eigen
        zero = vectors[:, eigenvalues <= self._zero]
        directions = np.zeros((len(self.theta), zero.shape[1]))
        directions[self._informative] = zero
        return directions

    @property
    def has_curve(self) -> bool:
        """Whether the data leave a direction free, along which all places fit."""
        return self.undetermined.shape[1] > 0

    @_picked(False)
    def without_influence(self) -> np.ndarray:
        """Whether each value has no influence, or is part of an undetermined
        direction."""
        takes_part = np.any(np.abs(self.undetermined) > 1e-4, axis=1)
        return takes_part | (self.sensitivity_norms == 0)

    # The noise.

    @_shared
    def freedom(self) -> int:
        """Degrees of freedom: measured values less determined directions; of the
        weights of networks, as many as the data determine. See `_search/setup.py`."""
        determined = self.dimension
        if self.setup.has_networks:
            named = np.sum(~self.setup.is_weight[self._informative])
            determined = int(np.ceil(named + self.effective_weights))
        # Parameters of the noise, the last ones, cost none.
        others = len(self.theta) - self.setup.model.free.noise_count
        determined -= int(np.sum(self._informative >= others))
        return degrees_of_freedom(self.setup.count, determined=determined)

    @_shared
    def effective_weights(self) -> float:
        """How many weights of networks the data determine."""
        return self.setup.effective_weights(self.information)

    @_shared
    def residual_variance(self) -> float:
        """The variance of a weighted residual, the unit of chi-squares."""
        loss = float(self.search_result.best.loss_above_rounding[0])
        return self.setup.residual_variance(loss, self.freedom)

    @_shared
    def noise(self) -> np.ndarray:
        """The standard deviation of the noise of each quantity, given or estimated over
        the degrees of freedom; in the search every free parameter cost one."""
        return self.setup.final_noise(self.search_result.noise, self.freedom)

    @property
    def noise_is_known(self) -> bool:
        """Whether the noise is given, and nothing of it was learned."""
        return self.setup.misfit.knows_noise(self.setup)

    @_shared
    def noise_unknown(self) -> bool:
        """Whether the noise is neither given nor can be estimated, since there are no
        more values than determined directions. Then no standard error is known."""
        return self.setup.noise_is_unknown(self.dimension)

    # The covariance.

    def _covariance_factor(self, extra: np.ndarray) -> np.ndarray:
        """Compute H such that H H^T is the inverse of the information matrix with
        `extra` information on its diagonal. Rows of values that are not informative
        are zero, and undetermined directions are left out."""
        norms = self.sensitivity_norms[self._informative]
        added = np.diag(self.residual_variance * extra[self._informative] / norms**2)
        eigenvalues, vectors = np.linalg.eigh(self._scaled_information + added)
        determined = eigenvalues > self._zero
        factor = np.zeros((len(self.theta), int(determined.sum())))
        columns = vectors[:, determined] / np.sqrt(eigenvalues[determined])
        columns = np.sqrt(self.residual_variance) * columns / norms[:, None]
        factor[self._informative] = columns
        return factor

    @cached_property
    def _bound_information(self) -> np.ndarray:
        """The information of the bounds, zero where the data give more."""
        factor = self._covariance_factor(np.zeros(len(self.theta)))
        bound_variance = self.setup.bound_variance
        is_limited = np.sum(factor**2, axis=1) > bound_variance
        return np.where(is_limited & ~self.without_influence, 1 / bound_variance, 0.0)

    @_picked(0.0)
    def covariance_factor(self) -> np.ndarray:
        """A factor H of the covariance C = H H^T of the free values.

        Values on a bound and undetermined directions count as fixed. A value that its
        bounds limit more than the data counts as known to the precision of its bounds:
        otherwise its enormous variance would spoil all others."""
        return self._covariance_factor(self._bound_information)

    @_picked(False)
    def without_information(self) -> np.ndarray:
        """Whether each value has no standard error: it is flat, on a bound, or limited
        by its bounds more than by the data; or the noise is unknown."""
        is_limited = self._bound_information > 0
        return self.without_influence | self.at_bound | is_limited | self.noise_unknown

    @cached_property
    def covariance(self) -> np.ndarray:
        """The covariance of the free values, [p, p]. Values without information have an
        infinite variance and covariances of zero."""
        covariance = self.covariance_factor @ self.covariance_factor.T
        unknown = self.without_information
        covariance[unknown] = 0.0
        covariance[:, unknown] = 0.0
        covariance[unknown, unknown] = np.inf
        return covariance

    @property
    def standard_errors(self) -> np.ndarray:
        return np.sqrt(np.diagonal(self.covariance))

    def quantile(self, level: float) -> float:
        """Return half the width of an interval at this `level` in standard errors."""
        return quantile(level, None if self.noise_is_known else self.freedom)

    def profile_quantile(self, level: float) -> float:
        """Return the root of the excess chi-square at the ends of a profile
        interval."""
        q = self.quantile(level)
        return self.setup.misfit.excess(self, q)


class Propagated(NamedTuple):
    """Uncertainty of functions of the free values: their standard deviations `sd`, and
    with a last axis over the free values, which undetermined ones `moved` them."""

    sd: np.ndarray
    moved: np.ndarray


def propagate(
    uncertainty: Uncertainty, gradient: np.ndarray, unit: np.ndarray | float
) -> Propagated:
    """Propagate the uncertainty to functions with the given gradients for the free
    values (the last axis). `unit` is the scale on which a change of a function is
    noticeable, such as the noise.

    Undetermined values are tested by a change of their own size, undetermined
    directions by the step that doubles one of the values."""
    sd = np.linalg.norm(gradient @ uncertainty.covariance_factor, axis=-1)
    smallest = _SMALLEST_CHANGE * np.maximum(sd, unit)[..., None]
    size = np.maximum(np.abs(uncertainty.theta), 1e-3)
    moved = (uncertainty.sensitivity_norms == 0) & (np.abs(gradient) * size > smallest)
    for direction in uncertainty.undetermined.T:
        # Its elements are changes of the values multiplied by their sensitivity norms.
        step = np.divide(
            direction,
            uncertainty.sensitivity_norms,
            out=np.zeros_like(direction),
            where=uncertainty.sensitivity_norms > 0,
        )
        step = step / max(np.max(np.abs(step) / size), 1e-300)
        takes_part = np.abs(direction) > 1e-4
        moved |= (np.abs(gradient @ step)[..., None] > smallest) & takes_part
    if uncertainty.noise_unknown:
        moved |= gradient != 0
    return Propagated(sd, moved)


def determined_weights(
    uncertainty: Uncertainty, networks: Networks
) -> dict[str, float]:
    """Return how many weights of each network the data determine: the sum of the shares
    that do not come from the prior. Networks without a prior, and fits that are not
    finite, have none."""
    setup, priors = uncertainty.setup, uncertainty.setup.model.priors
    information = uncertainty.information
    is_finite = np.all(np.isfinite(information))
    if priors is None or not setup.has_networks or not is_finite:
        return {}
    shares = determined_shares(information, priors.weight)
    return {
        owner: float(np.sum(shares[list(indices)]))
        for owner, indices in networks.items()
        if np.all(setup.is_weight[list(indices)])
    }
