"""What all tests and doctests share.

Compiled programs are kept in `.jax_cache`, so that the workers of a run, the processes
that tests start, and later runs need not compile them again."""

import os
from pathlib import Path

# JAX reads these when it is imported; a cache of the user's own is kept.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent / ".jax_cache")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

import ddefind  # noqa: E402


@pytest.fixture(autouse=True)
def doctest_names(doctest_namespace):
    """Doctests print float64 arrays the same way everywhere."""
    doctest_namespace.update(dd=ddefind, np=np, jnp=jnp)
