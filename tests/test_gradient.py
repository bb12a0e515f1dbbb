"""Both exact gradients on the paper's five models: at its starts and at random points,
with T / h an integer and not."""

from itertools import product

import numpy as np
import pytest

import ddefind as dd
from ddefind.paper import EXPERIMENTS
from support.gradients import check_gradients, gradients_of
from support.repeats import mostly_slow
from support.vectors import flatten, near, tau_index, whole_steps

LOSSES = {"squares": dd.SumOfSquares(), "integral": dd.Integral(dd.L2())}
SOLVERS = {"RK2": dd.RK2(), "RK4": dd.RK4()}
WHOLE = slice(21, 41)  # the points with T / h an integer


def points(model):
    """The paper's start, 20 random points, and those with T / h made an integer."""
    experiment = EXPERIMENTS[model]
    start, _ = flatten(experiment.start)
    random = near(experiment.true, 20, seed=list(EXPERIMENTS).index(model))
    whole = whole_steps(
        experiment.true, random, experiment.T, experiment.steps_per_delay
    )
    return np.concatenate([start[None], random, whole])


@pytest.mark.parametrize("model", EXPERIMENTS)
def test_the_points_are_both_on_the_grid_and_off_it(model):
    experiment, vectors = EXPERIMENTS[model], points(model)
    tau = vectors[:, tau_index(experiment.true)]
    steps = experiment.T * experiment.steps_per_delay / tau
    off = np.abs(steps - np.round(steps))
    assert np.all(off[WHOLE] < 1e-9)
    assert np.all(off[1:21] > 1e-4)
    assert np.all(tau > 0)


PAIRS = mostly_slow(product(LOSSES, SOLVERS), [("squares", "RK4"), ("integral", "RK2")])


@pytest.mark.parametrize("loss, solver", PAIRS)
@pytest.mark.parametrize("model", EXPERIMENTS)
def test_discrete_agrees_with_differences_and_forward_with_discrete(
    model, loss, solver
):
    experiment = EXPERIMENTS[model]
    method = LOSSES[loss], SOLVERS[solver], experiment.steps_per_delay
    check_gradients(experiment.true, experiment.clean, *method, points(model))


def test_the_gradient_has_the_shape_of_the_problem():
    experiment = EXPERIMENTS["exponential"]
    case, n = (experiment.start, experiment.clean), experiment.steps_per_delay
    loss, solver = dd.Integral(dd.L2()), dd.RK2()
    value, gradient = dd.value_and_grad(
        *case, loss=loss, solver=solver, steps_per_delay=n
    )
    vector = flatten(experiment.start)[0]
    route = gradients_of(*case, loss, solver, n, 0.99 * vector[-1], dd.Forward())
    values, found = route(vector[None])
    np.testing.assert_allclose(value, values[0], rtol=1e-12)
    rhs, history = gradient.rhs, gradient.history
    listed = [rhs.theta_0, rhs.theta_1, history.a[0], history.b[0], gradient.tau]
    np.testing.assert_allclose(listed, found[0], rtol=1e-10)


@pytest.mark.parametrize("n", [100, 317])
@pytest.mark.parametrize("route", [dd.Discrete(), dd.Forward()])
def test_the_derivative_for_tau_that_the_paper_has_wrong(route, n):
    # The paper's Theorem 1 gives +5.742 here.
    case, options = EXPERIMENTS["exponential"], {"gradient": route, "solver": dd.RK4()}
    _, gradient = dd.value_and_grad(
        case.start, case.clean, loss=dd.Integral(dd.L2()), steps_per_delay=n, **options
    )
    assert float(gradient.tau) == pytest.approx(-27.857, abs=1e-3)
