r"""Student's noise: like Gaussian noise, but with outliers."""

from functools import lru_cache
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, polygamma

from ._abstract import AbstractNoise, learnable, matrix, robust_size, score_information

# The least and the largest degrees of freedom that are learned: with the least this is
# Cauchy's distribution, and with the largest practically a Gaussian one.
_LEAST, _MOST = 1.0, 200.0
# The number of nodes of the quadrature for the probability of a value below a limit.
_NODES = 96


@lru_cache
def _nodes() -> tuple[np.ndarray, np.ndarray]:
    """Compute the nodes and weights of Gauss's quadrature on [0, 1] for an integrand
    that is smooth in the fourth root of its argument."""
    x, w = np.polynomial.legendre.leggauss(_NODES)
    q = 0.5 * (x + 1)
    return q**4, 2 * q**3 * w


@final
class Student(AbstractNoise):
    r"""Student's noise, which has outliers: $y = f + s\,e$, where e has Student's
    distribution with $\nu$ degrees of freedom.

    `scale` is s, and `df` is $\nu$; by default both are learned, `df` between 1 and
    200. The fewer degrees of freedom, the more outliers; with many the noise is
    Gaussian, and records of less than some hundred values do not bound them from above.

    With $z = (y - f) / s$ the deviance is $(\nu + 1)\log(1 + z^2/\nu) + 2\log s +
    \log(\nu\pi) + 2\log\Gamma(\nu/2) - 2\log\Gamma((\nu+1)/2)$. The information about f
    is $(\nu+1) / ((\nu+3) s^2)$, about s $2\nu / ((\nu+3) s^2)$, about $\nu$
    $\frac14\psi'(\frac\nu2) - \frac14\psi'(\frac{\nu+1}2) - \frac{\nu+5}{2\nu(\nu+1)
    (\nu+3)}$, and about both $-2 / (s(\nu+1)(\nu+3))$.

    >>> noise = Student(df=4)
    >>> float(noise.scale), float(noise.df)
    (nan, 4.0)
    """

    scale: Any = learnable("scale")
    df: Any = learnable("df")
    names: ClassVar[tuple[str, ...]] = ("scale", "df")
    word: ClassVar[str] = "student"
    title: ClassVar[str] = "Student's"
    has_outliers: ClassVar[bool] = True
    is_positive: ClassVar[bool] = False
    is_count: ClassVar[bool] = False

    def deviance(self, f: Any, eta: Any, y: Any) -> Any:
        s, df = eta[0], eta[1]
        z = (y - f) / s
        constant = (
            jnp.log(df * jnp.pi) + 2 * gammaln(df / 2) - 2 * gammaln(df / 2 + 0.5)
        )
        return (df + 1) * jnp.log1p(z**2 / df) + 2 * jnp.log(s) + constant

    def deviance_below(self, f: Any, eta: Any, limit: Any, most: int) -> Any:
        r"""Compute the deviance from the integral of $\sin^{\nu-1}u$ from 0 to
        $\theta + \pi/2$, to which the probability is proportional if
        $z = \sqrt\nu\tan\theta$."""
        s, df = eta[0], eta[1]
        angle = jnp.arctan2(jnp.sqrt(df), -(limit - f) / s)
        share, weight = _nodes()
        logs = (df - 1) * jnp.log(jnp.sin(angle * share)) + np.log(weight)
        constant = gammaln(df / 2 + 0.5) - gammaln(df / 2) - 0.5 * jnp.log(jnp.pi)
        total = jax.scipy.special.logsumexp(logs)
        return -2 * (constant + jnp.log(angle) + total)

    def information(self, f: Any, eta: Any) -> Any:
        s, df = eta[0], eta[1]
        zero = jnp.zeros_like(s)
        both = -2 / (s * (df + 1) * (df + 3))
        on_df = 0.25 * (polygamma(1, df / 2) - polygamma(1, df / 2 + 0.5))
        on_df -= (df + 5) / (2 * df * (df + 1) * (df + 3))
        return matrix(
            [
                [(df + 1) / (df + 3) / s**2, zero, zero],
                [zero, 2 * df / (df + 3) / s**2, both],
                [zero, both, on_df],
            ]
        )

    def information_below(self, f: Any, eta: Any, limit: Any, most: int) -> Any:
        return score_information(self.deviance_below, f, eta, limit, most)

    def size(self, f: np.ndarray, eta: np.ndarray) -> np.ndarray:
        from scipy.special import ndtr, stdtrit

        return np.full(np.shape(f), eta[0] * stdtrit(eta[1], ndtr(1.0)))

    def cdf(self, f: np.ndarray, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        from scipy.special import stdtr

        return stdtr(eta[1], (y - f) / eta[0])

    def quantile(self, f: np.ndarray, eta: np.ndarray, p: float) -> np.ndarray:
        from scipy.special import stdtrit

        return f + eta[0] * stdtrit(eta[1], p)

    def draw(self, f, eta, random):
        return f + eta[0] * random.standard_t(eta[1], np.shape(f))

    def bounds(self, scale: float) -> list[tuple[float, float]]:
        return [(1e-9 * scale, np.inf), (_LEAST, _MOST)]

    def start(self, f: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        return np.array([robust_size(residuals), 5.0])

    def stretched(self, eta: np.ndarray, f: np.ndarray, ratio: float) -> np.ndarray:
        return eta * np.array([ratio, 1.0])
