"""Reading and writing rows of a buffer inside compiled loops.

A buffer is an array whose first axis is time and whose last axis, where many fits run
as vectorised lanes, is the lane: shape `[rows, ..., d]` or `[rows, ..., d, lanes]`. A
row is everything at one time. These functions use the operations that XLA compiles
without copying the buffer.
"""

import jax
import jax.numpy as jnp
from jax import lax


def read(buffer: jax.Array, i: jax.Array | int) -> jax.Array:
    """Return row `i`, the same row for every lane."""
    return lax.dynamic_index_in_dim(
        buffer, i, 0, keepdims=False, allow_negative_indices=False
    )


def write(buffer: jax.Array, i: jax.Array | int, row: jax.Array) -> jax.Array:
    """Return the buffer with row `i` replaced by `row`."""
    return lax.dynamic_update_index_in_dim(
        buffer, row, i, 0, allow_negative_indices=False
    )


def take(table: jax.Array, j: jax.Array) -> jax.Array:
    """Return row `j`, where `j` is one index, or a vector with one index per lane.

    The indices must lie within the table: they are not checked.
    """
    if jnp.ndim(j) == 0:
        return read(table, j)
    index = j.reshape((1,) * (table.ndim - 1) + j.shape)
    return jnp.take_along_axis(
        table, index, axis=0, mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS
    )[0]
