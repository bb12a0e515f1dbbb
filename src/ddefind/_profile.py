r"""Profile likelihood: how far each parameter can be moved before the fit suffers.

The profile of a parameter is $S$ minimised over all others. In units of the noise,

$$r(v) = \sqrt{(S_{\text{profile}}(v) - S_{\min}) / \sigma^2}$$

is nearly linear in v; the interval ends where r reaches the quantile. All ends of all
parameters are sought together, each round one batch of fits."""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from ._forcing import Points
from ._refine import refine
from ._setting import Setting

# An end is found when r is as near to the quantile as this.
_NEAR = 0.02
_ROUNDS = 25
_LIMIT = 60
# A profile is open if the parameter can be moved by so many times its size, and its
# standard error.
_FAR = 1e4


class Peak(NamedTuple):
    """A minimum, and how it is measured: `loss` is the S that counts as the lowest,
    `unit` the variance of a residual, `covariance` that of the free values."""

    z: np.ndarray
    n: int
    loss: float
    unit: float
    covariance: np.ndarray


@final
@dataclass(frozen=True)
class Profile:
    """One parameter's profile: `values` and r there, sorted. An end of `interval` is
    infinite where the profile stays open; `reached` is how far it was followed, and
    `z` all free values along it."""

    name: str
    estimate: float
    quantile: float
    interval: tuple[float, float]
    reached: tuple[float, float]
    values: np.ndarray
    r: np.ndarray
    z: np.ndarray

    @property
    def closed(self) -> tuple[bool, bool]:
        low, high = self.interval
        return bool(np.isfinite(low)), bool(np.isfinite(high))


@final
class _End:
    """The search for one end of one profile, on the `side` below (-1) or above (+1)."""

    def __init__(
        self, setting: Setting, peak: Peak, j: int, side: int, quantile: float
    ):
        self.j, self.side, self.quantile = j, side, quantile
        self.peak = peak
        bound = setting.lower if side < 0 else setting.upper
        self.bound = float(bound[j])
        self.inside, self.r_inside = float(peak.z[j]), 0.0
        self.outside, self.r_outside = np.nan, np.nan
        self.warm = peak.z
        self.seen: list[tuple[float, float, np.ndarray]] = []
        variance = peak.covariance[j, j]
        size = max(abs(self.inside), 1e-6)
        self.far = _FAR * max(size, np.sqrt(variance) if variance < 1e300 else size)
        usual = quantile * np.sqrt(variance)
        self.step = usual if 0 < usual < self.far else 0.1 * size
        self.end = np.nan
        self.done = self.is_open = self.inside == self.bound

    def propose(self) -> list[np.ndarray]:
        """Where to start the next fit: this value moved, the others as they were, and
        as the covariance says that they move along."""
        if np.isnan(self.outside):
            value = self.inside + self.side * self.step
            value = min(value, self.bound) if self.side > 0 else max(value, self.bound)
        else:
            share = (self.quantile - self.r_inside) / (self.r_outside - self.r_inside)
            share = min(max(share, 0.1), 0.9)
            value = self.inside + share * (self.outside - self.inside)
        self.value = value
        alone, C = self.warm.copy(), self.peak.covariance
        along = alone.copy()
        if C[self.j, self.j] > 0 and np.isfinite(C[self.j, self.j]):
            along += (value - along[self.j]) * C[:, self.j] / C[self.j, self.j]
        alone[self.j] = along[self.j] = value
        return [alone, along]

    def learn(self, z: np.ndarray, loss: float) -> None:
        """Take the fit at the proposed value into account."""
        rise = max(loss - self.peak.loss, 0.0) / self.peak.unit
        r = np.sqrt(rise) if np.isfinite(loss) else np.inf
        self.seen.append((self.value, r, z))
        if abs(r - self.quantile) < _NEAR:
            self.end, self.done = self.value, True
        elif r < self.quantile:
            moved = abs(self.value - self.peak.z[self.j])
            self.is_open = self.value == self.bound or moved > self.far
            self.done = self.is_open
            # Twice the last stride, or what a straight line asks for.
            stride = abs(self.value - self.inside)
            wanted = moved * (self.quantile / max(r, 0.1) - 1)
            self.step = min(max(1.05 * wanted, 0.3 * stride), 3 * stride)
            self.inside, self.r_inside, self.warm = self.value, r, z
        else:
            self.outside, self.r_outside = self.value, min(r, 10 * self.quantile)
        gap = abs(self.outside - self.inside)
        if not self.done and gap < 1e-3 * abs(self.inside - self.peak.z[self.j]):
            self.end, self.done = self.inside, True


def profiles(
    setting: Setting,
    points: Points,
    peak: Peak,
    quantile: float,
    which: list[int] | None = None,
) -> list[Profile]:
    """The profiles of the free values `which` (all by default)."""
    which = list(range(len(peak.z))) if which is None else which
    ends = [_End(setting, peak, j, side, quantile) for j in which for side in (-1, 1)]
    for _ in range(_ROUNDS):
        active = [end for end in ends if not end.done]
        if not active:
            break
        z = np.concatenate([end.propose() for end in active])
        z = np.clip(z, setting.lower, setting.upper)
        own = np.repeat([end.j for end in active], 2)
        held = np.arange(len(peak.z)) == own[:, None]
        found = refine(setting, z, points, np.full(len(z), peak.n), _LIMIT, held)
        better = np.argmin(found.loss.reshape(-1, 2), axis=1)
        for end, row in zip(active, 2 * np.arange(len(active)) + better):
            end.learn(found.z[row], float(found.loss[row]))
    return [
        _profile(setting.model.layout.names[j], peak, low, high)
        for j, low, high in zip(which, ends[::2], ends[1::2])
    ]


def open_profile(name: str, peak: Peak, j: int, quantile: float) -> Profile:
    """The profile of a value that can be anything."""
    here = float(peak.z[j])
    ends = (-np.inf, np.inf)
    return Profile(
        name, here, quantile, ends, ends, peak.z[[j]], np.zeros(1), peak.z[None]
    )


def _profile(name: str, peak: Peak, low: _End, high: _End) -> Profile:
    here = float(peak.z[low.j])
    seen = [(here, 0.0, peak.z), *low.seen, *high.seen]
    values, r, z = (np.array(column) for column in zip(*seen))
    order = np.argsort(values, kind="stable")
    ends = [
        side * np.inf if end.is_open else (end.inside if np.isnan(end.end) else end.end)
        for side, end in ((-1, low), (1, high))
    ]
    return Profile(
        name,
        here,
        low.quantile,
        (float(ends[0]), float(ends[1])),
        (float(values.min()), float(values.max())),
        values[order],
        r[order],
        z[order],
    )
