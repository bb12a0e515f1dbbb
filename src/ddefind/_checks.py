r"""Are the residuals what noise leaves? Tests of a fit, each with its p-value.

*Whiteness*: neighbouring residuals of a quantity are not alike (Ljung and Box), $Q =
n(n+2)\sum_{k\le m} r_k^2 / (n-k)$ with the autocorrelations $r_k$, is chi-square with m
degrees of freedom. *Normality*: Anderson and Darling. *Outliers*: the largest residual
is not too large for so many (Grubbs). *Chi-square*: where the noise is given, the sum
of squares is what it leaves. The p-value of a test is how often a right model with
Gaussian noise gives such residuals or worse."""

from typing import NamedTuple

import numpy as np

from ._data import Data

# Below this share of right fits is any test of theirs failed.
LEVEL = 0.05
# Fewer residuals of a quantity say nothing about their order or their distribution.
_FEWEST = 12
_MOST_LAGS = 10

WHITE, NORMAL, OUTLIER, CHI = "whiteness", "normality", "outliers", "chi-square"


class Check(NamedTuple):
    """One test: of what, of which quantity (empty: of all), its statistic, and its
    p-value."""

    test: str
    quantity: str
    statistic: float
    p: float


def residual_checks(data: Data, residuals: np.ndarray, freedom: int) -> list[Check]:
    """All tests that the residuals, in units of the noise, are enough for. `freedom`
    are the degrees of freedom that they have left."""
    checks = []
    given = data.sd is not None
    if given:
        chi = float(np.nansum(residuals**2))
        checks.append(Check(CHI, "", chi, _chi_above(chi, freedom)))
    for name, column in zip(data.names, residuals.T):
        r = column[np.isfinite(column)]
        if len(r) < _FEWEST or np.std(r) == 0:
            continue
        checks += [
            Check(WHITE, name, *_whiteness(r)),
            Check(NORMAL, name, *_normality(r)),
            Check(OUTLIER, name, *_outliers(r, given)),
        ]
    return checks


def failed(checks: list[Check]) -> list[Check]:
    """The tests that a right model fails in no more than 5% of fits, all together."""
    return [check for check in checks if check.p * len(checks) < LEVEL]


def _chi_above(value: float, freedom: float) -> float:
    from scipy.special import chdtrc

    return float(chdtrc(freedom, value))


def _whiteness(r: np.ndarray) -> tuple[float, float]:
    n = len(r)
    lags = min(_MOST_LAGS, n // 5)
    r = r - r.mean()
    products = np.array([np.sum(r[k:] * r[:-k]) for k in range(1, lags + 1)])
    correlations = products / np.sum(r**2)
    Q = n * (n + 2) * np.sum(correlations**2 / (n - np.arange(1, lags + 1)))
    return float(Q), _chi_above(float(Q), lags)


def _normality(r: np.ndarray) -> tuple[float, float]:
    from scipy.special import log_ndtr

    n = len(r)
    z = np.sort((r - r.mean()) / r.std(ddof=1))
    i = np.arange(1, n + 1)
    A = -n - np.sum((2 * i - 1) * (log_ndtr(z) + log_ndtr(-z[::-1]))) / n
    A = A * (1 + 0.75 / n + 2.25 / n**2)
    # The p-value of D'Agostino and Stephens, in four pieces.
    if A >= 0.6:
        p = np.exp(1.2937 - 5.709 * A + 0.0186 * min(A, 150.0) ** 2)
    elif A > 0.34:
        p = np.exp(0.9177 - 4.279 * A - 1.38 * A**2)
    elif A > 0.2:
        p = 1 - np.exp(-8.318 + 42.796 * A - 59.938 * A**2)
    else:
        p = 1 - np.exp(-13.436 + 101.14 * A - 223.73 * A**2)
    return float(A), float(p)


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
