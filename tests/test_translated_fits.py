"""`fit_many` by translated programs finds what it finds by those of XLA."""

import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._programs import kernels, program, program as places
from ddefind._programs.jaxpr import UntranslatedError
from ddefind.paper import EXPERIMENTS
from support.fake_cupy import cupy_on_host, many_on_gpu, needs_compiler
from support.fits import Options

__all__ = ["cupy_on_host", "many_on_gpu"]
pytestmark = needs_compiler
EQUATION = dd.equation("x' = r * x * (1 - x(t - tau) / K)")


def stack_of(problem, T, fits, noise=0.1, points=60):
    t = np.linspace(0, T, points)
    x = np.asarray(dd.solve(problem, T)(t))
    noise = noise * x.std(axis=0)
    random = np.random.default_rng(0).normal(size=(fits, *x.shape))
    return dd.Data.stack(t, x + noise * random)


def least_squares(name):
    if name == "text":
        truth = EQUATION.problem(r=1.2, K=2.0, tau=1.0, b=0.4)
        problem, stack = EQUATION, stack_of(truth, 12.0, 6)
    else:
        problem, experiment = EXPERIMENTS[name].blank, EXPERIMENTS[name]
        stack = stack_of(experiment.true, experiment.clean.T, 6)
    return dd.fit_many(problem, stack, optimizer=dd.LeastSquares(starts=4))


@pytest.fixture(scope="module")
def by_xla():
    """Fits by programs that XLA compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "has_compiler", lambda: False)
        return {name: least_squares(name) for name in ("text", "exponential")}


@pytest.mark.parametrize("name", ["text", "exponential"])
@pytest.mark.parametrize("place", ["processor", "gpu"])
def test_least_squares(name, place, by_xla, request):
    if place == "gpu":
        request.getfixturevalue("many_on_gpu")
    program._programs.clear()
    before, after = by_xla[name], least_squares(name)
    assert {key[0].name for key in program._programs} == {place}
    np.testing.assert_allclose(after.loss, before.loss, rtol=1e-9)
    np.testing.assert_allclose(after.best, before.best, rtol=1e-6, atol=1e-8)
    assert after.statuses == before.statuses
    count = len(program._programs)
    least_squares(name)
    assert len(program._programs) == count, "the programs are there"


@pytest.mark.parametrize(
    "loss", [dd.SumOfSquares(), dd.Integral(dd.L2(), nodes="solver")]
)
def test_gradient_descent(loss, request):
    experiment = EXPERIMENTS["exponential"]
    stack = stack_of(experiment.true, experiment.clean.T, 6)
    options: Options = dict(optimizer=dd.Adam(0.03), epochs=150, loss=loss)
    before = dd.fit_many(experiment.start, stack, **options)
    programs = request.getfixturevalue("many_on_gpu")
    after = dd.fit_many(experiment.start, stack, **options)
    assert programs
    np.testing.assert_allclose(after.loss, before.loss, rtol=1e-9)
    np.testing.assert_allclose(after.best, before.best, rtol=1e-9)
    assert np.array_equal(after.epochs, before.epochs)
    assert after.statuses == before.statuses
    np.testing.assert_allclose(after[2].losses, before[2].losses, rtol=1e-9)


def scattered(x, y, tau, t, r=1.0):
    """Has an operation that is not translated."""
    return jnp.zeros(1).at[jnp.zeros(1, int)].set(-r * y)


@pytest.mark.parametrize("optimizer", [dd.LeastSquares(starts=2), dd.Adam(0.1)])
def test_what_is_not_translated_is_left_to_xla(optimizer, many_on_gpu):
    truth = dd.equation("x' = -r * x(t - tau)").problem(r=0.8, tau=1.0, b=1.0)
    stack = stack_of(truth, 6.0, 3, noise=0.01)
    start = {"r": 0.7, "tau": 0.9, "b": 1.1}
    options: Options = dict(optimizer=optimizer, parameters=start)
    assert np.all(dd.fit_many(scattered, stack, **options).loss < 0.5)
    assert all(isinstance(p, UntranslatedError) for p in many_on_gpu.values())


def test_a_gpu_that_fails_is_left(many_on_gpu, monkeypatch):
    """Its work is done on the processor."""

    def full(*_):
        raise MemoryError("Out of memory allocating 1 byte")

    monkeypatch.setattr(kernels.GpuKernel, "_launch", full)
    assert np.all(least_squares("text").loss < 2)
    assert {key[0].name for key in many_on_gpu} == {"gpu", "processor"}


def test_a_user_who_keeps_jax_on_the_processor_gets_no_gpu(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    kernels.has_gpu.cache_clear()
    assert not kernels.has_gpu()
    kernels.has_gpu.cache_clear()
