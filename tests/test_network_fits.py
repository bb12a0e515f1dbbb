"""Fits of equations with networks, by least squares without start values."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._fitting.read_tasks import joined
from ddefind._inference import evidence_intervals
from ddefind._inference.profile import Profile
from ddefind._search import explore
from ddefind._search.batches import score
from ddefind._search.levenberg_marquardt import PROBABLE
from ddefind._search.make_setup import make_setup, make_study_setup
from ddefind._search.normal_equations import normal_equations, work_buffer
from ddefind._search.setup import effective_count
from ddefind._search.squares import ScaledRows
from support.fits import Options
from support.method_of_steps import method_of_steps

TAU, LOSS, NOISE = 2.0, 1.0, 0.03


def feedback(y):
    return 2 * y / (1 + y**8)


def trajectory(t):
    """x' = feedback(x(t - tau)) - x, by an integrator that is not ours."""

    def rhs(x, y, tau, t):
        return feedback(y[0]) - LOSS * x

    return method_of_steps(rhs, [0.5], [TAU], float(t[-1]), 1e-9)(t)[:, 0]


@pytest.fixture(scope="module")
def data():
    t = np.linspace(0, 25, 90)
    noise = NOISE * np.random.default_rng(3).normal(size=len(t))
    return dd.Data(t, (trajectory(t) + noise)[:, None], names=["x"])


@pytest.fixture(scope="module")
def fit(data):
    model = dd.equation("x' = NN(x(t - tau)) - g * x")
    return dd.fit(model, data, networks={"NN": dd.Network(width=8)})


def test_the_delay_the_rate_and_the_function_are_found(fit, data):
    low, high = fit.intervals["tau"]
    assert low < TAU < high and high - low < 0.3
    low, high = fit.intervals["g"]
    assert low < LOSS < high and high - low < 0.6
    residuals = fit.solution(data.t) - data.x
    assert 0.8 < np.sqrt(np.mean(residuals**2)) / NOISE < 1.15
    low, high = np.quantile(data.x, [0.05, 0.95])
    visited = np.linspace(low, high, 50)
    learned = np.array([float(fit.problem.rhs.NN(u)[0]) for u in visited])
    error = np.sqrt(np.mean((learned - feedback(visited)) ** 2))
    assert error < 0.2 * np.std(feedback(visited))


def test_the_next_part_of_the_record_is_predicted(fit):
    t = np.linspace(25, 30, 40)
    ahead = dd.solve(fit.problem, T=30)(t)[:, 0]
    assert np.sqrt(np.mean((ahead - trajectory(t)) ** 2)) < 2 * NOISE


def test_weights_cost_as_many_degrees_of_freedom_as_the_data_determine(fit, data):
    determined = fit.uncertainty.effective_weights
    assert 2 < determined < 12  # of 25
    assert fit.uncertainty.freedom == int(len(data.t) - np.ceil(3 + determined))
    assert "25 weights" in str(fit)


def test_stored_rows_give_the_normal_equations(data):
    """Of one experiment, and of two that have their own histories."""
    problem = dd.Problem(dd.Network(width=12), dd.Constant(0.5), tau=1.7)
    alone = make_setup(problem, data, None, dd.RK4(), 10)[0]
    records = dd.Data(data.t[:50], data.x[:50], names=["x"])
    parts = [dd.Experiment(data, label="a"), dd.Experiment(records, label="b")]
    problems, together = joined(parts, [problem] * 2, [None] * 2)
    how = None, ({}, {}), dd.RK4(), 10
    for setup in (alone, make_study_setup(problems, together, *how)[0]):
        model, points = setup.model, setup.points(np.array([0.1]))
        assert model.misfit.stores_rows
        theta = jnp.asarray(setup.guess)
        capacity = model.engine.capacity(10, setup.data.T)

        @jax.jit
        def equations(theta, model=model, points=points, capacity=capacity):
            steps = model.steps(theta, 10, points.times[-1], capacity)
            memory = work_buffer(model, theta, steps, capacity)
            rows, _ = model.misfit.linearise(model, theta, points, steps, memory)
            expected = normal_equations(model, theta, points, steps, memory)[0]
            return rows.equations(jnp.array(True)), expected

        rows, expected = equations(theta)
        for found, known in zip(rows, expected):
            np.testing.assert_allclose(found, known, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rows", [5, 30])
def test_steps_are_solved_by_the_smaller_system(rows):
    random, p = np.random.default_rng(0), 12
    J, weight = random.normal(size=(rows, p)), random.uniform(0.5, 2, p)
    free = np.arange(p) != 4
    right = np.where(free, random.normal(size=p), 0.0)
    J = np.where(free, J, 0.0)
    B = np.where(free, weight + 0.1, 1.0)
    expected = np.linalg.solve(J.T @ J + np.diag(B), right)
    scaled = ScaledRows(J, jnp.asarray(weight), jnp.asarray(free))
    step = scaled.solve(0.1, jnp.asarray(right))
    np.testing.assert_allclose(step, expected, rtol=1e-9)


def test_fits_with_networks_are_compared_by_their_evidence(fit):
    """A fit that determines more weights must follow the data better."""
    best = fit.search_result.best
    gram = np.array(best.gram)
    gram[0, 1:, 1:] *= np.exp(0.1)
    rise = score(fit.setup, replace(best, gram=gram))[0] - score(fit.setup, best)[0]
    assert rise == pytest.approx(0.1 * len(fit.names))


def test_the_interval_of_a_density():
    values = np.linspace(-4, 4, 17)
    low, high = evidence_intervals._central(values, values**2, 1.96, 0.95)
    assert (low, high) == pytest.approx((-1.96, 1.96), abs=0.02)
    # A long tail is part of the interval, and none of it is cut off.
    skewed = np.where(values > 0, (values / 2) ** 2, values**2)
    low, high = evidence_intervals._central(values, skewed, 1.96, 0.95)
    assert low > -1.96 and high > 2.5


def test_the_estimate_moves_to_what_the_evidence_finds_more_probable(fit):
    u, j = fit.uncertainty, fit.names.index("tau")
    there = np.array(fit.best)
    there[j] += 0.01
    values, rows = np.array([fit.best[j], there[j]]), np.stack([fit.best, there])
    ends = (1.9, 2.1)
    for r, moves in ((0.5, False), (1.5, True)):
        heights = np.array([r, 0.0])
        profile = Profile("tau", values[0], 2.0, ends, ends, values, heights, rows)
        found = evidence_intervals.most_probable(u, [profile])
        assert (found is not None) == moves
    assert found is not None and found.best.theta[0, j] == there[j]
    assert found.best.status[0] == PROBABLE  # and no minimum of S


@pytest.mark.slow
def test_that_a_network_can_compensate_is_reported(fit, data):
    """A network of x and of the delayed x contains every linear term of x."""
    assert fit.verdicts["g"] == "determined"
    model = dd.equation("x' = NN(x, x(t - tau)) - g * x")
    other = dd.fit(model, data, networks={"NN": dd.Network(width=4)})
    assert other.verdicts["g"] != "determined"
    assert "network can compensate for a change of `g`" in str(other)


def test_effective_weights():
    """Half of a direction is determined where data and prior are as informative."""
    information, prior = np.diag([2.0, 1.0, 1e9]), np.ones(3)
    count = effective_count(information, prior, np.ones(3, bool))
    assert count == pytest.approx(0.5 + 0.0 + 1.0)
    assert effective_count(information, prior, np.zeros(3, bool)) == 0.0


@pytest.mark.slow
def test_a_fit_with_many_weights_is_by_least_squares(data):
    """Above 200 weights, which once was descent from one start."""
    problem = dd.Problem(dd.Network(width=60), dd.Constant(0.5), tau=1.0)
    settings = {"tau": dd.Fixed(2.0), "history.b": dd.Fixed(0.5)}
    how: Options = {"optimizer": dd.LeastSquares(starts=2)}
    found = dd.fit(problem, data, parameters=settings, intervals=False, **how)
    assert len(found.names) == 241
    assert 0.7 < found.noise["x"] / NOISE < 1.4


def test_too_few_values_for_a_network_are_refused():
    model = dd.equation("x' = NN(x(t - tau)) - g * x")
    few = dd.Data([0.0, 1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 1.5, 1.0, 1.2])
    with pytest.raises(ValueError, match="5 measured values are too few to learn a"):
        dd.fit(model, few)


def test_the_problem_itself_is_one_of_the_starts(fit, data):
    """So that a fit that was good is not lost when it is fitted again."""
    setup = make_setup(fit.problem, data, None, dd.RK4(), 10)[0]
    points, noise = setup.points(np.array([NOISE])), np.array([NOISE])
    random = np.random.default_rng(0)
    theta = explore._network_starts(setup, 3, points, noise, random)
    assert len(theta) == 4
    np.testing.assert_array_equal(theta[-1], setup.guess)


def test_the_status_of_a_fit_with_networks(fit):
    ends = {"converged_slowly", "converged_step", "most_probable"}
    assert fit.status.ok and fit.status.name in ends
    assert replace(fit.search_result.best, status=np.full(1, PROBABLE)).converged.all()
