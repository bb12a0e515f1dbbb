"""Records that a fit has not seen, continued from their beginnings."""

from dataclasses import replace

import numpy as np
import pytest

import ddefind as dd
from support.fits import simulated

MODEL = dd.equation("x' = -k * x(t - tau)")
TIMES = np.linspace(0.0, 6.0, 31)


def _record(b: float, count: int = 31) -> dd.Data:
    return simulated(MODEL.problem(k=1.2, tau=1.0, b=b), TIMES[:count], names=["x"])


@pytest.fixture(scope="module")
def learned() -> dd.Estimate:
    study = [dd.Experiment(_record(b), label=f"{b}") for b in (1.0, 1.5)]
    return dd.fit(MODEL, study, optimizer=dd.LeastSquares(starts=4), intervals=False)


def test_a_new_record_goes_on_as_the_system_does(learned):
    new = dd.continue_from(learned, _record(3.0, 12), intervals=False)
    assert new.names == ("b",)
    assert new.values["b"] == pytest.approx(3.0, abs=1e-4)
    np.testing.assert_allclose(new.predict(TIMES).mean, _record(3.0).x, atol=1e-3)


def test_many_records_are_continued_side_by_side(learned):
    beginnings = [_record(b, 12) for b in (0.5, 2.0)]
    found = dd.continue_from(learned, beginnings)
    np.testing.assert_allclose(found.best[:, 0], [0.5, 2.0], atol=1e-4)


def test_what_is_no_fit_is_refused():
    with pytest.raises(TypeError, match=r"`fit` must be"):
        dd.continue_from(MODEL, _record(1.0))  # type: ignore


def test_an_equation_with_inputs_is_refused(learned):
    """The inputs of the fit are not those of the new record."""
    driven = dd.equation("x' = u - k * x(t - tau)", inputs=("u",))
    with pytest.raises(ValueError, match="has inputs"):
        dd.continue_from(replace(learned, model=driven), _record(2.0))
