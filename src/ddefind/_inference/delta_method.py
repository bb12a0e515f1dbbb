r"""The delta method: how sure a function of the parameters is.

With the gradient $g$ of the function and the covariance $C = H H^T$ of the estimates
its variance is $g^T C g = |H^T g|^2$. A function that moves along a direction which the
data do not determine is not determined itself; the same parameters in a combination
that does not move are."""

from typing import NamedTuple

import numpy as np

from .covariance import Uncertainty

# An undetermined parameter matters if moving it by its own size moves the function by
# more than this share of its standard deviation, or of its unit.
_MATTERS = 1e-3


class Propagated(NamedTuple):
    """`sd` is the standard deviation, of the shape of the functions; `moved`, with a
    last axis over the free values, says which of the undetermined ones matter."""

    sd: np.ndarray
    moved: np.ndarray


def propagate(
    uncertainty: Uncertainty, gradient: np.ndarray, unit: np.ndarray | float
) -> Propagated:
    """The uncertainty of functions of the free values, whose gradients are the last
    axis of `gradient`; `unit` is what counts as a small change of them."""
    sd = np.linalg.norm(gradient @ uncertainty.half, axis=-1)
    small = _MATTERS * np.maximum(sd, unit)[..., None]
    size = np.maximum(np.abs(uncertainty.theta), 1e-3)
    silent = (uncertainty.scale == 0) & (np.abs(gradient) * size > small)
    moved = silent.copy()
    for direction in uncertainty.undetermined.T:
        # In units of each value's influence; of the length that one of them doubles.
        step = np.divide(
            direction,
            uncertainty.scale,
            out=np.zeros_like(direction),
            where=uncertainty.scale > 0,
        )
        step = step / max(np.max(np.abs(step) / size), 1e-300)
        part = np.abs(direction) > 1e-4
        moved |= (np.abs(gradient @ step)[..., None] > small) & part
    if uncertainty.noise_unknown:
        moved |= gradient != 0
    return Propagated(sd, moved)
