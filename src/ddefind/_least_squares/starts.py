"""Where the fits of a search start.

`matched_starts` draws random values and moves them by gradient matching;
`perturbed_starts` changes fits that are already good. All arrays of starts have the
shape (starts, p)."""

from dataclasses import replace

import jax
import numpy as np

from .._data.smoothing import spread
from .._data.study_data import longest_part
from .batches import BLOCK_SIZE, map_in_blocks
from .computed_delays import draw_possible
from .default_bounds import delays_to_try
from .gradient_matching import MatchingTarget, match_block, matching_targets
from .levenberg_marquardt import NO_START
from .ranking import slow_frequency_limit
from .setup import FitSetup

# The number of random draws per start; the best match is kept.
TRIES = 4
# One start in this many is not matched.
UNMATCHED_EVERY = 4
# How precisely the slopes of the curve count as known beside the priors of weights.
_SLOPE_ERROR = 0.05


def matched_starts(
    setup: FitSetup, count: int, noise: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """The user's start values, then random ones, moved by gradient matching along the
    smooth curves through the data."""
    drawn = draw_starts(setup, count, TRIES, random)
    matched = match_starts(setup, drawn, noise, TRIES)
    # If the curve follows the data badly, unmatched starts may be the better ones.
    is_unmatched = np.arange(count) % UNMATCHED_EVERY == UNMATCHED_EVERY - 1
    return np.where(is_unmatched[:, None], drawn[::TRIES], matched)


def perturbed_starts(
    setup: FitSetup,
    good: np.ndarray,
    count: int,
    noise: np.ndarray,
    random: np.random.Generator,
) -> np.ndarray:
    """New starts from the `good` fits, of shape (fits, p), used in turn.

    Three of four get a new random history, moved by gradient matching if there are
    curves through all states; in the fourth every value is changed by a random factor.
    Without free values of the history all are of the second kind."""
    theta = np.resize(good, (count, good.shape[1]))
    size = 0.3 * 10 ** -random.uniform(0, 1, (count, 1))
    rescaled = theta * np.exp(size * random.standard_normal(theta.shape))
    rescaled = np.clip(rescaled, setup.lower, setup.upper)
    if not setup.is_history.any():
        return rescaled
    without_guess = replace(setup, guess=setup.guess * np.nan)
    drawn = draw_starts(without_guess, count, 1, random)
    new_history = np.where(setup.is_history, drawn, theta)
    # Most of the allowed range of frequencies is fast, but most true frequencies are
    # slow: half of the frequencies are drawn from the slow ones.
    turn = np.arange(count) // len(good)
    draws_slow = turn % 2 == 0
    for omega in np.flatnonzero(setup.is_frequency):
        low, high = setup.lower[omega], setup.upper[omega]
        high = np.minimum(slow_frequency_limit(setup, theta)[:, 0], high)
        slow = low + random.uniform(size=count) * np.maximum(high - low, 0.0)
        new_history[draws_slow, omega] = slow[draws_slow]
    if setup.has_curves:
        new_history = match_starts(setup, new_history, noise, held=~setup.is_history)
    has_new_history = turn % 4 != 3
    return np.where(has_new_history[:, None], new_history, rescaled)


def draw_starts(
    setup: FitSetup, starts: int, tries: int, random: np.random.Generator
) -> np.ndarray:
    """Random values for `starts` starts, `tries` rows for each, which have similar
    delays. The delays of all starts are spread over the range of delays. The rows of
    the first start hold the user's start values, where there are any."""
    return draw_possible(setup, lambda: _draw(setup, starts, tries, random))


def _draw(
    setup: FitSetup, starts: int, tries: int, random: np.random.Generator
) -> np.ndarray:
    count = starts * tries
    # Most parameters are positive. If every draw chose its signs at random, a model
    # with many parameters would hardly ever be drawn with all of them positive: only
    # every second row may have the other sign.
    may_change_sign = np.arange(count) % 2 == 1
    sizes, offsets = _natural_sizes(setup, count, random)
    columns = [
        _draw_value(setup, j, sizes[:, j], offsets[:, j], may_change_sign, random)
        for j in range(len(setup.lower))
    ]
    theta, longest = np.stack(columns, axis=1), longest_part(setup.data)
    for number, j in enumerate(setup.model.free.delays):
        low, high = delays_to_try(longest, setup.lower[j], setup.upper[j])
        share = (np.arange(count) + random.uniform(size=count)) / count
        if number > 0:
            # Every delay is spread over its own range, in an order of its own, so that
            # few starts meet many combinations.
            order = random.permutation(count // tries)
            share = share.reshape(-1, tries)[order].ravel()
        # Half of the starts have evenly spread delays, half logarithmically spread
        # ones, so that short delays are tried as well.
        even = low + share * (high - low)
        least = low if low > 0 else 1e-3 * high  # The shortest of delays may be zero.
        logarithmic = least * (high / least) ** share
        theta[:, j] = np.where(np.arange(count) // tries % 2, even, logarithmic)
    theta[:tries] = np.where(np.isnan(setup.guess), theta[:tries], setup.guess)
    return np.clip(theta, setup.lower, setup.upper)


def _natural_sizes(
    setup: FitSetup, count: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The natural sizes of the free values, and what they are shifted by in every
    second row, [count, p]. Without natural units a size is a scale of the data: the
    spread x, a tenth of the record t, or products and quotients of them."""
    shape = (count, len(setup.lower))
    if setup.units is None:
        x, t = float(np.mean(spread(setup.data))), setup.data.T / 10
        scales = [1.0, x, 1 / t, x / t, 1 / x, 1 / (x * t)]
        return random.choice(scales, shape), np.zeros(shape)
    is_shifted = np.arange(count)[:, None] % 2 == 0
    return setup.units.sizes(count, random), is_shifted * setup.units.offsets


def _draw_value(
    setup: FitSetup,
    j: int,
    size: np.ndarray,
    offset: np.ndarray,
    may_change_sign: np.ndarray,
    random: np.random.Generator,
) -> np.ndarray:
    """Random values of free parameter j, one for each element of `may_change_sign`.

    Between two bounds they are spread over the interval, logarithmically where its sign
    is known. Otherwise their size is within a factor of ten of the user's start value
    or, without one, of the natural `size`; this is added to a bound, or to an
    `offset`."""
    low, high, count = setup.lower[j], setup.upper[j], len(may_change_sign)
    if np.isfinite(low) and np.isfinite(high):
        if low > 0:
            return np.exp(random.uniform(np.log(low), np.log(high), count))
        if high < 0:
            return -np.exp(random.uniform(np.log(-high), np.log(-low), count))
        even = random.uniform(low, high, count)
        if low < 0:
            return even
        # The interval begins at zero and its scale is unknown: half of the values are
        # spread evenly, half logarithmically.
        logarithmic = high * 10 ** -random.uniform(0, 3, count)
        return np.where(random.uniform(size=count) < 0.5, even, logarithmic)
    guess = setup.guess[j]
    has_guess = np.isfinite(guess) and guess != 0
    size = (np.abs(guess) if has_guess else size) * 10 ** random.uniform(-1, 1, count)
    sign = np.sign(guess) if has_guess else 1.0
    flips = may_change_sign & (random.uniform(size=count) < 0.4)
    value = (0.0 if has_guess else offset) + size * np.where(flips, -sign, sign)
    if np.isfinite(low):
        return np.where(value > low, value, low + size)
    if np.isfinite(high):
        return np.where(value < high, value, high - size)
    return value


def _targets(setup: FitSetup, theta: np.ndarray, noise: np.ndarray) -> MatchingTarget:
    """What gradient matching compares each row of `theta` with. In a study the arrays
    have a second axis over the experiments."""
    precision = _SLOPE_ERROR**-2 if setup.has_networks else 1.0
    targets = []
    for e, part in enumerate(setup.parts):
        assert part.curve is not None
        delays = part.delays(setup.local(theta, e))
        targets.append(
            matching_targets(part.curve, part.data.T, delays, noise, precision)
        )
    if setup.joint is None:
        return targets[0]
    return jax.tree.map(lambda *arrays: np.stack(arrays, axis=1), *targets)


def match_starts(
    setup: FitSetup,
    theta: np.ndarray,
    noise: np.ndarray,
    tries: int = 1,
    held: np.ndarray | None = None,
) -> np.ndarray:
    """The starts after gradient matching, each with its own delay.

    `theta` has `tries` rows for each start, of which the best is returned. Values that
    are `held` stay. A row stays as it is if the equation is not finite there, and so
    does the user's start if it is complete."""
    targets = _targets(setup, theta, noise)
    held = np.zeros(len(setup.lower), bool) if held is None else held
    # Delays, and values on which only delays depend, cannot be matched.
    free_values = np.arange(len(held))
    held = held | np.isin(free_values, setup.model.free.delays)
    held = held | ~np.isin(free_values, setup.model.direct)
    box = setup.box(len(theta), held)
    priors = setup.model.priors if setup.has_networks else None

    def match_rows(rows: np.ndarray):
        filled = np.resize(rows, BLOCK_SIZE)
        own, own_box, own_targets = jax.tree.map(
            lambda a: a[filled], (theta, box, targets)
        )
        found = match_block(setup.model, own, own_box, own_targets, priors)
        result = jax.tree.map(np.asarray, found)
        needed = result.theta, result.status, result.normal.gram[:, 0, 0]
        return jax.tree.map(lambda a: a[: len(rows)], needed)

    matched, status, loss = map_in_blocks(match_rows, len(theta), setup.workers)
    has_failed = status == NO_START
    matched = np.where(has_failed[:, None], theta, matched)
    loss = np.where(has_failed, np.inf, loss).reshape(-1, tries)
    best = matched[np.arange(len(loss)) * tries + np.argmin(loss, axis=1)]
    if np.isfinite(setup.guess).all():
        best[0] = theta[0]
    return best
