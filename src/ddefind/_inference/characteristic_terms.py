r"""The delayed terms of a linear delay equation, as functions of a characteristic root.

A solution $e^{\lambda t} v$ turns each delayed term into $B\,g(\lambda)\,v\,e^{\lambda
t}$, with a matrix B and

- $g(\lambda) = e^{-\lambda\tau}$ for the state one delay ago, $x(t - \tau)$;
- $g(\lambda) = \lambda e^{-\lambda\tau}$ for its slope, $x'(t - \tau)$;
- $g(\lambda) = \bigl(b / (\lambda + b)\bigr)^k$ for a gamma distribution of delays with
  the mean m, the shape k and $b = k / m$;
- $g(\lambda) = (e^{-\lambda\,low} - e^{-\lambda\,high}) / (\lambda\,(high - low))$ for
  a uniform one.
"""

import abc
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import special

# A gamma distribution is cut off where this share of it is left.
_TAIL = 1e-9
# The number of places at which a distribution is integrated.
_PLACES = 120


class AbstractTerm(abc.ABC):
    """A delayed term, without its matrix."""

    @property
    @abc.abstractmethod
    def memory(self) -> float:
        """How far back the term reads: it has (almost) no weight on what is earlier."""

    @abc.abstractmethod
    def transform(self, root: complex) -> tuple[complex, complex]:
        """g at a root, and its derivative there."""

    @abc.abstractmethod
    def bound(self, sigma: float, height: float) -> float:
        """A bound on |g| where the real part is at least `sigma` and the imaginary part
        at least `height` (for a slope, on |g / root|)."""

    @abc.abstractmethod
    def quadrature(self) -> tuple[np.ndarray, np.ndarray]:
        """Delays and weights whose weighted mean of the past is about the term's."""


@dataclass(frozen=True)
class AbstractPointTerm(AbstractTerm):
    """What is read of the past one delay ago."""

    tau: float

    @property
    def memory(self):
        return self.tau

    def bound(self, sigma, height):
        return float(np.exp(-sigma * self.tau))

    def quadrature(self):
        return np.array([self.tau]), np.ones(1)


@final
@dataclass(frozen=True)
class StateTerm(AbstractPointTerm):
    """The state one delay ago."""

    def transform(self, root):
        value = np.exp(-root * self.tau)
        return value, -self.tau * value


@final
@dataclass(frozen=True)
class SlopeTerm(AbstractPointTerm):
    """The slope of the state one delay ago."""

    def transform(self, root):
        value = np.exp(-root * self.tau)
        return root * value, (1 - root * self.tau) * value


@final
@dataclass(frozen=True)
class GammaTerm(AbstractTerm):
    """The mean of the past under a gamma distribution."""

    mean: float
    shape: float

    @property
    def rate(self) -> float:
        """b. No disturbance of the past is forgotten faster than at this rate."""
        return self.shape / self.mean

    @property
    def memory(self):
        return float(special.gammainccinv(self.shape, _TAIL)) / self.rate

    def transform(self, root):
        ratio = self.rate / (root + self.rate) if root != -self.rate else np.inf
        value = ratio**self.shape
        return value, -self.shape * ratio / self.rate * value

    def bound(self, sigma, height):
        distance = np.hypot(max(sigma + self.rate, 0.0), height)
        with np.errstate(divide="ignore"):
            return float((self.rate / np.float64(distance)) ** self.shape)

    def quadrature(self):
        delays, weights = _gauss(0.0, self.memory)
        k, s = self.shape, self.rate * delays
        density = self.rate * np.exp((k - 1) * np.log(s) - s - special.gammaln(k))
        return delays, weights * density


@final
@dataclass(frozen=True)
class UniformTerm(AbstractTerm):
    """The mean of the past between two delays."""

    low: float
    high: float

    @property
    def memory(self):
        return self.high

    def transform(self, root):
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        z, decay = root * half, np.exp(-root * middle)
        if abs(z) < 1e-3:
            sinch, slope = 1 + z**2 / 6 + z**4 / 120, z / 3 + z**3 / 30
        else:
            sinch = np.sinh(z) / z
            slope = (np.cosh(z) - sinch) / z
        return decay * sinch, decay * (half * slope - middle * sinch)

    def bound(self, sigma, height):
        return abs(self.transform(sigma)[0])

    def quadrature(self):
        delays, weights = _gauss(self.low, self.high)
        return delays, weights / (self.high - self.low)


def _gauss(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """The places and weights of Gauss's rule between two ends."""
    places, weights = np.polynomial.legendre.leggauss(_PLACES)
    half = (high - low) / 2
    return low + half * (1 + places), half * weights
