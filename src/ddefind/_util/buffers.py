"""Reading and writing rows of a buffer, in the ways that XLA compiles without copies.

Buffers have time first and, where many fits run side by side, one lane per fit last:
`[rows, ..., d]` or `[rows, ..., d, lanes]`. A row is everything at one time.
"""

import jax.numpy as jnp
from jax import lax


def read(buffer, i):
    """Row `i`, the same for every lane."""
    return lax.dynamic_index_in_dim(
        buffer, i, 0, keepdims=False, allow_negative_indices=False
    )


def write(buffer, i, row):
    """The buffer with row `i` replaced."""
    return lax.dynamic_update_index_in_dim(
        buffer, row, i, 0, allow_negative_indices=False
    )


def take(table, j):
    """Row `j` of a table, where `j` may be one index for each lane."""
    if jnp.ndim(j) == 0:
        return read(table, j)
    index = j.reshape((1,) * (table.ndim - 1) + j.shape)
    return jnp.take_along_axis(
        table, index, axis=0, mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS
    )[0]
