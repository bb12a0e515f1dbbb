"""Gamma and uniform distributions of delays, against independent solutions."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import ddefind as dd
from support.collocation import reference

RATE, MEAN = 1.3, 1.0
TIMES = np.arange(1, 25) / 2


def invert(shape: float, times: np.ndarray) -> np.ndarray:
    """x, dx/dmean and dx/dshape of x' = -c y at the times, [3, times], where y has a
    gamma-distributed delay of mean m and shape k, and x = 1 before time zero.

    With G(s) = (k / (k + m s))^k the transform of x - 1 is -c / (s (s + c G)), and its
    derivatives follow from those of G. Talbot's method inverts them with 30 digits; the
    result agrees with that of 40 digits and twice the degree to 13 digits."""
    c, m, k = mp.mpf(str(RATE)), mp.mpf(str(MEAN)), mp.mpf(str(shape))

    def transforms(s):
        ratio = k / (k + m * s)
        G = ratio**k
        on_mean = -G * k * s / (k + m * s)
        on_shape = G * (mp.log(ratio) + m * s / (k + m * s))
        change = c**2 / (s * (s + c * G) ** 2)
        return -c / (s * (s + c * G)), change * on_mean, change * on_shape

    def inverse(n, t):
        return mp.invertlaplace(
            lambda s: transforms(s)[n], mp.mpf(str(t)), method="talbot", degree=60
        )

    with mp.workdps(30):
        found = np.array([[inverse(n, t) for t in times] for n in range(3)], float)
    return found + np.array([[1.0], [0.0], [0.0]])


@pytest.mark.parametrize("shape", [1.4, 2.7, 6.5])
def test_gamma_distributions_agree_with_laplace_inversion(shape):
    x, on_mean, on_shape = invert(shape, TIMES)

    def states(numbers):
        tau = dd.GammaDelay(*numbers)
        problem = dd.Problem(lambda x, y, tau, t: -RATE * y, dd.Constant(1.0), tau)
        return dd.solve(problem, 12.0, dd.Tsit5(1e-8), differentiate="forward")(TIMES)

    at = jnp.array([MEAN, shape])
    assert np.abs(states(at)[:, 0] - x).max() < 1e-5
    found = np.asarray(jax.jit(jax.jacfwd(states))(at))[:, 0].T
    for derivative, expected in zip(found, (on_mean, on_shape)):
        assert np.abs(derivative - expected).max() < 1e-3 * np.abs(expected).max()


def test_the_inversion_is_that_of_an_ordinary_equation_for_shape_one():
    """x' = -c y, y' = (x - y) / m."""
    matrix = np.array([[0.0, -RATE], [1 / MEAN, -1 / MEAN]])
    rates, vectors = np.linalg.eig(matrix)
    weights = np.linalg.solve(vectors, np.ones(2))
    times = TIMES[::6]
    exact = ((vectors[0] * weights) * np.exp(np.outer(times, rates))).sum(1).real
    np.testing.assert_allclose(invert(1.0, times)[0], exact, atol=1e-13)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.5), (0.4, 0.5), (0.3, 2.0)])
@pytest.mark.parametrize("rate", [-0.7, 0.3])
@pytest.mark.slow
def test_uniform_windows_have_exponential_solutions(low, high, rate):
    """x = e^(l t) solves x' = a x + c y if l = a + c (e^(-l low) - e^(-l high)) / (l
    (high - low)), with this history."""
    mean = (np.exp(-rate * low) - np.exp(-rate * high)) / (rate * (high - low))
    a, times = -0.2, np.linspace(0.1, 5.0, 30)
    problem = dd.Problem(
        lambda x, y, tau, t: a * x + (rate - a) / mean * y,
        lambda t: jnp.exp(rate * t)[None],
        dd.UniformDelay(low, high),
    )
    found = dd.solve(problem, 5.0, dd.Tsit5(1e-8))(times)[:, 0]
    np.testing.assert_allclose(found, np.exp(rate * times), rtol=3e-7)


def test_a_uniform_window_is_the_difference_of_two_delays():
    """The mean of the window as a second state, with two constant delays."""
    low, high, times = 0.3, 1.4, np.linspace(0.1, 6.0, 40)

    def rhs(x, y, tau, t):
        window = (y[0][0] - y[1][0]) / (high - low)
        return jnp.stack([-1.2 * x[1] * (1 + 0.3 * x[0]), window])

    pair = dd.Problem(rhs, dd.Constant([1.0, 1.0]), (low, high))
    expected = reference(pair, 6.0, 1e-11)(times)[:, 0]
    problem = dd.Problem(
        lambda x, y, tau, t: -1.2 * y * (1 + 0.3 * x),
        dd.Constant(1.0),
        dd.UniformDelay(low, high),
    )
    found = dd.solve(problem, 6.0, dd.Tsit5(1e-8))(times)[:, 0]
    assert np.abs(found - expected).max() < 1e-6


def test_the_mean_of_a_distribution_is_its_delay():
    """`rhs` gets the mean for `tau`."""
    for tau, mean in ((dd.GammaDelay(1.5, 3.2), 1.5), (dd.UniformDelay(0.5, 2), 1.25)):
        problem = dd.Problem(lambda x, y, tau, t: 0 * x + tau, dd.Constant(0.0), tau)
        found = dd.solve(problem, 2.0, dd.Tsit5(1e-6))(2.0)
        np.testing.assert_allclose(found, [2 * mean], rtol=1e-9)
