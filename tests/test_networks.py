"""`dd.Network`: its shapes, its sizes in a problem, its scales from data."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._fitting.scaled_networks import scaled_together
from ddefind._problem.network import networks_in
from support.fits import reloaded

T = np.linspace(0, 20, 101)
# The mean 1 and the standard deviation 0.5, the slope -0.7 to 0.7.
WAVE = 1 + np.sqrt(0.5) * np.sin(T)
DATA = dd.Data(T, WAVE)
TWO = dd.Data(T, np.stack([WAVE, 3 * np.cos(T)], axis=1))


PAST = dd.Constant(1.0)


def scaled_networks(problem, data):
    return scaled_together([problem], [data])[0]


def one_network(problem):
    (network,) = networks_in(problem)
    return network


def scaled_network(rhs, history: Any = PAST, data=DATA, **options):
    """The one network of such a problem, with its scales."""
    return one_network(scaled_networks(dd.Problem(rhs, history, 1.0, **options), data))


def term(x, y, tau, t, g=1.0, net=dd.Network(width=4)):
    return net(y) - g * x


def values(network, low=-3.0, high=3.0):
    network = network.sized(1)
    return np.array([network(u)[0] for u in np.linspace(low, high, 41)])


def test_a_network_is_what_its_formula_says():
    net = dd.Network(width=3, depth=2, outputs=2, seed=4).sized(2)
    center, scale, size = np.array([[1.0, 2.0], [2.0, 0.5], [3.0, 4.0]])
    net = net.scaled(center, scale, size, np.ones(2))
    u = np.array([0.3, 0.9])
    z = (u - [1, 2]) / [2, 0.5]
    (w0, w1, w2), (c0, c1, c2) = net.weights, net.biases
    z = w2 @ np.tanh(w1 @ np.tanh(w0 @ z + c0) + c1) + c2
    np.testing.assert_allclose(net(u), np.array([3, 4]) * z + 1, rtol=1e-12)
    np.testing.assert_allclose(net(0.3, jnp.array([0.9])), net(u))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_shapes_hold_for_all_weights(seed):
    options: Any = dict(width=4, depth=2, seed=seed)
    assert np.all(values(dd.Network(positive=True, **options)) > 0)
    assert np.all(np.diff(values(dd.Network(increasing=True, **options))) > 0)
    down = values(dd.Network(decreasing=True, positive=True, **options))
    assert np.all(np.diff(down) < 0) and np.all(down > 0)
    bounded = values(dd.Network(bounds=(2, 3), increasing=True, **options), -50, 50)
    assert np.all((bounded > 2) & (bounded < 3)) and np.all(np.diff(bounded) >= 0)
    through = dd.Network(through_zero=True, **options).sized(1)
    through = through.scaled(np.ones(1), np.ones(1), np.full(1, 5.0), np.ones(1))
    assert through(0.0)[0] == 0 and through(1.0)[0] != 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(increasing=True, decreasing=True), "both increasing and decreasing"),
        (dict(positive=True, through_zero=True), "is not zero at zero"),
        (dict(positive=True, bounds=(0, 1)), "leave out `positive`"),
        (dict(through_zero=True, bounds=(-1, 1)), "cannot be held at zero"),
        (dict(bounds=(1, 0)), "the lower one first"),
        (dict(bounds=3), "must be two numbers"),
        (dict(width=2.5), "`width` must be an integer"),
        (dict(positive="yes"), "must be True or False"),
    ],
)
def test_contradictions_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        dd.Network(**arguments)


class Known(eqx.Module):
    r: float
    first: dd.Network
    second: dd.Network

    def __call__(self, x, y, tau, t):
        growth = self.first(x[0], y["a"][1])[0] - self.second(y["b"], t)[0]
        return jnp.stack([self.r * x[0] + growth, -x[1]])


def test_networks_in_a_module_with_two_states_and_two_delays():
    rhs = Known(1.0, dd.Network(width=3), dd.Network(width=2, seed=1))
    problem = dd.Problem(rhs, dd.Constant([1.0, 2.0]), {"a": 1.0, "b": 2.0})
    assert problem.rhs.first.inputs == 2 and problem.rhs.second.inputs == 3
    assert "first.weights[0][2,1]" in dd.parameter_values(problem)
    assert not {"center", "scale"} & {*dd.parameter_values(problem)}
    assert np.all(np.isfinite(dd.solve(problem, T=3)(3.0)))


def test_networks_as_right_hand_side_history_and_observation():
    whole: Any = dd.Problem(dd.Network(width=3), dd.Constant([1.0, 2.0]), (1.0, 2.0))
    network = whole.rhs.network
    assert (network.inputs, network.outputs) == (6, 2)
    parts = lambda x, y, tau, t: jnp.stack([-y[1], x[0]]), dd.Network(width=3)
    problem: Any = dd.Problem(*parts, 1.0, observe=dd.Network(width=2, outputs=3))
    history = problem.history.network
    assert (history.inputs, history.outputs) == (1, 2)
    assert problem.observe.network.inputs == 2 and problem.observed == 3
    assert dd.Problem(dd.Network(outputs=2), dd.Network(), 1.0).dimension == 2


def test_a_network_that_computes_a_delay():
    tau = dd.Delay(lambda t, x, net=dd.Network(width=2, positive=True): net(x, t)[0])
    assert one_network(dd.Problem(lambda x, y, tau, t: -y, PAST, tau)).inputs == 2


def test_networks_inside_of_compiled_functions_find_their_sizes():
    assert one_network(dd.Problem(jax.jit(term), PAST, 1.0)).inputs == 1


def test_what_networks_cannot_find_out_is_said():
    def unused(x, y, tau, t, net=dd.Network()):
        return -y

    def twice(x, y, tau, t, net=dd.Network()):
        return net(x) + net(x, y)

    with pytest.raises(ValueError, match="never called"):
        dd.Problem(unused, PAST, 1.0)
    with pytest.raises(ValueError, match="with 1 and with 2 inputs"):
        dd.Problem(twice, PAST, 1.0)
    with pytest.raises(ValueError, match="no weights yet"):
        dd.Network()(1.0)
    with pytest.raises(ValueError, match="3 outputs, but the state has 2"):
        dd.Problem(dd.Network(outputs=3), dd.Constant([1.0, 1.0]), 1.0)
    with pytest.raises(ValueError, match="1 inputs was called with 2"):
        dd.Network().sized(1)(1.0, 2.0)


def test_scales_are_no_parameters_of_gradients():
    problem = dd.Problem(term, PAST, 1.0)

    def end(problem):
        return jnp.sum(dd.solve(problem, T=2.0)(2.0))

    gradient = eqx.filter_grad(end)(problem).rhs.net
    assert np.any(gradient.weights[0] != 0) and gradient.biases[1] != 0
    for table in (gradient.center, gradient.scale, gradient.size, gradient.offset):
        assert np.all(table == 0)


def close(actual, expected, share=0.1):
    np.testing.assert_allclose(actual, expected, rtol=share, atol=share)


def test_the_scales_of_a_term():
    problem = dd.Problem(term, PAST, 1.0)
    network = scaled_network(term)
    close(network.center, [1.0])
    close(network.scale, [0.5])
    close(network.size, [np.hypot(0.5, 0.5)], 0.05)  # of the slope and of g * x
    assert network.offset == 0
    again = scaled_networks(scaled_networks(problem, DATA), dd.Data(T, 3 * np.cos(T)))
    np.testing.assert_array_equal(one_network(again).scale, network.scale)


def test_the_size_of_a_network_that_is_multiplied():
    def rhs(x, y, tau, t, net=dd.Network(width=4)):
        return 10 * net(y)

    close(scaled_network(rhs).size, [0.05], 0.01)


def test_the_scales_of_functions_of_time_and_of_inputs():
    table = dd.Input(np.linspace(0, 20, 50), 3 + np.cos(np.linspace(0, 20, 50)))

    def rhs(x, y, tau, t, u=table, net=dd.Network(width=4)):
        return net(t, u(t - tau)) - x  # u is not known before time zero

    network = scaled_network(rhs)
    close(network.center, [10.0, 3.0])
    close(network.scale, [20 / np.sqrt(12), np.sqrt(0.5)])


def test_the_scales_of_a_history():
    network = scaled_network(lambda x, y, tau, t: -y, dd.Network(width=4))
    np.testing.assert_allclose(network.center, [0.0], atol=1e-12)
    np.testing.assert_allclose(network.scale, [2.0])
    close(network.offset, [1.0])
    close(network.size, [0.5])
    positive = dd.Network(width=4, positive=True)
    assert scaled_network(lambda x, y, tau, t: -y, positive).offset == 0


def test_a_term_of_two_states_and_a_state_that_was_not_measured():
    def rhs(x, y, tau, t, net=dd.Network(width=4)):
        eaten = net(x[0], y[1])[0]
        return jnp.stack([x[0] - eaten, eaten - x[1]])

    past = dd.Constant([1.0, 1.0])
    network = scaled_network(rhs, past, TWO)
    close(network.scale, [0.5, 3 / np.sqrt(2)])
    # The larger one of the two slopes, and of the other term beside it.
    close(network.size, [3.0])
    network = scaled_network(rhs, past, observe=lambda x, t: 2 * x[1:] + 1)
    close(network.center, [1.0, 0.0])
    close(network.scale, [1.0, 0.25])
    close(network.size, [np.hypot(0.25, 0.25)], 0.05)


def test_networks_in_what_is_observed():
    def observe(x, t, net=dd.Network(width=2)):
        return x + net(x)

    close(scaled_network(lambda x, y, tau, t: -y, observe=observe).size, [0.5])


def test_experiments_share_their_scales():
    problem = dd.Problem(term, PAST, 1.0)
    first, second = scaled_together([problem, problem], [DATA, dd.Data(T, WAVE + 10)])
    close(one_network(first).center, [6.0])
    np.testing.assert_array_equal(one_network(first).scale, one_network(second).scale)


def test_too_few_values_and_compiled_functions():
    few = dd.Data([0.0, 1.0, 2.0], [1.0, 2.0, 1.5])
    compiled = jax.jit(term)
    network = scaled_network(compiled, data=few)
    assert np.all(np.isfinite(network.scale)) and network.size > 0
    np.testing.assert_allclose(scaled_network(compiled).size, scaled_network(term).size)


def test_a_network_in_a_condition_of_jax_has_no_scales():
    def rhs(x, y, tau, t, net=dd.Network(width=2)):
        return jax.lax.cond(t > 1, lambda y: net(y), lambda y: -net(y), y)

    assert one_network(dd.Problem(rhs, PAST, 1.0)).inputs == 1
    assert not scaled_network(rhs).has_scales


def test_a_fit_has_scales_and_comes_back_from_a_file(tmp_path):
    history = dd.Network(width=2, positive=True)
    problem = dd.Problem(dd.Network(width=2, bounds=(-1.0, 1.0)), history, 1.0)
    options: Any = dict(epochs=3, optimizer=dd.Adam(0.01))
    fit = dd.fit(problem, DATA, **options)
    close(fit.problem.rhs.network.scale, [0.5, 0.5])
    loaded = reloaded(fit, tmp_path, dd.FitResult).problem
    assert loaded.rhs.network.bounds == (-1.0, 1.0) and loaded.history.network.positive
    expected = np.asarray(dd.solve(fit.problem, T=5)(T[:20]))
    np.testing.assert_array_equal(dd.solve(loaded, T=5)(T[:20]), expected)


def test_a_network_in_code_of_the_user_gets_its_saved_scales(tmp_path):
    problem = dd.Problem(term, PAST, 1.0)
    options: Any = dict(epochs=3, optimizer=dd.Adam(0.01))
    fit = dd.fit(problem, DATA, **options)
    loaded = reloaded(fit, tmp_path, dd.FitResult, problem=problem).problem
    expected = one_network(fit.problem)
    np.testing.assert_array_equal(one_network(loaded).center, expected.center)
    np.testing.assert_array_equal(loaded.rhs.net(0.3), fit.problem.rhs.net(0.3))
