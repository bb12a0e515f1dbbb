r"""Profile likelihood: how far a parameter can move before the fit becomes too bad.

The profile of a parameter is the sum of squares $S$ minimised over all other parameters
while this one is held at a value v. In units of the noise $\sigma$,

$$r(v) = \sqrt{(S_{\text{profile}}(v) - S_{\min}) / \sigma^2}$$

is nearly linear in v on each side of the estimate. The confidence interval ends where r
reaches the quantile of the confidence level. `EndSearch` chooses the values on the way
to one end.

The ends of all parameters are sought together, with one batch of fits in each round.
They also inform each other: if a fit on the way to one end has an r below the quantile,
and lies beyond the end of another parameter's interval, the search for that end is
continued from there.

At last the fits at the ends are repeated with half the step. Where that changes r, the
profiles are followed again with shorter steps; an end that still changes is open."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np

from .._data.study_data import longest_part
from .._engine.engine import Points
from .._search.batches import RefinedFits, refine
from .._search.bounds import usual_delays
from .._search.levenberg_marquardt import LIMIT
from .._search.setup import FitSetup

# An end is found when r is this close to the quantile.
_R_TOLERANCE = 0.02
# A profile is open if the parameter can be moved farther than this factor times its
# size or its standard error, whichever is larger.
_OPEN_FACTOR = 1e4
# The factor by which steps may grow; the second one where r rises by less than the
# third number.
_GROWTH, _FAST_GROWTH, _LOW_R = 3.0, 10.0, 0.1
# A value this many times as large as its natural size got so large only because the
# data do not see it. The way back begins at the second number of natural sizes.
_ENORMOUS, _BACK = 1e4, 100.0
# A fit fails if it has no finite sum of squares, or an r above this.
_FAILED_R = 1e4
# The profile jumps at an end if r is farther than this from the quantile on both sides
# of it, and how often the search goes on there in smaller steps.
_JUMP, _MOST_RETRIES = 0.3, 2
# The search ends when the gap between the values inside and outside is this share of
# the way to it; less where r jumps from one number to another, which may be a steep
# rise.
_GAP, _JUMP_GAP = 1e-3, 1e-6
# Towards a bound on which fits fail, the distance to it shrinks by this factor.
_TOWARDS_BOUND = 0.1
# The share of the distance between the bounds by which a value is moved off its bound.
_RELEASE = 0.25

# Why a profile could not be followed farther at an open end; empty if it could.
BREAKDOWNS = "", "explodes", "lost", "steps matter"
_, EXPLODES, LOST, STEPS_MATTER = BREAKDOWNS


class Optimum(NamedTuple):
    """Best fit, from which profiles are measured: its free values, steps per delay, sum
    of squares, variance of a residual (the unit of chi-square), and the covariance and
    natural sizes of its free values."""

    theta: np.ndarray
    n: int
    loss: float
    residual_variance: float
    covariance: np.ndarray
    sizes: np.ndarray

    def r(self, loss: float) -> float:
        """Return the root of the excess chi-square of a fit with this sum of squares;
        negative if it is better than the best fit."""
        rise = (loss - self.loss) / self.residual_variance
        return float(np.sign(rise) * np.sqrt(abs(rise)))


@final
class EndSearch:
    """Search for one end of the interval of free value j.

    It begins at the free values `theta`, whose `r` is below the quantile, and moves
    value j down (`side` = -1) or up (`side` = +1): first in growing steps until r
    exceeds the quantile, then by interpolation between the last fit inside and the
    nearest one outside. `breakdown` says why the profile could not be followed farther.
    """

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
        self.lower, self.upper = setup.lower, setup.upper
        self.bound = float((self.lower if side < 0 else self.upper)[j])
        # Where a plateau of a delay is looked for: where it still has an influence.
        self.far = np.nan
        if j in setup.model.free.delays:
            self.far = usual_delays(longest_part(setup.data))[0 if side < 0 else 1]
        # The value that distances are measured from.
        self.origin = float(optimum.theta[j])
        # The fits with r below the quantile, from the start outwards: (r, theta).
        self.path: list[tuple[float, np.ndarray]] = [(r, theta)]
        # All fits on the way: (value, r, theta).
        self.visited: list[tuple[float, float, np.ndarray]] = []
        # Further fits of a profile that seems flat.
        self.near_zero: list[tuple[float, float, np.ndarray]] = []
        # The nearest value with r above the quantile, and r there.
        self.outside, self.r_outside = np.nan, np.nan
        self.retries = 0
        error = np.sqrt(optimum.covariance[j, j])
        size = max(abs(self.inside), abs(self.origin), 1e-6 * optimum.sizes[j])
        # A parameter that moves farther than this has an open profile.
        self.farthest = _OPEN_FACTOR * (max(size, error) if error < 1e150 else size)
        first_step = quantile * error
        first_step = first_step if 0 < first_step < self.farthest else 0.1 * size
        self.step = max(first_step, 0.3 * abs(self.inside - self.origin))
        # From an enormous value the way towards zero begins with one large step.
        is_enormous = abs(self.inside) > _ENORMOUS * optimum.sizes[j]
        self.leaps = is_enormous and self.side * self.inside < 0
        self.value = self.inside  # at which the next fit holds value j
        self.end = np.nan
        self.breakdown, self.has_failed, self.is_exhausted = "", False, False
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
        """Choose the next value, and return the starts of the fits with it."""
        if self.leaps:
            self.value = float(-self.side * _BACK * self.optimum.sizes[self.j])
        elif np.isnan(self.outside):
            nearer = min if self.side > 0 else max
            self.value = nearer(self.inside + self.side * self.step, self.bound)
        else:
            self.value = self._between()
        return self.starts_at(self.value)

    def _between(self) -> float:
        """Choose a value between the last one inside and the nearest one outside: where
        a linear r reaches the quantile; but the mean if r is flat inside, or the
        geometric mean if the two are of different orders of magnitude."""
        inside, outside = self.inside, self.outside
        if self._fails_at_bound:
            return outside + _TOWARDS_BOUND * (inside - outside)
        ratio = outside / inside if inside else -1.0
        if ratio > 0 and max(ratio, 1 / ratio) > 30:
            return float(np.sign(inside) * np.sqrt(abs(inside)) * np.sqrt(abs(outside)))
        r_inside = self.path[-1][0]
        share = (self.quantile - r_inside) / (self.r_outside - r_inside)
        # Between a flat stretch and a wall r is not linear.
        least = 0.5 if r_inside < _LOW_R else 0.1
        return inside + min(max(share, least), 1 - least) * (outside - inside)

    def starts_at(self, value: float) -> list[np.ndarray]:
        """Return starts for a fit with value j held at `value`: all other values as in
        the last fit; extrapolated along the profile; where that is flat, also by powers
        and exponentials; and, if some are on their bounds there, moved off these."""
        r, last = self.path[-1]
        starts = [last.copy(), self._extrapolated(value)]
        if len(self.path) > 1 and r < _LOW_R:
            starts += _curved(self.path[-2][1], last, self.j, value)
        if (released := self._released(starts[1])) is not None:
            starts.append(released)
        for start in starts:
            start[self.j] = value
        return [start for start in starts if np.all(np.isfinite(start))]

    def _extrapolated(self, value: float) -> np.ndarray:
        """Extrapolate the last two fits or, in the beginning, follow the covariance."""
        last, covariances = self.path[-1][1], self.optimum.covariance[:, self.j]
        direction = np.zeros_like(last)
        if len(self.path) > 1:
            previous = self.path[-2][1]
            direction = (last - previous) / (last[self.j] - previous[self.j])
        elif 0 < covariances[self.j] < np.inf and not self.leaps:
            direction = covariances / covariances[self.j]
        return last + (value - last[self.j]) * direction

    def _released(self, theta: np.ndarray) -> np.ndarray | None:
        """Move free values that are on a bound off it; None if there are none."""
        is_low, is_high = theta <= self.lower, theta >= self.upper
        is_low[self.j] = is_high[self.j] = False
        if not np.any(is_low | is_high):
            return None
        width = self.upper - self.lower
        room = np.where(np.isfinite(width), _RELEASE * width, self.optimum.sizes)
        released = np.where(is_low, self.lower + room, theta)
        return np.where(is_high, self.upper - room, released)

    def update(self, r: float, theta: np.ndarray) -> None:
        """Take the fit at the proposed value into account."""
        self.visited.append((self.value, r, theta))
        has_leapt, self.leaps = self.leaps, False
        if r < self.quantile - _R_TOLERANCE and has_leapt:
            # Go on from here as if this were the best fit.
            self.path = [(r, theta)]
            self.origin = self.value
            self.farthest = _OPEN_FACTOR * abs(self.value)
            self.step = 0.5 * abs(self.value)
        elif abs(r - self.quantile) < _R_TOLERANCE:
            r_inside = self.path[-1][0]
            share = (self.quantile - r_inside) / max(r - r_inside, _R_TOLERANCE)
            self.end = self.inside + share * (self.value - self.inside)
            self.done = True
        elif r < self.quantile:
            self._move_on(r, theta)
        else:
            self.outside, self.r_outside = self.value, min(r, 10 * self.quantile)
            self.has_failed = r > _FAILED_R
        if not self.done:
            self._close_gap()

    def give_up(self) -> None:
        """End a search that took too many rounds."""
        is_near = self.path[-1][0] > self.quantile - _JUMP
        self.is_exhausted = not self.done and (np.isnan(self.outside) or not is_near)
        self.done = True

    def open_if_exhausted(self) -> None:
        """Open the end if the search gave up before anything outside was found, or far
        below the quantile: beyond, the profile is not known."""
        if self.is_exhausted and not self.is_open:
            self.is_open, self.breakdown = True, LOST

    def _move_on(self, r: float, theta: np.ndarray) -> None:
        """Choose the next step after a fit inside: the one that a linear r(v) suggests,
        but not much longer than the last one."""
        moved = abs(self.value - self.origin)
        self.is_open = self.value == self.bound or moved > self.farthest
        self.done = self.is_open
        last_step = abs(self.value - self.inside)
        linear_step = moved * (self.quantile / max(r, 0.1) - 1)
        growth = _FAST_GROWTH if r - self.path[-1][0] < _LOW_R else _GROWTH
        self.step = min(max(1.05 * linear_step, 0.3 * last_step), growth * last_step)
        self.path.append((r, theta))

    @property
    def _fails_at_bound(self) -> bool:
        """Whether the nearest value outside is the bound itself, where a fit failed."""
        return self.has_failed and self.outside == self.bound

    def _close_gap(self) -> None:
        """End the search when the values inside and outside are close together.

        Where r jumps from far below the quantile to far above it, the search goes on
        from the last fit inside in smaller steps: it may be the start of a fit that was
        bad, and not the fit. If r still jumps in the end, the profile is not known
        there, and the interval is open."""
        gap = abs(self.outside - self.inside)
        moved = abs(self.inside - self.origin)
        if self._fails_at_bound:
            # There is no solution on the bound, such as a division by zero; the profile
            # is open if it stays low up to the bound.
            self.done = self.is_open = gap < _JUMP_GAP * moved
            return
        jumps = self.path[-1][0] < self.quantile - _JUMP < self.r_outside - 2 * _JUMP
        if jumps and gap < 0.1 * moved and self.retries < _MOST_RETRIES:
            self.retries += 1
            self.step, self.outside = 0.3 * gap, np.nan
        elif gap < (_JUMP_GAP if jumps and not self.has_failed else _GAP) * moved:
            self.end, self.done = self.inside, True
            if jumps:
                self.is_open = True
                self.breakdown = EXPLODES if self.has_failed else LOST


def _curved(
    previous: np.ndarray, last: np.ndarray, j: int, value: float
) -> list[np.ndarray]:
    """Extrapolate two fits to the free values where value j is `value`, if the others
    depend on it exponentially or, if it keeps its sign, by powers.

    Along a curve on which a product such as a * b, or k * exp(-m * tau), is constant,
    one of these is right."""
    with np.errstate(all="ignore"):
        logs = np.log(last / previous)
        logs = np.where(np.isfinite(logs), logs, 0.0)
        rates = [(value - last[j]) / (last[j] - previous[j])]
        if value * last[j] > 0 and previous[j] * last[j] > 0:
            rates.append(np.log(value / last[j]) / np.log(last[j] / previous[j]))
        curves = [last * np.exp(np.clip(rate * logs, -200.0, 200.0)) for rate in rates]
    return [curve for curve in curves if np.all(np.isfinite(curve))]


@final
@dataclass(frozen=True)
class Profile:
    """Profile of one parameter, and its confidence interval.

    `values` are the values at which the parameter was held, in increasing order, `r`
    the root of the excess chi-square there, and `theta` all free values of these fits,
    one row for each. An end of `interval` is infinite where the profile stays below
    the `quantile`; `reached` is how far it was followed, and `breakdown` says for each
    open end why it could not be followed farther."""

    name: str
    estimate: float
    quantile: float
    interval: tuple[float, float]
    reached: tuple[float, float]
    values: np.ndarray
    r: np.ndarray
    theta: np.ndarray
    breakdown: tuple[str, str] = ("", "")

    @property
    def closed(self) -> tuple[bool, bool]:
        """Whether the interval has a finite lower and a finite upper end."""
        low, high = self.interval
        return bool(np.isfinite(low)), bool(np.isfinite(high))


def unknown_profile(name: str, theta: np.ndarray, j: int, quantile: float) -> Profile:
    """Return a profile of free value j that was not followed."""
    ends, none = (np.nan, np.nan), np.zeros(0)
    estimate = float(theta[j])
    return Profile(name, estimate, quantile, ends, ends, none, none, theta[None][:0])


def assemble(
    name: str,
    optimum: Optimum,
    quantile: float,
    outermost: tuple[EndSearch, EndSearch],
    ends: list[EndSearch],
) -> Profile:
    """Assemble a profile from all searches for its ends; `outermost` are those that set
    the lower and the upper end of the interval."""
    low, high = outermost
    estimate = float(optimum.theta[low.j])
    visited = [(estimate, 0.0, optimum.theta)]
    visited += [
        fit
        for end in ends
        for fit in end.visited
        # A fit inside of the interval with r above the quantile missed the minimum.
        if fit[1] < quantile or not low.limit < fit[0] < high.limit
    ]
    visited += [fit for end in ends for fit in end.near_zero]
    visited = [fit for fit in visited if np.isfinite(fit[1])]
    values, r, theta = (np.array(column) for column in zip(*visited))
    order = np.argsort(values, kind="stable")
    order = order[_is_on_lowest_branch(values[order], r[order])]
    lowest = low.inside if low.breakdown else float(values.min())
    highest = high.inside if high.breakdown else float(values.max())
    return Profile(
        name,
        estimate,
        quantile,
        (float(low.limit), float(high.limit)),
        (lowest, highest),
        values[order],
        r[order],
        theta[order],
        (low.breakdown, high.breakdown),
    )


def _is_on_lowest_branch(values: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Return which points belong to the profile. A point of a higher local minimum does
    not: another one close by has a much lower r."""
    apart, sizes = np.abs(values[:, None] - values), np.abs(values)
    is_close = apart <= 0.03 * np.ptp(values)
    # Values of different orders of magnitude are not close.
    is_close &= apart <= 0.3 * np.maximum(sizes[:, None], sizes)
    return ~np.any(is_close & (r[None, :] < r[:, None] - 0.3), axis=1)


# All ends together

_MAX_ROUNDS = 40
# Most fits converge within this number of evaluations; the others may take more.
_MAX_EVALUATIONS, _MANY_EVALUATIONS = 60, 300
# The evaluations of a first fit far away; it goes on if r is below the second number.
_FEW_EVALUATIONS, _NEAR_R = 15, 20.0
# How often ends are sought again from fits that other profiles came across.
_MAX_EXTENSIONS = 3
# A profile may rise above the quantile and still end in a plateau, on which the data no
# longer depend on the value: moving it from the end of the interval to a place far out
# changes the predictions by less than `_PLATEAU_CHANGE`, in units of the noise. On a
# plateau r must exceed `_PLATEAU_R` for the end to count as closed, because in one fit
# of twenty the noise alone lifts a whole plateau above the 95% quantile.
_PLATEAU_R, _PLATEAU_CHANGE = 4.0, 0.25
# A profile is flat so far if r stayed below this. Then fits at these shares of the
# natural size of the value are added to it.
_FLAT, _NATURAL_SHARES = 0.1, (0.1, 1.0, 10.0)
# A plateau is sought this many half-widths of the interval beyond its end.
_FAR = 50.0
# Steps matter if halving them changes r at an end by more than this: the end then moves
# by about as many standard errors.
_SAME_R = 0.1
# How often the profiles are followed again with half the step, and the largest number
# of steps for this.
_MOST_HALVINGS, _MOST_STEPS = 2, 4000

# Called after each round with the numbers of ends that are found, and that are sought.
FoundEnds = Callable[[int, int], None]


@final
@dataclass(frozen=True)
class _ProfileSearch:
    """Joint search for the ends of several profiles."""

    setup: FitSetup
    points: Points
    optimum: Optimum
    quantile: float
    found: FoundEnds | None = None
    # All ends that have been sought, also with longer steps.
    sought: list[EndSearch] = field(default_factory=list)

    def fit_held(
        self,
        indices: list[int],
        starts: list[list[np.ndarray]],
        halvings: int = 0,
        is_patient: bool = True,
    ) -> Iterable[tuple[float, np.ndarray, float]]:
        """Fit all values but one, from several starts for each of the held `indices`,
        with steps halved `halvings` times. If `is_patient`, fits that need many
        evaluations get them.

        Return the best fit of each: its sum of squares, its free values, and the
        sensitivity of the predictions to the held value (the norm of their derivatives,
        in units of the noise)."""
        counts = [len(each) for each in starts]
        theta = np.array([start for each in starts for start in each])
        j = np.repeat(indices, counts)
        held = np.arange(theta.shape[1]) == j[:, None]
        inside = np.clip(theta, self.setup.lower, self.setup.upper)
        theta = np.where(held, theta, inside)
        n = self.setup.steps_near(theta, self.optimum.theta, self.optimum.n)
        fits = self._refine(theta, n * 2**halvings, held, is_patient)
        firsts = np.cumsum([0, *counts])
        rows = [
            first + int(np.argmin(fits.loss[first:last]))
            for first, last in zip(firsts, firsts[1:])
        ]
        diagonal = np.add(indices, 1)
        # The variance of exact data may be tiny: one root of a quotient overflows.
        sensitivity = np.sqrt(fits.gram[rows, diagonal, diagonal])
        sensitivity = sensitivity / np.sqrt(self.optimum.residual_variance)
        return zip(fits.loss[rows].tolist(), fits.theta[rows], sensitivity.tolist())

    def _refine(
        self, theta: np.ndarray, n: np.ndarray, held: np.ndarray, is_patient: bool
    ) -> RefinedFits:
        """Fit; if `is_patient`, fits that need more evaluations than most go on."""
        limit = _MAX_EVALUATIONS if is_patient else _FEW_EVALUATIONS
        fits = refine(self.setup, theta, self.points, n, limit, held)
        rows = np.flatnonzero(fits.status == LIMIT)
        if len(rows) == 0 or not is_patient:
            return fits
        theta, n, limit = fits.theta[rows], fits.n[rows], _MANY_EVALUATIONS
        longer = refine(self.setup, theta, self.points, n, limit, held[rows])
        return fits.replace_rows(rows, longer)

    def run(self, ends: list[EndSearch]) -> None:
        """Follow all ends until they are found, one batch of fits in each round."""
        self.sought.extend(ends)
        self.report()
        for _ in range(_MAX_ROUNDS):
            active = [end for end in ends if not end.done]
            if not active:
                return
            indices = [end.j for end in active]
            fits = self.fit_held(indices, [end.propose() for end in active])
            for end, (loss, theta, _) in zip(active, fits):
                end.update(self.optimum.r(loss), theta)
            self.report()
        for end in ends:
            end.give_up()

    def report(self) -> None:
        """Report how many of all ends are found."""
        if self.found is not None:
            done = sum(bool(end.done) for end in self.sought)
            self.found(done, len(self.sought))

    def all_ends(
        self, beginnings: list[tuple[float, np.ndarray, float]], which: list[int]
    ) -> list[EndSearch]:
        """Search for both ends of the values `which`, from each of the `beginnings`
        (r, theta, quantile), and from fits on the way that extend an end."""
        ends = [
            EndSearch(self.setup, self.optimum, theta, r, j, side, q)
            for r, theta, q in beginnings
            for j in which
            for side in (-1, 1)
        ]
        self.run(ends)
        for _ in range(_MAX_EXTENSIONS):
            extensions = self.extensions(ends)
            if not extensions:
                break
            self.run(extensions)
            ends = [*ends, *extensions]
        return ends

    def extensions(self, ends: list[EndSearch]) -> list[EndSearch]:
        """Begin new searches for the ends beyond which another search found a fit with
        r below its quantile, at that fit."""
        inside = [(*fit, end.quantile) for end in ends for fit in end.path]
        extended = []
        for (j, side), end in _outermost(ends).items():
            r, theta, quantile = max(inside, key=lambda fit: side * fit[1][j])
            margin = 0.02 * abs(end.limit - self.optimum.theta[j])
            if np.isfinite(end.limit) and side * (theta[j] - end.limit) > margin:
                start = theta, r, j, side, quantile
                extended.append(EndSearch(self.setup, self.optimum, *start))
        return extended

    def open_plateaus(self, ends: Sequence[EndSearch]) -> None:
        """Declare those ends open that a fit far beyond them shows to be on a plateau
        (see `_PLATEAU_R`), or where r is again below the quantile.

        Where a bound is nearer, the fit is made there: a plateau is flat enough there
        to go on as far as without the bound."""
        tested = [(end, far) for end in ends if (far := _far_beyond(end)) is not None]
        if not tested:
            return
        lower, upper = self.setup.lower, self.setup.upper
        held = [float(np.clip(far, lower[e.j], upper[e.j])) for e, far in tested]
        starts = [end.starts_at(value) for (end, _), value in zip(tested, held)]
        fits = list(self.fit_held([e.j for e, _ in tested], starts, is_patient=False))
        # Most are far from the data, and only those that come near go on.
        rows = [i for i, fit in enumerate(fits) if self.optimum.r(fit[0]) < _NEAR_R]
        if rows:
            near = [tested[i][0].j for i in rows]
            again = self.fit_held(near, [[fits[i][1]] for i in rows])
            for i, fit in zip(rows, again):
                fits[i] = fit
        for (end, far), (loss, _, sensitivity) in zip(tested, fits):
            r = self.optimum.r(loss)
            is_plateau = sensitivity * abs(far - end.limit) < _PLATEAU_CHANGE
            end.is_open = r < self.quantile or (is_plateau and r < _PLATEAU_R)

    def look_near_zero(self, ends: Sequence[EndSearch]) -> None:
        """Fit at values of the natural size, of both signs, if a profile is flat so
        far: it may have come from an enormous value, or stepped over what matters."""
        tested = [
            (end, value)
            for end in ends
            if end.is_open and all(r < _FLAT for _, r, _ in end.visited)
            for share in _NATURAL_SHARES
            if self.setup.lower[end.j]
            <= (value := end.side * share * self.optimum.sizes[end.j])
            <= self.setup.upper[end.j]
        ]
        if not tested:
            return
        starts = [end.starts_at(value) for end, value in tested]
        fits = self.fit_held([end.j for end, _ in tested], starts)
        for (end, value), (loss, theta, _) in zip(tested, fits):
            end.near_zero.append((value, self.optimum.r(loss), theta))

    def matter_of_steps(
        self, ends: Sequence[EndSearch]
    ) -> tuple[Optimum, list[EndSearch]]:
        """Return the best fit with half the step, and the ends where r changes."""
        tested = [end for end in ends if not end.is_open and end.visited]
        if not tested:
            return self.optimum, []
        nearest = [
            min(end.visited, key=lambda fit: abs(fit[1] - end.quantile))
            for end in tested
        ]
        theta, n = self.optimum.theta, 2 * self.optimum.n
        held = np.zeros((1, len(theta)), bool)
        best = self._refine(theta[None], np.array([n]), held, is_patient=True)
        if not np.isfinite(best.loss[0]):
            return self.optimum, []
        loss = float(best.loss[0])
        optimum = self.optimum._replace(theta=best.theta[0], n=n, loss=loss)
        starts = [[theta] for _, _, theta in nearest]
        fits = self.fit_held([end.j for end in tested], starts, halvings=1)
        return optimum, [
            end
            for end, (_, r, _), (loss, _, _) in zip(tested, nearest, fits)
            if not abs(optimum.r(loss) - r) < _SAME_R
        ]


def _far_beyond(end: EndSearch) -> float | None:
    """Choose a value well beyond an end: for a delay the end of the range in which
    delays have an influence, for others many half-widths of the interval away. None if
    the profile is open, or a delay's range does not go far beyond the end."""
    half_width = abs(end.limit - end.origin)
    if end.is_open:
        return None
    if np.isnan(end.far):
        return end.limit + _FAR * end.side * half_width
    return end.far if end.side * (end.far - end.limit) > half_width else None


def _outermost(ends: list[EndSearch]) -> dict[tuple[int, int], EndSearch]:
    """Return the search that ended farthest out, for each parameter j and side."""
    outermost: dict[tuple[int, int], EndSearch] = {}
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
    found: FoundEnds | None = None,
) -> list[Profile]:
    """Follow the profiles of the free values with the indices `which`, from the optimum
    and from other minima that tie with it, `tied`, given as (r, theta). From these the
    interval extends to where r reaches `tied_quantile`."""
    sought: list[EndSearch] = []
    beginnings = [
        (0.0, optimum.theta, quantile),
        *((r, theta, tied_quantile) for r, theta in tied),
    ]
    for halvings in range(1 + _MOST_HALVINGS):
        search = _ProfileSearch(setup, points, optimum, quantile, found, sought)
        ends = search.all_ends(beginnings, which)
        outermost = _outermost(ends)
        last = list(outermost.values())
        for end in last:
            end.open_if_exhausted()
        search.open_plateaus(last)
        search.look_near_zero(last)
        finer, changed = search.matter_of_steps(last)
        if not changed:
            break
        if halvings == _MOST_HALVINGS or 2 * finer.n > _MOST_STEPS:
            for end in changed:
                end.is_open, end.breakdown = True, STEPS_MATTER
            break
        optimum = finer
        beginnings[0] = (0.0, finer.theta, quantile)
    names = setup.model.free.names
    return [
        assemble(
            names[j],
            optimum,
            quantile,
            (outermost[j, -1], outermost[j, 1]),
            [end for end in ends if end.j == j],
        )
        for j in which
    ]
