"""Several delays and switches in time: order, exact solutions, coincidences, limits."""

from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import Polynomial

import ddefind as dd
from ddefind._engine.aligned.path import MeshPath
from ddefind._engine.choose import engine_for
from ddefind._engine.mesh.engine import solve_mesh
from ddefind._engine.mesh.mesh import (
    known_constants,
    make_mesh,
    mover_values,
    points_of,
)
from support.mesh_problems import Formula
from support.method_of_steps import method_of_steps
from support.repeats import mostly_slow

DELAYS = (1.0, np.sqrt(0.5), (np.sqrt(5) - 1) / 2)
GAINS, SWITCH = (-3.0, 2.0, -1.5), 1.337
EULER, RK2, RK4 = dd.Euler(), dd.RK2(), dd.RK4()


class Rhs(eqx.Module):
    """A nonlinear equation with a dose from the time `switch` on. It is made of
    operators, so that it is a function of NumPy as well."""

    gains: Any
    dose: Any
    switch: Any

    def __call__(self, x, y, tau, t):
        slope = -0.3 * x + self.dose * (t > self.switch) * (1 + 0.2 * x)
        for gain, delayed in zip(self.gains, y):
            slope = slope + gain * delayed / (1 + delayed * delayed)
        return slope


def past(t):
    return jnp.reshape(1 + 0.3 * t, 1)


def make_problem(k, jump=False, switch=None, delays=DELAYS):
    """A problem with k delays; a `switch` is "number" or "parameter"."""
    dose = 0.0 if switch is None else 1.5
    is_number = switch == "number"
    at = SWITCH if is_number else jnp.asarray(SWITCH)
    rhs = Rhs(jnp.array(GAINS[:k]), dose, at)
    if switch is None:
        switches: Any = ()
    else:
        switches = (SWITCH,) if is_number else (lambda p: p.rhs.switch[None])
    initial = 1.8 if jump else None
    return dd.Problem(rhs, past, delays[:k], initial=initial, switches=switches)


def reference(problem, T, tolerance=3e-14):
    rhs = jax.tree.map(np.asarray, problem.rhs)
    delays = [float(tau) for tau in problem.tau]
    switches = np.asarray(problem.switch_times).tolist()
    start = np.asarray(problem.start)

    def past(t):
        return np.array([1 + 0.3 * t])

    return method_of_steps(rhs, start, delays, T, tolerance, past, switches)


def mesh_of(problem, T, solver, step, capacity=2048, overlaps=False):
    points, at = points_of(problem, solver), mover_values(problem)
    known = known_constants(problem, points)
    return make_mesh(points, at, T, step, capacity, overlaps, known)


@eqx.filter_jit
def solve_on(problem, solver, mesh) -> MeshPath:
    return solve_mesh(problem, solver, mesh, "forward")


T = 5.0
CASES = {
    "one delay": dict(k=1),
    "one, jump, switch": dict(k=1, jump=True, switch="parameter"),
    "two delays": dict(k=2),
    "two, jump": dict(k=2, jump=True),
    "two, switch": dict(k=2, switch="number"),
    "three delays": dict(k=3),
    "three, jump, switch": dict(k=3, jump=True, switch="parameter"),
}
OFTEN = [(RK4, "three, jump, switch"), (RK2, "two, switch"), (EULER, "two, jump")]


@cache
def case(key):
    problem = make_problem(**CASES[key])
    return problem, reference(problem, T)


def order(errors):
    """The order of the errors with 1, 2, 4, ... times the steps."""
    return -np.polyfit(np.arange(len(errors)), np.log2(errors), 1)[0]


def errors_at(problem, exact, solver, step, overlaps=False):
    """The largest errors at the nodes and between them, with 1, 2, 4 and 8 times the
    steps in every interval."""
    mesh = mesh_of(problem, T, solver, step, 8192 if overlaps else 2048, overlaps)
    between, errors = np.sort(np.random.default_rng(0).uniform(0, T, 400)), []
    for times in (1, 2, 4, 8):
        steps = mesh.counts * times, mesh.tail / times
        finer = eqx.tree_at(lambda mesh: (mesh.counts, mesh.tail), mesh, steps)
        path = solve_on(problem, solver, finer)
        rows = np.flatnonzero(np.asarray(path.times) <= T)
        rows = rows[:: max(1, len(rows) // 300)]
        at_nodes = path.rows[rows, 0] - exact(np.asarray(path.times)[rows])
        dense = jax.vmap(path)(between) - exact(between)
        errors.append([np.abs(at_nodes).max(), np.abs(dense).max()])
    return np.array(errors).T


@pytest.mark.parametrize(
    "solver, key",
    mostly_slow([(s, key) for s in (EULER, RK2, RK4) for key in CASES], OFTEN),
)
def test_every_solver_has_its_order(solver, key):
    problem, exact = case(key)
    step = 0.1 if solver.order == 4 else 0.05
    at_nodes, between = errors_at(problem, exact, solver, step)
    assert order(at_nodes) == pytest.approx(solver.order, abs=0.2)
    assert order(between) == pytest.approx(solver.order, abs=0.2)
    assert between[-1] < {1: 3e-2, 2: 3e-5, 4: 1e-8}[solver.order]


@pytest.mark.parametrize("solver", mostly_slow((EULER, RK2, RK4), (RK4,)))
def test_order_where_a_delay_is_shorter_than_every_step(solver):
    problem = make_problem(2, jump=True, switch="number", delays=(1.0, 0.003))
    fine = solve_on(problem, RK4, mesh_of(problem, T, RK4, 1e-3, 8192, True))
    exact = jax.jit(jax.vmap(fine))
    step = 0.1 if solver.order == 4 else 0.02
    at_nodes, between = errors_at(problem, exact, solver, step, True)
    assert order(at_nodes) == pytest.approx(solver.order, abs=0.2)
    assert order(between) == pytest.approx(solver.order, abs=0.2)


def derivative(problem, T, times, q, step=1e-3):
    """dx / dtau_q by differences of scipy's solutions."""

    def at(move):
        delays = [float(tau) for tau in problem.tau]
        delays[q] += move * step
        moved = eqx.tree_at(lambda p: p.tau, problem, tuple(delays))
        return reference(moved, T, 1e-11)(times)

    return (at(1) - at(-1)) / (2 * step)


@pytest.mark.parametrize("jump", mostly_slow((False, True), (False,)))
def test_steps_of_a_twentieth(jump):
    """Two incommensurate delays, steps of 0.05 in a record of 10."""
    problem = make_problem(2, jump=jump)
    times = np.linspace(0.037, 10.0, 60)
    mesh = mesh_of(problem, 10.0, RK4, 0.05)

    def states(delays):
        moved = eqx.tree_at(lambda p: p.tau, problem, delays)
        return jax.vmap(solve_mesh(moved, RK4, mesh, "forward"))(times)

    x, slopes = eqx.filter_jit(lambda tau: (states(tau), jax.jacfwd(states)(tau)))(
        problem.tau
    )
    np.testing.assert_allclose(x, reference(problem, 10.0)(times), rtol=0, atol=1e-6)
    for q, found in enumerate(slopes):
        expected = derivative(problem, 10.0, times, q)
        error = np.abs(found - expected).max() / np.abs(expected).max()
        assert error < 5e-4


def by_polynomials(gains, delays, past, start, dose, switch, T):
    """The exact solution of x' = sum of gains x(t - delays), plus a dose from a time
    on, with a constant history: a polynomial between any two breaking points."""
    breaks = {0.0, switch}
    for _ in range(12):
        breaks |= {b + tau for b in breaks for tau in delays if b + tau < T}
    ordered = sorted(breaks) + [T]
    ordered = [b for b, c in zip(ordered, ordered[1:]) if c - b > 1e-9] + [T]
    pieces: list[Polynomial] = []
    x = start
    for a, b in zip(ordered, ordered[1:]):
        middle = 0.5 * (a + b)
        slope = Polynomial([dose if middle > switch else 0.0])
        for gain, tau in zip(gains, delays):
            which = int(np.searchsorted(ordered, middle - tau)) - 1
            shift = Polynomial([-tau, 1.0])
            slope += gain * (pieces[which](shift) if which >= 0 else past)
        piece = slope.integ()
        pieces.append(piece + (x - piece(a)))
        x = pieces[-1](b)

    def solution(t):
        which = np.clip(np.searchsorted(ordered, t) - 1, 0, len(pieces) - 1)
        return np.array([pieces[j](each) for j, each in zip(which, t)])

    return solution


def test_rk4_is_exact_on_cubics():
    # Until three delays have passed, the solution is made of cubics.
    gains, delays, switch = np.array([-1.2, 0.7]), (1.0, 1.3), 0.4

    def rhs(x, y, tau, t):
        return gains[0] * y[0] + gains[1] * y[1] + jnp.where(t >= switch, 0.9, 0.0)

    problem = dd.Problem(rhs, dd.Constant(1.0), delays, initial=2.0, switches=(switch,))
    exact = by_polynomials(gains, delays, 1.0, 2.0, 0.9, switch, 2.9)
    solution = dd.solve(problem, 2.9, max_step=0.5)
    t = np.linspace(0.0, 2.9, 59)
    np.testing.assert_allclose(solution(t)[:, 0], exact(t), rtol=0, atol=3e-14)
    np.testing.assert_allclose(solution.x[:, 0], exact(solution.t), rtol=0, atol=3e-14)
    assert solution.t[0] == 0 and solution.t[-1] == 2.9
    nodes = np.asarray(solution.t)
    assert np.all(np.diff(nodes) > 0) and np.all(np.diff(nodes) < 0.5 + 1e-12)
    for point in (0.4, 1.0, 1.3, 1.4, 1.7, 2.0, 2.3, 2.4, 2.6, 2.7):
        assert np.abs(nodes - point).min() < 1e-12


# Breaking points that cross, with the numbers of steps held.

END = 5.0
TIMES = np.append(np.sort(np.random.default_rng(3).uniform(0, END, 23)), END)


@cache
def loss_of(jump):
    """A compiled function of (tau_1, tau_2, switch) and of a mesh: the loss and its
    gradient. And a function that makes the mesh, with steps of a given length."""
    problem = make_problem(2, jump=jump, switch="parameter", delays=(1.0, 1.0))

    def build(movers):
        return eqx.tree_at(lambda p: (*p.tau, p.rhs.switch), problem, tuple(movers))

    def loss(movers, mesh):
        path = solve_mesh(build(movers), RK4, mesh, "reverse")
        return jnp.sum((jax.vmap(path)(TIMES)[:, 0] - jnp.sin(TIMES)) ** 2)

    def mesh(movers, step):
        points = points_of(problem, RK4)
        return make_mesh(points, np.asarray(movers), END, step, 1024, True)

    return eqx.filter_jit(jax.value_and_grad(loss)), mesh


# Where (tau_1, tau_2, switch) are when they cross, and which of them moves.
CROSSINGS = {
    "a delay and another": ((1.1, 1.1, 1.7), 0),
    "twice a delay and another": ((0.8, 1.6, 2.3), 0),
    "a delay and a switch": ((1.3, 0.9, 1.3), 0),
    "a switch and a sum of delays": ((1.3, 0.9, 2.2), 2),
    "a delay and the end": ((END, 0.9, 1.7), 0),
    "a delay and the length of a step": ((0.025, 0.9, 1.7), 0),
    "a switch and time zero": ((1.3, 0.9, 0.0), 2),
    "a switch and the end": ((1.3, 0.9, END), 2),
}
ENDS = ("time zero", "the end")
# There x at the end, or everywhere, has a kink of its own.
KINKS = {("a delay and the end", True)}
KINKS |= {(f"a switch and {place}", jump) for place in ENDS for jump in (False, True)}


@pytest.mark.parametrize("jump", mostly_slow((False, True), (True,)))
@pytest.mark.parametrize("name", CROSSINGS)
def test_no_jump_and_no_kink_where_breaking_points_cross(name, jump):
    crossing, moving = CROSSINGS[name]
    value_and_grad, make = loss_of(jump)
    along = np.eye(3)[moving]
    step = crossing[0] if "step" in name else min(crossing[:2]) / 40
    mesh = make(crossing - 0.013 * along, step)
    moves = 1e-7 * np.array([-2, -1, -1e-3, 0.0, 1e-3, 1, 2])
    found = [value_and_grad(jnp.asarray(crossing + m * along), mesh) for m in moves]
    loss = np.array([value for value, _ in found])
    gradients = np.array([gradient for _, gradient in found])
    scale = np.abs(gradients).max()
    if (name, jump) in KINKS:
        gaps = np.abs(np.diff(loss)) - np.diff(moves) * scale
    else:
        slopes = gradients @ along
        gaps = np.abs(np.diff(loss) - np.diff(moves) * (slopes[1:] + slopes[:-1]) / 2)
        assert np.abs(gradients - gradients[0]).max() < 1e-4 * scale
    assert np.all(gaps < 1e-10 * loss[0])


def test_the_derivative_at_round_numbers():
    """A switch, multiples of a delay and another delay coincide, as they do where users
    write round numbers: this has no effect."""
    value_and_grad, make = loss_of(True)
    at = np.array([1.0, 2.0, 2.0])
    mesh = make(at, 0.05)
    beside = at + 1e-7 * np.array([1.0, 1.3, -1.0])
    value, gradient = value_and_grad(jnp.asarray(at), mesh)
    value_beside, gradient_beside = value_and_grad(jnp.asarray(beside), mesh)
    np.testing.assert_allclose(value, value_beside, rtol=1e-5)
    scale = np.abs(gradient_beside).max()
    np.testing.assert_allclose(gradient, gradient_beside, rtol=0, atol=1e-4 * scale)


def test_delays_of_every_size():
    """From 1e-9 of the record to 1e6 times the record: all loops end, and a delay that
    is too short or too long to matter does not matter."""
    problem = make_problem(2, jump=True, switch="number")

    def end(first, second):
        moved = eqx.tree_at(lambda p: p.tau, problem, (first, second))
        path = solve_on(moved, RK4, mesh_of(moved, T, RK4, 0.05, 512, True))
        return float(path(T)[0])

    short = [end(jnp.asarray(size * T), jnp.asarray(0.7)) for size in (1e-9, 1e-12)]
    assert np.isfinite(short).all()
    assert short[0] == pytest.approx(short[1], rel=1e-7)
    long = [end(jnp.asarray(size * T), jnp.asarray(0.7)) for size in (1e6, 1e9)]
    assert long[0] == pytest.approx(long[1], abs=1e-5)


@pytest.mark.parametrize("delay", [np.nan, -1.0, 0.0, np.inf])
def test_a_delay_that_is_no_positive_number_gives_nan(delay):
    problem = make_problem(2, jump=True, switch="number")
    mesh = mesh_of(problem, T, RK4, 0.05, 512, True)
    bad = eqx.tree_at(lambda p: p.tau[1], problem, jnp.asarray(delay))
    path = solve_on(bad, RK4, mesh)
    if delay != np.inf:
        assert np.all(np.isnan(path.rows))
    with pytest.raises(ValueError, match="must be positive and finite, but got"):
        make_problem(2, delays=(1.0, delay))


def test_delays_and_switches_that_are_no_numbers_are_errors():
    formula = Formula(jnp.asarray(np.nan), jnp.asarray(0.0))
    unknown = make_problem(2, delays=(1.0, formula))
    with pytest.raises(ValueError, match=r"delay `tau\[1\]` must be .* but it is nan"):
        dd.solve(unknown, T)
    never = make_problem(1, switch="parameter")
    never = eqx.tree_at(lambda p: p.rhs.switch, never, jnp.asarray(np.inf))
    with pytest.raises(ValueError, match="A switch is at the time inf"):
        dd.solve(never, T)


def test_a_step_longer_than_a_delay_needs_a_march_that_is_prepared_for_it():
    # The step counts are held: as the second delay grows, one step becomes 3 long.
    problem = make_problem(2, delays=(1.0, 1.01))
    mesh = mesh_of(problem, T, RK4, 0.1, 512)
    assert mesh.longest_step(np.array([1.0, 1.01])) == pytest.approx(0.1)
    assert mesh.longest_step(np.array([1.0, 4.01])) > 0.9
    moved = eqx.tree_at(lambda p: p.tau[1], problem, jnp.asarray(4.01))
    moved = eqx.tree_at(lambda p: p.tau[0], moved, jnp.asarray(0.8))
    assert np.all(np.isfinite(solve_on(problem, RK4, mesh).rows))
    assert np.all(np.isnan(solve_on(moved, RK4, mesh).rows))
    grids: Any = engine_for(problem, RK4, T).grids([problem], np.array([T]), 10)
    assert not grids.meshes[0].overlaps
    grids.movers[:, 0] = 0.8, 4.01
    grids.reserve(np.array([0]), False)
    assert grids.meshes[0].overlaps


def test_rows_of_a_mesh_whose_delays_are_much_longer_than_the_record():
    problem = make_problem(2, delays=(1.0, 1e6))
    mesh = mesh_of(problem, T, RK4, 0.05, 512)
    needed = int(mesh.rows_needed(jnp.asarray(mover_values(problem))))
    assert needed <= mesh.rows_in(mover_values(problem)) < needed + 20


def solve_traced(delays):
    problem = make_problem(2, jump=True, switch="parameter", delays=tuple(delays))
    return dd.solve(problem, 3.0, steps_per_delay=10, max_steps=250)(3.0)[0]


MANY = jnp.array([[1.0, 0.3], [0.4, 2.0], [3.0, 3.0], [0.9, 0.45]])


def test_vmap_and_jit():
    for delays, found in zip(MANY, jax.jit(jax.vmap(solve_traced))(MANY)):
        problem = make_problem(2, True, "parameter", tuple(delays))
        alone = solve_on(problem, RK4, mesh_of(problem, 3.0, RK4, min(delays) / 10))
        np.testing.assert_allclose(found, alone(3.0)[0], rtol=1e-12)


@pytest.mark.slow
def test_gradients_with_vmap():
    together = jax.jit(jax.vmap(jax.grad(solve_traced)))(MANY)
    alone = jax.jit(jax.grad(solve_traced))
    for delays, found in zip(MANY, together):
        np.testing.assert_allclose(found, alone(delays), rtol=1e-10, atol=1e-12)


def test_too_little_room_is_an_error():
    problem = make_problem(2)

    @jax.jit
    def end(first):
        moved = eqx.tree_at(lambda p: p.tau[0], problem, first)
        return dd.solve(moved, 3.0, steps_per_delay=10, max_steps=100)(3.0)

    assert np.isfinite(end(1.0)[0])
    with pytest.raises(Exception, match="Give `max_steps`"):
        jax.block_until_ready(end(0.1))
    with pytest.raises(ValueError, match="Give `max_step`, the largest length"):
        dd.solve(make_problem(2, delays=(1.0, 1e-7)), 3.0, dd.RK4())
