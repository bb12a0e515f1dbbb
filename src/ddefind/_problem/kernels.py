r"""Kernels: the densities of distributed delays.

With a distributed delay, `y` is the mean of the past states under a density g,

$$y(t) = \int_0^\infty g(s)\, x(t - s)\, ds,$$

and for `tau`, `rhs` gets the mean of the density. A kernel is a final class in this
file, exported in `__init__.pyi`. Nothing else is needed: what others have to know of a
kernel they learn from the contract of `AbstractKernel`.
"""

import abc
from collections.abc import Mapping
from typing import Any, ClassVar, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from .._util.arrays import as_parameter
from .delays import AbstractDistributedDelay, DelayRole

_MEAN = DelayRole("the mean of a distribution of delays")
# How many standard deviations the integrals over a distribution reach.
_REACH = 6.0


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
    # The mean and the standard deviation of the delays.
    mean: eqx.AbstractVar[Any]
    sd: eqx.AbstractVar[Any]
    # Where the numbers are known: whether they are impossible.
    is_impossible: eqx.AbstractVar[Any]

    def __check_init__(self):
        self.check()

    @property
    def kernel(self):
        return type(self)

    def __call__(self):
        return self

    @classmethod
    def of(cls, numbers: Any) -> Self:
        """Return the kernel with two numbers, even if these are impossible."""
        return jax.tree.unflatten(jax.tree.structure(cls(np.nan, np.nan)), [*numbers])

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
        """Return the share of the delays that are at most s."""

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
        safe = jnp.where(s > 0, s, 1.0)
        share = special.gammainc(self.shape, safe * self.shape / self.mean)
        return jnp.where(s > 0, share, 0.0)

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


# The kernels by the words for them in texts.
KERNELS = {kernel.word: kernel for kernel in AbstractKernel.__subclasses__()}
