"""The path of a fit with process noise: at any time, with its standard deviation."""

from dataclasses import replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .._least_squares.setup import FitSetup
from .defects import read_path
from .joint_fit import JointFit, Noise, evaluate, fit_path
from .nodes import nodes_at, place_nodes
from .noise_levels import joint_problem, state_levels
from .process_noise import ProcessNoise


def rebuild(
    setup: FitSetup, theta: np.ndarray, process: ProcessNoise, measurement: np.ndarray
) -> JointFit:
    """The fit of a path, from what was kept of it; `measurement` are the standard
    deviations of the quantities."""
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
    """The observed quantities of a path and their standard deviations, [times, k].

    Beyond the data the path goes on without disturbances, and its standard deviation
    grows by those that are to be expected."""
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
    """The path up to a time beyond the data, with the noise and the free values as they
    are."""
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
