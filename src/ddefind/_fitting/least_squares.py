"""Least squares as a method: one fit on all cores, or many at the same time."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import Any, final

import equinox as eqx
import numpy as np

from .._data.smoothing import spread
from .._engine.adaptive.methods import AbstractAdaptive
from .._engine.engine import AUTO, check_any_solver, default_solver
from .._engine.runge_kutta import AbstractSolver
from .._engine.solution import check_steps
from .._loss.gradients import check_problem_and_data
from .._loss.losses import SumOfSquares
from .._problem.general_delays import typical_delays
from .._problem.history import Affine, Smooth
from .._problem.parameters import Fixed
from .._problem.problem import Problem
from .._results.batch import FitBatch
from .._results.estimate import Estimate, make_estimate
from .._search.batches import RefinedFits, SearchResult
from .._search.explore import follows_data
from .._search.make_setup import make_setup, make_study_setup
from .._search.misfit import FIRST_LOOK, PHASES, SECOND_LOOK
from .._search.other_history import (
    LENGTH,
    free_values,
    with_more_starts,
    with_roughness_priors,
)
from .._search.search import search
from .._search.setup import FitSetup
from .._search.try_adaptive import another_solver
from .._util import wording
from .._util.machine import cores, on_host, one_blas_thread
from .._util.progress import INTERVALS, Progress, Reporter
from .many_searches import ManyEstimates, search_together
from .method import AbstractMethod
from .request import FitOptions, FitTask, FitTasks, by_full_names

_STEPS_PER_DELAY = 10
# The parameters that a smooth history has, and an affine one has not.
_BENDS = ("history.c", "history.length")
# How many minima of a fit with an affine history are starts of one with a smooth one.
_MOST_MINIMA = 8
# A network needs this many measured values more than there are other parameters.
_LEAST_BESIDE = 10
# The message while a search has not come near the data.
_GOES_ON = (
    "No fit has come near the data yet: the search goes on, with more starts. Bounds "
    "or start values, given {}, would help. Ctrl-C keeps the best fit so far."
)


@final
class LeastSquares(AbstractMethod):
    """Levenberg-Marquardt on the residuals at the measured times: the default of
    `fit`, for up to 1500 parameters.

    **Arguments**

    - `starts`: how many starts are tried, the user's among them. With 1, only the
      minimum nearest to the problem's own values is found.

    >>> LeastSquares(starts=100).starts
    100
    """

    starts: int = eqx.field(static=True)

    def __init__(self, starts: int = 32, *, huber: None = None):
        if huber is not None:
            raise TypeError(wording.instead_of_huber("`huber`"))
        if isinstance(starts, bool) or not (isinstance(starts, int) and starts >= 1):
            raise ValueError(f"`starts` must be an integer from 1 on: {starts!r}.")
        self.starts = starts

    def check(self, options: FitOptions) -> None:
        """Refuse other losses and the options of gradient descent."""
        if not isinstance(options.loss, SumOfSquares):
            raise ValueError(
                f"`LeastSquares()` minimises `SumOfSquares()`, but `loss` is "
                f"{options.loss}. Leave `loss` out, or take an optimiser such as "
                "`Adam()`."
            )
        descent = (options.gradient, options.epochs, options.threshold)
        if any(option is not None for option in descent):
            raise ValueError(
                "`gradient`, `epochs` and `threshold` are options of gradient descent. "
                "Leave them out, or take an optimiser such as `Adam()`."
            )

    def fit(self, task: FitTask, options: FitOptions) -> Estimate:
        """Fit from many starts, with intervals unless they are left out."""
        wants_intervals = options.intervals is not False
        phases = (*PHASES, INTERVALS) if wants_intervals else PHASES
        with (
            Reporter(options.progress, len(phases), 1) as reporter,
            one_blas_thread(),
        ):

            def report(
                phase: str, fits: RefinedFits, tau: np.ndarray, message: str
            ) -> None:
                best = int(np.argmin(fits.loss))
                step = phases.index(phase) + 1
                reporter.show(phase, step, 0, fits.loss[best], tau[best], message)

            estimate = self._search(task, options, cores(), report)
            # After Ctrl-C the intervals are not computed.
            if wants_intervals and not estimate.search_result.interrupted:
                estimate = completed(estimate, options.level, reporter)
        return estimate

    def fit_many(self, tasks: FitTasks, options: FitOptions) -> FitBatch[Estimate]:
        """Search for all data sets together, as far as that is possible, and for the
        others on all cores, one on each."""
        began = time.perf_counter()
        check_any_solver(options.solver)
        tasks.check_data()

        def setup_of(task: FitTask) -> tuple[FitSetup, Problem]:
            solver = default_solver(task.problem, options.solver)
            return self._setup(task, options, options.settings(task), solver, 1)

        fits = ManyEstimates(tasks, setup_of)
        with (
            Reporter(options.progress, len(tasks), len(tasks)) as reporter,
            one_blas_thread(),
        ):

            def show() -> None:
                reporter.show("fits", fits.done, fits.done, *fits.last)

            for searched in search_together(tasks, options, self.starts, setup_of):
                fits.add_searched(searched)
                show()
            self._search_others(fits, options, show)
        return fits.batch(time.perf_counter() - began, bool(options.intervals))

    def _search_others(
        self, fits: ManyEstimates, options: FitOptions, show: Callable[[], None]
    ) -> None:
        """Make the fits that could not be searched together, on all cores, one on each;
        the first compiles for all. Then find the intervals of all, if wanted."""

        def alone(number: int) -> Estimate:
            with on_host():
                return self._search(fits.tasks[number], options, 1, None)

        def assessed(number: int) -> Estimate:
            with on_host():
                return fits[number].with_intervals(options.level, progress=False)

        jobs = [(alone, fits.missing())]
        if options.intervals:
            jobs.append((assessed, list(range(len(fits.tasks)))))
        with ThreadPoolExecutor(cores()) as pool:
            for job, numbers in jobs:
                first, others = numbers[:1], numbers[1:]
                results = chain(map(job, first), pool.map(job, others))
                for number, estimate in zip(numbers, results):
                    fits.add(number, estimate)
                    show()

    def _search(
        self,
        task: FitTask,
        options: FitOptions,
        workers: int,
        report: Callable[[str, RefinedFits, np.ndarray, str], None] | None,
    ) -> Estimate:
        """Return the best fit of one task, on `workers` threads, without intervals.

        `report(phase, fits, delays, message)` is called after each phase of the
        search; the message says why the search goes on."""
        began = time.perf_counter()
        if task.study is None:
            check_problem_and_data(task.problem, task.data)
        else:
            for problem, part in zip(task.study.problems, task.study.data.parts):
                check_problem_and_data(problem, part)
        check_any_solver(options.solver)
        settings, affine = options.settings(task), None
        if isinstance(task.problem.history, Smooth):
            affine = self._affine_first(task, options, workers)
            settings = _smooth_settings(task, settings, affine)
            options = replace(options, solver=affine.solver)

        def setup_with(solver: AbstractSolver | AbstractAdaptive):
            return self._setup(task, options, settings, solver, workers)

        setup, problem = setup_with(default_solver(task.problem, options.solver))
        setup.check_guess()
        _check_enough_for_networks(setup)

        def after_phase(phase: str, fits: RefinedFits) -> None:
            if report is not None:
                looks = phase in (FIRST_LOOK, SECOND_LOOK)
                used = setup.exploring if looks else setup
                is_near = phase != SECOND_LOOK or follows_data(used, fits)
                goes_on = _GOES_ON.format(wording.BOUNDS_OR_START_VALUES)
                report(phase, fits, used.delay(fits.theta), "" if is_near else goes_on)

        result = search(setup, self.starts, task.seed, after_phase)
        if options.solver == AUTO:
            other = another_solver(setup, result, lambda s: setup_with(s)[0])
            if other is not None:
                minima = [each.theta for each in result.minima]
                known = np.stack(minima) if minima else None
                found = search(other, self.starts, task.seed, after_phase, known)
                if np.isfinite(found.best.loss[0]) or not minima:
                    setup, result = other, _with_starts_of(found, result)
        if affine is not None and isinstance(problem, Problem):
            more = _smooth_starts(setup, problem, affine)
            result = with_more_starts(setup, result, more, task.seed)
        seconds = time.perf_counter() - began
        estimate = make_estimate(
            setup, problem, result, task.seed, seconds, task.equation
        )
        models = () if task.study is None else task.study.models
        return replace(estimate, models=models)

    def _setup(
        self,
        task: FitTask,
        options: FitOptions,
        settings: dict[str, Any],
        solver: AbstractSolver | AbstractAdaptive,
        workers: int,
    ) -> tuple[FitSetup, Any]:
        """Return the setup of a task, and its problem with the fixed values."""
        steps, study = options.steps_per_delay, task.study
        steps = check_steps(_STEPS_PER_DELAY if steps is None else steps)
        how = solver, steps, task.seed, workers
        if study is None:
            return make_setup(task.problem, task.data, settings, *how)
        return make_study_setup(
            study.problems, study.data, settings, study.values, *how
        )

    def _affine_first(
        self, task: FitTask, options: FitOptions, workers: int
    ) -> Estimate:
        """Fit with an affine history instead of a smooth one, which contains it."""
        past = task.problem.history
        line = Affine(np.full(past.b.shape, np.nan), past.b)
        settings = by_full_names(task.problem, options.settings(task))
        kept = {key: s for key, s in settings.items() if not key.startswith(_BENDS)}
        problem = eqx.tree_at(lambda p: p.history, task.problem, line)
        simple = replace(task, problem=problem, starts={})
        return self._search(simple, replace(options, parameters=kept), workers, None)


def completed(estimate: Estimate, level: float, reporter: Reporter) -> Estimate:
    """Return the estimate with its intervals, or without them if Ctrl-C was pressed
    before they were found. The `reporter` shows how many of their ends are found."""

    def report(now: Progress) -> None:
        reporter.show_ends(now.epoch, now.epochs, now.loss, now.tau)

    try:
        assessed = estimate.with_intervals(level, progress=report)
    except KeyboardInterrupt:
        return estimate
    tau = _longest_delay(assessed)
    reporter.show(INTERVALS, reporter.epochs, 1, assessed.loss, tau)
    return assessed


def _longest_delay(estimate: Estimate) -> float:
    problem = estimate.problem
    return float(np.max(np.asarray(typical_delays(problem.tau, problem.start))))


def _check_enough_for_networks(setup: FitSetup) -> None:
    """Refuse to learn a network from too few measured values."""
    least = int(np.sum(~setup.is_weight)) + _LEAST_BESIDE
    if setup.has_networks and setup.count < least:
        raise ValueError(
            f"{setup.count} measured values are too few to learn a network and "
            f"{least - _LEAST_BESIDE} parameters: at least {least} are needed."
        )


def _with_starts_of(found: SearchResult, first: SearchResult) -> SearchResult:
    """Return the result of a search that began at the minima of the `first`, with the
    starts counted in the first: all of them, and those at its best minimum."""
    if not found.minima or not first.minima:
        return replace(found, starts=first.starts)
    best, *others = found.minima
    best = best._replace(starts=max(best.starts, first.minima[0].starts))
    return replace(found, starts=first.starts, minima=(best, *others))


def _smooth_settings(
    task: FitTask, settings: dict[str, Any], affine: Estimate
) -> dict[str, Any]:
    """Return the settings with the length and the priors of a smooth history.

    Its length is the delay; with several delays it is a little more than the longest
    one of the `affine` fit, which also shows how far unmeasured states vary."""
    past, data = task.problem.history, task.data
    is_measured = np.isfinite(data.x).any(axis=0)
    spreads = spread(data)
    if task.problem.observe is not None or not is_measured.all():
        varies = np.std(np.asarray(affine.solution.x), axis=0)
        if task.problem.observe is None:
            varies = np.where(is_measured, spreads, varies)
        spreads = np.where(np.isfinite(varies) & (varies > 0), varies, 1.0)
    if np.isnan(past.length) and "history.length" not in settings:
        length = Fixed(LENGTH * _longest_delay(affine))
        settings = {**settings, "history.length": length}
    return with_roughness_priors(task.problem, settings, spreads)


def _smooth_starts(setup: FitSetup, problem: Problem, affine: Estimate) -> np.ndarray:
    """Return the minima of the affine fit as starts of one with a smooth history."""
    free, past, rows = affine.setup.model.free, problem.history, []
    for minimum in affine.search_result.minima[:_MOST_MINIMA]:
        line = free.problem_at(minimum.theta, affine.problem)
        delay = float(affine.setup.delay(minimum.theta[None])[0])
        length = delay if np.isnan(past.length) else past.length
        smooth = Smooth(line.history.a, line.history.b, 0 * past.c, length)
        start = eqx.tree_at(lambda p: p.history, line, smooth)
        rows.append(free_values(setup, start))
    return np.array(rows).reshape(-1, len(setup.lower))
