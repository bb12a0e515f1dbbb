"""Multiple shooting as a method: fits of systems that are themselves disturbed."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import final

import equinox as eqx
import jax
import numpy as np

from .._data.data import Data
from .._data.smoothing import rough_noise
from .._inference.covariance import Uncertainty
from .._inference.system import Disturbed
from .._loss.gradients import check_problem_and_data
from .._problem.delays import is_delay
from .._problem.general_delays import has_slope
from .._results.batch import FitBatch
from .._results.estimate import Estimate, FitOrigin, estimate_at
from .._search import levenberg_marquardt
from .._search.batches import Minimum
from .._search.misfit import PHASES
from .._search.starts import matched_starts
from .._shooting import shooting
from .._shooting.shooting import MOST_UNKNOWNS
from .._util import wording
from .._util.progress import INTERVALS, Progress, Reporter
from .least_squares import LeastSquares, completed
from .many_searches import batch_of
from .method import AbstractMethod
from .request import FitOptions, FitTask, FitTasks

# How many minima of least squares, and points by gradient matching, are starts.
_MINIMA, _MATCHED = 4, 4
# The message of the fit by least squares, when there is no other yet.
_ONLY_FIRST = (
    "Interrupted before a path with process noise was found: this is the fit by least "
    "squares, which assumes an undisturbed system."
)


@final
class MultipleShooting(AbstractMethod):
    r"""Fits of a system that is itself disturbed, with intervals that hold.

    The state follows $dx = F\,dt + \sigma\,dW$, and is measured with noise. The path
    that it took is estimated together with the parameters, and so are the process noise
    $\sigma$ and the measurement noise, by their likelihood. Take this method where
    successive residuals of a fit by `LeastSquares` are correlated because the system is
    disturbed.

    **Arguments**

    - `starts`: how many starts are tried by least squares, whose best minima are the
      starts of this method.

    >>> MultipleShooting().starts
    32
    """

    starts: int = eqx.field(static=True, default=32)

    def __check_init__(self):
        self._plain()

    def _plain(self) -> LeastSquares:
        return LeastSquares(starts=self.starts)

    def check(self, options: FitOptions) -> None:
        """Refuse what least squares refuses."""
        self._plain().check(options)

    def fit(self, task: FitTask, options: FitOptions) -> Estimate:
        """Fit by least squares first, then with process noise."""
        _check_task(task)
        phases = (*PHASES, *shooting.PHASES, INTERVALS)
        with Reporter(options.progress, len(phases), 1) as reporter:

            def report_search(now: Progress) -> None:
                reporter.show(now.phase, now.epoch, 0, now.loss, now.tau, now.message)

            quiet = replace(options, intervals=False, progress=report_search)
            first = self._plain().fit(task, quiet)

            def report(phase: str, theta: np.ndarray) -> None:
                step, tau = phases.index(phase) + 1, first.setup.delay(theta[None])[0]
                reporter.show(phase, step, 0, first.loss, tau)

            return completed(_disturbed(first, report), options, reporter)

    def fit_many(self, tasks: FitTasks, options: FitOptions) -> FitBatch[Estimate]:
        """Make one fit after the other: their linear algebra runs on all cores."""
        began = time.perf_counter()
        for task in tasks:
            _check_task(task)
        firsts = self._plain().fit_many(tasks, replace(options, intervals=False))
        estimates = [
            _disturbed(firsts[number], lambda *_: None) for number in range(len(tasks))
        ]
        if options.intervals:
            estimates = [
                each.with_intervals(options.level, progress=False) for each in estimates
            ]
        seconds = time.perf_counter() - began
        return batch_of(estimates, seconds, bool(options.intervals))


def _check_task(task: FitTask) -> None:
    """Refuse equations whose disturbed path has no meaning, and long records."""
    problem, data = task.problem, task.data
    assert isinstance(data, Data)
    check_problem_and_data(problem, data)
    if any(map(has_slope, jax.tree.leaves(problem.tau, is_leaf=is_delay))):
        raise ValueError(
            f"{wording.MULTIPLE_SHOOTING} cannot fit a neutral equation: a system "
            "that is disturbed has no slopes to be delayed. Fit it with "
            f"{wording.LEAST_SQUARES}."
        )
    if problem.doses is not None:
        raise ValueError(
            f"{wording.MULTIPLE_SHOOTING} cannot fit a model with doses, at which its "
            f"states jump. Fit it with {wording.LEAST_SQUARES}."
        )
    unknowns = len(np.unique(data.t)) * problem.dimension
    if unknowns > MOST_UNKNOWNS:
        raise ValueError(
            f"{wording.MULTIPLE_SHOOTING} estimates every state at every time, here "
            f"{unknowns:,} numbers, but can do so for {MOST_UNKNOWNS:,} at most. Fit a "
            "part of the record, or every second value."
        )


def _disturbed(first: Estimate, report: Callable[[str, np.ndarray], None]) -> Estimate:
    """Fit with process noise, without intervals, from a fit by least squares. Return
    that fit if it has no finite sum of squares, or if the user interrupts the work too
    early.

    `report(phase, theta)` is called after each phase of the work."""
    began = time.perf_counter()
    if not np.isfinite(first.loss):
        return first
    if first.search_result.interrupted:
        return _only_first(first)
    setup = first.setup
    try:
        found = shooting.shoot(setup, first.problem, _starts(first), report)
    except KeyboardInterrupt:
        return _only_first(first)
    if found is None:
        raise ValueError(
            "No start led to a path with process noise. Bound the parameters, or fit "
            f"with {wording.LEAST_SQUARES}."
        )
    residuals = found.process.residuals
    loss = float(np.nansum(residuals**2))
    squares = np.nansum((first.data.x - found.process.fitted) ** 2, axis=0)
    settled, limit = levenberg_marquardt.STEP, levenberg_marquardt.LIMIT
    best = first.search_result.best.of_loss(found.theta, loss, squares)
    result = replace(
        first.search_result,
        best=replace(
            best,
            evaluations=np.array([found.rounds]),
            status=np.array([settled if found.has_settled else limit]),
            rounding=np.zeros(1),
            starts=np.ones(1, int),
        ),
        noise=found.measurement,
        minima=(Minimum(found.theta, loss, 1),),
        step_error=found.step_error,
        interrupted=found.interrupted,
    )
    # The variance of the residuals is estimated again from the sum of squares.
    information = np.linalg.pinv(found.covariance, hermitian=True)
    unit = Uncertainty(setup, result, known=information).residual_variance
    origin = FitOrigin(first.seed, first.seconds + time.perf_counter() - began)
    system = Disturbed(found.process, unit * information)
    return estimate_at(setup, result, origin, system=system)


def _only_first(first: Estimate) -> Estimate:
    """Return the fit by least squares, when the work ended before there was another."""
    result = replace(first.search_result, interrupted=True)
    origin = first.origin._replace(interruption=_ONLY_FIRST)
    return replace(first.at(result), origin=origin)


def _starts(first: Estimate) -> np.ndarray:
    """Return the best minima of least squares, and starts by gradient matching, which
    need no trajectory."""
    setup = first.setup
    minima = np.array([each.theta for each in first.search_result.minima[:_MINIMA]])
    if setup.curve is None or first.starts == 1:
        return minima
    random = np.random.default_rng(first.seed)
    matched = matched_starts(setup, _MATCHED, rough_noise(setup.data), random)
    return np.concatenate([minima, matched])
