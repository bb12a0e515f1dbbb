"""How good a fit is, and the best fit that is known for the same data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

import ddefind as dd
from ddefind._search.batches import refine

# Random starts lie within this factor of the truth.
_FACTOR = 10.0
# A fit has found the best minimum if its chi-square is at most so much above it.
TOLERANCE = 0.1


@final
@dataclass(frozen=True)
class Record:
    """A model, a record of it, the true values, and the bounds that the user gives."""

    model: dd.Equation
    data: dd.Data
    truth: Mapping[str, float]
    bounds: Mapping[str, dd.Parameter]


def chi_square(fit: dd.Estimate) -> float:
    r"""The chi-square of a fit or, where the noise is not given, twice the negative
    logarithm of its likelihood, up to a constant: $\sum_k n_k \log S_k$ with the sum of
    squares $S_k$ of the $n_k$ values of each quantity.

    Both change by the same amount near a minimum."""
    residuals = fit.data.x - fit.fitted
    if not np.all(np.isfinite(residuals) == np.isfinite(fit.data.x)):
        return float("inf")
    if fit.data.sd is not None:
        return float(np.nansum((residuals / fit.data.sd) ** 2))
    count = np.isfinite(residuals).sum(axis=0)
    squares = np.nansum(residuals**2, axis=0)
    is_measured = count > 0
    return float(np.sum(count[is_measured] * np.log(squares[is_measured])))


def fit_from(record: Record, values: Mapping[str, float]) -> dd.Estimate:
    """The minimum nearest to `values`. Delays are sought within a factor of ten of
    them, and not in the default range."""
    settings = {}
    for name, value in values.items():
        given = record.bounds.get(name)
        lower = None if given is None else given.lower
        settings[name] = dd.Parameter(value, lower=lower)
        if name.startswith("tau"):
            settings[name] = dd.Parameter(value, lower=value / 10, upper=value * 10)
    return dd.fit(
        record.model,
        record.data,
        parameters=settings,
        optimizer=dd.LeastSquares(starts=1),
        intervals=False,
        progress=False,
    )


def best_known(record: Record, random_starts: int = 0, seed: int = 0) -> float:
    """The lowest chi-square of least squares from the truth and, if asked for, from
    `random_starts` random starts around it."""
    near = fit_from(record, record.truth)
    found = [chi_square(near)]
    if random_starts:
        truth = np.array([record.truth[name] for name in near.names])
        random = np.random.default_rng(seed)
        factors = _FACTOR ** random.uniform(-1, 1, (random_starts, len(truth)))
        starts = np.clip(truth * factors, near.setup.lower, near.setup.upper)
        steps = near.setup.steps(starts)
        fits = refine(near.setup, starts, near.search_result.points, steps)
        best = fits.theta[int(np.argmin(fits.loss))]
        again = fit_from(record, dict(zip(near.names, best.tolist())))
        found.append(chi_square(again))
    return float(np.nanmin(found))
