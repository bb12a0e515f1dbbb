"""The random models of the study of the search: always the same, bounded, and solutions
of their own equations."""

import numpy as np
import pytest
from studies.search_quality.integrate import history_names, integrate, read_model
from studies.search_quality.random_models import case

import ddefind as dd
from support.method_of_steps import method_of_steps


@pytest.fixture(scope="module")
def cases():
    return [case(number) for number in range(30)]


def test_a_case_is_always_the_same(cases):
    again = case(3)
    np.testing.assert_array_equal(again.values, cases[3].values)
    assert again.truth == cases[3].truth
    assert again.text == cases[3].text


def test_cases_are_bounded_and_in_any_units(cases):
    for each in cases:
        x = each.exact
        assert set(each.model.names) == set(each.truth)
        assert 20 <= len(each.times) <= 200
        assert 4.9 < each.times[-1] - each.times[0] < 2001
        assert each.times[0] == each.start
        assert np.all(np.abs(x) < 100 * np.std(x, axis=0))
        assert np.all(np.isnan(each.values).all(axis=0) != each.measured)
        assert each.data.names == each.model.observed
        assert each.bounds is None or set(each.bounds) < set(each.truth)
    lengths = [each.times[-1] - each.start for each in cases]
    assert max(lengths) > 50 * min(lengths)


def test_the_cases_are_of_all_kinds(cases):
    assert 8 <= sum(not all(each.measured) for each in cases) <= 15
    assert any(each.start for each in cases)
    assert any(each.observe for each in cases)
    assert {len(each.model.states) for each in cases} == {1, 2, 3}
    assert 13 <= sum(each.bounds is None for each in cases) <= 17


@pytest.mark.parametrize("number", [1, 20, 26, 29])
def test_the_integrator_agrees_with_scipy(number, cases):
    each = cases[number]
    program = read_model(each.text)
    slope = program.make_slope(each.truth)
    lags = sorted({name for _, name in program.delayed})
    b = np.array([each.truth[name] for name in history_names(program)])

    def rhs(x, past, tau, t):
        return np.array(slope(x, [past[lags.index(k)][i] for i, k in program.delayed]))

    times = each.times - each.start
    delays = [each.truth[name] for name in lags]
    solution = method_of_steps(rhs, b, delays, times[-1], 1e-9)
    found = integrate(each.text, each.truth, times)
    assert found is not None
    error = np.abs(found - solution(times)) / np.std(found, axis=0)
    assert np.max(error) < 1e-4


@pytest.mark.parametrize("number", [0, 2, 6, 10, 11])
def test_data_follow_the_equation(number, cases):
    """The residuals of our own solution at the truth are the noise."""
    each = cases[number]
    times = each.times - each.start
    solution = dd.solve(each.model.problem(each.truth), T=times[-1])
    residuals = ((each.values - np.asarray(solution(times))) / each.noise).ravel()
    residuals = residuals[np.isfinite(residuals)]
    chi_square, freedom = np.sum(residuals**2), residuals.size
    assert abs(chi_square - freedom) < 4 * np.sqrt(2 * freedom)
