"""What `fit`, `fit_many` and `load` return is what type checkers see: pyright checks
each `assert_type`, and the tests the results."""

from typing import assert_type

import numpy as np

import ddefind as dd

T = np.linspace(0, 4, 30)
DATA = dd.Data(T, np.cos(T))
MODEL = dd.equation("x' = -k * x(t - tau)")
PROBLEM = dd.Problem(dd.models.Exponential(0.1, -1.0), dd.Constant(1.0), tau=1.5)
NEAR = dd.LeastSquares(starts=1)


def test_an_equation_is_fitted_by_least_squares():
    fit = dd.fit(MODEL, DATA, intervals=False)
    assert_type(fit, dd.Estimate)
    assert type(fit) is dd.Estimate


def test_the_method_decides(tmp_path):
    squares = dd.fit(PROBLEM, DATA, optimizer=NEAR, intervals=False)
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
    squares = dd.fit_many(PROBLEM, [DATA, DATA], optimizer=NEAR)
    descents = dd.fit_many(PROBLEM, [DATA, DATA], optimizer=dd.Adam(), epochs=2)
    assert_type(squares, dd.FitBatch[dd.Estimate])
    assert_type(descents[0], dd.FitResult)
    assert type(squares[0]) is dd.Estimate and type(descents[1]) is dd.FitResult
    assert squares[0].assessment is None  # many fits have no intervals
    assert "were left out" in str(squares[0])
