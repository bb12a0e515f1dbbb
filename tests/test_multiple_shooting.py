"""Multiple shooting: fits of systems that are themselves disturbed."""

import json

import numpy as np
import pytest
from studies import process_noise
from studies.process_noise import SYSTEMS, simulate

import ddefind as dd
from ddefind._search.make_setup import make_setup
from ddefind._shooting import shooting
from ddefind._shooting.defects import linearise, place_nodes
from ddefind._shooting.joint_fit import (
    Noise,
    evaluate,
    fit_path,
    minus_two_log_likelihood,
)
from ddefind._shooting.process_noise import innovations, joint_problem, state_levels
from support.command import refused, run
from support.fits import reloaded
from support.method_of_steps import method_of_steps

FEW = dd.MultipleShooting(starts=4)


def setup_of(text, data, **parameters):
    """The setup of a fit in which all but one of the parameters have fixed values."""
    model = dd.equation(text)
    fixed = {name: dd.Fixed(value) for name, value in parameters.items()}
    return make_setup(model.blank, data, fixed, dd.RK4(), 10)[0]


def test_nodes_divide_long_gaps_into_powers_of_two():
    nodes = place_nodes(np.array([0.5, 1.0, 3.0]), 0.5, 3.0)
    assert np.allclose(nodes.t, [0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0])
    assert nodes.at_data.tolist() == [1, 2, 6]
    assert len(place_nodes(np.array([3.0]), 1.4, 3.0).t) == 5
    assert place_nodes(np.array([0.0, 1.0]), 1.0, 3.0).t[-1] == 3.0


def test_the_path_of_an_undisturbed_system_has_no_defects():
    def rhs(x, y, tau, t):
        return x * (1 - y[0] / 2)

    solved = method_of_steps(rhs, [0.5], [1.4], 8.0, 1e-10)
    largest = []
    for count in (41, 81):
        t = np.linspace(0, 8, count)
        x = np.array([solved(s) for s in t]).reshape(-1, 1)
        text = "x' = r * x * (1 - x(t - tau) / 2)"
        setup = setup_of(text, dd.Data(t, x), tau=1.4, b=0.5)
        nodes = place_nodes(t, 1.0, 8.0)
        defects = linearise(setup.model, nodes, x[1:], np.array([1.0])).defects
        largest.append(np.abs(defects).max())
    assert largest[0] < 1e-2
    # The kink that the history causes at one delay limits the order.
    assert largest[0] / largest[1] > 3


def test_the_likelihood_of_a_linear_system_is_exact():
    """The likelihood, and the innovations, of x' = -a x with both kinds of noise are
    those of the multivariate normal distribution of the values."""
    random = np.random.default_rng(0)
    t = np.linspace(0, 5, 26)
    y = np.exp(-0.4 * t) + 0.1 * random.normal(size=26)
    setup = setup_of("x' = -a * x", dd.Data(t, y), b=1.0, tau=1.0)
    joint = joint_problem(setup, place_nodes(t, 1.0, 5.0))
    x = y[1:, None]
    a, process, measurement = 0.7, 0.3, 0.1
    level = state_levels(x, False)
    noise = Noise(np.log([process / level[0, 0], measurement]), level)
    fit = fit_path(evaluate(joint, noise, x, np.array([a])), np.zeros(1), is_held=True)

    z = -a * 0.2
    step = 1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24
    index = np.arange(26)
    power = index[:, None] - index[None, 1:]
    response = np.where(power >= 0, step ** np.maximum(power, 0), 0.0)
    covariance = 0.2 * process**2 * response @ response.T + measurement**2 * np.eye(26)
    away = y - step**index
    square = away @ np.linalg.solve(covariance, away)
    expected = square + np.linalg.slogdet(covariance)[1]
    assert minus_two_log_likelihood(fit) == pytest.approx(expected, abs=1e-6)
    residuals, slopes = innovations(fit)
    assert np.sum(residuals**2) == pytest.approx(square, rel=1e-8)
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), away)
    assert np.allclose(residuals[:, 0], whitened)
    assert slopes.shape == (26, 1, 1)


@pytest.fixture(scope="module")
def population():
    """A disturbed population, and its fit."""
    system = SYSTEMS["population"]
    data = simulate(system, 1, 0.05, seed=2)[0]
    model = dd.equation(system.text)
    return model, data, dd.fit(model, data, optimizer=FEW)


def test_a_disturbed_population(population):
    _, data, fit = population
    assert fit.status.ok
    for name, true in SYSTEMS["population"].true.items():
        error = fit.standard_errors[name]
        assert abs(fit.values[name] - true) < 4 * error < 0.4
        low, high = fit.intervals[name]
        assert high - low == pytest.approx(2 * fit.profile(name).quantile * error)
    # 5% in a delay, which is 4.2% per square root of time, and 5% of a level of 2.
    share = 1.0 if fit.process.is_relative else 2.0
    assert 0.01 < fit.process_noise["x"] / share < 0.1
    assert 0.05 < fit.noise["x"] < 0.2
    assert not fit.rejected
    assert fit.residuals.std() == pytest.approx(1, abs=0.2)
    assert "Process noise (estimated), per square root of time: x 0.0" in str(fit)
    assert fit.fitted.shape == data.x.shape
    assert fit.derived("r * tau").standard_error > 0


def test_predictions_follow_the_path_and_become_less_certain(population):
    _, data, fit = population
    inside = fit.predict(data.t)
    assert np.allclose(inside.mean, fit.fitted, atol=1e-6)
    assert np.all(inside.sd < 2 * fit.noise["x"])
    ahead = fit.predict([28.0, 29.0, 32.0])
    assert np.all(np.diff(ahead.sd[:, 0]) > 0)
    with pytest.raises(ValueError, match="other `parameters`"):
        fit.predict(30.0, parameters={"r": 2.0})
    with pytest.raises(ValueError, match="`bootstrap` is for fits by"):
        fit.bootstrap()


def test_a_saved_fit_is_the_same(population, tmp_path):
    _, _, fit = population
    again = reloaded(fit, tmp_path)
    assert str(again) == str(fit)
    assert again.intervals == fit.intervals
    assert np.allclose(again.predict(30.0).sd, fit.predict(30.0).sd)
    assert again.criteria == fit.criteria
    assert fit.plot() is not None and fit.plot_profile("tau") is not None


def test_least_squares_names_it_where_residuals_are_alike(population):
    model, data, fit = population
    t, x = data.t, data.x
    wave = 0.3 * np.sin(0.9 * t)[:, None]
    plain = dd.fit(
        model, dd.Data(t, x + wave, names="x"), optimizer=dd.LeastSquares(starts=8)
    )
    assert plain.rejected
    assert "dd.MultipleShooting()" in str(plain)
    assert "dd.MultipleShooting()" not in str(fit)


def test_an_interrupted_fit_is_the_one_by_least_squares(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(shooting, "shoot", interrupt)
    t = np.linspace(0, 5, 30)
    data, reports = dd.Data(t, np.exp(-t) + 0.01 * np.cos(9 * t)), []
    fit = dd.fit(
        dd.equation("x' = -k * x"), data, optimizer=FEW, progress=reports.append
    )
    assert fit.status is dd.Status.interrupted and fit.process is None
    assert abs(fit.values["k"] - 1) < 0.05
    assert "this is the fit by least squares" in str(fit)
    assert reports[-1].epoch < reports[-1].epochs


def test_fits_that_are_refused():
    t = np.linspace(0, 10, 2500)
    data = dd.Data(t, np.cos(t))
    with pytest.raises(ValueError, match=r"2,500 numbers, but can do so for 2,000"):
        dd.fit(dd.equation("x' = -k * x(t - tau)"), data, optimizer=FEW)
    neutral = dd.equation("x' = -k * x'(t - tau)")
    with pytest.raises(ValueError, match="cannot fit a neutral equation"):
        dd.fit(neutral, dd.Data(t[::50], np.cos(t[::50])), optimizer=FEW)
    with pytest.raises(ValueError, match="`starts` must be an integer"):
        dd.MultipleShooting(starts=0)


def test_a_fit_on_the_command_line(here, capsys):
    data = simulate(SYSTEMS["population"], 1, 0.05, seed=4)[0]
    data.to_csv("data.csv")
    fit = ("fit", "data.csv", "-e", SYSTEMS["population"].text, "--starts", 4)
    assert run(*fit, "--method", "multiple-shooting", "--out", "result") == 0
    assert "Process noise (estimated)" in capsys.readouterr().out
    assert 'method = "multiple-shooting"' in (here / "result/fit.toml").read_text()
    saved = dd.load("result")
    assert isinstance(saved, dd.Estimate) and saved.process is not None
    # The curve is the path that the system took.
    t, x, low, high, *_ = np.loadtxt("result/curve.csv", delimiter=",", skiprows=1).T
    assert np.all((low < x) & (x < high))
    at_data = np.interp(data.t, t, x)
    assert np.abs(at_data - saved.fitted[:, 0]).max() < 0.02
    table = json.loads((here / "result/result.json").read_text())["table"]
    assert [row["name"] for row in table] == ["r", "K", "b", "tau"]


def test_an_unknown_method_is_refused(capsys):
    said = refused(capsys, "fit", "a.csv", "-e", "x' = -x", "--method", "shooting")
    assert "`--method` must be least-squares or multiple-shooting" in said


@pytest.mark.slow
@pytest.mark.parametrize("measurement", process_noise.MEASUREMENT)
@pytest.mark.parametrize("system", SYSTEMS)
def test_intervals_hold(system, measurement):
    found = process_noise.measure(system, measurement, 30)
    for row in found["shooting"]["parameters"].values():
        assert row["inside"] >= 0.8
        assert 0.6 < row["width"] < 2
