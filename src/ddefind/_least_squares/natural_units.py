"""The natural size of each parameter, from the scales of the data.

A rate is about one over the time in which the data change, a carrying capacity about as
large as the data. Which it is follows from the model's symmetries: see `symmetries.py`.
The natural size of parameter j is the product of the scales of the data to the powers
that a symmetry gives. If a scale belongs to no symmetry, because a constant of the
model has a unit, its powers are unknown."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._data.smoothing import Curve
from .._problem.joint_parameters import JointParameters
from .normal_equations import LeastSquaresModel
from .symmetries import symmetries

# Natural sizes are not beyond these powers of e.
LARGEST_LOG = 200.0


class NaturalUnits(NamedTuple):
    """How the natural size of each free value follows from the scales of the data.

    `logs` [scales] are logarithms of the sizes of quantities, levels of quantities (by
    which logarithms are shifted) and the logarithm of the time in which the data
    change. `exponents` [p, scales] are NaN where they are unknown. `offsets` [p] are
    what a value is shifted by."""

    logs: np.ndarray
    exponents: np.ndarray
    offsets: np.ndarray

    def sizes(self, count: int, random: np.random.Generator) -> np.ndarray:
        """The natural sizes, [count, p]. Unknown exponents are drawn anew for each row:
        -1, 0 or 1."""
        shape = (count, *self.exponents.shape)
        drawn = random.choice([-1.0, 0.0, 1.0], shape, p=[0.25, 0.5, 0.25])
        exponents = np.where(np.isnan(self.exponents), drawn, self.exponents)
        return np.exp(np.clip(exponents @ self.logs, -LARGEST_LOG, LARGEST_LOG))


def natural_units(
    model: LeastSquaresModel, curve: Curve, T: float, measured: np.ndarray
) -> NaturalUnits:
    """The natural units of a model's free values, for the data that `curve` smooths."""
    x = curve.x(np.linspace(0, T, 400))[:, measured]
    sizes = np.log(np.maximum(np.max(np.abs(x), axis=0), 1e-300))
    levels = np.mean(x, axis=0)
    logs = np.array([*sizes, *levels, -np.log(rate_of(curve, T, measured))])
    typical = np.ones(model.dimension)
    if not model.observes:
        typical[measured] = np.exp(sizes)
    exponents, shifts = unit_exponents(model, measured, typical)
    return NaturalUnits(logs, exponents, shifts @ levels)


def unit_exponents(
    model: LeastSquaresModel, measured: np.ndarray, typical: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The exponents of the scales for each free value, and its shifts with the level of
    each quantity; `typical` are sizes of the states."""
    found = symmetries(model, np.flatnonzero(measured), typical)
    count = int(measured.sum())
    exponents, shifts = found.exponents, found.shifts[:, count : 2 * count]
    # A quantity is a logarithm if its level is a scale and its size is not.
    size, level = exponents[:, :count], exponents[:, count : 2 * count]
    size[:, np.isnan(size[0]) & ~np.isnan(level[0])] = 0.0
    level[:, np.isnan(level[0])] = 0.0
    return exponents, np.nan_to_num(shifts)


def joint_units(
    joint: JointParameters, units: Sequence[NaturalUnits | None]
) -> NaturalUnits | None:
    """The natural units of the free values of a study, given those of its experiments.
    A shared value has those of the first experiment that has it; None if there are none
    for an experiment."""
    known = [each for each in units if each is not None]
    if len(known) < len(units):
        return None
    scales = np.cumsum([0, *(len(each.logs) for each in known)])
    exponents = np.zeros((len(joint.free.names), scales[-1]))
    offsets = np.zeros(len(joint.free.names))
    for e in reversed(range(len(known))):
        place, local = joint.place[e], np.flatnonzero(joint.place[e] >= 0)
        exponents[place[local]] = 0.0
        own = slice(scales[e], scales[e + 1])
        exponents[place[local], own] = known[e].exponents[local]
        offsets[place[local]] = known[e].offsets[local]
    return NaturalUnits(
        np.concatenate([each.logs for each in known]), exponents, offsets
    )


def natural_sizes(units: NaturalUnits | None, count: int) -> np.ndarray:
    """The natural size of each of `count` free values; a scale with an unknown exponent
    is left out, and without units all are 1."""
    if units is None:
        return np.ones(count)
    logs = np.nan_to_num(units.exponents) @ units.logs
    return np.exp(np.clip(logs, -LARGEST_LOG, LARGEST_LOG))


def rate_of(curve: Curve, T: float, measured: np.ndarray) -> float:
    """How fast the data change: the largest ratio of root mean square slope to spread
    of a quantity. For a sine it is the angular frequency."""
    t = np.linspace(0, T, 400)
    x, slope = curve.x(t)[:, measured], curve.slope(t)[:, measured]
    spread = np.std(x, axis=0)
    rates = np.sqrt(np.mean(slope**2, axis=0)) / np.where(spread > 0, spread, np.inf)
    return float(max(np.max(rates), 1 / T))
