r"""Many least-squares fits of one setup, distributed over all cores, and their ranking.

`refine` runs Levenberg-Marquardt from many starts and returns their `RefinedFits`. The
starts are cut into blocks of fixed size, so that one compiled program serves any number
of them, and the blocks run on a pool of threads.

`score` ranks minima by the sum of squares, and by what is plausible where the data
cannot tell them apart:

*Long delays.* If the data oscillate, a delay and the same delay plus one period predict
nearly the same; and the longer a delay is, the more of the record the free history can
fill. Of minima whose chi-squares differ by less than `TIED`, one with a delay more
than twice that of another is not preferred; but no minimum on a bound is preferred to
it.

*Fast histories.* The data see the history only during one delay. The higher its
frequency may be, the more frequencies there are below the sampling limit, and among
many of them some always follow the noise better than the true one does. A history that
completes c full cycles within a delay, with c above `SLOW_CYCLES`, must lower
chi-square by `FAST_PENALTY` (1 + log2(c / `SLOW_CYCLES`)), which is what the best of as
many frequencies gains by chance.

*Networks.* A network with a few more turns follows the noise better at another delay.
Fits with networks are compared by their evidence, the probability of the data averaged
over the weights (Laplace's approximation): twice its negative logarithm is
$S + \log\det H$ with the Hessian H of S / 2, up to a constant. The approximation is
off by a few units, so that such fits tie within `TIED_NETWORKS`.

Within a minimum the estimates are those of plain least squares."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._data.smoothing import spread
from .._engine.engine import SHRINKAGE, Points
from .._util.arrays import write
from .._util.machine import one_blas_thread
from .levenberg_marquardt import (
    EXACT,
    GRADIENT,
    KINK,
    LIMIT,
    PROBABLE,
    SLOW,
    STEP,
    Box,
    Convergence,
    MinimiserResult,
    minimise,
)
from .normal_equations import LeastSquaresModel, work_buffer
from .same_minimum import agree, first_at_minimum, predicted_rise
from .setup import FitSetup, standard_errors

# The number of fits that one call of the compiled program runs, one after the other.
BLOCK_SIZE = 16
# How many of the fits are repeated with half the step; fewer with networks, which take
# longer.
SURVIVORS, SURVIVORS_WITH_NETWORKS = 10, 4
# A fit that needs more evaluations than this counts as not converged.
MAX_EVALUATIONS = 400
# Most fits converge within this number of evaluations. Those that do not go on if their
# sum of squares is within this factor of the lowest.
PATIENCE, PROMISING = 60, 3.0
# How often the number of steps is changed because a delay has become shorter.
MOST_SHRINKAGES = 6
# Residuals of 1e-12 of the data are rounding errors; this is the square of it.
_ROUNDING = 1e-24
# A history with more cycles than this within a delay must lower chi-square by the
# penalty, and once more by it for each doubling of the cycles.
SLOW_CYCLES, FAST_PENALTY = 1.4, 8.0
# Minima whose scores differ by less than this are equally good: without networks, and
# with them.
TIED, TIED_NETWORKS = 1.0, 8.0


@final
@dataclass(frozen=True)
class RefinedFits:
    """The results of several fits of one setup, one row for each.

    `theta` are the free values, `gram` and `squares` the `NormalEquations` there,
    `status` says why the minimisation ended, and `n` is the number of steps per delay.
    A sum of squares below `rounding` is zero up to rounding errors. `starts` counts the
    starts that a row stands for, once rows at the same place were merged."""

    theta: np.ndarray
    gram: np.ndarray
    squares: np.ndarray
    evaluations: np.ndarray
    status: np.ndarray
    n: np.ndarray
    rounding: np.ndarray
    starts: np.ndarray

    @property
    def loss(self) -> np.ndarray:
        """The weighted sum of squares of each fit; infinite where it is not finite."""
        loss = self.gram[:, 0, 0]
        return np.where(np.isfinite(loss), loss, np.inf)

    @property
    def loss_above_rounding(self) -> np.ndarray:
        """The sums of squares, raised to the size of their rounding errors, so that an
        estimate of the noise never becomes zero."""
        return np.maximum(self.loss, self.rounding)

    @property
    def converged(self) -> np.ndarray:
        return np.isin(self.status, (GRADIENT, STEP, EXACT, KINK, SLOW, PROBABLE))

    def of_loss(
        self, theta: np.ndarray, loss: float, squares: np.ndarray
    ) -> "RefinedFits":
        """Return one fit of which S is known, and not its linearisation."""
        gram = np.zeros((1, 1 + len(theta), 1 + len(theta)))
        gram[0, 0, 0] = loss
        return replace(self, theta=theta[None], gram=gram, squares=squares[None])

    def unit(self, setup: FitSetup) -> float:
        """Return the unit of chi-square, from the best of the fits."""
        return setup.residual_variance(float(np.min(self.loss_above_rounding)))

    def take(self, rows: Any) -> "RefinedFits":
        """Return the fits with these row numbers, or where a boolean mask is true."""
        return RefinedFits(**{name: array[rows] for name, array in vars(self).items()})

    def replace_rows(self, rows: np.ndarray, other: "RefinedFits") -> "RefinedFits":
        """Replace the given rows by those of `other`, which go on from them."""
        arrays = {}
        for name, array in vars(self).items():
            arrays[name] = np.array(array)
            arrays[name][rows] = getattr(other, name)
        arrays["evaluations"][rows] += self.evaluations[rows]
        return RefinedFits(**arrays)

    def join(self, other: "RefinedFits") -> "RefinedFits":
        """Return these fits, followed by those of `other`."""
        pairs = zip(vars(self).items(), vars(other).values())
        return RefinedFits(**{name: np.concatenate([a, b]) for (name, a), b in pairs})


class Minimum(NamedTuple):
    """A local minimum of the sum of squares, and how many of the starts led there."""

    theta: np.ndarray
    loss: float
    starts: int


@final
@dataclass(frozen=True)
class SearchResult:
    """The best fit, and how it was found.

    `best` has one row. `points` are the data with their final weights, `noise` the
    standard deviation of each quantity, given or estimated. `minima` are all distinct
    minima, best first. `step_error` is how far the estimates moved when the steps were
    halved for the last time, in joint standard errors."""

    best: RefinedFits
    points: Points
    noise: np.ndarray
    minima: tuple[Minimum, ...]
    starts: int
    evaluations: int
    step_error: float
    interrupted: bool


class StartTask(NamedTuple):
    """One start of a fit: where it begins, its bounds, its data and its step size.

    The solver takes `n` steps per delay, or `rate` steps per unit of time where that is
    more. The number of steps that a `rate` gives changes with the delay from one
    iteration to the next, which makes S slightly discontinuous: a positive `rate`
    serves short preliminary fits, and refinements to convergence use 0. Where steps do
    not follow a delay, `n` is another number, and no `rate` is needed."""

    theta: Any  # [p]
    box: Box
    points: Points
    n: Any
    rate: Any
    limit: Any  # the largest number of evaluations


def fit_one(
    model: LeastSquaresModel,
    task: StartTask,
    capacity: int,
    convergence: Convergence | None = None,
) -> MinimiserResult:
    """Minimise the sum of squares of one task, inside a compiled program.

    `capacity` is the number of rows of the solver's memory, which limits the steps.
    The model decides what counts as `convergence` if it is not given."""
    steps = model.steps(task.theta, task.n, task.points.times[-1], capacity)

    def linearise(theta, memory):
        enough = model.at_least(steps, task.rate, theta, capacity)
        return model.misfit.linearise(model, theta, task.points, enough, memory)

    tiny, scale = model.misfit.negligible(task.points, _ROUNDING)
    return minimise(
        linearise,
        task.theta,
        task.box,
        task.limit,
        tiny,
        work_buffer(model, task.theta, steps, capacity),
        model.convergence(steps) if convergence is None else convergence,
        scale,
    )


@eqx.filter_jit
def _fit_block(
    model: LeastSquaresModel, tasks: StartTask, capacity: int
) -> MinimiserResult:
    """Minimise a block of tasks, one after the other in one compiled program.

    Every array of `tasks` has a first axis over the tasks. A task whose `limit` is zero
    costs nothing; such tasks fill up the last block."""
    return lax.map(lambda task: fit_one(model, task, capacity), tasks)


def refine(
    setup: FitSetup,
    theta: np.ndarray,
    points: Points,
    n: np.ndarray,
    limit: int = MAX_EVALUATIONS,
    held: np.ndarray | None = None,
    rate: float = 0.0,
) -> RefinedFits:
    """Run Levenberg-Marquardt from each row of `theta`, on all cores.

    **Arguments**

    - `theta`: the starts, of shape (fits, p).
    - `points`: the data with their weights: one set for all fits, or arrays with a
      first axis over the fits.
    - `n`: the steps per delay of each fit or, on a mesh, those in the record.
    - `limit`: the largest number of evaluations of a fit.
    - `held`: which values stay at their start, of shape (p,) or (fits, p).
    - `rate`: the least number of steps per unit of time (see `StartTask`)."""
    n = np.array(n)
    fits = _refine_once(setup, theta, points, n, limit, held, rate)
    for _ in range(MOST_SHRINKAGES if limit >= PATIENCE else 0):
        # Steps follow the delay. Where it has become much shorter, a fit that is to
        # converge goes on with fewer of them.
        rows = np.flatnonzero(_has_shrunk(setup, theta, fits.theta))
        if len(rows) == 0:
            break
        n[rows] = np.maximum(np.ceil(n[rows] / SHRINKAGE), 1)
        theta = fits.theta
        part = points
        if np.ndim(points.times) == 2:
            part = jax.tree.map(lambda a, rows=rows: np.asarray(a)[rows], points)
        is_held = held if held is None or held.ndim == 1 else held[rows]
        again = _refine_once(setup, theta[rows], part, n[rows], limit, is_held, rate)
        fits = fits.replace_rows(rows, again)
    return fits


def refine_promising(
    setup: FitSetup, theta: np.ndarray, points: Points, n: np.ndarray
) -> RefinedFits:
    """Refine the fits, but give up those that go on for long far from the best."""
    fits = refine(setup, theta, points, n, PATIENCE)
    lowest = np.min(fits.loss)
    is_promising = fits.loss < lowest + setup.misfit.margin(setup, lowest, PROMISING)
    rows = np.flatnonzero((fits.status == LIMIT) & is_promising)
    if len(rows) == 0:
        return fits
    longer = refine(setup, fits.theta[rows], points, fits.n[rows])
    return fits.replace_rows(rows, longer)


def shortest_delays(setup: FitSetup, theta: np.ndarray) -> np.ndarray:
    """Return the lower bounds of fits from `theta`: a delay that steps follow may
    become shorter by no more than a factor."""
    lower, free = np.broadcast_to(setup.lower, theta.shape), setup.model.free
    return setup.model.engine.nearby(lower, theta, free.delays)


def _has_shrunk(setup: FitSetup, before: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Whether a fit has shortened a delay as far as it could, but not to its bound."""
    lower = shortest_delays(setup, before)
    return np.any((lower > setup.lower) & (theta <= lower), axis=1)


def _refine_once(
    setup: FitSetup,
    theta: np.ndarray,
    points: Points,
    n: np.ndarray,
    limit: int,
    held: np.ndarray | None,
    rate: float,
) -> RefinedFits:
    """Refine where the delay becomes shorter by no more than a factor."""
    count, end = len(theta), float(np.max(np.asarray(points.times)))
    capacity = setup.model.engine.capacity(int(np.max(n)), end)
    rounding = np.broadcast_to(_rounding(setup, points), count)
    if np.ndim(points.times) == 1:
        points = jax.tree.map(
            lambda a: np.broadcast_to(a, (count, *np.shape(a))), points
        )
    box = setup.box(count, held)._replace(lower=shortest_delays(setup, theta))
    starts = StartTask(theta, box, points, n, np.full(count, rate), None)

    def fit_block(tasks: StartTask, is_new: np.ndarray) -> MinimiserResult:
        # Repetitions cost nothing with a limit of zero evaluations.
        tasks = tasks._replace(limit=np.where(is_new, limit, 0))
        return _fit_block(setup.model, tasks, capacity)

    result = map_in_blocks(fit_block, starts, setup.workers)
    return RefinedFits(
        result.theta,
        result.normal.gram,
        result.normal.squares,
        result.evaluations,
        result.status,
        n,
        rounding,
        np.ones(count, int),
    )


def _rounding(setup: FitSetup, points: Points) -> np.ndarray:
    """Return the sum of squares that rounding may cause, for each data set."""
    values, weights = np.asarray(points.values), np.asarray(points.weights)
    tiny = (1e-9 * spread(setup.data)) ** 2 + (1e-12 * values) ** 2
    return np.sum(weights * tiny, axis=(-2, -1))


def map_in_blocks(
    function: Callable[[Any, np.ndarray], Any],
    rows: Any,
    workers: int,
    size: int = BLOCK_SIZE,
) -> Any:
    """Call `function(block, is_new)` for blocks of `size` of the `rows`, on a pool of
    `workers` threads, and join the arrays that it returns. All arrays have a first axis
    over the rows. The last block is filled with repetitions, which are not new."""
    count = len(jax.tree.leaves(rows)[0])

    def one(numbers: np.ndarray) -> Any:
        filled = np.resize(numbers, size)
        block = jax.tree.map(lambda a: a[filled], rows)
        found = function(block, np.arange(size) < len(numbers))
        return jax.tree.map(lambda a: np.asarray(a)[: len(numbers)], found)

    blocks = np.split(np.arange(count), range(size, count, size))
    with one_blas_thread():
        if len(blocks) == 1 or workers == 1:
            results = list(map(one, blocks))
        else:
            with ThreadPoolExecutor(workers) as pool:
                results = list(pool.map(one, blocks))
    return jax.tree.map(lambda *a: np.concatenate(a), *results)


def observed(
    model: LeastSquaresModel, theta, times: np.ndarray, n: int, k: int
) -> np.ndarray:
    """Compute the k observed quantities at the `times`, in any order, with derivatives.

    The result is an array (len(times), k, 1 + p), values and then derivatives. There
    are n steps in a delay or, on a mesh, in the record."""
    order = np.argsort(times, kind="stable")
    # A power of two, so that few programs are compiled for many numbers of times.
    size = 1 << max(len(times) - 1, 63).bit_length()
    padded = np.pad(times[order], (0, size - len(times)), mode="edge")
    capacity = model.engine.capacity(n, float(padded[-1]))
    in_order = np.asarray(_observed(model, theta, padded, n, k, capacity))
    result = np.empty_like(in_order[: len(times)])
    result[order] = in_order[: len(times)]
    return result


def observed_at_data(setup: FitSetup, theta: np.ndarray, n: int) -> np.ndarray:
    """Compute what is observed at the data, with derivatives, (N, k, 1 + p)."""
    k, p = len(setup.data.names), len(theta)
    values = []
    for e, part in enumerate(setup.parts):
        found = observed(part.model, setup.local(theta, e), part.data.t, n, k)
        joint, place = np.zeros((*found.shape[:2], 1 + p)), setup.joint.place[e]
        joint[..., 0] = found[..., 0]
        local = np.flatnonzero(place >= 0)
        joint[..., 1 + place[local]] = found[..., 1 + local]
        values.append(joint)
    return np.concatenate(values)


@eqx.filter_jit
def _observed(
    model: LeastSquaresModel, theta, times, n, k: int, capacity: int
) -> jax.Array:
    """Compute what `observed` does, for `times` in ascending order, in a compiled
    program."""
    steps = model.steps(theta, n, times[-1], capacity)
    sensitivity = model.sensitivity(theta, steps, times[-1])
    points = Points(times, times, times)
    rows = jnp.zeros((times.shape[0], k, 1 + theta.shape[0]))
    memory = sensitivity.memory(capacity)
    return sensitivity.visit(points, (0, times.shape[0]), memory, write, rows)[0]


def score(setup: FitSetup, fits: RefinedFits) -> np.ndarray:
    """Return the chi-square of each fit, plus the penalties of fast histories and long
    delays; the lowest score is the best."""
    unit = fits.unit(setup)
    # A frequency that the data do not depend on costs nothing.
    has_influence = np.diagonal(fits.gram, axis1=1, axis2=2)[:, 1:] > 1e-6 * unit
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = fits.theta / slow_frequency_limit(setup, fits.theta)
    is_fast = setup.is_frequency & has_influence & (excess > 1)
    penalty = FAST_PENALTY * (1 + np.log2(np.where(is_fast, excess, 1.0)))
    scores = fits.loss / unit + np.sum(np.where(is_fast, penalty, 0.0), axis=1)
    tied = TIED
    if setup.has_networks:
        scores += _log_determinants(fits)
        tied = TIED_NETWORKS
    delay = setup.delay(fits.theta)
    is_on_bound = np.any((fits.theta <= setup.lower) | (fits.theta >= setup.upper), 1)
    is_shorter = delay[None, :] < delay[:, None] / 2
    ties = scores[None, :] < scores[:, None] + tied
    is_long = np.any(is_shorter & ties & ~is_on_bound, axis=1)
    return scores + tied * is_long


def _log_determinants(fits: RefinedFits) -> np.ndarray:
    """Return log det H of each fit; zero where there is none: its loss decides."""
    found = np.zeros(len(fits.theta))
    for row in np.flatnonzero(np.isfinite(fits.gram).all(axis=(1, 2))):
        sign, found[row] = np.linalg.slogdet(fits.gram[row, 1:, 1:])
        found[row] = found[row] if sign > 0 else 0.0
    return found


def slow_frequency_limit(setup: FitSetup, theta: np.ndarray) -> np.ndarray:
    """Return the highest frequency of a history that counts as slow, [rows, 1]."""
    return SLOW_CYCLES * 2 * np.pi / setup.delay(theta)[:, None]


def distance(setup: FitSetup, fits: RefinedFits, theta: np.ndarray) -> float:
    """Return the distance between one fit and `theta`, in joint standard errors.

    With networks it is the largest distance of a named value, in its standard error:
    weights move along curved valleys, on which all are as good, as long as a fit goes
    on."""
    if setup.has_networks:
        errors = standard_errors(fits.gram[0, 1:, 1:])
        moved = np.abs(theta - fits.theta[0]) / np.maximum(errors, 1e-300)
        return float(np.max(moved[~setup.is_weight], initial=0.0))
    rise = predicted_rise(fits.gram[0], theta - fits.theta[0])
    return float(np.sqrt(max(rise, 0.0) / fits.unit(setup)))


def keep_distinct(setup: FitSetup, fits: RefinedFits, most: int) -> RefinedFits:
    """Return the best fits at distinct places, at most `most` of them, best first.

    Of several fits at the same place the best is kept, and counts all their starts."""
    order = np.argsort(score(setup, fits), kind="stable")
    kept: list[int] = []
    for row in order:
        if len(kept) == most or (kept and not np.isfinite(fits.loss[row])):
            break
        if not any(is_same_place(setup, fits, place)[row] for place in kept):
            kept.append(int(row))
    same = [is_same_place(setup, fits, row) for row in kept]
    starts = np.array([int(fits.starts[rows].sum()) for rows in same])
    return replace(fits.take(kept), starts=starts)


def is_same_place(setup: FitSetup, fits: RefinedFits, place: int) -> np.ndarray:
    """Whether the values of each fit agree with those of fit `place` to 0.1% or, with
    networks, its named values to a standard error of that fit."""
    near = agree(fits.theta, fits.theta[place])
    if not setup.has_networks:
        return np.all(near, axis=1)
    errors = standard_errors(fits.gram[place, 1:, 1:])
    moved = np.abs(fits.theta - fits.theta[place])
    near |= moved <= np.where(np.isfinite(errors), errors, 0.0)
    return np.all(near[:, ~setup.is_weight], axis=1)


def distinct_minima(setup: FitSetup, fits: RefinedFits) -> tuple[Minimum, ...]:
    """Return the distinct minima among the fits, which are sorted, the best first."""
    unit = np.array([fits.unit(setup)])
    first = first_at_minimum(fits.theta[None], fits.loss[None], fits.gram[None], unit)
    first = first[0]
    return tuple(
        Minimum(fits.theta[row], float(fits.loss[row]), int(fits.starts[rows].sum()))
        for row in np.unique(first[first >= 0])
        for rows in [first == row]
    )
