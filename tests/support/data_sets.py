"""Making data sets, and checking what one holds."""

import numpy as np

import ddefind as dd


def simulated(problem, t, noise=0.0, seed=0, relative=False, **fields):
    """The solution of a problem at some times, with normal noise of this size, or of so
    many times its spread."""
    x = np.asarray(dd.solve(problem, float(t[-1]))(t))
    noise = noise * np.std(x) if relative else noise
    random = np.random.default_rng(seed).normal(size=x.shape)
    return dd.Data(t, x + noise * random, **fields)


def equal_data(data, t, x, names=("x",)):
    """Check what a data set holds; a vector `x` is one quantity."""
    np.testing.assert_array_equal(data.t, t)
    x = np.asarray(x, float)
    np.testing.assert_array_equal(data.x, x[:, None] if x.ndim == 1 else x)
    assert data.names == tuple(names)
