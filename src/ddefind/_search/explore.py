"""The exploration: fits from ever more starts, until the best minimum is confirmed.

It alternates between two phases:

1. *First look.* Starts are drawn and moved near good fits, by gradient matching where
   all states were measured, and else by guided fits. A short fit with coarse steps
   sorts them, and the best are refined to convergence.
2. *Second look.* The best fits are perturbed and refined again.

The best minimum is confirmed if it follows the data and at least two starts reached it
independently. Until then there are further rounds, in which guided fits from many more
draws help to find what gradient matching has missed; more of them if even the best fit
is far from the data.

With networks a descent from random weights stays near the mean of the data, or ends at
a wrong delay. `explore_networks` therefore draws weights for delays over the whole
range, and for each of them

1. *gradient matching* turns random weights into a function F that has the slopes of the
   smooth curve through the data (`gradient_matching.py`), where all states were
   measured;
2. *guided fits* of the trajectory, in which a term $k (c(t) - x(t))$ pulls it towards
   the curve c, follow with ever smaller gains k, the last of them zero (`guide.py`);
3. the best of these fits, by their evidence (`batches.py`), are refined.

In all of them the weights have their prior, a Gaussian around zero: inputs and outputs
of a network are in units of the data, so that weights of about one can do everything,
and smaller ones make a smoother function."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from .._data.study_data import each_part, longest_part
from .._engine.engine import Points
from .batches import RefinedFits, keep_distinct, refine, refine_promising, score
from .bounds import delays_to_try
from .misfit import FIRST_LOOK, SECOND_LOOK
from .setup import FitSetup
from .starts import (
    draw_starts,
    guided_fits,
    guided_starts,
    match_starts,
    matched_starts,
    perturbed_starts,
    without_aliases,
)

# The largest number of rounds if the best fit follows the data, and if it does not.
_ROUNDS, _ROUNDS_WHEN_LOST = 3, 5
# A fit follows the data if its chi-square per degree of freedom is below this (with the
# noise as given, or as the scatter of neighbouring points shows it).
LARGEST_REDUCED_CHI_SQUARE = 2.0
# A start has reached the best minimum if its chi-square is larger by less than this:
# fits at different steps differ somewhat.
AS_LOW = 0.5
# The number of evaluations of a coarse fit, and how many coarse fits are refined.
COARSE_EVALUATIONS, SURVIVORS = 15, 10
# The first parts of the record that fits begin with, as shares of it: for half of the
# starts in the first round, and for those without a guide in later rounds.
FIRST_WINDOWS, _LATER_WINDOWS = (1 / 3,), (0.15, 0.3, 0.6)
# How many draws guided fits begin with in the first round. The largest numbers of
# components (of states and their derivatives) of all draws and of all starts of a
# round; one with a costly engine counts as several.
_DRAWS, _LARGEST_DRAWS, _LARGEST_STARTS, _COSTLY = 1024, 2e5, 2e4, 20


def explore(
    setup: FitSetup,
    starts: int,
    seed: int,
    points: Points,
    noise: np.ndarray,
    known: np.ndarray | None = None,
) -> Iterator[tuple[RefinedFits, int, str]]:
    """Fit from more and more starts, until the best minimum is confirmed.

    If minima are `known` from a search with another solver, of shape (minima, p), fits
    begin with these, and there is one round. Yield all fits so far, the number of
    starts, and the phase that ended."""
    draws = _Exploration(setup, starts, points, noise, np.random.default_rng(seed))
    with ThreadPoolExecutor(1) as pool:
        # The program of the fits is compiled while other starts need a program of
        # their own.
        pool.submit(_compile, setup, points)
        theta = draws.first() if known is None else known
    found, independent = _fit_and_refine_best(setup, theta, points)
    # Use aliases only if there is no other fit.
    fits = independent if len(independent.theta) else found
    count = len(theta)
    yield fits, count, FIRST_LOOK
    if starts == 1:
        return
    for round_ in range(1, 1 + _ROUNDS_WHEN_LOST):
        theta = draws.perturbed(keep_distinct(setup, fits, 3).theta)
        _, perturbed = _fit_and_refine_best(setup, theta, points)
        # Perturbed fits do not count as starts that reached a minimum on their own.
        fits = fits.join(replace(perturbed, starts=0 * perturbed.starts))
        yield fits, count, SECOND_LOOK
        is_lost = not follows_data(setup, fits)
        rounds = _ROUNDS_WHEN_LOST if is_lost else _ROUNDS
        has_any = np.isfinite(fits.loss).any()
        is_last = known is not None or round_ == rounds or not has_any
        if is_last or _is_confirmed(setup, fits, independent):
            return
        theta = draws.next(round_) if is_lost or round_ > 1 else draws.first()
        _, more = _fit_and_refine_best(setup, theta, points)
        has_others = len(independent.theta) > 0 or len(more.theta) == 0
        fits = fits.join(more) if has_others else more
        independent = independent.join(more)
        count += len(theta)
        yield fits, count, FIRST_LOOK


def follows_data(setup: FitSetup, fits: RefinedFits) -> bool:
    """Whether the best of the fits is about as near to the data as noise allows."""
    best = fits.loss[np.argmin(score(setup, fits))]
    return bool(best < LARGEST_REDUCED_CHI_SQUARE * setup.freedom)


def _is_confirmed(setup: FitSetup, fits: RefinedFits, independent: RefinedFits) -> bool:
    """Whether the best fit follows the data and two starts are about as low."""
    best = fits.loss[np.argmin(score(setup, fits))]
    is_as_low = independent.loss < best + AS_LOW * fits.unit(setup)
    return follows_data(setup, fits) and independent.starts[is_as_low].sum() >= 2


def _compile(setup: FitSetup, points: Points) -> None:
    """Compile the program of the fits, by a call without evaluations."""
    theta = np.clip(np.ones((1, len(setup.lower))), setup.lower, setup.upper)
    refine(setup, theta, points, setup.coarse_steps(theta), limit=0)


@final
@dataclass(frozen=True)
class _Exploration:
    """Where the fits of each look begin, from `starts` starts."""

    setup: FitSetup
    starts: int
    points: Points
    noise: np.ndarray
    random: np.random.Generator

    @property
    def _work(self) -> int:
        """The number of components of a state and its derivatives."""
        model = self.setup.model
        components = model.dimension * (1 + len(self.setup.lower))
        return components * (_COSTLY if model.engine.is_costly else 1)

    def first(self) -> np.ndarray:
        """Draw the starts of a first look; half are fitted to growing windows."""
        if self.starts == 1 or not self.setup.has_quantity_curves:
            return draw_starts(self.setup, self.starts, 1, self.random)
        has_curves = self.setup.has_curves
        theta = self._matched(self.starts) if has_curves else self._guided(0)
        theta[1::2] = self._in_windows(theta[1::2], FIRST_WINDOWS)
        return theta

    def perturbed(self, good: np.ndarray) -> np.ndarray:
        """Perturb good fits."""
        return perturbed_starts(self.setup, good, self.starts, self.noise, self.random)

    def next(self, round_: int) -> np.ndarray:
        """Draw twice as many starts in each further round, with and without a guide."""
        count = min(self.starts * 2**round_, int(_LARGEST_STARTS / self._work))
        count = max(count, self.starts)
        if not self.setup.has_quantity_curves:
            theta = draw_starts(self.setup, count, 1, self.random)
            return self._in_windows(theta, _LATER_WINDOWS)
        theta = self._guided(round_)
        if self.setup.has_curves:
            drawn = self._matched(count)
        else:
            drawn = draw_starts(self.setup, count, 1, self.random)
        return np.concatenate([theta, self._in_windows(drawn, _LATER_WINDOWS)])

    def _matched(self, count: int) -> np.ndarray:
        return matched_starts(self.setup, count, self.noise, self.random)

    def _guided(self, round_: int) -> np.ndarray:
        draws = min(_DRAWS * 2**round_, int(_LARGEST_DRAWS / self._work))
        draws = max(draws, 4 * self.starts)
        return guided_starts(self.setup, self.starts, draws, self.points, self.random)

    def _in_windows(self, theta: np.ndarray, shares: tuple[float, ...]) -> np.ndarray:
        """Move starts by coarse fits to growing first parts of the record.

        Trajectories that soon forget where they began have many minima on the whole
        record, but few on its first part."""
        points, data = self.points, self.setup.data
        ends = [np.full(len(t), part.T) for part, t in each_part(data, data.t)]
        T = np.concatenate(ends)
        for share in shares if len(theta) else ():
            is_inside = np.asarray(points.times) <= share * T
            weights = np.where(is_inside[:, None], points.weights, 0.0)
            part = points._replace(weights=weights)
            theta = _coarse_fit(self.setup, theta, part).theta
        return theta


def _coarse_fit(setup: FitSetup, theta: np.ndarray, points: Points) -> RefinedFits:
    """Make a few iterations with coarse steps from each start."""
    n = setup.coarse_steps(theta)
    return refine(setup, theta, points, n, COARSE_EVALUATIONS, rate=setup.rate)


def _fit_and_refine_best(
    setup: FitSetup, theta: np.ndarray, points: Points
) -> tuple[RefinedFits, RefinedFits]:
    """Refine the best of coarse fits; return all of them, and those without aliases."""
    kept = keep_distinct(setup, _coarse_fit(setup, theta, points), SURVIVORS)
    fits = refine_promising(setup, kept.theta, points, setup.steps(kept.theta))
    fits = replace(fits, starts=kept.starts)
    return fits, without_aliases(setup, fits, points)


# The gains of the guide, in units of the rate at which the data change, and the number
# of evaluations with each; then those without a guide.
_NETWORK_GAINS, _GUIDED_EVALUATIONS, _FREE_EVALUATIONS = (2.0, 0.5), 10, 25
# The starts of a study in all experiments together, and the least number of starts.
_STARTS_OF_STUDIES, _FEWEST_STARTS = 96, 12
# How many draws there are for a start, of which the best match is kept, if there are
# rates and the like beside the networks.
_TRIES = 6
# How many of the fits are refined, and how often there are new starts as long as no fit
# has come near the data: within this factor of the variance of the noise.
_NETWORK_SURVIVORS, _NETWORK_ROUNDS, _NEAR = 4, 3, 1.5


def explore_networks(
    setup: FitSetup, starts: int, seed: int, points: Points, noise: np.ndarray
) -> Iterator[tuple[RefinedFits, int]]:
    """Fit from `starts` starts, and from as many again until one is near the data.
    Yield all fits so far, and the number of starts."""
    random, fits, count = np.random.default_rng(seed), None, 0
    if len(setup.parts) > 1:
        # Every experiment of a study adds information about the delay.
        most = max(_FEWEST_STARTS, _STARTS_OF_STUDIES // len(setup.parts))
        starts = min(starts, most)
    for _ in range(_NETWORK_ROUNDS if starts > 1 else 1):
        theta = _network_starts(setup, starts, points, noise, random)
        found = refine(setup, theta, points, setup.steps(theta), _FREE_EVALUATIONS)
        kept = keep_distinct(setup, found, _NETWORK_SURVIVORS)
        # What Ctrl-C leaves while these are refined.
        yield kept if fits is None else fits.join(kept), count + len(theta)
        more = refine_promising(setup, kept.theta, points, setup.steps(kept.theta))
        more = replace(more, starts=kept.starts)
        fits, count = more if fits is None else fits.join(more), count + len(theta)
        yield fits, count
        best = fits.loss[np.argmin(score(setup, fits))]
        if best < _NEAR * setup.count:
            return


def _network_starts(
    setup: FitSetup,
    count: int,
    points: Points,
    noise: np.ndarray,
    random: np.random.Generator,
) -> np.ndarray:
    """Draw `count` starts and move them by matching and guided fits: a row for each
    delay of the scan, and the start values, if they are complete. One start alone is at
    the start values."""
    tries = 1
    if count > 1 and setup.has_curves:
        others = ~setup.is_weight & ~setup.is_history
        others[list(setup.model.free.delays)] = False
        tries = 1 if others.sum() < 2 else _TRIES
    theta = _draw_network_starts(setup, count, tries, random)
    if count == 1:
        return theta
    if setup.has_curves:
        theta = match_starts(setup, theta, noise, tries)
    if setup.has_quantity_curves:
        for gain in _NETWORK_GAINS:
            fits = guided_fits(setup, theta, points, gain, _GUIDED_EVALUATIONS)
            is_finite = np.isfinite(fits.loss)[:, None]
            theta = np.where(is_finite, fits.theta, theta)
    if np.isfinite(setup.guess).all():
        theta = np.concatenate([theta, setup.guess[None]])
    return theta


def _draw_network_starts(
    setup: FitSetup, starts: int, tries: int, random: np.random.Generator
) -> np.ndarray:
    """Draw `tries` rows for each start: delays spread evenly over the logarithm of
    their range, and the weights of new networks. One start alone is the user's, where
    there is one."""
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
    """Return the standard deviation of each drawn weight: one over the root of the
    number of inputs of its layer, and one half for a bias."""
    widths, free = np.ones(len(setup.lower)), setup.model.free
    for array in free.arrays:
        sources = np.array(free.source[array.first : array.first + array.size])
        width = 0.5 if len(array.shape) < 2 else array.shape[-1] ** -0.5
        widths[sources[sources >= 0]] = width
    return widths
