"""Models and histories: the paper's equations, one component or many."""

import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind import models
from support.fits import unchecked

X, Y = jnp.array([0.7, -1.2, 2.0]), jnp.array([1.5, 0.4, -0.3])
TAU, T = jnp.asarray(0.8), jnp.asarray(2.5)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)


def test_the_papers_scalar_equations_hold_for_any_number_of_components():
    x, y = np.asarray(X), np.asarray(Y)
    close(models.Exponential(2.0, -3.0)(X, Y, TAU, T), 2 * x - 3 * y)
    close(models.Logistic(2.0, 0.5)(X, Y, TAU, T), 2 * x * (1 - 0.5 * y))
    close(models.ENSO(2.0, 3.0, 4.0)(X, Y, TAU, T), 2 * x - 3 * x**3 - 4 * y)
    close(models.Cheyne(1.0, 7.0, 2.0)(X, Y, TAU, T), 1 - 7 * x * y**8 / (2 + y**8))
    cube = models.Cheyne(1.0, 7.0, 2.0, m=3)
    close(cube(X, Y, TAU, T), 1 - 7 * x * y**3 / (2 + y**3))


def test_parameters_may_differ_from_component_to_component():
    theta = np.array([1.0, 2.0, 3.0])
    close(models.Exponential(theta, -theta)(X, Y, TAU, T), theta * (X - Y))
    close(models.Logistic(theta, 0.5)(X, Y, TAU, T), theta * X * (1 - 0.5 * Y))


def test_hiv():
    k, m, delta, c, T_0, n_p, N = 0.001, 2.0, 0.5, 3.0, 100.0, 0.25, 10.0
    model = models.HIV(k, m, delta, c, T_0, n_p, N)
    infected, infectious, harmless = np.asarray(X)
    expected = [
        k * T_0 * Y[1] * np.exp(-m * 0.8) - delta * infected,
        (1 - n_p) * N * delta * infected - c * infectious,
        n_p * N * delta * infected - c * harmless,
    ]
    close(model(X, Y, TAU, T), expected)


def test_hiv_has_the_papers_constants():
    model = models.HIV()
    names = ("k", "m", "delta", "c", "T_0", "n_p", "N")
    expected = [0.00343, 3.8, 0.05, 2.0, 1000.0, 0.43, 48.0]
    close([getattr(model, name) for name in names], expected)


def test_cheyne_has_a_fixed_integer_power():
    problem = dd.Problem(models.Cheyne(1, 7, 2), dd.Constant(1), 1)
    assert "m" not in dd.parameter_values(problem)
    for m in (0, -1, 2.5):
        with pytest.raises(ValueError, match="`m` is a fixed positive integer"):
            models.Cheyne(1.0, 7.0, 2.0, m=unchecked(m))


def rows(*powers):
    return [lambda x, y, tau, t, p=p: x**p for p in powers]


def test_structured_is_the_papers_rational_form():
    model = models.Structured(
        f=rows(1, 2), g=rows(0, 2), h=rows(3), a=[2.0, 3.0], b=[1.0, 0.5], c=[-1.0]
    )
    close(model(X, Y, TAU, T), (2 * X + 3 * X**2) / (1 + 0.5 * X**2) - X**3)
    without_g = models.Structured(f=rows(1), h=rows(3), a=[2.0], c=[-1.0])
    close(without_g(X, Y, TAU, T), 2 * X - X**3)
    without_h = models.Structured(f=rows(1), g=rows(2), a=[2.0], b=[4.0])
    close(without_h(X, Y, TAU, T), 0.5 / X)
    seen = models.Structured(h=[lambda x, y, tau, t: y * tau + t], c=[1.0])
    close(seen(X, Y, TAU, T), Y * 0.8 + 2.5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(f=rows(1), a=[1, 2]), "`f` has 1 functions but `a` has 2 coefficients"),
        (dict(h=rows(1, 2), c=[1]), "`h` has 2 functions but `c` has 1 coefficients"),
        (dict(g=rows(1), b=[1]), "`g` divides the sum over `f`"),
        ({}, "at least one function"),
    ],
)
def test_structured_refuses_what_does_not_match(arguments, message):
    with pytest.raises(ValueError, match=message):
        models.Structured(**arguments)


@pytest.mark.parametrize(
    "width, tolerance", [(5, dict(rtol=1e-14, atol=1e-15)), (200, dict(rtol=1e-12))]
)
def test_neural_models_are_tanh_networks(width, tolerance):
    model = models.Neural(3, width=width, depth=2, seed=7)
    x = np.concatenate([X, Y])
    *hidden, (weight, bias) = zip(model.network.weights, model.network.biases)
    for w, b in hidden:
        assert w.shape[0] == width
        x = np.tanh(np.asarray(w) @ x + b)
    np.testing.assert_allclose(model(X, Y, TAU, T), weight @ x + bias, **tolerance)


def test_neural_networks_are_drawn_by_seed():
    one, same, other = (models.Neural(2, seed=s).network.weights[0] for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.all(np.asarray(one) != np.asarray(other))
    assert dd.Neural(2, seed=3)(jnp.asarray(-0.5)).shape == (2,)


@pytest.mark.parametrize("arguments", [dict(width=0), dict(depth=-1), dict(d=0)])
def test_networks_refuse_sizes_below_one(arguments):
    name = next(iter(arguments))
    with pytest.raises(ValueError, match={"d": "outputs"}.get(name, name)):
        models.Neural(**{"d": 2, **arguments})


def test_histories_for_one_component_and_for_many():
    t = jnp.asarray(-0.5)
    close(dd.Constant(2.0)(t), [2.0])
    close(dd.Constant([1.0, 2.0])(t), [1.0, 2.0])
    close(dd.Affine(2.0, 1.0)(t), [0.0])
    close(dd.Affine([2.0, 4.0], [1.0, 0.0])(t), [0.0, -2.0])
    close(dd.Periodic(2.0, 3.0, 1.0)(t), [1 - 2 * np.sin(1.5)])
    A, omega, b = np.array([[1.0, 2.0], [3.0, 0.5], [0.1, 0.2]])
    close(dd.Periodic(A, omega, b)(t), A * np.sin(-0.5 * omega) + b)


def test_integers_become_parameters():
    model = models.Logistic(1, np.int64(2))
    assert model.theta_0.dtype == model.theta_1.dtype == jnp.float64
    assert dd.Constant([1, 2]).b.dtype == jnp.float64


def test_float32_parameters_still_solve():
    # JAX arrays of single precision come from elsewhere; the solve is in double.
    half = jnp.asarray(0.5, jnp.float32)
    problem = dd.Problem(models.Exponential(half, -half), dd.Constant(half), half)
    same = dd.Problem(models.Exponential(0.5, -0.5), dd.Constant(0.5), 0.5)
    close(dd.solve(problem, 2.0)(1.7), dd.solve(same, 2.0)(1.7))
