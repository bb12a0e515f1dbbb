"""The adaptive solvers and `solver="auto"`: order, accuracy, the choice, and failures
that are sentences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import ddefind as dd
from ddefind._engine.adaptive.radau import _A as RADAU_A
from support.fits import simulated, unchecked


def decay(delay):
    return dd.Problem(lambda x, y, tau, t: -y, dd.Constant(1.0), delay)


DECAY = decay(1.0)


def rooted_trees(most):
    """All rooted trees with up to this many nodes, each as the numbers of its
    branches, with their numbers of nodes."""
    trees, sizes = [()], [1]

    def branches(total, first):
        if total == 0:
            yield ()
        for number in range(first, len(trees)):
            if sizes[number] <= total:
                for rest in branches(total - sizes[number], number):
                    yield number, *rest

    for size in range(2, most + 1):
        new = list(branches(size - 1, 0))
        trees += new
        sizes += [size] * len(new)
    return trees, np.array(sizes)


def order_conditions(b, a, order):
    """Both sides of each of Butcher's conditions of an order for the weights `b`, and
    their numbers of nodes."""
    trees, sizes = rooted_trees(order)
    weights, densities = [], []
    for tree, size in zip(trees, sizes):
        weights.append(
            np.prod([a @ weights[n] for n in tree], axis=0) * np.ones(len(a))
        )
        densities.append(size * np.prod([densities[n] for n in tree]))
    return np.array(weights) @ b, 1 / np.array(densities), sizes


@pytest.mark.parametrize("u", [0.1, 0.37, 0.8, 1.0])
@pytest.mark.parametrize("solver, order", [(dd.Tsit5, 5), (dd.DOP853, 7)])
def test_the_pieces_of_explicit_pairs_have_their_order_everywhere(solver, order, u):
    pair = solver.pair
    np.testing.assert_allclose(pair.a.sum(axis=1), pair.c, atol=1e-14)
    weights = pair.piece @ u ** np.arange(1, pair.piece.shape[1] + 1)
    found, wanted, sizes = order_conditions(weights, pair.a, order)
    np.testing.assert_allclose(found, wanted * u**sizes, atol=3e-14 * 10 ** (order - 5))


def test_the_end_of_a_step_of_dop853_has_order_8():
    found, wanted, sizes = order_conditions(dd.DOP853.pair.a[12], dd.DOP853.pair.a, 8)
    assert len(sizes) == 200
    np.testing.assert_allclose(found, wanted, atol=1e-13)
    # And no more: the error falls with the 9th power of a step.
    found, wanted, _ = order_conditions(dd.DOP853.pair.a[12], dd.DOP853.pair.a, 9)
    assert np.max(np.abs(found - wanted)) > 1e-7


def test_radau_has_order_5():
    found, wanted, _ = order_conditions(RADAU_A[2], RADAU_A, 5)
    np.testing.assert_allclose(found, wanted, atol=1e-14)


@pytest.mark.parametrize("rtol", [1e-7, 1e-9, 1e-11])
def test_dop853_needs_few_steps_for_small_tolerances(rtol):
    problem = dd.Problem(dd.models.Logistic(2.0, 1.0), dd.Constant(0.5), tau=0.9)
    times = np.linspace(0, 20, 99)
    exact = dd.solve(problem, 20.0, dd.Tsit5(1e-13, 1e-14), max_steps=20000)(times)
    found = dd.solve(problem, 20.0, dd.DOP853(rtol))
    assert np.max(np.abs(found(times) - exact)) < 30 * rtol
    assert len(found.t) < 0.5 * len(dd.solve(problem, 20.0, dd.Tsit5(rtol)).t)


@pytest.mark.parametrize("solver", [dd.Tsit5(1e-5), dd.DOP853(1e-5), dd.Radau(1e-5)])
def test_polynomials_are_solved_exactly(solver):
    # 1 - t, then 1 - t + (t - 1)^2 / 2.
    solution = dd.solve(DECAY, 3.0, solver)
    np.testing.assert_allclose(solution([0.5, 1.5])[:, 0], [0.5, -0.375], atol=1e-12)
    assert type(solution.solver) is type(solver)
    assert solution.t[0] == 0 and solution.t[-1] == 3
    assert {1.0, 2.0, 3.0} <= set(np.round(np.asarray(solution.t), 12))


def test_a_smaller_tolerance_is_a_smaller_error():
    problem = dd.Problem(
        lambda x, y, tau, t: 0.2 * y / (1 + y**10) - 0.1 * x, dd.Constant(0.5), 14.0
    )
    exact = 1.0104431117001451  # at t = 500, by two independent methods
    errors = [
        abs(float(dd.solve(problem, 500.0, dd.Tsit5(rtol))(500.0)[0]) - exact)
        for rtol in (1e-4, 1e-6, 1e-8)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[1] < 1e-5 and errors[2] < 1e-7


def stiff(k):
    def rhs(x, y, tau, t):
        return -k * (x - jnp.cos(t))

    return dd.Problem(rhs, dd.Constant(1.0), 1.0)


def test_auto_takes_fixed_steps_where_they_are_right_and_radau_where_not():
    assert isinstance(dd.solve(DECAY, 3.0).solver, dd.RK4)
    solution = dd.solve(stiff(1e5), 10.0)
    assert isinstance(solution.solver, dd.Radau)
    t = np.linspace(0.5, 10, 20)
    slow = np.cos(t) + np.sin(t) / 1e5  # up to 1e-10
    np.testing.assert_allclose(solution(t)[:, 0], slow, atol=1e-6)
    assert not abs(float(dd.solve(stiff(1e5), 10.0, dd.RK4())(5.0)[0])) < 10


def test_auto_takes_tsit5_where_fixed_steps_are_too_long():
    # A delay of 50 and a solution that oscillates with a period of 1.
    problem = dd.Problem(
        lambda x, y, tau, t: jnp.stack([x[1], -40 * x[0] + 0.1 * y[0]]),
        dd.Constant([1.0, 0.0]),
        50.0,
    )
    solution = dd.solve(problem, 20.0)
    assert isinstance(solution.solver, dd.Tsit5)
    w = 40**0.5
    wanted = 0.0025 + (1 - 0.0025) * np.cos(w * 20)
    np.testing.assert_allclose(solution(20.0)[0], wanted, atol=1e-5)


def test_inside_a_program_auto_is_fixed_for_numbers_and_adaptive_for_the_rest():
    @eqx.filter_jit
    def end(problem):
        return dd.solve(problem, 2.0)(1.5)

    np.testing.assert_allclose(end(DECAY), [-0.375], rtol=1e-12)
    varying = decay(dd.Delay(lambda t, x: 1.0 + 0 * t + 0 * x[0]))
    np.testing.assert_allclose(end(varying), [-0.375], rtol=1e-9)


UNBOUNDED = dd.Problem(
    lambda x, y, tau, t: x**2 + 0 * y, dd.Constant(1.0), dd.Delay(1.0, slope=False)
)
FAILURES = {
    "fixed steps": (
        decay(dd.GammaDelay(1, 2)),
        {"solver": dd.RK4()},
        r"`RK4` takes fixed steps.*`solver=dd.Tsit5\(\)`",
    ),
    "a delay that becomes negative": (
        decay(dd.Delay(lambda t, x: 1.0 - t / 3)),
        {},
        r"delay `tau` becomes negative.*t = 3",
    ),
    "an advanced argument": (
        decay(dd.Delay(lambda t, x: -0.5 + 0 * t)),
        {"solver": dd.Tsit5()},
        "becomes negative: it is -0.5",
    ),
    "a solution that ends": (
        UNBOUNDED,
        {"solver": dd.Tsit5()},
        r"cannot be continued beyond t = (1|0\.99)",
    ),
    "too few steps": (
        stiff(1e5),
        {"solver": dd.Tsit5(), "max_steps": 100},
        "needs too many steps",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_a_sentence_with_time_and_value(name):
    problem, options, message = FAILURES[name]
    with pytest.raises(ValueError, match=message):
        dd.solve(problem, 5.0, **options)


def test_tolerances_and_names_are_checked():
    with pytest.raises(ValueError, match="`rtol` must be a number from 1e-13"):
        dd.Tsit5(rtol=-1)
    with pytest.raises(ValueError, match="`atol` must be a positive number"):
        dd.Radau(atol=0)
    with pytest.raises(TypeError, match="`solver` must be"):
        dd.solve(DECAY, 1.0, unchecked("Radau"))


@pytest.mark.slow
def test_a_rate_that_may_be_infinite_has_an_open_interval():
    t = np.linspace(0.1, 10, 60)

    def rhs(t, x):
        return -1e5 * (x - np.cos(t))

    exact = solve_ivp(rhs, (0, 10), [1.0], "Radau", t, rtol=1e-9, atol=1e-11).y[0]
    noise = 0.05 * np.random.default_rng(1).standard_normal(60)
    data = dd.Data(t, exact + noise, names=["x"])
    fit = dd.fit(dd.equation("x' = -k * (x - cos(t))"), data, history="constant")
    assert isinstance(fit.solver, dd.Radau)
    low, high = fit.intervals["k"]
    assert 20 < low < 300 and high == np.inf
    assert "for stiff equations" in str(fit)
    assert "steps matter" not in str(fit)


@pytest.mark.parametrize("solver", [dd.Tsit5(), dd.Radau()])
@pytest.mark.slow
def test_adaptive_fits_agree_with_those_of_fixed_steps(solver):
    model = dd.equation("x' = r * x * (1 - x(t - tau) / K)", history="constant")
    truth = model.problem({"r": 1.4, "K": 2.0, "tau": 1.0, "b": 0.5})
    data = simulated(truth, np.linspace(0.2, 12, 60), 0.03, seed=3, names=["x"])
    fixed = dd.fit(model, data, history="constant", solver=dd.RK4())
    adaptive = dd.fit(model, data, history="constant", solver=solver)
    for name in fixed.names:
        error = fixed.standard_errors[name]
        assert abs(fixed.values[name] - adaptive.values[name]) < 0.02 * error
        np.testing.assert_allclose(
            fixed.intervals[name], adaptive.intervals[name], atol=0.1 * error
        )


@pytest.mark.slow
def test_derivatives_of_a_stiff_solution():
    model = dd.equation("x' = -k * (x - z); z' = -c * x(t - tau)", history=[1.0, 1.0])

    def end(values, differentiate):
        problem = model.problem(k=values[0], c=values[1], tau=values[2])
        return dd.solve(problem, 4.0, dd.Radau(1e-8), differentiate=differentiate)(3.7)

    values = jnp.array([2e4, 0.8, 1.3])
    forward = jax.jacfwd(lambda v: end(v, "forward"))(values)
    reverse = jax.jacrev(lambda v: end(v, "reverse"))(values)
    np.testing.assert_allclose(forward, reverse, rtol=1e-9, atol=1e-12)
    for j, step in enumerate([200.0, 1e-3, 1e-3]):
        e = step * np.eye(3)[j]
        both = end(values + e, "forward") - end(values - e, "forward")
        size = np.abs(forward[:, j]).max()
        np.testing.assert_allclose(forward[:, j], both / (2 * step), atol=1e-3 * size)


@pytest.mark.parametrize("k", [1e3, 1e4])
def test_a_cascade_that_begins_at_rest(k):
    """All states and slopes are zero at time zero: no error can be judged by them."""
    model = dd.equation("x' = t - x(t - tau); y' = k * (x - y)", history=[0.0, 0.0])
    x, y = dd.solve(model.problem(k=k, tau=1.2), T=2.0, solver=dd.Radau())(2.0)
    # x = t^2 / 2 - (t - tau)^3 / 6, and y follows it at the distance x' / k.
    assert float(x) == pytest.approx(2.0 - 0.8**3 / 6, rel=1e-6)
    assert float(y) == pytest.approx(float(x) - (2.0 - 0.8**2 / 2) / k, rel=1e-5)
