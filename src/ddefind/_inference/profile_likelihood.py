r"""Profile likelihood: how far a parameter can move before the fit becomes too bad.

The profile of a parameter is the sum of squares $S$ minimised over all other parameters
while this one is held at a value v. In units of the noise $\sigma$,

$$r(v) = \sqrt{(S_{\text{profile}}(v) - S_{\min}) / \sigma^2}$$

is nearly linear in v on each side of the estimate. The confidence interval ends where r
reaches the quantile of the confidence level.

The ends of all parameters are sought together, with one batch of fits in each round.
They also inform each other: if a fit on the way to one end has an r below the quantile,
and lies beyond the end of another parameter's interval, the search for that end is
continued from there."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from .._least_squares.batches import refine
from .._least_squares.default_bounds import delays_to_try
from .._least_squares.setup import FitSetup
from .._loss.path_costs import Points

# An end is found when r is this close to the quantile.
_R_TOLERANCE = 0.02
_MAX_ROUNDS = 25
_MAX_EVALUATIONS = 60
# A profile is open if the parameter can be moved farther than this factor times its
# size or its standard error, whichever is larger.
_OPEN_FACTOR = 1e4
# How often ends are sought again from fits that other profiles came across.
_MAX_EXTENSIONS = 3
# A profile may rise above the quantile and still end in a plateau, on which the data no
# longer depend on the value: moving it from the end of the interval to a place far out
# changes the predictions by less than `_PLATEAU_CHANGE`, in units of the noise. On a
# plateau r must exceed `_PLATEAU_R` for the end to count as closed, because in one fit
# of twenty the noise alone lifts a whole plateau above the 95% quantile.
_PLATEAU_R, _PLATEAU_CHANGE = 4.0, 0.25


class Optimum(NamedTuple):
    """The best fit, from which profiles are measured: its free values, its steps per
    delay, its sum of squares, the variance of a residual (the unit of chi-square), and
    the covariance of the free values."""

    theta: np.ndarray
    n: int
    loss: float
    residual_variance: float
    covariance: np.ndarray

    def r(self, loss: np.ndarray) -> np.ndarray:
        """The root of the excess chi-square of fits with these sums of squares."""
        return np.sqrt(np.maximum(loss - self.loss, 0.0) / self.residual_variance)


@final
@dataclass(frozen=True)
class Profile:
    """The profile of one parameter, and its confidence interval.

    `values` are the values at which the parameter was held, in increasing order, `r`
    the root of the excess chi-square there, and `theta` all free values of these fits,
    one row for each. An end of `interval` is infinite where the profile stays below
    the `quantile`; `reached` is how far it was followed."""

    name: str
    estimate: float
    quantile: float
    interval: tuple[float, float]
    reached: tuple[float, float]
    values: np.ndarray
    r: np.ndarray
    theta: np.ndarray

    @property
    def closed(self) -> tuple[bool, bool]:
        """Whether the interval has a finite lower and a finite upper end."""
        low, high = self.interval
        return bool(np.isfinite(low)), bool(np.isfinite(high))


@final
class _EndSearch:
    """The search for one end of the interval of free value j.

    It begins at the free values `theta`, whose `r` is below the quantile, and moves
    value j down (`side` = -1) or up (`side` = +1): first in growing steps until r
    exceeds the quantile, then by interpolation between the last fit inside and the
    nearest one outside."""

    def __init__(
        self,
        setup: FitSetup,
        optimum: Optimum,
        theta: np.ndarray,
        r: float,
        j: int,
        side: int,
        quantile: float,
    ):
        self.optimum, self.j, self.side, self.quantile = optimum, j, side, quantile
        self.bound = float((setup.lower if side < 0 else setup.upper)[j])
        # Where a plateau is looked for: at the bound, or where a delay without one
        # still has an influence.
        self.far = self.bound
        if j in setup.model.free.delays:
            tried = delays_to_try(setup.data, setup.lower[j], setup.upper[j])
            self.far = tried[0 if side < 0 else 1]
        # The fits with r below the quantile, from the start outwards: (r, theta).
        self.path: list[tuple[float, np.ndarray]] = [(r, theta)]
        # All fits on the way: (value, r, theta).
        self.visited: list[tuple[float, float, np.ndarray]] = []
        # The nearest value with r above the quantile, and r there.
        self.outside, self.r_outside = np.nan, np.nan
        variance = optimum.covariance[j, j]
        size = max(abs(self.inside), 1e-6)
        # A parameter that moves farther than this has an open profile.
        self.farthest = _OPEN_FACTOR * max(
            size, np.sqrt(variance) if variance < 1e300 else size
        )
        first_step = quantile * np.sqrt(variance)
        first_step = first_step if 0 < first_step < self.farthest else 0.1 * size
        self.step = max(first_step, 0.3 * abs(self.inside - optimum.theta[j]))
        self.value = self.inside  # at which the next fit holds value j
        self.end = np.nan
        self.done = self.is_open = self.inside == self.bound

    @property
    def inside(self) -> float:
        """The farthest value so far with r below the quantile."""
        return float(self.path[-1][1][self.j])

    @property
    def limit(self) -> float:
        """The end of the interval, infinite if the profile is open."""
        if self.is_open:
            return self.side * np.inf
        return self.inside if np.isnan(self.end) else self.end

    def propose(self) -> list[np.ndarray]:
        """Choose the next value, and return the two starts of the fits with it."""
        r_inside = self.path[-1][0]
        if np.isnan(self.outside):
            value = self.inside + self.side * self.step
            value = min(value, self.bound) if self.side > 0 else max(value, self.bound)
        else:
            share = (self.quantile - r_inside) / (self.r_outside - r_inside)
            value = self.inside + min(max(share, 0.1), 0.9) * (
                self.outside - self.inside
            )
        self.value = value
        return self.starts_at(value)

    def starts_at(self, value: float) -> list[np.ndarray]:
        """Two starts for a fit with value j held at `value`: all other values as in the
        last fit, or extrapolated along the profile."""
        last = self.path[-1][1]
        covariances = self.optimum.covariance[:, self.j]
        direction = np.zeros_like(last)
        if len(self.path) > 1:
            previous = self.path[-2][1]
            direction = (last - previous) / (last[self.j] - previous[self.j])
        elif 0 < covariances[self.j] < np.inf:
            direction = covariances / covariances[self.j]
        unchanged = last.copy()
        extrapolated = last + (value - last[self.j]) * direction
        unchanged[self.j] = extrapolated[self.j] = value
        return [unchanged, extrapolated]

    def update(self, r: float, theta: np.ndarray) -> None:
        """Take the fit at the proposed value into account."""
        self.visited.append((self.value, r, theta))
        if abs(r - self.quantile) < _R_TOLERANCE:
            estimate = float(self.optimum.theta[self.j])
            self.end = estimate + (self.value - estimate) * self.quantile / r
            self.done = True
        elif r < self.quantile:
            moved = abs(self.value - self.optimum.theta[self.j])
            self.is_open = self.value == self.bound or moved > self.farthest
            self.done = self.is_open
            # The next step is the one that a linear r(v) suggests, but at most three
            # times the last one.
            last_step = abs(self.value - self.inside)
            linear_step = moved * (self.quantile / max(r, 0.1) - 1)
            self.step = min(max(1.05 * linear_step, 0.3 * last_step), 3 * last_step)
            self.path.append((r, theta))
        else:
            self.outside, self.r_outside = self.value, min(r, 10 * self.quantile)
        gap = abs(self.outside - self.inside)
        if not self.done and gap < 1e-3 * abs(self.inside - self.optimum.theta[self.j]):
            self.end, self.done = self.inside, True


@final
@dataclass(frozen=True)
class _ProfileSearch:
    """The joint search for the ends of several profiles."""

    setup: FitSetup
    points: Points
    optimum: Optimum
    quantile: float

    def begin_end(
        self, theta: np.ndarray, r: float, j: int, side: int, quantile: float
    ) -> _EndSearch:
        return _EndSearch(self.setup, self.optimum, theta, r, j, side, quantile)

    def fit_held(
        self, indices: list[int], starts: list[list[np.ndarray]]
    ) -> Iterable[tuple[float, np.ndarray, float]]:
        """Fit all values but one, from two starts for each of the held `indices`.

        For each the better of the two fits: its r, its free values, and the sensitivity
        of the predictions to the held value (the norm of their derivatives, in units of
        the noise)."""
        theta = np.concatenate(starts)
        theta = np.clip(theta, self.setup.lower, self.setup.upper)
        held = np.arange(theta.shape[1]) == np.repeat(indices, 2)[:, None]
        n = self.setup.steps_near(theta, self.optimum.theta, self.optimum.n)
        fits = refine(self.setup, theta, self.points, n, _MAX_EVALUATIONS, held)
        better = np.argmin(fits.loss.reshape(-1, 2), axis=1)
        rows = 2 * np.arange(len(indices)) + better
        diagonal = np.add(indices, 1)
        sensitivity = np.sqrt(
            fits.gram[rows, diagonal, diagonal] / self.optimum.residual_variance
        )
        r = self.optimum.r(fits.loss[rows]).tolist()
        return zip(r, fits.theta[rows], sensitivity)

    def run(self, ends: list[_EndSearch]) -> None:
        """Follow all ends until they are found, one batch of fits in each round."""
        for _ in range(_MAX_ROUNDS):
            active = [end for end in ends if not end.done]
            if not active:
                return
            indices = [end.j for end in active]
            fits = self.fit_held(indices, [end.propose() for end in active])
            for end, (r, theta, _) in zip(active, fits):
                end.update(r, theta)

    def extensions(self, ends: list[_EndSearch]) -> list[_EndSearch]:
        """New searches for the ends beyond which another search found a fit with r
        below its quantile; they begin at that fit."""
        inside = [(*fit, end.quantile) for end in ends for fit in end.path]
        extended = []
        for (j, side), end in _outermost(ends).items():
            r, theta, quantile = max(inside, key=lambda fit: side * fit[1][j])
            margin = 0.02 * abs(end.limit - self.optimum.theta[j])
            if np.isfinite(end.limit) and side * (theta[j] - end.limit) > margin:
                extended.append(self.begin_end(theta, r, j, side, quantile))
        return extended

    def open_plateaus(self, ends: list[_EndSearch]) -> None:
        """Declare those ends open that a fit far beyond them shows to be on a plateau
        (see `_PLATEAU_R`), or where r is again below the quantile."""
        tested = [(end, far) for end in ends if (far := _far_beyond(end)) is not None]
        if not tested:
            return
        starts = [end.starts_at(far) for end, far in tested]
        fits = self.fit_held([end.j for end, _ in tested], starts)
        for (end, far), (r, _, sensitivity) in zip(tested, fits):
            is_plateau = sensitivity * abs(far - end.limit) < _PLATEAU_CHANGE
            end.is_open = r < self.quantile or (is_plateau and r < _PLATEAU_R)


def _far_beyond(end: _EndSearch) -> float | None:
    """A value well beyond an end: its bound or, without one, 50 half-widths of the
    interval away. None if the profile is open, or the bound is not far beyond the
    end."""
    half_width = abs(end.limit - end.optimum.theta[end.j])
    if end.is_open:
        return None
    far = end.far if np.isfinite(end.far) else end.limit + 50 * end.side * half_width
    return far if end.side * (far - end.limit) > half_width else None


def _outermost(ends: list[_EndSearch]) -> dict[tuple[int, int], _EndSearch]:
    """For each parameter j and side, the search that ended farthest out."""
    outermost: dict[tuple[int, int], _EndSearch] = {}
    for end in ends:
        key = end.j, end.side
        if key not in outermost or end.side * (end.limit - outermost[key].limit) > 0:
            outermost[key] = end
    return outermost


def follow_profiles(
    setup: FitSetup,
    points: Points,
    optimum: Optimum,
    quantile: float,
    which: list[int],
    tied: list[tuple[float, np.ndarray]],
    tied_quantile: float,
) -> list[Profile]:
    """The profiles of the free values with the indices `which`.

    They are followed from the optimum and from other minima that tie with it, `tied`,
    given as (r, theta). From those the interval extends to where r reaches
    `tied_quantile`."""
    search = _ProfileSearch(setup, points, optimum, quantile)
    beginnings = [
        (0.0, optimum.theta, quantile),
        *((r, theta, tied_quantile) for r, theta in tied),
    ]
    ends = [
        search.begin_end(theta, r, j, side, q)
        for r, theta, q in beginnings
        for j in which
        for side in (-1, 1)
    ]
    search.run(ends)
    for _ in range(_MAX_EXTENSIONS):
        extensions = search.extensions(ends)
        search.run(extensions)
        ends = [*ends, *extensions]
    outermost = _outermost(ends)
    search.open_plateaus(list(outermost.values()))
    names = setup.model.free.names
    return [
        _assemble(
            names[j],
            optimum,
            quantile,
            (outermost[j, -1], outermost[j, 1]),
            [end for end in ends if end.j == j],
        )
        for j in which
    ]


def open_profile(name: str, optimum: Optimum, j: int, quantile: float) -> Profile:
    """The profile of a value on which the sum of squares does not depend."""
    estimate = float(optimum.theta[j])
    ends = (-np.inf, np.inf)
    return Profile(
        name,
        estimate,
        quantile,
        ends,
        ends,
        optimum.theta[[j]],
        np.zeros(1),
        optimum.theta[None],
    )


def _assemble(
    name: str,
    optimum: Optimum,
    quantile: float,
    outermost: tuple[_EndSearch, _EndSearch],
    ends: list[_EndSearch],
) -> Profile:
    """The profile from all searches for its ends; `outermost` are those that set the
    lower and the upper end of the interval."""
    low, high = outermost
    j = low.j
    visited = [(float(optimum.theta[j]), 0.0, optimum.theta)]
    visited += [
        (value, r, theta)
        for end in ends
        for value, r, theta in end.visited
        # A fit inside of the interval with r above the quantile missed the minimum.
        if r < quantile or not low.limit < value < high.limit
    ]
    values, r, theta = (np.array(column) for column in zip(*visited))
    order = np.argsort(values, kind="stable")
    order = order[_is_on_lowest_branch(values[order], r[order])]
    return Profile(
        name,
        float(optimum.theta[j]),
        quantile,
        (float(low.limit), float(high.limit)),
        (float(values.min()), float(values.max())),
        values[order],
        r[order],
        theta[order],
    )


def _is_on_lowest_branch(values: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Which points belong to the profile. Others are fits at a higher local minimum:
    there is a point close by with a much lower r."""
    is_close = np.abs(values[:, None] - values) <= 0.03 * np.ptp(values)
    return ~np.any(is_close & (r[None, :] < r[:, None] - 0.3), axis=1)
