"""What a model predicts at any times, with the derivatives for all free values."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._loss.path_costs import Points
from .._util.buffers import write
from .batches import capacity_for
from .normal_equations import LeastSquaresModel
from .setup import FitSetup


def observed(
    model: LeastSquaresModel, theta, times: np.ndarray, n: int, k: int
) -> np.ndarray:
    """The k observed quantities at each of the `times`, which may be in any order: an
    array (len(times), k, 1 + p), values and then derivatives. There are n steps in a
    delay or, on a mesh, in the record."""
    order = np.argsort(times, kind="stable")
    # A power of two, so that few programs are compiled for many numbers of times.
    size = 1 << max(len(times) - 1, 63).bit_length()
    padded = np.pad(times[order], (0, size - len(times)), mode="edge")
    capacity = capacity_for(model, n, float(padded[-1]))
    in_order = np.asarray(_observed(model, theta, padded, n, k, capacity))
    result = np.empty_like(in_order[: len(times)])
    result[order] = in_order[: len(times)]
    return result


def observed_at_data(setup: FitSetup, theta: np.ndarray, n: int) -> np.ndarray:
    """What is observed at the times of the data, in the shape of these, with the
    derivatives for all free values in a last axis: (N, k, 1 + p)."""
    k, p = len(setup.data.names), len(theta)
    if setup.joint is None:
        return observed(setup.model, theta, setup.data.t, n, k)
    values = []
    for e, part in enumerate(setup.parts):
        own = observed(part.model, setup.local(theta, e), part.data.t, n, k)
        joint, place = np.zeros((*own.shape[:2], 1 + p)), setup.joint.place[e]
        joint[..., 0] = own[..., 0]
        local = np.flatnonzero(place >= 0)
        joint[..., 1 + place[local]] = own[..., 1 + local]
        values.append(joint)
    return np.concatenate(values)


@eqx.filter_jit
def _observed(
    model: LeastSquaresModel, theta, times, n, k: int, capacity: int
) -> jax.Array:
    """The same for `times` in order, compiled."""
    steps = model.steps(theta, n, times[-1], capacity)
    sensitivity = model.sensitivity(theta, steps, times[-1])
    points = Points(times, times, times)
    rows = jnp.zeros((times.shape[0], k, 1 + theta.shape[0]))
    memory = sensitivity.memory(capacity)
    return sensitivity.visit(points, (0, times.shape[0]), memory, write, rows)[0]
