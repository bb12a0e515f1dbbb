"""Losses: their values against plain numpy, and how smooth they are in the delay."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline

import ddefind as dd
from ddefind._engine.aligned.engine import AlignedEngine
from ddefind._loss.gradients import loss_and_gradient
from support.fits import Options, unchecked
from support.gradients import grid_for

PROBLEM = dd.Problem(
    dd.models.Exponential([-0.4, -0.9], [-1.3, 0.7]),
    dd.Periodic([0.5, 0.2], [2.0, 1.1], [1.0, 2.0]),
    0.83,
)
RANDOM = np.random.default_rng(6)
TIMES = np.linspace(0.0, 4.0, 9)
DATA = dd.Data(TIMES, RANDOM.normal(size=(9, 2)))


def value(loss, data=DATA, problem=PROBLEM):
    grid = grid_for(problem, 4.0, 8, 0.75)
    target, T = loss.prepare(data), jnp.asarray(data.T)
    engine = AlignedEngine(dd.RK4())
    return float(loss_and_gradient(problem, target, T, loss, None, engine, grid))


def trajectory(t, T=4.0):
    return np.asarray(dd.solve(PROBLEM, T, dd.RK4(), 8)(t))


def test_costs_and_their_weights():
    x, target = jnp.array([1.0, 2.0, -1.0]), jnp.array([0.0, 4.0, -1.5])
    weight = [1.0, 2.0, 10.0]
    assert float(dd.L1()(x, target)) == 3.5
    assert float(dd.L1(2.0)(x, target)) == 7.0
    assert float(dd.L1(weight)(x, target)) == 10.0
    assert float(dd.L2()(x, target)) == 5.25
    assert float(dd.L2(weight)(x, target)) == 11.5
    assert float(dd.Linf()(x, target)) == 2.0
    assert float(dd.Linf(weight)(x, target)) == 5.0


def test_sum_of_squares():
    residual = trajectory(TIMES) - DATA.x
    assert value(dd.SumOfSquares()) == pytest.approx(np.sum(residual**2), rel=1e-12)


def test_sum_of_squares_with_gaps_replicates_and_deviations():
    t = np.array([3.0, 0.0, 1.1, 1.1, 4.0])
    x = np.array([[1.0, 2.0], [np.nan, 0.5], [1.0, 1.0], [2.0, np.nan], [0.0, 0.1]])
    sd = np.array([[0.1, 0.2], [np.nan, 1.0], [2.0, 3.0], [0.5, np.nan], [1.0, 1.0]])
    residual = (trajectory(t) - x) / sd
    found = value(dd.SumOfSquares(), dd.Data(t, x, sd=sd))
    assert found == pytest.approx(np.nansum(residual**2), rel=1e-12)


@pytest.mark.parametrize("sd", [None, 0.3])
def test_a_state_that_is_not_measured_does_not_count(sd):
    first = dd.Data(TIMES, DATA.x[:, 0], sd=sd, names="a")
    parts = PROBLEM.rhs, PROBLEM.history, PROBLEM.tau
    seen = dd.Problem(*parts, observe=lambda x, t: x[:1])
    whole = first.select(["a", "b"])
    for route in (dd.Discrete(), dd.Forward(), dd.Adjoint()):
        options: Options = dict(gradient=route, solver=dd.RK2(), steps_per_delay=8)
        loss, gradient = dd.value_and_grad(PROBLEM, whole, **options)
        expected, of_first = dd.value_and_grad(seen, first, **options)
        assert float(loss) == pytest.approx(float(expected), rel=1e-12)
        assert float(gradient.tau) == pytest.approx(float(of_first.tau), rel=1e-10)


def test_a_deviation_of_zero_counts_only_where_something_was_measured():
    data = dd.Data(
        [0, 1, 4], [[1, 1], [np.nan, 1], [3, 1]], sd=[[1, 1], [0, 1], [1, 1]]
    )
    assert np.isfinite(value(dd.SumOfSquares(), data))


def test_perfect_data_have_no_loss():
    data = dd.Data(TIMES, trajectory(TIMES))
    assert value(dd.SumOfSquares(), data) < 1e-28
    # The spline through 9 points is not the trajectory between them.
    assert 1e-8 < value(dd.Integral(dd.L2()), data) < 1e-2


COSTS = {
    "L1": (dd.L1(), lambda x, y: np.sum(np.abs(x - y), axis=1)),
    "L2": (dd.L2(), lambda x, y: np.sum((x - y) ** 2, axis=1)),
    "Linf": (dd.Linf(), lambda x, y: np.max(np.abs(x - y), axis=1)),
    "weighted L2": (dd.L2([3.0, 0.1]), lambda x, y: (x - y) ** 2 @ [3.0, 0.1]),
    "own": (
        lambda x, y: jnp.sum(jnp.cos(x) * y),
        lambda x, y: np.sum(np.cos(x) * y, axis=1),
    ),
}


@pytest.mark.parametrize("data", ["from 0", "late"])
@pytest.mark.parametrize("key", COSTS)
def test_integrals(key, data):
    # Data that begin late: the spline is continued back to 0.
    times = {"from 0": TIMES, "late": np.array([0.7, 0.9, 2.0, 2.2, 3.7])}[data]
    data = dd.Data(times, np.cos(times)[:, None] * [1.0, 0.3])
    cost, plain = COSTS[key]
    t = (np.arange(40000) + 0.5) * data.T / 40000  # a very fine midpoint rule
    costs = plain(trajectory(t, data.T), CubicSpline(data.t, data.x)(t))
    expected = np.mean(costs) * data.T
    rough = 1e-3 if key in ("L1", "Linf") else 1e-6
    assert value(dd.Integral(cost), data) == pytest.approx(expected, rel=rough)


def test_an_integral_converges_in_its_nodes():
    data = dd.Data(TIMES, np.cos(TIMES)[:, None] * [1.0, 0.3])
    fine = value(dd.Integral(dd.L2(), nodes=4000), data)
    errors = [
        abs(value(dd.Integral(dd.L2(), nodes=nodes), data) - fine) for nodes in (16, 64)
    ]
    assert errors[1] < errors[0] / 50 and errors[1] < 1e-5 * fine


def test_a_terminal_cost_is_added_once():
    plain = value(dd.Integral(dd.L2()))
    end = np.sum((trajectory(4.0) - DATA.x[-1]) ** 2)
    for nodes in (1, 100):
        alone = dd.Integral(lambda x, y: 0.0 * x[0], terminal=dd.L2(), nodes=nodes)
        assert value(alone) == pytest.approx(end, rel=1e-12)
    both = value(dd.Integral(dd.L2(), terminal=dd.L2(7.0)))
    assert both == pytest.approx(plain + 7 * end, rel=1e-12)


def test_the_published_protocol_sums_over_the_solvers_nodes():
    loss = dd.Integral(dd.L2(), terminal=dd.L2(), nodes="solver")
    h = 0.83 / 8
    steps = int(np.ceil(4.0 / h))
    nodes = h * np.arange(steps + 1)
    assert nodes[-1] > 4.0  # beyond T, as the paper has it
    x = trajectory(nodes, nodes[-1])
    costs = np.sum((x - CubicSpline(TIMES, DATA.x)(nodes)) ** 2, axis=1)
    expected = np.trapezoid(costs, nodes) + costs[-1]
    assert value(loss) == pytest.approx(expected, rel=1e-11)


def test_losses_compare_what_is_observed():
    def observe(x, t):
        return jnp.stack([x[0] * x[1] + t])

    problem = dd.Problem(PROBLEM.rhs, PROBLEM.history, PROBLEM.tau, observe=observe)
    data = dd.Data(TIMES, np.zeros(9))
    expected = np.sum((np.prod(trajectory(TIMES), axis=1) + TIMES) ** 2)
    assert value(dd.SumOfSquares(), data, problem) == pytest.approx(expected, rel=1e-12)


def slopes(loss, tau):
    """One-sided derivatives for tau, by second-order differences."""

    def at(moved):
        return value(loss, DATA, dd.Problem(PROBLEM.rhs, PROBLEM.history, moved))

    step = 1e-5
    f = [at(tau + k * step) for k in (-2, -1, 0, 1, 2)]
    return (3 * f[2] - 4 * f[1] + f[0]) / (2 * step), (-3 * f[2] + 4 * f[3] - f[4]) / (
        2 * step
    )


def test_losses_are_smooth_in_tau_where_the_last_node_meets_T():
    # T / h = 40, and every time of the data is a node.
    for loss in (dd.SumOfSquares(), dd.Integral(dd.L2(), terminal=dd.L2())):
        left, right = slopes(loss, 0.8)
        assert left == pytest.approx(right, rel=1e-4)
    left, right = slopes(dd.Integral(dd.L2(), nodes="solver"), 0.8)
    assert abs(left - right) > 1e-2 * abs(left)  # the published protocol has a kink


@pytest.mark.parametrize("argument", ["running", "terminal"])
def test_costs_must_be_instances_or_functions(argument):
    with pytest.raises(TypeError, match=f"`{argument}` must be an instance.*`L1`"):
        dd.Integral(**{argument: unchecked(dd.L1)})
    with pytest.raises(TypeError, match=f"`{argument}` must be a function.*'L1'"):
        dd.Integral(**{argument: unchecked("L1")})


@pytest.mark.parametrize("nodes", [0, -5, 2.5, "solvers", None])
def test_nodes_must_be_positive_or_solver(nodes):
    with pytest.raises(ValueError, match="`nodes` must be a positive integer"):
        dd.Integral(nodes=nodes)
