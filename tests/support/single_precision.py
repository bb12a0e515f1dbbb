"""A day's work in single precision: run with JAX_ENABLE_X64=0 in a process of its own,
since the precision is set once for a process. Warnings are errors."""

import jax
import numpy as np

import ddefind as dd

TRUE = {"r": 1.8, "K": 2.5, "b": 0.5, "tau": 0.8}
MODEL = dd.equation("x' = r * x * (1 - x(t - tau) / K)")
TIMES = np.linspace(0, 8, 60)


def noisy_data() -> dd.Data:
    solution = dd.solve(MODEL.problem(TRUE), T=8.0)
    assert solution.x.dtype == np.float32
    noise = 0.05 * np.random.default_rng(0).normal(size=(60, 1))
    return dd.Data(TIMES, np.asarray(solution(TIMES)) + noise)


def check_gradients(data: dd.Data) -> None:
    """Exact routes agree to rounding, and the adjoint to its step error; central
    differences, of a loss with seven digits, to a few per cent."""
    problem = MODEL.problem({**TRUE, "tau": 0.9})

    def at(tau: float) -> float:
        return float(dd.value_and_grad(MODEL.problem({**TRUE, "tau": tau}), data)[0])

    difference = (at(0.92) - at(0.88)) / 0.04
    routes = (dd.Discrete(), dd.Forward(), dd.Adjoint())
    slopes = [
        float(dd.value_and_grad(problem, data, gradient=route)[1].tau)
        for route in routes
    ]
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-4)
    np.testing.assert_allclose(slopes[2], slopes[0], rtol=2e-2)
    np.testing.assert_allclose(difference, slopes[0], rtol=5e-2)


def check_fits(data: dd.Data) -> None:
    """Least squares finds the truth within its errors, though it may end as `stuck`:
    seven digits are too few for its criteria of convergence."""
    fit = dd.fit(MODEL, data, optimizer=dd.LeastSquares(starts=4), progress=False)
    assert fit.problem.tau.dtype == np.float32
    for name, error in fit.standard_errors.items():
        assert abs(fit.values[name] - TRUE[name]) < 4 * error < 0.2, name
    start = MODEL.problem({**TRUE, "r": 1.7})
    descent = dd.fit(start, data, optimizer=dd.Adam(0.01), epochs=30, progress=False)
    assert descent.loss < 0.7 * descent.losses[0]


def check_several_delays() -> None:
    """Two delays, a dose at time zero and a switch at the sum of both delays."""
    text = "x' = -a * x(t - u) + c * x(t - v) + (t > 1.25) * k;  x(0) = 2;  x(t<=0) = 1"
    problem = dd.equation(text).problem(a=0.9, c=0.4, k=0.7, u=0.5, v=0.75)
    solution = dd.solve(problem, 3.0)
    assert solution.x.dtype == np.float32 and np.all(np.isfinite(solution.x))
    finer = dd.solve(problem, 3.0, max_step=0.005)
    np.testing.assert_allclose(solution(3.0), finer(3.0), rtol=2e-5)
    data = dd.Data(TIMES[:20], np.ones(20))
    routes = (dd.Discrete(), dd.Forward())
    slopes = [dd.value_and_grad(problem, data, gradient=each)[1] for each in routes]
    for left, right in zip(*map(jax.tree.leaves, slopes)):
        assert np.all(np.isfinite(left))
        np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    assert jax.numpy.ones(1).dtype == np.float32
    measured = noisy_data()
    check_gradients(measured)
    check_fits(measured)
    check_several_delays()
    print("single precision: all checks passed")
