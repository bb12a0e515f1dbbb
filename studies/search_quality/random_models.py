"""Random models with data, as `case(number)`: 1 to 3 states, a third of the larger ones
with one that was not measured, in any units, with one-sided bounds or with none.

Half of the cases are of the families in `families.py`, the others random sums of terms.
Trajectories that diverge, rest or only decay are drawn again. The data come from
`integrate.py`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

import ddefind as dd

from .families import FAMILIES, Values, random_sum
from .integrate import history_names, integrate, read_model

_SEED = 20150
# The share of systems of several states in which one is not measured.
_HIDDEN = 0.6
# Where records begin that do not begin at zero.
_LATE = 1000.0


@final
@dataclass(frozen=True)
class Case:
    """A model with its true values, and a record of it.

    `values` has a column for each quantity that `dd.equation(text, observe=observe)`
    observes, NaN where it was not `measured`; `noise` are the standard deviations of
    these columns, `truth` the parameters by name. `times` begin at `start`, where the
    constant history ends. `gives_sd` says whether a fit is told the noise. `bounds` are
    one-sided ones for the positive parameters, or None."""

    number: int
    family: str
    text: str
    observe: str | None
    truth: Mapping[str, float]
    times: np.ndarray
    start: float
    exact: np.ndarray
    values: np.ndarray
    measured: tuple[bool, ...]
    noise: np.ndarray
    gives_sd: bool
    bounds: Mapping[str, dd.Parameter] | None

    @property
    def model(self) -> dd.Equation:
        return dd.equation(self.text, observe=self.observe)

    @property
    def data(self) -> dd.Data:
        """The record as it was measured, from `start` on."""
        return self._data(self.times)

    @property
    def data_from_zero(self) -> dd.Data:
        """The same record with times that begin at 0, where the history ends."""
        return self._data(self.times - self.start)

    def _data(self, times: np.ndarray) -> dd.Data:
        sd = self.noise if self.gives_sd else None
        return dd.Data(times, self.values, sd=sd, names=self.model.observed)


def case(number: int) -> Case:
    """The case of this number, which is always the same."""
    kind = list(FAMILIES)[number // 2 % len(FAMILIES)] if number % 2 == 0 else "sum"
    random = np.random.default_rng([_SEED, number])
    while True:
        drawn = _draw(number, kind, random)
        if drawn is not None:
            return drawn


def _draw(number: int, kind: str, random: np.random.Generator) -> Case | None:
    """A random case, or None if its trajectory is of no use."""
    observe = None
    if kind == "sum":
        text, values = random_sum(random)
        T = values["tau"] * np.exp(random.uniform(*np.log([5.0, 25.0])))
    else:
        family = FAMILIES[kind]
        text, values = family.text, _family_values(kind, random)
        T = np.exp(random.uniform(*np.log(family.T)))
        observe = family.observe if random.random() < 0.5 else None
    count = int(np.exp(random.uniform(*np.log([20, 200]))))
    times = np.linspace(0.0, T, count)
    if random.random() < 0.3:
        times[1:-1] += 0.3 * T / count * random.uniform(-1, 1, count - 2)
    delays = [value for name, value in values.items() if name.startswith("tau")]
    if min(delays) < 0.3 * T / count or max(delays) > T / 3:
        return None
    if not _is_useful(text, values, times):
        return None
    # Records last from 5 to 2000 units of time.
    unit = np.exp(random.uniform(*np.log([5.0, 2000.0]))) / T
    values, times = _in_units(kind, text, values, unit, random), times * unit
    exact = integrate(text, values, times, finer=2)
    assert exact is not None
    if observe is not None:
        exact = np.log(exact)
    measured = [True] * exact.shape[1]
    if exact.shape[1] > 1 and random.random() < _HIDDEN:
        measured[int(random.integers(exact.shape[1]))] = False
    share = np.exp(random.uniform(*np.log([0.02, 0.1])))
    noise = share * np.std(exact, axis=0)
    seen = exact + noise * random.standard_normal(exact.shape)
    keys = history_names(read_model(text))
    positive = {
        name: dd.Parameter(lower=0)
        for name, value in values.items()
        if value > 0 and name not in keys and not name.startswith("tau")
    }
    start = _LATE if random.random() < 0.1 else 0.0
    return Case(
        number,
        kind,
        text,
        observe,
        values,
        times + start,
        start,
        exact,
        np.where(measured, seen, np.nan),
        tuple(measured),
        noise,
        number % 3 == 0,
        positive if number % 4 < 2 else None,
    )


def _family_values(kind: str, random: np.random.Generator) -> Values:
    """Random values of a family, in natural units."""
    family = FAMILIES[kind]
    keys = history_names(read_model(family.text))
    ranges = {**family.ranges, **dict(zip(keys, family.history))}
    drawn = {
        name: float(np.exp(random.uniform(*np.log(limits))))
        for name, limits in ranges.items()
    }
    return family.finish(drawn, random)


def _in_units(
    kind: str, text: str, values: Values, time: float, random: np.random.Generator
) -> Values:
    """The same values with another unit of time and, for a family, random units of the
    states."""
    program = read_model(text)
    keys = history_names(program)
    units = {"t": time, "1": 1.0} | dict.fromkeys(program.states, 1.0)
    if kind == "sum":
        # Every term has one factor, which is a rate.
        of = {name: "1/t" for name in values if name not in keys} | {"tau": "t"}
    else:
        of = dict(FAMILIES[kind].units)
        units |= {x: 10 ** random.uniform(-2, 4) for x in FAMILIES[kind].scaled}
        units |= {x: units[y] for x, y in FAMILIES[kind].same_units.items()}
    scaled = dict(values)
    for name, unit in (of | dict(zip(keys, program.states))).items():
        above, *below = unit.split("/")
        scaled[name] *= units[above] / math.prod(units[part] for part in below)
    return {name: float(value) for name, value in scaled.items()}


def _is_useful(text: str, values: Values, times: np.ndarray) -> bool:
    """Whether a trajectory stays bounded, moves on until its end, is resolved by the
    times of the record, and does not depend on its beginning as chaotic ones do."""
    fine = np.linspace(0.0, times[-1], 1500)
    x = integrate(text, values, fine)
    if x is None:
        return False
    spread, size = np.std(x, axis=0), np.mean(np.abs(x), axis=0)
    early, late = (np.std(half, axis=0) for half in np.split(x, 2))
    rests = np.any(spread < 0.05 * size) or np.any(late < 0.15 * spread)
    if rests or np.any(late > 10 * early):
        return False
    turns = np.sum(np.diff(np.sign(np.diff(x, axis=0)), axis=0) != 0, axis=0)
    if np.max(turns) < 2 or np.max(turns) > len(times) / 3:
        return False
    first = history_names(read_model(text))[0]
    near = integrate(text, values | {first: values[first] * (1 + 1e-6)}, fine)
    finer = integrate(text, values, fine, finer=2)
    if near is None or finer is None:
        return False
    return bool(
        np.all(np.abs(near - x) < 1e-3 * spread)
        and np.all(np.abs(finer - x) < 1e-4 * spread)
    )
