r"""How sure the estimates are: covariance, intervals, and what they rest on.

The Fisher information is $J^T W J$ at the minimum, with W the inverse variances of the
noise; its inverse is the covariance. Directions that it does not determine, and values
that stand on a bound, are left out: they must not spoil the others. Intervals are those
of the profile likelihood, over all minima and ridges that the data cannot tell from the
best."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from .._least_squares.batches import refine
from .._least_squares.ranking import slow_limit
from .._least_squares.search import SearchResult
from .._least_squares.setup import FitSetup
from .profile_likelihood import Optimum, Profile, open_profile, profiles

# Eigenvalues of the scaled information below this are rounding errors of zero.
_NOTHING = 1e-10
# As many minima as this are followed into the intervals.
_MOST_MINIMA = 4
# Other frequencies are further chances to fit the noise: their minima tie with the best
# up to so much more chi-square.
_CHANCES = 1.0


def quantile(level: float, freedom: int | None) -> float:
    """Of Student's distribution; of the normal one where the noise is known."""
    from scipy.special import ndtri, stdtrit

    upper = 0.5 * (1 + level)
    return float(ndtri(upper) if freedom is None else stdtrit(freedom, upper))


@final
@dataclass(frozen=True)
class Uncertainty:
    """The curvature of the sum of squares at a fit, and its profiles."""

    setup: FitSetup
    search_result: SearchResult

    @property
    def theta(self) -> np.ndarray:
        return self.search_result.best.theta[0]

    @cached_property
    def at_bound(self) -> np.ndarray:
        """Values on a bound."""
        width = self.setup.upper - self.setup.lower
        near = 1e-9 * np.where(np.isfinite(width), width, 0.0)
        theta = self.theta
        return (theta <= self.setup.lower + near) | (theta >= self.setup.upper - near)

    @cached_property
    def unit(self) -> float:
        """The variance of a weighted residual; one where the noise is given."""
        loss = float(self.search_result.best.scatter[0])
        if self.setup.has_unit:
            return 1.0
        return max(loss / self.freedom, 1e-300)

    @cached_property
    def freedom(self) -> int:
        """Measured values less what is determined by them."""
        return max(self.setup.count - self.dimension, 1)

    @cached_property
    def scale(self) -> np.ndarray:
        """The norms of the Jacobian's columns; zero: the data do not depend on it."""
        if not np.isfinite(self.search_result.best.loss[0]):
            return np.zeros(len(self.theta))
        diagonal = np.diagonal(self.search_result.best.gram[0])[1:]
        scale = np.sqrt(np.maximum(diagonal, 0.0))
        # Against the size of the value: a relative change must be felt.
        felt = scale * np.maximum(np.abs(self.theta), 1e-3) / np.sqrt(self._variance)
        return np.where(felt > 1e-7, scale, 0.0)

    @property
    def _variance(self) -> float:
        return self.setup.variance(float(self.search_result.best.scatter[0]))

    @cached_property
    def _kept(self) -> np.ndarray:
        """Values that have an influence, and are not on a bound."""
        return np.flatnonzero((self.scale > 0) & ~self.at_bound)

    @cached_property
    def _square(self) -> np.ndarray:
        """The information of the values that are kept, scaled to a unit diagonal."""
        D = self.scale[self._kept]
        square = self.search_result.best.gram[0, 1:, 1:][np.ix_(self._kept, self._kept)]
        return square / D[:, None] / D

    @cached_property
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Its eigenvalues and vectors."""
        return np.linalg.eigh(self._square)

    @cached_property
    def dimension(self) -> int:
        """The number of directions that the data determine."""
        return int(np.sum(self._spectrum[0] > _NOTHING))

    @cached_property
    def noise_unknown(self) -> bool:
        """Whether no value is left over from which to tell the noise, and it is not
        given: then nothing is known of any error."""
        return not self.setup.has_unit and self.setup.count <= self.dimension

    @cached_property
    def undetermined(self) -> np.ndarray:
        """Directions, as columns of changes of the values in units of their influence,
        along which nothing changes."""
        eigenvalues, vectors = self._spectrum
        null = np.zeros((len(self.theta), int(np.sum(eigenvalues <= _NOTHING))))
        null[self._kept] = vectors[:, eigenvalues <= _NOTHING]
        return null

    @cached_property
    def flat(self) -> np.ndarray:
        """Values without influence, or part of an undetermined direction."""
        return np.any(np.abs(self.undetermined) > 1e-4, axis=1) | (self.scale == 0)

    @cached_property
    def lost(self) -> np.ndarray:
        """Values of which the information at the estimate says nothing: flat, on a
        bound, or limited by their bounds more than by the data."""
        return self.flat | self.at_bound | (self._limits > 0) | self.noise_unknown

    @cached_property
    def _limits(self) -> np.ndarray:
        """The information that bounds give of a value, where the data give less; else
        zero."""
        half = self._half(np.zeros(len(self.theta)))
        variance = self.setup.bound_variance
        limited = np.sum(half**2, axis=1) > variance
        return np.where(limited & ~self.flat, 1 / variance, 0.0)

    def _half(self, more: np.ndarray) -> np.ndarray:
        """H with H H^T the inverse of the information, with `more` on its diagonal, of
        what is kept and determined."""
        D = self.scale[self._kept]
        extra = self.unit * more[self._kept] / D**2
        eigenvalues, vectors = np.linalg.eigh(self._square + np.diag(extra))
        determined = eigenvalues > _NOTHING
        half = np.zeros((len(self.theta), int(determined.sum())))
        columns = vectors[:, determined] / np.sqrt(eigenvalues[determined])
        half[self._kept] = np.sqrt(self.unit) * columns / D[:, None]
        return half

    @cached_property
    def half(self) -> np.ndarray:
        """H with H H^T the covariance of the free values, a row for each: what the data
        leave open, and what is on a bound, stays where it is. A value that the data do
        not limit counts as known as well as its bounds say: else it would spoil the
        others."""
        return self._half(self._limits)

    @cached_property
    def covariance(self) -> np.ndarray:
        """Of the free values; rows of what is lost are infinite on the diagonal and
        zero beside it."""
        covariance = self.half @ self.half.T
        covariance[self.lost] = 0.0
        covariance[:, self.lost] = 0.0
        covariance[self.lost, self.lost] = np.inf
        return covariance

    @property
    def standard_errors(self) -> np.ndarray:
        return np.sqrt(np.diagonal(self.covariance))

    def quantile(self, level: float) -> float:
        known = self.setup.data.sd is not None
        return quantile(level, None if known else self.freedom)

    def optimum(self) -> Optimum:
        best = self.search_result.best
        covariance = self.half @ self.half.T
        return Optimum(
            self.theta, int(best.n[0]), float(best.loss[0]), self.unit, covariance
        )

    def profiles(
        self, level: float = 0.95, which: list[int] | None = None
    ) -> list[Profile]:
        """The profiles of the free values, over all minima that tie with the best."""
        setup, optimum, q = self.slow, self.optimum(), self.quantile(level)
        # What has no influence, alone or against others, needs no fit to be open.
        which = list(range(len(self.theta))) if which is None else which
        tried = [j for j in which if not (self.flat[j] or self.noise_unknown)]
        places = [
            (np.sqrt(max(rise, 0.0)), theta) for rise, theta in self._ties(optimum, q)
        ]
        theirs = self._theirs(q)
        points = self.search_result.points
        found = profiles(setup, points, optimum, q, tried, places, theirs)
        known = dict(zip(tried, found))
        names = setup.model.free.names
        return [
            known[j] if j in known else open_profile(names[j], optimum, j, q)
            for j in which
        ]

    @property
    def slow(self) -> FitSetup:
        """The setup without fast histories, unless the best is one: they fit any data
        nearly as well, and are left out as in the search."""
        setup = self.setup
        most = slow_limit(setup, self.theta[None])[0]
        limited = setup.frequencies & (self.theta < most)
        upper = np.where(limited, np.minimum(setup.upper, most), setup.upper)
        return replace(setup, upper=upper)

    def _theirs(self, q: float) -> float:
        """The quantile of other minima."""
        return np.sqrt(q**2 + _CHANCES * self.setup.frequencies.any())

    @cached_property
    def ties(self) -> list[tuple[float, np.ndarray]]:
        """Other minima within the 95% interval's rise of chi-square: their own, below
        zero where the search passed over them, and their places."""
        return self._ties(self.optimum(), self.quantile(0.95))

    def _ties(self, optimum: Optimum, q: float) -> list[tuple[float, np.ndarray]]:
        """Other minima, with r below their quantile: their rise and place."""
        q = self._theirs(q)
        close = [
            minimum.theta
            for minimum in self.search_result.minima[1 : 1 + 2 * _MOST_MINIMA]
            if minimum.loss < optimum.loss + 2 * q**2 * self.unit
            and np.all(minimum.theta <= self.slow.upper)
        ]
        if not close:
            return []
        n = np.full(len(close), optimum.n)
        found = refine(self.slow, np.array(close), self.search_result.points, n)
        r = optimum.r(found.loss)
        away = found.theta - optimum.theta
        near = np.einsum(
            "ij,jk,ik->i", away, self.search_result.best.gram[0, 1:, 1:], away
        )
        order = np.argsort(found.loss)
        rows = [row for row in order if r[row] < q and near[row] > 0.1 * self.unit]
        rise = (found.loss - optimum.loss) / self.unit
        return [(float(rise[row]), found.theta[row]) for row in rows[:_MOST_MINIMA]]
