"""Profile intervals: confidence intervals that cover all minima which fit the data.

`profiles` follows the profile likelihood from the best fit, and from other minima that
tie with it: their chi-square is so little higher that the data do not exclude them.

Delays can be *exchanged* if the model does not distinguish them. In
`x' = a * x(t - tau_1) + b * x(t - tau_2)`, nothing measured changes if `tau_1` and
`tau_2` are exchanged together with `a` and `b`: every fit has a mirror image. An
`Exchange` is found by evaluating the sum of squares at exchanged values, at the
estimate and near it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np

from .._problem.free_parameters import FreeParameters
from .._search.batches import Minimum, refine, slow_frequency_limit
from .._search.same_minimum import (
    first_at_minimum,
    is_mirror_image,
    is_same_answer,
    predicted_rise,
)
from .._search.setup import FitSetup
from .._util.shown import listed
from .covariance import Uncertainty
from .profile import FoundEnds, Optimum, Profile, follow_profiles, unknown_profile

# The largest number of pairs that are exchanged together with the delays, and the
# largest number of exchanges that are tried.
_MOST_FURTHER_PAIRS, _MOST_TRIED = 2, 256
# The other place differs from the estimate by up to this share of each value.
_NEAR = 0.05
# Sums of squares are the same up to this share.
_SAME_LOSS = 1e-9
# Values coincide if they differ by less than this share.
_COINCIDENT = 1e-3
# The largest number of mirror images of a fit.
_MOST_IMAGES = 24
# The largest number of other minima whose profiles are followed.
_MAX_TIED_MINIMA = 4
# If a history has frequencies, each frequency is a further chance to fit the noise by
# accident: the chi-square up to which other minima tie with the best grows by this.
_FREQUENCY_ALLOWANCE = 1.0

# A minimum that ties with the best: by how much its chi-square is higher, and its free
# values.
Tie: TypeAlias = tuple[float, np.ndarray]


class Exchange(NamedTuple):
    """Pairs of free values that can be exchanged together, delays first."""

    pairs: tuple[tuple[int, int], ...]

    def apply(self, theta: np.ndarray) -> np.ndarray:
        """Exchange the free values; `theta` has them along its last axis."""
        exchanged = np.array(theta)
        for one, other in self.pairs:
            exchanged[..., [one, other]] = theta[..., [other, one]]
        return exchanged


def delay_parameters(free: FreeParameters) -> tuple[int, ...]:
    """Return the indices of the free values that delays are computed from."""
    found = {
        j
        for array in free.arrays
        if array.name == "tau" or array.name.startswith(("tau.", "tau["))
        for j in free.source[array.first : array.first + array.size]
    }
    return tuple(sorted(found - {-1}))


def find_exchanges(uncertainty: Uncertainty) -> list[Exchange]:
    """Find for each pair of delays the exchange with the fewest further pairs, if there
    is one.

    Delays without influence are left out. With less than two free delays nothing is
    computed."""
    setup, theta = uncertainty.setup, uncertainty.theta
    if not np.isfinite(uncertainty.search_result.best.loss[0]):
        return []
    of_delays, norms = delay_parameters(setup.model.free), uncertainty.sensitivity_norms
    delays = [j for j in of_delays if norms[j] > 0]
    if len(delays) < 2:
        return []
    sizes = np.random.default_rng(0).uniform(-_NEAR, _NEAR, len(theta))
    near = np.clip(theta * (1 + sizes), setup.lower, setup.upper)
    free = np.flatnonzero(~np.asarray(setup.is_history)).tolist()
    tried = []
    for exchange in _candidates(delays, [j for j in free if j not in of_delays]):
        exchanged = exchange.apply(np.stack([theta, near]))
        if np.all((setup.lower <= exchanged) & (exchanged <= setup.upper)):
            tried.append(exchange)
    for place in (near, theta):
        tried = _unchanged(uncertainty, place, tried)
    simplest: dict[tuple[int, int], Exchange] = {}
    for exchange in tried:
        simplest.setdefault(exchange.pairs[0], exchange)
    return list(simplest.values())


def _candidates(delays: Sequence[int], others: Sequence[int]) -> list[Exchange]:
    """Return exchanges of two delays and further pairs, the smallest first."""
    candidates: list[Exchange] = []
    for number in range(1 + _MOST_FURTHER_PAIRS):
        more = [
            Exchange((pair, *further))
            for pair in combinations(delays, 2)
            for further in combinations(list(combinations(others, 2)), number)
            if len({j for each in further for j in each}) == 2 * number
        ]
        if len(candidates) + len(more) > _MOST_TRIED:
            break
        candidates += more
    return candidates


def _unchanged(
    uncertainty: Uncertainty, theta: np.ndarray, tried: list[Exchange]
) -> list[Exchange]:
    """Return the exchanges that do not change the sum of squares at `theta`."""
    if not tried:
        return []
    exchanged = [exchange.apply(theta) for exchange in tried]
    loss, *others = uncertainty.losses(np.array([theta, *exchanged])).tolist()
    allowed = _SAME_LOSS * loss + float(uncertainty.search_result.best.rounding[0])
    return [each for each, other in zip(tried, others) if abs(other - loss) <= allowed]


def nearest_image(
    uncertainty: Uncertainty, exchanges: Sequence[Exchange], theta: np.ndarray
) -> np.ndarray:
    """Return the mirror image of the free values `theta` nearest to the estimate, in
    the quadratic approximation of the sum of squares there."""
    images = [theta]
    for image in images:
        for exchange in exchanges:
            other = exchange.apply(image)
            is_new = not any(np.array_equal(other, known) for known in images)
            if is_new and len(images) < _MOST_IMAGES:
                images.append(other)
    gram, steps = uncertainty.search_result.best.gram, images - uncertainty.theta
    return images[int(np.argmin(predicted_rise(gram, steps)))]


def distinct_minima(uncertainty: Uncertainty) -> list[Minimum]:
    """Return the minima that are different answers (`same_minimum.py`)."""
    unit, setup = uncertainty.residual_variance, uncertainty.setup
    delays = delay_parameters(setup.model.free)
    kept: list[Minimum] = []
    for minimum in uncertainty.search_result.minima:
        for place, other in enumerate(kept):
            is_one = uncertainty.has_curve or is_mirror_image(
                minimum.theta, other.theta, delays, setup.is_history
            )
            if is_one and is_same_answer(minimum.loss - other.loss, unit):
                kept[place] = other._replace(starts=other.starts + minimum.starts)
                break
        else:
            kept.append(minimum)
    return kept


def exchange_notes(
    uncertainty: Uncertainty, exchanges: Sequence[Exchange]
) -> dict[int, str]:
    """Return a sentence for each delay that can be exchanged. Delays that can all be
    exchanged with each other share one.

    Where they coincide, the sum of squares has no slope for their difference, whether
    the data determine it or not: only the profile can tell."""
    names, theta = uncertainty.setup.model.free.names, uncertainty.theta
    coincident = {
        j
        for exchange in exchanges
        if np.allclose(exchange.apply(theta), theta, rtol=_COINCIDENT, atol=0.0)
        for pair in exchange.pairs
        for j in pair
        if uncertainty.without_influence[j]
    }
    notes: dict[int, str] = {}
    for delays in _connected(exchange.pairs[0] for exchange in exchanges):
        further = _connected(
            pair
            for exchange in exchanges
            if exchange.pairs[0][0] in delays
            for pair in exchange.pairs[1:]
        )
        together = ", ".join(_listed(group, names) for group in further)
        together = f" (together with {together})" if together else ""
        why = (
            "they coincide in the best fit, and have no standard errors there."
            if coincident.intersection(delays)
            else "the data cannot tell which is which, and the table shows one order."
        )
        sentence = f"{_listed(delays, names)} can be exchanged{together}: {why}"
        notes.update(dict.fromkeys(delays, sentence))
    return notes


def _connected(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the groups of indices that the pairs connect, each sorted."""
    found: list[set[int]] = []
    for pair in pairs:
        touched = [group for group in found if group & set(pair)]
        found = [group for group in found if group not in touched]
        found.append(set(pair).union(*touched))
    return sorted(sorted(group) for group in found)


def _listed(group: Sequence[int], names: Sequence[str]) -> str:
    return listed([f"`{names[j]}`" for j in group])


def profiles(
    uncertainty: Uncertainty,
    level: float = 0.95,
    which: Sequence[int] | None = None,
    found: FoundEnds | None = None,
    ties: Sequence[Tie] | None = None,
) -> list[Profile]:
    """Follow the profiles of the free values with the indices `which` (by default all),
    over all minima that tie with the best, with intervals at `level`. `found` is called
    with the number of ends found; `ties` are the `tied_minima`, if they are known.

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
    if ties is None:
        ties = tied_minima(uncertainty, find_exchanges(uncertainty), level)
    tied = [(np.sqrt(max(rise, 0.0)), theta) for rise, theta in ties]
    return follow_profiles(
        slow_setup(uncertainty),
        uncertainty.search_result.points,
        _optimum(uncertainty),
        q,
        list(indices),
        tied,
        _tied_quantile(uncertainty, q),
        found,
    )


def tied_minima(
    uncertainty: Uncertainty, exchanges: Sequence[Exchange], level: float
) -> list[Tie]:
    """Find other minima within the confidence region of the given `level`, fitted with
    the same steps and bounds as the best.

    Chi-square may be lower for a minimum that the search ranked lower because of a fast
    history or a long delay. Of a minimum and its mirror images under `exchanges` of
    delays, only the one nearest to the best counts; mirror images of the best fit do
    not tie with it."""
    setup, optimum = slow_setup(uncertainty), _optimum(uncertainty)
    search_result, variance = uncertainty.search_result, uncertainty.residual_variance
    q = _tied_quantile(uncertainty, uncertainty.profile_quantile(level))
    candidates = [
        nearest_image(uncertainty, exchanges, minimum.theta)
        for minimum in search_result.minima[1 : 1 + 2 * _MAX_TIED_MINIMA]
        if minimum.loss < optimum.loss + 2 * q**2 * variance
        and np.all(minimum.theta <= setup.upper)
    ]
    if not candidates:
        return []
    n = np.full(len(candidates), optimum.n)
    fits = refine(setup, np.array(candidates), search_result.points, n)
    # Some of them end up at the best fit itself, or at the same minimum as others.
    fits = search_result.best.join(fits.take(np.argsort(fits.loss)))
    unit = np.array([variance])
    first = first_at_minimum(fits.theta[None], fits.loss[None], fits.gram[None], unit)
    difference = fits.loss - optimum.loss
    is_other = first[0] == np.arange(len(fits.loss))
    is_other &= np.array([optimum.r(loss) < q for loss in fits.loss.tolist()])
    if uncertainty.has_curve:
        is_other &= ~is_same_answer(difference, unit)
    rows = [row for row in np.flatnonzero(is_other).tolist() if row > 0]
    rise = difference / variance
    return [(float(rise[row]), fits.theta[row]) for row in rows[:_MAX_TIED_MINIMA]]


def slow_setup(uncertainty: Uncertainty) -> FitSetup:
    """Limit the frequencies of histories to slow ones, unless the best fit itself has a
    faster one.

    Fast histories fit any data nearly as well (see `_search/batches.py`), and would
    make every interval too wide."""
    setup, theta = uncertainty.setup, uncertainty.theta
    highest = slow_frequency_limit(setup, theta[None])[0]
    is_limited = setup.is_frequency & (theta < highest)
    upper = np.where(is_limited, np.minimum(setup.upper, highest), setup.upper)
    return replace(setup, upper=upper)


def _optimum(uncertainty: Uncertainty) -> Optimum:
    """Return the best fit, as the profiles need it."""
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
    """Return the quantile below which another minimum ties with the best."""
    allowance = _FREQUENCY_ALLOWANCE * uncertainty.setup.is_frequency.any()
    return np.sqrt(q**2 + allowance)
