"""The assessment of a fit: its intervals, verdicts and residual tests, computed once.

Profiles and minima that tie with the best take further fits, and the tests of the
residuals simulate noise. `fit` computes them before it returns, so that printing a fit
never computes anything."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import equinox as eqx
import numpy as np

from .._data.smoothing import rough_noise
from .._problem.network_weights import named_indices, networks_of
from .._search import levenberg_marquardt
from .._search.batches import SearchResult, observed_at_data
from .._search.other_history import moved_to
from .covariance import Uncertainty
from .evidence_intervals import (
    most_probable,
    moved_profiles,
    network_profiles,
    rests_on_prior,
    tied_networks,
)
from .explained import Explained, OtherHistory, explained, other_history
from .identifiability import (
    NOT_JUDGED,
    Combination,
    Verdict,
    determined_combinations,
    verdicts,
    weaken_by_network,
)
from .profile import FoundEnds, Profile, unknown_profile
from .profile_intervals import (
    Exchange,
    Tie,
    delay_parameters,
    exchange_notes,
    find_exchanges,
    profiles as compute_profiles,
    tied_minima,
)
from .residual_tests import CHI, SPREAD, WHITE, ResidualTest, failed, run_tests

# With fewer values the scatter of neighbouring values says little.
_FEWEST = 12
# Residuals and scatter both estimate the noise. Chance keeps their ratio below the
# first number plus the second one over the root of the number of values.
_CHANCE, _CHANCE_OF_FEW = 1.2, 4.0
# With residuals this many times as large as the scatter of neighbouring values, a fit
# that is rejected says nothing about what the data determine.
_LARGE_MISFIT = 2.0


class LargeResiduals(NamedTuple):
    """Quantity whose residuals exceed the scatter of neighbouring values by a factor:
    the search missed the best minimum, or the model misses something."""

    quantity: str
    factor: float


def find_large_residuals(uncertainty: Uncertainty) -> LargeResiduals | None:
    """Find the quantity with the largest misfit, if there is any."""
    data, best = uncertainty.setup.data, uncertainty.search_result.best
    count = np.isfinite(data.x).sum(axis=0)
    scatter = rough_noise(data)
    ratio = np.sqrt(np.maximum(best.squares[0], 0.0) / np.maximum(count, 1)) / scatter
    found = [
        LargeResiduals(name, float(factor))
        for name, factor, n in zip(data.names, ratio, count)
        if n >= _FEWEST and factor > _CHANCE + _CHANCE_OF_FEW / np.sqrt(n)
    ]
    return max(found, key=lambda each: each.factor, default=None)


@final
@dataclass(frozen=True)
class Assessment:
    """Intervals of a fit and the tests of its residuals.

    - `profiles`: the profile likelihood of each free parameter, with its interval.
    - `verdicts`: whether each is determined, weakly determined or not determined.
    - `ties`: other minima that fit the data about as well as the best.
    - `fitted`: the model's values at the times of the data, of the shape of `data.x`.
    - `checks`: the tests of the residuals.
    - `other_history`: if residuals fail a test and the history is constant, another one
      with which the model fits clearly better; None if there is none.
    - `level`: the confidence level of the intervals.
    - `explained`: how much of the data the model explains; None if that is unknown."""

    profiles: tuple[Profile, ...]
    verdicts: tuple[Verdict, ...]
    ties: tuple[Tie, ...]
    fitted: np.ndarray
    checks: tuple[ResidualTest, ...]
    other_history: OtherHistory | None = None
    level: float = 0.95
    explained: Explained | None = None


# A fit is noticeably better if chi-square is lower by the square of this. The estimate
# moves to such a fit at most this often.
_NOTICEABLE_R, _MOST_MOVES = 0.3, 2


def assess_best(
    uncertainty: Uncertainty, level: float, seed: int, found: FoundEnds | None
) -> tuple[Uncertainty, Assessment]:
    """Assess a fit at the best minimum that its profiles come across, with intervals of
    the given `level`. `seed` is that of the search, and `found` is called with the
    number of ends that are found.

    If a profile comes across a fit that is better than the best one, the search missed
    it: the estimate moves there, and its profiles are computed again. A search from one
    start is for the nearest minimum, and stays there."""
    around = _look_around(uncertainty, level, found)
    for _ in range(_MOST_MOVES if uncertainty.search_result.starts > 1 else 0):
        better = _better_minimum(uncertainty, around.profiles, seed)
        if better is None:
            break
        uncertainty = Uncertainty(uncertainty.setup, better)
        known = None
        if uncertainty.setup.has_networks:
            # It moved along the profile of a named value, so that these are known.
            known = moved_profiles(uncertainty, around.profiles, level)
        around = _look_around(uncertainty, level, found, known)
    return uncertainty, _assess(uncertainty, level, around)


class _Surroundings(NamedTuple):
    """What lies around a minimum: delays that can be exchanged, minima that tie with
    it, and the profiles of all free values."""

    exchanges: list[Exchange]
    ties: list[Tie]
    profiles: list[Profile]


def _look_around(
    uncertainty: Uncertainty,
    level: float,
    found: FoundEnds | None,
    known: list[Profile] | None = None,
) -> _Surroundings:
    """Compute what lies around a minimum, but for profiles that are `known`."""
    has_networks = uncertainty.setup.has_networks
    exchanges = [] if has_networks else find_exchanges(uncertainty)
    ties = []
    if has_fit(uncertainty):
        ties = (
            tied_networks(uncertainty, level)
            if has_networks
            else tied_minima(uncertainty, exchanges, level)
        )
    if known is None:
        known = _all_profiles(uncertainty, level, found, ties)
    return _Surroundings(exchanges, ties, known)


def _better_minimum(
    uncertainty: Uncertainty, profiles: Sequence[Profile], seed: int
) -> SearchResult | None:
    """Search from the best place that the profiles came across; None if chi-square is
    not lower there by a noticeable amount."""
    setup, result = uncertainty.setup, uncertainty.search_result
    if setup.has_networks:
        return most_probable(uncertainty, profiles)
    places = [
        (r, theta)
        for profile in profiles
        for r, theta in zip(profile.r.tolist(), profile.theta)
    ]
    lowest, theta = min(places, key=lambda place: place[0], default=(0.0, None))
    if theta is None or lowest > -_NOTICEABLE_R:
        return None
    # Of minima that tie, the one with the much shorter delay is preferred.
    before, after = setup.delay(np.stack([uncertainty.theta, theta]))
    if lowest > -1 and after > 2 * before:
        return None
    found = moved_to(setup, result, theta, seed)
    before, after = (
        setup.misfit.comparable(setup, each.best)[0] for each in (result, found)
    )
    return found if after < before else None


def _assess(
    uncertainty: Uncertainty, level: float, around: _Surroundings
) -> Assessment:
    """Assess a fit, given what lies around its minimum."""
    exchanges, ties, profiles = around
    values = model_values(uncertainty)
    has_networks = uncertainty.setup.has_networks
    checks = test_residuals(uncertainty, values)
    shares = explained(uncertainty, values[..., 0])
    doubt = _doubt(uncertainty, checks, shares)
    if doubt is None:
        combinations = [] if has_networks else determined_combinations(uncertainty)
        profiles = _open_undetermined(uncertainty, profiles, combinations)
        notes = exchange_notes(uncertainty, exchanges)
        judged = verdicts(uncertainty, profiles, combinations, notes)
        if has_networks:
            judged = weaken_by_network(judged, rests_on_prior(uncertainty))
    else:
        judged = [Verdict(profile.name, NOT_JUDGED, doubt) for profile in profiles]
    fails = any(check.test != SPREAD for check in failed(checks))
    other = other_history(uncertainty, _passes) if fails and not has_networks else None
    return Assessment(
        profiles=tuple(profiles),
        verdicts=tuple(judged),
        ties=tuple(ties),
        fitted=values[..., 0],
        checks=checks,
        other_history=other,
        level=level,
        explained=shares,
    )


def _all_profiles(
    uncertainty: Uncertainty, level: float, found: FoundEnds | None, ties: Sequence[Tie]
) -> list[Profile]:
    """Follow the profiles of all parameters except elements of large arrays."""
    if uncertainty.setup.has_networks:
        return network_profiles(uncertainty, level, found, ties)
    model, theta = uncertainty.setup.model, uncertainty.theta
    names, q = model.free.names, uncertainty.profile_quantile(level)
    large = networks_of(eqx.combine(model.learned, model.fixed), names)
    named = named_indices(len(names), large)
    profiles = compute_profiles(uncertainty, level, named, found, ties)
    followed = dict(zip(named, profiles))
    return [
        followed.get(j) or unknown_profile(name, theta, j, q)
        for j, name in enumerate(names)
    ]


def _open_undetermined(
    uncertainty: Uncertainty,
    profiles: Sequence[Profile],
    combinations: Sequence[Combination],
) -> list[Profile]:
    """Open the profiles of the parts of a known combination if nothing limits them:
    neither a bound nor that a delay is positive. The end at which such a profile could
    not be followed farther comes from the largest numbers, as in `p * exp(-m * tau)`,
    and not from the data."""
    setup = uncertainty.setup
    limited = np.any(setup.is_given, axis=0)
    limited[list(delay_parameters(setup.model.free))] = True
    free = {
        j
        for combination in combinations
        if combination.is_known and not np.any(limited[list(combination.group)])
        for j in combination.group
    }
    return [
        replace(profile, interval=(-np.inf, np.inf)) if j in free else profile
        for j, profile in enumerate(profiles)
    ]


def _doubt(
    uncertainty: Uncertainty, checks: tuple[ResidualTest, ...], shares: Explained | None
) -> str | None:
    """Return a sentence that says why no verdict can be given; None if it can."""
    if not has_fit(uncertainty):
        return None
    if not uncertainty.has_converged:
        return (
            "No intervals and no verdict on the parameters are given: the search "
            "stopped before convergence."
        )
    if shares is not None and shares.by_chance:
        return (
            "No verdict on the parameters is given: the model explains hardly more "
            "than a constant would."
        )
    misfit = find_large_residuals(uncertainty)
    if misfit is None or misfit.factor < _LARGE_MISFIT or not is_rejected(checks):
        return None
    return (
        f"No verdict on the parameters is given: the fit misses `{misfit.quantity}` by "
        f"{misfit.factor:.2g} times the scatter of neighbouring values."
    )


def is_rejected(checks: tuple[ResidualTest, ...]) -> bool:
    """Whether the order of the residuals or chi-square rejects the model."""
    return any(check.test in (WHITE, CHI) for check in failed(checks))


def _passes(uncertainty: Uncertainty) -> bool:
    """Whether there is a fit whose residuals pass all tests."""
    checks = test_residuals(uncertainty, model_values(uncertainty))
    return has_fit(uncertainty) and not failed(checks)


def has_fit(uncertainty: Uncertainty) -> bool:
    """Whether any start had a finite sum of squares."""
    return bool(np.isfinite(uncertainty.search_result.best.loss[0]))


def model_values(uncertainty: Uncertainty) -> np.ndarray:
    """Compute the model at the times of the data, [N, k, 1 + p]: the value of each
    quantity, and its derivatives for the p free parameters."""
    best = uncertainty.search_result.best
    return observed_at_data(uncertainty.setup, uncertainty.theta, int(best.n[0]))


def test_residuals(
    uncertainty: Uncertainty, values: np.ndarray
) -> tuple[ResidualTest, ...]:
    """Test the residuals, given `model_values`.

    There are no tests where the model passes through the data, or without a fit."""
    setup, result = uncertainty.setup, uncertainty.search_result
    data = setup.data
    fitted = values[..., 0]
    status = int(result.best.status[0])
    is_exact = status == levenberg_marquardt.EXACT and not result.interrupted
    if is_exact or not has_fit(uncertainty) or not np.all(np.isfinite(fitted)):
        return ()
    sd = setup.misfit.sizes(uncertainty, fitted)
    with np.errstate(over="ignore", invalid="ignore"):
        directions = values[..., 1:] / sd[..., None] @ uncertainty.covariance_factor
    # Derivatives may overflow where values do not; then no direction is removed.
    if not np.all(np.isfinite(directions[np.isfinite(data.x)])):
        directions = directions[..., :0]
    residuals = setup.misfit.residuals(uncertainty, fitted)
    is_known, freedom = uncertainty.noise_is_known, uncertainty.freedom
    return tuple(run_tests(data, fitted, residuals, directions, freedom, is_known))
