"""What is known of a parameter before the data: a term of the sum of squares."""

import abc
from dataclasses import dataclass
from math import log
from typing import ClassVar, final


class AbstractPrior(abc.ABC):
    """(g(value) - center)^2 / sd^2 is added to the sum of squares, in units of the
    noise; g is the logarithm where `is_log`."""

    is_log: ClassVar[bool]

    @property
    @abc.abstractmethod
    def center(self) -> float: ...

    @property
    @abc.abstractmethod
    def width(self) -> float: ...


def _check(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise ValueError(f"`{name}` must be positive and finite, but got {value!r}.")


@final
@dataclass(frozen=True)
class Gaussian(AbstractPrior):
    """A Gaussian prior.

    >>> Gaussian(mean=2.0, sd=0.5).width
    0.5
    """

    mean: float
    sd: float
    is_log: ClassVar[bool] = False

    def __post_init__(self):
        _check("sd", self.sd)

    @property
    def center(self) -> float:
        return self.mean

    @property
    def width(self) -> float:
        return self.sd


@final
@dataclass(frozen=True)
class LogNormal(AbstractPrior):
    """A Gaussian prior of the logarithm: `median`, within a factor `factor` with 68%.

    >>> round(LogNormal(median=2.0, factor=1.5).width, 4)
    0.4055
    """

    median: float
    factor: float
    is_log: ClassVar[bool] = True

    def __post_init__(self):
        _check("median", self.median)
        if not 1 < self.factor < float("inf"):
            raise ValueError(f"`factor` must be above 1, but got {self.factor!r}.")

    @property
    def center(self) -> float:
        return log(self.median)

    @property
    def width(self) -> float:
        return log(self.factor)
