"""Least squares as a method: one fit on all cores, or many at the same time."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeAlias, final

import equinox as eqx
import numpy as np

from .._data.smoothing import spread
from .._data.study_data import parts_of
from .._engine.choose import AUTO, check_any_solver, default_solver
from .._engine.solution import check_steps
from .._loss.gradients import check_problem_and_data
from .._loss.losses import SumOfSquares
from .._problem.general_delays import typical_delays
from .._problem.history import Affine, Smooth
from .._problem.parameters import Fixed
from .._results.batch import FitBatch
from .._results.estimate import Estimate, FitOrigin, estimate_at
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
from .._util.progress import INTERVALS, Reporter
from .many_searches import ManyEstimates, search_together
from .method import AbstractMethod
from .request import FitOptions, FitTask, FitTasks, by_full_names

# What is called after each phase of a search: the setup, the phase, and the fits.
Report: TypeAlias = Callable[[FitSetup, str, RefinedFits], None]

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
        with Reporter(options.progress, len(phases), 1) as reporter, one_blas_thread():

            def report(setup: FitSetup, phase: str, fits: RefinedFits) -> None:
                looks = phase in (FIRST_LOOK, SECOND_LOOK)
                used = setup.exploring if looks else setup
                is_near = phase != SECOND_LOOK or follows_data(used, fits)
                goes_on = _GOES_ON.format(wording.BOUNDS_OR_START_VALUES)
                best, step = int(np.argmin(fits.loss)), phases.index(phase) + 1
                tau, message = used.delay(fits.theta)[best], "" if is_near else goes_on
                reporter.show(phase, step, 0, fits.loss[best], tau, message)

            found = self.best_fit(task, options, cores(), report)
            return completed(found, options, reporter)

    def fit_many(self, tasks: FitTasks, options: FitOptions) -> FitBatch[Estimate]:
        """Search for all data sets together, as far as that is possible, and for the
        others on all cores, one on each."""
        began = time.perf_counter()
        check_any_solver(options.solver)
        tasks.check_data()
        fits = ManyEstimates(tasks, lambda task: _setup(task, options, 1))
        with (
            Reporter(options.progress, len(tasks), len(tasks)) as reporter,
            one_blas_thread(),
        ):

            def show() -> None:
                reporter.show("fits", fits.done, fits.done, *fits.last)

            for searched in search_together(fits, options, self.starts):
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
                return self.best_fit(fits.tasks[number], options, 1)

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

    def best_fit(
        self,
        task: FitTask,
        options: FitOptions,
        workers: int,
        report: Report = lambda *_: None,
    ) -> Estimate:
        """Search for the best fit of one task on `workers` threads, without intervals.

        A smooth history is fitted after an affine one, which it contains.
        `report(setup, phase, fits)` is called after each phase of the search."""
        began = time.perf_counter()
        for problem, data in zip(task.problems, parts_of(task.data)):
            check_problem_and_data(problem, data)
        check_any_solver(options.solver)
        if not isinstance(task.problem.history, Smooth):
            return self._search(task, options, workers, report)
        line = self._search(_with_affine_history(task), options, workers)
        task, options = _with_bends(task, line), replace(options, solver=line.solver)
        found = self._search(task, options, workers, report)
        setup, starts = found.setup, _smooth_starts(found.setup, line)
        minimum = with_more_starts(setup, found.search_result, starts, found.seed)
        return found.at(minimum, seconds=time.perf_counter() - began)

    def _search(
        self,
        task: FitTask,
        options: FitOptions,
        workers: int,
        report: Report = lambda *_: None,
    ) -> Estimate:
        """Search, with the solver that the equation and the data need."""
        began = time.perf_counter()
        setup = _setup(task, options, workers)
        setup.check_guess()
        _check_enough_for_networks(setup)
        show = partial(report, setup)
        result = search(setup, self.starts, task.seed, show)
        other = another_solver(setup, result) if options.solver == AUTO else None
        if other is not None:
            minima = [each.theta for each in result.minima]
            known = np.stack(minima) if minima else None
            found = search(other, self.starts, task.seed, show, known)
            if np.isfinite(found.best.loss[0]) or not minima:
                setup, result = other, _with_starts_of(found, result)
        origin = FitOrigin(task.seed, time.perf_counter() - began)
        return estimate_at(setup, result, origin)


def _setup(task: FitTask, options: FitOptions, workers: int) -> FitSetup:
    """Make the setup of a task, with the solver before any solution is known."""
    steps = options.steps_per_delay
    steps = check_steps(_STEPS_PER_DELAY if steps is None else steps)
    solver = default_solver(task.problem, options.solver)
    how = solver, steps, task.seed, workers
    data, settings = task.data, task.settings
    if len(task.problems) > 1:
        setup, _ = make_study_setup(task.problems, data, settings, task.known, *how)
    else:
        setup, _ = make_setup(task.problem, data, settings, *how)
    return replace(setup, equations=task.equations)


def completed(found: Estimate, options: FitOptions, reporter: Reporter) -> Estimate:
    """Return the fit with its intervals, unless they are left out, or Ctrl-C was
    pressed before they were found. The `reporter` shows how many ends are found."""
    if options.intervals is False or found.search_result.interrupted:
        return found
    try:
        found = found.made_precise(options.level, reporter)
    except KeyboardInterrupt:
        return found
    tau = _longest_delay(found)
    reporter.show(INTERVALS, reporter.epochs, 1, found.loss, tau)
    return found


def _longest_delay(found: Estimate) -> float:
    problem = found.problem
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


def _with_affine_history(task: FitTask) -> FitTask:
    """Return the task with an affine history instead of a smooth one."""
    past = task.problem.history
    line = Affine(np.full(past.b.shape, np.nan), past.b)
    settings = by_full_names(task.problem, task.settings)
    kept = {key: s for key, s in settings.items() if not key.startswith(_BENDS)}
    problem = eqx.tree_at(lambda p: p.history, task.problem, line)
    return replace(task, problems=(problem,), parameters=kept, starts={})


def _with_bends(task: FitTask, line: Estimate) -> FitTask:
    """Return the task with the length and the priors of a smooth history.

    Its length is the delay; with several delays it is a little more than the longest
    one of the fit with an affine history, the `line`, which also shows how far
    unmeasured states vary."""
    past, data, settings = task.problem.history, task.data, task.settings
    is_measured = np.isfinite(data.x).any(axis=0)
    spreads = spread(data)
    if task.problem.observe is not None or not is_measured.all():
        varies = np.std(np.asarray(line.solution.x), axis=0)
        if task.problem.observe is None:
            varies = np.where(is_measured, spreads, varies)
        spreads = np.where(np.isfinite(varies) & (varies > 0), varies, 1.0)
    if np.isnan(past.length) and "history.length" not in settings:
        settings["history.length"] = Fixed(LENGTH * _longest_delay(line))
    settings = with_roughness_priors(task.problem, settings, spreads)
    return replace(task, parameters=settings, starts={})


def _smooth_starts(setup: FitSetup, line: Estimate) -> np.ndarray:
    """Return the minima of the fit with an affine history, the `line`, as starts of one
    with a smooth history."""
    past, rows = setup.model.problem.history, []
    for minimum in line.search_result.minima[:_MOST_MINIMA]:
        (start,) = line.setup.problems(minimum.theta)
        delay = float(line.setup.delay(minimum.theta[None])[0])
        length = delay if np.isnan(past.length) else past.length
        history = Smooth(start.history.a, start.history.b, 0 * past.c, length)
        start = eqx.tree_at(lambda p: p.history, start, history)
        rows.append(free_values(setup, start))
    return np.array(rows).reshape(-1, len(setup.lower))
