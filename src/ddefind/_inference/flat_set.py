"""The free values at which the model fits the data exactly as well as at the estimate.

Where the information matrix is singular, the data may leave a direction free; or it is
singular at the estimate only, as where two rates coincide. Finite moves tell: the
suspected values are changed by about a half, all are fitted again, and the places where
the sum of squares is that of the best fit make up the flat set. If the suspicion is
right, they lie on a curve or a surface that goes far away from the estimate."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._least_squares.batches import RefinedFits, refine
from .covariance import Uncertainty
from .formulas import varying

# How many moves are tried.
_MOVES = 32
# Values are multiplied or divided by up to the exponential of this; those that are
# small in comparison with their natural size are changed by a share of that.
_CHANGE, _SMALL = 0.7, 0.1
_MAX_EVALUATIONS = 200
# The sum of squares is the same if chi-square rises by less than this, or the sum by
# less than this share.
_SAME_CHI_SQUARE, _SAME_LOSS = 1e-3, 1e-7
# A value that moves by less than this share of its natural size hardly moves.
_TINY = 1e-3
# A set of fewer places than this says nothing.
_FEWEST = 8


class FlatSet(NamedTuple):
    """`places` [places, p] of the flat set, the estimate first; `typical`, the
    uncertainty at one that has as many undetermined directions as most; and the natural
    `sizes` [p] of the values."""

    places: np.ndarray
    typical: Uncertainty
    sizes: np.ndarray

    def varying(self, group: Sequence[int]) -> list[int]:
        """Those of a group that vary over the places by a noticeable share of their
        value, and not only in a corner where they are tiny."""
        spread = np.ptp(self.places, axis=0)
        moved = varying(self.places, group)
        return [j for j in moved if spread[j] > _TINY * self.sizes[j]]


def flat_set(uncertainty: Uncertainty) -> FlatSet | None:
    """The flat set around the estimate; None if the estimate is an isolated minimum.

    Without undetermined directions nothing is computed."""
    suspected = np.any(np.abs(uncertainty.undetermined) > 1e-4, axis=1)
    if not np.any(suspected) or uncertainty.noise_unknown:
        return None
    fits = _fitted_again(uncertainty, suspected)
    best = uncertainty.search_result.best
    allowed = _SAME_CHI_SQUARE * uncertainty.residual_variance
    allowed = max(allowed, _SAME_LOSS * best.loss[0]) + best.rounding[0]
    fits = fits.take(np.abs(fits.loss - best.loss[0]) < allowed)
    if len(fits.loss) < _FEWEST:
        return None
    result = uncertainty.search_result
    there = [
        replace(uncertainty, search_result=replace(result, best=fits.take([row])))
        for row in range(len(fits.loss))
    ]
    counts = [each.undetermined.shape[1] for each in there]
    most_common = int(np.argmax(np.bincount(counts)))
    if most_common == 0:
        return None
    places = np.concatenate([uncertainty.theta[None], fits.theta])
    sizes = uncertainty.setup.natural_sizes
    return FlatSet(places, there[counts.index(most_common)], sizes)


def _fitted_again(uncertainty: Uncertainty, suspected: np.ndarray) -> RefinedFits:
    """Fits from places at which the suspected values were changed at random."""
    setup, theta = uncertainty.setup, uncertainty.theta
    random = np.random.default_rng(0)
    sizes = setup.natural_sizes
    changes = random.uniform(-_CHANGE, _CHANGE, (_MOVES, len(theta)))
    is_small = np.abs(theta) < _SMALL * sizes
    moved = np.where(is_small, theta + sizes * changes, theta * np.exp(changes))
    starts = np.clip(np.where(suspected, moved, theta), setup.lower, setup.upper)
    n = setup.steps_near(starts, theta, int(uncertainty.search_result.best.n[0]))
    points = uncertainty.search_result.points
    return refine(setup, starts, points, n, _MAX_EVALUATIONS)
