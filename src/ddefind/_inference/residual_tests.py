r"""Tests of the residuals: are they what noise would leave?

- *Whiteness* (Ljung and Box): successive residuals of a quantity are not correlated.
  $Q = n(n+2)\sum_{k\le m} \rho_k^2 / (n-k)$ with the autocorrelations $\rho_k$.
- *Normality* (Anderson and Darling): $A^2$.
- *Outliers* (Grubbs): the largest residual is not too large for their number.
- *Spread* (Glejser): residuals are not larger where the model's values are. The
  statistic is the correlation of $|r|$ with the rank of the value.
- *Chi-square*: the sum of squares agrees with the noise, where that is given.

The p-value of a test is the probability that a true model with Gaussian noise gives
such residuals, or worse. Even then residuals are not quite white, since a fit takes the
directions of its parameters out of the noise. Q, A and the correlation are therefore
compared with values from simulated noise without these directions."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .._data.study_data import Records

# The probability that a true model fails at least one of the tests.
LEVEL = 0.05
# Fewer residuals of a quantity say nothing about their order or their distribution.
_FEWEST_RESIDUALS = 12
_MOST_LAGS, _SIMULATIONS = 10, 1000
# Beyond this many residuals, removing the directions of the parameters does not matter.
_MANY_RESIDUALS = 1000
# Residuals below this share of the spread are no noise of measurements.
_NO_NOISE = 1e-5

WHITE, NORMAL, OUTLIER, CHI = "whiteness", "normality", "outliers", "chi-square"
SPREAD = "spread"


class ResidualTest(NamedTuple):
    """Result of one test; `quantity` is empty if all were tested together."""

    test: str
    quantity: str
    statistic: float
    p: float


def run_tests(
    data: Records,
    fitted: np.ndarray,
    residuals: np.ndarray,
    directions: np.ndarray,
    freedom: int,
    noise_given: bool,
) -> list[ResidualTest]:
    """Run all tests for which there are enough residuals.

    **Arguments**

    - `fitted`: the model's values, of shape (N, k).
    - `residuals`: data minus model in units of the noise, of shape (N, k); NaN where
      nothing was measured.
    - `directions`: how the predictions, in units of the noise, change with the q
      determined combinations of the parameters, of shape (N, k, q).
    - `freedom`: the degrees of freedom.
    - `noise_given`: whether the noise is known, and not learned."""
    from scipy.special import chdtrc

    tests: list[ResidualTest] = []
    if noise_given:
        chi_square = float(np.nansum(residuals**2))
        p = float(chdtrc(freedom, chi_square))
        tests.append(ResidualTest(CHI, "", chi_square, p))
    if np.isfinite(residuals).sum() < directions.shape[2] + 3:
        return tests
    simulated = _simulate(residuals, directions)
    for column, name in enumerate(data.names):
        r, level = residuals[:, column], np.abs(fitted[:, column])
        r, level = r[np.isfinite(r)], level[np.isfinite(r)]
        is_few = len(r) < _FEWEST_RESIDUALS or np.std(r) == 0
        if is_few or has_no_noise(data.x[:, column], fitted[:, column]):
            continue
        noise = simulated[column]
        tests += [
            ResidualTest(WHITE, name, *_compare_with(noise, r, _ljung_box)),
            ResidualTest(NORMAL, name, *_compare_with(noise, r, _anderson_darling)),
            ResidualTest(OUTLIER, name, *_grubbs(r, noise_given)),
        ]
        if np.ptp(level) > 0:
            tests.append(ResidualTest(SPREAD, name, *_spread(noise, r, level)))
    return tests


def has_no_noise(x: np.ndarray, fitted: np.ndarray) -> bool:
    """Whether the residuals are too small for noise of measurements, but errors of a
    program that computed the values, and of the solver."""
    rest, x = (x - fitted)[np.isfinite(x)], x[np.isfinite(x)]
    if len(x) < _FEWEST_RESIDUALS:
        return False
    spread = np.std(x) if np.ptp(x) > 0 else np.max(np.abs(x))
    return bool(np.std(rest) < _NO_NOISE * spread)


def failed(tests: Sequence[ResidualTest]) -> list[ResidualTest]:
    """Return the failed tests; at most 5% of true models fail any (Bonferroni)."""
    return [test for test in tests if test.p * len(tests) < LEVEL]


def _simulate(residuals: np.ndarray, directions: np.ndarray) -> list[np.ndarray]:
    """Simulate residuals of a true model, [simulations, values] for each quantity."""
    random = np.random.default_rng(0)
    is_measured = np.isfinite(residuals)
    if is_measured.sum() > _MANY_RESIDUALS:
        counts = np.minimum(is_measured.sum(axis=0), _MANY_RESIDUALS)
        return [random.standard_normal((_SIMULATIONS, count)) for count in counts]
    noise = random.standard_normal((_SIMULATIONS, int(is_measured.sum())))
    basis, _ = np.linalg.qr(directions[is_measured])
    noise -= (noise @ basis) @ basis.T
    quantity = np.nonzero(is_measured)[1]
    return [noise[:, quantity == column] for column in range(is_measured.shape[1])]


def _compare_with(
    noise: np.ndarray, r: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray]
) -> tuple[float, float]:
    """Compute the statistic of the residuals `r`, and its p-value: the share of
    simulations in which it is at least as large."""
    observed = statistic(r[None])[0]
    larger = np.sum(statistic(noise) >= observed)
    return float(observed), float((1 + larger) / (1 + len(noise)))


def _spread(noise: np.ndarray, r: np.ndarray, level: np.ndarray) -> tuple[float, float]:
    """Correlate the sizes of the residuals with the rank of the model's `level`, and
    compute the p-value. For many residuals the correlation is Gaussian."""
    from scipy.special import ndtr
    from scipy.stats import rankdata

    ranks = rankdata(level) - 0.5 * (len(level) + 1)

    def correlation(r: np.ndarray) -> np.ndarray:
        size = np.abs(r) - np.mean(np.abs(r), axis=1, keepdims=True)
        return size @ ranks / np.sqrt(np.sum(size**2, axis=1) * np.sum(ranks**2))

    if noise.shape[1] == len(r):
        return _compare_with(noise, r, correlation)
    observed = float(correlation(r[None])[0])
    return observed, float(ndtr(-observed * np.sqrt(len(r) - 1)))


def _ljung_box(r: np.ndarray) -> np.ndarray:
    """Compute Q of each row of residuals."""
    n = r.shape[1]
    lags = np.arange(1, min(_MOST_LAGS, n // 5) + 1)
    r = r - r.mean(axis=1, keepdims=True)
    products = np.stack([np.einsum("ij,ij->i", r[:, k:], r[:, :-k]) for k in lags])
    correlations = products / np.einsum("ij,ij->i", r, r)
    return n * (n + 2) * np.sum(correlations**2 / (n - lags[:, None]), axis=0)


def _anderson_darling(r: np.ndarray) -> np.ndarray:
    """Compute A squared of each row of residuals, with their own mean and variance."""
    from scipy.special import log_ndtr

    n = r.shape[1]
    centred = r - r.mean(axis=1, keepdims=True)
    z = np.sort(centred / r.std(axis=1, ddof=1, keepdims=True), axis=1)
    weight = (2 * np.arange(1, n + 1) - 1) / n
    return -n - np.sum(weight * (log_ndtr(z) + log_ndtr(-z[:, ::-1])), axis=1)


def _grubbs(r: np.ndarray, noise_given: bool) -> tuple[float, float]:
    """Return the largest residual in standard deviations, and its p-value: of a normal
    distribution if the noise is given, otherwise of Grubbs' statistic."""
    from scipy.special import ndtr, stdtr

    n = len(r)
    if noise_given:
        largest = float(np.max(np.abs(r)))
        return largest, min(1.0, float(2 * n * ndtr(-largest)))
    largest = float(np.max(np.abs(r - r.mean())) / r.std(ddof=1))
    rest = (n - 1) ** 2 - n * largest**2
    t = largest * np.sqrt(n * (n - 2) / rest) if rest > 0 else np.inf
    return largest, min(1.0, float(2 * n * stdtr(n - 2, -t)))
