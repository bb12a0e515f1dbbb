"""The fits of many searches: a row of fits for each data set, as arrays."""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from .._least_squares.levenberg_marquardt import (
    LIMIT,
    STUCK,
)


@final
@dataclass(frozen=True)
class Fits:
    """Fits of many data sets, [sets, rows, ...]: what `RefinedFits` holds for one. A
    row that does not exist has an infinite loss, and no starts."""

    theta: np.ndarray
    gram: np.ndarray
    squares: np.ndarray
    evaluations: np.ndarray
    status: np.ndarray
    n: np.ndarray
    starts: np.ndarray

    @property
    def loss(self) -> np.ndarray:
        """The weighted sum of squares of each fit; infinite where it is not finite."""
        loss = self.gram[..., 0, 0]
        return np.where(np.isfinite(loss), loss, np.inf)

    @property
    def exists(self) -> np.ndarray:
        return self.status >= 0

    @property
    def is_unsettled(self) -> np.ndarray:
        """Which fits have ended without convergence."""
        return np.isin(self.status, (STUCK, LIMIT))

    def pick(self, rows: np.ndarray) -> "Fits":
        """The fits with the row numbers `rows` [sets, rows]."""
        sets = np.arange(len(rows))[:, None]
        return Fits(*(array[sets, rows] for array in vars(self).values()))

    def sets(self, chosen: Any) -> "Fits":
        """The fits of some of the data sets."""
        return Fits(*(array[chosen] for array in vars(self).values()))

    def where(self, kept: np.ndarray) -> "Fits":
        """The fits that are `kept` [sets, rows]; the others do not exist."""
        gram = self.gram.copy()
        gram[~kept] = np.inf
        return Fits(
            self.theta,
            gram,
            self.squares,
            self.evaluations,
            np.where(kept, self.status, -1),
            self.n,
            np.where(kept, self.starts, 0),
        )

    def join(self, other: "Fits") -> "Fits":
        """These fits, followed by those of `other`."""
        pairs = zip(vars(self).values(), vars(other).values())
        return Fits(*(np.concatenate(pair, axis=1) for pair in pairs))

    def replace_sets(self, chosen: np.ndarray, other: "Fits") -> "Fits":
        """The fits with those of `other` for the data sets that are `chosen`."""
        arrays = [array.copy() for array in vars(self).values()]
        for array, new in zip(arrays, vars(other).values()):
            array[chosen] = new
        return Fits(*arrays)

    def without_starts(self) -> "Fits":
        """The same fits, which no start has led to."""
        return replace(self, starts=0 * self.starts)
