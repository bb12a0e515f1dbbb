r"""Profile likelihood: how far each parameter can be moved before the fit suffers.

The profile of a parameter is $S$ minimised over all others. In units of the noise,

$$r(v) = \sqrt{(S_{\text{profile}}(v) - S_{\min}) / \sigma^2}$$

is nearly linear in v; the interval ends where r reaches the quantile. All ends of all
parameters are sought together, each round one batch of fits. What the others find on
their way counts: where one passes a place within its quantile that lies beyond the
interval of another parameter, that one is followed again from there."""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from .._least_squares.batches import refine
from .._least_squares.setup import FitSetup
from .._loss.path_costs import Points

# An end is found when r is as near to the quantile as this.
_NEAR = 0.02
_ROUNDS = 25
_LIMIT = 60
# A profile is open if the parameter can be moved by so many times its size, and its
# standard error.
_FAR = 1e4
# How often ends are sought again from where other profiles came.
_AGAIN = 3
# A profile that closes can still be a plateau: far beyond its end the data no longer
# depend on the value (moving it from the end on by this much, in units of the noise).
# Then it needs this r to count as closed: noise alone lifts every plateau above the
# quantile in one fit of twenty.
_SURE, _SILENT = 4.0, 0.25


class Optimum(NamedTuple):
    """A minimum, and how it is measured: `loss` is the S that counts as the lowest,
    `unit` the variance of a residual, `covariance` that of the free values."""

    theta: np.ndarray
    n: int
    loss: float
    unit: float
    covariance: np.ndarray

    def r(self, loss):
        return np.sqrt(np.maximum(loss - self.loss, 0.0) / self.unit)


@final
@dataclass(frozen=True)
class Profile:
    """One parameter's profile: `values` and r there, sorted. An end of `interval` is
    infinite where the profile stays open; `reached` is how far it was followed, and
    `theta` all free values along it."""

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
        low, high = self.interval
        return bool(np.isfinite(low)), bool(np.isfinite(high))


@final
class _IntervalEnd:
    """The search for one end of one profile, on the `side` below (-1) or above (+1),
    from a place `theta` whose r is below the quantile."""

    def __init__(
        self,
        setup: FitSetup,
        optimum: Optimum,
        theta,
        r: float,
        j: int,
        side: int,
        quantile,
    ):
        self.optimum, self.j, self.side, self.quantile = optimum, j, side, quantile
        self.bound = float((setup.lower if side < 0 else setup.upper)[j])
        self.path: list[tuple[float, np.ndarray]] = [(r, theta)]  # within the quantile
        self.seen: list[tuple[float, float, np.ndarray]] = []
        self.outside, self.r_outside = np.nan, np.nan
        variance = optimum.covariance[j, j]
        size = max(abs(self.inside), 1e-6)
        self.far = _FAR * max(size, np.sqrt(variance) if variance < 1e300 else size)
        usual = quantile * np.sqrt(variance)
        usual = usual if 0 < usual < self.far else 0.1 * size
        self.step = max(usual, 0.3 * abs(self.inside - optimum.theta[j]))
        self.end = np.nan
        self.done = self.is_open = self.inside == self.bound

    @property
    def inside(self) -> float:
        """The farthest value with r below the quantile."""
        return float(self.path[-1][1][self.j])

    @property
    def limit(self) -> float:
        """Where the interval ends."""
        if self.is_open:
            return self.side * np.inf
        return self.inside if np.isnan(self.end) else self.end

    def propose(self) -> list[np.ndarray]:
        """Where to start the next fit: this value moved, the others as they were, and
        as they moved last."""
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
        return self.starts(value)

    def starts(self, value: float) -> list[np.ndarray]:
        here = self.path[-1][1]
        C = self.optimum.covariance[:, self.j]
        direction = np.zeros_like(here)
        if len(self.path) > 1:
            last = self.path[-2][1]
            direction = (here - last) / (here[self.j] - last[self.j])
        elif 0 < C[self.j] < np.inf:
            direction = C / C[self.j]
        alone, along = here.copy(), here + (value - here[self.j]) * direction
        alone[self.j] = along[self.j] = value
        return [alone, along]

    def learn(self, r: float, theta: np.ndarray) -> None:
        """Take the fit at the proposed value into account."""
        self.seen.append((self.value, r, theta))
        if abs(r - self.quantile) < _NEAR:
            here = float(self.optimum.theta[self.j])
            self.end = here + (self.value - here) * self.quantile / r
            self.done = True
        elif r < self.quantile:
            moved = abs(self.value - self.optimum.theta[self.j])
            self.is_open = self.value == self.bound or moved > self.far
            self.done = self.is_open
            # Twice the last stride, or what a straight line asks for.
            stride = abs(self.value - self.inside)
            wanted = moved * (self.quantile / max(r, 0.1) - 1)
            self.step = min(max(1.05 * wanted, 0.3 * stride), 3 * stride)
            self.path.append((r, theta))
        else:
            self.outside, self.r_outside = self.value, min(r, 10 * self.quantile)
        gap = abs(self.outside - self.inside)
        if not self.done and gap < 1e-3 * abs(self.inside - self.optimum.theta[self.j]):
            self.end, self.done = self.inside, True


@final
@dataclass(frozen=True)
class _Search:
    """The search for all ends."""

    setup: FitSetup
    points: Points
    optimum: Optimum
    quantile: float

    def end(
        self, theta: np.ndarray, r: float, j: int, side: int, quantile: float
    ) -> _IntervalEnd:
        return _IntervalEnd(self.setup, self.optimum, theta, r, j, side, quantile)

    def held(self, js: list[int], starts: list[list[np.ndarray]]):
        """The better of two fits with value j held, for each: r, theta, and how much
        the data feel a change of the value, in units of the noise."""
        theta = np.concatenate(starts)
        theta = np.clip(theta, self.setup.lower, self.setup.upper)
        held = np.arange(theta.shape[1]) == np.repeat(js, 2)[:, None]
        n = np.full(len(theta), self.optimum.n)
        found = refine(self.setup, theta, self.points, n, _LIMIT, held)
        better = np.argmin(found.loss.reshape(-1, 2), axis=1)
        rows = 2 * np.arange(len(js)) + better
        felt = np.sqrt(
            found.gram[rows, np.add(js, 1), np.add(js, 1)] / self.optimum.unit
        )
        return zip(self.optimum.r(found.loss[rows]).tolist(), found.theta[rows], felt)

    def run(self, ends: list[_IntervalEnd]) -> None:
        for _ in range(_ROUNDS):
            active = [end for end in ends if not end.done]
            if not active:
                return
            found = self.held([e.j for e in active], [e.propose() for e in active])
            for end, (r, theta, _) in zip(active, found):
                end.learn(r, theta)

    def beyond(self, ends: list[_IntervalEnd]) -> list[_IntervalEnd]:
        """Ends to be sought again, from places beyond all those found so far."""
        places = [(*place, end.quantile) for end in ends for place in end.path]
        more = []
        for (j, side), end in _farthest(ends).items():
            r, theta, quantile = max(places, key=lambda place: side * place[1][j])
            room = 0.02 * abs(end.limit - self.optimum.theta[j])
            if np.isfinite(end.limit) and side * (theta[j] - end.limit) > room:
                more.append(self.end(theta, r, j, side, quantile))
        return more

    def open_plateaus(self, ends: list[_IntervalEnd]) -> None:
        """Open the ends beyond which the data do not depend on the value, unless they
        are sure that it is not there."""
        asked = [(end, far) for end in ends if (far := _far(end)) is not None]
        if not asked:
            return
        starts = [end.starts(far) for end, far in asked]
        found = self.held([end.j for end, _ in asked], starts)
        for (end, far), (r, _, felt) in zip(asked, found):
            silent = felt * abs(far - end.limit) < _SILENT
            end.is_open = r < self.quantile or (silent and r < _SURE)


def _far(end: _IntervalEnd) -> float | None:
    """A value well beyond an end: the bound, or far away. None: there is none."""
    half_width = abs(end.limit - end.optimum.theta[end.j])
    if end.is_open:
        return None
    far = (
        end.bound if np.isfinite(end.bound) else end.limit + 50 * end.side * half_width
    )
    return far if abs(far - end.limit) > half_width else None


def _farthest(ends: list[_IntervalEnd]) -> dict[tuple[int, int], _IntervalEnd]:
    """Of each profile and side the end that is farthest out."""
    found: dict[tuple[int, int], _IntervalEnd] = {}
    for end in ends:
        key = end.j, end.side
        if key not in found or end.side * (end.limit - found[key].limit) > 0:
            found[key] = end
    return found


def profiles(
    setup: FitSetup,
    points: Points,
    optimum: Optimum,
    quantile: float,
    which: list[int],
    places: list[tuple[float, np.ndarray]],
    theirs: float,
) -> list[Profile]:
    """The profiles of the free values `which`, from the optimum and from other `places`
    (r, theta) that tie with it; `theirs` is the quantile of these."""
    search = _Search(setup, points, optimum, quantile)
    ends = [
        search.end(theta, r, j, side, q)
        for r, theta, q in [
            (0.0, optimum.theta, quantile),
            *((*p, theirs) for p in places),
        ]
        for j in which
        for side in (-1, 1)
    ]
    search.run(ends)
    for _ in range(_AGAIN):
        more = search.beyond(ends)
        search.run(more)
        ends = [*ends, *more]
    farthest = _farthest(ends)
    search.open_plateaus(list(farthest.values()))
    names = setup.model.free.names
    return [
        _profile(
            names[j],
            optimum,
            quantile,
            (farthest[j, -1], farthest[j, 1]),
            [end for end in ends if end.j == j],
        )
        for j in which
    ]


def open_profile(name: str, optimum: Optimum, j: int, quantile: float) -> Profile:
    """The profile of a value that can be anything."""
    here = float(optimum.theta[j])
    ends = (-np.inf, np.inf)
    return Profile(
        name,
        here,
        quantile,
        ends,
        ends,
        optimum.theta[[j]],
        np.zeros(1),
        optimum.theta[None],
    )


def _profile(
    name: str,
    optimum: Optimum,
    quantile: float,
    limits: tuple[_IntervalEnd, _IntervalEnd],
    ends: list[_IntervalEnd],
) -> Profile:
    low, high = limits
    j = low.j
    seen = [(float(optimum.theta[j]), 0.0, optimum.theta)]
    seen += [
        (value, r, theta)
        for end in ends
        for value, r, theta in end.seen
        # What is outside must not lie within: a fit that went astray.
        if r < quantile or not low.limit < value < high.limit
    ]
    values, r, theta = (np.array(column) for column in zip(*seen))
    order = np.argsort(values, kind="stable")
    order = order[_lowest(values[order], r[order])]
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


def _lowest(values: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Which points are on the profile: others were found on a higher branch, with a
    lower one beside them."""
    near = np.abs(values[:, None] - values) <= 0.03 * np.ptp(values)
    return ~np.any(near & (r[None, :] < r[:, None] - 0.3), axis=1)
