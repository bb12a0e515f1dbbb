"""Aliases: trajectories that pass through the data but oscillate unseen between them.

Short delays allow oscillations that are faster than the sampling, and among these there
are often some that happen to be near every measured value: a wheel that seems to stand
still. They say nothing about the system, and are dropped. A trajectory is an alias if
it turns more often than there are intervals between the times of the data, which is
what the sampling theorem says."""

import equinox as eqx
import numpy as np

from .._data.study_data import each_part
from .._loss.path_costs import Points
from .._solve.runge_kutta import AbstractSolver
from .._solve.solve import solve
from .batches import RefinedFits, refine
from .ranking import score
from .setup import FitSetup

# Trajectories whose distance from the curve through the data is larger than their
# residuals by this factor, at this place between the times of the data, are looked at.
# (The place is no simple fraction: there, aliases might be near the curve, too.)
SUSPICIOUS, PLACE = 2.0, 0.382
# At how many times in an interval of the data and in all they are looked at, and how
# large a turn must be, as a share of the spread of the trajectory.
_TIMES, _MOST_TIMES, _TURN = 10, 4000, 0.2


def without_aliases(setup: FitSetup, fits: RefinedFits, points: Points) -> RefinedFits:
    """The fits without the aliases that are better than the best of the others. If all
    are aliases, none is left."""
    solver = setup.model.solver
    if not setup.has_quantity_curves or not isinstance(solver, AbstractSolver):
        return fits
    is_suspect = _leaves_curves(setup, fits, points)
    order = np.argsort(score(setup, fits), kind="stable").tolist()
    while order and is_suspect[order[0]]:
        theta = fits.theta[order[0]]
        each = enumerate(setup.parts)
        if not any(turns_too_often(p, setup.local(theta, e), solver) for e, p in each):
            break
        order.pop(0)
    return fits.take(np.array(order, int))


def _leaves_curves(setup: FitSetup, fits: RefinedFits, points: Points) -> np.ndarray:
    """Which trajectories are far from the curves between the times of the data."""
    times, values = [], []
    for part, (_, t) in zip(
        setup.parts, each_part(setup.data, np.asarray(points.times))
    ):
        curve = part.quantity_curve
        assert curve is not None
        times.append(np.append(t[:-1] + PLACE * np.diff(t), t[-1]))
        values.append(curve.x(times[-1]))
    is_used = np.asarray(points.weights) > 0
    between = points._replace(
        times=np.concatenate(times),
        values=np.where(is_used, np.concatenate(values), 0.0),
    )
    there = refine(setup, fits.theta, between, fits.n, limit=1)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.isfinite(fits.loss) & (there.loss > SUSPICIOUS**2 * fits.loss)


def turns_too_often(setup: FitSetup, theta: np.ndarray, solver: AbstractSolver) -> bool:
    """Whether a state has more extrema than there are intervals of the data, in one
    experiment."""
    data, model = setup.data, setup.model
    intervals = len(np.unique(data.t)) - 1
    count = min(_TIMES * intervals, _MOST_TIMES)
    t = np.linspace(data.t[0], data.T, count)
    problem = model.free.problem_at(theta, eqx.combine(model.learned, model.fixed))
    x = np.asarray(solve(problem, data.T, solver, max_step=data.T / count)(t))
    seen = np.ones(x.shape[1], bool) if model.observes else setup.measured
    return any(_turns(column) > intervals for column in x[:, seen].T)


def _turns(x: np.ndarray) -> int:
    """The number of extrema of a sequence, without small ones."""
    is_extreme = np.diff(np.sign(np.diff(x))) != 0
    extrema = x[1:-1][is_extreme]
    return int(np.sum(np.abs(np.diff(extrema)) > _TURN * np.std(x)))
