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

from ._profile import Peak, Profile, open_profile, profiles
from ._refine import refine
from ._search import FAST, Searched, variance
from ._setting import Setting

# Eigenvalues of the scaled information below this are rounding errors of zero.
_NOTHING = 1e-10
# As many minima as this are followed into the intervals.
_MOST_MINIMA = 4


def quantile(level: float, freedom: int | None) -> float:
    """Of Student's distribution; of the normal one where the noise is known."""
    from scipy.special import ndtri, stdtrit

    upper = 0.5 * (1 + level)
    return float(ndtri(upper) if freedom is None else stdtrit(freedom, upper))


@final
@dataclass(frozen=True)
class Uncertainty:
    """The curvature of the sum of squares at a fit, and its profiles."""

    setting: Setting
    searched: Searched

    @property
    def z(self) -> np.ndarray:
        return self.searched.best.z[0]

    @cached_property
    def at_bound(self) -> np.ndarray:
        """Values on a bound."""
        width = self.setting.upper - self.setting.lower
        near = 1e-9 * np.where(np.isfinite(width), width, 0.0)
        z = self.z
        return (z <= self.setting.lower + near) | (z >= self.setting.upper - near)

    @cached_property
    def unit(self) -> float:
        """The variance of a weighted residual; one where the noise is given."""
        loss = float(self.searched.best.scatter[0])
        if self.setting.has_unit:
            return 1.0
        return max(loss / self.freedom, 1e-300)

    @cached_property
    def freedom(self) -> int:
        """Measured values less what is determined by them."""
        return max(self.setting.count - self.dimension, 1)

    @cached_property
    def scale(self) -> np.ndarray:
        """The norms of the Jacobian's columns; zero: the data do not depend on it."""
        if not np.isfinite(self.searched.best.loss[0]):
            return np.zeros(len(self.z))
        diagonal = np.diagonal(self.searched.best.gram[0])[1:]
        scale = np.sqrt(np.maximum(diagonal, 0.0))
        # Against the size of the value: a relative change must be felt.
        felt = scale * np.maximum(np.abs(self.z), 1e-3) / np.sqrt(self._variance)
        return np.where(felt > 1e-7, scale, 0.0)

    @property
    def _variance(self) -> float:
        return variance(self.setting, float(self.searched.best.scatter[0]))

    @cached_property
    def _kept(self) -> np.ndarray:
        """Values that have an influence, and are not on a bound."""
        return np.flatnonzero((self.scale > 0) & ~self.at_bound)

    @cached_property
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and vectors of the information of the values that are kept,
        scaled to a unit diagonal."""
        D = self.scale[self._kept]
        square = self.searched.best.gram[0, 1:, 1:][np.ix_(self._kept, self._kept)]
        return np.linalg.eigh(square / np.outer(D, D))

    @cached_property
    def dimension(self) -> int:
        """The number of directions that the data determine."""
        return int(np.sum(self._spectrum[0] > _NOTHING))

    @cached_property
    def undetermined(self) -> np.ndarray:
        """Directions, as columns of changes of the values in units of their influence,
        along which nothing changes."""
        eigenvalues, vectors = self._spectrum
        null = np.zeros((len(self.z), int(np.sum(eigenvalues <= _NOTHING))))
        null[self._kept] = vectors[:, eigenvalues <= _NOTHING]
        return null

    @cached_property
    def lost(self) -> np.ndarray:
        """Values of which the information at the estimate says nothing: without
        influence, on a bound, or part of an undetermined direction."""
        lost = np.any(np.abs(self.undetermined) > 1e-4, axis=1)
        return lost | self.at_bound | (self.scale == 0)

    @cached_property
    def covariance(self) -> np.ndarray:
        """Of the free values; rows of what is lost are infinite on the diagonal and
        zero beside it."""
        eigenvalues, vectors = self._spectrum
        keep = eigenvalues > _NOTHING
        half = vectors[:, keep] / np.sqrt(eigenvalues[keep])
        half = half / self.scale[self._kept][:, None]
        covariance = np.zeros((len(self.z), len(self.z)))
        covariance[np.ix_(self._kept, self._kept)] = self.unit * half @ half.T
        covariance[self.lost] = 0.0
        covariance[:, self.lost] = 0.0
        covariance[self.lost, self.lost] = np.inf
        return covariance

    @property
    def standard_errors(self) -> np.ndarray:
        return np.sqrt(np.diagonal(self.covariance))

    def quantile(self, level: float) -> float:
        known = self.setting.data.sd is not None
        return quantile(level, None if known else self.freedom)

    def peak(self) -> Peak:
        best = self.searched.best
        return Peak(
            self.z, int(best.n[0]), float(best.loss[0]), self.unit, self.covariance
        )

    def profiles(
        self, level: float = 0.95, which: list[int] | None = None
    ) -> list[Profile]:
        """The profiles of the free values, over all places that tie with the best:
        other minima, and where profiles that stay open lead to."""
        peak, q = self.peak(), self.quantile(level)
        which = list(range(len(self.z))) if which is None else which
        # What has no influence, alone or against others, needs no fit to be open.
        flat = np.any(np.abs(self.undetermined) > 1e-4, axis=1) | (self.scale == 0)
        tried = [j for j in which if not flat[j]]
        points = self.searched.points
        found = profiles(self.setting, points, peak, q, tried)
        for z in self._ties(peak, q) + _ridges(found, q):
            more = profiles(self.setting, points, peak._replace(z=z), q, tried)
            found = [_hull(one, two) for one, two in zip(found, more)]
        known = dict(zip(tried, found))
        names = self.setting.model.layout.names
        return [
            known[j] if j in known else open_profile(names[j], peak, j, q)
            for j in which
        ]

    def _ties(self, peak: Peak, q: float) -> list[np.ndarray]:
        """Other minima whose sums of squares are within the interval's rise. Those of
        other frequencies tie as long as the search would not tell them apart: among so
        many, one fits better by chance."""
        limit = q**2
        if self.setting.frequencies.any():
            limit = max(limit, FAST)
        rise = limit * self.unit
        close = [
            minimum.z
            for minimum in self.searched.minima[1 : 1 + 2 * _MOST_MINIMA]
            if minimum.loss < peak.loss + 2 * rise
        ]
        if not close:
            return []
        n = np.full(len(close), peak.n)
        found = refine(self.setting, np.array(close), self.searched.points, n)
        tie = found.loss < peak.loss + rise
        away = found.z - peak.z
        near = np.einsum("ij,jk,ik->i", away, self.searched.best.gram[0, 1:, 1:], away)
        order = np.argsort(found.loss)
        rows = [row for row in order if tie[row] and near[row] > 0.1 * self.unit]
        return [found.z[row] for row in rows[:_MOST_MINIMA]]


def _ridges(found: list[Profile], q: float) -> list[np.ndarray]:
    """Along every profile that stays open, the farthest point, and one half-way."""
    ridges = []
    for profile in found:
        for is_closed, side in zip(profile.closed, (-1, 1)):
            beyond = side * (profile.values - profile.estimate)
            there = np.flatnonzero((beyond > 0) & (profile.r < q))
            if not is_closed and len(there):
                order = there[np.argsort(beyond[there])]
                ridges += [profile.z[order[-1]], profile.z[order[len(order) // 2]]]
    return ridges[: 2 * _MOST_MINIMA]


def _hull(one: Profile, two: Profile) -> Profile:
    """The smallest profile interval that holds both."""
    return replace(
        one,
        interval=(
            min(one.interval[0], two.interval[0]),
            max(one.interval[1], two.interval[1]),
        ),
        reached=(
            min(one.reached[0], two.reached[0]),
            max(one.reached[1], two.reached[1]),
        ),
    )
