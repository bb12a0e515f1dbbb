"""What is said of parameters that the data do not determine one by one: combinations of
them, with formulas that are tested, and delays that can be exchanged."""

from dataclasses import replace

import numpy as np
import pytest

import ddefind as dd
from ddefind._inference.covariance import Uncertainty
from ddefind._inference.derived import derive
from ddefind._inference.formulas import constant_formulas
from ddefind._inference.identifiability import reasons
from ddefind._inference.profile_intervals import (
    Exchange,
    exchange_notes,
    find_exchanges,
    nearest_image,
)
from support.fits import NEAR, at_minimum, reloaded, simulated
from support.uncertainties import hand_made


def fitted(text, truth, noise=0.02, seed=0, parameters=None):
    """A fit to data of the model itself, which begins at the truth."""
    model = dd.equation(text, history=[1.0])
    data = simulated(model.problem(truth), np.linspace(0, 12, 60), noise, seed)
    return dd.fit(model, data, parameters=parameters or truth, **NEAR)


def said(fit):
    return reasons([*fit.verdicts.values()])


def only(formula):
    return f"Only `{formula}` is determined, not its parts."


def check_saved(fit, folder, **options):
    """A saved fit prints what the fit prints."""
    again = reloaded(fit, folder, **options)
    assert str(again) == str(fit) and again.summary() == fit.summary()


@pytest.mark.parametrize(
    ("rate", "truth", "formula"),
    [
        ("(a + c)", {"a": 0.7, "c": 0.3}, "a + c"),
        ("(a + 2 * c)", {"a": 0.2, "c": 0.4}, "a + 2 * c"),
        ("(a - c)", {"a": 1.7, "c": 0.7}, "a - c"),
        ("(a + c + d)", {"a": 0.6, "c": 0.1, "d": 0.3}, "a + c + d"),
        ("a * c", {"a": 2.0, "c": 0.5}, "a * c"),
        ("k * (a + c)", {"k": 2.0, "a": 0.2, "c": 0.3}, "k * (a + c)"),
        ("k * exp(-m * tau)", {"k": 2.0, "m": 1.0}, "k * exp(-m * tau)"),
    ],
)
@pytest.mark.slow
def test_the_formula_of_a_combination(rate, truth, formula):
    fit = fitted(f"x' = -{rate} * x(t - tau)", {**truth, "tau": 0.9})
    assert said(fit) == [only(formula)]
    assert fit.derived(formula).is_determined
    assert fit.standard_errors["tau"] < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.02, 0.3])
def test_equal_values_are_a_product_or_a_sum(noise):
    """At a = c all three have the same gradient; what happens farther off decides. A
    formula of another kind is not named."""
    equal = {"a": 0.7, "c": 0.7, "tau": 0.9}
    product = fitted("x' = -2 * a * c * x(t - tau)", equal, noise)
    assert said(product) == [only("a * c")]
    total = fitted("x' = -(a + c) * x(t - tau)", equal, noise)
    assert said(total) == [only("a + c")]
    root = fitted("x' = -sqrt(a^2 + c^2) * x(t - tau)", equal, noise)
    first, *others = said(root)
    assert first == "Of `a`, `c` only one combination is determined."
    # The circle has an end on each side.
    if noise > 0:
        note = (
            "Within this interval other parameters can compensate for a change of `{}`."
        )
        assert others == [note.format("a"), note.format("c")]


def test_a_value_that_its_bounds_determine():
    """The bounds leave no room to change `a`, so that `c` is determined, too."""
    tight = {"a": dd.Parameter(0.5, lower=0.499, upper=0.501), "c": 0.5, "tau": 0.9}
    truth = {"a": 0.5, "c": 0.5, "tau": 0.9}
    fit = fitted("x' = -(a + c) * x(t - tau)", truth, parameters=tight)
    assert said(fit) == ["The data do not bound `a`."]
    assert fit.intervals["a"] == (0.499, 0.501) and "[0.499*, 0.501*]" in str(fit)
    assert fit.verdicts["c"] == "determined"


@pytest.mark.slow
def test_a_coefficient_that_has_a_parameters_value_by_accident():
    """The delay has the value of the exponent 1.1, but does not stand there."""
    truth = {"k": 2.0, "m": 1.0, "tau": 1.1}
    fit = fitted("x' = -k * exp(-1.1 * m) * x(t - tau)", truth, noise=0.0)
    assert said(fit) == [only("k * exp(-m * 1.1)")]


def test_a_saved_fit_keeps_its_sentences(tmp_path, monkeypatch):
    fit = fitted("x' = -(a + c) * x(t - tau)", {"a": 0.5, "c": 0.5, "tau": 0.9})
    fit.save(tmp_path / "fit.json")
    monkeypatch.setattr(Uncertainty, "losses", pytest.fail)  # nothing is evaluated
    again = dd.load(tmp_path / "fit.json")
    assert str(again) == str(fit) and only("a + c") in str(again)
    assert isinstance(again, dd.Estimate) and again.verdicts == fit.verdicts


class TestExchanges:
    """Two or three delays; the sum of squares is a function made for the test."""

    def uncertainty(self, monkeypatch, losses, delays=2):

        def rhs(x, y, tau, t, a=0.5, c=0.8):
            return -a * y[0] - c * y[1]

        problem = dd.Problem(rhs, dd.Constant(1.0), tau=(1.0, 2.5, 4.0)[:delays])
        monkeypatch.setattr(
            Uncertainty, "losses", lambda self, theta: np.array([*map(losses, theta)])
        )
        found = hand_made(problem, 0.01)
        assert found.setup.model.free.names[:3] == ("a", "c", "b")
        return found

    def test_delays_with_their_factors(self, monkeypatch):
        """a exp(-tau_0) + c exp(-tau_1)."""

        def losses(theta):
            a, c, b, first, second = theta
            return (b + a * np.exp(-first) + c * np.exp(-second)) ** 2

        uncertainty = self.uncertainty(monkeypatch, losses)
        (found,) = find_exchanges(uncertainty)
        assert found == Exchange(((3, 4), (0, 1)))
        sentence = (
            "`tau[0]` and `tau[1]` can be exchanged (together with `a` and `c`): the "
            "data cannot tell which is which, and the table shows one order."
        )
        assert exchange_notes(uncertainty, [found]) == {3: sentence, 4: sentence}
        mirrored = found.apply(uncertainty.theta)
        np.testing.assert_array_equal(mirrored, [0.8, 0.5, 1.0, 2.5, 1.0])
        back = nearest_image(uncertainty, [found], mirrored)
        np.testing.assert_array_equal(back, uncertainty.theta)

    def test_delays_alone(self, monkeypatch):
        uncertainty = self.uncertainty(monkeypatch, lambda v: 1 + v[3] * v[4] + v[0])
        assert find_exchanges(uncertainty) == [Exchange(((3, 4),))]

    def test_an_accident_at_the_estimate(self, monkeypatch):
        """tau_0 tau_1 + 9 tau_0 + (9 + ...) is the same only at the estimate."""

        def losses(v):
            return 5 + v[3] * v[4] + (v[3] - 1.0) * (v[4] - 1.0) * (v[3] - 2.5)

        assert losses([0, 0, 0, 1.0, 2.5]) == losses([0, 0, 0, 2.5, 1.0])
        assert find_exchanges(self.uncertainty(monkeypatch, losses)) == []

    def test_three_delays(self, monkeypatch):
        uncertainty = self.uncertainty(monkeypatch, lambda v: 1 + v[3] * v[4] * v[5], 3)
        found = find_exchanges(uncertainty)
        assert [each.pairs for each in found] == [((3, 4),), ((3, 5),), ((4, 5),)]
        notes = exchange_notes(uncertainty, found)
        assert set(notes) == {3, 4, 5} and len(set(notes.values())) == 1
        assert notes[3].startswith("`tau[0]`, `tau[1]` and `tau[2]` can be exchanged: ")
        back = nearest_image(uncertainty, found, uncertainty.theta[[0, 1, 2, 5, 3, 4]])
        np.testing.assert_array_equal(back, uncertainty.theta)

    def test_bounds_that_tell_the_delays_apart(self, monkeypatch):
        uncertainty = self.uncertainty(monkeypatch, lambda v: 1 + v[3] * v[4])
        uncertainty.setup.upper[3] = 2.0
        assert find_exchanges(uncertainty) == []

    def test_a_derived_quantity_of_delays(self, monkeypatch):
        uncertainty = self.uncertainty(monkeypatch, lambda v: 1.0)
        known = {"tau[0]": 3, "tau[1]": 4, "a": 0}
        found = derive(uncertainty, known, "tau[0] + 2 * tau[1]", 0.95)
        assert found.value == pytest.approx(6.0)
        assert found.standard_error == pytest.approx(0.01 * np.sqrt(5))


def two_delays(text, truth, start=None):
    model = dd.equation(text, history=[1.0])
    data = simulated(model.problem(truth), np.linspace(0, 15, 120), 0.005, seed=1)
    settings = {n: dd.Parameter(v, lower=v / 9, upper=9 * v) for n, v in truth.items()}
    return dd.fit(model, data, parameters=settings)


@pytest.mark.slow
def test_a_fit_says_which_delays_can_be_exchanged(tmp_path):
    """Among many starts, some end at the mirror image. It widens no interval."""
    text = "x' = -a * x(t - tau_1) - c * x(t - tau_2)"
    fit = two_delays(text, {"a": 0.5, "c": 0.3, "tau_1": 0.6, "tau_2": 2.5})
    assert (
        "`tau_1` and `tau_2` can be exchanged (together with `a` and `c`): the data "
        "cannot tell which is which, and the table shows one order."
    ) in str(fit)
    assert "Another minimum fits about as well" not in str(fit)
    assert {v.verdict for v in fit.verdicts.values()} == {"determined"}
    short, long = sorted([fit.intervals["tau_1"], fit.intervals["tau_2"]])
    assert short[1] < 1.5 < long[0]
    check_saved(fit, tmp_path)


@pytest.mark.slow
def test_a_fit_says_that_only_the_sum_of_delays_is_determined():
    text = "x' = -k * x(t - tau_1 - tau_2)"
    fit = two_delays(text, {"k": 0.8, "tau_1": 0.4, "tau_2": 0.7})
    assert said(fit) == [only("tau_1 + tau_2")]


def with_minima(fit, *minima):
    return at_minimum(fit, minima=minima)


def test_minima_with_the_same_values_in_another_order_are_two():
    """If no delays are exchanged, they are different answers."""
    fit = fitted("x' = -a * x(t - tau)", {"a": 0.7, "tau": 0.9})
    first = fit.search_result.minima[0]
    other = first._replace(theta=first.theta[::-1], starts=4)
    text = str(with_minima(fit, first, other))
    assert "2 minima, the best reached once, the next 0 above it" in text


def test_a_mirror_image_is_not_counted_as_another_minimum():
    """Of two minima that have the same delays in another order, and the same sum of
    squares."""
    text = "x' = -a * x(t - tau_1) - c * x(t - tau_2)"
    fit = fitted(text, {"a": 0.5, "c": 0.3, "tau_1": 0.6, "tau_2": 2.5})
    first = fit.search_result.minima[0]
    mirrored = first._replace(theta=first.theta[[1, 0, 2, 4, 3]], starts=4)
    assert fit.names == ("a", "c", "b", "tau_1", "tau_2") and fit.assessment is not None
    plain = str(with_minima(fit, first, mirrored._replace(loss=1.5 * first.loss)))
    assert "2 minima, the best reached once, the next" in plain
    judged = fit.verdicts.values()
    noted = tuple(replace(verdict, note="Exchanged.") for verdict in judged)
    assessment = replace(fit.assessment, verdicts=noted)
    exchanged = replace(with_minima(fit, first, mirrored), assessment=assessment)
    assert "one minimum, reached 5 times." in str(exchanged)
    assert str(exchanged).count("Exchanged.") == 1


def product(x, y, tau, t, k=0.8, m=0.5):
    return m - k * y["one"] * y["two"]


@pytest.mark.slow
def test_exchangeable_delays_that_coincide_have_intervals(tmp_path):
    """With delays that are nearly the same, the best fit has them equal. There is no
    slope for their difference, but the profile still ends."""
    problem = dd.Problem(product, dd.Constant(0.6), {"one": 0.9, "two": 1.2})
    fit = dd.fit(problem, simulated(problem, np.linspace(0, 15, 120), 0.03), **NEAR)
    assert fit.values["one"] == pytest.approx(fit.values["two"], rel=1e-3)
    for name in ("one", "two"):
        low, high = fit.intervals[name]
        assert 0.6 < low < 0.9 and 1.2 < high < 1.6
        assert np.isinf(fit.standard_errors[name])
    sentence = "they coincide in the best fit, and have no standard errors there."
    assert f"`one` and `two` can be exchanged: {sentence}" in str(fit)
    assert "combination" not in str(fit)
    check_saved(fit, tmp_path, problem=problem)


def test_several_exponentials_with_numbers_of_their_own_are_no_formula():
    """On a small set some such product is nearly constant, whatever the law: here
    (1 - a - c) s is constant, which is none of the formulas."""
    random = np.random.default_rng(0)
    a, c = 0.1 * np.exp(0.3 * random.normal(size=(2, 24)))
    places = np.stack([a, c, 1 / (1 - a - c)], axis=1)
    found = list(constant_formulas(places, [0, 1, 2]))
    assert all(len(formula.exponentials) < 2 for formula in found)


@pytest.mark.slow
def test_a_bound_on_which_nothing_can_be_solved():
    """The profile is followed up to a bound of zero, at which the model divides by
    zero: the data do not bound it."""
    model = dd.equation("p' = beta / (1 + (p(t - tau) / K)^4) - d * p")
    truth = model.problem(beta=3.0, K=1.2, d=0.6, tau=2.5, b=0.3)
    t = np.linspace(0, 4.5, 10)
    noise = 0.075 * np.random.default_rng(1).normal(size=49)[:10]
    data = dd.Data(t, np.asarray(dd.solve(truth, T=4.5)(t))[:, 0] + noise)
    bound = {"K": dd.Parameter(lower=0)}
    fit = dd.fit(model, data, parameters=bound, optimizer=dd.LeastSquares(starts=8))
    assert isinstance(fit, dd.Estimate)
    assert fit.intervals["K"][0] == 0
    assert fit.verdicts["K"] == "not determined"
    # The claim itself: a much smaller value fits nearly as well.
    start = model.problem({**fit.values, "K": 1e-3, "beta": 5e10})
    fixed = {"K": dd.Fixed(1e-3)}
    held = dd.fit(start, data, parameters=fixed, intervals=False, **NEAR)
    assert held.loss < fit.loss * (1 + fit.profile("K").quantile ** 2 / fit.freedom)
