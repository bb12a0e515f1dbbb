"""Smooth histories, the choice of a history by evidence, and measured pasts, on records
that begin in mid-cycle and come from SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from studies.mid_cycle_systems import SYSTEMS, record

import ddefind as dd
from ddefind._problem.history import spline_basis
from support.command import refused, run
from support.fits import load_estimate, reloaded, simulated

SYSTEM = SYSTEMS["logistic"]
TEXT = SYSTEM.text


@pytest.fixture(scope="module")
def past():
    """A record that begins in mid-cycle, where the past is strongly curved."""
    random = np.random.default_rng([1, 17])
    return record(SYSTEM, SYSTEM.solution(), random)


@pytest.fixture(scope="module")
def data(past):
    return past.data(0.05, np.random.default_rng(0))


@pytest.fixture(scope="module")
def auto(data, reports):
    return fitted(data, "auto", progress=reports.append)


@pytest.fixture(scope="module")
def reports():
    """The progress of the fit `auto`."""
    return []


@pytest.fixture(scope="module")
def measured(data):
    return dd.fit(dd.equation(TEXT), data, history="data", solver=dd.RK4())


def fitted(data, history=None, **options):
    return dd.fit(dd.equation(TEXT, history=history), data, solver=dd.RK4(), **options)


def is_near_truth(fit, standard_errors=4.0):
    return all(
        abs(fit.values[name] - true) < standard_errors * fit.standard_errors[name]
        for name, true in SYSTEM.true.items()
    )


def test_a_smooth_history_is_the_natural_spline_through_its_knots():
    c = np.random.default_rng(0).normal(size=(4, 2))
    history = dd.Smooth(a=[0.5, -1.0], b=[1.0, 2.0], c=c, length=3.0)
    knots = np.linspace(-3.0, 0.0, 6)
    x = jax.vmap(history)(jnp.asarray(knots))
    reference = CubicSpline(knots, x, bc_type="natural")
    t = np.linspace(-3.0, 0.0, 50)
    found = jax.vmap(history)(jnp.asarray(t))
    np.testing.assert_allclose(found, reference(t), atol=1e-12)
    # Before the first knot it is a straight line.
    found, expected = history(jnp.asarray(-5.0)), x[0] - 2.0 * reference(-3.0, 1)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_all_curves_are_equally_rough_and_orthogonal():
    basis = spline_basis(4)

    def curves(u):
        powers = np.maximum(u - basis.knots, 0.0) ** 3
        return basis.constant + basis.linear * u + basis.cubic @ powers

    at_knots = np.array([curves(u) for u in basis.knots])
    splines = CubicSpline(basis.knots, at_knots, bc_type="natural")
    u = np.linspace(-1.0, 0.0, 20001)
    second = splines(u, 2)
    roughness = np.trapezoid(second[:, :, None] * second[:, None, :], u, axis=0)
    scale = roughness[0, 0]
    np.testing.assert_allclose(roughness, scale * np.eye(4), atol=1e-6 * scale)
    squares = at_knots.T @ at_knots
    np.testing.assert_allclose(squares, np.diag(np.diagonal(squares)), atol=1e-12)
    assert np.abs(splines(u)).max(axis=0)[0] == pytest.approx(1.0, abs=1e-3)


def test_coefficients_need_a_column_for_each_component():
    with pytest.raises(ValueError, match="`c` needs one row for each curve and 2"):
        dd.Smooth(a=[0.0, 0.0], b=[1.0, 1.0], c=np.zeros((4, 1)), length=1.0)


def test_the_names_of_a_spline_history_do_not_depend_on_data():
    model = dd.equation(TEXT, history="spline")
    bends = tuple(f"c[{j},0]" for j in range(4))
    assert model.names == ("r", "K", "a", "b", *bends, "tau")
    assert model.settings == {"history.length": dd.Tied("tau")}
    problem = model.problem(r=1.0, K=2.0, a=0.1, b=1.0, tau=0.5)
    assert float(problem.history.length) == 0.5
    with pytest.raises(ValueError, match="Known names: constant.*spline.*auto, data"):
        dd.equation(TEXT, history="cubist")


@pytest.mark.slow
def test_a_spline_history_fits_at_least_as_well_as_a_straight_line(data, tmp_path):
    spline, affine = (
        fitted(data, kind, intervals=False) for kind in ("spline", "affine")
    )
    assert spline.loss < affine.loss
    # The data determine only a part of the four bends.
    k = [fit.criteria.parameters for fit in (affine, spline)]
    assert k[0] == 6 and 6 < k[1] < 10
    assert is_near_truth(spline)
    # Each coefficient has a prior as wide as the spread of the data.
    priors = spline.setup.model.priors
    assert priors is not None
    is_bend = [name.startswith("c[") for name in spline.names]
    expected = np.where(is_bend, np.var(data.x) ** -1.0, 0.0)
    np.testing.assert_allclose(priors.weight, expected)
    assert reloaded(spline, tmp_path).values == spline.values


def test_settings_of_the_coefficients_replace_the_priors(data):
    fit = fitted(data, "spline", parameters={"c": dd.Fixed(0.0)}, intervals=False)
    assert fit.names == ("r", "K", "a", "b", "tau")
    assert fit.setup.model.priors is None


@pytest.mark.slow
def test_with_several_delays_the_length_covers_the_longest(data):
    model = dd.equation(
        "x' = r * x * (1 - (w * x(t - tau_1) + (1 - w) * x(t - tau_2)) / K)",
        history="spline",
    )
    known = {"w": dd.Fixed(0.5), "tau_1": dd.Fixed(7.4), "tau_2": dd.Fixed(7.6)}
    fit = dd.fit(model, data, parameters=known, intervals=False, solver=dd.RK4())
    assert float(fit.problem.history.length) == pytest.approx(1.25 * 7.6)
    assert abs(fit.values["r"] - 0.25) < 0.02


@pytest.mark.slow
def test_a_chosen_history_has_one_progress_bar(auto, reports):
    # One kind of history after the other, and each fills its part of the bar.
    kinds = [report.phase.partition(":")[0] for report in reports]
    named = ["constant", "affine", "periodic", "spline", "intervals"]
    assert list(dict.fromkeys(kinds)) == named
    search = [(kind, r) for kind, r in zip(kinds, reports) if kind != "intervals"]
    assert {report.epochs for _, report in search} == {17}
    for kind, report in search:
        last = 4 * named.index(kind) + 4
        assert last - 4 < report.epoch <= last
    # The ends of the intervals are counted by themselves.
    assert reports[len(search)].epoch == 0 and reports[-1].epoch == reports[-1].epochs


def test_the_history_is_chosen_by_evidence(auto, data, tmp_path):
    kinds = [kind for kind, _ in auto.histories]
    assert sorted(kinds) == ["affine", "constant", "periodic", "spline"]
    rises = [rise for _, rise in auto.histories]
    assert rises[0] == 0 and rises == sorted(rises) and kinds[-1] == "constant"
    assert auto.model.history == kinds[0] != "constant"
    assert is_near_truth(auto)
    assert f"History chosen by evidence: `{kinds[0]}`; BIC is higher by" in str(auto)
    loaded = reloaded(auto, tmp_path)
    assert loaded.histories == auto.histories and str(loaded) == str(auto)


@pytest.mark.slow
def test_a_constant_history_is_chosen_where_it_is_right():
    # The name `a` is also that of the slope of an affine history.
    model = dd.equation("x' = -a * x(t - tau)", history="auto")
    t = np.linspace(0, 10, 50)
    truth = dd.equation("x' = -a * x(t - tau)").problem(a=1.2, tau=1.0, b=1.0)
    data = simulated(truth, t, 0.03, seed=3)
    known = {"a": dd.Parameter(lower=0.1, upper=5.0)}
    fit = dd.fit(model, data, parameters=known, intervals=False, solver=dd.RK4())
    assert fit.histories[0] == ("constant", 0.0)
    assert fit.names == ("a", "b", "tau")
    assert fit.setup.upper[0] == 5.0


def test_a_history_that_a_fit_chooses_has_no_names_before():
    model = dd.equation(TEXT, history="auto")
    assert str(model).endswith("# history: auto")
    assert model.latex() == dd.equation(TEXT, history="data").latex()
    with pytest.raises(ValueError, match='With `history="auto"` .* `dd.fit` chooses'):
        model.names  # noqa: B018


def test_what_depends_on_data_is_for_one_least_squares_fit(data):
    model = dd.equation(TEXT, history="auto")
    with pytest.raises(ValueError, match='`history="auto"` depends on the data'):
        dd.fit_many(model, [data, data])
    with pytest.raises(ValueError, match='`history="auto"` is for least squares'):
        dd.fit(model, data, optimizer=dd.Adam())


def other_history(fit):
    assert fit.assessment is not None
    return fit.assessment.other_history


def test_a_fit_that_misses_its_past_says_which_history_would_do(data, tmp_path):
    fit = fitted(data)
    other = other_history(fit)
    assert fit.failed_checks and other is not None
    assert other.after < 0.5 * other.before and other.p < 1e-6
    assert other.before == pytest.approx(fit.loss)
    said = f'With `history="{other.kind}"` the sum of squares falls from {fit.loss:.4g}'
    assert said in str(fit)
    # The sum of squares is that of a fit with this history.
    again = fitted(data, other.kind, intervals=False)
    squares = float(np.nansum((data.x - again.fitted) ** 2))
    assert other.after == pytest.approx(squares, rel=0.02)
    assert other_history(reloaded(fit, tmp_path)) == other


@pytest.mark.slow
def test_a_model_that_no_history_can_help_gets_no_hint():
    # The residuals are a slow wave, from the beginning to the end.
    t = np.linspace(0, 20, 80)
    noise = 0.02 * np.random.default_rng(0).normal(size=80)
    data = dd.Data(t, np.exp(-0.2 * t) + 0.2 * np.sin(1.5 * t) + noise)
    model, fixed = dd.equation("x' = -k * x + 0 * x(t - tau)"), {"tau": dd.Fixed(1.0)}
    fit = dd.fit(model, data, parameters=fixed, solver=dd.RK4())
    assert fit.rejected and other_history(fit) is None


def test_a_measured_past_needs_no_history_and_keeps_the_times(measured, data, tmp_path):
    assert measured.names == ("r", "K", "tau", "x_0")
    assert is_near_truth(measured, standard_errors=6.0)
    zero = measured.time_zero
    assert 7.5 < zero < 15
    later = data.t >= zero
    np.testing.assert_array_equal(measured.data.x, data.x[later])
    np.testing.assert_allclose(measured.data.t, data.t[later])
    assert f"The fit begins at t = {zero:.4g}" in str(measured)
    # The solution is the smoothed data before, and the fit after that time.
    before = np.asarray(measured.solution(data.t[~later]))
    assert np.std(before - data.x[~later]) < 2 * measured.noise["x"]
    after = np.asarray(measured.solution(data.t[later]))
    np.testing.assert_allclose(after, measured.fitted, rtol=1e-3)
    said = measured.predict()
    assert said.t[0] == zero and said.t[-1] == pytest.approx(data.T)
    said = measured.predict([50.0, 100.0])
    np.testing.assert_allclose(said.mean, measured.solution(said.t), rtol=1e-3)
    with pytest.raises(ValueError, match=f"from {zero:g} on"):
        measured.predict([1.0])
    assert measured.plot().axes[0].lines[1].get_xdata()[0] == pytest.approx(zero)
    loaded = reloaded(measured, tmp_path)
    np.testing.assert_allclose(loaded.data.t, measured.data.t)
    np.testing.assert_allclose(loaded.setup.data.t, measured.setup.data.t, atol=1e-12)
    np.testing.assert_allclose(loaded.predict().mean, measured.predict().mean)


def test_a_bound_of_the_delay_says_how_long_the_past_is(data):
    bounds = {"tau": dd.Parameter(upper=10.0)}
    assert fitted(data, "data", parameters=bounds, intervals=False).time_zero == 10.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x' = -x(t - tau) * y; y' = k * x", "it is not for: y"),
        ("x' = -x(t - tau) * (1 + sin(t))", "contains the time t"),
        ("x' = -k * x(t - tau); x(0) = 2", r"value at time zero \(x\(0\) = 2\)"),
    ],
)
def test_what_a_measured_past_cannot_serve_is_refused(text, message, data):
    with pytest.raises(ValueError, match=message):
        dd.fit(dd.equation(text, history="data"), data)


def test_a_past_that_leaves_no_record_is_refused(data):
    bounds = {"tau": dd.Parameter(upper=200.0)}
    with pytest.raises(ValueError, match="Give the delay a smaller upper bound"):
        dd.fit(dd.equation(TEXT, history="data"), data, parameters=bounds)


def test_the_command_line_has_all_histories(data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data.to_csv("data.csv")
    options = ("--history", "data", "--solver", "rk4", "--out", "result", "--quiet")
    assert run("fit", "data.csv", "-e", TEXT, *options) == 0
    assert "the data before are its past" in capsys.readouterr().out
    fit = load_estimate("result")
    first = (tmp_path / "result/curve.csv").read_text().splitlines()[1]
    assert float(first.split(",")[0]) == pytest.approx(fit.time_zero)
    assert 'history = "data"' in (tmp_path / "result/fit.toml").read_text()
    message = refused(capsys, "simulate", "-e", TEXT, "--history", "auto", "--T", 5)
    assert "the history comes from data" in message
