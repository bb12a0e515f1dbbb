"""Results of fits, checked to be of the kind that a test means."""

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


def reloaded(fit: Any, folder: Path, kind: type = dd.Estimate, **options: Any) -> Any:
    """The fit as it comes back from a file in this folder."""
    fit.save(folder / "fit.json")
    found = dd.load(folder / "fit.json", **options)
    assert type(found) is kind
    return found
