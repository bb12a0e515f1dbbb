"""What all methods of fitting have in common."""

import abc
from typing import Any

import equinox as eqx

from .._results.batch import FitBatch
from .._results.result import AbstractFit
from .request import FitOptions, FitTask, FitTasks


class AbstractMethod(eqx.Module):
    """A way to fit: `LeastSquares`, or an optimiser of gradient descent such as `Adam`.

    A new method needs these three functions; `fit(..., optimizer=...)` calls them."""

    @abc.abstractmethod
    def check(self, options: FitOptions) -> None:
        """Refuse options that the method does not have."""

    @abc.abstractmethod
    def fit(self, task: FitTask, options: FitOptions) -> AbstractFit:
        """One fit, on all cores."""

    @abc.abstractmethod
    def fit_many(self, tasks: FitTasks, options: FitOptions) -> FitBatch[Any]:
        """Many fits of one model, at the same time."""
