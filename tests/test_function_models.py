"""Functions as models: their parameters, tables of constants, a function without a
history, and what JAX cannot compile."""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from support.fits import simulated

PAST = dd.Constant(0.5)
T = np.linspace(0, 10, 40)
NEAR = dd.LeastSquares(starts=2)


def logistic(x, y, tau, t, r=1.0, K=2.0):
    return r * x * (1 - y / K)


def test_defaults_of_a_function_are_parameters_and_their_start_values():
    problem = dd.Problem(logistic, PAST, tau=0.7)
    assert dd.parameter_values(problem) == {"r": 1.0, "K": 2.0, "b": 0.5, "tau": 0.7}
    assert problem.rhs.K == 2.0
    same = dd.Problem(dd.models.Logistic(1.0, 0.5), PAST, tau=0.7)
    np.testing.assert_allclose(dd.solve(problem, T=5.0).x, dd.solve(same, T=5.0).x)
    slope = dd.value_and_grad(problem, dd.Data(T, np.ones(40)))[1]
    assert np.isfinite(slope.rhs.r) and slope.rhs.r != 0


def test_what_else_is_a_parameter_of_a_function():
    network = dd.models.Neural(1, width=2, depth=1)

    def rhs(x, y, tau, t, n=2, both=(1.0, 2.0), table=np.ones(3), name="a", g=network):
        return -x

    problem = dd.Problem(
        rhs, lambda t, a=1.0: a * jnp.ones(1), 1.0, observe=lambda x, t, s=2.0: s * x
    )
    arrays = ["n", "both[0]", "both[1]", "a", "tau", "s"]
    assert [n for n in dd.parameter_values(problem) if "s[" not in n] == arrays
    bound = functools.partial(logistic, K=3.0)
    assert list(dd.parameter_values(dd.Problem(bound, PAST, 1.0))) == ["r", "b", "tau"]


def test_an_argument_without_a_default_is_named():
    with pytest.raises(TypeError, match="Give `K` a default, .* `K=1.0`"):
        dd.Problem(lambda x, y, tau, t, K: -y / K, PAST, 1.0)


class Driven(eqx.Module):
    gain: float
    table: np.ndarray
    curve: jax.Array

    def __call__(self, x, y, tau, t):
        force = jnp.interp(t, np.arange(4.0), self.table) + jnp.sum(self.curve)
        return -self.gain * y + force


def test_numpy_tables_are_constants_and_numbers_and_jax_arrays_are_learned():
    problem = dd.Problem(Driven(1.0, np.arange(4.0), jnp.zeros(2)), PAST, tau=1.0)
    names = ["gain", "curve[0]", "curve[1]", "b", "tau"]
    assert list(dd.parameter_values(problem)) == names
    data = dd.Data(T, np.ones(40))
    slope = dd.value_and_grad(problem, data)[1]
    assert slope.rhs.table is None and slope.rhs.curve.shape == (2,)
    fit = dd.fit(problem, data, optimizer=dd.Adam(), epochs=2)
    np.testing.assert_array_equal(fit.problem.rhs.table, np.arange(4.0))
    assert not np.array_equal(fit.problem.rhs.curve, np.zeros(2))


def test_a_function_alone_is_fitted():
    truth = dd.Problem(functools.partial(logistic, r=1.5, K=1.2), PAST, tau=1.0)
    fit = dd.fit(logistic, simulated(truth, T, 0.01), optimizer=NEAR, intervals=False)
    true = {"r": 1.5, "K": 1.2, "b": 0.5, "tau": 1.0}
    for name, value in true.items():
        assert abs(fit.values[name] - value) < 5 * fit.standard_errors[name]


def test_a_function_alone_has_a_state_for_each_column_and_the_given_history():
    def rhs(x, y, tau, t, a=1.0):
        prey, hunter = x
        return jnp.stack([a * prey * (1 - y[1]), prey - hunter])

    two = np.stack([1 + 0.1 * np.sin(T), 1 + 0.1 * np.cos(T)], axis=1)
    settings = {"b[0]": 1.0, "b[1]": 1.0, "history.a": 0.0, "tau": 0.5}
    fit = dd.fit(rhs, dd.Data(T, two), history="affine", epochs=2, parameters=settings)
    assert list(fit.names)[1:3] == ["history.a[0]", "history.a[1]"]
    with pytest.raises(ValueError, match="is for models that are texts"):
        dd.fit(rhs, dd.Data(T, two), history="auto")
    with pytest.raises(ValueError, match="Did you mean 'affine'"):
        dd.fit(rhs, dd.Data(T, two), history="afine")


def decide(x, y, tau, t):
    if x[0] > 1:
        return -y
    return y


def call_numpy(x, y, tau, t):
    return -np.exp(x)


def fill_numpy(x, y, tau, t):
    result = np.zeros(1)
    result[0] = x[0]
    return result


def call_math(x, y, tau, t):
    return -math.exp(t) * x


def choose(x, y, tau, t):
    return -x[x > 0]


@pytest.mark.parametrize(
    ("rhs", "line", "remedy"),
    [
        (decide, "if x[0] > 1:", "`jnp.where(condition, a, b)`"),
        (choose, "return -x[x > 0]", "`jnp.where(condition, a, b)`"),
        (call_numpy, "return -np.exp(x)", "`jax.numpy`"),
        (fill_numpy, "result[0] = x[0]", "`jax.numpy`"),
        (call_math, "return -math.exp(t) * x", "`jax.numpy`"),
    ],
)
def test_what_jax_cannot_compile_is_said_with_the_line_and_the_remedy(
    rhs, line, remedy
):
    with pytest.raises(ValueError, match="^`rhs` ") as caught:
        dd.Problem(rhs, PAST, 1.0)
    said = str(caught.value)
    number = rhs.__code__.co_firstlineno
    lines = [f"{__file__}:{number + i}: `{line}`" for i in range(1, 4)]
    assert remedy in said and any(each in said for each in lines)
    assert caught.value.__suppress_context__


def test_the_other_functions_of_a_problem_are_named_too():
    with pytest.raises(ValueError, match="^`history` gives a value .* to NumPy"):
        dd.Problem(logistic, lambda t: np.array([t]), 1.0)
    with pytest.raises(ValueError, match="^`observe` decides by a value"):
        dd.Problem(logistic, PAST, 1.0, observe=lambda x, t: x if x > 0 else -x)
