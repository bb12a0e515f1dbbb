"""The public names of `ddefind.noise`."""

from ._abstract import AbstractNoise as AbstractNoise
from ._counts import NegativeBinomial as NegativeBinomial, Poisson as Poisson
from ._gaussian import (
    Combined as Combined,
    Gaussian as Gaussian,
    Proportional as Proportional,
)
from ._log_normal import LogNormal as LogNormal
from ._student import Student as Student
