"""The contract of a method of fitting: three functions."""

import abc
from typing import Any

import equinox as eqx

from .._results.batch import FitBatch
from .._results.result import AbstractFit
from .request import FitOptions, FitTask, FitTasks


class AbstractMethod(eqx.Module):
    """A way to fit: `LeastSquares`, `MultipleShooting`, or an optimiser such as `Adam`.

    `fit(..., optimizer=...)` calls its three functions."""

    @abc.abstractmethod
    def check(self, options: FitOptions) -> None:
        """Refuse options that the method does not have."""

    @abc.abstractmethod
    def fit(self, task: FitTask, options: FitOptions) -> AbstractFit:
        """Make one fit, on all cores."""

    @abc.abstractmethod
    def fit_many(self, tasks: FitTasks, options: FitOptions) -> FitBatch[Any]:
        """Make many fits of one model, at the same time."""
