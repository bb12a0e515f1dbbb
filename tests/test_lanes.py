"""Many problems side by side (`lanes`) give the numbers of each one alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._engine.aligned.engine import AlignedEngine
from ddefind._engine.engine import System
from ddefind._loss.gradients import loss_and_gradient
from support.gradients import grid_for
from support.repeats import mostly_slow
from support.vectors import flatten

LANES, N = 4, 6
LOSSES = {
    "squares": dd.SumOfSquares(),
    "integral": dd.Integral(dd.L2(), terminal=dd.L2(0.5), nodes=30),
    "nodes": dd.Integral(dd.L2(), terminal=dd.L2(0.5), nodes="solver"),
}
CASES = [("squares", kind) for kind in ("plain", "jump", "observe")]
CASES += [("integral", "jump"), ("nodes", "jump")]
ROUTES = {"discrete": dd.Discrete(), "forward": dd.Forward()}


def gauge(x, t, gain=0.7):
    return gain * x[:1] + 0.1 * t


def problem(kind, tau=1.0):
    rhs = dd.models.Exponential([-0.4, -0.9], [-1.3, 0.7])
    history = dd.Periodic([0.5, 0.2], [2.0, 1.1], [1.0, 2.0])
    initial = [2.0, 0.5] if kind == "jump" else None
    observe = gauge if kind == "observe" else None
    return dd.Problem(rhs, history, tau, initial=initial, observe=observe)


def points(kind):
    """Parameters that differ from lane to lane, the delay above all (one beyond T)."""
    random = np.random.default_rng(1)
    found = []
    for tau in (0.63, 1.0, 1.9, 7.0):
        vector, rebuild = flatten(problem(kind, tau))
        moved = rebuild(jnp.asarray(vector * random.uniform(0.9, 1.1, len(vector))))
        found.append(moved)
    return found


def data_sets(k):
    """One data set for each lane, with times and a T of its own."""
    random = np.random.default_rng(2)
    ends = 4.0 + 0.3 * np.arange(LANES)
    times = (np.sort(random.uniform(0, end, 12)) for end in ends)
    return [dd.Data(t, random.normal(size=(12, k))) for t in times]


def stack(trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=-1), *trees)


def together(problems, sets, loss, route, learned=eqx.is_inexact_array):
    """The losses and gradients of all lanes, compiled at once."""
    parts = [eqx.partition(one, learned) for one in problems]
    params, fixed = stack([part[0] for part in parts]), parts[0][1]
    grid = grid_for(problems[0], 5.0, N, 0.5)

    @jax.jit
    def run(params, target, T):
        engine, d = AlignedEngine(dd.RK4()), problems[0].dimension
        system = System(fixed, engine, grid, T, d, LANES)
        return route(system, loss, target, params, route.buffers(system))[:2]

    target = stack([loss.prepare(data) for data in sets])
    return run(params, target, jnp.array([data.T for data in sets]))


def alone(one, data, loss, route):
    target, T = loss.prepare(data), jnp.asarray(data.T)
    method = loss, route, AlignedEngine(dd.RK4()), grid_for(one, 5.0, N, 0.5)
    return loss_and_gradient(one, target, T, *method)


def compare(found, expected):
    """The same numbers up to rounding, relative to the largest of the lane."""
    flat = [
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])
        for tree in (found, expected)
    ]
    np.testing.assert_allclose(*flat, rtol=1e-11, atol=1e-13 * np.abs(flat[1]).max())


SOME = [
    *(("discrete", *case) for case in CASES if case != ("squares", "plain")),
    *(("forward", "squares", kind) for kind in ("jump", "observe")),
]
ALL = [(route, *case) for route in ROUTES for case in CASES]


@pytest.mark.parametrize("route, loss, kind", mostly_slow(ALL, SOME))
def test_lanes_equal_single_evaluations(route, loss, kind):
    problems = points(kind)
    sets = data_sets(problems[0].observed)
    values, gradients = together(problems, sets, LOSSES[loss], ROUTES[route])
    for lane, (one, data) in enumerate(zip(problems, sets)):
        expected = alone(one, data, LOSSES[loss], ROUTES[route])
        own = jax.tree.map(lambda a, lane=lane: a[..., lane], (values, gradients))
        compare(own, expected)


@pytest.mark.parametrize("kind", ["plain", "jump"])
def test_what_is_not_learned_is_shared_by_the_lanes(kind):
    base = problem(kind)
    problems = [
        eqx.tree_at(lambda p: p.tau, base, jnp.asarray(tau))
        for tau in (0.63, 1.0, 1.9, 7.0)
    ]
    sets = data_sets(2)
    only_tau = jax.tree.map(lambda _: False, base)
    only_tau = eqx.tree_at(lambda p: p.tau, only_tau, True)
    loss = LOSSES["squares"]
    values, gradients = together(problems, sets, loss, dd.Discrete(), only_tau)
    for lane, (one, data) in enumerate(zip(problems, sets)):
        value, gradient = alone(one, data, loss, dd.Discrete())
        compare((values[lane], gradients.tau[lane]), (value, gradient.tau))


@pytest.mark.slow
def test_a_lane_rests_after_its_end_where_it_would_explode():
    # x' = x^3 - 0.1 x(t - tau), x(0) = 1 explodes soon after t = 0.5.
    calm = dd.Problem(dd.models.ENSO(0.0, 1.0, 0.1), dd.Constant(1.0), 0.5)
    wild = dd.Problem(dd.models.ENSO(0.0, -1.0, 0.1), dd.Constant(1.0), 0.5)
    problems, loss = [wild, calm, calm, calm], LOSSES["squares"]
    sets = [dd.Data(np.linspace(0, T, 5), np.ones(5)) for T in (0.4, 4.0, 4.0, 4.0)]
    assert not np.isfinite(alone(wild, sets[1], loss, dd.Discrete())[0])
    for route in ROUTES.values():
        values, gradients = together(problems, sets, loss, route)
        own = jax.tree.map(lambda a: a[..., 0], (values, gradients))
        compare(own, alone(wild, sets[0], loss, route))
