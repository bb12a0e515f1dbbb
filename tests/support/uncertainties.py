"""The uncertainty of fits that were never made."""

import numpy as np

import ddefind as dd
from ddefind._inference.covariance import Uncertainty
from ddefind._inference.stability import Stability, stability
from ddefind._problem.general_delays import is_general
from ddefind._search.batches import RefinedFits, SearchResult
from ddefind._search.make_setup import make_setup


def hand_made(problem: dd.Problem, sd: float) -> Uncertainty:
    """The uncertainty of a fit whose estimates are the values of the problem, each with
    the standard error `sd`, and independent."""
    solver = dd.Tsit5() if is_general(problem.tau) else dd.RK4()
    data = dd.Data(np.linspace(0, 10, 40), np.ones((40, 1)), sd=1.0)
    setup, _ = make_setup(problem, data, None, solver, 20)
    theta = np.array(list(dd.parameter_values(problem).values()), float)
    gram = np.diag(np.append(40.0, np.full(len(theta), sd**-2)))
    one = np.ones(1, int)
    best = RefinedFits(
        theta[None], gram[None], np.ones((1, 1)), one, one, one, np.zeros(1), one
    )
    result = SearchResult(
        best, setup.points(), np.ones(1), (), 1, 1, step_error=0.0, interrupted=False
    )
    return Uncertainty(setup, result)


def hand_made_stability(problem: dd.Problem, low: float, high: float) -> Stability:
    """The stability of such a fit of one state, along a path between two values."""
    path = np.linspace(low, high, 50)[:, None]
    return stability(hand_made(problem, 0.01), path, ("x",))
