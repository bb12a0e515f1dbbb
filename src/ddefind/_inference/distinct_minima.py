"""The minima of a search that are different answers, and not images of one another."""

import numpy as np

from .._least_squares.search import Minimum
from .covariance import Uncertainty
from .profile_intervals import SAME_CURVE


def distinct_minima(uncertainty: Uncertainty) -> list[Minimum]:
    """The distinct minima, best first. If delays can be exchanged, those that have the
    values of a better one in another order count as that one. If the data leave a
    direction free, those with the same sum of squares are places on one curve."""
    has_curve = bool(np.any(uncertainty.without_influence))
    same = SAME_CURVE * uncertainty.residual_variance
    kept: list[Minimum] = []
    for minimum in uncertainty.search_result.minima:
        values = np.sort(minimum.theta)
        for place, other in enumerate(kept):
            is_image = np.allclose(values, np.sort(other.theta), rtol=1e-3)
            if (has_curve or is_image) and abs(minimum.loss - other.loss) < same:
                kept[place] = other._replace(starts=other.starts + minimum.starts)
                break
        else:
            kept.append(minimum)
    return kept
