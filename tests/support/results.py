"""Results of fits, checked to be of the kind that a test means."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import ddefind as dd


def as_estimate(result: object) -> dd.Estimate:
    """The result of a fit that must have been one by least squares."""
    assert isinstance(result, dd.Estimate)
    return result


def as_descent(result: object) -> dd.FitResult:
    """The result of a fit that must have been one by gradient descent."""
    assert isinstance(result, dd.FitResult)
    return result


def load_estimate(path: str | Path) -> dd.Estimate:
    """A saved fit by least squares."""
    return as_estimate(dd.load(path))


def path_of(fit: dd.FitResult) -> np.ndarray:
    """The parameters after each epoch `[epochs + 1, p]`."""
    assert fit.path is not None
    return fit.path


def at_minimum(fit: dd.Estimate, **changes: Any) -> dd.Estimate:
    """The same fit, as if its search had found something else."""
    minimum = replace(fit.search_result, **changes)
    return replace(fit, uncertainty=replace(fit.uncertainty, search_result=minimum))


def in_no_time(fit: dd.Estimate) -> dd.Estimate:
    """The same fit, without the time that it took."""
    return replace(fit, origin=fit.origin._replace(seconds=0.0))
