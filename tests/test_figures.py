"""Figures: what is drawn on which axes, with which names and times."""

import dataclasses
import sys
from types import SimpleNamespace

import matplotlib
import matplotlib.dates
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.text import Text

import ddefind as dd
from ddefind._figures.panels import axis_label
from support.fits import unchecked
from test_documentation import ROOT

KEPT = ROOT / "tests" / "saved_fits"
# The first time of the kept fit.
FIRST = matplotlib.dates.date2num(np.datetime64("2020-01-01"))


@pytest.fixture(scope="module")
def fit():
    loaded = dd.load(KEPT / "estimate.json")
    assert isinstance(loaded, dd.Estimate)
    return loaded


def renamed(fit, **fields):
    data = fit.data.with_fields(**fields)
    setup = dataclasses.replace(fit.setup, data=data)
    known = dataclasses.replace(fit.uncertainty, setup=setup)
    return dataclasses.replace(fit, uncertainty=known)


def drawn(figure):
    """All texts of a figure, after it was drawn."""
    figure.canvas.draw()
    return [text.get_text() for text in figure.findobj(Text)]


def shown_ticks(axis):
    """Where the labels of the ticks within an axis are drawn, from left to right."""
    low, high = sorted(axis.get_view_interval())
    boxes = [
        tick.label1.get_window_extent()
        for tick in axis.get_major_ticks()
        if tick.label1.get_text() and low <= tick.get_loc() <= high
    ]
    return sorted(boxes, key=lambda box: box.x0)


class TestPyplot:
    def test_a_figure_is_one_of_pyplot(self, fit):
        figure = fit.plot()
        assert pyplot.gcf() is figure
        assert pyplot.get_fignums() == [figure.number]

    def test_without_pyplot_it_is_not_imported(self, fit, monkeypatch):
        monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
        assert type(fit.plot_waterfall()) is Figure
        assert "matplotlib.pyplot" not in sys.modules

    def test_a_notebook_shows_it_once(self, fit, monkeypatch):
        shell = SimpleNamespace(kernel=None)
        module = SimpleNamespace(get_ipython=lambda: shell)
        monkeypatch.setitem(sys.modules, "IPython", module)
        monkeypatch.setattr(matplotlib, "get_backend", lambda: "inline")
        figure = fit.plot_waterfall()
        assert pyplot.get_fignums() == [figure.number]
        # IPython calls this before it shows a figure, and goes on after this error.
        with pytest.raises(NotImplementedError):
            vars(figure)["_ipython_display_"]()
        assert pyplot.get_fignums() == []  # It is not shown again.


class TestGivenAxes:
    def test_of_a_fit(self, fit):
        figure, axes = pyplot.subplots(1, 3)
        assert fit.plot(ax=axes[0]) is figure
        assert fit.plot(ax=axes[1:]) is figure
        assert axes[0].get_xlabel() == axes[2].get_xlabel() == "time"
        assert axes[1].get_ylabel() == "x" and "residual" in axes[2].get_ylabel()
        assert len(figure.axes) == 3

    def test_of_everything_else(self, fit):
        figure, axes = pyplot.subplots(2, 2)
        assert fit.plot_profile(ax=axes) is figure
        assert fit.plot_waterfall(ax=axes[0, 0]) is figure
        assert fit.predict(10).plot(ax=axes[0, 1]) is figure
        descent = dd.load(KEPT / "descent.json")
        assert isinstance(descent, dd.FitResult)
        assert descent.plot(ax=axes[1]) is figure

    def test_others_are_refused(self, fit):
        with pytest.raises(TypeError, match="`ax` must be matplotlib axes.* got str"):
            fit.plot(ax="left")
        with pytest.raises(ValueError, match="`ax` must hold 1 or 2 axes.* got 4"):
            fit.plot(ax=pyplot.subplots(2, 2)[1])


class TestTimes:
    def test_dates(self, fit):
        above, below = fit.plot().axes
        assert above.get_xlim() == pytest.approx((FIRST - 0.12, FIRST + 8.12))
        assert above.get_shared_x_axes().joined(above, below)
        formatter = below.xaxis.get_major_formatter()
        assert isinstance(formatter, matplotlib.dates.ConciseDateFormatter)

    def test_dates_with_a_time_zone(self, fit):
        zoned = renamed(fit, origin="2020-01-01T02:00:00+02:00", axis_labels="dx")
        axes = zoned.plot().axes
        assert axes[0].get_xlim()[0] == pytest.approx(FIRST - 0.12)
        assert axes[-1].get_xlabel() == "d (UTC)"

    def test_numbers_that_are_far_from_zero_are_counted_from_the_first(self, fit):
        axes = renamed(fit, origin=1900.0, axis_labels=["year", "x"]).plot().axes
        assert axes[0].get_xlim() == pytest.approx((1899.88, 1908.12))
        assert axes[1].get_xlabel() == "year" and axes[0].get_xlabel() == ""
        axes = renamed(fit, origin=1.7e18).plot().axes
        assert axes[0].get_xlim() == pytest.approx((-0.12, 8.12))
        assert axes[1].get_xlabel() == "time - 1.7e+18"


def test_names_and_units_are_on_the_axes(fit):
    labels = ["time [d]", "price [$ of 2020, $] of a very long name"]
    texts = drawn(renamed(fit, origin=0.0, axis_labels=labels).plot())
    assert "time [d]" in texts
    assert axis_label(labels[1]) in texts
    assert axis_label(labels[1]).count("\n") == 1 and "\\$ of" in axis_label(labels[1])


def test_the_band_of_a_fit_is_that_of_its_prediction(fit):
    above = fit.plot().axes[0]
    (band,) = above.collections
    assert band.get_label() == "95% confidence band of the curve"
    said = fit.predict(np.linspace(0, 8, 801))
    corners = band.get_paths()[0].vertices[:, 1]
    for edge in (said.low, said.high):
        assert np.isin(edge[:, 0], corners).all()
    names = [text.get_text() for text in above.get_legend().get_texts()]
    assert names == [band.get_label(), "data", "fitted curve"]


def test_what_is_not_determined_is_dotted_and_has_no_band(fit, monkeypatch):
    def undetermined(self, *arguments, **options):
        said = predict(self, *arguments, **options)
        late = said.t[:, None] > 4
        return dataclasses.replace(said, determined=said.determined & ~late)

    predict = dd.Estimate.predict
    monkeypatch.setattr(dd.Estimate, "predict", undetermined)
    for figure in (fit.plot(), fit.predict(8).plot()):
        lines = {line.get_label(): line for line in figure.axes[0].lines}
        dotted = lines["curve that the data do not determine"]
        assert dotted.get_linestyle() == ":"
        finite = np.isfinite(dotted.get_ydata())
        assert not finite[0] and finite[-1]
        bands = {band.get_label(): band for band in figure.axes[0].collections}
        path = bands["95% confidence band of the curve"].get_paths()[0]
        assert path.vertices[:, 0].max() <= FIRST + 4


class TestPredictions:
    def test_data_and_their_end_are_shown(self, fit):
        (ax,) = fit.predict(10).plot().axes
        lines = {line.get_label(): line for line in ax.lines}
        measured = fit.data.x[np.isfinite(fit.data.x)]
        np.testing.assert_array_equal(lines["data"].get_ydata(), measured)
        end = matplotlib.dates.date2num(lines["end of the data"].get_xdata()[0])
        assert end == FIRST + 8
        assert ax.get_xlim() == pytest.approx((FIRST - 0.15, FIRST + 10.15))
        labels = [text.get_text() for text in ax.get_legend().get_texts()]
        assert "95% band of a new measurement" in labels
        assert "95% confidence band of the curve" in labels

    def test_there_is_no_end_within_the_data(self, fit):
        (ax,) = fit.predict([1.0, 3.0]).plot().axes
        assert "end of the data" not in [line.get_label() for line in ax.lines]

    def test_later_times_are_shown_with_the_data_before(self, fit):
        (ax,) = fit.predict([9.0, 12.0]).plot().axes
        assert ax.get_xlim() == pytest.approx((FIRST - 0.18, FIRST + 12.18))

    def test_a_huge_band_does_not_hide_the_rest(self, fit):
        said = fit.predict(10)
        huge = np.full_like(said.mean, 1e30)
        said = dataclasses.replace(said, noisy_low=-huge, noisy_high=huge)
        low, high = said.plot().axes[0].get_ylim()
        values = np.concatenate([said.mean, fit.data.x])
        assert high - low < 3.2 * (np.nanmax(values) - np.nanmin(values))


class TestProfiles:
    def test_the_lines_are_labelled(self, fit):
        texts = drawn(fit.plot_profile())
        assert texts.count("95%") == 4
        low, high = fit.intervals["tau"]
        assert f"95% interval [{low:.4g}, {high:.4g}]" in texts

    def test_ticks_do_not_overlap(self, fit):
        profiles = [
            dataclasses.replace(p, values=shift + scale * p.values, estimate=shift)
            for p in map(fit.profile, fit.names)
            for shift, scale in ((0, 1e-7), (123456.7, 1), (0, 1e5))
        ][:9]
        figure = dd.plots.plot_profiles(profiles)
        figure.canvas.draw()
        for ax in figure.axes[: len(profiles)]:
            ticks = shown_ticks(ax.xaxis)
            assert len(ticks) >= 2
            assert all(a.x1 < b.x0 for a, b in zip(ticks, ticks[1:]))

    def test_open_ends(self, fit):
        profile = fit.profile("tau")
        limits = {"> 2": (2.0, np.inf), "< 3": (-np.inf, 3.0)}
        limits["without limits"] = (-np.inf, np.inf)
        for shown, interval in limits.items():
            open_profile = dataclasses.replace(profile, interval=interval)
            figure = dd.plots.plot_profiles([open_profile], level=0.9)
            assert figure.axes[0].get_title() == f"90% interval {shown}"


def test_a_quantity_that_is_not_measured_has_no_residuals(fit):
    data = fit.data
    lacking = data.with_fields(
        x=np.column_stack([data.x, np.full(len(data), np.nan)]),
        names=("x", "y"),
        axis_labels=("time", "x", "y"),
    )
    said = fit.predict(8)
    pairs = {
        field.name: np.repeat(getattr(said, field.name), 2, axis=1)
        for field in dataclasses.fields(said)
        if np.ndim(getattr(said, field.name)) == 2
    }
    said = dataclasses.replace(said, **pairs, names=("x", "y"), data=lacking)
    stub = SimpleNamespace(
        data=lacking,
        experiments={},
        time_zero=0.0,
        system=SimpleNamespace(curve=lambda fit, t: fit.predict(t).mean),
        level=0.95,
        predict=lambda t, level=0.95: dataclasses.replace(said, t=t),
        residuals=np.zeros_like(lacking.x),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ddefind.plots.CURVE_POINTS", len(said.t))
        labels = [
            ax.get_ylabel() for ax in dd.plots.plot_estimate(unchecked(stub)).axes
        ]
    assert labels == ["x", "residual\n/ sd", "y"]
