"""Levenberg-Marquardt alone, on a small curve: against scipy, and how it ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import least_squares

from ddefind._search import levenberg_marquardt as _levenberg
from ddefind._search.levenberg_marquardt import Box, NormalEquations, minimise

T = np.linspace(0, 3, 25)
X = 2.5 * np.exp(-1.3 * T) + 0.4 + 0.05 * np.random.default_rng(0).normal(size=25)


def decay(theta):
    """Residuals of a decaying curve."""
    return theta[0] * jnp.exp(-theta[1] * T) + theta[2] - X


def run(function, theta, lower=None, upper=None, held=None, limit=200, tiny=0.0):
    theta = jnp.asarray(theta, float)
    box = Box(
        jnp.full(theta.shape, -jnp.inf) if lower is None else jnp.asarray(lower, float),
        jnp.full(theta.shape, jnp.inf) if upper is None else jnp.asarray(upper, float),
        jnp.zeros(theta.shape, bool) if held is None else jnp.asarray(held),
    )

    def linearise(theta, memory):
        residual, slopes = function(theta), jax.jacfwd(function)(theta)
        rows = jnp.concatenate([residual[:, None], slopes], axis=1)
        return NormalEquations(rows.T @ rows, jnp.sum(residual**2)[None]), memory + 1

    def whole(theta):
        return minimise(linearise, theta, box, limit, tiny, jnp.asarray(0))

    return jax.tree.map(np.asarray, jax.jit(whole)(theta))


CASES = {
    "free": ([1.0, 1.0, 0.0], [-np.inf] * 3, [np.inf] * 3),
    "inside": ([1.0, 1.0, 0.0], [0.0, 0.0, -1.0], [9.0, 9.0, 1.0]),
    "one on a bound": ([1.0, 1.0, 0.2], [0.0, 0.0, -1.0], [2.0, 9.0, 1.0]),
    "two on a bound": ([1.0, 0.5, 0.2], [0.0, 0.0, -1.0], [2.0, 1.0, 1.0]),
    "far away": ([20.0, 9.0, -5.0], [-np.inf] * 3, [np.inf] * 3),
}


@pytest.mark.parametrize("theta, lower, upper", CASES.values(), ids=CASES)
def test_minimum_agrees_with_scipy(theta, lower, upper):
    found = run(decay, theta, lower, upper)
    residuals = lambda theta: np.asarray(decay(theta))  # noqa: E731
    expected = least_squares(
        residuals, theta, bounds=(lower, upper), xtol=1e-15, ftol=1e-15, gtol=1e-15
    )
    assert found.status in (_levenberg.GRADIENT, _levenberg.STEP)
    np.testing.assert_allclose(found.normal.gram[0, 0], 2 * expected.cost, rtol=1e-9)
    np.testing.assert_allclose(found.theta, expected.x, rtol=1e-5, atol=1e-6)
    assert np.all((lower <= found.theta) & (found.theta <= upper))


def test_held_values_stay():
    found = run(decay, [1.0, 0.7, 0.2], held=[False, True, False])
    assert found.theta[1] == 0.7
    basis = np.stack([np.exp(-0.7 * T), np.ones_like(T)], axis=1)
    expected = np.linalg.lstsq(basis, X, rcond=None)[0]
    np.testing.assert_allclose(found.theta[[0, 2]], expected, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_scales_do_not_matter(scale):
    plain = run(decay, [1.0, 1.0, 0.0])
    scaled = run(lambda theta: scale * decay(theta / scale), [scale, scale, 0.0])
    np.testing.assert_allclose(scaled.theta, scale * plain.theta, rtol=1e-6)
    assert abs(int(scaled.evaluations) - int(plain.evaluations)) <= 2


class TestEnds:
    def test_at_the_minimum_of_a_straight_line(self):
        found = run(lambda theta: theta[0] + theta[1] * T - X, [0.0, 0.0])
        assert found.status in (_levenberg.GRADIENT, _levenberg.STEP)
        assert found.evaluations < 10

    def test_gradient(self):
        # Residuals orthogonal to all influences from the start.
        found = run(lambda theta: jnp.array([theta[0], 1.0]), [0.0])
        assert found.status == _levenberg.GRADIENT and found.evaluations == 1

    def test_step(self):
        assert run(decay, [1.0, 1.0, 0.0]).status == _levenberg.STEP

    def test_exact(self):
        truth = np.array([2.5, 1.3, 0.4])
        exact = lambda theta: decay(theta) - decay(truth)  # noqa: E731
        found = run(exact, [1.0, 1.0, 0.0], tiny=1e-24 * 10)
        assert found.status == _levenberg.EXACT
        np.testing.assert_allclose(found.theta, truth, rtol=1e-9)

    def test_limit(self):
        found = run(decay, [20.0, 9.0, -5.0], limit=3)
        assert found.status == _levenberg.LIMIT and found.evaluations == 3

    def test_no_start(self):
        found = run(lambda theta: jnp.log(theta) + jnp.zeros(3), [-1.0])
        assert found.status == _levenberg.NO_START
        assert found.theta[0] == -1.0 and np.isinf(found.normal.gram[0, 0])

    def test_stuck_at_a_kink(self):
        # The slope promises more on both sides, and is wrong on both.
        found = run(lambda theta: jnp.array([1 + jnp.abs(theta[0] - 0.3)]), [2.0])
        assert found.status == _levenberg.STUCK
        assert found.theta[0] == pytest.approx(0.3, abs=1e-6)

    def test_a_wall_of_nan_is_not_crossed(self):
        def walled(theta):
            return jnp.where(theta[0] > 1.0, jnp.nan, theta - 3.0) + jnp.zeros(2)

        found = run(walled, [0.0])
        assert 0.99 < found.theta[0] <= 1.0
        assert np.isfinite(found.normal.gram).all()

    def test_rounding_errors_do_not_count_as_stuck(self):
        # Far from zero the residuals carry errors of 1e-7 of themselves.
        found = run(lambda theta: (1e7 + decay(theta)) - 1e7, [1.0, 1.0, 0.0])
        assert found.status in (_levenberg.GRADIENT, _levenberg.STEP)


def test_no_influence_no_move():
    found = run(lambda theta: decay(theta[:3]), [1.0, 1.0, 0.0, 7.0])
    assert found.theta[3] == 7.0 and found.status == _levenberg.STEP
