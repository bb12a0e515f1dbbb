"""Discoveries from irregular times: log-spaced, in clusters, with long gaps, or other
ones for each state; and terms that have no value for some states."""

from typing import Any

import numpy as np
import pytest

import ddefind as dd
from ddefind._discovery.discover import read_question
from ddefind._discovery.exact import make_exact
from ddefind._discovery.proposals import coefficients_at, make_record, propose

LOGISTIC = dd.equation("x' = r * x * (1 - x(t - tau) / 2)").problem(
    r=1.4, tau=1.1, b=0.6
)
TERMS = ["x", "x^2", "x(t - tau)", "x * x(t - tau)"]
TRUE = ("x", "x * x(t - tau)")
FEEDBACK = "1 / (1 + (x(t - tau) / K)^n)"


def in_clusters(starts, length: float, points: int) -> np.ndarray:
    return np.concatenate([np.linspace(s, s + length, points) for s in starts])


SAMPLINGS = {
    "log-spaced": np.geomspace(0.05, 30, 60) - 0.05,
    "days": in_clusters(6.0 * np.arange(5), 2.0, 12),
    "long gap": np.concatenate([np.linspace(0, 8, 36), np.linspace(40, 45, 24)]),
    "clusters": in_clusters(1.7 * np.arange(15), 0.1, 4),
}


@pytest.fixture(scope="module")
def logistic():
    """The solution of the delayed logistic equation."""
    return dd.solve(LOGISTIC, T=130)


def noisy(solution, t: np.ndarray, noise: float = 0.02) -> dd.Data:
    x = np.asarray(solution(t))
    random = np.random.default_rng(1).normal(size=x.shape)
    return dd.Data(t, x + noise * x.std(axis=0) * random)


def found_in(data: dd.Data, **options) -> Any:
    return dd.discover(data, TERMS, intervals=False, **options)


def coefficients_in(data: dd.Data, terms, structure, delay, inner=()) -> Any:
    """The coefficients of a structure by the weak form."""
    question = read_question(data, terms, 1, None, None)
    exact = make_exact(question, 1, "constant")
    found = coefficients_at(
        exact.library, question.records, structure, (delay,), np.array(inner)
    )
    return question, exact, found


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_irregular_times(logistic, sampling):
    found = found_in(noisy(logistic, SAMPLINGS[sampling]))
    assert found.terms == {"x": TRUE}
    assert abs(found.fit.values["tau"] - 1.1) < 0.01


def test_a_delay_that_leaves_no_test_function(logistic):
    """The search goes on without the weak form."""
    data = noisy(logistic, np.linspace(0, 30, 60))
    found = found_in(data, parameters={"tau": dd.Parameter(lower=26, upper=29)})
    assert found.without_delay is not None and found.sentences


@pytest.mark.parametrize("points", [60, 200])
def test_test_functions_stand_between_gaps(logistic, points):
    """Also if there are so many points that a curve averages them."""
    first = np.linspace(0, 10, points)
    data = noisy(logistic, np.concatenate([first, 100 + first]))
    record = make_record(data)
    assert record is not None and record.gaps.tolist() == [[10.0, 100.0]]
    assert ((record.ends < 10.01) | (record.begins > 99.99)).all()
    covered = record.is_covered(1.1)
    assert covered.mean() > 0.6
    # A delay of 97 leads from the second part to the first one.
    assert 0.2 < record.is_covered(97.0).mean() < 0.5
    _, _, found = coefficients_in(data, TERMS, ((0, 0), (0, 3)), 1.1)
    assert np.allclose(found, [1.4, -0.7], rtol=0.05)


def test_steps_that_are_short_for_the_curve_are_no_gaps(logistic):
    t = np.sort(np.random.default_rng(1).uniform(0, 30, 200))
    record = make_record(noisy(logistic, t))
    assert record is not None
    assert np.diff(t).max() > 6 * np.median(np.diff(t)) and not len(record.gaps)


def test_states_at_different_times():
    """At every other time each, and one after the other."""
    model = dd.equation(
        "x' = x * (1 - y); y' = 0.5 * x(t - tau) * y(t - tau) - 0.5 * y"
    )
    problem = model.problem(tau=0.5, b=[1.2, 0.5])
    t = np.linspace(0, 20, 200)
    x = np.array(dd.solve(problem, T=20)(t))
    alternate = x.copy()
    alternate[::2, 0] = alternate[1::2, 1] = np.nan
    terms = ["x", "y", "x * y", "x(t - tau) * y(t - tau)"]
    truth = ((0, 0), (0, 2), (1, 1), (1, 3))
    data = dd.Data(t, alternate, names=["x", "y"])
    _, _, found = coefficients_in(data, terms, truth, 0.5)
    assert np.allclose(found, [1, -1, -0.5, 0.5], rtol=0.05)
    x[:100, 0] = x[100:, 1] = np.nan
    assert make_record(dd.Data(t, x, names=["x", "y"])) is None


def test_a_term_without_a_value_at_some_times():
    """A power of a state whose noise is below zero somewhere."""
    model = dd.equation("x' = a / (1 + (x(t - tau) / K)^n) - x")
    problem = model.problem(a=2.0, K=1.0, n=6.5, tau=3.0, b=0.5)
    data = noisy(dd.solve(problem, T=50), np.linspace(0, 50, 150), 0.05)
    x = data.x.copy()
    x[np.argmin(x)] = -0.2
    data = dd.Data(data.t, x)
    terms, truth = ["x", "x(t - tau)", FEEDBACK], ((0, 0), (0, 2))
    question, exact, found = coefficients_in(data, terms, truth, 3.0, (1.0, 6.5))
    assert question.records[0].delayed(0.0).min() < 0
    assert np.allclose(found, [-1.0, 2.0], rtol=0.15)
    proposals = propose(exact.library, question.records, exact.inner, [(3.0,)])
    assert truth in [each.structure for each in proposals]
