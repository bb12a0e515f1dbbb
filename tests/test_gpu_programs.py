"""Programs translated into C compute what JAX computes. They are compiled for the
processor here; on a GPU the same text runs, a thread for each fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ddefind._gpu import program
from ddefind._gpu.jaxpr import UntranslatedError
from support.host_kernel import HostKernel, needs_compiler

pytestmark = needs_compiler
FITS = 3


@pytest.fixture(autouse=True)
def on_host(monkeypatch):
    monkeypatch.setattr(program, "Kernel", HostKernel)
    monkeypatch.setattr(program, "_programs", {})


def values(*shape, low=0.1, high=0.9):
    return np.random.default_rng(0).uniform(low, high, (FITS, *shape))


def translated(function, *arguments):
    return program.run_fits(
        lambda _, __, own: function(*own), None, None, arguments, np.zeros(FITS, int)
    )


def check(function, *arguments):
    """The translation of a function agrees with JAX for every row of the arguments."""
    found = translated(function, *arguments)
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
def test_a_function_of_one_number(name):
    check(getattr(jnp, name), values(4))


@pytest.mark.parametrize("name", "add subtract multiply divide power arctan2".split())
def test_a_function_of_two_numbers(name):
    check(getattr(jnp, name), values(4), values(4, high=2.0))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_what_is_no_number_stays_none(name):
    x = np.array([[np.nan, 1.0, 2.0, np.inf]] * FITS)
    y = np.array([[1.0, np.nan, 1.0, 3.0]] * FITS)
    check(getattr(jnp, name), x, y)


@pytest.mark.parametrize("exponent", [-3, -1, 0, 1, 2, 5, 10])
def test_whole_powers(exponent):
    check(lambda x: x**exponent, values(3))


def test_special_functions():
    check(lambda x: jax.nn.sigmoid(x) + lax.erf(x) + lax.lgamma(x), values(3))


def test_conversions_and_whole_numbers():
    def function(x, k):
        whole = jnp.floor(10 * x).astype(int)
        bits = (whole << 2) | (k & 3)
        return whole // 3, whole % 3, bits, (x > 0.5).astype(int), lax.clz(whole + 1)

    check(function, values(5), np.arange(FITS * 5).reshape(FITS, 5))


def test_clz_of_short_numbers():
    check(lambda k: lax.clz(k.astype(jnp.int32)), np.arange(FITS * 2).reshape(FITS, 2))


def test_moves():
    def function(x):
        wide = jnp.broadcast_to(x[:, None, :], (2, 4, 3))
        turned = jnp.transpose(wide, (2, 0, 1))[::-1]
        padded = jnp.pad(x, ((1, 2), (0, 1)), constant_values=0.25)
        joined = jnp.concatenate([x, 2 * x], axis=1)[:, 1::2]
        stacked = jnp.stack([x, x + 1], axis=1).reshape(4, 3)
        return turned, padded, joined, stacked, *jnp.unstack(x, axis=1)

    check(function, values(2, 3))


def test_sums_products_and_places():
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

    check(function, values(3, 4), values(4, 2))


def test_large_arrays_are_in_memory():
    def function(x):
        grid = jnp.arange(600.0) * x[0]
        high = jnp.where(grid > x[1], jnp.sin(grid), 0.0)
        rows = jnp.broadcast_to(x[:, None], (2, 300))
        return high.sum(), high[::7].max(), rows.T[17:19], high.reshape(2, 300)[1, 5:9]

    check(function, values(2, low=0.5))


def test_select_among_several():
    check(
        lambda x: jnp.select([x > 0.7, x > 0.4], [x, 2 * x], -1.0),
        values(6),
    )


def test_choices():
    def function(x):
        return lax.switch(
            jnp.floor(3 * x[0]).astype(int),
            [lambda x: x + 1, lambda x: x * 2, lambda x: jnp.exp(x)],
            x,
        )

    check(function, np.array([[0.1, 2.0], [0.5, 3.0], [0.9, 0.5]]))


def test_a_loop_that_ends_differently_for_each_fit():
    def function(x):
        return lax.while_loop(
            lambda c: c[0] < 1, lambda c: (c[0] + x, c[1] + 1), (x, 0)
        )

    check(function, np.array([0.3, 0.01, 2.0]))


def test_values_that_change_places():
    check(
        lambda x: lax.fori_loop(0, 40, lambda _, c: (c[1], c[0] + c[1]), (x, x)),
        values(),
    )


@pytest.mark.parametrize("length", [5, 50])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(length, reverse):
    def step(carry, row):
        y, k = row
        return carry * 0.9 + y * k, (carry, y - carry)

    def function(x, y):
        return lax.scan(step, x, (y, jnp.arange(length)), reverse=reverse)

    check(function, values(2), values(length, 2))


def test_an_array_that_is_read_after_its_change_keeps_its_values():
    def function(x):
        buffer = jnp.concatenate([x[:1], jnp.zeros(7)])

        def step(i, carry):
            buffer, total = carry
            new = lax.dynamic_update_index_in_dim(buffer, total + x[1], i % 8, 0)
            before = lax.dynamic_index_in_dim(buffer, i % 8, keepdims=False)
            return new, total + 0.5 * before + new[3]

        changed, total = lax.fori_loop(0, 30, step, (buffer, x[0]))
        return buffer, changed, total

    check(function, values(2))


def test_one_array_in_two_loops():
    def function(x):
        zeros = jnp.zeros(20)

        def fill(i, buffer):
            return lax.dynamic_update_index_in_dim(buffer, x * i, i, 0)

        one = lax.fori_loop(0, 20, fill, zeros)
        two = lax.fori_loop(0, 10, fill, zeros)
        return one.sum(), two.sum(), zeros.sum()

    check(function, values())


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_with_buffers(seed):
    """Loops that read, write and copy two buffers in a random order."""
    random = np.random.default_rng(seed)
    plan = random.integers(0, 6, size=6)
    size = int(random.choice([5, 30]))

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
                inner = (a, x)
                a, x = lax.fori_loop(
                    0,
                    i % 4,
                    lambda j, c: (
                        lax.dynamic_update_index_in_dim(c[0], c[1], j, 0),
                        0.9 * c[1] + lax.dynamic_index_in_dim(c[0], j, keepdims=False),
                    ),
                    inner,
                )
        return a, b, x

    def function(x):
        return lax.fori_loop(0, 25, step, (jnp.ones(size), jnp.zeros(size), x))

    check(function, values())


def test_data_of_sets_and_what_all_share():
    shared, sets = np.array([2.0, 3.0]), np.arange(8.0).reshape(4, 2)
    own, set_of = np.array([0.1, 0.2, 0.3]), np.array([3, 0, 3])
    found = program.run_fits(lambda a, b, c: a * b + c, shared, sets, own, set_of)
    assert np.array_equal(found, shared * sets[set_of] + own[:, None])


def test_what_has_no_translation_says_so():
    with pytest.raises(UntranslatedError, match="sort"):
        translated(jnp.sort, values(4))
    with pytest.raises(UntranslatedError, match="float32"):
        translated(lambda x: x.astype(jnp.float32), values(4))


def test_a_program_is_compiled_once(monkeypatch):
    compiled = []

    def kernel(source):
        compiled.append(source)
        return HostKernel(source)

    monkeypatch.setattr(program, "Kernel", kernel)
    for factor in (1.0, 2.0):
        found = program.run_fits(
            _scaled, factor * np.ones(2), None, values(2), np.zeros(3, int)
        )
        assert np.array_equal(found, factor * values(2))
    assert len(compiled) == 1


def _scaled(shared, _, own):
    return shared * own
