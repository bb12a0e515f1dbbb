"""The best fit, not the nearest: scipy's least squares on the same residuals, from the
truth, never finds a better minimum."""

import numpy as np
import pytest

import ddefind as dd
from support.least_squares_problems import scipy_minimum
from support.text_cases import KINDS, random_case


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_no_better_minimum_is_known(name):
    missed = []
    for seed in range(25):
        case = random_case(name, seed)
        fit = dd.fit(case.model, case.data, parameters=case.parameters, progress=False)
        truth = np.array([case.truth[n] for n in fit.names])
        points, n = fit.search_result.points, fit.steps_per_delay
        known = scipy_minimum(fit.setup, points, n, truth, max_nfev=100)
        if fit.search_result.best.loss[0] > 2 * known.cost * (1 + 1e-6):
            missed.append(seed)
    assert not missed
