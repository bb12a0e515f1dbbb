"""Priors: what is known about a parameter before the fit.

A prior adds a term to the sum of squares that least squares minimises.
"""

import abc
from dataclasses import dataclass
from math import log
from typing import ClassVar, final


class AbstractPrior(abc.ABC):
    """The base class of priors.

    A prior adds ((g(value) - center) / width)^2 to the sum of squares, whose other
    terms are residuals divided by the standard deviation of the noise. The function g
    is the logarithm if `is_log`, and the identity otherwise."""

    is_log: ClassVar[bool]

    @property
    @abc.abstractmethod
    def center(self) -> float:
        """The mean of g(value)."""

    @property
    @abc.abstractmethod
    def width(self) -> float:
        """The standard deviation of g(value)."""


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise ValueError(f"`{name}` must be positive and finite, but got {value!r}.")


@final
@dataclass(frozen=True)
class Gaussian(AbstractPrior):
    """A Gaussian prior with the given mean and standard deviation `sd`.

    >>> Gaussian(mean=2.0, sd=0.5).width
    0.5
    """

    mean: float
    sd: float
    is_log: ClassVar[bool] = False

    def __post_init__(self):
        _check_positive("sd", self.sd)

    @property
    def center(self) -> float:
        return self.mean

    @property
    def width(self) -> float:
        return self.sd


@final
@dataclass(frozen=True)
class LogNormal(AbstractPrior):
    """A log-normal prior: the logarithm of the parameter has a Gaussian prior.

    With a probability of 68% the parameter lies between `median / factor` and
    `median * factor`.

    >>> round(LogNormal(median=2.0, factor=1.5).width, 4)
    0.4055
    """

    median: float
    factor: float
    is_log: ClassVar[bool] = True

    def __post_init__(self):
        _check_positive("median", self.median)
        if not 1 < self.factor < float("inf"):
            raise ValueError(f"`factor` must be above 1, but got {self.factor!r}.")

    @property
    def center(self) -> float:
        return log(self.median)

    @property
    def width(self) -> float:
        return log(self.factor)
