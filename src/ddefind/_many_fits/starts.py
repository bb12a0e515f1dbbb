"""Where the fits of many searches start (see `_least_squares/starts.py`)."""

import numpy as np

from .._least_squares.natural_units import LARGEST_LOG
from .._least_squares.starts import TRIES, UNMATCHED_EVERY
from .fits import Fits
from .matching import match
from .minima import slow_limit
from .random import Streams
from .sets import Sets


def matched_starts(sets: Sets, count: int, random: Streams) -> np.ndarray:
    """The user's start values, then random ones, moved by gradient matching."""
    drawn = draw_starts(sets, count, TRIES, random)
    matched = match(sets, drawn, TRIES)
    # If the curve follows the data badly, unmatched starts may be the better ones.
    is_unmatched = np.arange(count) % UNMATCHED_EVERY == UNMATCHED_EVERY - 1
    return np.where(is_unmatched[:, None], drawn[:, ::TRIES], matched)


def perturbed_starts(sets: Sets, good: Fits, count: int, random: Streams) -> np.ndarray:
    """New starts from the `good` fits of each set, used in turn. Three of four get a
    new random history, moved by gradient matching; in the fourth every value is changed
    by a random factor."""
    template, p = sets.template, sets.p
    sources = np.maximum(good.exists.sum(axis=1, keepdims=True), 1)
    number = np.arange(count)
    theta = good.pick(number % sources).theta
    size = 0.3 * 10 ** -random.uniform(count, 1)
    rescaled = theta * np.exp(size * random.normal(count, p))
    rescaled = np.clip(rescaled, sets.lower[:, None], sets.upper[:, None])
    if not template.is_history.any():
        return rescaled
    drawn = draw_starts(sets, count, 1, random, has_guess=False)
    new_history = np.where(template.is_history, drawn, theta)
    # Most of the allowed range of frequencies is fast, but most true frequencies are
    # slow: half of the frequencies are drawn from the slow ones.
    turn = number // sources
    for omega in np.flatnonzero(template.is_frequency):
        low, high = sets.lower[:, omega, None], sets.upper[:, omega, None]
        high = np.minimum(slow_limit(sets, theta), high)
        slow = low + random.uniform(count) * np.maximum(high - low, 0.0)
        drawn_slow = np.where(turn % 2 == 0, slow, new_history[..., omega])
        new_history[..., omega] = drawn_slow
    if sets.has_curves:
        new_history = match(sets, new_history, held=~template.is_history)
    return np.where((turn % 4 != 3)[..., None], new_history, rescaled)


def draw_starts(
    sets: Sets, starts: int, tries: int, random: Streams, has_guess: bool = True
) -> np.ndarray:
    """Random values for `starts` starts of each set, `tries` rows for each, which have
    similar delays, [sets, starts * tries, p]. The rows of the first start hold the
    user's start values, where there are any."""
    count = starts * tries
    # Only every second row may have the other sign: most parameters are positive.
    may_change_sign = np.arange(count) % 2 == 1
    sizes = _natural_sizes(sets, count, random)
    levels = sets.curves.logs[:, sets.data.x.shape[2] : -1]
    offsets = np.sum(sets.shifts * levels[:, None], axis=2)
    guess = sets.guess if has_guess else np.full_like(sets.guess, np.nan)
    columns = [
        _draw_value(sets, j, guess, sizes[..., j], offsets, may_change_sign, random)
        for j in range(sets.p)
    ]
    theta = np.stack(columns, axis=2)
    for number, j in enumerate(sets.template.model.free.delays):
        low, high = np.moveaxis(sets.tried[:, number, :, None], 1, 0)
        share = (np.arange(count) + random.uniform(count)) / count
        if number > 0:
            # Every delay is spread over its own range, in an order of its own.
            order = random.order(starts)[..., None]
            share = share.reshape(len(sets), starts, tries)
            share = np.take_along_axis(share, order, axis=1).reshape(len(sets), -1)
        even = low + share * (high - low)
        least = np.where(low > 0, low, 1e-3 * high)
        logarithmic = least * (high / least) ** share
        theta[..., j] = np.where(np.arange(count) // tries % 2, even, logarithmic)
    first = theta[:, :tries]
    theta[:, :tries] = np.where(np.isnan(guess)[:, None], first, guess[:, None])
    return np.clip(theta, sets.lower[:, None], sets.upper[:, None])


def _natural_sizes(sets: Sets, count: int, random: Streams) -> np.ndarray:
    """The natural sizes of the free values, [sets, count, p]. Unknown exponents are
    drawn anew for each row."""
    logs = sets.curves.logs[:, None]
    found = np.zeros((len(sets), count, sets.p))
    for j, exponents in enumerate(sets.exponents):
        drawn = random.sign(count, len(exponents)) if np.isnan(exponents).any() else 0.0
        own = np.where(np.isnan(exponents), drawn, exponents)
        found[..., j] = np.sum(own * logs, axis=-1)
    return np.exp(np.clip(found, -LARGEST_LOG, LARGEST_LOG))


def _draw_value(
    sets: Sets,
    j: int,
    guesses: np.ndarray,
    size: np.ndarray,
    offsets: np.ndarray,
    may_change_sign: np.ndarray,
    random: Streams,
) -> np.ndarray:
    """Random values of free parameter j, [sets, count], by the rules of one search."""
    low, high = sets.lower[:, j, None], sets.upper[:, j, None]
    count, first = len(may_change_sign), random.uniform(len(may_change_sign))
    second = random.uniform(count)
    has_low, has_high = np.isfinite(low), np.isfinite(high)
    guess = guesses[:, j, None]
    has_guess = np.isfinite(guess) & (guess != 0)
    own = np.where(has_guess, np.abs(np.where(has_guess, guess, 1.0)), size)
    own = own * 10 ** (2 * first - 1)
    sign = np.where(has_guess, np.sign(guess), 1.0)
    sign = np.where(may_change_sign & (second < 0.4), -sign, sign)
    offset = np.where(np.arange(count) % 2 == 0, offsets[:, j, None], 0.0)
    value = np.where(has_guess, 0.0, offset) + own * sign
    value = np.where(has_low & ~(value > low), low + own, value)
    value = np.where(~has_low & has_high & ~(value < high), high - own, value)
    # Between two bounds values are spread over the interval, logarithmically where the
    # sign is known; half of them so if the interval begins at zero.
    is_between = has_low & has_high
    a, b = np.where(is_between, low, 1.0), np.where(is_between, high, 2.0)
    even = a + first * (b - a)
    ends = np.where(a > 0, a, np.where(b < 0, -b, 1.0))
    other = np.where(a > 0, b, np.where(b < 0, -a, 1.0))
    by_size = ends * (other / ends) ** first * np.where(b < 0, -1.0, 1.0)
    from_zero = np.where(second < 0.5, even, b * 10 ** (-3 * first))
    inside = np.where((a > 0) | (b < 0), by_size, np.where(a < 0, even, from_zero))
    return np.where(is_between, inside, value)
