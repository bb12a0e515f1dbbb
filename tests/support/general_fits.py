"""Small fits with delays that are more than numbers, one of each kind."""

from functools import cache

import numpy as np

import ddefind as dd

from .fits import NEAR, simulated

TIMES = np.linspace(0, 8, 41)
MODELS = {
    "gamma": (
        "x' = r * x * (1 - delay(x, gamma(mean = m, shape = k)) / K)",
        {"r": 1.4, "K": 2.0, "m": 1.0, "k": 2.5, "b": 0.5},
    ),
    "neutral": (
        "x' = r * x * (1 - (x(t - tau) + c * x'(t - tau)) / K)",
        {"r": 1.0, "K": 2.0, "c": 0.4, "tau": 0.8, "b": 0.5},
    ),
    "state": (
        "N' = birth * N(t - a / (1 + N)) / (1 + N^2) - d * N",
        {"birth": 2.0, "a": 2.0, "d": 0.8, "b": 0.3},
    ),
}


def measured(problem, times=TIMES):
    """The solution with 2% of noise."""
    return simulated(problem, times, 0.02, seed=1, relative=True)


@cache
def general_fit(kind):
    """A fit from the true values, with intervals. It is made once for all tests."""
    text, truth = MODELS[kind]
    model = dd.equation(text)
    return dd.fit(model, measured(model.problem(truth)), parameters=truth, **NEAR)
