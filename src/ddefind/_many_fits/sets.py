"""Many data sets of one model, as arrays: `FitSetup` for many data sets.

Everything that does not depend on the data is in the setup of one data set, the
`template`; all else has a first axis over the sets. Curves, sizes and noise follow from
the data without a model; all sets that were measured at the same times are smoothed
together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import equinox as eqx
import numpy as np

from .._data.data import Data, DataStack
from .._data.smoothing import bins, scatter, smoothed_columns
from .._engine.aligned.path import hermite
from .._engine.engine import STEPS_PER_RECORD
from .._problem.general_delays import is_general
from .._problem.parameters import parameter_vector
from .._problem.problem import Problem
from .._programs.program import Runner
from .._search.bounds import delays_to_try
from .._search.setup import FitSetup
from .._search.symmetries import unit_exponents

# The number of intervals in the table of a curve, and of times for its sizes.
INTERVALS, _TIMES = 158, 400


@final
@dataclass(frozen=True)
class Curves:
    """A smooth curve through each data set, [sets, ...], k quantities.

    `x` and `slope` [sets, INTERVALS + 1, k] are a table at equally spaced times from
    zero to the end; `lowest` and `highest` are the range of the data. `logs` are
    natural scales (see `_search/symmetries.py`): logarithms of the largest value of
    each quantity, mean values, and the logarithm of the time in which they change.
    `exists` says for which sets there are enough points."""

    x: np.ndarray
    slope: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    logs: np.ndarray
    exists: np.ndarray


def equal_times(t: np.ndarray, measured: np.ndarray) -> list[np.ndarray]:
    """Return groups of set numbers that were measured at the same times."""
    groups: dict[bytes, list[int]] = {}
    for s, key in enumerate(zip(t, measured)):
        groups.setdefault(b"".join(a.tobytes() for a in key), []).append(s)
    return [np.array(group) for group in groups.values()]


def curves(t: np.ndarray, x: np.ndarray, measured: np.ndarray) -> Curves:
    """Return the curves through data at the times `t` [sets, N] with the values `x`
    [sets, N, k], where they were `measured`. The last time is the end of a record."""
    count, _, k = x.shape
    made = Curves(
        np.zeros((count, INTERVALS + 1, k)),
        np.zeros((count, INTERVALS + 1, k)),
        np.min(np.where(measured, x, np.inf), axis=1),
        np.max(np.where(measured, x, -np.inf), axis=1),
        np.zeros((count, 2 * k + 1)),
        np.zeros(count, bool),
    )
    for group in equal_times(t, measured):
        _smooth(made, group, t[group[0]], x[group], measured[group[0]])
    return made


def _smooth(made: Curves, group, t, x, measured) -> None:
    """Compute the curves of a `group` of sets, all measured at the times `t`."""
    if min(len(np.unique(t[column])) for column in measured.T) < 5:
        return
    T, k = t[-1], x.shape[2]
    nodes, times = np.linspace(0, T, INTERVALS + 1), np.linspace(0, T, _TIMES)
    rates = np.full(len(group), 1 / T)
    for q in range(k):
        here = measured[:, q]
        spline = smoothed_columns(*bins(t[here], x[:, here, q].T))
        low, high = made.lowest[group, q, None], made.highest[group, q, None]
        made.x[group, :, q] = np.clip(_rows(spline(nodes)), low, high)
        made.slope[group, :, q] = _rows(spline.slope(nodes))
        value = np.clip(_rows(spline(times)), low, high)
        slope = _rows(spline.slope(times))
        largest = np.max(np.abs(value), axis=1)
        made.logs[group, q] = np.log(np.maximum(largest, 1e-300))
        made.logs[group, k + q] = np.mean(value, axis=1)
        spread = np.std(value, axis=1)
        speed = np.sqrt(np.mean(slope**2, axis=1))
        rates = np.maximum(rates, speed / np.where(spread > 0, spread, np.inf))
    made.logs[group, 2 * k] = -np.log(rates)
    made.exists[group] = True


def _rows(columns: np.ndarray) -> np.ndarray:
    """Return columns as rows that are contiguous in memory, so that sums over a row do
    not depend on other rows."""
    return np.ascontiguousarray(columns.T)


def spreads(x: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each quantity [sets, k], or its size, as
    `spread` does."""
    found = np.ones((len(x), x.shape[2]))
    for q in range(x.shape[2]):
        here = np.ascontiguousarray(measured[..., q])
        value = np.where(here, x[..., q], 0.0)
        count = np.maximum(here.sum(axis=1), 1)
        mean = value.sum(axis=1) / count
        away = np.where(here, value - mean[:, None], 0.0)
        deviation = np.sqrt((away**2).sum(axis=1) / count)
        low = np.min(np.where(here, value, np.inf), axis=1)
        high = np.max(np.where(here, value, -np.inf), axis=1)
        size = np.max(np.abs(value), axis=1)
        found[:, q] = np.where(high > low, deviation, size)
    return np.where(found > 0, found, 1.0)


def rough_noises(
    t: np.ndarray, x: np.ndarray, measured: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    """Return the noise of each quantity [sets, k], from the distances of points to
    their neighbours, as `rough_noise` does."""
    noise = np.zeros_like(spread)
    for group in equal_times(t, measured):
        for q in range(x.shape[2]):
            here = measured[group[0], :, q]
            rows = np.ascontiguousarray(x[group][:, here, q])
            away = scatter(t[group[0], here], rows)
            if away.shape[-1]:
                noise[group, q] = np.sqrt(np.mean(away**2, axis=-1))
    return np.maximum(noise, 1e-6 * spread)


@final
@dataclass(frozen=True)
class DataSets:
    """Many data sets: times `t` [sets, N], where a shorter set repeats the last one,
    and values `x` [sets, N, k] with their standard deviations `sd`, if there are any.
    Values that were not `measured` are zero."""

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
    """Data sets with all that a search needs.

    `lower`, `upper` and `guess` [sets, p] are the bounds and the user's start values;
    `tried` [sets, delays, 2] are the ranges from which delays are drawn. `exponents`
    [p, scales] and `shifts` [p, k] belong to the natural units. `delay_values` has for
    each delay the number of its free value (an int), or its value (a float). `number`
    counts the sets in the whole batch, `seed` is for random numbers, `setup_of(number)`
    returns the setup of one set, and `place` says where fits run."""

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
    place: Runner

    def __len__(self) -> int:
        return len(self.seed)

    def take(self, chosen: Any) -> "Sets":
        """Return some of the data sets."""
        curves = Curves(*(array[chosen] for array in vars(self.curves).values()))
        names = "spread noise lower upper guess tried seed number".split()
        arrays: dict[str, Any] = {n: getattr(self, n)[chosen] for n in names}
        return replace(self, data=self.data.take(chosen), curves=curves, **arrays)

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
        """Return the setup of set `s` alone."""
        return self.setup_of(int(self.number[s]))

    def curve_at(self, t: np.ndarray) -> np.ndarray:
        """Return the curves at the times `t` [sets, times], [sets, times, k]."""
        curves, h = self.curves, (self.T / INTERVALS)[:, None]
        place = np.clip((t / h).astype(int), 0, INTERVALS - 1)
        u, rows = (t / h - place)[..., None], np.arange(len(self))[:, None]
        left, right = (
            (curves.x[rows, place + end], curves.slope[rows, place + end])
            for end in (0, 1)
        )
        x = hermite(u, left, right, h[..., None])
        return np.clip(x, curves.lowest[:, None], curves.highest[:, None])

    # The delays and the solver's steps: see `FitSetup`.

    def delays(self, theta: np.ndarray) -> np.ndarray:
        """Return the delays [..., delays] at free values [..., p]."""
        shape = theta.shape[:-1]
        columns = [
            theta[..., value] if isinstance(value, int) else np.full(shape, value)
            for value in self.delay_values
        ]
        return np.stack(columns, axis=-1)

    def delay(self, theta: np.ndarray) -> np.ndarray:
        """Return the longest delay."""
        return self.delays(theta).max(axis=-1)

    def steps(self, theta: np.ndarray, T: np.ndarray) -> np.ndarray:
        """Return the numbers of steps of fits to records of the length T."""
        template = self.template
        given = self.delay, theta, T, template.steps_per_delay
        return template.model.engine.usual_steps(*given)

    def coarse_steps(self, theta: np.ndarray, T: np.ndarray) -> np.ndarray:
        """Return those of coarse fits."""
        return self.template.model.engine.coarse_steps(self.delay, theta, T)

    def rate(self, T: np.ndarray) -> np.ndarray:
        """Return the least number of steps per unit of time."""
        return STEPS_PER_RECORD / T

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
        """Return the weights of the values, [sets, N, k], from the standard deviations
        of the data or, without, the `noise` of each quantity [sets, k]."""
        sd = self.data.sd
        sd = noise[:, None] if sd is None else sd
        return np.where(self.data.measured, sd, np.inf) ** -2.0

    def residual_variance(self, loss: np.ndarray) -> np.ndarray:
        """Return the unit of chi-square of each set, given its lowest loss."""
        return self.template.residual_variance(loss, self.freedom)

    def noise_from_residuals(self, squares: np.ndarray) -> np.ndarray:
        """Return the noise of each quantity [sets, k] from the sums of `squares`."""
        total = self.count.sum(axis=1, keepdims=True)
        freedom = self.count * self.freedom[:, None] / total
        mean_square = squares / np.where(self.count > 0, freedom, 1.0)
        noise = np.sqrt(np.where(self.count > 0, mean_square, 1.0))
        return np.maximum(noise, 1e-9 * self.spread)


def can_search(setup: FitSetup) -> bool:
    """Whether fits of this model can be searched for together: to a single data set,
    with delays that are numbers, fixed steps and plain least squares."""
    model = setup.model
    is_plain = len(setup.parts) == 1 and setup.misfit.is_plain
    if not is_plain or not model.engine.in_arrays or setup.has_networks:
        return False
    problem = model.free.problem_at(np.ones(len(setup.lower)), _problem(setup))
    return not is_general(problem.tau)


def has_enough_data(setup: FitSetup, starts: int) -> bool:
    """Whether the data set has curves through all states, or there is a complete start,
    from which alone a fit begins."""
    if setup.has_few_values.any():
        return False
    is_complete = starts == 1 and bool(np.isfinite(setup.guess).all())
    return is_complete or (setup.has_curves and bool(setup.measured.all()))


def _problem(setup: FitSetup) -> Problem:
    return eqx.combine(setup.model.learned, setup.model.fixed)


def _tried(setup: FitSetup, j: int) -> tuple[float, float]:
    """Return the range from which delay j is drawn."""
    assert isinstance(setup.data, Data)
    return delays_to_try(setup.data, float(setup.lower[j]), float(setup.upper[j]))


def make_sets(
    data: DataSets,
    setups: Sequence[FitSetup],
    kind: np.ndarray,
    seed: np.ndarray,
    setup_of: Callable[[int], FitSetup],
    place: Runner,
) -> Sets:
    """Make the sets of a batch. Set s has the bounds and start values of
    `setups[kind[s]]`."""
    template = setups[0]
    free, values = template.model.free, parameter_vector(_problem(template))
    delays = [array for array in free.arrays if array.is_delay]
    sources = [free.source[array.first] for array in delays]
    known = tuple(
        source if source >= 0 else float(values[array.first])
        for array, source in zip(delays, sources)
    )
    tried = np.array([[_tried(s, j) for j in free.delays] for s in setups]).reshape(
        len(setups), len(free.delays), 2
    )
    spread = spreads(data.x, data.measured)
    if data.sd is None:
        noise = rough_noises(data.t, data.x, data.measured, spread)
    else:
        squares = np.where(data.measured, data.sd, 0.0) ** 2
        noise = np.sqrt(squares.sum(axis=1) / np.maximum(data.measured.sum(axis=1), 1))
    lines = curves(data.t, data.x, data.measured)
    k = data.x.shape[2]
    exponents, shifts = np.zeros((len(template.lower), 2 * k + 1)), np.zeros((1, k))
    if template.units is not None:
        model = template.model
        typical = np.ones(model.dimension)
        if not model.observes:
            typical = np.exp(lines.logs[0, :k])
        found = unit_exponents(model, template.measured, typical)
        # They are ratios of small numbers. Rounding removes the errors of differences
        # at points that depend on the data of the first set.
        exponents, shifts = (np.round(each, 4) + 0.0 for each in found)
    return Sets(
        template,
        data,
        lines,
        spread,
        noise,
        np.stack([s.lower for s in setups])[kind],
        np.stack([s.upper for s in setups])[kind],
        np.stack([s.guess for s in setups])[kind],
        tried[kind],
        exponents,
        shifts,
        seed,
        np.arange(len(kind)),
        known,
        setup_of,
        place,
    )
