"""What a fit says of its parameters holds, and what is not known is not said."""

from dataclasses import replace

import numpy as np
import pytest
from studies.search_quality.integrate import integrate

import ddefind as dd
from ddefind._inference.identifiability import NOT_JUDGED, reasons
from ddefind._inference.profile import EndSearch
from ddefind._inference.profile_intervals import _optimum
from ddefind._search.levenberg_marquardt import LIMIT
from support.fits import NEAR, at_minimum


def record(text, truth, T=12.0, points=50, noise=0.02, measured=None):
    """A record of a model, by an integrator that is not ours."""
    t = np.linspace(0, T, points)
    exact = integrate(text, truth, t, finer=2)
    assert exact is not None
    random = np.random.default_rng(0)
    x = exact + noise * np.std(exact, axis=0) * random.standard_normal(exact.shape)
    x[:, [i for i in range(x.shape[1]) if measured not in (None, i)]] = np.nan
    return dd.Data(t, x, names=dd.equation(text).states)


def fitted(text, truth, parameters=None, **about):
    """A fit to such a record that begins at the truth, or at other values."""
    data = record(text, truth, **about)
    starts = {**truth, **(parameters or {})}
    options = {"solver": dd.RK4(), **NEAR}
    return dd.fit(dd.equation(text), data, parameters=starts, **options)


class TestCombinations:
    def test_a_part_near_zero(self):
        """Half of a tiny value is no move: many formulas look right from there."""
        truth = {"birth": 1.5, "death": 0.3, "K": 2.0, "tau": 1.2, "b": 0.3}
        text = "x' = (birth - death) * x * (1 - x(t - tau) / K)"
        fit = fitted(text, truth, {"birth": 1.2005, "death": 0.0005})
        assert reasons(fit.verdicts.values()) == [
            "Only `birth - death` is determined, not its parts."
        ]
        lines = {line.split()[0]: line for line in str(fit).splitlines()[1:6]}
        assert lines["death"].split() == ["death", "-", "-", "-", "not", "determined"]

    @pytest.mark.slow
    def test_rates_that_coincide_at_the_estimate(self):
        """There the Jacobian is singular, but both are determined."""
        text = "C' = -0.4 * C; S' = C(t - tau) - m * S; Z' = S - d * Z"
        truth = {"m": 1.8, "d": 1.8, "tau": 1.0}
        starts = {"b[0]": 2.0, "b[1]": 0.0, "b[2]": 0.0}
        t = np.linspace(0, 8, 41)
        x = integrate(text, {**truth, **starts}, t, finer=2)
        assert x is not None
        x[:, :2] = np.nan
        data = dd.Data(t, x, sd=[1.0, 1.0, 0.002], names=("C", "S", "Z"))
        model = dd.equation(text, history=[2.0, 0.0, 0.0])
        options = {"solver": dd.RK4(), **NEAR}
        fit = dd.fit(model, data, parameters=truth, **options)
        assert fit.uncertainty.undetermined.shape[1] == 1
        assert "combination" not in str(fit) and "Only" not in str(fit)
        low, high = fit.intervals["m"]
        assert fit.verdicts["m"] == "determined" and 0.8 < low < 1.8 < high < 3.0
        # A refit at the end of the interval has a chi-square that is higher by 3.84.
        fixed = {**truth, "m": dd.Fixed(high)}
        held = dd.fit(model, data, parameters=fixed, **options)
        assert held.chi_square - fit.chi_square == pytest.approx(1.96**2, rel=0.05)

    @pytest.mark.slow
    def test_a_state_of_unknown_size(self):
        """Nothing tells how large the state is that was not measured."""
        text = "x' = k * y(t - tau) - d * x; y' = a / (1 + x^4) - d * y"
        truth = {"k": 1.5, "tau": 1.5, "a": 2.0, "d": 0.6, "b[0]": 0.3, "b[1]": 0.1}
        fit = fitted(text, truth, T=25.0, points=80, measured=0)
        assert reasons(fit.verdicts.values()) == [
            "Only `k * a` and `k * b[1]` are determined, not their parts."
        ]

    def test_bounds_that_limit_the_other_part(self):
        text = "x' = r * c * x * (1 - x(t - tau))"
        truth = {"r": 2.0, "c": 0.7, "tau": 1.2, "b": 0.3}
        fit = fitted(text, truth, {"c": dd.Parameter(0.7, lower=0.001, upper=1)})
        assert fit.intervals["c"] == (0.001, 1.0) and "[0.001*, 1*]" in str(fit)
        product = fit.derived("r * c")
        low, high = fit.intervals["r"]
        assert low == pytest.approx(product.interval[0], rel=0.01)
        assert high == pytest.approx(1000 * product.interval[1], rel=0.01)
        assert fit.verdicts["r"] == "weakly determined"
        assert "other parameters can compensate for a change of `r`." in str(fit)
        assert "one minimum" in str(fit)


class TestLimits:
    def test_an_end_where_solutions_explode(self):
        """x reaches infinity at the time 1 / g; before, the data do not feel it."""
        text = "x' = g * x^2; y' = 1e-30 * x - k * y(t - tau)"
        truth = {"g": 0.02, "k": 0.8, "tau": 0.7, "b[0]": 1.0, "b[1]": 1.0}
        fit = fitted(text, truth, {"b[0]": dd.Fixed(1.0)}, T=10.0, measured=1)
        assert fit.verdicts["g"] == "not determined"
        reason = fit.verdicts["g"].reason
        assert "No limit to `g` is known above 0.1" in reason and "explode" in reason

    def test_a_value_that_runs_away(self):
        """Any large K fits: the search ends at an enormous one."""
        text = "x' = r * x(t - tau) * (1 - x / K)"
        truth = {"r": -1.2, "K": 1e3, "tau": 1.0, "b": 1.0}
        data, positive = record(text, truth), {"K": dd.Parameter(lower=0)}
        fit = dd.fit(dd.equation(text), data, parameters=positive)
        low, high = fit.intervals["K"]
        assert 20 < low < 100 and high == np.inf
        assert "The data do not bound `K` from above." in str(fit)
        assert "e+" not in str(fit) and "  > " in str(fit)

    def test_a_parameter_without_any_influence(self):
        text = "x' = -k * x(t - tau) + 0 * c"
        fit = fitted(text, {"k": 0.8, "c": 1.0, "tau": 0.9, "b": 1.0})
        assert (
            fit.verdicts["c"].reason == "At the best fit the data do not depend on `c`."
        )


class TestDoubt:
    TEXT, TRUTH = "x' = -k * x(t - tau)", {"k": 1.2, "tau": 1.0, "b": 1.0}

    def test_no_intervals_before_convergence(self):
        fit = fitted(self.TEXT, self.TRUTH)
        best = replace(fit.search_result.best, status=np.array([LIMIT]))
        again = replace(at_minimum(fit, best=best), assessment=None).with_intervals()
        assert all(np.isnan(again.intervals["tau"]))
        assert all(verdict == NOT_JUDGED for verdict in again.verdicts.values())
        assert "the search stopped before convergence" in str(again)
        assert all(row["low"] is None for row in again.summary())

    def test_nothing_is_said_of_what_a_missed_minimum_determines(self):
        """With a wrong delay the fit misses the oscillation altogether."""
        data = record(self.TEXT, self.TRUTH, T=20.0, points=100)
        bad = {"k": 0.1, "tau": dd.Fixed(0.1), "b": 1.0}
        fit = dd.fit(dd.equation(self.TEXT), data, parameters=bad, **NEAR)
        assert fit.rejected
        (sentence,) = reasons(fit.verdicts.values())
        assert sentence.startswith("No verdict on the parameters is given:")
        assert "not determined" not in str(fit).replace(sentence, "")


def test_a_value_on_its_bound_is_released_along_profiles():
    """Another branch of the profile may have it inside of its bounds."""
    text, truth = "x' = -k * x(t - tau)", {"k": 1.2, "tau": 1.0, "b": 1.0}
    fit = fitted(text, truth, {"k": dd.Parameter(1.0, lower=0.5, upper=1.1)})
    k, tau = (fit.names.index(name) for name in ("k", "tau"))
    assert fit.best[k] == 1.1
    profile = fit.profile("tau")
    end = EndSearch(
        fit.setup, _optimum(fit.uncertainty), fit.best, 0.0, tau, -1, profile.quantile
    )
    held = [start[k] for start in end.starts_at(0.9)]
    assert held[:2] == [1.1, 1.1] and held[2] == pytest.approx(0.95)
