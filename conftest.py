"""Doctests print float64 arrays the same way everywhere."""

import jax.numpy as jnp
import numpy as np
import pytest

import ddefind


@pytest.fixture(autouse=True)
def doctest_names(doctest_namespace):
    doctest_namespace.update(dd=ddefind, np=np, jnp=jnp)
