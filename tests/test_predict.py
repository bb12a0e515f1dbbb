"""Predictions and derived quantities: their derivatives, bands and intervals; what is
not determined; what is refused."""

import numpy as np
import pytest

import ddefind as dd
from ddefind._inference.derived import derive
from ddefind.paper import EXPERIMENTS
from support.fits import NEAR


@pytest.fixture(scope="module")
def fit():
    experiment = EXPERIMENTS["exponential"]
    data = experiment.data(0.1, 0, exact=True)
    return dd.fit(experiment.true, data, intervals=False, **NEAR)


@pytest.fixture(scope="module")
def two_states():
    """A fit with a state that is not measured, and a name that stands in two places."""
    model = dd.equation(
        "x' = r * x * (1 - x(t - tau) / K); z' = c - x", history=[0.5, 1.0]
    )
    truth = model.problem(r=1.2, K=2.0, c=1.0, tau=1.0)
    t = np.linspace(0, 8, 60)
    x = np.asarray(dd.solve(truth, 8.0)(t))[:, 0]
    noise = 0.05 * np.random.default_rng(1).normal(size=60)
    start = {"r": 1.0, "K": 2.0, "c": 1.0, "tau": 1.0}
    return dd.fit(model, dd.Data(t, x + noise, names="x"), parameters=start, **NEAR)


def test_the_mean_is_the_trajectory_also_beyond_the_data(fit):
    times = np.array([25.0, 0.0, 3.3, 10.0, 3.3])
    found = fit.predict(times)
    expected = dd.solve(fit.problem, 25.0, fit.solver, fit.steps_per_delay)(times)
    np.testing.assert_allclose(found.mean, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found.t, times)
    np.testing.assert_array_equal(found.sd[2], found.sd[4])
    assert found.determined.all() and not found.notes


def test_the_band_is_as_wide_as_the_trajectories_of_resampled_fits(fit):
    times = np.array([0.0, 0.7, 2.0, 5.0, 9.0, 14.0])
    found = fit.predict(times, level=0.9)
    values = fit.bootstrap(n=300, seed=2).values
    free, n = fit.setup.model.free, fit.steps_per_delay
    paths = []
    for row in values:
        solution = dd.solve(free.problem_at(row, fit.problem), 14.0, fit.solver, n)
        paths.append(np.asarray(solution(times)))
    np.testing.assert_allclose(found.sd, np.std(paths, axis=0), rtol=0.2)
    half = fit.uncertainty.quantile(0.9) * found.sd
    np.testing.assert_allclose(found.high - found.mean, half)
    noisy = fit.uncertainty.quantile(0.9) * np.hypot(found.sd, fit.noise["x"])
    np.testing.assert_allclose(found.mean - found.noisy_low, noisy)


def test_a_number_is_the_last_time(fit):
    assert fit.predict().t[-1] == fit.data.T and len(fit.predict().t) == 201
    assert fit.predict([0.0]).mean[0, 0] == fit.values["b"]
    found = fit.predict(30)
    assert found.t[0] == 0 and found.t[-1] == 30
    text = str(found).splitlines()
    assert text[0].split()[:2] == ["t", "x"] and len(text) == 14
    assert text[-1] == "(12 of 201 times)"
    assert "<table>" in found._repr_html_()
    assert len(found.plot().axes) == 1


def test_changed_parameters_are_known_and_the_others_as_sure_as_before(fit):
    found = fit.predict([0.0, 4.0, 8.0], {"tau": 2.5, "history.b": 3.0})
    problem = dd.Problem(fit.problem.rhs, dd.Affine(fit.values["a"], 3.0), 2.5)
    expected = dd.solve(problem, 8.0, fit.solver, 60)([0.0, 4.0, 8.0])
    np.testing.assert_allclose(found.mean, expected, rtol=1e-5)
    assert found.sd[0, 0] == 0 < found.sd[1, 0]
    for changed, message in (
        ({"taux": 1.0}, "There is no parameter 'taux'"),
        ({"tau": 0.0}, "`tau` must be positive"),
        ({"tau": np.nan}, "'tau' needs one finite number"),
    ):
        with pytest.raises(ValueError, match=message):
            fit.predict(5.0, changed)


def test_fixed_parameters_change_wherever_they_stand():
    model = dd.equation("x' = r * (K - x(t - tau)); x(t<=0) = K / 2")
    t = np.linspace(0, 6, 30)
    truth = model.problem(r=0.5, K=2.0, tau=1.0)
    data = dd.Data(
        t, np.asarray(dd.solve(truth, 6.0)(t)) + 0.01 * np.cos(9 * t)[:, None]
    )
    settings = {"K": dd.Fixed(2.0), "tau": dd.Fixed(1.0), "r": 0.4}
    fit = dd.fit(model, data, parameters=settings, intervals=False, **NEAR)
    found = fit.predict([0.0, 5.0], {"K": 3.0})
    assert found.mean[0, 0] == pytest.approx(1.5)
    other = model.problem(r=fit.values["r"], K=3.0, tau=1.0)
    expected = dd.solve(other, 5.0, fit.solver, fit.steps_per_delay)(5.0)
    assert found.mean[1, 0] == pytest.approx(float(expected[0]), rel=1e-6)
    assert fit.derived("r * K").standard_error == pytest.approx(
        2 * fit.standard_errors["r"]
    )


def test_what_the_data_do_not_determine_is_said(two_states):
    found = two_states.predict(12.0)
    assert np.all(np.isfinite(found.high)) and np.all(np.isfinite(found.noisy_high))
    assert found.determined[:, 0].all() and not found.determined[:, 1].any()
    first, second, third = found.notes
    assert first.startswith("From t = 0 on `b[1]` matters")
    assert second.startswith("From t = 0.06 on `c` matters, which the data do not")
    assert second.endswith("determine; the bands leave it out.")
    assert third == "Not measured, so without noise: z."
    # Given, they are known.
    assert two_states.predict(12.0, {"c": 1.0, "b[1]": 1.0}).determined.all()
    lines = str(two_states).splitlines()
    assert "At the best fit the data do not depend on `c`, `b[1]`." in lines
    noise = next(line for line in lines if "noise (estimated)" in line)
    assert "x 0.0" in noise and "z" not in noise.split("noise")[1]


def test_times_that_make_no_sense_are_refused(fit):
    for times in (-1.0, [0.0, np.nan], [], 0.0, [[1.0]], np.inf):
        with pytest.raises(ValueError, match="`times` must be"):
            fit.predict(times)
    with pytest.raises(TypeError, match="`times` must be numbers"):
        fit.predict("soon")
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match="`level` must lie between 0 and 1"):
            fit.predict(5.0, level=level)


def test_a_trajectory_that_explodes_is_refused(fit):
    with pytest.raises(ValueError, match="not finite from t = .* on"):
        fit.predict(400.0, {"theta_1": 900.0})


def test_derived_quantities_by_the_delta_method(fit):
    found = fit.derived("theta_0 * tau")
    names = list(fit.names)
    gradient = np.zeros(len(names))
    gradient[names.index("theta_0")] = fit.values["tau"]
    gradient[names.index("tau")] = fit.values["theta_0"]
    variance = gradient @ fit.covariance @ gradient
    assert float(found) == fit.values["theta_0"] * fit.values["tau"]
    assert found.standard_error == pytest.approx(np.sqrt(variance), rel=1e-9)
    half = fit.uncertainty.quantile(0.95) * found.standard_error
    assert found.interval == pytest.approx((found.value - half, found.value + half))
    assert str(found).startswith("theta_0 * tau = -") and "95% interval [" in str(found)
    assert fit.derived("rhs.theta_0 * tau").standard_error == found.standard_error
    assert fit.derived("2 * pi").standard_error == 0
    wide = fit.derived("exp(tau) / max(b, 1)", level=0.99)
    narrow = fit.derived("exp(tau) / max(b, 1)", level=0.5)
    assert np.ptp(wide.interval) > 3 * np.ptp(narrow.interval)


def test_derived_quantities_of_vectors_and_of_what_is_not_determined(two_states):
    assert two_states.derived("r * tau + 0 * b[1] + b[0]").is_determined
    loose = two_states.derived("r * c")
    assert not loose.is_determined and loose.standard_error == np.inf
    assert str(loose).endswith("not determined. The data do not determine `c`.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("theta * tau", "no parameter 'theta'. Did you mean 'theta_1'"),
        ("b[7]", r"no parameter 'b\[7\]'"),
        ("tau =", "nothing to the right"),
        ("tau; b", "one expression"),
        ("", "one expression"),
        ("tau > 1", "a comparison has no error bar"),
        ("b(t - tau)", "'b' is neither a state"),
        ("history.b + lambda", "cannot be a name"),
        ("().__class__", "A value is missing|cannot stand"),
        ("__import__('os')", "begins with a letter"),
        ("log(0 - tau)", "not finite"),
    ],
)
def test_texts_that_are_no_quantity_are_refused(fit, text, message):
    with pytest.raises(ValueError, match=message):
        fit.derived(text)


def test_errors_point_at_names_with_indices_as_they_are_written(fit):
    with pytest.raises(dd.EquationError) as caught:
        fit.derived("history.b + sine(tau)")
    message, line, caret = str(caught.value).splitlines()
    assert "history.b + sine(tau)" in line
    assert line[caret.index("^") :].startswith("sine")


def test_names_with_indices_may_begin_with_any_letter(fit):
    found = derive(fit.uncertainty, {"w[0]": 0, "Z.y": 3.0}, "Z.y * w[0]", 0.95)
    assert found.value == pytest.approx(3 * fit.best[0])
