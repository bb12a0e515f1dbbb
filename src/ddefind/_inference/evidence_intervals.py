r"""Intervals of named parameters beside networks: from the evidence.

With its prior a network is a distribution over functions, and what the data say of a
delay or a rate is an average over these functions. Laplace's approximation gives it:
the standard error from the inverse of the information matrix H of data and priors.
Where the standard error is more than `_WIDE` of the estimate, that is checked and
replaced by the *evidence profile*: the parameter is held at values on both sides, all
other values are fitted again, and the density of the parameter is

$$p(\theta_j) \propto \exp\bigl(-L / 2\bigr), \qquad
  L = S(\theta_j) + \log\det H_{-j}(\theta_j),$$

where $H_{-j}$ is H without the row and the column of the parameter. The interval leaves
out the same probability on both sides.

The other minima of a search tie with the best if their evidence is about the same and
their named values differ."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from .._search.batches import TIED_NETWORKS, SearchResult, refine
from .._search.levenberg_marquardt import PROBABLE
from .._search.setup import standard_errors
from .covariance import Uncertainty
from .profile import FoundEnds, Profile, unknown_profile
from .profile_intervals import Tie

# Laplace's approximation is used up to this share of the estimate.
_WIDE = 0.05
# The length of a move in standard errors, the largest number of moves on a side, and
# the evaluations for each.
_MOVE, _MOST_MOVES, _EVALUATIONS = 0.8, 12, 200
# A rise of L that is larger than Laplace's by this factor and this much is no property
# of the data: the fit has lost its way. It begins again with half the move, at most
# `_MOST_LOSSES` times.
_LOST_FACTOR, _LOST_RISE, _MOST_LOSSES = 2.5, 6.0, 2
# What is added to the information matrix, as a share of its diagonal.
_RIDGE = 1e-12
# A side is followed until L has risen by this.
_RISE = 9.0
# A value is more probable than the estimate if its L is lower by this.
_NOTICEABLE = 1.0
# A standard error that a wider prior multiplies by more than this is that of the prior.
_BY_PRIOR = 2.0
# Named values that differ by fewer standard errors belong to one minimum.
_APART = 3.0
# Where Laplace's parabola takes the place of fits, in standard errors.
_BEYOND = 1.0, 2.0, 3.0, 4.0
# The number of places at which a density is added up.
_PLACES = 2000


def network_profiles(
    uncertainty: Uncertainty, level: float, found: FoundEnds | None, ties: Sequence[Tie]
) -> list[Profile]:
    """Compute the profiles of a fit with networks, over all its `ties`. Those of single
    weights, which mean nothing, stay unknown."""
    setup, theta = uncertainty.setup, uncertainty.theta
    names, q = setup.model.free.names, uncertainty.profile_quantile(level)
    result = [unknown_profile(name, theta, j, q) for j, name in enumerate(names)]
    if not uncertainty.has_converged:
        return result
    errors = uncertainty.standard_errors
    # On a bound, or without any influence, a value has no standard error.
    named = np.flatnonzero(~setup.is_weight & np.isfinite(errors) & (errors > 0))
    is_wide = errors[named] > _WIDE * np.abs(theta[named])
    for j in named[~is_wide]:
        result[j] = _laplace(uncertainty, int(j), q)
    gram = uncertainty.search_result.best.gram[0]
    walks = [
        _Walk(int(j), side, theta, _direction(gram, int(j)))
        for j in named[is_wide]
        for side in (-1.0, 1.0)
    ]
    _follow(uncertainty, walks, found)
    for lower, upper in zip(walks[::2], walks[1::2]):
        result[lower.j] = _from_evidence(uncertainty, lower, upper, q, level)
    for _, other in ties:
        for j in named:
            result[j] = _widened(result[j], float(other[j]), float(errors[j]))
    return result


def moved_profiles(
    uncertainty: Uncertainty, profiles: Sequence[Profile], level: float
) -> list[Profile]:
    """Update the profiles of a fit that was moved along one of them: followed profiles
    remain, and Laplace's are computed at the new place."""
    result, theta = list(profiles), uncertainty.theta
    q, errors = uncertainty.profile_quantile(level), uncertainty.standard_errors
    for j in np.flatnonzero(~uncertainty.setup.is_weight).tolist():
        if errors[j] > _WIDE * abs(theta[j]):
            result[j] = replace(profiles[j], estimate=float(theta[j]))
        else:
            result[j] = _laplace(uncertainty, int(j), q)
    return result


def log_evidence(gram: np.ndarray, held: int | None = None) -> float:
    """Compute S + log det H, from [r J]^T [r J] of data and priors; lower is better.
    The row and the column of a `held` value are left out of H."""
    H = gram[1:, 1:]
    if not np.all(np.isfinite(gram)):
        return np.inf
    if held is not None:
        H = np.delete(np.delete(H, held, axis=0), held, axis=1)
    sign, logarithm = np.linalg.slogdet(H)
    return float(gram[0, 0] + logarithm) if sign > 0 else np.inf


def tied_networks(uncertainty: Uncertainty, level: float) -> list[Tie]:
    """Find other minima with about the evidence of the best and other named values:
    return by how much S + log det H is higher, and their free values."""
    setup, result = uncertainty.setup, uncertainty.search_result
    others = np.array([minimum.theta for minimum in result.minima[1:]])
    others = others.reshape(-1, len(uncertainty.theta))
    named, errors = ~setup.is_weight, uncertainty.standard_errors
    apart = np.abs(others - uncertainty.theta) / np.where(errors > 0, errors, np.inf)
    others = others[np.any(apart[:, named] > _APART, axis=1)]
    if len(others) == 0:
        return []
    n = setup.steps_near(others, uncertainty.theta, int(result.best.n[0]))
    fits = refine(setup, others, result.points, n, limit=1)
    best = log_evidence(result.best.gram[0])
    rises = [log_evidence(gram) - best for gram in fits.gram]
    limit = max(uncertainty.profile_quantile(level) ** 2, TIED_NETWORKS)
    return [(rise, row) for rise, row in zip(rises, others) if rise < limit]


def most_probable(
    uncertainty: Uncertainty, profiles: Sequence[Profile]
) -> SearchResult | None:
    """Move the search result to a value of a named parameter that is more probable by
    the evidence than its estimate, with all other values fitted there; None if there is
    no such value.

    The estimates are the most probable values together. Where a network can do more at
    one delay than at another, that delay need not be the most probable one."""
    setup, result = uncertainty.setup, uncertainty.search_result
    best, place = _NOTICEABLE, None
    for profile in profiles:
        at_estimate = np.flatnonzero(profile.values == profile.estimate)
        if len(at_estimate) == 0:
            continue
        rise = float(profile.r[at_estimate[0]] ** 2)
        if rise > best:
            best, place = rise, profile.theta[int(np.argmin(profile.r))]
    if place is None:
        return None
    moved = refine(setup, place[None], result.points, result.best.n, limit=1)
    if not np.isfinite(moved.loss[0]):
        return None
    return replace(result, best=replace(moved, status=np.full(1, PROBABLE)))


def rests_on_prior(uncertainty: Uncertainty) -> np.ndarray:
    """Return which named values the prior of the weights determines and the data do
    not: a network can compensate for a change of them.

    With a prior of ten times the width their standard errors grow by more than a factor
    `_BY_PRIOR`; if the data determined them, they would hardly change."""
    setup, gram = uncertainty.setup, uncertainty.search_result.best.gram[0]
    priors, is_weight = setup.model.priors, setup.is_weight
    if priors is None or not np.all(np.isfinite(gram)):
        return np.zeros(len(is_weight), bool)
    H = gram[1:, 1:]
    wider = H - 0.99 * np.diag(np.where(is_weight, priors.weight, 0.0))
    growth = standard_errors(wider) / np.maximum(standard_errors(H), 1e-300)
    return ~is_weight & (growth > _BY_PRIOR)


@final
@dataclass
class _Walk:
    """Moves of value j to one side: `values`, L there, and all free values. From the
    `last` place the other values follow in a `direction`."""

    j: int
    side: float
    last: np.ndarray
    direction: np.ndarray
    move: float = _MOVE
    losses: int = 0
    values: list[float] = field(default_factory=list)
    L: list[float] = field(default_factory=list)
    theta: list[np.ndarray] = field(default_factory=list)
    is_done: bool = False
    at_bound: bool = False


def _follow(
    uncertainty: Uncertainty, walks: list[_Walk], found: FoundEnds | None
) -> None:
    """Follow all walks, one move of each at a time."""
    setup, result = uncertainty.setup, uncertainty.search_result
    # Halving the steps no longer changed the estimates, so half as many are enough.
    n = max(int(result.best.n[0]) // 2, 1)
    C, theta = uncertainty.covariance, uncertainty.theta
    start = refine(setup, theta[None], result.points, np.array([n]), limit=1)
    first = {walk.j: log_evidence(start.gram[0], walk.j) for walk in walks}
    for _ in range(_MOST_MOVES):
        active = [walk for walk in walks if not walk.is_done]
        if found is not None and walks:
            found(len(walks) - len(active), len(walks))
        if not active:
            return
        moves = [walk.side * walk.move * np.sqrt(C[walk.j, walk.j]) for walk in active]
        starts = np.array([w.last + d * w.direction for w, d in zip(active, moves)])
        inside = np.clip(starts, setup.lower, setup.upper)
        held = np.arange(starts.shape[1]) == np.array([[w.j] for w in active])
        steps = setup.steps_near(inside, theta, n)
        fits = refine(setup, inside, result.points, steps, _EVALUATIONS, held)
        for row, walk in enumerate(active):
            L = log_evidence(fits.gram[row], walk.j)
            rise = L - min(first[walk.j], *walk.L, np.inf)
            moved = (fits.theta[row, walk.j] - theta[walk.j]) ** 2
            expected = moved / C[walk.j, walk.j]
            if not rise < _LOST_FACTOR * expected + _LOST_RISE:
                walk.move, walk.losses = 0.5 * walk.move, walk.losses + 1
                walk.is_done = walk.losses > _MOST_LOSSES
                continue
            walk.last = fits.theta[row]
            walk.direction = _direction(fits.gram[row], walk.j)
            walk.values.append(float(fits.theta[row, walk.j]))
            walk.L.append(L)
            walk.theta.append(fits.theta[row])
            walk.at_bound = bool(starts[row, walk.j] != inside[row, walk.j])
            if len(walk.values) == 4:  # A density with long tails is followed faster.
                walk.move *= 2
            walk.is_done = rise > _RISE or walk.at_bound


def _direction(gram: np.ndarray, j: int) -> np.ndarray:
    r"""Compute how all values follow value j: 1 for itself, and $-H_{-j}^{-1} H_{-j,j}$
    for the others, with the information matrix H."""
    H = gram[1:, 1:]
    others = np.arange(len(H)) != j
    direction = np.ones(len(H))
    rest, column = H[np.ix_(others, others)], H[others, j]
    # A value without any influence stays where it is.
    rest = rest + _RIDGE * np.diag(np.maximum(np.diag(rest), 1.0))
    direction[others] = -np.linalg.solve(rest, column)
    return direction


def _laplace(uncertainty: Uncertainty, j: int, q: float) -> Profile:
    """Return the profile of value j as a parabola."""
    theta, name = uncertainty.theta, uncertainty.setup.model.free.names[j]
    sd, estimate = float(uncertainty.standard_errors[j]), float(theta[j])
    if not np.isfinite(sd) or sd == 0:
        return unknown_profile(name, theta, j, q)
    shifts = np.linspace(-1.5 * q, 1.5 * q, 13)
    lower = float(uncertainty.setup.lower[j])
    ends = max(estimate - q * sd, lower), estimate + q * sd
    return Profile(
        name,
        estimate,
        q,
        ends,
        ends,
        estimate + shifts * sd,
        np.abs(shifts),
        theta + shifts[:, None] * _laplace_direction(uncertainty, j),
    )


def _laplace_direction(uncertainty: Uncertainty, j: int) -> np.ndarray:
    """Return the change of all values when value j moves by a standard error."""
    C = uncertainty.covariance
    return np.where(np.isfinite(C[:, j]), C[:, j], 0.0) / float(np.sqrt(C[j, j]))


def _from_evidence(
    uncertainty: Uncertainty, lower: _Walk, upper: _Walk, q: float, level: float
) -> Profile:
    """Assemble the profile of a value from the walks to both sides."""
    j, theta = lower.j, uncertainty.theta
    name, estimate = uncertainty.setup.model.free.names[j], float(theta[j])
    first = log_evidence(uncertainty.search_result.best.gram[0], j)
    if not np.isfinite(first):
        return _laplace(uncertainty, j, q)
    for walk in (lower, upper):
        _complete(uncertainty, walk, first)
    values = np.array([*lower.values, estimate, *upper.values])
    L = np.array([*lower.L, first, *upper.L])
    rows = np.array([*lower.theta, theta, *upper.theta])
    values, kept = np.unique(values, return_index=True)
    L, rows = L[kept] - np.min(L[kept]), rows[kept]
    low, high = _central(values, L, q, level)
    # An end is open where the walk ended before the density became small.
    low = -np.inf if L[0] < q**2 and not lower.at_bound else low
    high = np.inf if L[-1] < q**2 and not upper.at_bound else high
    reached = float(values[0]), float(values[-1])
    return Profile(name, estimate, q, (low, high), reached, values, np.sqrt(L), rows)


def _complete(uncertainty: Uncertainty, walk: _Walk, first: float) -> None:
    """Continue a lost walk on Laplace's parabola."""
    if walk.losses <= _MOST_LOSSES:
        return
    theta, sd = uncertainty.theta, float(uncertainty.standard_errors[walk.j])
    direction = _laplace_direction(uncertainty, walk.j)
    for shift in _BEYOND:
        value = float(theta[walk.j] + walk.side * shift * sd)
        is_beyond = not walk.values or walk.side * (value - walk.values[-1]) > 0
        if is_beyond and value > uncertainty.setup.lower[walk.j]:
            walk.values.append(value)
            walk.L.append(max(first + shift**2, *walk.L, -np.inf))
            walk.theta.append(theta + walk.side * shift * direction)


def _central(
    values: np.ndarray, L: np.ndarray, q: float, level: float
) -> tuple[float, float]:
    """Return the interval that leaves out the same probability on both sides of the
    density exp(-L / 2), widened by as much as the quantile q of Student's distribution
    exceeds the normal one."""
    from scipy.interpolate import PchipInterpolator
    from scipy.special import ndtri

    grid = np.linspace(values[0], values[-1], _PLACES)
    wider = (ndtri(0.5 * (1 + level)) / q) ** 2
    density = np.exp(-0.5 * wider * PchipInterpolator(values, L)(grid))
    mass = np.cumsum(density) / np.sum(density)
    low, high = np.interp([0.5 * (1 - level), 0.5 * (1 + level)], mass, grid)
    return float(low), float(high)


def _widened(profile: Profile, other: float, error: float) -> Profile:
    """Extend the interval of a profile so that it covers another minimum, too."""
    (low, high), reach = profile.interval, profile.quantile * error
    interval = min(low, other - reach), max(high, other + reach)
    return replace(profile, interval=interval)
