"""Checking what a data set holds."""

import numpy as np


def equal_data(data, t, x, names=("x",)):
    """Check what a data set holds; a vector `x` is one quantity."""
    np.testing.assert_array_equal(data.t, t)
    x = np.asarray(x, float)
    np.testing.assert_array_equal(data.x, x[:, None] if x.ndim == 1 else x)
    assert data.names == tuple(names)
