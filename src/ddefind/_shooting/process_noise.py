r"""The process noise of a fit: its levels, the innovations, and the path.

An innovation is a value less its expectation from the values before it. Around the best
path the values y are linear in the defects w and in the measurement noise e, so that
their covariance is

$$\Sigma = B\,D\,B^T + R, \qquad B = O\,W^{-1},$$

with the derivatives W of the defects and O of the observed values for the path, and the
variances D and R of defects and measurements. With the Cholesky factor L of $\Sigma$,
in the order of time, the innovations are $L^{-1}(y - \hat y)$, where $\hat y$ is the
path without any disturbance. If the model is right they are independent, with the
variance one."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from .._data.smoothing import rough_noise, spread
from .._search.setup import FitSetup
from .defects import PathNodes, nodes_at, place_nodes, read_path
from .joint_fit import JointFit, JointProblem, Noise, evaluate, fit_path


@final
@dataclass(frozen=True)
class ProcessNoise:
    r"""The process noise of a fit, and the path that the system took.

    The system follows $dx = F\,dt + \sigma\,dW$.

    - `sd`: $\sigma$ of each state, per square root of time; if `is_relative`, it is a
      share of the state.
    - `levels`: the number of estimated standard deviations, with the measurement noise.
    - `log_likelihood`: of the data, averaged over all paths. - `t`, `x`: the most
    likely path, by its states at the nodes. - `fitted`: its values at the times of the
    data, of the shape of `data.x`. - `residuals`: each measured value less its
    expectation from the values before it, in
      standard deviations. If the model is right, they are independent."""

    sd: np.ndarray
    is_relative: bool
    levels: int
    log_likelihood: float
    t: np.ndarray
    x: np.ndarray
    fitted: np.ndarray
    residuals: np.ndarray


# A state near zero has relative disturbances as if it were this share of its mean.
_SMALLEST_LEVEL = 0.05
# The process noise is searched between these multiples of the noise that would alone
# explain the differences of neighbouring values, and the measurement noise between
# these multiples of the spread of the data.
_LEAST_NOISE, _MOST_NOISE = 1e-3, 30.0


def joint_problem(setup: FitSetup, nodes: PathNodes) -> JointProblem:
    """Return the problem of a path on these nodes. Each measured state has its own
    process noise; all others, and all states if the data are functions of states, have
    the noise of the first one, as a share of their levels."""
    measured = setup.measured
    process = np.zeros(setup.model.dimension, int)
    if not setup.model.observes:
        process[measured] = np.arange(measured.sum())
    measurement = np.full(len(measured), -1)
    if setup.data.sd is None:
        measurement[measured] = process.max() + 1 + np.arange(measured.sum())
    return JointProblem(setup, nodes, process, measurement)


def state_levels(x: np.ndarray, is_relative: bool) -> np.ndarray:
    """Return the level of each state in each step, of which the process noise is a
    share: its mean size, or its size at the beginning of the step."""
    mean = np.mean(np.abs(x), axis=0)
    mean = np.where(mean > 0, mean, 1.0)
    if not is_relative:
        return np.broadcast_to(mean, x.shape)
    begins = np.abs(np.concatenate([x[:1], x[:-1]]))
    return np.maximum(begins, _SMALLEST_LEVEL * mean)


def first_noise(setup: FitSetup) -> np.ndarray:
    """Return the logarithms of the first noise: large process noise, and measurement
    noise from the scatter of neighbouring values."""
    data = setup.data
    rough = np.maximum(rough_noise(data), _LEAST_NOISE * spread(data))
    return np.log(np.concatenate([_largest_process(setup), _unknown(setup, rough)]))


def noise_limits(setup: FitSetup) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest logarithms of the noise."""
    size = _unknown(setup, spread(setup.data))
    largest = np.concatenate([_largest_process(setup), size])
    return np.log(_LEAST_NOISE * largest), np.log(_MOST_NOISE * largest)


def _unknown(setup: FitSetup, sizes: np.ndarray) -> np.ndarray:
    """Return the sizes of the quantities whose measurement noise is unknown."""
    return sizes[setup.measured & (setup.data.sd is None)]


def _largest_process(setup: FitSetup) -> np.ndarray:
    """Return the process noise that would alone explain the differences of neighbouring
    values, as a share of their mean size."""
    data, largest = setup.data, []
    for column in np.flatnonzero(setup.measured):
        is_in = np.isfinite(data.x[:, column])
        t, values = data.t[is_in], data.x[is_in, column]
        variance = np.sum(np.diff(values) ** 2) / max(t[-1] - t[0], 1e-300)
        least = 1e-6 * spread(data)[column] / np.sqrt(data.T)
        size = np.mean(np.abs(values))
        largest.append(max(np.sqrt(variance), least) / (size if size > 0 else 1.0))
    return np.array([max(largest)] if setup.model.observes else largest)


def innovations(fit: JointFit) -> tuple[np.ndarray, np.ndarray]:
    """Return the innovations, [N, k], NaN where nothing was measured, and their
    derivatives for the free values, [N, k, p]."""
    problem, size, linear = fit.problem, fit.problem.size, fit.linear
    is_in = problem.is_measured
    defects = linear.defect_jacobian.reshape(size, -1)
    values = linear.observed_jacobian[is_in]
    # Causes that move the path: the defects, each free value, and unit noise.
    process = problem.process_sd(fit.noise).ravel()
    causes = np.column_stack(
        [linear.defects.ravel(), defects[:, size:], np.diag(process)]
    )
    moved = values[:, :size] @ np.linalg.solve(defects[:, :size], causes)
    p = len(fit.theta)
    expected = linear.observed[is_in] - moved[:, 0]
    slopes = values[:, size:] - moved[:, 1 : 1 + p]
    response = moved[:, 1 + p :]
    sd = problem.measurement_sd(fit.noise)[is_in]
    factor = np.linalg.cholesky(response @ response.T + np.diag(sd**2))
    away = np.column_stack([problem.setup.data.x[is_in] - expected, slopes])
    whitened = solve_triangular(factor, away, lower=True)
    result = np.full((*is_in.shape, 1 + p), np.nan)
    result[is_in] = whitened
    return result[..., 0], result[..., 1:]


def rebuild(
    setup: FitSetup, theta: np.ndarray, process: ProcessNoise, measurement: np.ndarray
) -> JointFit:
    """Return the fit of a kept path; `measurement` are the standard deviations of the
    quantities."""
    joint = joint_problem(setup, nodes_at(process.t, setup.data.t))
    x = process.x[1:]
    level = state_levels(x, process.is_relative)
    shares = process.sd if process.is_relative else process.sd / level[0]
    log_sd = np.zeros(process.levels)
    log_sd[joint.process] = np.log(shares)
    is_unknown = joint.measurement >= 0
    log_sd[joint.measurement[is_unknown]] = np.log(measurement[is_unknown])
    return evaluate(joint, Noise(log_sd, level), x, theta)


def path_at(
    fit: JointFit, is_relative: bool, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the observed quantities of a path and their standard deviations,
    [times, k].

    Beyond the data the path goes on without disturbances, and its standard deviation
    grows by the expected ones."""
    setup = fit.problem.setup
    end = float(times.max())
    if end > setup.data.T:
        fit = _extended(fit, is_relative, end)
    mean, slopes = read_path(setup.model, fit.problem.nodes, fit.x, fit.theta, times)
    factor = cho_factor(fit.information, lower=True)
    flat = slopes.reshape(-1, slopes.shape[-1])
    variance = np.sum(flat * cho_solve(factor, flat.T).T, axis=1)
    return mean, np.sqrt(np.maximum(variance, 0.0)).reshape(mean.shape)


def _extended(fit: JointFit, is_relative: bool, end: float) -> JointFit:
    """Return the path up to a time beyond the data, with the same noise and values."""
    problem, count = fit.problem, len(fit.x)
    longest = float(np.diff(problem.nodes.t).max())
    later = place_nodes(np.array([problem.nodes.t[-1]]), longest, end)
    new = later.t[later.t > problem.nodes.t[-1]]
    nodes = nodes_at(np.append(problem.nodes.t, new), problem.setup.data.t)
    joint = replace(problem, nodes=nodes)
    x = np.concatenate([fit.x, np.repeat(fit.x[-1:], len(new), axis=0)])
    level = np.concatenate(
        [fit.noise.level, np.repeat(fit.noise.level[-1:], len(new), 0)]
    )
    longer = evaluate(joint, replace(fit.noise, level=level), x, fit.theta)
    still = np.zeros(len(fit.theta))
    longer = fit_path(longer, still, is_held=True)
    if is_relative:
        level = np.concatenate([level[:count], state_levels(longer.x, True)[count:]])
        noise = replace(fit.noise, level=level)
        longer = fit_path(evaluate(joint, noise, longer.x, fit.theta), still, True)
    return longer
