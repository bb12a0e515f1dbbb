r"""How the best fit with networks is found: a scan of delays, matched to the data.

A descent from random weights stays near the mean of the data, or ends at a wrong delay.
Therefore the weights are drawn for delays over the whole range, and for each of them

1. *gradient matching* turns random weights into a function F that has the slopes of the
   smooth curve through the data (`gradient_matching.py`), where all states were
   measured;
2. *guided fits* of the trajectory, in which a term $k (c(t) - x(t))$ pulls it towards
   the curve c, follow with ever smaller gains k, the last of them zero (`guide.py`);
3. the best of these fits, by their evidence (`ranking.py`), are refined.

In all of them the weights have their prior, a Gaussian around zero: inputs and outputs
of a network are in units of the data, so that weights of about one can do everything,
and smaller ones make a smoother function."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .._data.study_data import longest_part
from .._loss.path_costs import Points
from .batches import RefinedFits, refine, refine_promising
from .default_bounds import delays_to_try
from .distinct_fits import keep_distinct
from .guided_starts import guided_fits
from .ranking import score
from .setup import FitSetup
from .starts import draw_starts, match_starts

# The gains of the guide, in units of the rate at which the data change, and the number
# of evaluations with each; then those without a guide.
_GAINS, _GUIDED_EVALUATIONS, _FREE_EVALUATIONS = (2.0, 0.5), 10, 25
# The starts of a study are so many in all experiments together, but not fewer than
# these.
_STARTS_OF_STUDIES, _FEWEST_STARTS = 96, 12
# How many draws there are for a start, where there are parameters beside networks.
_TRIES = 6
# How many of the fits are refined, and how often there are new starts as long as no fit
# has come near the data: within this factor of the variance of the noise.
_SURVIVORS, _ROUNDS, _NEAR = 4, 3, 1.5


def explore_networks(
    setup: FitSetup, starts: int, seed: int, points: Points, noise: np.ndarray
) -> Iterator[tuple[RefinedFits, int]]:
    """Fits from `starts` starts, and from as many again until one is near the data.
    Yields all fits so far, and the number of starts."""
    random, fits, count = np.random.default_rng(seed), None, 0
    if setup.joint is not None:
        # Every experiment of a study tells something of the delay.
        most = max(_FEWEST_STARTS, _STARTS_OF_STUDIES // len(setup.parts))
        starts = min(starts, most)
    for _ in range(_ROUNDS if starts > 1 else 1):
        theta = _starts(setup, starts, points, noise, random)
        found = refine(setup, theta, points, setup.steps(theta), _FREE_EVALUATIONS)
        kept = keep_distinct(setup, found, _SURVIVORS)
        # What Ctrl-C leaves while these are refined.
        yield kept if fits is None else fits.join(kept), count + len(theta)
        more = refine_promising(setup, kept.theta, points, setup.steps(kept.theta))
        more = replace(more, starts=kept.starts)
        fits, count = more if fits is None else fits.join(more), count + len(theta)
        yield fits, count
        best = fits.loss[np.argmin(score(setup, fits))]
        if best < _NEAR * setup.count:
            return


def _starts(
    setup: FitSetup,
    count: int,
    points: Points,
    noise: np.ndarray,
    random: np.random.Generator,
) -> np.ndarray:
    """The free values of `count` starts after matching and guided fits, one row for
    each delay of the scan, and those of the problem itself, if it has all values. One
    start alone is where the problem itself is."""
    tries = 1 if count == 1 or not setup.has_curves else _tries(setup)
    theta = _drawn(setup, count, tries, random)
    if count == 1:
        return theta
    if setup.has_curves:
        theta = match_starts(setup, theta, noise, tries)
    if setup.has_quantity_curves:
        for gain in _GAINS:
            fits = guided_fits(setup, theta, points, gain, _GUIDED_EVALUATIONS)
            is_finite = np.isfinite(fits.loss)[:, None]
            theta = np.where(is_finite, fits.theta, theta)
    if np.isfinite(setup.guess).all():
        theta = np.concatenate([theta, setup.guess[None]])
    return theta


def _tries(setup: FitSetup) -> int:
    """How many draws there are for each start, of which the best match is kept: several
    if there are rates and the like beside the networks."""
    others = ~setup.is_weight & ~setup.is_history
    others[list(setup.model.free.delays)] = False
    return 1 if others.sum() < 2 else _TRIES


def _drawn(
    setup: FitSetup, starts: int, tries: int, random: np.random.Generator
) -> np.ndarray:
    """Random values, `tries` rows for each start: delays that are spread evenly over
    the logarithm of their range, and the weights of new networks. One start alone is
    the user's, where there is one."""
    count = starts * tries
    theta = draw_starts(setup, starts, tries, random)
    longest = longest_part(setup.data)
    for number, j in enumerate(setup.model.free.delays):
        low, high = delays_to_try(longest, setup.lower[j], setup.upper[j])
        low = low if low > 0 else 1e-3 * high
        share = (np.arange(starts) + 0.5) / starts
        share = share if number == 0 else random.permutation(share)
        theta[:, j] = low * (high / low) ** np.repeat(share, tries)
    weights = _initial_widths(setup) * random.standard_normal(theta.shape)
    theta = np.where(setup.is_weight, weights, theta)
    if count == 1:
        theta[0] = np.where(np.isfinite(setup.guess), setup.guess, theta[0])
    return np.clip(theta, setup.lower, setup.upper)


def _initial_widths(setup: FitSetup) -> np.ndarray:
    """The standard deviation from which each weight is drawn: one over the root of the
    number of inputs of its layer, and one half for a bias."""
    widths, free = np.ones(len(setup.lower)), setup.model.free
    for array in free.arrays:
        sources = np.array(free.source[array.first : array.first + array.size])
        width = 0.5 if len(array.shape) < 2 else array.shape[-1] ** -0.5
        widths[sources[sources >= 0]] = width
    return widths
