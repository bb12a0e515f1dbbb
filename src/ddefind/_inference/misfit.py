"""How far a fit is from the data, compared with the scatter of neighbouring values.

Residuals much larger than that scatter mean that the search missed the best minimum, or
that the model misses something. What the data determine cannot be told from such a
fit."""

from typing import NamedTuple

import numpy as np

from .._data.smoothing import rough_noise
from .covariance import Uncertainty

# With fewer values the scatter says little.
_FEWEST = 12
# Both are estimates of the noise. Chance keeps their ratio below the first number plus
# the second one over the root of the number of values.
_CHANCE, _CHANCE_OF_FEW = 1.2, 4.0


class Misfit(NamedTuple):
    """A quantity whose residuals are larger than the scatter of neighbouring values,
    and by which factor."""

    quantity: str
    factor: float


def find_misfit(uncertainty: Uncertainty) -> Misfit | None:
    """The quantity that is worst in this respect, if there is any."""
    data, best = uncertainty.setup.data, uncertainty.search_result.best
    count = np.isfinite(data.x).sum(axis=0)
    scatter = rough_noise(data)
    ratio = np.sqrt(np.maximum(best.squares[0], 0.0) / np.maximum(count, 1)) / scatter
    found = [
        Misfit(name, float(factor))
        for name, factor, n in zip(data.names, ratio, count)
        if n >= _FEWEST and factor > _CHANCE + _CHANCE_OF_FEW / np.sqrt(n)
    ]
    return max(found, key=lambda each: each.factor, default=None)
