"""Results as Python sees them: verdicts by name, data frames, slices, networks in one
line, saved fits whose model is code, and the messages for wrong arguments."""

import sys
from typing import Any, assert_type

import equinox as eqx
import jax
import numpy as np
import pytest

import ddefind as dd
from support.fits import NEAR, reloaded, simulated, unchecked

T = np.linspace(0, 4, 30)
MODEL = dd.equation("x' = -k * x(t - tau)")
START = {"k": 1.0, "b": 1.0, "tau": 1.5}
DATA = simulated(MODEL.problem(START), T, 0.01)


@pytest.fixture(scope="module")
def fit():
    return dd.fit(MODEL, DATA, parameters=START, **NEAR)


def test_data_without_names_are_in_the_order_of_the_model():
    two = np.stack([np.cos(T), np.sin(T)], axis=1)
    model = dd.equation("u' = -k * v(t - tau); v' = u")
    fit = dd.fit(model, dd.Data(T, two), parameters=START, epochs=1)
    assert fit.data.names == ("u", "v")
    np.testing.assert_array_equal(fit.data.x, two)
    assert fit.data.notes == ("Columns are taken in the order u, v.",)
    three = dd.Data(T, np.ones((30, 3)))
    with pytest.raises(dd.DataError, match="3 columns without names, but 2 .* u, v"):
        dd.fit(model, three)
    # A problem that was made of a text has the names of the text.
    swapped = dd.Data(T, two[:, ::-1], names=["v", "u"])
    fit = dd.fit(model.problem(k=1.0, b=1.0, tau=1.5), swapped, epochs=1)
    np.testing.assert_array_equal(fit.data.x, two)


def test_verdicts_are_by_name_and_equal_their_words(fit):
    assert list(fit.verdicts) == list(fit.names)
    assert fit.verdicts["tau"] == "determined" != fit.verdicts["tau"].reason
    assert str(fit.verdicts["tau"]) == "determined"


def test_data_frames(fit):
    frame = fit.to_frame()
    assert frame.loc["tau", "estimate"] == fit.values["tau"]
    assert frame["low"].dtype == float and list(frame.index) == list(fit.names)
    said = fit.predict(3.0)
    frame = said.to_frame()
    assert len(frame) == 201 and set(frame["quantity"]) == {"x"}
    np.testing.assert_array_equal(frame["high"], said.high[:, 0])
    batch = dd.fit_many(MODEL, [DATA] * 3, parameters=START, epochs=2)
    frame = batch.to_frame()
    np.testing.assert_array_equal(frame["k"], batch.best[:, 0])
    assert list(frame["status"]) == ["finished"] * 3
    some = batch[1:]
    assert isinstance(some, dd.FitBatch) and len(some) == 2
    assert some[-1].values == batch[2].values
    with pytest.raises(TypeError, match=r"`batch\[0\]` or `batch\[1:3\]`, not 'a'"):
        batch[unchecked("a")]


def test_without_pandas_to_frame_says_what_to_install(fit, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        fit.to_frame()


def growth(x, y, tau, t, r=1.0, g=eqx.nn.MLP(1, 1, 2, 1, key=jax.random.key(0))):  # noqa: B008
    return r * x * g(y)


def test_the_weights_of_a_network_stand_in_no_table(tmp_path):
    problem = dd.Problem(growth, dd.Neural(1, width=3, depth=1), tau=1.0)
    squares = dd.fit(problem, DATA, intervals=False, **NEAR)
    descent = dd.fit(problem, DATA, epochs=2)
    batch = dd.fit_many(problem, [DATA] * 2, epochs=2)
    assert " of 7 weights determined by the data" in str(squares)
    for found in (squares, descent, batch):
        header, first, second, *rest = str(found).splitlines()
        assert first.startswith("r ") and second.startswith("tau ")
        for owner, line in zip(("`g`: ", "`history`: "), rest):
            assert line.startswith(f"network {owner}") and " weights" in line
    for found in (squares, descent):
        assert [row["name"] for row in found.summary()] == ["r", "tau"]
        assert len(found.values) == 19
        assert reloaded(found, tmp_path, dd.SavedFit).values == found.values
    assert list(batch.to_frame()) == ["loss", "status", "r", "tau"]


def test_a_saved_fit_of_code_says_what_it_cannot_do(tmp_path):
    def rhs(x, y, tau, t, k=1.0):
        return -k * y

    problem = dd.Problem(rhs, dd.Constant(1.0), tau=1.5)
    fit = dd.fit(problem, DATA, **NEAR)
    saved = reloaded(fit, tmp_path, dd.SavedFit)
    for name in ("values", "intervals", "standard_errors", "verdicts", "noise"):
        assert getattr(saved, name) == getattr(fit, name)
    assert saved.to_frame().equals(fit.to_frame())
    with pytest.raises(AttributeError, match="`predict` needs the model.*problem="):
        _ = saved.predict
    with pytest.raises(TypeError, match="right-hand side.*Give the whole problem"):
        dd.load(tmp_path / "fit.json", problem=unchecked(rhs))
    whole = reloaded(saved, tmp_path, problem=problem)
    assert str(whole) == str(fit) and whole.verdicts == fit.verdicts


@pytest.mark.parametrize("epochs", [None, 2])
def test_a_problem_that_was_made_of_a_text_is_saved_as_text(tmp_path, epochs):
    problem = MODEL.with_history("affine").problem(k=1.0, a=0.0, b=1.0, tau=1.5)
    method: Any = NEAR if epochs is None else {"epochs": epochs}
    fit = dd.fit(problem, DATA, **method)
    loaded = reloaded(fit, tmp_path, type(fit))
    assert str(loaded) == str(fit)
    assert repr(loaded.model) == repr(fit.model) == repr(MODEL.with_history("affine"))
    # With another part it is no longer that text.
    other = dd.Problem(problem.rhs, problem.history, 1.5, observe=lambda x, t: 2 * x)
    assert dd.fit(other, DATA, epochs=1).model is None


def test_wrong_arguments_are_answered(fit):
    def refused(match, kind: Any = ValueError, model: Any = MODEL, **options: Any):
        with pytest.raises(kind, match=match):
            dd.fit(model, options.pop("data", DATA), **options)

    refused("`parameters` maps names .* but got 5", TypeError, parameters=5)
    refused("`seed` must be an integer from 0 on, but got 'a'", seed="a")
    refused("`seed` must be an integer from 0 on, but got -1", seed=-1)
    refused("`problem` is a text.*dd.equation", TypeError, model="x' = -x(t - tau)")
    refused("`problem` is the class `Logistic`", TypeError, model=dd.models.Logistic)
    refused("but got a tuple of length 2", TypeError, data=(T, T))
    refused(r"`Adam\(\)` computes no intervals", optimizer=dd.Adam(), intervals=True)
    refused("no start value for k, b, tau", optimizer=dd.Adam())
    with pytest.raises(ValueError, match="`data` is empty"):
        dd.fit_many(MODEL, [])
    with pytest.raises(TypeError, match=r"its name \('k', 'b', 'tau'\), but got 0"):
        fit.profile(0)
    with pytest.raises(TypeError, match=r"its name \('k', 'b', 'tau'\), but got 0"):
        fit.predict(parameters={0: 1.0})


# What `fit`, `fit_many` and `load` return is what type checkers see: pyright checks
# each `assert_type`, and the tests the results.

PROBLEM = dd.Problem(dd.models.Exponential(0.1, -1.0), dd.Constant(1.0), tau=1.5)


def test_an_equation_is_fitted_by_least_squares():
    fit = dd.fit(MODEL, DATA, intervals=False)
    assert_type(fit, dd.Estimate)
    assert type(fit) is dd.Estimate


def test_the_method_decides(tmp_path):
    squares = dd.fit(PROBLEM, DATA, intervals=False, **NEAR)
    descent = dd.fit(PROBLEM, DATA, optimizer=dd.Adam(), epochs=2)
    assert_type(squares, dd.Estimate)
    assert_type(descent, dd.FitResult)
    assert type(squares) is dd.Estimate and type(descent) is dd.FitResult
    squares.save(tmp_path / "fit.json")
    loaded = dd.load(tmp_path / "fit.json")
    assert_type(loaded, dd.Estimate | dd.FitResult | dd.SavedFit)
    whole = dd.load(tmp_path / "fit.json", problem=PROBLEM)
    assert_type(whole, dd.Estimate | dd.FitResult)
    assert type(loaded) is type(whole) is dd.Estimate


def test_without_a_method_it_may_be_either():
    fit = dd.fit(PROBLEM, DATA, epochs=2)
    assert_type(fit, dd.Estimate | dd.FitResult)
    assert type(fit) is dd.FitResult


def test_many_fits_are_of_one_type():
    squares = dd.fit_many(PROBLEM, [DATA, DATA], **NEAR)
    descents = dd.fit_many(PROBLEM, [DATA, DATA], optimizer=dd.Adam(), epochs=2)
    assert_type(squares, dd.FitBatch[dd.Estimate])
    assert_type(descents[0], dd.FitResult)
    assert type(squares[0]) is dd.Estimate and type(descents[1]) is dd.FitResult
    assert squares[0].assessment is None  # many fits have no intervals
    assert "were left out" in str(squares[0])
