"""The levels of the noise: which there are, where they begin, and their limits."""

import numpy as np

from .._data.smoothing import rough_noise, spread
from .._least_squares.setup import FitSetup
from .joint_fit import JointProblem
from .nodes import Nodes

# A state near zero has relative disturbances as if it were this share of its mean.
_SMALLEST_LEVEL = 0.05
# The process noise is looked for from this share of what it would be if neighbouring
# values differed by disturbances alone, and up to this multiple of it; and the
# measurement noise between these multiples of the spread of the data.
_LEAST_NOISE, _MOST_NOISE = 1e-3, 30.0


def joint_problem(setup: FitSetup, nodes: Nodes) -> JointProblem:
    """The problem of a path on these nodes. Each measured state has process noise of
    its own; all others, and all states if the data are functions of them, have that of
    the first one, as a share of their levels."""
    measured = setup.measured
    process = np.zeros(setup.model.dimension, int)
    if not setup.model.observes:
        process[measured] = np.arange(measured.sum())
    measurement = np.full(len(measured), -1)
    if setup.data.sd is None:
        measurement[measured] = process.max() + 1 + np.arange(measured.sum())
    return JointProblem(setup, nodes, process, measurement)


def state_levels(x: np.ndarray, is_relative: bool) -> np.ndarray:
    """The level of each state in each step, of which the process noise is a share: the
    mean of the state's size, or its own size at the beginning of the step."""
    mean = np.mean(np.abs(x), axis=0)
    mean = np.where(mean > 0, mean, 1.0)
    if not is_relative:
        return np.broadcast_to(mean, x.shape)
    begins = np.abs(np.concatenate([x[:1], x[:-1]]))
    return np.maximum(begins, _SMALLEST_LEVEL * mean)


def first_noise(setup: FitSetup) -> np.ndarray:
    """The logarithms of the noise to begin with: large process noise, and measurement
    noise as the scatter of neighbouring values shows it."""
    data = setup.data
    rough = np.maximum(rough_noise(data), _LEAST_NOISE * spread(data))
    return np.log(np.concatenate([_largest_process(setup), _unknown(setup, rough)]))


def noise_limits(setup: FitSetup) -> tuple[np.ndarray, np.ndarray]:
    """Between which logarithms the noise is looked for."""
    size = _unknown(setup, spread(setup.data))
    largest = np.concatenate([_largest_process(setup), size])
    return np.log(_LEAST_NOISE * largest), np.log(_MOST_NOISE * largest)


def _unknown(setup: FitSetup, sizes: np.ndarray) -> np.ndarray:
    """Of one number for each quantity, those whose measurement noise is unknown."""
    return sizes[setup.measured & (setup.data.sd is None)]


def _largest_process(setup: FitSetup) -> np.ndarray:
    """Each level of process noise as it would be if neighbouring values differed by
    disturbances alone, as a share of the mean size of the values."""
    data, largest = setup.data, []
    for column in np.flatnonzero(setup.measured):
        is_in = np.isfinite(data.x[:, column])
        t, values = data.t[is_in], data.x[is_in, column]
        variance = np.sum(np.diff(values) ** 2) / max(t[-1] - t[0], 1e-300)
        least = 1e-6 * spread(data)[column] / np.sqrt(data.T)
        size = np.mean(np.abs(values))
        largest.append(max(np.sqrt(variance), least) / (size if size > 0 else 1.0))
    return np.array([max(largest)] if setup.model.observes else largest)
