r"""Log-normal noise: the logarithms of the values are Gaussian."""

from typing import Any, ClassVar, final

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from .._util import wording
from .._util.errors import DataError
from ._abstract import AbstractNoise, learnable, matrix, root_mean_square
from ._gaussian import LOG_2_PI, below_curvature


@final
class LogNormal(AbstractNoise):
    r"""Log-normal noise: $y = f\,k^e$ with a standard Gaussian e.

    The prediction f is the median of the values, and 68% of them lie between $f / k$
    and $f\,k$: a `factor` k of 1.1 is an error of about 10%. By default it is learned.
    (A `dd.LogNormal` prior has the same factor.)

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
