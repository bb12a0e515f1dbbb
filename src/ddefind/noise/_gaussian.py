r"""Gaussian noise: of one size, in proportion to the level, or both; log-normal noise.

With the standard deviation $s(f, \eta)$ the deviance is
$\log(2\pi s^2) + (y - f)^2 / s^2$, and the Fisher information about $v = (f, \eta)$ is
$\nabla f \nabla f^T / s^2 + 2\,\nabla s \nabla s^T / s^2$. Below a limit L, with
$z = (L - f) / s$ and $\lambda = \phi(z) / \Phi(z)$, the deviance is
$-2\log\Phi(z)$, and $(\lambda^2 + z\lambda)\,\nabla z \nabla z^T$ takes the place of
the information. With log-normal noise the logarithms of the values are Gaussian."""

import abc
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from .._util import wording
from .._util.errors import DataError
from ._abstract import AbstractNoise, learnable, matrix, root_mean_square

LOG_2_PI = float(np.log(2 * np.pi))


def below_curvature(z: Any) -> Any:
    r"""Compute $\lambda^2 + z\lambda$, the second derivative of $-\log\Phi(z)$."""
    hazard = jnp.exp(-0.5 * z**2 - log_ndtr(z) - 0.5 * LOG_2_PI)
    return jnp.clip(hazard * (hazard + z), 0.0, 1.0)


class AbstractGaussian(AbstractNoise):
    """Gaussian noise whose standard deviation depends on the prediction."""

    is_positive: ClassVar[bool] = False
    is_count: ClassVar[bool] = False

    def stretched(self, eta: np.ndarray, f: np.ndarray, ratio: float) -> np.ndarray:
        return eta * ratio

    @abc.abstractmethod
    def deviation(self, f: Any, eta: Any) -> Any:
        """Return the standard deviation of a value."""

    def deviance(self, f: Any, eta: Any, y: Any) -> Any:
        s = self.deviation(f, eta)
        return LOG_2_PI + 2 * jnp.log(s) + ((y - f) / s) ** 2

    def deviance_below(self, f: Any, eta: Any, limit: Any, most: int) -> Any:
        return -2 * log_ndtr((limit - f) / self.deviation(f, eta))

    def information(self, f: Any, eta: Any) -> Any:
        s, (on_f, on_eta) = jax.value_and_grad(self.deviation, (0, 1))(f, eta)
        slope = jnp.concatenate([on_f[None], on_eta]) / s
        unit = jnp.where(jnp.arange(slope.shape[0]) == 0, 1 / s, 0.0)
        return unit[:, None] * unit[None] + 2 * slope[:, None] * slope[None]

    def information_below(self, f: Any, eta: Any, limit: Any, most: int) -> Any:
        def z(f, eta):
            return (limit - f) / self.deviation(f, eta)

        value, (on_f, on_eta) = jax.value_and_grad(z, (0, 1))(f, eta)
        slope = jnp.concatenate([on_f[None], on_eta])
        return below_curvature(value) * slope[:, None] * slope[None]

    def size(self, f: np.ndarray, eta: np.ndarray) -> np.ndarray:
        deviation = np.asarray(self.deviation(np.asarray(f), eta))
        return np.broadcast_to(deviation, np.shape(f))

    def cdf(self, f: np.ndarray, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        from scipy.special import ndtr

        return ndtr((y - f) / self.size(f, eta))

    def quantile(self, f: np.ndarray, eta: np.ndarray, p: float) -> np.ndarray:
        from scipy.special import ndtri

        return f + ndtri(p) * self.size(f, eta)

    def draw(self, f, eta, random):
        return f + self.size(f, eta) * random.standard_normal(np.shape(f))


@final
class Gaussian(AbstractGaussian):
    r"""Gaussian noise of one size: $y = f + s\,e$ with a standard Gaussian e.

    `sd` is the standard deviation s, by default learned.

    >>> float(Gaussian(sd=0.1).sd)
    0.1
    """

    sd: Any = learnable("sd")
    names: ClassVar[tuple[str, ...]] = ("sd",)
    word: ClassVar[str] = "gaussian"
    title: ClassVar[str] = "Gaussian"

    def deviation(self, f: Any, eta: Any) -> Any:
        return eta[0]

    def bounds(self, scale: float) -> list[tuple[float, float]]:
        return [(1e-9 * scale, np.inf)]

    def start(self, f: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        return np.array([root_mean_square(residuals)])


@final
class Given(AbstractGaussian):
    """Gaussian noise whose standard deviation is given with each value of the data."""

    sd: ClassVar[float] = 1.0
    names: ClassVar[tuple[str, ...]] = ("sd",)
    word: ClassVar[str] = "given"
    title: ClassVar[str] = "Gaussian with the given sd"

    def deviation(self, f: Any, eta: Any) -> Any:
        return eta[0]

    def bounds(self, scale: float) -> list[tuple[float, float]]:
        return [(0.0, np.inf)]

    def start(self, f: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        return np.ones(1)

    def stretched(self, eta: np.ndarray, f: np.ndarray, ratio: float) -> np.ndarray:
        return eta


@final
class Proportional(AbstractGaussian):
    r"""Gaussian noise in proportion to the level: $y = f + k\,|f|\,e$.

    `factor` is the standard deviation k of the relative error, by default learned.

    >>> float(Proportional(factor=0.2).factor)
    0.2
    """

    factor: Any = learnable("factor")
    names: ClassVar[tuple[str, ...]] = ("factor",)
    word: ClassVar[str] = "proportional"
    title: ClassVar[str] = "proportional"

    def deviation(self, f: Any, eta: Any) -> Any:
        return eta[0] * abs(f)

    def bounds(self, scale: float) -> list[tuple[float, float]]:
        return [(1e-9, np.inf)]

    def start(self, f: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        level = np.maximum(np.abs(f), 0.1 * root_mean_square(f))
        return np.array([root_mean_square(residuals / np.where(level > 0, level, 1.0))])

    def check(self, name: str, y: np.ndarray, is_below: np.ndarray) -> None:
        if np.any(y[~is_below] == 0):
            raise DataError(
                f"`{name}` has values of zero, but noise in proportion to the level "
                f"leaves zero as it is. Take {wording.noise('combined')}, which has a "
                "constant part as well."
            )


@final
class Combined(AbstractGaussian):
    r"""Gaussian noise with a constant part and one in proportion to the level:
    $y = f + (a + b\,|f|)\,e$.

    `a` is the standard deviation at the level zero, and `b` what it gains with the
    level. By default both are learned.

    >>> noise = Combined(a=0.1)
    >>> float(noise.a), float(noise.b)
    (0.1, nan)
    """

    a: Any = learnable("a")
    b: Any = learnable("b")
    names: ClassVar[tuple[str, ...]] = ("a", "b")
    word: ClassVar[str] = "combined"
    title: ClassVar[str] = "constant and proportional"

    def deviation(self, f: Any, eta: Any) -> Any:
        return eta[0] + eta[1] * abs(f)

    def bounds(self, scale: float) -> list[tuple[float, float]]:
        return [(0.0, np.inf), (0.0, np.inf)]

    def start(self, f: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        size, level = root_mean_square(residuals), float(np.mean(np.abs(f)))
        return np.array([0.5 * size, 0.5 * size / level if level > 0 else 0.1])


@final
class LogNormal(AbstractNoise):
    r"""Log-normal noise: $y = f\,k^e$ with a standard Gaussian e.

    The prediction f is the median of the values, and 68% of them lie between $f / k$
    and $f\,k$: a `factor` k of 1.1 is an error of about 10%. By default it is learned.
    (A `dd.LogNormalPrior` has the same factor.)

    With $\sigma = \log k$ the deviance is $2\log y + \log(2\pi\sigma^2) +
    \log^2(y / f) / \sigma^2$, and the information $1 / (\sigma f)^2$ about f and
    $2 / (\sigma k)^2$ about k.

    >>> float(LogNormal(factor=1.2).factor)
    1.2
    """

    factor: Any = learnable("factor", above=1.0)
    names: ClassVar[tuple[str, ...]] = ("factor",)
    word: ClassVar[str] = "lognormal"
    title: ClassVar[str] = "log-normal"
    is_positive: ClassVar[bool] = True
    is_count: ClassVar[bool] = False

    def deviance(self, f: Any, eta: Any, y: Any) -> Any:
        sigma = jnp.log(eta[0])
        y = jnp.where(y > 0, y, 1.0)  # where nothing was measured
        z = (jnp.log(y) - jnp.log(f)) / sigma
        return LOG_2_PI + 2 * jnp.log(y) + 2 * jnp.log(sigma) + z**2

    def deviance_below(self, f: Any, eta: Any, limit: Any, most: int) -> Any:
        limit = jnp.where(limit > 0, limit, 1.0)
        return -2 * log_ndtr((jnp.log(limit) - jnp.log(f)) / jnp.log(eta[0]))

    def information(self, f: Any, eta: Any) -> Any:
        sigma = jnp.log(eta[0])
        zero = jnp.zeros_like(sigma)
        on_factor = 2 / (sigma * eta[0]) ** 2
        return matrix([[1 / (sigma * f) ** 2, zero], [zero, on_factor]])

    def information_below(self, f: Any, eta: Any, limit: Any, most: int) -> Any:
        sigma = jnp.log(eta[0])
        limit = jnp.where(limit > 0, limit, 1.0)
        z = (jnp.log(limit) - jnp.log(f)) / sigma
        slope = jnp.stack([-1 / (f * sigma), -z / (sigma * eta[0])])
        return below_curvature(z) * slope[:, None] * slope[None]

    def size(self, f: np.ndarray, eta: np.ndarray) -> np.ndarray:
        variance = np.log(eta[0]) ** 2
        return np.abs(f) * np.sqrt(np.expm1(variance) * np.exp(variance))

    def cdf(self, f: np.ndarray, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        from scipy.special import ndtr

        with np.errstate(invalid="ignore", divide="ignore"):
            return ndtr((np.log(y) - np.log(f)) / np.log(eta[0]))

    def quantile(self, f: np.ndarray, eta: np.ndarray, p: float) -> np.ndarray:
        from scipy.special import ndtri

        return f * eta[0] ** ndtri(p)

    def draw(self, f, eta, random):
        return f * eta[0] ** random.standard_normal(np.shape(f))

    def bounds(self, scale: float) -> list[tuple[float, float]]:
        return [(1 + 1e-9, np.inf)]

    def start(self, f: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        level = np.maximum(np.abs(f), 0.1 * root_mean_square(f))
        share = root_mean_square(residuals / np.where(level > 0, level, 1.0))
        return np.array([np.exp(min(share, 3.0))])

    def stretched(self, eta: np.ndarray, f: np.ndarray, ratio: float) -> np.ndarray:
        return np.exp(np.minimum(np.log(eta) * ratio, 5.0))

    def check(self, name: str, y: np.ndarray, is_below: np.ndarray) -> None:
        if np.any(y <= 0):
            what = "zeros" if np.all(y >= 0) else "negative values"
            raise DataError(
                f"`{name}` has {what}, but log-normal noise leaves values positive. "
                "If they are below a detection limit, give the limit, as "
                f"{wording.BELOW_LIMIT} does; otherwise take "
                f"{wording.noise('combined')} or {wording.noise('gaussian')}."
            )
