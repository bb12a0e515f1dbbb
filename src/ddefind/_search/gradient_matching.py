r"""Gradient matching: rough parameter values from a smooth curve through the data.

The equation is not solved. Instead the right-hand side F is compared with the slope of
a smoothing spline $\hat x$ through the data. Given a delay $\tau$, the parameters
$\theta$ of the equation and $\phi$ of the history minimise

$$\sum_t w\,\bigl|F(\hat x(t), y(t), \tau, t; \theta) - \hat x'(t)\bigr|^2
  + w_0\,\bigl|X_0(0; \phi) - \hat x(0)\bigr|^2,$$

where the delayed state y(t) is $\hat x(t - \tau)$ for $t \ge \tau$, and the history
$X_0(t - \tau; \phi)$ before; with several delays for each of them. Delays that are more
than numbers are read from the curve as if it were the solution.

The weights of networks keep their prior: the slopes then count as known to 5% of their
size.

The result is biased by the smoothing. But this sum of squares has few local minima, and
no trajectory can diverge: it turns a randomly drawn delay into a good start for least
squares."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._data.smoothing import Curve
from .._engine.adaptive.equation import ExtendedEquation
from .._engine.adaptive.pieces import PathRows, StagePast
from .._problem.delays import delay_values, in_structure
from .._problem.general_delays import is_general
from .._problem.problem import Problem
from .._util.arrays import read
from .levenberg_marquardt import Box, MinimiserResult, Priors, minimise
from .normal_equations import LeastSquaresModel

# The number of times at which slopes are compared.
TIMES = 80
_MAX_EVALUATIONS, _MAX_EVALUATIONS_OF_NETWORKS = 15, 40


class MatchingTarget(NamedTuple):
    """What gradient matching compares the equation with: the smooth curve at M times.

    `y` is the curve one delay earlier; where that is before time zero, `known` is
    false and the history takes its place. `path` is the curve as a solution with pieces
    (see `_engine/adaptive/pieces.py`)."""

    t: Any  # [M]
    x: Any  # [M, d]
    slope: Any  # [M, d]
    y: Any  # [M, k, d]
    known: Any  # [M, k], boolean
    start: Any  # [d], the curve at time zero
    weight: Any  # [d], of the squared differences of slopes
    start_weight: Any  # [d], of the squared differences at time zero
    path: Any  # [M - 1, row]


def matching_targets(
    curve: Curve, T: float, delays: np.ndarray, noise: np.ndarray, precision: float
) -> MatchingTarget:
    """Return the target of each row of `delays` [rows, k], along a first axis.

    Slopes are weighted by their mean square along the curve, the start by the variance
    of the noise, and both by a `precision` that matters where there are priors."""
    t = np.linspace(0, T, TIMES)
    x, slope = curve.x(t), curve.slope(t)
    known = t[:, None] >= delays[:, None]
    mean_square = np.mean(slope**2, axis=0)
    start = curve.x(np.zeros(1))[0]
    start_variance = np.maximum(noise**2, 1e-4 * np.var(x, axis=0) + 1e-300)
    earlier = curve.x(np.clip(np.where(known, t[:, None] - delays[:, None], 0.0), 0, T))
    weight = precision * (1 / np.where(mean_square > 0, mean_square, 1.0))
    start_weight = precision * (1 / start_variance)

    def repeat(a: np.ndarray) -> np.ndarray:
        return np.broadcast_to(a, (len(delays), *a.shape))

    return MatchingTarget(
        t=repeat(t),
        x=repeat(x),
        slope=repeat(slope),
        y=earlier,
        known=known,
        start=repeat(start),
        weight=repeat(weight),
        start_weight=repeat(start_weight),
        path=repeat(_curve_path(t, x, slope)),
    )


def _curve_path(t: np.ndarray, x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return cubic pieces with values and slopes of a curve, and with its integral."""
    h = np.diff(t)[:, None]
    rise, first, last = np.diff(x, axis=0), h * slope[:-1], h * slope[1:]
    cubic = [x[:-1], first, 3 * rise - 2 * first - last, first + last - 2 * rise]
    integral = [h * c / (m + 1) for m, c in enumerate(cubic)]
    total = np.cumsum(sum(integral), axis=0)
    begin = np.concatenate([np.zeros_like(total[:1]), total[:-1]])
    pieces = [
        np.concatenate(pair, axis=1)
        for pair in zip([*cubic, np.zeros_like(rise)], [begin, *integral])
    ]
    behind = np.stack([t[:-1], h[:, 0], *np.full((3, len(h)), -1.0)], axis=1)
    return np.concatenate([*pieces, behind], axis=1)


@eqx.filter_jit
def match_block(
    model: LeastSquaresModel,
    theta,
    box: Box,
    targets: MatchingTarget,
    priors: Priors | None,
) -> MinimiserResult:
    """Match several starts, the first axis of all arrays but the `priors`."""
    starts = theta, box, targets
    return lax.map(lambda one: match_one(model, one[0], one[1], one[2], priors), starts)


def match_one(
    model: LeastSquaresModel,
    theta: jax.Array,
    box: Box,
    target: MatchingTarget,
    priors: Priors | None,
) -> MinimiserResult:
    """Match one start; targets of a study have a first axis over experiments."""

    def linearise(theta, memory):
        found = model.misfit.matched(
            model, theta, target, priors, _start_rows, _visit_times
        )
        return found, memory

    limit = _MAX_EVALUATIONS if priors is None else _MAX_EVALUATIONS_OF_NETWORKS
    return minimise(linearise, theta, box, jnp.asarray(limit), 0.0, ())


def _start_rows(
    model: LeastSquaresModel, theta: jax.Array, target: MatchingTarget
) -> jax.Array:
    """Compute the weighted rows [r, J] of the differences at time zero."""
    extended = model.sensitivity(theta, 1, 0.0)
    rows = _residual_rows(extended.push(extended.system.start), target.start)
    return jnp.sqrt(target.start_weight)[:, None] * rows


def _visit_times(
    model: LeastSquaresModel,
    theta: jax.Array,
    target: MatchingTarget,
    add: Callable[[Any, Any, jax.Array], Any],
    total: Any,
) -> Any:
    """Visit the times: `total = add(total, j, weighted rows [r, J] of slopes)`."""
    extended = model.sensitivity(theta, 1, 0.0)
    system = extended.system

    def at_time(j, total):
        t, x, y = (read(a, j) for a in (target.t, target.x, target.y))

        def slope(params):
            tau = eqx.combine(params.tau, system.fixed.tau)
            if is_general(tau):
                problem = eqx.combine(params, system.fixed)
                return _slope_on_curve(problem, target, t, x)
            delays = jax.tree.leaves(delay_values(tau))
            delayed = []
            for q, delay in enumerate(delays):
                past = system.history(params.history, jnp.minimum(t - delay, 0.0))
                known = read(target.known, j)[q]
                delayed.append(jnp.where(known, y[q], past))
            y_tree, tau_tree = (in_structure(tau, a) for a in (delayed, delays))
            return system.slope(params.rhs, x, y_tree, tau_tree, t)

        rows = _residual_rows(extended.push(slope), read(target.slope, j))
        return add(total, j, jnp.sqrt(target.weight)[:, None] * rows)

    return lax.fori_loop(0, target.t.shape[0], at_time, total)


def _slope_on_curve(problem: Problem, target: MatchingTarget, t, x) -> jax.Array:
    """Compute the right-hand side at the time `t`, with the curve for the past."""
    d, end = x.shape[0], target.t[-1]
    equation = ExtendedEquation(problem)
    rows = PathRows(2 * d, True, target.path, target.path.shape[0])

    def history(t):
        # The path of the curve always has the integral of the state.
        state, slope = equation.history(t)
        rest = jnp.zeros(2 * d - state.shape[0])
        return jnp.concatenate([state, rest]), jnp.concatenate([slope, rest])

    guess = jnp.zeros((5, 2 * d))
    past = StagePast(rows, history, end, jnp.ones(()), guess, 0.5, None)
    extended = jnp.concatenate([x, jnp.zeros(equation.dimension - d)])
    hints = jnp.zeros((1, equation.plan.count), int)
    kernels, hints = equation.kernels(lambda _: rows, t[None], end, hints)
    own = [known.stage(0) for known in kernels]
    return equation.slope(past, t, extended, hints[0], own).value[:d]


def _residual_rows(rows: jax.Array, values: jax.Array) -> jax.Array:
    """Turn rows [f, J] of a function and its derivatives into [f - values, J]."""
    return jnp.concatenate([rows[:, :1] - values[:, None], rows[:, 1:]], axis=1)
