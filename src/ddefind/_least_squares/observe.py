"""What a model says at any times, with its derivatives for all free values."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._loss.path_costs import Points
from .._util.buffers import write
from .batches import capacity_for
from .normal_equations import Model
from .sensitivity import visit


def observed(model: Model, theta, times: np.ndarray, n: int, k: int) -> np.ndarray:
    """The k observed quantities at each of the `times`, in any order, as an array
    (len(times), k, 1 + p): values, then derivatives. n are the steps in a delay."""
    order = np.argsort(times, kind="stable")
    # Few different programs, however many times are asked for.
    size = 1 << max(len(times) - 1, 63).bit_length()
    padded = np.pad(times[order], (0, size - len(times)), mode="edge")
    found = np.asarray(_march(model, theta, padded, n, k, capacity_for(n)))
    seen = np.empty_like(found[: len(times)])
    seen[order] = found[: len(times)]
    return seen


@eqx.filter_jit
def _march(model: Model, theta, times, n, k: int, capacity: int):
    extended = model.extended(theta, n, times[-1])
    points = Points(times, times, times)
    rows = jnp.zeros((times.shape[0], k, 1 + theta.shape[0]))
    ring = extended.ring(capacity)
    return visit(extended, points, ring, lambda rows, j, x: write(rows, j, x), rows)[0]
