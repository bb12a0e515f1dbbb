r"""The base class of noise models, and what they share.

A noise model is a family of distributions of a measured value y, given the prediction f
and the parameters $\eta$ of the noise. A fit minimises the *deviance*: minus twice the
logarithm of the density of y on the scale of the data, with all constants; or of the
probability of y, where y is a count or is only known to be below a limit.

The Fisher information of $v = (f, \eta)$ is $I = E[s s^T]$ with the score $s = \partial
\log p / \partial v$. It is half of the expected second derivative of the deviance."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._util.arrays import as_parameter


class Terms(NamedTuple):
    """The contribution of one measured value: its deviance, the derivatives of the
    deviance for f and the parameters of the noise, and the Fisher information about
    these."""

    deviance: Any
    slope: Any  # [1 + m]
    information: Any  # [1 + m, 1 + m]


class AbstractNoise(eqx.Module):
    """The base class of noise models.

    `names` are the fields that are its parameters, `word` is its name for users, and
    `title` its name in sentences. `is_positive` says that predictions must be positive,
    `is_count` that values are counts, and `has_outliers` that some are far off, so that
    a search has to be robust. The public classes are the kinds that a user can name.

    Functions of (f, eta) take the prediction and a vector of the m parameters. Those
    for a fit work with JAX, and with one f at a time; the others with NumPy, and with
    arrays."""

    names: ClassVar[tuple[str, ...]]
    word: ClassVar[str]
    title: ClassVar[str]
    is_positive: ClassVar[bool]
    is_count: ClassVar[bool]
    has_outliers: ClassVar[bool] = False

    @abc.abstractmethod
    def deviance(self, f: Any, eta: Any, y: Any) -> Any:
        """Return minus twice the logarithm of the density of y."""

    @abc.abstractmethod
    def deviance_below(self, f: Any, eta: Any, limit: Any, most: int) -> Any:
        """Return minus twice the logarithm of the probability of a value below `limit`.
        No limit of a count is above `most`."""

    @abc.abstractmethod
    def information(self, f: Any, eta: Any) -> Any:
        """Return the Fisher information about (f, eta), of shape (1 + m, 1 + m)."""

    @abc.abstractmethod
    def information_below(self, f: Any, eta: Any, limit: Any, most: int) -> Any:
        """Return the information of a value that is only known to be below `limit`, by
        an approximation that is never negative."""

    @abc.abstractmethod
    def size(self, f: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Return the standard deviation of the noise; for Student's noise half the
        width of the interval that holds 68% of the values."""

    @abc.abstractmethod
    def cdf(self, f: np.ndarray, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the probability of a value of at most y."""

    @abc.abstractmethod
    def quantile(self, f: np.ndarray, eta: np.ndarray, p: float) -> np.ndarray:
        """Return the value that is exceeded with the probability 1 - p."""

    @abc.abstractmethod
    def draw(
        self, f: np.ndarray, eta: np.ndarray, random: np.random.Generator
    ) -> np.ndarray:
        """Draw simulated values, one for each f."""

    @abc.abstractmethod
    def bounds(self, scale: float) -> list[tuple[float, float]]:
        """Return the bounds of each parameter, for data of the size `scale`."""

    @abc.abstractmethod
    def start(self, f: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """Return the parameters to begin with, given a smooth curve f through the data
        and the distances of the data from it."""

    @abc.abstractmethod
    def stretched(self, eta: np.ndarray, f: np.ndarray, ratio: float) -> np.ndarray:
        """Return the parameters that make the noise larger by the factor `ratio`."""

    def check(self, name: str, y: np.ndarray, is_below: np.ndarray) -> None:
        """Refuse values of the quantity `name` that this noise cannot give, if any."""

    def eta(self) -> Any:
        """Return the parameters as a vector."""
        values = [jnp.asarray(getattr(self, name)) for name in self.names]
        return jnp.stack(values) if values else jnp.zeros(0)

    def terms(self, f: Any, eta: Any, y: Any) -> Terms:
        """Return the contribution of a measured value y."""
        value, (on_f, on_eta) = jax.value_and_grad(self.deviance, (0, 1))(f, eta, y)
        slope = jnp.concatenate([on_f[None], on_eta])
        return Terms(value, slope, self.information(f, eta))

    def terms_below(self, f: Any, eta: Any, limit: Any, most: int) -> Terms:
        """Return the contribution of a value that is only known to be below `limit`."""
        value, (on_f, on_eta) = jax.value_and_grad(self.deviance_below, (0, 1))(
            f, eta, limit, most
        )
        slope = jnp.concatenate([on_f[None], on_eta])
        return Terms(value, slope, self.information_below(f, eta, limit, most))

    def __str__(self) -> str:
        return self.title


def learnable(name: str, above: float = 0.0) -> Any:
    """Return a field for a number `above` a limit, or None for one to be learned."""
    return eqx.field(
        default=None, converter=lambda value: _positive_parameter(value, name, above)
    )


def _positive_parameter(value: Any, name: str, above: float) -> Any:
    """Return a parameter of a noise model as an array of JAX, NaN, if it is to be
    learned (None), or else as an array of NumPy, a constant."""
    if value is None:
        return as_parameter(np.nan)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not above < value < float("inf"):
            raise ValueError(
                f"`{name}` must be above {above:g} and finite, or None, which stands "
                f"for one that is learned; but got {value!r}."
            )
        return np.asarray(float(value))
    if isinstance(value, str | bytes | bool | list | tuple):
        raise TypeError(f"`{name}` must be a number or None, but got {value!r}.")
    return value


def above_zero(f: Any, small: Any) -> Any:
    """Return the prediction f; below `small`, where a distribution of positive values
    has no meaning, return a small positive number that f leads to smoothly."""
    return jnp.where(f > small, f, small**2 / (2 * small - jnp.minimum(f, small)))


def score_information(deviance: Callable, f: Any, eta: Any, *arguments: Any) -> Any:
    """Return the outer product of the score, as an approximation of the information."""
    on_f, on_eta = jax.grad(deviance, (0, 1))(f, eta, *arguments)
    slope = jnp.concatenate([on_f[None], on_eta])
    return 0.25 * slope[:, None] * slope[None, :]


def matrix(rows: list[list[Any]]) -> Any:
    """Return a matrix of numbers of JAX."""
    return jnp.stack([jnp.stack([jnp.asarray(v, float) for v in row]) for row in rows])


def root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if np.size(values) else 0.0


def robust_size(values: np.ndarray) -> float:
    """Return the standard deviation of Gaussian values with the same median |value|."""
    return 1.4826 * float(np.median(np.abs(values))) if np.size(values) else 0.0
