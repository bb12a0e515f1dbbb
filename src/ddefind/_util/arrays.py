"""Small conversions that every module needs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def as_parameter(value: Any) -> Any:
    """A number or array as a floating-point JAX array; what is traced stays traced."""
    if isinstance(value, (bool, np.bool_)) or (
        isinstance(value, (int, float, list, tuple, np.generic, np.ndarray, jax.Array))
    ):
        wanted = jnp.result_type(float)
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.floating):
            return value if value.dtype == wanted else value.astype(wanted)
        # numpy first: an eager JAX operation would be compiled for itself.
        return jnp.asarray(np.asarray(value, dtype=float))
    return value


def as_vector_parameter(value: Any) -> Any:
    """As `as_parameter`, with a number promoted to a vector of one component."""
    value = as_parameter(value)
    if isinstance(value, jax.Array) and value.ndim == 0:
        return value.reshape(1)
    return value


def is_concrete(value: Any) -> bool:
    """Whether Python may look at the number (true under `grad`, not under `jit`)."""
    try:
        np.asarray(float(value))
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        return False
    return True
