r"""The natural size of each parameter, from the scales of the data.

A rate is about one over the time in which the data change, a carrying capacity about as
large as the data. Which it is follows from the model, because most models have
*symmetries*. If the unit of a measured quantity, or that of time, changes by a factor
$e^\epsilon$, then some change of the states by factors $e^{\epsilon s_k}$ and of the
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
$v_j\,\partial F_i / \partial \theta_j$.

The equations are solved at random points, with central differences. If there is a
solution, the natural size of parameter j is the product of the scales of the data to
the powers $u_j$. If there is none, because a constant of the model has a unit, the
exponents remain unknown."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._data.smoothing import Curve
from .._problem.delays import delay_count, delay_vector, in_structure
from .normal_equations import LeastSquaresModel

# The number of random points at which the equations are solved, within this factor of
# one, the step of the differences, and the largest error of a solution.
_POINTS, _FACTOR, _STEP, _TOLERANCE = 24, 2.0, 1e-4, 1e-6
# Natural sizes are not beyond these powers of e.
_LARGEST_LOG = 200.0


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
        return np.exp(np.clip(exponents @ self.logs, -_LARGEST_LOG, _LARGEST_LOG))


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
    left, right = _symmetry_equations(model, np.flatnonzero(measured), typical)
    p, count = len(model.free.names), len(levels)
    solutions = np.stack([_solve(left, column) for column in right.T], axis=1)
    exponents, shifts = solutions[:p], solutions[p : 2 * p, count : 2 * count]
    # A quantity is a logarithm if its level is a scale and its size is not.
    size, level = exponents[:, :count], exponents[:, count : 2 * count]
    size[:, np.isnan(size[0]) & ~np.isnan(level[0])] = 0.0
    level[:, np.isnan(level[0])] = 0.0
    return NaturalUnits(logs, exponents, np.nan_to_num(shifts) @ levels)


def rate_of(curve: Curve, T: float, measured: np.ndarray) -> float:
    """How fast the data change: the largest ratio of root mean square slope to spread
    of a quantity. For a sine it is the angular frequency."""
    t = np.linspace(0, T, 400)
    x, slope = curve.x(t)[:, measured], curve.slope(t)[:, measured]
    spread = np.std(x, axis=0)
    rates = np.sqrt(np.mean(slope**2, axis=0)) / np.where(spread > 0, spread, np.inf)
    return float(max(np.max(rates), 1 / T))


def _solve(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solution of the least norm; NaN if there is none."""
    usable = np.all(np.isfinite(left), axis=1) & np.isfinite(right)
    left, right = left[usable], right[usable]
    size = np.max(np.abs(left), axis=1)
    left, right = (
        left[size > 0] / size[size > 0, None],
        right[size > 0] / size[size > 0],
    )
    if len(left) < left.shape[1]:
        return np.full(left.shape[1], np.nan)
    solution = np.linalg.lstsq(left, right, rcond=1e-9)[0]
    error = np.max(np.abs(left @ solution - right))
    return (
        solution
        if error < _TOLERANCE * np.max(np.abs(right), initial=0)
        else solution * np.nan
    )


class _Point(NamedTuple):
    """The arguments of the functions of a model, or changes of them."""

    theta: Any  # [p]
    x: Any  # [d]
    y: Any  # [k, d]
    delays: Any  # [k]
    t: Any


def _symmetry_equations(
    model: LeastSquaresModel, measured: np.ndarray, typical: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The linear equations for (u, v, s, c) at random points: the matrix, and right
    sides for the size and the level of each measured quantity and for time. Half of the
    states are of a `typical` size, the others near one."""
    p, d = len(model.free.names), model.dimension
    tau = eqx.combine(model.learned.tau, model.fixed.tau)
    k, random = delay_count(tau), np.random.default_rng(0)
    shapes = (p,), (d,), (k, d), (k,), ()
    points = _Point(
        *(_FACTOR ** random.uniform(-1, 1, (_POINTS, *shape)) for shape in shapes)
    )
    for state in points[1:3]:
        state[::2] *= typical

    def derivative(change: _Point) -> np.ndarray:
        """The derivatives of all functions for a change of their arguments, [points,
        functions]."""
        ahead, behind = (
            _functions(model, _Point(*(a + h * c for a, c in zip(points, change))))
            for h in (_STEP, -_STEP)
        )
        with np.errstate(invalid="ignore", over="ignore"):
            return (np.asarray(ahead) - np.asarray(behind)) / (2 * _STEP)

    values = np.asarray(_functions(model, points))
    still = _Point(*np.zeros(5))
    F, H, start = (values[:, first * d : (first + 1) * d] for first in range(3))
    none = np.zeros((_POINTS, values.shape[1]))
    columns = []
    for scales in (True, False):
        for one in np.eye(p):
            change = (
                one * points.theta if scales else np.broadcast_to(one, (_POINTS, p))
            )
            columns.append(derivative(still._replace(theta=change)))
    for scales in (True, False):
        for i, one in enumerate(np.eye(d)):
            x, y = (one * a if scales else one + 0 * a for a in points[1:3])
            wanted = none.copy()
            for block, state in enumerate((F, H, start)):
                if scales:
                    wanted[:, block * d + i] = state[:, i]
                elif block > 0:
                    wanted[:, block * d + i] = 1.0
            columns.append(derivative(still._replace(x=x, y=y)) - wanted)
    right = []
    first = 3 * d + k
    for scales in (True, False):
        for m in measured:
            wanted = none.copy()
            wanted[:, first + m] = values[:, first + m] if scales else 1.0
            right.append(wanted)
    of_time = derivative(still._replace(delays=points.delays, t=points.t))
    of_time[:, :d] += F
    of_time[:, 3 * d : first] -= values[:, 3 * d : first]
    right.append(-of_time)
    is_used = np.ones(values.shape[1], bool)
    is_used[first:] = np.isin(np.arange(values.shape[1] - first), measured)
    left, right = (
        np.stack(each, axis=2)[:, is_used].reshape(-1, len(each))
        for each in (columns, right)
    )
    return left, right


@eqx.filter_jit
def _functions(model: LeastSquaresModel, points: _Point) -> jax.Array:
    """The functions of a model at each point: the right-hand side, the history, the
    state at time zero, the delays and what is observed."""

    def at(point: _Point) -> jax.Array:
        params = model.free.join_values(point.theta, model.learned)
        problem = eqx.combine(params, model.fixed)
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
