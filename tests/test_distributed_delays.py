"""Gamma and uniform distributions of delays, against independent solutions."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import ddefind as dd
from support import kernel_reference
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


def bent(x, y):
    """The slope -1.2 y (1 + 0.3 x), and its derivatives for x and y."""
    return -1.2 * y * (1 + 0.3 * x), -0.36 * y, -1.2 * (1 + 0.3 * x)


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("lognormal", 0.5),
        ("lognormal", 1.0),
        ("weibull", 0.6),
        ("weibull", 2.3),
        ("inverse_gaussian", 0.5),
        ("inverse_gaussian", 1.0),
    ],
)
def test_kernels_agree_with_a_quadrature(word, other):
    """With a density that is infinite at 0, and with long tails."""
    times, theta = np.arange(1, 13) / 2, np.array([1.0, other])

    def exact(numbers):
        law = kernel_reference.distribution(word, *numbers)
        return kernel_reference.solve(bent, law, times)

    model = dd.equation(f"x' = -1.2 * delay(x, {word}(m, p)) * (1 + 0.3 * x)")

    def states(numbers):
        problem = model.problem(m=numbers[0], p=numbers[1], b=1.0)
        solution = dd.solve(problem, 6.0, dd.Tsit5(1e-8), differentiate="forward")
        return solution(times)[:, 0]

    at = jnp.array(theta)
    assert np.abs(states(at) - exact(theta)).max() < 1e-6
    found = np.asarray(jax.jit(jax.jacfwd(states))(at)).T
    for j in (0, 1):
        expected = kernel_reference.derivative(exact, theta, j)
        assert np.abs(found[j] - expected).max() < 1e-4 * np.abs(expected).max()


def test_the_reference_by_quadrature_agrees_with_laplace_inversion():
    times = TIMES[:8:3]
    found = kernel_reference.solve(
        lambda x, y: (-RATE * y, 0 * x, 0 * x - RATE),
        kernel_reference.distribution("gamma", MEAN, 1.4),
        times,
    )
    np.testing.assert_allclose(found, invert(1.4, times)[0], atol=1e-9)


@pytest.mark.parametrize(
    "tau",
    [
        dd.GammaDelay(1.5, 3.2),
        dd.LogNormalDelay(1.5, 0.7),
        dd.WeibullDelay(1.5, 0.7),
        dd.WeibullDelay(1.5, 4.0),
        dd.InverseGaussianDelay(1.5, 0.7),
    ],
)
def test_kernels_have_the_moments_and_shares_of_scipy(tau):
    law = kernel_reference.distribution(tau.word, *map(float, jax.tree.leaves(tau)))
    assert float(tau.mean) == pytest.approx(law.mean())
    assert float(tau.sd) == pytest.approx(law.std())
    s = np.array([1e-3, 0.3, 1.5, 4.0])
    np.testing.assert_allclose(tau.share(s), law.cdf(s), rtol=1e-9, atol=1e-15)
    low, high = tau.span()
    np.testing.assert_allclose(tau.place(tau.delay(0.7 * high)), 0.7 * high)
    assert law.cdf(float(tau.delay(low))) + law.sf(tau.memory) < 1e-8
    delays, weights = map(np.asarray, tau.quadrature())
    assert weights @ np.exp(-delays) == pytest.approx(law.expect(lambda s: np.exp(-s)))


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
