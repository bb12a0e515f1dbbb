r"""Kernels: the densities of distributed delays.

With a distributed delay, `y` is the mean of the past states under a density g,

$$y(t) = \int_0^\infty g(s)\, x(t - s)\, ds,$$

and for `tau`, `rhs` gets the mean of the density. A kernel is a final class in this
file, exported in `__init__.pyi`. Nothing else is needed: what others have to know of a
kernel they learn from the contract of `AbstractKernel`.
"""

import abc
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from .._util.arrays import as_parameter
from .delays import AbstractDistributedDelay, DelayRole

_MEAN = DelayRole("the mean of a distribution of delays")
_SD = DelayRole("the standard deviation of a distribution of delays", drawn=(0.2, 0.6))
# How many standard deviations the integrals over a distribution reach; those over an
# exponential one reach delays of this many means.
_REACH, _LONGEST = 6.0, 21.0
# The nodes of kernels that may reach far.
_MANY = 48, 32
# A density that falls more slowly than any exponential forgets the past at no rate. To
# the right of this number divided by its memory, its transform depends on where the
# density is cut off by less than e^15 * 2e-9, less than 1%.
_HEAVY = 15.0


class AbstractTerm(abc.ABC):
    """A delayed term of a linear equation, with numbers of Python."""

    @property
    @abc.abstractmethod
    def memory(self) -> float:
        """How far back the term reads: it has (almost) no weight on what is earlier."""

    @property
    @abc.abstractmethod
    def rate(self) -> float:
        """The rate at which the term forgets the past: g(s) falls as e^(-rate s)."""

    @property
    @abc.abstractmethod
    def stages(self) -> int:
        """The number of equations without delay that the term amounts to, or 0."""

    @abc.abstractmethod
    def transform(self, root: complex) -> tuple[complex, complex]:
        """Compute what the term makes of e^(root t), and its derivative for the root:
        the Laplace transform of a density g."""

    @abc.abstractmethod
    def bound(self, sigma: float, height: float) -> float:
        """Bound |transform| where the real part is at least `sigma` and the imaginary
        part at least `height` (for a slope, |transform / root|)."""

    @abc.abstractmethod
    def quadrature(self) -> tuple[np.ndarray, np.ndarray]:
        """Return delays and weights that approximate the term by a weighted mean."""


class AbstractKernel(AbstractDistributedDelay, AbstractTerm):
    r"""A density of delays with two numbers, its fields.

    In texts it is called `word`, and its numbers have the names and parts in `numbers`;
    `shows_names` says whether they are printed. `latex` is the mean of the past, with
    `#name` for a number and `(#name)` for one in parentheses where it needs them. Its
    `rule` says which numbers are possible.

    Integrals over the delays s substitute s = `delay(w)`, so that w has a smooth
    density and lies within `span`, but for a share of less than 1e-8 of all delays; the
    rest is scaled up to make 1. The mean is a sum over `nodes`, so many on the solution
    and so many on the history. If there are none, g is constant within `span`, w = s,
    and the mean is a difference of two values of the integral of x."""

    word: eqx.AbstractClassVar[str]
    numbers: eqx.AbstractClassVar[Mapping[str, DelayRole]]
    shows_names: eqx.AbstractClassVar[bool]
    rule: eqx.AbstractClassVar[str]
    latex: eqx.AbstractClassVar[str]
    nodes: eqx.AbstractClassVar[tuple[int, int] | None]
    mean: eqx.AbstractVar[Any]

    def __check_init__(self):
        self.check()

    @property
    @abc.abstractmethod
    def is_impossible(self) -> Any:
        """Whether the numbers, where they are known, are impossible."""

    @property
    def kernel(self):
        return type(self)

    def __call__(self):
        return self

    @classmethod
    def of(cls, numbers: Any) -> Self:
        """Return the kernel with two numbers, even if these are impossible."""
        kernel = object.__new__(cls)
        for name, number in zip(cls.numbers, numbers):
            object.__setattr__(kernel, name, number)
        return kernel

    def describe(self):
        values = [f"{name} = {float(getattr(self, name)):g}" for name in self.numbers]
        return f"`{type(self).__name__}` ({', '.join(values)})"

    def roles(self):
        return self.numbers

    @classmethod
    def signature(cls) -> str:
        """Return the kernel with the names of its numbers."""
        return f"{cls.word}({', '.join(cls.numbers)})"

    @classmethod
    def text(cls, numbers: Any) -> str:
        """Return the kernel with the texts of its `numbers`, as equations have it."""
        if cls.shows_names:
            numbers = [f"{name} = {text}" for name, text in zip(cls.numbers, numbers)]
        return f"{cls.word}({', '.join(numbers)})"

    @abc.abstractmethod
    def span(self) -> tuple[Any, Any]:
        """Return the ends of w."""

    @abc.abstractmethod
    def delay(self, w: Any) -> Any:
        """Return the delay s that belongs to w, an increasing function."""

    @abc.abstractmethod
    def place(self, s: Any) -> Any:
        """Return the w that belongs to a delay s > 0."""

    @abc.abstractmethod
    def log_density(self, w: Any) -> Any:
        """Return the logarithm of the density of w, up to a constant."""

    @abc.abstractmethod
    def share(self, s: Any) -> Any:
        """Return the share of the delays that are at most s > 0."""

    def quadrature(self, count: int = 120) -> tuple[Any, Any]:
        u, widths = np.polynomial.legendre.leggauss(count)
        low, high = self.span()
        w = low + (high - low) * (1 + u) / 2
        weights = widths * jnp.exp(self.log_density(w))
        return self.delay(w), weights / jnp.sum(weights)

    @property
    def memory(self):
        return float(self.delay(self.span()[1]))


@final
class GammaDelay(AbstractKernel):
    r"""Delays with a gamma distribution of the given mean m and shape k,

    $$g(s) = \frac{b^k s^{k-1}}{\Gamma(k)} e^{-b s}, \qquad b = k / m,\ k \ge 1.$$

    The shape is any real number from 1 on: with 1 the distribution is exponential, and
    its standard deviation is always mean / sqrt(shape). The right-hand side gets the
    mean of the past states under this distribution for `y`.

    >>> import ddefind as dd
    >>> tau = dd.GammaDelay(mean=2.0, shape=2.7)
    >>> dd.Problem(lambda x, y, tau, t: -y, dd.Constant(0.5), tau).dimension
    1
    """

    # With s = m w^3, w is nearly Gaussian for every shape from 1 on, with the mean 1 -
    # 1 / (9 k) and the standard deviation 1 / (3 sqrt(k)) (Wilson and Hilferty).

    mean: jax.Array = eqx.field(converter=as_parameter)
    shape: jax.Array = eqx.field(converter=as_parameter)
    word: ClassVar[str] = "gamma"
    numbers: ClassVar[Mapping[str, DelayRole]] = {
        "mean": _MEAN,
        # A larger shape is hardly different from a single delay.
        "shape": DelayRole("the shape of a gamma distribution", (1.0, 50.0), (1, 3)),
    }
    shows_names: ClassVar[bool] = True
    rule: ClassVar[str] = (
        "A gamma distribution of delays needs a positive mean and a shape of at least 1"
    )
    latex: ClassVar[str] = (
        r"\int_{0}^{\infty} \mathrm{Gamma}\left(s; #mean, #shape\right) \, #past"
    )
    nodes: ClassVar[tuple[int, int] | None] = 20, 16

    @property
    def sd(self):
        return self.mean / jnp.sqrt(self.shape)

    @property
    def is_impossible(self):
        return (self.mean <= 0) | (self.shape < 1)

    @property
    def rate(self):
        return self.shape / self.mean

    @property
    def stages(self):
        return int(self.shape) if self.shape == int(self.shape) else 0

    def span(self):
        center, sd = 1 - 1 / (9 * self.shape), 1 / (3 * jnp.sqrt(self.shape))
        return jnp.maximum(center - _REACH * sd, 1e-30), center + _REACH * sd

    def delay(self, w):
        return self.mean * w**3

    def place(self, s):
        return jnp.cbrt(s / self.mean)

    def log_density(self, w):
        return (3 * self.shape - 1) * jnp.log(w) - self.shape * (w**3 - 1)

    def share(self, s):
        return special.gammainc(self.shape, s * self.shape / self.mean)

    def transform(self, root):
        ratio = self.rate / (root + self.rate) if root != -self.rate else np.inf
        value = ratio**self.shape
        return value, -self.shape * ratio / self.rate * value

    def bound(self, sigma, height):
        distance = np.hypot(max(sigma + self.rate, 0.0), height)
        with np.errstate(divide="ignore"):
            return float((self.rate / np.float64(distance)) ** self.shape)


@final
class UniformDelay(AbstractKernel):
    """Delays that are equally frequent between `low` and `high`.

    >>> import ddefind as dd
    >>> tau = dd.UniformDelay(low=0.5, high=2.0)
    >>> dd.Problem(lambda x, y, tau, t: -y, dd.Constant(0.5), tau).dimension
    1
    """

    low: jax.Array = eqx.field(converter=as_parameter)
    high: jax.Array = eqx.field(converter=as_parameter)
    word: ClassVar[str] = "uniform"
    numbers: ClassVar[Mapping[str, DelayRole]] = {
        "low": DelayRole(
            "the shortest of the delays", drawn=(0, 0.5), may_be_zero=True
        ),
        "high": DelayRole("the longest of the delays"),
    }
    shows_names: ClassVar[bool] = False
    rule: ClassVar[str] = "A uniform distribution of delays needs 0 <= low < high"
    latex: ClassVar[str] = r"\frac{1}{#high - (#low)} \int_{#low}^{#high} #past"
    nodes: ClassVar[tuple[int, int] | None] = None
    rate: ClassVar[float] = np.inf
    stages: ClassVar[int] = 0

    def __init__(self, low: Any, high: Any):
        self.low, self.high = low, high

    @property
    def mean(self):
        return (self.low + self.high) / 2

    @property
    def sd(self):
        return (self.high - self.low) / np.sqrt(12)

    @property
    def is_impossible(self):
        return (self.low < 0) | (self.high <= 0) | (self.high <= self.low)

    def span(self):
        return self.low, self.high

    def delay(self, w):
        return w

    def place(self, s):
        return s

    def log_density(self, w):
        return jnp.zeros_like(w)

    def share(self, s):
        return jnp.clip((s - self.low) / (self.high - self.low), 0.0, 1.0)

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


@final
class LogNormalDelay(AbstractKernel):
    r"""Delays with a lognormal distribution of the given mean m and standard deviation,

    $$g(s) = \frac{1}{\sqrt{2 \pi}\,\sigma s}\,
      e^{-(\log(s / m) + \sigma^2 / 2)^2 / (2 \sigma^2)}, \qquad
      \sigma^2 = \log(1 + \mathrm{sd}^2 / m^2).$$

    The standard deviation is at most twice the mean. A share of 2e-9 of the delays, the
    shortest and the longest ones, is cut off, and the rest is scaled up.

    >>> import ddefind as dd
    >>> dd.equation("x' = -delay(x, lognormal(mean = 2, sd = 1))").problem(b=0.5).tau
    {'lognormal(mean = 2, sd = 1)': TextKernel()}
    """

    mean: jax.Array = eqx.field(converter=as_parameter)
    sd: jax.Array = eqx.field(converter=as_parameter)
    word: ClassVar[str] = "lognormal"
    numbers: ClassVar[Mapping[str, DelayRole]] = {"mean": _MEAN, "sd": _SD}
    shows_names: ClassVar[bool] = True
    rule: ClassVar[str] = (
        "A lognormal distribution of delays needs a positive mean, and a positive "
        "standard deviation of at most twice the mean"
    )
    latex: ClassVar[str] = (
        r"\int_{0}^{\infty} \mathrm{LogNormal}\left(s; #mean, #sd\right) \, #past"
    )
    nodes: ClassVar[tuple[int, int] | None] = _MANY
    stages: ClassVar[int] = 0

    @property
    def is_impossible(self):
        return (self.mean <= 0) | (self.sd <= 0) | (self.sd > 2 * self.mean)

    @property
    def rate(self):
        return _HEAVY / self.memory

    @property
    def _sigma(self):
        return jnp.sqrt(jnp.log1p((self.sd / self.mean) ** 2))

    def span(self):
        return -_REACH, _REACH

    def delay(self, w):
        return self.mean * jnp.exp(self._sigma * (w - self._sigma / 2))

    def place(self, s):
        return jnp.log(s / self.mean) / self._sigma + self._sigma / 2

    def log_density(self, w):
        return -(w**2) / 2

    def share(self, s):
        return special.ndtr(self.place(s))

    def transform(self, root):
        return _laplace(self, root, _REACH)

    def bound(self, sigma, height):
        return abs(self.transform(max(sigma, -self.rate))[0])


@final
class WeibullDelay(AbstractKernel):
    r"""Delays with a Weibull distribution of the given mean m and shape k,

    $$g(s) = \frac{k}{a} \Bigl(\frac{s}{a}\Bigr)^{k-1} e^{-(s / a)^k}, \qquad
      a = \frac{m}{\Gamma(1 + 1 / k)},\ k \ge 0.5.$$

    With a shape below 1 the density is infinite at 0. A share of 8e-10 of the delays,
    the longest ones, is cut off, and the rest is scaled up.

    >>> import ddefind as dd
    >>> round(float(dd.WeibullDelay(mean=2.0, shape=0.5).sd), 4)
    4.4721
    """

    # With s = a w^(3 / k), w^3 is exponential and w nearly Gaussian.

    mean: jax.Array = eqx.field(converter=as_parameter)
    shape: jax.Array = eqx.field(converter=as_parameter)
    word: ClassVar[str] = "weibull"
    numbers: ClassVar[Mapping[str, DelayRole]] = {
        "mean": _MEAN,
        "shape": DelayRole("the shape of a Weibull distribution", (0.5, 20.0), (1, 3)),
    }
    shows_names: ClassVar[bool] = True
    rule: ClassVar[str] = (
        "A Weibull distribution of delays needs a positive mean and a shape of at "
        "least 0.5"
    )
    latex: ClassVar[str] = (
        r"\int_{0}^{\infty} \mathrm{Weibull}\left(s; #mean, #shape\right) \, #past"
    )
    nodes: ClassVar[tuple[int, int] | None] = _MANY
    stages: ClassVar[int] = 0

    @property
    def sd(self):
        first, second = (special.gammaln(1 + n / self.shape) for n in (1, 2))
        return self.mean * jnp.sqrt(jnp.expm1(second - 2 * first))

    @property
    def is_impossible(self):
        return (self.mean <= 0) | (self.shape < 0.5)

    @property
    def rate(self):
        return np.inf if self.shape > 1 else _HEAVY / self.memory

    @property
    def _scale(self):
        return self.mean * jnp.exp(-special.gammaln(1 + 1 / self.shape))

    def span(self):
        return 1e-30, _LONGEST ** (1 / 3)

    def delay(self, w):
        return self._scale * w ** (3 / self.shape)

    def place(self, s):
        return (s / self._scale) ** (self.shape / 3)

    def log_density(self, w):
        return 2 * jnp.log(w) - w**3

    def share(self, s):
        return -jnp.expm1(-((s / self._scale) ** self.shape))

    def transform(self, root):
        # To the left, longer delays count as well, if the density falls fast enough.
        top, growth = _LONGEST, max(-np.real(root), 0.0) * float(self._scale)
        while self.shape > 1 and top - growth * top ** (1 / self.shape) < _LONGEST:
            top *= 1.5
        return _laplace(self, root, top ** (1 / 3))

    def bound(self, sigma, height):
        return abs(self.transform(max(sigma, -self.rate))[0])


@final
class InverseGaussianDelay(AbstractKernel):
    r"""Delays with an inverse Gaussian distribution of the given mean m and standard
    deviation, as of the first time at which a drifting particle has gone some way,

    $$g(s) = \sqrt{\frac{m \varphi}{2 \pi s^3}}\, e^{-\varphi (s - m)^2 / (2 m s)},
      \qquad \varphi = m^2 / \mathrm{sd}^2.$$

    The standard deviation is at most twice the mean. A share of 2e-9 of the delays, the
    shortest and the longest ones, is cut off, and the rest is scaled up.

    >>> import ddefind as dd
    >>> round(float(dd.InverseGaussianDelay(mean=2.0, sd=1.0).share(2.0)), 4)
    0.5944
    """

    # With u = log(s / m) and w = 2 sqrt(phi) sinh(u / 2), the density of w is that of a
    # Gaussian variable times 2 / (1 + e^u).

    mean: jax.Array = eqx.field(converter=as_parameter)
    sd: jax.Array = eqx.field(converter=as_parameter)
    word: ClassVar[str] = "inverse_gaussian"
    numbers: ClassVar[Mapping[str, DelayRole]] = {"mean": _MEAN, "sd": _SD}
    shows_names: ClassVar[bool] = True
    rule: ClassVar[str] = (
        "An inverse Gaussian distribution of delays needs a positive mean, and a "
        "positive standard deviation of at most twice the mean"
    )
    latex: ClassVar[str] = (
        r"\int_{0}^{\infty} \mathrm{InverseGaussian}\left(s; #mean, #sd\right) \, #past"
    )
    nodes: ClassVar[tuple[int, int] | None] = _MANY
    stages: ClassVar[int] = 0

    @property
    def is_impossible(self):
        return (self.mean <= 0) | (self.sd <= 0) | (self.sd > 2 * self.mean)

    @property
    def rate(self):
        return self.mean / (2 * self.sd**2)

    def span(self):
        return -_REACH, _REACH

    def delay(self, w):
        return self.mean * jnp.exp(self._log(w))

    def _log(self, w):
        return 2 * jnp.arcsinh(w * self.sd / (2 * self.mean))

    def place(self, s):
        return 2 * self.mean / self.sd * jnp.sinh(jnp.log(s / self.mean) / 2)

    def log_density(self, w):
        return -(w**2) / 2 - jnp.logaddexp(0.0, self._log(w))

    def share(self, s):
        w, phi = self.place(s), (self.mean / self.sd) ** 2
        rest = jnp.exp(2 * phi + special.log_ndtr(-jnp.sqrt(w**2 + 4 * phi)))
        return special.ndtr(w) + rest

    def transform(self, root):
        phi, bend = (self.mean / self.sd) ** 2, np.sqrt(1 + complex(root) / self.rate)
        value = np.exp(phi * (1 - bend))
        with np.errstate(divide="ignore", invalid="ignore"):
            return value, -self.mean * value / bend

    def bound(self, sigma, height):
        return abs(self.transform(complex(max(sigma, -self.rate), height))[0])


def _laplace(kernel: AbstractKernel, root: complex, top: float) -> tuple[Any, Any]:
    """Compute a Laplace transform and its derivative by quadrature, for w up to `top`:
    in as many parts as the integrand oscillates."""
    turns = abs(np.imag(root)) * float(kernel.delay(top)) / 20
    parts = 2 ** int(np.ceil(np.log2(np.clip(turns, 2.0, 256.0))))
    delays, weights = _in_parts(kernel, top, parts)
    terms = weights * np.exp(-root * delays)
    return terms.sum(), -(delays @ terms)


@lru_cache(maxsize=64)
def _in_parts(
    kernel: AbstractKernel, top: float, parts: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return delays and weights of Gauss's rule in equal parts of w up to `top`."""
    u, widths = np.polynomial.legendre.leggauss(32)
    ends = np.linspace(kernel.span()[0], top, parts + 1)
    w = (ends[:-1, None] + np.diff(ends)[:, None] * (1 + u) / 2).ravel()
    weights = np.tile(widths, parts) * np.exp(np.asarray(kernel.log_density(w)))
    return np.asarray(kernel.delay(w)), weights / weights.sum()


# The kernels by the words for them in texts.
KERNELS = {kernel.word: kernel for kernel in AbstractKernel.__subclasses__()}
