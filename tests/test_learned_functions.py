"""What networks have learned: values, bands, visited ranges, figures, files."""

import csv
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

import ddefind as dd
from ddefind._cli.fit_settings import FitSettings
from ddefind._cli.output_folder import write_folder
from ddefind._inference.learned_function import (
    LearnedFunction,
    WeightShares,
    _prior_share,
    _shape_of,
    visited_arguments,
)
from ddefind._problem.network_weights import named_networks
from ddefind._report.sections import learned_functions
from ddefind._results.network_functions import _arguments, chosen_function
from ddefind.plots import plot_functions
from support.fits import reloaded, unchecked

TIMES = np.linspace(0, 20, 60)
MODEL = dd.equation("x' = NN(x(t - tau)) - g * x", networks={"NN": dd.Network(width=4)})
ARGUMENT = "x(t - tau)"
PRIORS = SimpleNamespace(weight=np.ones(2))


def feedback(u):
    """The function that is to be learned."""
    return 2 * u / (1 + u**8)


def exact(b):
    truth = dd.equation("x' = 2 * x(t - tau) / (1 + x(t - tau)^8) - x")
    return np.asarray(dd.solve(truth.problem(tau=2.0, b=b), T=20)(TIMES))


@pytest.fixture(scope="module")
def data():
    noise = 0.02 * np.random.default_rng(1).normal(size=(60, 1))
    return dd.Data(TIMES, exact(0.5) + noise, names=["x"])


@pytest.fixture(scope="module")
def fit(data):
    return dd.fit(MODEL, data, intervals=False)


@pytest.fixture(scope="module")
def learned(fit):
    return fit.function("NN")


@pytest.fixture(scope="module")
def descended(data):
    return dd.fit(
        MODEL.problem(g=1.0, tau=2.0, b=0.5), data, optimizer=dd.Adam(0.01), epochs=2
    )


class TestFunction:
    def test_it_has_learned_the_truth_within_its_band(self, learned):
        u = np.linspace(*learned.range[0], num=40)
        low, high = learned.band(u)
        assert np.max(np.abs(learned(u) - feedback(u))) < 0.1
        assert np.mean((low < feedback(u)) & (feedback(u) < high)) > 0.9
        assert np.all(low < learned(u)) and np.all(learned(u) < high)
        narrow = learned.band(u, level=0.5)
        assert np.all(narrow[0] > low) and np.all(narrow[1] < high)

    def test_its_band_is_that_of_the_delta_method(self, fit, learned):
        def at(theta):
            problem = fit.setup.model.free.problem_at(theta, fit.problem)
            return float(problem.rhs.NN(0.8)[0])

        steps = 1e-6 * np.eye(len(fit.best))
        gradient = [(at(fit.best + h) - at(fit.best - h)) / 2e-6 for h in steps]
        sd = np.sqrt(gradient @ fit.covariance @ gradient)
        (low, high), value = learned.band(0.8), at(fit.best)
        half = fit.uncertainty.quantile(0.95) * sd
        np.testing.assert_allclose([low, high], [value - half, value + half], rtol=1e-5)

    def test_values_have_the_shape_of_the_arguments(self, fit, learned):
        assert learned.note == "" and "\n" not in str(learned)
        assert learned(0.8).shape == () and learned([[0.7, 0.8]]).shape == (1, 2)
        assert learned.band(np.ones((2, 3)))[0].shape == (2, 3)
        assert float(learned(0.8)) == pytest.approx(float(fit.problem.rhs.NN(0.8)[0]))

    def test_its_range_is_what_the_fitted_curve_visited(self, fit, learned):
        past = np.asarray(fit.solution(TIMES - fit.values["tau"]))[:, 0]
        np.testing.assert_allclose(learned.range, [(past.min(), past.max())])
        assert len(learned.visited) == len(TIMES)

    def test_it_says_what_it_is(self, learned):
        (low, high), count = learned.range[0], learned.determined
        assert 3 < count < 10
        assert repr(learned) == (
            f"<NN({ARGUMENT}), learned for {ARGUMENT} from {low:.4g} to {high:.4g}; "
            f"{count:.0f} of 13 weights determined by the data>"
        )

    def test_rows_and_frame(self, learned):
        rows = learned.rows()
        assert list(rows[0]) == [ARGUMENT, "value", "low", "high", "visited"]
        inside = [row[ARGUMENT] for row in rows if row["visited"]]
        np.testing.assert_allclose((inside[0], inside[-1]), learned.range[0])
        assert not rows[0]["visited"] and not rows[-1]["visited"]
        frame = learned.to_frame(level=0.5)
        assert len(frame) == len(rows)
        assert np.all(
            frame["high"] - frame["low"] < [r["high"] - r["low"] for r in rows]
        )

    def test_wrong_names_and_arguments(self, fit, learned):
        with pytest.raises(ValueError, match="no network 'feedback'.*: NN"):
            fit.function("feedback")
        with pytest.raises(TypeError, match=r"of \(x\(t - tau\)\).*but got 2"):
            learned(1.0, 2.0)
        with pytest.raises(ValueError, match="must be numbers.*'a'"):
            unchecked(learned)("a")
        with pytest.raises(ValueError, match="level"):
            learned.band(1.0, level=95)

    def test_without_a_name(self, fit, learned):
        assert fit.function() is fit.function("NN")
        with pytest.raises(ValueError, match="no `dd.Network`"):
            chosen_function({}, None)
        with pytest.raises(ValueError, match="Say which one: 'NN_a', 'NN_b'"):
            chosen_function({"NN_a": learned, "NN_b": learned}, None)
        assert len(plot_functions([learned, learned]).axes) == 2

    def test_a_saved_fit_has_it(self, fit, learned, tmp_path):
        again = reloaded(fit, tmp_path).function("NN")
        np.testing.assert_allclose(again.band(0.8), learned.band(0.8))
        np.testing.assert_allclose(again.range, learned.range)
        assert str(again) == str(learned)

    def test_after_gradient_descent_there_is_no_band(self, descended):
        function = descended.function()
        assert function(0.8).shape == () and "determined" not in str(function)
        assert list(function.rows()[0]) == [ARGUMENT, "value", "visited"]
        with pytest.raises(ValueError, match="by gradient descent"):
            function.band(0.8)
        assert isinstance(function.plot(), Figure)


@pytest.mark.parametrize("shape", [{"positive": True}, {"bounds": (-1.0, 2.0)}])
def test_a_band_is_computed_before_the_shape(shape):
    bend, straighten, rise = _shape_of(dd.Network(**shape).sized(1))
    z = np.linspace(-8, 8, 33)[:, None]
    np.testing.assert_allclose(straighten(bend(z)), z, atol=1e-9)
    slope = (bend(z + 1e-5) - bend(z - 1e-5)) / 2e-5
    np.testing.assert_allclose(rise(z), slope, rtol=1e-6)
    low = 0.0 if "positive" in shape else -1.0
    assert np.all(bend(z - 20.0) > low)


@pytest.mark.parametrize("seen, is_told", [([[1, 1]], False), ([[1, 0], [0, 1]], True)])
def test_a_level_that_only_the_prior_determines(seen, is_told):
    # Two constants, of which the data see the sum, or each.
    information = 1e4 * np.array(seen).T @ seen + np.eye(2)
    uncertainty: Any = SimpleNamespace(
        theta=np.zeros(2),
        covariance_factor=np.linalg.cholesky(np.linalg.inv(information)),
        residual_variance=1.0,
        setup=SimpleNamespace(model=SimpleNamespace(priors=PRIORS)),
    )
    uncertainty.whole, uncertainty.for_whole = uncertainty, lambda gradient: gradient
    shares = WeightShares(uncertainty, np.array([0]))
    assert (_prior_share(np.ones((1, 1)), shares) < 0.01) == is_told


class TestSeveral:
    """Functions of several arguments, with several outputs, and of several parts."""

    def learned(self, arguments, outputs=1):
        count = len(arguments)
        visited = np.random.default_rng(0).normal(size=(50, count))
        network = dd.Network(width=2).sized(count, outputs)
        return LearnedFunction("NN", arguments, visited, network, None, None)

    def test_two_arguments_are_drawn_as_three_curves(self):
        two = self.learned((ARGUMENT, "x"))
        curves = two.curves()
        assert len(curves) == 3 and curves[0].label.startswith("x = ")
        held = [curve.inputs[0, 1] for curve in curves]
        assert held == sorted(held) and two.range[1][0] < held[0] < two.range[1][1]
        assert two(0.8, np.ones(3)).shape == (3,)
        named = [t.get_text() for t in two.plot().axes[0].get_legend().get_texts()]
        assert [each.label for each in curves] == [n for n in named if n[:2] == "x "]

    def test_several_outputs(self):
        function = self.learned(("x", "y", "z"), outputs=2)
        assert function(1, 2, [4, 5]).shape == (2, 2)
        assert {row["output"] for row in function.rows()} == {0, 1}
        assert len(function.plot().axes) == 2

    def test_arguments_of_a_whole_right_hand_side(self):
        problem = dd.Problem(dd.Network(width=2), dd.Constant([0.0, 1.0]), tau=1.0)
        fit: Any = SimpleNamespace(model=None, problem=problem, state_names=("x", "z"))
        network = problem.rhs.network
        names = "x", "z", "x(t - tau)", "z(t - tau)"
        assert _arguments(fit, "rhs", network) == names
        assert _arguments(fit, "history", dd.Network().sized(1)) == ("t",)
        assert _arguments(fit, "g", dd.Network().sized(2)) == ("u1", "u2")

    def test_names_in_python(self):
        class Model(eqx.Module):
            parts: dict

            def __call__(self, x, y, tau, t):
                return self.parts["in"](y) - self.parts["out"](x)

        parts = {"in": dd.Network(width=2), "out": dd.Network(width=2)}
        problem = dd.Problem(Model(parts), dd.Network(width=2), tau=1.0)
        assert list(named_networks(problem)) == [
            "parts['in']",
            "parts['out']",
            "history",
        ]


class TestVisited:
    """What networks are called with along a trajectory."""

    T = np.linspace(0, 4, 9)

    def trajectory(self, t):
        return jnp.asarray(t)[:, None] ** 2

    def visited(self, rhs, tau, history: Any = dd.Constant(0.5)):
        return visited_arguments(dd.Problem(rhs, history, tau), self.trajectory, self.T)

    def test_delays_that_vary_and_slopes(self):
        def rhs(x, y, tau, t, net=dd.Network(width=2)):
            return net(y[0], y[1], tau)

        seen = self.visited(rhs, dd.Delay(lambda t, x: 1.0 + x[0] / 16, slope=True))[0]
        delay = 1 + self.T**2 / 16
        before = self.T - delay
        np.testing.assert_allclose(seen, np.stack([before**2, 2 * before, delay], 1))

    @pytest.mark.parametrize(
        "tau, variance",
        [(dd.GammaDelay(2.0, 4.0), 1.0), (dd.UniformDelay(1.0, 3.0), 1 / 3)],
    )
    def test_means_over_the_past(self, tau, variance):
        def rhs(x, y, tau, t, net=dd.Network(width=2)):
            return net(y, tau)

        seen = self.visited(rhs, tau)[0]
        np.testing.assert_allclose(seen[:, 0], (self.T - 2) ** 2 + variance, atol=0.1)
        np.testing.assert_allclose(seen[:, 1], 2.0, rtol=0.02)

    def test_networks_of_networks_and_of_the_history(self):
        def rhs(x, y, tau, t, inner=dd.Network(width=2), outer=dd.Network(width=2)):
            return outer(inner(x))

        seen = self.visited(rhs, 1.5, dd.Network(width=2))
        problem = dd.Problem(rhs, dd.Network(width=2), 1.5)
        np.testing.assert_allclose(seen[0][:, 0], self.T**2)
        values = [float(problem.rhs.inner(u)[0]) for u in seen[0]]
        np.testing.assert_allclose(seen[1][:, 0], values)
        assert (seen[2].min(), seen[2].max()) == (-1.5, 0.0)


class TestTable:
    def test_the_table_counts_what_the_data_determine(self, fit):
        count = fit.determined_weights["network `NN`"]
        assert count == pytest.approx(fit.uncertainty.effective_weights)
        line = f"network `NN`: {count:.0f} of 13 weights determined by the data"
        assert line in str(fit).splitlines()

    @pytest.mark.parametrize("kind", ["fit", "descended"])
    def test_weights_stand_nowhere(self, kind, request):
        fit = request.getfixturevalue(kind)
        said = fit.to_dict()
        assert list(said["parameters"]) == ["g", "b", "tau"]
        assert said["networks"]["NN"]["weights"] == 13
        for text in (said, fit.summary(), fit):
            assert "weights[" not in str(text) and "biases[" not in str(text)

    def test_the_page_has_a_chart_of_each_function(self, fit, descended):
        section: Any = learned_functions(fit)
        assert " of the 13 weights of `NN`" in section.blocks[1].text
        (chart,) = section.blocks[-1].charts
        kinds = [each.kind for each in chart.series]
        assert kinds == ["band", "band", "line", "dashed", "dots"]
        inside, beyond = (np.isfinite(chart.series[k].y) for k in (2, 3))
        assert np.all(inside | beyond) and np.sum(inside & beyond) == 2
        plain: Any = learned_functions(descended)
        assert "has 13 weights" in plain.blocks[1].text


def test_the_figure(fit, learned):
    figure = fit.plot_function()
    axes = figure.axes[0]
    assert axes.get_xlabel() == ARGUMENT and axes.get_ylabel() == f"NN({ARGUMENT})"
    inside, beyond, _ = axes.get_lines()
    low, high = learned.range[0]
    seen = inside.get_xdata()[np.isfinite(inside.get_ydata())]
    assert (seen.min(), seen.max()) == pytest.approx((low, high))
    assert beyond.get_linestyle() == "--" and axes.get_xlim()[0] < low
    assert fit.plot_function("NN", ax=axes) is figure


def test_the_folder_has_a_table_of_each_function(fit, tmp_path):
    folder = tmp_path / "result"
    folder.mkdir()
    (folder / "function_NN_old.csv").write_text("")
    settings = FitSettings(data="d.csv", equation=str(MODEL))
    files, _ = write_folder(folder, fit, fit.file_content(), (settings, {}))
    assert "function_NN.csv" in files and not (folder / "function_NN_old.csv").exists()
    rows = list(csv.DictReader((folder / "function_NN.csv").read_text().splitlines()))
    assert list(rows[0]) == [ARGUMENT, "value", "low", "high", "visited"]
    assert len(rows) == len(fit.function().rows())
    page = (folder / "report.html").read_text()
    assert "Learned functions" in page and "weights of NN ~ 0 +- " in page
    assert "weights[" not in page


@pytest.mark.slow
def test_the_experiments_of_a_study_share_a_function(data):
    lower = dd.Data(TIMES, exact(0.1), names=["x"])
    study = [dd.Experiment(data, label="high"), dd.Experiment(lower, label="low")]
    fit = dd.fit(MODEL, study, intervals=False)
    views = {label: each.function() for label, each in fit.experiments.items()}
    both = fit.function("NN")
    lowest = [each.range[0][0] for each in (both, views["high"], views["low"])]
    assert lowest[0] == lowest[2] < lowest[1]
    np.testing.assert_allclose(both.band(0.8), views["high"].band(0.8))
    assert "of 13 weights determined" in str(fit.experiments["low"])
