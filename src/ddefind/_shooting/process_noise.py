"""What a fit with process noise found beside the free values."""

from dataclasses import dataclass
from typing import final

import numpy as np


@final
@dataclass(frozen=True)
class ProcessNoise:
    r"""The process noise of a fit, and the path that the system took.

    The system follows $dx = F\,dt + \sigma\,dW$.

    - `sd`: $\sigma$ of each state, per square root of time; if `is_relative`, it is a
      share of the state.
    - `levels`: how many standard deviations were estimated, those of the measurement
      noise among them.
    - `log_likelihood`: of the data, with all paths averaged.
    - `t`, `x`: the most likely path, by its states at the nodes.
    - `fitted`: what it says at the times of the data, of the shape of `data.x`.
    - `residuals`: each measured value less what the model expected from the values
      before it, in units of its standard deviation. If the model is right, they are
      independent."""

    sd: np.ndarray
    is_relative: bool
    levels: int
    log_likelihood: float
    t: np.ndarray
    x: np.ndarray
    fitted: np.ndarray
    residuals: np.ndarray
