"""Whole discoveries where something is unusual: units, bounds, known parts, given
standard deviations, several experiments."""

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from studies.discovery.systems import DELAYED, ORDINARY, sample, solution as solved

import ddefind as dd
from ddefind._discovery.discovery import about_convergence, about_history
from ddefind._results.status import Status

LOGISTIC, NICHOLSON, PREDATOR = DELAYED[0], DELAYED[2], DELAYED[5]
TRUE = ("x", "x * x(t - tau)")


def found_in(
    system, *terms, points=100, size=1.0, time=1.0, sd=None, **options
) -> tuple[Any, Any]:
    own = sample(system, points, 0.03, 0)
    given = None if sd is None else np.full_like(own.x, sd * size)
    x, names = size * own.x, list(system.states)
    data = dd.Data(time * own.t, x, sd=given, names=names)
    terms = list(terms) or system.terms
    return own, dd.discover(data, terms, intervals=False, **options)


@pytest.mark.slow
def test_units_do_not_matter():
    """The same equation comes out, with coefficients in the other units."""
    _, plain = found_in(NICHOLSON)
    for size, time in ((1e5, 1.0), (1e-3, 1.0), (1.0, 1e4)):
        _, found = found_in(NICHOLSON, size=size, time=time)
        assert found.terms == plain.terms
        values, before = found.fit.values, plain.fit.values
        assert np.isclose(values["tau"], time * before["tau"], rtol=1e-4)
        assert np.isclose(values["a"], before["a"] / size, rtol=1e-4)
        assert np.isclose(values["c_1"], before["c_1"] / time, rtol=1e-4)


@pytest.mark.slow
def test_known_parts_stay_and_need_no_terms():
    own, found = found_in(LOGISTIC, known="x' = r * x")
    assert found.terms == {"x": ("x * x(t - tau)",)}
    assert abs(found.fit.values["r"] - 1.4) < 4 * found.fit.standard_errors["r"]
    whole = "x' = 0.7 * x * (1 - x / 3)"
    _, nothing = found_in(ORDINARY[0], "polynomial(2)", known=whole)
    assert nothing.terms == {"x": ()} and not nothing.is_inadequate


@pytest.mark.slow
def test_a_value_or_bounds_of_the_delay():
    tau = sample(LOGISTIC, 100, 0.03, 0).delays[0]
    _, fixed = found_in(LOGISTIC, parameters={"tau": dd.Fixed(tau)})
    assert fixed.terms == {"x": TRUE} and fixed.best.delays == {"tau": tau}
    assert "tau" not in fixed.fit.values
    # A value that is known is no parameter, and costs nothing.
    assert fixed.best.parameters == 4
    # The best delay lies beyond the bounds, where the search and the last fit stay.
    _, bounded = found_in(LOGISTIC, parameters={"tau": dd.Parameter(upper=0.8)})
    assert bounded.fit.values["tau"] <= 0.8
    (said,) = [s for s in bounded.sentences if s.startswith("No delay is claimed")]
    assert "is the longest of those that were searched" in said and "to 0.8." in said


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 10.0])
def test_given_standard_deviations_weigh_the_data(factor):
    noise = 0.03 * sample(LOGISTIC, 100, 0.0, 0).x.std()
    own, found = found_in(LOGISTIC, sd=factor * noise)
    assert found.terms == {"x": TRUE}
    # The score is a chi-square, but for what all models share.
    gap = found.models[1].score - found.models[0].score
    assert gap > 0
    error = found.fit.values["tau"] - own.delays[0]
    assert abs(error) < 4 * found.fit.standard_errors["tau"]


def test_standard_deviations_that_are_too_small():
    """The last fit begins where the search ended, also far from the data."""
    noise = 0.03 * sample(LOGISTIC, 100, 0.0, 0).x.std()
    _, found = found_in(LOGISTIC, sd=noise / 1.5)
    assert found.terms == {"x": TRUE}
    assert np.isclose(found.fit.values["tau"], found.best.delays["tau"], rtol=1e-3)
    assert found.sentences[0].startswith("Check the standard deviations of the data")
    assert re.search(r"noise that is 1\.[4-6]\d? times as large", found.sentences[0])


@pytest.mark.slow
def test_several_experiments_share_an_equation():
    experiments = []
    for number, start in enumerate(([1.2, 0.5], [3.0, 0.2], [0.5, 1.5])):
        t, x = solved(PREDATOR, 80, (0.823,), np.array(start))
        noise = np.random.default_rng(number).normal(size=x.shape)
        data = dd.Data(t, x + 0.03 * x.std(axis=0) * noise, names=["x", "y"])
        experiments.append(dd.Experiment(data, label=f"e{number}"))
    found: Any = dd.discover(experiments, intervals=False)
    assert found.terms == {
        "x": ("x", "x^2", "x * y"),
        "y": ("y", "x(t - tau) * y(t - tau)"),
    }
    assert abs(found.fit.values["b[1]@e2"] - 1.5) < 0.2


@pytest.mark.slow
def test_two_delays_where_there_is_one():
    """A model has one name, however its delays were numbered."""
    _, found = found_in(LOGISTIC, "x", "x * x(t - tau)", "x(t - tau)", delays=2)
    assert found.terms == {"x": TRUE} and list(found.best.delays) == ["tau"]
    labels = [(each.label, len(each.delays)) for each in found.models]
    assert len(set(labels)) == len(labels)
    assert sum(each.weight for each in found.models) > 0.99


def test_the_score_of_the_search_is_that_of_the_last_fit():
    """Up to a number that all models share: so the texts say what was fitted."""
    own, found = found_in(LOGISTIC)
    n = len(own.t)
    best = found.best.bic - found.best.parameters * np.log(n)
    solution = dd.solve(found.fit.problem, own.t[-1])
    residuals = own.x[:, 0] - np.asarray(solution(own.t))[:, 0]
    assert abs(best - n * np.log(np.mean(residuals**2))) < 0.1


def test_exact_data():
    """What the solver does not resolve is no reason for further terms."""
    model = dd.equation("x' = r * x * (1 - x(t - tau) / K)")
    truth = dd.solve(model.problem(r=1.4, K=2.0, tau=1.377, b=0.6), T=26)
    t = np.linspace(0, 26, 120)
    found = dd.discover(dd.Data(t, truth(t)), intervals=False)
    assert found.terms["x"] == ("x", "x * x(t - tau)")
    assert abs(found.best.delays["tau"] - 1.377) < 1e-4


def test_data_so_sparse_that_they_look_like_noise():
    """Four values in a cycle, through which no smooth curve goes."""
    own = sample(LOGISTIC, 300, 0.03, 0)
    few = slice(0, None, 8)
    found = dd.discover(dd.Data(own.t[few], own.x[few], names=["x"]), intervals=False)
    assert found.terms["x"] == TRUE


def test_a_state_that_never_changes_and_bounds_of_coefficients_are_refused():
    t = np.linspace(0, 10, 30)
    data = dd.Data(t, np.stack([np.sin(t) + 2, 5 + 0 * t], axis=1), names=["x", "k"])
    with pytest.raises(ValueError, match="'k' is 5 everywhere"):
        dd.discover(data)
    with pytest.raises(ValueError, match="get their numbers when the search is over"):
        dd.discover(dd.Data(t, data.x[:, :1]), parameters={"c_1": dd.Fixed(1.0)})


@pytest.mark.parametrize("past, is_far", [(1.5, False), (9.0, True), (-9.0, True)])
def test_a_past_that_is_far_from_all_data_is_named(past, is_far):
    data = dd.Data([0.0, 1.0, 2.0], [1.0, 3.0, 2.0], names=["x"])
    problem = SimpleNamespace(history=lambda t: np.array([past]) if t < -1 else [2.0])
    fit: Any = SimpleNamespace(experiments={}, problem=problem, data=data)
    assert about_history(fit, []) == about_history(None, [2.0]) == ""
    said = about_history(fit, [0.5, 2.0])
    assert said.startswith(f"Before time zero the fit has x = {past:.3g}") == is_far
    assert bool(said) == is_far


def test_a_fit_that_has_not_converged_is_not_relied_on():
    for status in Status:
        fit: Any = SimpleNamespace(status=status)
        assert about_convergence(fit).startswith("The last fit did not") != status.ok
