"""The derivatives of random studies: inputs, doses through delays, counts, limits."""

import pytest
from tests.support.random_studies import STRUCTURES, largest_error

FEW = ("dose", "steps and infusion")


@pytest.mark.parametrize("name", FEW)
@pytest.mark.slow
def test_derivatives_of_studies(name):
    assert max(largest_error(STRUCTURES[name], seed) for seed in range(3)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", STRUCTURES)
def test_derivatives_of_many_studies(name):
    assert max(largest_error(STRUCTURES[name], 100 + s) for s in range(63)) < 1e-6
