"""What tests of fits share: records, options, and results of the kind that is meant."""

from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

import ddefind as dd

# Options of different types in one dictionary.
Options = dict[str, Any]


class Near(TypedDict):
    optimizer: dd.LeastSquares


# A search from the start values alone, for fits that begin near the best one.
NEAR: Near = {"optimizer": dd.LeastSquares(starts=1)}


def unchecked(value: object) -> Any:
    """The value itself, hidden from the type checker: for calls that the package must
    refuse, and for libraries whose stubs say less than they accept."""
    return value


def simulated(problem, t, noise=0.0, seed: Any = 0, relative=False, **fields):
    """The solution of a problem at some times, with normal noise of this size, or of so
    many times its spread."""
    x = np.asarray(dd.solve(problem, float(t[-1]))(t))
    noise = noise * np.std(x) if relative else noise
    random = np.random.default_rng(seed).normal(size=x.shape)
    return dd.Data(t, x + noise * random, **fields)


def equal_data(data, t, x, names=("x",)):
    """Check what a data set holds; a vector `x` is one quantity."""
    np.testing.assert_array_equal(data.t, t)
    x = np.asarray(x, float)
    np.testing.assert_array_equal(data.x, x[:, None] if x.ndim == 1 else x)
    assert data.names == tuple(names)


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


def reloaded(fit: Any, folder: Path, kind: type = dd.Estimate, **options: Any) -> Any:
    """The fit as it comes back from a file in this folder."""
    fit.save(folder / "fit.json")
    found = dd.load(folder / "fit.json", **options)
    assert type(found) is kind
    return found


def at_minimum(fit: dd.Estimate, **changes: Any) -> dd.Estimate:
    """The same fit, as if its search had found something else."""
    minimum = replace(fit.search_result, **changes)
    return replace(fit, uncertainty=replace(fit.uncertainty, search_result=minimum))


def in_no_time(fit: dd.Estimate) -> dd.Estimate:
    """The same fit, without the time that it took."""
    return replace(fit, origin=fit.origin._replace(seconds=0.0))
