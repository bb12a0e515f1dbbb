r"""The symmetries of a model: which changes of units leave its equations as they are.

A rate is about one over the time in which the data change, a carrying capacity about as
large as the data. Which it is follows from the symmetries: the natural size of a
parameter is the product of the scales of the data to the powers that they give.

If the unit of a measured quantity, or of time, changes by a factor $e^\epsilon$, then
for most models some change of the states by factors $e^{\epsilon s_k}$ and of the
parameters by factors $e^{\epsilon u_j}$ leads to the same equation again. The exponents
are what a physicist calls dimensions. They solve linear equations, which hold for all
states, delayed states, parameters and times:

$$\sum_j u_j \theta_j \frac{\partial F_i}{\partial \theta_j}
  + \sum_k s_k \Bigl(x_k \frac{\partial F_i}{\partial x_k}
  + y_k \frac{\partial F_i}{\partial y_k}\Bigr)
  + e \Bigl(t \frac{\partial F_i}{\partial t}
  + \tau \frac{\partial F_i}{\partial \tau}\Bigr) = (s_i - e) F_i,$$

where e is 1 if it is the unit of time that changes, and else 0; and likewise for the
history, the delays and what is observed. A quantity that is a logarithm is shifted by a
change of units: then states are shifted by $c_k$ and parameters by $v_j$, which adds
the terms $c_k (\partial F_i / \partial x_k + \partial F_i / \partial y_k)$ and
$v_j\,\partial F_i / \partial \theta_j$. The equations are solved at random points, with
central differences. If a scale belongs to no symmetry, because a constant of the model
has a unit, its powers are unknown."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._data.smoothing import Curve
from .._problem.delays import delay_count, delay_vector, in_structure
from .._problem.free_parameters import JointParameters

if TYPE_CHECKING:
    from .normal_equations import LeastSquaresModel

# The number of random points at which the equations are solved, within this factor of
# one, the step of the differences, and the largest error of a solution.
_POINTS, _FACTOR, _STEP, _TOLERANCE = 24, 2.0, 1e-4, 1e-6


def _symmetries(
    model: "LeastSquaresModel", measured: np.ndarray, typical: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find how the parameters change with units: the exponents u and the shifts v, [p,
    units], NaN for units whose change is no symmetry.

    The units are those of the size of each of the quantities with the indices
    `measured`, then of the level of each, then of time. Half of the random states are
    of a `typical` size, the others near one."""
    p, d = len(model.free.names), model.dimension
    k, random = delay_count(model.problem.tau), np.random.default_rng(0)
    shapes = (p,), (d,), (k, d), (k,), ()
    points = _Point(
        *(_FACTOR ** random.uniform(-1, 1, (_POINTS, *shape)) for shape in shapes)
    )
    for state in points[1:3]:
        state[::2] *= typical
    equations = _Equations(model, points, measured)
    left = equations.rows(
        [
            *equations.of_parameters(scales=True),
            *equations.of_parameters(scales=False),
            *equations.of_states(scales=True),
            *equations.of_states(scales=False),
        ]
    )
    right = equations.rows(
        [
            *equations.of_quantities(scales=True),
            *equations.of_quantities(scales=False),
            equations.of_time(),
        ]
    )
    found = np.stack([_solve(left, column) for column in right.T], axis=1)
    return found[:p], found[p : 2 * p]


class _Point(NamedTuple):
    """The arguments of a model's functions at random points, or their changes."""

    theta: Any  # [points, p]
    x: Any  # [points, d]
    y: Any  # [points, k, d]
    delays: Any  # [points, k]
    t: Any  # [points]


_STILL = _Point(*np.zeros(5))


@final
@dataclass(frozen=True)
class _Equations:
    """The linear equations for a symmetry. A column has an element for each point and
    function: how much one of the unknowns changes the function beyond what the symmetry
    demands; or, on the right side, this demand.

    The functions are, in this order, the right-hand side, the history and the state at
    time zero (d each), the delays (k) and what is observed."""

    model: "LeastSquaresModel"
    points: _Point
    measured: np.ndarray

    @cached_property
    def values(self) -> np.ndarray:
        return np.asarray(_functions(self.model, self.points))

    @property
    def _first_observed(self) -> int:
        return 3 * self.model.dimension + self.points.delays.shape[1]

    def _derivative(self, change: _Point) -> np.ndarray:
        """Compute the derivatives of all functions for a change of their arguments."""
        ahead, behind = (
            np.asarray(
                _functions(
                    self.model,
                    _Point(*(a + h * c for a, c in zip(self.points, change))),
                )
            )
            for h in (_STEP, -_STEP)
        )
        with np.errstate(invalid="ignore", over="ignore"):
            return (ahead - behind) / (2 * _STEP)

    def of_parameters(self, *, scales: bool) -> list[np.ndarray]:
        """Return a column for each parameter that is scaled or shifted."""
        theta = self.points.theta
        size = theta if scales else np.ones_like(theta)
        ones = np.eye(theta.shape[1])
        return [self._derivative(_STILL._replace(theta=one * size)) for one in ones]

    def of_states(self, *, scales: bool) -> list[np.ndarray]:
        """Return a column for each state that is scaled or shifted: its slope is to be
        scaled with it, its history and its start scaled or shifted."""
        d, columns = self.model.dimension, []
        for i, one in enumerate(np.eye(d)):
            x, y = (one * (a if scales else np.ones_like(a)) for a in self.points[1:3])
            column = self._derivative(_STILL._replace(x=x, y=y))
            for place in (i, d + i, 2 * d + i)[0 if scales else 1 :]:
                column[:, place] -= self.values[:, place] if scales else 1.0
            columns.append(column)
        return columns

    def of_quantities(self, *, scales: bool) -> list[np.ndarray]:
        """Return a right side for each measured quantity that is scaled or shifted."""
        columns = []
        for place in self._first_observed + self.measured:
            column = np.zeros_like(self.values)
            column[:, place] = self.values[:, place] if scales else 1.0
            columns.append(column)
        return columns

    def of_time(self) -> np.ndarray:
        """Return the right side for time: slopes become smaller, and delays longer."""
        d, first = self.model.dimension, self._first_observed
        still = _STILL._replace(delays=self.points.delays, t=self.points.t)
        column = self._derivative(still)
        column[:, :d] += self.values[:, :d]
        column[:, 3 * d : first] -= self.values[:, 3 * d : first]
        return -column

    def rows(self, columns: list[np.ndarray]) -> np.ndarray:
        """Return the columns as a matrix, without what was not measured."""
        place = np.arange(self.values.shape[1]) - self._first_observed
        is_used = (place < 0) | np.isin(place, self.measured)
        return np.stack(columns, axis=2)[:, is_used].reshape(-1, len(columns))


def _solve(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the solution of the least norm; NaN if there is none."""
    none = np.full(left.shape[1], np.nan)
    size = np.maximum(np.max(np.abs(left), axis=1), np.abs(right))
    rows = np.isfinite(size) & (size > 0)
    left, right = left[rows] / size[rows, None], right[rows] / size[rows]
    if len(left) < left.shape[1]:
        return none
    solution = np.linalg.lstsq(left, right, rcond=1e-9)[0]
    error = np.max(np.abs(left @ solution - right))
    return solution if error < _TOLERANCE * np.max(np.abs(right)) else none


@eqx.filter_jit
def _functions(model: "LeastSquaresModel", points: _Point) -> jax.Array:
    """Evaluate the functions of `_Equations` at each point."""

    def at(point: _Point) -> jax.Array:
        problem = model.problem_at(point.theta)
        y, tau = (in_structure(problem.tau, list(a)) for a in (point.y, point.delays))
        observe = problem.observe
        parts = [
            problem.rhs(point.x, y, tau, point.t),
            problem.history(-point.t),
            problem.start,
            delay_vector(problem.tau),
            point.x if observe is None else observe(point.x, point.t),
        ]
        return jnp.concatenate(parts)

    return jax.vmap(at)(points)


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
        """Draw natural sizes, [count, p]; unknown exponents are -1, 0 or 1."""
        shape = (count, *self.exponents.shape)
        drawn = random.choice([-1.0, 0.0, 1.0], shape, p=[0.25, 0.5, 0.25])
        exponents = np.where(np.isnan(self.exponents), drawn, self.exponents)
        return np.exp(np.clip(exponents @ self.logs, -LARGEST_LOG, LARGEST_LOG))

    @property
    def typical(self) -> np.ndarray:
        """The natural sizes [p], without scales with an unknown exponent."""
        logs = np.nan_to_num(self.exponents) @ self.logs
        return np.exp(np.clip(logs, -LARGEST_LOG, LARGEST_LOG))


def natural_units(
    model: "LeastSquaresModel", curve: Curve, T: float, measured: np.ndarray
) -> NaturalUnits:
    """Return the natural units of free values, for the data that `curve` smooths."""
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
    model: "LeastSquaresModel", measured: np.ndarray, typical: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the exponents of the scales for each free value, and its shifts with the
    level of each quantity; `typical` are sizes of the states."""
    count = int(measured.sum())
    exponents, shifts = _symmetries(model, np.flatnonzero(measured), typical)
    shifts = shifts[:, count : 2 * count]
    # A quantity is a logarithm if its level is a scale and its size is not.
    size, level = exponents[:, :count], exponents[:, count : 2 * count]
    size[:, np.isnan(size[0]) & ~np.isnan(level[0])] = 0.0
    level[:, np.isnan(level[0])] = 0.0
    return exponents, np.nan_to_num(shifts)


def joint_units(
    joint: JointParameters, units: Sequence[NaturalUnits | None]
) -> NaturalUnits | None:
    """Join the natural units of the experiments of a study; None if one has none. A
    shared value has those of the first experiment that has it."""
    known = [each for each in units if each is not None]
    if len(known) < len(units):
        return None
    scales = np.cumsum([0, *(len(each.logs) for each in known)])
    exponents = np.zeros((len(joint.free.names), scales[-1]))
    offsets = np.zeros(len(joint.free.names))
    for e in reversed(range(len(known))):
        place, local = joint.place[e], np.flatnonzero(joint.place[e] >= 0)
        exponents[place[local]] = 0.0
        columns = slice(scales[e], scales[e + 1])
        exponents[place[local], columns] = known[e].exponents[local]
        offsets[place[local]] = known[e].offsets[local]
    return NaturalUnits(
        np.concatenate([each.logs for each in known]), exponents, offsets
    )


def rate_of(curve: Curve, T: float, measured: np.ndarray) -> float:
    """Estimate how fast the data change: the largest ratio of root mean square slope to
    spread of a quantity. For a sine it is the angular frequency."""
    t = np.linspace(0, T, 400)
    x, slope = curve.x(t)[:, measured], curve.slope(t)[:, measured]
    spread = np.std(x, axis=0)
    rates = np.sqrt(np.mean(slope**2, axis=0)) / np.where(spread > 0, spread, np.inf)
    return float(max(np.max(rates), 1 / T))
