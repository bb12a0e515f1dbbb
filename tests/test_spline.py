"""The target is scipy's not-a-knot cubic spline, evaluated in JAX."""

from functools import partial

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.interpolate import CubicSpline

import ddefind as dd

RANDOM = np.random.default_rng(4)
TIMES = {
    "uniform": np.linspace(0, 10, 101),
    "uniform from 2": np.linspace(2, 7, 11),
    "uneven": np.sort(RANDOM.uniform(0, 10, 30)),
    "nearly uniform": np.linspace(0, 10, 11) + 1e-6 * RANDOM.uniform(0, 1, 11),
    "two": np.array([1.0, 3.0]),
    "three": np.array([0.0, 1.0, 3.0]),
    "four": np.array([0.0, 1.0, 3.0, 3.5]),
    "clustered": np.array([0.0, 1e-6, 2e-6, 1.0, 5.0, 5.0 + 1e-6]),
}


@eqx.filter_jit
def evaluate(spline, t):
    return jax.vmap(spline)(t)


def close(found, expected):
    size = np.max(np.abs(expected), initial=1e-300)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12 * size)


@pytest.mark.parametrize("key", TIMES)
def test_a_spline_is_scipys(key):
    t = TIMES[key]
    x = RANDOM.normal(size=(len(t), 2))
    spline = partial(evaluate, dd.spline(dd.Data(t, x)))
    expected = CubicSpline(t, x)
    inside = np.linspace(t[0], t[-1], 301)
    close(spline(inside), expected(inside))
    close(spline(t), x)
    # Beyond the data the end pieces go on.
    width = t[-1] - t[0]
    outside = np.array([t[0] - 0.1 * width, t[-1] + 1e-9, t[-1] + 0.1 * width])
    close(spline(outside), expected(outside))


def test_a_time_may_stand_alone():
    data = dd.Data([0, 1, 2, 4], [1, 3, 2, 0])
    found = dd.spline(data)(1.5)
    assert found.shape == (1,)
    np.testing.assert_allclose(found[0], CubicSpline(data.t, data.x[:, 0])(1.5))


def test_replicates_are_averaged():
    data = dd.Data([0, 1, 1, 1, 2, 3], [0, 1, 2, 6, 1, 0])
    expected = CubicSpline([0, 1, 2, 3], [0, 3, 1, 0])
    t = np.linspace(0, 3, 31)
    close(evaluate(dd.spline(data), t)[:, 0], expected(t))


def test_each_quantity_has_the_knots_where_it_was_measured():
    t = np.arange(9.0)
    x = RANDOM.normal(size=(9, 3))
    x[[0, 3, 8], 0] = np.nan
    x[2:, 1] = np.nan
    spline = partial(evaluate, dd.spline(dd.Data(t, x)))
    times = np.linspace(-0.5, 8.5, 91)
    for column in range(3):
        here = np.isfinite(x[:, column])
        close(spline(times)[:, column], CubicSpline(t[here], x[here, column])(times))


@pytest.mark.parametrize(
    "t, column",
    [
        ([0, 1, 2], [np.nan, np.nan, 3]),
        ([0, 1, 2], [np.nan] * 3),
        ([0, 1, 1], [np.nan, 3, 4]),  # replicates at one time
    ],
)
def test_it_needs_two_times_for_each_quantity(t, column):
    data = dd.Data(t, np.stack([[1, 2, 3], column], axis=1), names=["a", "b"])
    with pytest.raises(dd.DataError, match="'b' is measured at [01].*SumOfSquares"):
        dd.spline(data)
    with pytest.raises(dd.DataError, match="'b' is measured at"):
        dd.Integral().prepare(data)


@given(
    st.lists(st.integers(0, 1000), min_size=8, max_size=8, unique=True),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=30, deadline=None)
def test_it_passes_through_the_data(times, seed):
    t = np.sort(times) / 100
    x = np.random.default_rng(seed).normal(size=len(t))
    spline = dd.spline(dd.Data(t, x))
    found = evaluate(spline, t)[:, 0]
    rough = np.max(np.abs(spline.coefficients))
    np.testing.assert_allclose(found, x, rtol=0, atol=1e-13 * max(1.0, rough))


def test_its_derivatives_are_scipys():
    t, x = TIMES["uneven"], np.sin(TIMES["uneven"])
    spline, expected = dd.spline(dd.Data(t, x)), CubicSpline(t, x)
    times = np.linspace(0.1, 9.9, 57)
    slope = jax.vmap(jax.grad(lambda s: spline(s)[0]))
    curvature = jax.vmap(jax.grad(jax.grad(lambda s: spline(s)[0])))
    close(slope(times), expected(times, 1))
    np.testing.assert_allclose(curvature(times), expected(times, 2), rtol=1e-8)
