"""Profile intervals: confidence intervals that cover all minima which fit the data.

`profiles` follows the profile likelihood from the best fit, and from other minima that
tie with it: those whose chi-square exceeds that of the best by so little that the data
do not exclude them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from .._least_squares.batches import refine
from .._least_squares.ranking import slow_frequency_limit
from .._least_squares.same_minimum import first_at_minimum, is_same_answer
from .._least_squares.setup import FitSetup
from .covariance import Uncertainty
from .exchanges import Exchange, find_exchanges, nearest_image
from .profile import Profile, unknown_profile
from .profile_end import Optimum
from .profile_likelihood import FoundEnds, follow_profiles

# The largest number of other minima whose profiles are followed.
_MAX_TIED_MINIMA = 4
# If a history has frequencies, each frequency is a further chance to fit the noise by
# accident: the chi-square up to which other minima tie with the best grows by this.
_FREQUENCY_ALLOWANCE = 1.0

# A minimum that ties with the best: by how much its chi-square is higher, and its free
# values.
Tie: TypeAlias = tuple[float, np.ndarray]


def profiles(
    uncertainty: Uncertainty,
    level: float = 0.95,
    which: Sequence[int] | None = None,
    found: FoundEnds | None = None,
    ties: Sequence[Tie] | None = None,
) -> list[Profile]:
    """The profiles of the free values with the indices `which` (by default of all),
    over all minima that tie with the best, with intervals at `level`. `found` is told
    how many ends are found; `ties` are those of `tied_minima`, if they are known.

    Profiles that are computed together inform each other: a good fit that one of them
    comes across can widen the interval of another. The profile of one parameter alone
    costs less, and can differ slightly.

    A direction without influence is only a suspicion, because it may be so at the
    estimate alone: such profiles are followed like all others. None is followed where
    the search did not converge, or the noise is not known."""
    names, theta = uncertainty.setup.model.free.names, uncertainty.theta
    indices = range(len(names)) if which is None else which
    q = uncertainty.profile_quantile(level)
    if uncertainty.noise_unknown or not uncertainty.has_converged:
        return [unknown_profile(names[j], theta, j, q) for j in indices]
    setup, optimum = slow_setup(uncertainty), _optimum(uncertainty)
    if ties is None:
        ties = tied_minima(uncertainty, find_exchanges(uncertainty), level)
    tied = [(np.sqrt(max(rise, 0.0)), theta) for rise, theta in ties]
    return follow_profiles(
        setup,
        uncertainty.search_result.points,
        optimum,
        q,
        list(indices),
        tied,
        _tied_quantile(uncertainty, q),
        found,
    )


def tied_minima(
    uncertainty: Uncertainty, exchanges: Sequence[Exchange], level: float
) -> list[Tie]:
    """Other minima within the confidence region of the given `level`: by how much their
    chi-square exceeds that of the best, and their free values.

    They are fitted with the same steps and bounds as the best. The difference is
    negative for a minimum that the search ranked lower because of a fast history or a
    long delay.

    Of a minimum and its mirror images under `exchanges` of delays, only the one nearest
    to the best counts. The best fit's own images do not tie with it."""
    setup, optimum = slow_setup(uncertainty), _optimum(uncertainty)
    search_result = uncertainty.search_result
    residual_variance = uncertainty.residual_variance
    q = _tied_quantile(uncertainty, uncertainty.profile_quantile(level))
    candidates = [
        nearest_image(uncertainty, exchanges, minimum.theta)
        for minimum in search_result.minima[1 : 1 + 2 * _MAX_TIED_MINIMA]
        if minimum.loss < optimum.loss + 2 * q**2 * residual_variance
        and np.all(minimum.theta <= setup.upper)
    ]
    if not candidates:
        return []
    n = np.full(len(candidates), optimum.n)
    fits = refine(setup, np.array(candidates), search_result.points, n)
    # Some of them end up at the best fit itself, or at the same minimum as others.
    fits = search_result.best.join(fits.take(np.argsort(fits.loss)))
    unit = np.array([residual_variance])
    first = first_at_minimum(fits.theta[None], fits.loss[None], fits.gram[None], unit)
    difference = fits.loss - optimum.loss
    is_other = first[0] == np.arange(len(fits.loss))
    is_other &= np.array([optimum.r(loss) < q for loss in fits.loss.tolist()])
    if uncertainty.has_curve:
        is_other &= ~is_same_answer(difference, unit)
    rows = [row for row in np.flatnonzero(is_other).tolist() if row > 0]
    rise = difference / residual_variance
    return [(float(rise[row]), fits.theta[row]) for row in rows[:_MAX_TIED_MINIMA]]


def slow_setup(uncertainty: Uncertainty) -> FitSetup:
    """The setup with the frequencies of histories limited to slow ones, unless the best
    fit itself has a faster one.

    Fast histories fit any data nearly as well (see `_least_squares/ranking.py`), and
    would make every interval too wide."""
    setup, theta = uncertainty.setup, uncertainty.theta
    highest = slow_frequency_limit(setup, theta[None])[0]
    is_limited = setup.is_frequency & (theta < highest)
    upper = np.where(is_limited, np.minimum(setup.upper, highest), setup.upper)
    return replace(setup, upper=upper)


def _optimum(uncertainty: Uncertainty) -> Optimum:
    """The best fit, as the profiles need it."""
    best, factor = uncertainty.search_result.best, uncertainty.covariance_factor
    return Optimum(
        uncertainty.theta,
        int(best.n[0]),
        float(best.loss[0]),
        uncertainty.residual_variance,
        factor @ factor.T,
        uncertainty.setup.natural_sizes,
    )


def _tied_quantile(uncertainty: Uncertainty, q: float) -> float:
    """The quantile below which another minimum ties with the best, where `q` is that of
    the best."""
    allowance = _FREQUENCY_ALLOWANCE * uncertainty.setup.is_frequency.any()
    return np.sqrt(q**2 + allowance)
