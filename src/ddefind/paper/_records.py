"""What the experiments give: a record for each model and noise level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from .._data.data import Data
from .._problem.parameters import parameter_values
from ._experiments import EXPERIMENTS, PROTOCOLS, REPEATS, Experiment

# Digits kept of an estimate: far more than its spread deserves, and small files.
_DIGITS = 8


@final
@dataclass(frozen=True, eq=False)
class Record:
    """The estimates of one model at one noise level, and what they are compared with.

    Arrays have an entry for each of the experiment's parameters (`estimates` a row for
    each repeat). NaN: not available.
    """

    experiment: Experiment
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
        return len(self.estimates)

    @property
    def true(self) -> np.ndarray:
        values = parameter_values(self.experiment.true)
        return np.array([values[name] for name in self.experiment.names.values()])

    @property
    def mean(self) -> np.ndarray:
        return np.mean(self.estimates, axis=0)

    @property
    def sd(self) -> np.ndarray:
        if self.repeats < 2:
            return np.full(self.estimates.shape[1], np.nan)
        return np.std(self.estimates, axis=0, ddof=1)

    @property
    def rmse(self) -> np.ndarray:
        return np.sqrt(np.mean((self.estimates - self.true) ** 2, axis=0))

    @property
    def cramer_rao(self) -> np.ndarray:
        return self.experiment.cramer_rao(self.noise, exact=self.is_exact)

    @property
    def is_exact(self) -> bool:
        """Whether the data come from the exact solution."""
        return PROTOCOLS[self.protocol].is_ours

    def data(self, repeat: int) -> Data:
        """What was fitted."""
        exact = self.is_exact
        return self.experiment.data(self.noise, repeat, self.seed, exact=exact)

    @property
    def paper_mean(self) -> np.ndarray:
        return self._printed("mean")

    @property
    def paper_sd(self) -> np.ndarray:
        return self._printed("sd")

    @property
    def z(self) -> np.ndarray:
        """Our mean less the paper's, over the standard error of the difference."""
        variance = self.sd**2 / self.repeats + self.paper_sd**2 / REPEATS
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.mean - self.paper_mean) / np.sqrt(variance)

    def rms_z(self, without: Sequence[str] = ()) -> float:
        """The root mean square of z, over the parameters that have one."""
        kept = [name not in without for name in self.experiment.parameters]
        z = self.z[np.array(kept) & np.isfinite(self.z)]
        return float(np.sqrt(np.mean(z**2))) if len(z) else float("nan")

    def _printed(self, what: str) -> np.ndarray:
        table = self.experiment.published(self.noise)
        missing = np.full(len(self.experiment.names), np.nan)
        return missing if table is None else getattr(table, what)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        arrays = ("true", "estimates", "mean", "sd", "rmse", "cramer_rao")
        arrays += ("paper_mean", "paper_sd", "z")
        return {
            "model": self.model,
            "noise": self.noise,
            "protocol": self.protocol,
            "repeats": self.repeats,
            "seed": self.seed,
            "parameters": list(self.experiment.parameters),
            **{name: _plain(getattr(self, name)) for name in arrays},
            "statuses": dict(self.statuses),
            "seconds": round(self.seconds, 3),
        }

    @staticmethod
    def from_dict(saved: Mapping[str, Any]) -> "Record":
        """The record that `to_dict` wrote."""
        return Record(
            experiment=EXPERIMENTS[saved["model"]],
            noise=float(saved["noise"]),
            protocol=str(saved["protocol"]),
            seed=int(saved["seed"]),
            estimates=np.array(saved["estimates"], dtype=float),
            statuses=dict(saved["statuses"]),
            seconds=float(saved["seconds"]),
        )


def _plain(array: np.ndarray) -> Any:
    """Nested lists of rounded numbers, None for what is not finite."""
    if array.ndim > 1:
        return [_plain(row) for row in array]
    finite = np.isfinite(array)
    return [rounded(x) if ok else None for x, ok in zip(array.tolist(), finite)]


def rounded(x: float) -> float:
    """A number as it is saved."""
    return float(f"{x:.{_DIGITS}g}")
