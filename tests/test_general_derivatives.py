"""Derivatives of solutions with delays of every kind: forward against reverse, and both
against differences of tight solutions."""

import numpy as np
import pytest

from support.general_problems import KINDS, Structure, measure


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_five_hundred_random_problems(kind, d):
    found = measure(Structure(kind, d), range(24))
    goal = 1e-3 if kind == "state" else 1e-4
    for errors in found:
        assert errors.reverse < 1e-10
        assert errors.derivatives < goal
        assert errors.states < 2e-5
        assert errors.compared > 0.3
    # Few times are near breaking points.
    assert np.mean([errors.compared for errors in found]) > 0.8
