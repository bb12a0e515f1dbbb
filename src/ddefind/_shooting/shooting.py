"""Multiple shooting with process noise: the free values, the path and the noise.

1. From each start the path is fitted to the data with large process noise, first alone
   and then together with the free values. The most likely fits are kept.
2. Noise and fit are improved in turn until both agree: the noise by its likelihood,
   linearised around the fit, the fit by least squares.
3. Disturbances have constant size, unless sizes that are a share of the state are
   clearly more likely.
4. The steps between the nodes are halved until the estimates no longer change.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from .._engine.solve import solve
from .._problem.general_delays import typical_delays
from .._problem.problem import Problem
from .._search.setup import FitSetup
from .defects import PathNodes, place_nodes
from .joint_fit import (
    JointFit,
    Noise,
    NoiseLikelihood,
    determinant_slope,
    evaluate,
    fit_path,
    minus_two_log_likelihood as deviance,
    with_noise,
)
from .process_noise import (
    ProcessNoise,
    first_noise,
    innovations,
    joint_problem,
    noise_limits,
    state_levels,
)

# The most unknown states: the linear algebra is dense.
MOST_UNKNOWNS = 2000
# Nodes between the times of the data are added up to this number of unknown states.
_AFFORDABLE = 600
# The steps in the shortest delay, and the most steps between two neighbouring times.
_STEPS_PER_DELAY, _MOST_PER_SPACING = 5, 4
# The number of first fits that go on.
_SURVIVORS = 2
_MOST_ROUNDS = 20
# Noise and free values have converged when a round changes the logarithms by less than
# this, and the free values by less than this share of their standard errors.
_CONVERGED = 0.02
# Relative disturbances must be more likely than constant ones by this much, in minus
# two log-likelihoods.
_CLEARLY = 5.0
# Steps are fine enough when halving them moves the estimates by less than this share of
# their standard errors.
_STEP_TOLERANCE = 0.1


@final
@dataclass(frozen=True)
class ShootingResult:
    """The free values and their covariance, the process noise with the path, and the
    standard deviation of the measurement noise of each quantity.

    `step_error` is the move of the free values when the steps were last halved, in
    standard errors. `interrupted` says that the user ended the work."""

    theta: np.ndarray
    covariance: np.ndarray
    process: ProcessNoise
    measurement: np.ndarray
    rounds: int
    has_settled: bool
    step_error: float
    interrupted: bool


# The phases of `shoot`, for a progress bar.
PHASES = ("paths", "process noise", "finer paths")


def shoot(
    setup: FitSetup,
    problem: Problem,
    starts: np.ndarray,
    report: Callable[[str, np.ndarray], None],
) -> ShootingResult | None:
    """Return the most likely free values, path and noise, from the rows of `starts`;
    None if no start has a finite path.

    `problem` has the fixed values. `report(phase, theta)` is called at the
    end of each phase. If the user interrupts the work, the result is the best so far;
    before there is one, the `KeyboardInterrupt` is passed on."""
    longest = _longest_step(setup, setup.model.free.problem_at(starts[0], problem))
    nodes = place_nodes(setup.data.t, longest, setup.data.T)
    first = [_first_fit(setup, problem, nodes, theta) for theta in starts]
    fits = sorted((fit for fit in first if fit.is_usable), key=deviance)
    if fits:
        report(PHASES[0], fits[0].theta)
    converged = [_alternate(fit, False) for fit in _distinct(fits)]
    converged = [each for each in converged if each.fit.is_usable]
    if not converged:
        return None
    best = min(converged, key=lambda each: deviance(each.fit))
    error, interrupted = np.inf, False
    try:
        best = _with_best_levels(best)
        report(PHASES[1], best.fit.theta)
        best, error = _halve_steps(best)
        report(PHASES[2], best.fit.theta)
    except KeyboardInterrupt:
        interrupted = True
    return _result(best, error, interrupted)


def _with_best_levels(best: "_Alternated") -> "_Alternated":
    """Return the fit with disturbances of constant size, or with some that are a share
    of the state if they are clearly more likely."""
    other = _alternate(best.fit, True)
    if other.fit.is_usable and deviance(other.fit) < deviance(best.fit) - _CLEARLY:
        return other
    return best


def _distinct(fits: Sequence[JointFit]) -> list[JointFit]:
    """Return the best of the fits, at different places."""
    kept: list[JointFit] = []
    for fit in fits:
        if not any(np.allclose(fit.theta, k.theta, rtol=1e-2) for k in kept):
            kept.append(fit)
    return kept[:_SURVIVORS]


# The first fits.


def _first_fit(
    setup: FitSetup, problem: Problem, nodes: PathNodes, theta: np.ndarray
) -> JointFit:
    """Fit with large process noise, and then with the most likely noise. The fit is not
    usable if the start is not."""
    here = setup.model.free.problem_at(theta, problem)
    x = _first_path(setup, here, nodes)
    noise = Noise(first_noise(setup), state_levels(x, False))
    fit = evaluate(joint_problem(setup, nodes), noise, x, theta)
    if not fit.is_usable:
        return fit
    still = np.zeros(len(theta))
    fit = fit_path(fit_path(fit, still, is_held=True), still)
    return _improve_noise(fit, False) if fit.is_usable else fit


def _longest_step(setup: FitSetup, problem: Problem) -> float:
    """Return the longest step between nodes, for the delays of a problem."""
    delays = np.asarray(typical_delays(problem.tau, problem.start))
    spacing = float(np.median(np.diff(np.unique(np.append(0.0, setup.data.t)))))
    fewest = 2 * setup.data.T * setup.model.dimension / _AFFORDABLE
    least = max(spacing / _MOST_PER_SPACING, fewest)
    return max(float(np.min(delays)) / _STEPS_PER_DELAY, least)


def _first_path(setup: FitSetup, problem: Problem, nodes: PathNodes) -> np.ndarray:
    """Return a path: measured states from the data, all others from the equation."""
    data, t = setup.data, np.asarray(nodes.t)[1:]
    observes, start = setup.model.observes, np.asarray(problem.start)
    x = np.broadcast_to(start, (len(t), len(start))).copy()
    if observes or not setup.measured.all():
        solved = np.array(solve(problem, data.T)(t))
        x = solved if np.all(np.isfinite(solved)) else x
    for column in () if observes else np.flatnonzero(setup.measured):
        is_in = np.isfinite(data.x[:, column])
        x[:, column] = np.interp(t, data.t[is_in], data.x[is_in, column])
    return x


# Fit and noise in turn.


@final
@dataclass(frozen=True)
class _Alternated:
    """A fit with its most likely noise; after how many rounds, and whether both have
    converged."""

    fit: JointFit
    is_relative: bool
    rounds: int
    is_ok: bool


def _improve_noise(fit: JointFit, is_relative: bool) -> JointFit:
    """Fit again with the noise that is most likely around a fit."""
    setup = fit.problem.setup
    noise = NoiseLikelihood(fit).best(first_noise(setup), *noise_limits(setup))
    fit = with_noise(fit, replace(noise, level=state_levels(fit.x, is_relative)))
    return fit_path(fit, determinant_slope(fit)) if fit.is_usable else fit


def _alternate(fit: JointFit, is_relative: bool) -> _Alternated:
    """Improve noise and fit in turn until both agree."""
    for rounds in range(1, 1 + _MOST_ROUNDS):
        before, fit = fit, _improve_noise(fit, is_relative)
        if not fit.is_usable:
            return _Alternated(fit, is_relative, rounds, False)
        changed = np.abs(fit.noise.log_sd - before.noise.log_sd)
        is_close = _distance(fit, before.theta) < _CONVERGED
        if rounds > 1 and is_close and np.all(changed < _CONVERGED):
            return _Alternated(fit, is_relative, rounds, True)
    return _Alternated(fit, is_relative, _MOST_ROUNDS, False)


def _distance(fit: JointFit, theta: np.ndarray) -> float:
    """Return the distance of free values from a fit, in standard errors."""
    moved = theta - fit.theta
    return float(np.sqrt(max(moved @ fit.theta_information @ moved, 0.0)))


# Finer steps.


def _halve_steps(found: _Alternated) -> tuple[_Alternated, float]:
    """Return the fit with steps so short that halving them makes no difference, as far
    as the number of unknowns allows, and its last move, in standard errors."""
    error = np.inf
    while True:
        fit = found.fit
        data = fit.problem.setup.data
        longest = float(np.diff(fit.problem.nodes.t).max()) / 2
        nodes = place_nodes(data.t, longest, data.T)
        if len(nodes.t) * fit.x.shape[1] > _AFFORDABLE:
            return found, error
        moved = _on_nodes(fit, nodes, found.is_relative)
        finer = fit_path(moved, determinant_slope(fit)) if moved.is_usable else moved
        if not finer.is_usable:
            return found, np.inf
        error = _distance(finer, fit.theta)
        if error < _STEP_TOLERANCE:
            return found, error
        found, before = _alternate(finer, found.is_relative), found
        if not found.fit.is_usable:
            return before, error


def _on_nodes(fit: JointFit, nodes: PathNodes, is_relative: bool) -> JointFit:
    """Return the same path on other nodes."""
    before = fit.problem.nodes.t
    x = np.stack([np.interp(nodes.t[1:], before, s) for s in fit.states.T], axis=1)
    noise = replace(fit.noise, level=state_levels(x, is_relative))
    return evaluate(replace(fit.problem, nodes=nodes), noise, x, fit.theta)


def _result(found: _Alternated, error: float, interrupted: bool) -> ShootingResult:
    """Return the parts of a fit that are kept."""
    fit, setup = found.fit, found.fit.problem.setup
    shares = np.exp(fit.noise.log_sd[fit.problem.process])
    sd = shares if found.is_relative else shares * fit.noise.level[0]
    is_measured = fit.problem.is_measured
    values = fit.problem.measurement_sd(fit.noise) ** 2 * is_measured
    measurement = np.sqrt(values.sum(axis=0) / np.maximum(is_measured.sum(axis=0), 1))
    minus_two_log = deviance(fit) + np.log(2 * np.pi) * is_measured.sum()
    process = ProcessNoise(
        sd=sd,
        is_relative=found.is_relative,
        levels=len(fit.noise.log_sd),
        log_likelihood=-0.5 * float(minus_two_log),
        t=np.asarray(fit.problem.nodes.t),
        x=fit.states,
        fitted=fit.linear.observed,
        residuals=innovations(fit)[0],
    )
    return ShootingResult(
        fit.theta,
        NoiseLikelihood(fit).covariance(*noise_limits(setup)),
        process,
        np.where(setup.measured, measurement, 1.0),
        found.rounds,
        found.is_ok,
        error,
        interrupted,
    )
