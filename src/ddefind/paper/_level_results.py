"""The results of one model at one noise level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

import ddefind as dd

from .._util.files import nonfinite_as_none
from ._experiments import EXPERIMENTS, PROTOCOLS, REPEATS, PaperExperiment

# Significant digits of a saved estimate: far more than its standard deviation
# justifies, and few enough for small files.
_DIGITS = 8


@final
@dataclass(frozen=True, eq=False)
class LevelResults:
    """The estimates of one model at one noise level, and what they are compared with.

    `estimates` has a row for each noisy data set and a column for each parameter, in
    the order of `experiment.parameters`. All other arrays have one entry for each
    parameter. NaN means that there is no number: the paper prints none, or the data do
    not determine the parameter.

    - `protocol`, `seed`: how the parameters were learned, and the seed of the noise.
    - `statuses`: how many of the fits ended with each status.
    - `seconds`: the time that the fits took.
    """

    experiment: PaperExperiment
    noise: float
    protocol: str
    seed: int
    estimates: np.ndarray
    statuses: Mapping[str, int]
    seconds: float

    @property
    def model(self) -> str:
        return self.experiment.model

    @property
    def repeats(self) -> int:
        """The number of noisy data sets."""
        return len(self.estimates)

    @property
    def true(self) -> np.ndarray:
        """The true values, with which the data were made."""
        values = dd.parameter_values(self.experiment.true)
        return np.array([values[name] for name in self.experiment.names.values()])

    @property
    def mean(self) -> np.ndarray:
        return np.mean(self.estimates, axis=0)

    @property
    def sd(self) -> np.ndarray:
        """The standard deviation of the estimates; NaN for a single data set."""
        if self.repeats < 2:
            return np.full(self.estimates.shape[1], np.nan)
        return np.std(self.estimates, axis=0, ddof=1)

    @property
    def rmse(self) -> np.ndarray:
        """The root mean square error of the estimates."""
        return np.sqrt(np.mean((self.estimates - self.true) ** 2, axis=0))

    @property
    def cramer_rao(self) -> np.ndarray:
        """The smallest standard deviation that unbiased estimates can have."""
        return self.experiment.cramer_rao(self.noise, exact=self.is_exact)

    @property
    def is_exact(self) -> bool:
        """Whether the data come from the exact solution (and not from RK2)."""
        return PROTOCOLS[self.protocol].is_ours

    def data(self, repeat: int) -> dd.Data:
        """Draw again the noisy data set that was fitted in a repeat."""
        exact = self.is_exact
        return self.experiment.data(self.noise, repeat, self.seed, exact=exact)

    @property
    def paper_mean(self) -> np.ndarray:
        """The mean that the paper prints."""
        return self._printed("mean")

    @property
    def paper_sd(self) -> np.ndarray:
        """The standard deviation that the paper prints."""
        return self._printed("sd")

    @property
    def z(self) -> np.ndarray:
        """Our mean minus the paper's, over the standard error of the difference."""
        variance = self.sd**2 / self.repeats + self.paper_sd**2 / REPEATS
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.mean - self.paper_mean) / np.sqrt(variance)

    def rms_z(self, without: Sequence[str] = ()) -> float:
        """Compute the root mean square of z over the parameters that have one, except
        those in `without`. It is about 1 if our estimates and the paper's differ by the
        noise of their data sets alone."""
        kept = [name not in without for name in self.experiment.parameters]
        z = self.z[np.array(kept) & np.isfinite(self.z)]
        return float(np.sqrt(np.mean(z**2))) if len(z) else float("nan")

    def _printed(self, column: str) -> np.ndarray:
        """Return a column of the paper's table, all NaN where there is no table."""
        table = self.experiment.published(self.noise)
        missing = np.full(len(self.experiment.names), np.nan)
        return missing if table is None else getattr(table, column)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings for JSON. What is not finite is None."""
        arrays = ("true", "estimates", "mean", "sd", "rmse", "cramer_rao")
        arrays += ("paper_mean", "paper_sd", "z")
        return {
            "model": self.model,
            "noise": self.noise,
            "protocol": self.protocol,
            "repeats": self.repeats,
            "seed": self.seed,
            "parameters": list(self.experiment.parameters),
            **{
                name: nonfinite_as_none(np.vectorize(rounded)(getattr(self, name)))
                for name in arrays
            },
            "statuses": dict(self.statuses),
            "seconds": round(self.seconds, 3),
        }

    @staticmethod
    def from_dict(saved: Mapping[str, Any]) -> "LevelResults":
        """Return the results that `to_dict` wrote."""
        return LevelResults(
            experiment=EXPERIMENTS[saved["model"]],
            noise=float(saved["noise"]),
            protocol=str(saved["protocol"]),
            seed=int(saved["seed"]),
            estimates=np.array(saved["estimates"], dtype=float),
            statuses=dict(saved["statuses"]),
            seconds=float(saved["seconds"]),
        )


def rounded(x: float) -> float:
    """Round a number to the digits that are saved."""
    return float(f"{x:.{_DIGITS}g}")
