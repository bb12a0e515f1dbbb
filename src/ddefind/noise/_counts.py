r"""Noise of counts: Poisson's, and the negative binomial one, which scatters more."""

from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, logsumexp, polygamma, xlogy

from .._util import wording
from .._util.errors import DataError
from ._abstract import (
    AbstractNoise,
    learnable,
    matrix,
    root_mean_square,
    score_information,
)

# The limit between few and many counts, for the information about the dispersion.
_FEW = 5.0
# From this shape k = 1 / dispersion on, differences of log Gamma follow from Stirling's
# series.
_LARGE_SHAPE = 64.0


class AbstractCounts(AbstractNoise):
    """Noise of counts."""

    is_positive: ClassVar[bool] = True
    is_count: ClassVar[bool] = True

    def deviance_below(self, f: Any, eta: Any, limit: Any, most: int) -> Any:
        """Return the sum of the probabilities of all counts below the limit."""
        counts = jnp.arange(max(most, 1), dtype=float)
        logs = jax.vmap(lambda y: -0.5 * self.deviance(f, eta, y))(counts)
        return -2 * logsumexp(jnp.where(counts < jnp.maximum(limit, 1), logs, -jnp.inf))

    def information_below(self, f: Any, eta: Any, limit: Any, most: int) -> Any:
        return score_information(self.deviance_below, f, eta, limit, most)

    def check(self, name: str, y: np.ndarray, is_below: np.ndarray) -> None:
        """Refuse values that are no counts, and limits that no count is below."""
        values = y[~is_below]
        if np.any(values < 0):
            raise DataError(
                f"`{name}` has negative values, down to {values.min():g}, but counts "
                f"are not negative. Take {wording.noise('gaussian')} or "
                f"{wording.noise('combined')}."
            )
        fractions = values[values != np.round(values)]
        if len(fractions):
            raise DataError(
                f"`{name}` has values that are no whole numbers, as {fractions[0]:g}, "
                "but counts are. If the counts were divided by a volume or an area, "
                "give the counts themselves and multiply in what is observed; "
                f"otherwise take {wording.noise('proportional')} or "
                f"{wording.noise('lognormal')}."
            )
        if np.any(y[is_below] <= 0):
            raise DataError(f"`{name}` is below zero in `below`, but counts are not.")


@final
class Poisson(AbstractCounts):
    r"""Poisson's noise of counts: the variance of a count is its mean f.

    The deviance is $2f - 2y\log f + 2\log y!$, and the information about f is $1 / f$.

    >>> Poisson().names
    ()
    """

    names: ClassVar[tuple[str, ...]] = ()
    word: ClassVar[str] = "poisson"
    title: ClassVar[str] = "Poisson"

    def deviance(self, f: Any, eta: Any, y: Any) -> Any:
        return 2 * (f - xlogy(y, f) + gammaln(y + 1))

    def information(self, f: Any, eta: Any) -> Any:
        return matrix([[1 / f]])

    def size(self, f: np.ndarray, eta: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(f, 0.0))

    def cdf(self, f: np.ndarray, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        from scipy.special import pdtr

        whole = np.floor(y)
        return np.where(whole < 0, 0.0, pdtr(np.maximum(whole, 0), np.maximum(f, 0.0)))

    def quantile(self, f: np.ndarray, eta: np.ndarray, p: float) -> np.ndarray:
        from scipy.stats import poisson

        return poisson.ppf(p, np.maximum(f, 1e-12))

    def draw(self, f, eta, random):
        return random.poisson(np.maximum(f, 0.0)).astype(float)

    def bounds(self, scale: float) -> list[tuple[float, float]]:
        return []

    def start(self, f: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        return np.zeros(0)

    def stretched(self, eta: np.ndarray, f: np.ndarray, ratio: float) -> np.ndarray:
        return eta


@final
class NegativeBinomial(AbstractCounts):
    r"""Negative binomial noise of counts, which scatter more than Poisson's: the
    variance of a count with the mean f is $f + \alpha f^2$.

    `dispersion` is $\alpha$, by default learned; $k = 1/\alpha$ is often called the
    size.

    The deviance is $-2[\log\Gamma(y+k) - \log\Gamma(k) - \log y! - y\log k + y\log f -
    (y+k)\log(1+\alpha f)]$. The information about f is $1 / (f + \alpha f^2)$, and that
    about $\alpha$ is approximately $\frac12 (f / (1+\alpha f))^2$ times a number
    between $1/(1+\alpha)$, for few counts, and $2k^2(\psi'(k) - 1/k)$, for many.

    >>> float(NegativeBinomial(dispersion=0.2).dispersion)
    0.2
    """

    dispersion: Any = learnable("dispersion")
    names: ClassVar[tuple[str, ...]] = ("dispersion",)
    word: ClassVar[str] = "negative-binomial"
    title: ClassVar[str] = "negative binomial"

    def deviance(self, f: Any, eta: Any, y: Any) -> Any:
        alpha = eta[0]
        k = 1 / alpha
        log_p = _log_rising(y, k) - gammaln(y + 1) + xlogy(y, f)
        return -2 * (log_p - (y + k) * jnp.log1p(alpha * f))

    def information(self, f: Any, eta: Any) -> Any:
        alpha = eta[0]
        zero, level = jnp.zeros_like(f), alpha * f
        few, many = 1 / (1 + alpha), _gamma_information(1 / alpha)
        share = f / (f + _FEW)
        on_alpha = 0.5 * (f / (1 + level)) ** 2 * ((1 - share) * few + share * many)
        return matrix([[1 / (f + alpha * f**2), zero], [zero, on_alpha]])

    def size(self, f: np.ndarray, eta: np.ndarray) -> np.ndarray:
        f = np.maximum(f, 0.0)
        return np.sqrt(f + eta[0] * f**2)

    def cdf(self, f: np.ndarray, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        from scipy.stats import nbinom

        return nbinom.cdf(y, 1 / eta[0], 1 / (1 + eta[0] * np.maximum(f, 0.0)))

    def quantile(self, f: np.ndarray, eta: np.ndarray, p: float) -> np.ndarray:
        from scipy.stats import nbinom

        return nbinom.ppf(p, 1 / eta[0], 1 / (1 + eta[0] * np.maximum(f, 1e-12)))

    def draw(self, f, eta, random):
        rates = random.gamma(1 / eta[0], eta[0] * np.maximum(f, 0.0), np.shape(f))
        return random.poisson(rates).astype(float)

    def bounds(self, scale: float) -> list[tuple[float, float]]:
        return [(1e-6 / max(scale, 1.0), 1e3)]

    def start(self, f: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        level = max(root_mean_square(f), 1e-3)
        excess = np.mean(np.square(residuals)) - np.mean(np.abs(f))
        return np.array([np.clip(excess / level**2, 0.1 / level, 10.0)])

    def stretched(self, eta: np.ndarray, f: np.ndarray, ratio: float) -> np.ndarray:
        level = max(root_mean_square(f), 1e-3)
        variance = ratio**2 * (1 + eta * level)
        return np.clip((variance - 1) / level, 0.01 / level, 10.0)


def _log_rising(y: Any, k: Any) -> Any:
    r"""Compute $\log\Gamma(y+k) - \log\Gamma(k) - y\log k$, by Stirling's series where
    k is large, and the three numbers nearly cancel."""
    is_large = k > _LARGE_SHAPE
    small = jnp.where(is_large, 1.0, k)
    large = jnp.where(is_large, k, 2 * _LARGE_SHAPE)
    direct = gammaln(y + small) - gammaln(small) - y * jnp.log(small)
    n = y + large
    rest = (1 / n - 1 / large) / 12 - (n**-3.0 - large**-3.0) / 360
    rest += (n**-5.0 - large**-5.0) / 1260
    return jnp.where(is_large, (n - 0.5) * jnp.log1p(y / large) - y + rest, direct)


def _gamma_information(k: Any) -> Any:
    r"""Compute $2k^2(\psi'(k) - 1/k)$, which tends to 1 with a large k."""
    is_large = k > _LARGE_SHAPE
    small = jnp.where(is_large, 1.0, k)
    direct = 2 * small**2 * (polygamma(1, small) - 1 / small)
    return jnp.where(is_large, 1 + 1 / (3 * k), direct)
