"""The bootstrap: its spread, its table, and what it cannot say."""

import numpy as np
import pytest

import ddefind as dd
from ddefind.paper import EXPERIMENTS
from support.fits import NEAR


@pytest.fixture(scope="module")
def fit():
    experiment = EXPERIMENTS["exponential"]
    return dd.fit(experiment.true, experiment.data(0.1, 1, exact=True), **NEAR)


@pytest.mark.parametrize("kind", ["parametric", "residual"])
def test_estimates_scatter_by_their_standard_errors(fit, kind):
    found = fit.bootstrap(600, kind, seed=1)
    assert found.values.shape == (600, 5) and found.failed == 0
    for name, sd in found.standard_errors.items():
        assert sd == pytest.approx(fit.standard_errors[name], rel=0.15)
    for name, (low, high) in found.intervals().items():
        width = np.ptp(fit.intervals[name])
        assert abs(low - fit.intervals[name][0]) < 0.15 * width
        assert abs(high - fit.intervals[name][1]) < 0.15 * width
    narrow = found.intervals(0.5)["tau"]
    assert found.intervals()["tau"][0] < narrow[0] < narrow[1]


def test_the_seed_decides(fit):
    first, again = fit.bootstrap(20, seed=4), fit.bootstrap(20, seed=4)
    other = fit.bootstrap(20, seed=5)
    np.testing.assert_array_equal(first.values, again.values)
    assert not np.allclose(first.values, other.values)


def test_given_noise_gaps_and_replicates():
    """Each value gets noise of its own size; what was not measured gets none."""
    random = np.random.default_rng(3)
    t = np.repeat(np.linspace(0, 5, 25), 2)
    sd = np.where(t < 2.5, 0.01, 0.2)
    x = np.exp(-0.5 * t) + sd * random.normal(size=50)
    x[7] = np.nan
    model, start = dd.equation("x' = -k * x"), {"k": 0.4, "b": 1.0}
    fit = dd.fit(model, dd.Data(t, x, sd=sd), parameters=start, **NEAR)
    for kind in ("parametric", "residual"):
        for name, error in fit.bootstrap(300, kind).standard_errors.items():
            assert error == pytest.approx(fit.standard_errors[name], rel=0.25)


def test_what_is_not_determined_has_no_interval():
    """The data do not depend on c: its estimates do not scatter at all."""
    t = np.linspace(0, 5, 30)
    x = np.exp(-t) + 0.02 * np.random.default_rng(0).normal(size=30)
    model = dd.equation("x' = -k * x; z' = -c", history=[1.0, 0.0])
    start, data = {"k": 1.0, "c": 1.0}, dd.Data(t, x, names="x")
    found = dd.fit(model, data, parameters=start, **NEAR).bootstrap(50)
    assert found.undetermined == ("c", "b[1]")
    assert found.intervals()["c"] == (-np.inf, np.inf)
    text = str(found).splitlines()
    row = next(line for line in text if line.startswith("c "))
    assert row.split()[2:] == ["-", "-", "not", "determined"]
    assert text[-1] == "Parametric bootstrap, 50 fits."
    assert "<table>" in found._repr_html_()


def test_requests_that_make_no_sense_are_refused(fit):
    for n in (0, 1, 2.5, True):
        with pytest.raises(ValueError, match="`n` must be a whole number"):
            fit.bootstrap(n)
    with pytest.raises(ValueError, match='"parametric" or "residual"'):
        fit.bootstrap(10, kind="block")
    with pytest.raises(ValueError, match="`level` must lie between"):
        fit.bootstrap(10).intervals(95)
