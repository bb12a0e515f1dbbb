"""The public names of `ddefind.noise`."""

from ._abstract import AbstractNoise as AbstractNoise
from ._counts import NegativeBinomial as NegativeBinomial, Poisson as Poisson
from ._gaussian import (
    Combined as Combined,
    Gaussian as Gaussian,
    LogNormal as LogNormal,
    Proportional as Proportional,
)
from ._student import Student as Student
