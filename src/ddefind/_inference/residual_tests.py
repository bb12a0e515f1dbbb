r"""Are the residuals what noise leaves? Tests of a fit, each with its p-value.

*Whiteness*: neighbouring residuals of a quantity are not alike; $Q = n(n+2)\sum_{k\le
m} r_k^2 / (n-k)$ with the autocorrelations $r_k$ (Ljung and Box). *Normality*: $A^2$ of
Anderson and Darling. *Outliers*: the largest residual is not too large for so many
(Grubbs). *Chi-square*: where the noise is given, the sum of squares is what it leaves.

The p-value of a test is how often a right model with Gaussian noise gives such
residuals, or worse. Residuals are not quite white: a fit takes the directions of its
parameters out of the noise. So Q and A are compared with those of simulated noise
without these directions."""

from typing import NamedTuple

import numpy as np

from .._data.data import Data

# Of right fits no more than this share fails any test.
LEVEL = 0.05
# Fewer residuals of a quantity say nothing about their order or their distribution.
_FEWEST = 12
_MOST_LAGS = 10
# Simulations; and residuals beyond which the directions of the parameters are lost
# among all others.
_SIMULATIONS, _MANY = 1000, 1000

WHITE, NORMAL, OUTLIER, CHI = "whiteness", "normality", "outliers", "chi-square"


class ResidualTest(NamedTuple):
    """One test: of what, of which quantity (empty: of all), its statistic, and its
    p-value."""

    test: str
    quantity: str
    statistic: float
    p: float


def residual_checks(
    data: Data, residuals: np.ndarray, directions: np.ndarray, freedom: int
) -> list[ResidualTest]:
    """All tests that the residuals, in units of the noise, are enough for.

    `directions`, (N, k, q), are what the parameters take out of the noise; `freedom`
    are the degrees of freedom that are left."""
    checks: list[ResidualTest] = []
    given = data.sd is not None
    if given:
        chi = float(np.nansum(residuals**2))
        checks.append(ResidualTest(CHI, "", chi, _chi_above(chi, freedom)))
    if np.isfinite(residuals).sum() < directions.shape[2] + 3:
        return checks
    simulated = _simulate(residuals, directions)
    for column, name in enumerate(data.names):
        r = residuals[:, column]
        r = r[np.isfinite(r)]
        if len(r) < _FEWEST or np.std(r) == 0:
            continue
        noise = simulated[column]
        checks += [
            ResidualTest(WHITE, name, *_against(noise, r, _whiteness)),
            ResidualTest(NORMAL, name, *_against(noise, r, _normality)),
            ResidualTest(OUTLIER, name, *_outliers(r, given)),
        ]
    return checks


def failed(checks: list[ResidualTest]) -> list[ResidualTest]:
    """The tests that a right model fails in no more than 5% of fits, all together."""
    return [check for check in checks if check.p * len(checks) < LEVEL]


def _simulate(residuals: np.ndarray, directions: np.ndarray) -> list[np.ndarray]:
    """For each quantity, residuals of right models: (simulations, values)."""
    random = np.random.default_rng(0)
    here = np.isfinite(residuals)
    if here.sum() > _MANY:
        counts = np.minimum(here.sum(axis=0), _MANY)
        return [random.standard_normal((_SIMULATIONS, count)) for count in counts]
    noise = random.standard_normal((_SIMULATIONS, int(here.sum())))
    taken, _ = np.linalg.qr(directions[here])
    noise -= (noise @ taken) @ taken.T
    owner = np.nonzero(here)[1]
    return [noise[:, owner == column] for column in range(here.shape[1])]


def _against(noise: np.ndarray, r: np.ndarray, statistic) -> tuple[float, float]:
    """A statistic, and the share of simulations in which it is at least as large."""
    found = statistic(r[None])[0]
    more = np.sum(statistic(noise) >= found)
    return float(found), float((1 + more) / (1 + len(noise)))


def _chi_above(value: float, freedom: float) -> float:
    from scipy.special import chdtrc

    return float(chdtrc(freedom, value))


def _whiteness(r: np.ndarray) -> np.ndarray:
    n = r.shape[1]
    lags = np.arange(1, min(_MOST_LAGS, n // 5) + 1)
    r = r - r.mean(axis=1, keepdims=True)
    products = np.stack([np.einsum("ij,ij->i", r[:, k:], r[:, :-k]) for k in lags])
    correlations = products / np.einsum("ij,ij->i", r, r)
    return n * (n + 2) * np.sum(correlations**2 / (n - lags[:, None]), axis=0)


def _normality(r: np.ndarray) -> np.ndarray:
    from scipy.special import log_ndtr

    n = r.shape[1]
    centred = r - r.mean(axis=1, keepdims=True)
    z = np.sort(centred / r.std(axis=1, ddof=1, keepdims=True), axis=1)
    weight = (2 * np.arange(1, n + 1) - 1) / n
    return -n - np.sum(weight * (log_ndtr(z) + log_ndtr(-z[:, ::-1])), axis=1)


def _outliers(r: np.ndarray, given: bool) -> tuple[float, float]:
    from scipy.special import ndtr, stdtr

    n = len(r)
    if given:
        largest = float(np.max(np.abs(r)))
        return largest, min(1.0, float(2 * n * ndtr(-largest)))
    largest = float(np.max(np.abs(r - r.mean())) / r.std(ddof=1))
    left = (n - 1) ** 2 - n * largest**2
    t = largest * np.sqrt(n * (n - 2) / left) if left > 0 else np.inf
    return largest, min(1.0, float(2 * n * stdtr(n - 2, -t)))
