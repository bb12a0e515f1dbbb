r"""The delta method: how precise a function of the parameters is.

With the gradient $g$ of the function and the covariance $C = H H^T$ of the estimates,
the variance of the function is $g^T C g = |H^T g|^2$. A function that changes along a
direction that the data do not determine is itself not determined. A combination of the
same parameters that does not change along that direction is determined."""

from typing import NamedTuple

import numpy as np

from .covariance import Uncertainty

# A change of the function matters if it is larger than this share of its standard
# deviation, or of the unit in which it is measured.
_SMALLEST_CHANGE = 1e-3


class Propagated(NamedTuple):
    """The uncertainty of functions of the free values.

    `sd` has the shape of the functions and holds their standard deviations. `moved` has
    a last axis over the free values, and is true for the undetermined values that a
    function depends on."""

    sd: np.ndarray
    moved: np.ndarray


def propagate(
    uncertainty: Uncertainty, gradient: np.ndarray, unit: np.ndarray | float
) -> Propagated:
    """The uncertainty of functions with the given gradients for the free values (the
    last axis of `gradient`). `unit` is the scale on which a change of a function is
    noticeable, such as the noise.

    Undetermined values are tested by a change of their own size, undetermined
    directions by the step that doubles one of the values."""
    sd = np.linalg.norm(gradient @ uncertainty.covariance_factor, axis=-1)
    smallest = _SMALLEST_CHANGE * np.maximum(sd, unit)[..., None]
    size = np.maximum(np.abs(uncertainty.theta), 1e-3)
    moved = (uncertainty.sensitivity_norms == 0) & (np.abs(gradient) * size > smallest)
    for direction in uncertainty.undetermined.T:
        # Its elements are changes of the values multiplied by their sensitivity norms.
        step = np.divide(
            direction,
            uncertainty.sensitivity_norms,
            out=np.zeros_like(direction),
            where=uncertainty.sensitivity_norms > 0,
        )
        step = step / max(np.max(np.abs(step) / size), 1e-300)
        takes_part = np.abs(direction) > 1e-4
        moved |= (np.abs(gradient @ step)[..., None] > smallest) & takes_part
    if uncertainty.noise_unknown:
        moved |= gradient != 0
    return Propagated(sd, moved)
