r"""Profile likelihood: how far a parameter can move before the fit becomes too bad.

The profile of a parameter is the sum of squares $S$ minimised over all other parameters
while this one is held at a value v. In units of the noise $\sigma$,

$$r(v) = \sqrt{(S_{\text{profile}}(v) - S_{\min}) / \sigma^2}$$

is nearly linear in v on each side of the estimate. The confidence interval ends where r
reaches the quantile of the confidence level.

The ends of all parameters are sought together, with one batch of fits in each round.
They also inform each other: if a fit on the way to one end has an r below the quantile,
and lies beyond the end of another parameter's interval, the search for that end is
continued from there.

At last the fits at the ends are repeated with half the step. Where that changes r, the
profiles are followed again with shorter steps; an end that still changes is open."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from .._engine.engine import Points
from .._search.batches import RefinedFits, refine
from .._search.levenberg_marquardt import LIMIT
from .._search.setup import FitSetup
from .profile import STEPS_MATTER, EndSearch, Optimum, Profile, assemble

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
