"""Programs translated into C compute what JAX computes, on the processor and, as far as
that shows without one, on a GPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ddefind._programs import kernels, program
from ddefind._programs.jaxpr import UntranslatedError
from ddefind._programs.kernels import ProcessorKernel
from ddefind._programs.program import Runner
from ddefind._programs.translate import ProgramSource
from support.fake_cupy import cupy_on_host, needs_compiler

__all__ = ["cupy_on_host"]
pytestmark = needs_compiler
FITS = 3


@pytest.fixture(params=[Runner.processor, Runner.gpu])
def place(request, cupy_on_host):
    return request.param


def values(*shape, low=0.1, high=0.9):
    return np.random.default_rng(0).uniform(low, high, (FITS, *shape))


def translated(place, function, *arguments):
    return program.run_fits(
        lambda _, __, own: function(*own),
        *(None, None, arguments, np.zeros(FITS, int), place),
    )


def check(place, function, *arguments):
    """The translation of a function agrees with JAX for every row of the arguments."""
    found = translated(place, function, *arguments)
    for row in range(FITS):
        expected = function(*(jnp.asarray(a[row]) for a in arguments))
        pairs = zip(jax.tree.leaves(expected), jax.tree.leaves(found))
        for one, all_ in pairs:
            assert all_.dtype == one.dtype and all_[row].shape == one.shape
            np.testing.assert_allclose(all_[row], one, rtol=2e-14, atol=1e-300)


ONE = """exp log sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arctanh sqrt
floor ceil expm1 log1p cbrt exp2 abs sign negative square reciprocal round isfinite
logical_not"""


@pytest.mark.parametrize("name", ONE.split())
def test_a_function_of_one_number(place, name):
    check(place, getattr(jnp, name), values(4))


@pytest.mark.parametrize("name", "add subtract multiply divide power arctan2".split())
def test_a_function_of_two_numbers(place, name):
    check(place, getattr(jnp, name), values(4), values(4, high=2.0))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_what_is_no_number_stays_none(place, name):
    x = np.array([[np.nan, 1.0, 2.0, np.inf]] * FITS)
    check(place, getattr(jnp, name), x, np.array([[1.0, np.nan, 1.0, 3.0]] * FITS))


@pytest.mark.parametrize("exponent", [-3, -1, 0, 1, 2, 5, 10])
def test_whole_powers(place, exponent):
    check(place, lambda x: x**exponent, values(3))


def test_special_functions(place):
    check(place, lambda x: jax.nn.sigmoid(x) + lax.erf(x) + lax.lgamma(x), values(3))


def test_conversions_and_whole_numbers(place):
    def function(x, k):
        whole = jnp.floor(10 * x).astype(int)
        bits = (whole << 2) | (k & 3)
        return whole // 3, whole % 3, bits, (x > 0.5).astype(int), lax.clz(whole + 1)

    check(place, function, values(5), np.arange(FITS * 5).reshape(FITS, 5))


def test_clz_of_short_numbers(place):
    numbers = np.arange(FITS * 2).reshape(FITS, 2)
    check(place, lambda k: lax.clz(k.astype(jnp.int32)), numbers)


def test_moves(place):
    def function(x):
        wide = jnp.broadcast_to(x[:, None, :], (2, 4, 3))
        turned = jnp.transpose(wide, (2, 0, 1))[::-1]
        padded = jnp.pad(x, ((1, 2), (0, 1)), constant_values=0.25)
        joined = jnp.concatenate([x, 2 * x], axis=1)[:, 1::2]
        stacked = jnp.stack([x, x + 1], axis=1).reshape(4, 3)
        return turned, padded, joined, stacked, *jnp.unstack(x, axis=1)

    check(place, function, values(2, 3))


def test_sums_products_and_places(place):
    def function(x, y):
        return (
            x.sum(axis=1),
            x.max(axis=0),
            x.min(),
            jnp.prod(x),
            x @ y,
            jnp.argmax(x, axis=1),
            jnp.argmin(x, axis=0),
            jnp.cumsum(x, axis=0),
            jnp.any(x > 0.5),
            jnp.all(x > 0.5, axis=0),
        )

    check(place, function, values(3, 4), values(4, 2))


def test_large_arrays_are_in_memory(place):
    def function(x):
        grid = jnp.arange(600.0) * x[0]
        high = jnp.where(grid > x[1], jnp.sin(grid), 0.0)
        rows = jnp.broadcast_to(x[:, None], (2, 300))
        return high.sum(), high[::7].max(), rows.T[17:19], high.reshape(2, 300)[1, 5:9]

    check(place, function, values(2, low=0.5))


def test_select_among_several(place):
    check(place, lambda x: jnp.select([x > 0.7, x > 0.4], [x, 2 * x], -1.0), values(6))


def test_choices(place):
    def function(x):
        return lax.switch(
            jnp.floor(3 * x[0]).astype(int),
            [lambda x: x + 1, lambda x: x * 2, lambda x: jnp.exp(x)],
            x,
        )

    check(place, function, np.array([[0.1, 2.0], [0.5, 3.0], [0.9, 0.5]]))


def test_a_loop_that_ends_differently_for_each_fit(place):
    def function(x):
        return lax.while_loop(
            lambda c: c[0] < 1, lambda c: (c[0] + x, c[1] + 1), (x, 0)
        )

    check(place, function, np.array([0.3, 0.01, 2.0]))


def test_values_that_change_places(place):
    check(
        place,
        lambda x: lax.fori_loop(0, 40, lambda _, c: (c[1], c[0] + c[1]), (x, x)),
        values(),
    )


@pytest.mark.parametrize("length", [5, 50])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(place, length, reverse):
    def step(carry, row):
        y, k = row
        return carry * 0.9 + y * k, (carry, y - carry)

    def function(x, y):
        return lax.scan(step, x, (y, jnp.arange(length)), reverse=reverse)

    check(place, function, values(2), values(length, 2))


def test_an_array_that_is_read_after_its_change_keeps_its_values(place):
    def function(x):
        buffer = jnp.concatenate([x[:1], jnp.zeros(7)])

        def step(i, carry):
            buffer, total = carry
            new = lax.dynamic_update_index_in_dim(buffer, total + x[1], i % 8, 0)
            before = lax.dynamic_index_in_dim(buffer, i % 8, keepdims=False)
            return new, total + 0.5 * before + new[3]

        changed, total = lax.fori_loop(0, 30, step, (buffer, x[0]))
        return buffer, changed, total

    check(place, function, values(2))


def test_one_array_in_two_loops(place):
    def function(x):
        zeros = jnp.zeros(20)

        def fill(i, buffer):
            return lax.dynamic_update_index_in_dim(buffer, x * i, i, 0)

        one = lax.fori_loop(0, 20, fill, zeros)
        two = lax.fori_loop(0, 10, fill, zeros)
        return one.sum(), two.sum(), zeros.sum()

    check(place, function, values())


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_with_buffers(place, seed):
    """Loops that read, write and copy two buffers in a random order."""
    random = np.random.default_rng(seed)
    plan = random.integers(0, 6, size=6)
    size = int(random.choice([5, 30]))

    def inner(j, carry):
        a, x = carry
        new = 0.9 * x + lax.dynamic_index_in_dim(a, j, keepdims=False)
        return lax.dynamic_update_index_in_dim(a, x, j, 0), new

    def step(i, carry):
        a, b, x = carry
        for k, what in enumerate(plan):
            place = (i * (k + 2)) % size
            if what == 0:
                a = lax.dynamic_update_index_in_dim(a, x, place, 0)
            elif what == 1:
                b = lax.dynamic_update_index_in_dim(b, x + k, place, 0)
            elif what == 2:
                x = 0.5 * x + lax.dynamic_index_in_dim(a, place, keepdims=False)
            elif what == 3:
                x = 0.5 * x - lax.dynamic_index_in_dim(b, place, keepdims=False)
            elif what == 4:
                b = jnp.where(x > 0.3, a, b)
            else:
                a, x = lax.fori_loop(0, i % 4, inner, (a, x))
        return a, b, x

    def function(x):
        return lax.fori_loop(0, 25, step, (jnp.ones(size), jnp.zeros(size), x))

    check(place, function, values())


def test_data_of_sets_and_what_all_share(place):
    shared, sets = np.array([2.0, 3.0]), np.arange(8.0).reshape(4, 2)
    own, set_of = np.array([0.1, 0.2, 0.3]), np.array([3, 0, 3])
    found = program.run_fits(
        lambda a, b, c: a * b + c, shared, sets, own, set_of, place
    )
    assert np.array_equal(found, shared * sets[set_of] + own[:, None])
    one = np.broadcast_to(sets[1], (4, 2))
    found = program.run_fits(lambda _, b, c: b + c, None, one, own, set_of, place)
    assert np.array_equal(found, sets[1] + own[:, None])


def test_what_has_no_translation_says_so(place):
    with pytest.raises(UntranslatedError, match="sort"):
        translated(place, jnp.sort, values(4))
    with pytest.raises(UntranslatedError, match="float32"):
        translated(place, lambda x: x.astype(jnp.float32), values(4))


def test_a_program_is_compiled_once(place):
    def scaled(shared, _, own):
        return shared * own

    for factor in (1.0, 2.0):
        shared, own = factor * np.ones(2), values(2)
        found = program.run_fits(scaled, shared, None, own, np.zeros(3, int), place)
        assert np.array_equal(found, factor * own)
    assert len(program._programs) == 1


def test_fits_are_made_in_portions_that_the_memory_has_room_for(
    cupy_on_host, monkeypatch
):
    monkeypatch.setattr(kernels, "_free", lambda: 20_000)
    own = np.random.default_rng(0).normal(size=(500, 3))
    found = program.run_fits(
        lambda _, __, own: own**2, None, None, own, np.zeros(500, int), Runner.gpu
    )
    assert np.array_equal(found, own**2)


def test_without_a_compiler_there_is_no_program(monkeypatch):
    monkeypatch.setattr(kernels, "_command", lambda: None)
    with pytest.raises(UntranslatedError, match="no C compiler"):
        ProcessorKernel(ProgramSource("void program(void) {int unheard_of;}", 0))


def test_a_compiler_that_fails_is_none():
    with pytest.raises(UntranslatedError, match="failed"):
        ProcessorKernel(ProgramSource("this is no C", 0))
