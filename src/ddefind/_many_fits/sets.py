"""Many data sets of one model, as arrays: what all their searches share.

This is `FitSetup` for many data sets. What does not depend on the data is that of
one of them, the `template`; the rest has a first axis over the sets."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, final

import numpy as np

from .._data.stack import DataStack
from .._kernels.places import Place
from .._least_squares.setup import (
    CAPACITY,
    COARSE_STEPS,
    MOST_STEPS_PER_RECORD,
    STEPS_PER_RECORD,
    USUAL_SHARE,
    FitSetup,
)
from .._solve.hermite import hermite
from .curves import INTERVALS, Curves


@final
@dataclass(frozen=True)
class DataSets:
    """Many data sets, [sets, ...]: times `t` [sets, N], where the last one is repeated
    to fill up a shorter set, and values `x` [sets, N, k] with their standard deviations
    `sd`, if there are any. Values that were not `measured` are zero."""

    t: np.ndarray
    x: np.ndarray
    measured: np.ndarray
    sd: np.ndarray | None

    @classmethod
    def of(cls, stack: DataStack) -> "DataSets":
        exists = np.arange(stack.t.shape[1]) < stack.lengths[:, None]
        measured = np.isfinite(stack.x) & exists[..., None]
        x, sd = np.where(measured, stack.x, 0.0), stack.sd
        return cls(
            np.array(stack.t),
            x,
            measured,
            None if sd is None else np.where(measured, sd, 1.0),
        )

    def take(self, chosen: Any) -> "DataSets":
        sd = None if self.sd is None else self.sd[chosen]
        return DataSets(self.t[chosen], self.x[chosen], self.measured[chosen], sd)


@final
@dataclass(frozen=True)
class Sets:
    """Data sets with what a search needs of each.

    `lower`, `upper` and `guess` [sets, p] are the bounds and the user's start values,
    and `tried` [sets, 2] the range from which starts of each delay are drawn, [sets,
    delays, 2]. `exponents` [p, scales] and `shifts` [p, k] are those of the natural
    units. `delay_values` says of each delay which free value it is (an int), or what it
    is (a float). `number` is that of each set in the whole batch, `seed` that of its
    random numbers, and `setup_of(number)` its own setup. `place` says where fits are
    made."""

    template: FitSetup
    data: DataSets
    curves: Curves
    spread: np.ndarray
    noise: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    guess: np.ndarray
    tried: np.ndarray
    exponents: np.ndarray
    shifts: np.ndarray
    seed: np.ndarray
    number: np.ndarray
    delay_values: tuple[int | float, ...]
    setup_of: Callable[[int], FitSetup]
    place: Place

    def __len__(self) -> int:
        return len(self.seed)

    def take(self, chosen: Any) -> "Sets":
        """Some of the data sets."""
        curves = Curves(*(array[chosen] for array in vars(self.curves).values()))
        shared = ("template", "data", "curves", "exponents", "shifts")
        shared += ("delay_values", "setup_of", "place")
        own = {
            field.name: getattr(self, field.name)[chosen]
            for field in fields(self)
            if field.name not in shared
        }
        return replace(self, data=self.data.take(chosen), curves=curves, **own)

    @property
    def p(self) -> int:
        return self.lower.shape[1]

    @property
    def T(self) -> np.ndarray:
        """The last time of each set."""
        return self.data.t[:, -1]

    @property
    def has_curves(self) -> bool:
        """Whether there are smooth curves through all states of every set."""
        return not self.template.model.observes and bool(self.curves.exists.all())

    def setup(self, s: int) -> FitSetup:
        """The setup of set `s` alone."""
        return self.setup_of(int(self.number[s]))

    def curve_at(self, t: np.ndarray, of: np.ndarray | None = None) -> np.ndarray:
        """The curves at the times `t` [sets, times], [sets, times, k]; or those of the
        sets `of`."""
        of = np.arange(len(self)) if of is None else of
        curves, h = self.curves, (self.T / INTERVALS)[of][:, None]
        place = np.clip((t / h).astype(int), 0, INTERVALS - 1)
        u, rows = (t / h - place)[..., None], of[:, None]
        left, right = (
            (curves.x[rows, place + end], curves.slope[rows, place + end])
            for end in (0, 1)
        )
        x = hermite(u, left, right, h[..., None])
        return np.clip(x, curves.lowest[of][:, None], curves.highest[of][:, None])

    # The delays and the solver's steps: see `FitSetup`.

    def delays(self, theta: np.ndarray) -> np.ndarray:
        """The delays [..., delays] at free values [..., p]."""
        columns = [
            theta[..., known] if isinstance(known, int) else np.full(shape, known)
            for shape in [theta.shape[:-1]]
            for known in self.delay_values
        ]
        return np.stack(columns, axis=-1)

    def delay(self, theta: np.ndarray) -> np.ndarray:
        """The longest delay."""
        return self.delays(theta).max(axis=-1)

    def steps(self, theta: np.ndarray, T: np.ndarray) -> np.ndarray:
        """The steps per delay of a fit to a record of the length T."""
        least = self.template.steps_per_delay
        if self.template.model.mesh is not None:
            return self._in_record(theta, T, least / 2, MOST_STEPS_PER_RECORD)
        share = self.delay(theta) / T
        least = np.ceil(np.minimum(1.0, share / USUAL_SHARE) * least)
        by_record = np.ceil(STEPS_PER_RECORD * share)
        most = max(self.template.steps_per_delay, CAPACITY // 2 - 3)
        return np.clip(by_record, least, most).astype(int)

    def coarse_steps(self, theta: np.ndarray, T: np.ndarray) -> np.ndarray:
        """The same for short preliminary fits."""
        if self.template.model.mesh is not None:
            most = MOST_STEPS_PER_RECORD // 2
            return self._in_record(theta, T, COARSE_STEPS, most)
        steps = np.ceil(STEPS_PER_RECORD * self.delay(theta) / T)
        return np.clip(steps, 1, COARSE_STEPS).astype(int)

    def rate(self, T: np.ndarray) -> np.ndarray:
        """The least number of steps per unit of time, where a fit keeps to it."""
        is_aligned = self.template.model.mesh is None
        return is_aligned * STEPS_PER_RECORD / T

    def _in_record(self, theta, T, in_delay: float, most: int) -> np.ndarray:
        steps = in_delay * T / np.maximum(self.delay(theta), 1e-300)
        return np.ceil(np.clip(steps, STEPS_PER_RECORD, most)).astype(int)

    # The noise.

    @property
    def count(self) -> np.ndarray:
        """The number of measured values of each quantity, [sets, k]."""
        return self.data.measured.sum(axis=1)

    @property
    def freedom(self) -> np.ndarray:
        """The degrees of freedom of each fit."""
        return np.maximum(self.count.sum(axis=1) - self.p, 1)

    def weights(self, noise: np.ndarray) -> np.ndarray:
        """The weights of the values, [sets, N, k]: those of the data or, without, those
        of the `noise` of each quantity [sets, k]."""
        sd = self.data.sd
        sd = noise[:, None] if sd is None else sd
        return np.where(self.data.measured, sd, np.inf) ** -2.0

    def residual_variance(self, loss: np.ndarray) -> np.ndarray:
        """The unit of chi-square of each set, given its lowest loss."""
        if self.template.weights_are_absolute:
            return np.ones(len(self))
        unit = np.maximum(loss / self.freedom, 1e-300)
        return np.where(np.isfinite(loss), unit, 1.0)

    def noise_from_residuals(self, squares: np.ndarray) -> np.ndarray:
        """The noise of each quantity [sets, k] from the sums of `squares`."""
        total = self.count.sum(axis=1, keepdims=True)
        freedom = self.count * self.freedom[:, None] / total
        mean_square = squares / np.where(self.count > 0, freedom, 1.0)
        noise = np.sqrt(np.where(self.count > 0, mean_square, 1.0))
        return np.maximum(noise, 1e-9 * self.spread)
