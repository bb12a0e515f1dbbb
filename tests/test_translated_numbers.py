"""Translated programs agree with JAX where numbers are unusual: infinite ones and none,
divisors of zero, whole numbers that overflow, arrays that are written twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ddefind._programs import program
from ddefind._programs.jaxpr import UntranslatedError
from ddefind._programs.program import Runner
from support.fake_cupy import needs_compiler

pytestmark = needs_compiler
HARD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, -1e300, 0.5, -2.5, 3e9])
WHOLE = np.array([0, 1, -1, 7, -7, 2**31, -(2**31), 2**62, -(2**63), 2**63 - 1])
SHORT = np.array([0, 1, -1, 7, -7, 2**31 - 1, -(2**31), 65536], np.int32)


def both(function, *arguments):
    """What a function gives for each row, translated and by JAX."""
    found = program.run_fits(
        lambda _, __, own: function(*own),
        *(None, None, arguments, np.zeros(len(arguments[0]), int), Runner.processor),
    )
    expected = jax.vmap(function)(*map(jnp.asarray, arguments))
    return jax.tree.leaves(found), jax.tree.leaves(expected)


def check(function, *arguments):
    for one, other in zip(*both(function, *arguments)):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=2e-14)


def pairs(values):
    one, other = np.meshgrid(values, values)
    return one.ravel(), other.ravel()


@pytest.mark.parametrize("values", [WHOLE, SHORT], ids=["64 bits", "32 bits"])
@pytest.mark.parametrize("name", ["div", "rem", "add", "sub", "mul", "max", "and_"])
def test_whole_numbers(name, values):
    function = lax.bitwise_and if name == "and_" else getattr(lax, name)
    check(function, *pairs(values))


@pytest.mark.parametrize("values", [WHOLE, SHORT], ids=["64 bits", "32 bits"])
def test_shifts_and_signs_of_whole_numbers(values):
    check(
        lambda k: (
            lax.shift_right_logical(k, k.dtype.type(3)),
            lax.shift_left(k, k.dtype.type(5)),
            lax.shift_right_logical(k, k.dtype.type(64)),
            lax.clz(k),
            -k,
            jnp.abs(k),
            jnp.sign(k),
            k**3,
            lax.bitwise_not(k),
        ),
        values,
    )


@pytest.mark.parametrize("dtype", ["int64", "int32", "bool"])
def test_conversions_of_unusual_numbers(dtype):
    check(lambda x: x.astype(dtype), HARD)


@pytest.mark.parametrize(
    "name", ["add", "mul", "div", "max", "min", "pow", "lt", "ge", "ne", "rem"]
)
def test_numbers_that_are_none(name):
    check(getattr(lax, name), *pairs(HARD[:8]))


def test_places_of_numbers_that_are_none():
    rows = np.array([[1, np.nan, 3], [np.inf, 2, np.inf], [5, 5, 1], [np.nan] * 3])
    check(lambda x: (jnp.argmax(x), jnp.argmin(x)), rows)
    whole = np.array([[3, 2**62 + 1, 2**62], [-1, -5, -5]])
    check(lambda x: (jnp.argmax(x), jnp.argmin(x)), whole)


def test_bounds_in_the_wrong_order():
    x = np.array([0.0, 2.0, 4.0, np.nan])
    check(lambda x: lax.clamp(1.0, x, 3.0), x)
    check(lambda x: lax.clamp(3.0, x, 1.0), x)


def test_powers_of_zero():
    check(lambda x: x**0 / (x**0 + x**0), np.array([2.0, 0.0]))


def test_quotients_that_are_not_used():
    """Both sides of a choice are computed."""
    check(lambda k: jnp.where(k == 0, 1, 12 // k), np.array([0, 3, -5]))


@pytest.mark.parametrize("length", [5, 40])
def test_rows_of_a_scan_that_are_carried_on(length):
    def function(x):
        def step(carry, k):
            buffer, place = carry
            new = lax.dynamic_update_index_in_dim(buffer, x + k, (place + k) % 8, 0)
            return (new, place), new

        return lax.scan(step, (jnp.zeros(8), 3), jnp.arange(length))

    check(function, np.array([0.5, 2.0]))


def test_a_condition_that_changes_what_it_was_given():
    def function(x):
        array = jnp.zeros(8) + x

        def goes_on(k):
            changed = lax.dynamic_update_index_in_dim(array, -1.0, (k + 1) % 8, 0)
            return (changed[k % 8] > 0) & (k < 4)

        return lax.while_loop(goes_on, lambda k: k + 1, 0)

    check(function, np.array([0.5, 2.0]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sum(x[1:1]) + x[0],
        lambda x: jnp.max(x[:0], initial=2.0),
        lambda x: (jnp.zeros((3, 0)) @ jnp.zeros(0)) + x[0],
        lambda x: (10 * x).astype(jnp.uint8),
        lambda x: (10 * x).astype(jnp.uint32) * 3,
        lambda x: lax.reduce_precision(x, 8, 23),
    ],
)
def test_what_is_left_to_xla(function):
    with pytest.raises(UntranslatedError):
        both(function, np.ones((2, 2)))


def test_the_numbers_of_sets_need_not_lie_together():
    sets = np.arange(4.0)
    found = program.run_fits(
        lambda _, of_set, own: of_set + own,
        *(None, sets, np.zeros(3), np.array([3, 0, 1, 0, 2, 0])[::2], Runner.processor),
    )
    assert found.tolist() == [3.0, 1.0, 2.0]


@pytest.mark.parametrize("shape", [(7,), (3, 2)])
@pytest.mark.parametrize("reverse", [False, True])
def test_sums_that_are_carried_on(shape, reverse):
    values = np.random.default_rng(0).normal(size=(2, *shape))
    check(lambda x: lax.cumsum(x, 0, reverse=reverse), values)


def test_numbers_of_two_lengths_with_the_same_value():
    def function(p):
        short = jnp.where(p, jnp.int32(1), jnp.int32(0))
        long = jnp.where(p, jnp.int64(1), jnp.int64(0))
        return short, long << 40, (70000 * long) ** 2, (70000 * short) ** 2

    check(function, np.array([True, False]))


def test_all_bits_that_many_whole_numbers_share():
    values = np.full((2, 500), 7)
    values[1, 3] = 5

    check(lambda x: (lax.reduce_and(x, (0,)), lax.reduce_or(x, (0,))), values)


def test_an_unexpected_program_is_left_to_xla(monkeypatch):
    def fails(*_):
        raise KeyError("a case that nobody has thought of")

    monkeypatch.setattr(program, "translate", fails)
    with pytest.raises(UntranslatedError, match="nobody has thought of"):
        both(lambda x: x + 1.5, np.ones(2))


def test_more_arrays_than_a_call_can_have():
    with pytest.raises(UntranslatedError, match="too many arrays"):
        both(lambda *x: sum(x), *[np.ones(2)] * 301)
