"""Derivatives of solutions with delays of every kind: forward against reverse, and both
against differences of tight solutions."""

import numpy as np
import pytest

from support.general_problems import KINDS, Structure, measure

_USUAL = {("gamma", 1), ("state", 1)}


def check(kind, found):
    goal = 1e-3 if kind == "state" else 1e-4
    for errors in found:
        assert errors.reverse < 1e-10
        assert errors.derivatives < goal
        assert errors.states < 2e-5
        assert errors.compared > 0.3
    # Few times are near breaking points.
    assert np.mean([errors.compared for errors in found]) > 0.8


@pytest.mark.parametrize(("kind", "d"), sorted(_USUAL))
@pytest.mark.slow
def test_derivatives_of_random_problems(kind, d):
    check(kind, measure(Structure(kind, d), range(4)))


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_five_hundred_random_problems(kind, d):
    check(kind, measure(Structure(kind, d), range(24)))
