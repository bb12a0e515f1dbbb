"""What a method of fitting is. A new one is a class with these three functions."""

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
        """Make one fit, on all cores."""

    @abc.abstractmethod
    def fit_many(self, tasks: FitTasks, options: FitOptions) -> FitBatch[Any]:
        """Make many fits of one model, at the same time."""
