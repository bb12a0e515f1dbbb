"""JAX arrays: conversion of numbers, and rows of a buffer inside compiled loops.

A buffer is an array whose first axis is time and whose last axis, where many fits run
as vectorised lanes, is the lane: shape `[rows, ..., d]` or `[rows, ..., d, lanes]`. A
row is everything at one time. `read`, `write` and `take` use the operations that XLA
compiles without copying the buffer."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer


def as_parameter(value: Any) -> Any:
    """Convert a number, a list of numbers or an array to a floating-point JAX array of
    the default precision. A traced array stays traced. Anything else, such as the
    placeholders that JAX puts into its trees, is returned unchanged."""
    numbers = (int, float, list, tuple, np.generic, np.ndarray, jax.Array)
    if not isinstance(value, numbers):
        return value
    dtype = jnp.result_type(float)
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.floating):
        return value if value.dtype == dtype else value.astype(dtype)
    # Convert with NumPy first: JAX would compile a program for the conversion.
    return jnp.asarray(np.asarray(value, dtype=float))


def as_vector_parameter(value: Any) -> Any:
    """Convert as `as_parameter` does, and a single number to a vector of length 1."""
    value = as_parameter(value)
    if isinstance(value, jax.Array) and value.ndim == 0:
        return value.reshape(1)
    return value


def is_parameter(leaf: Any) -> bool:
    """Whether a leaf of a problem is learned: a floating-point array of JAX. An array
    of NumPy is a table of constants."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating)


def is_traced(tree: Any) -> bool:
    """Whether JAX traces an array of a tree: for `jax.jit`, or to differentiate it."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def is_concrete(value: Any) -> bool:
    """Whether Python can read the number, as under `jax.grad`, but not `jax.jit`."""
    try:
        np.asarray(float(value))
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        return False
    return True


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
    """Return row `j`: one index, or a vector with one index per lane. The indices must
    lie within the table; they are not checked."""
    if jnp.ndim(j) == 0:
        return read(table, j)
    index = j.reshape((1,) * (table.ndim - 1) + j.shape)
    return jnp.take_along_axis(
        table, index, axis=0, mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS
    )[0]
