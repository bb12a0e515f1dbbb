"""Conversion of numbers to the JAX arrays that models and histories hold."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


def as_parameter(value: Any) -> Any:
    """Convert a number, a list of numbers or an array to a floating-point JAX array.

    The result has JAX's default precision. A traced array stays traced. Anything else,
    such as the placeholders that JAX puts into its trees, is returned unchanged.
    """
    if isinstance(value, (bool, np.bool_)) or (
        isinstance(value, (int, float, list, tuple, np.generic, np.ndarray, jax.Array))
    ):
        dtype = jnp.result_type(float)
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.floating):
            return value if value.dtype == dtype else value.astype(dtype)
        # Convert with NumPy first: JAX would compile a program for the conversion.
        return jnp.asarray(np.asarray(value, dtype=float))
    return value


def as_vector_parameter(value: Any) -> Any:
    """Convert as `as_parameter` does, and a single number to a vector of length 1."""
    value = as_parameter(value)
    if isinstance(value, jax.Array) and value.ndim == 0:
        return value.reshape(1)
    return value


def is_parameter(leaf: Any) -> bool:
    """Return whether a leaf of a problem is learned: a floating-point array of JAX. An
    array of NumPy is a table of constants."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating)


def is_traced(tree: Any) -> bool:
    """Return whether JAX traces an array of a tree: for `jax.jit`, or to differentiate
    it."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def is_concrete(value: Any) -> bool:
    """Return whether Python can read the number: it can under `jax.grad`, but not
    under `jax.jit`."""
    try:
        np.asarray(float(value))
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        return False
    return True
