"""The bootstrap: how the estimates scatter over simulated repetitions of the data."""

from dataclasses import dataclass, field
from typing import Literal, final

import numpy as np

from .._problem.network_weights import Networks, count_weights, named_indices
from .._search.batches import refine
from .._search.levenberg_marquardt import LIMIT, NO_START, STUCK
from .._util.errors import check_level
from .._util.shown import (
    AbstractShown,
    Cells,
    Shown,
    decimals,
    format_interval,
    format_number,
)
from .covariance import Uncertainty

Kind = Literal["parametric", "residual"]


@final
@dataclass(frozen=True)
class Bootstrap(AbstractShown):
    """Estimates from simulated data sets.

    `values` has a row for each data set and a column for each of the parameters
    `names`. `failed` is the number of fits that did not converge; they are left out.
    `undetermined` names the parameters that the data do not determine: their fits stay
    close to where they start, so that their scatter has no meaning. The weights of
    `networks` are not printed."""

    names: tuple[str, ...]
    estimate: np.ndarray
    values: np.ndarray
    failed: int
    kind: str
    undetermined: tuple[str, ...]
    networks: Networks = field(default_factory=dict)

    @property
    def standard_errors(self) -> dict[str, float]:
        """The standard deviation of each parameter's estimates."""
        return dict(zip(self.names, np.std(self.values, axis=0, ddof=1).tolist()))

    def intervals(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Return percentile intervals; infinite for undetermined parameters."""
        check_level(level)
        tails = [0.5 * (1 - level), 0.5 * (1 + level)]
        percentiles = np.quantile(self.values, tails, axis=0).T.tolist()
        return {
            name: (-np.inf, np.inf) if name in self.undetermined else (low, high)
            for name, (low, high) in zip(self.names, percentiles)
        }

    def shown(self) -> Shown:
        """Return the table, and how many fits there are."""
        rows = []
        intervals, mean = self.intervals(), np.mean(self.values, axis=0)
        errors = self.standard_errors
        for j in named_indices(len(self.names), self.networks):
            name, sd = self.names[j], errors[self.names[j]]
            digits = decimals(self.estimate[j], sd)
            estimate = format_number(self.estimate[j], digits)
            if name in self.undetermined:
                rows.append((name, estimate, "-", "-", "", "not determined"))
                continue
            ends = format_interval(*intervals[name], digits)
            rows.append(
                (name, estimate, format_number(mean[j], digits), f"{sd:.2g}", ends, "")
            )
        header = "parameter", "estimate", "mean", "std. dev.", "95% interval", ""
        failed = f"; {self.failed} more did not converge" if self.failed else ""
        about = f"{self.kind.capitalize()} bootstrap, {len(self.values)} fits{failed}."
        table = Cells(header, rows, left=(0, 4, 5))
        return Shown([table, *count_weights(self.networks), "", about])


def bootstrap(
    uncertainty: Uncertainty,
    fitted: np.ndarray,
    undetermined: tuple[str, ...],
    n: int,
    kind: Kind,
    seed: int,
) -> Bootstrap:
    """Fit `n` data sets that are simulated by adding noise to the fitted trajectory.

    `fitted` is the model at the times of the data, of the shape of `data.x`. Each fit
    starts at the estimate."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 2:
        raise ValueError(f"`n` must be a whole number from 2 on, but got {n!r}.")
    if kind not in ("parametric", "residual"):
        raise ValueError(f'`kind` must be "parametric" or "residual", not {kind!r}.')
    setup, best = uncertainty.setup, uncertainty.search_result.best
    random = np.random.default_rng(seed)
    points = setup.misfit.simulated(uncertainty, fitted, n, kind, random)
    theta = np.repeat(best.theta, n, axis=0)
    fits = refine(setup, theta, points, np.repeat(best.n, n))
    failed = np.isin(fits.status, (LIMIT, STUCK, NO_START)) | ~np.isfinite(fits.loss)
    if np.sum(~failed) < 2:
        raise RuntimeError(
            f"Of {n} fits {failed.sum()} did not converge, which leaves too few for a "
            "bootstrap. Bound the parameters, or fix those that the data do not "
            "determine."
        )
    return Bootstrap(
        setup.model.free.names,
        uncertainty.theta,
        fits.theta[~failed],
        int(failed.sum()),
        kind,
        undetermined,
    )
