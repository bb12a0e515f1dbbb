"""Where the fits of many searches start: random values, moved by gradient matching (see
`_search/starts.py` and `_search/gradient_matching.py`).

Each search has its own seed. Number i of its stream s is a hash of the seed, s and i
(SplitMix64). So all searches draw together, and each gets the numbers that it would get
alone."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._engine.aligned.path import hermite
from .._search.gradient_matching import TIMES, MatchingTarget, match_one
from .._search.levenberg_marquardt import NO_START, Box
from .._search.normal_equations import LeastSquaresModel
from .._search.starts import TRIES, UNMATCHED_EVERY
from .._search.symmetries import LARGEST_LOG
from .._util.arrays import read
from .minima import slow_limit
from .refine import Fits, run_rows
from .sets import INTERVALS, Sets

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@final
@dataclass
class Streams:
    """The random numbers of searches with these `seeds`, a row for each. Every call
    draws from the next stream."""

    seeds: np.ndarray
    stream: int = field(default=0)

    def uniform(self, *shape: int) -> np.ndarray:
        """Draw numbers between zero and one, of the shape (searches, *shape)."""
        self.stream += 1
        count = int(np.prod(shape))
        with np.errstate(over="ignore"):
            keys = _mixed(self.seeds.astype(np.uint64) * _STEP + _STEP)
            keys = _mixed(keys + np.uint64(self.stream) * _STEP)
            places = np.arange(1, 1 + count, dtype=np.uint64) * _STEP
            bits = _mixed(keys[:, None] + places)
        uniform = ((bits >> np.uint64(11)) + 0.5) * 2.0**-53
        return uniform.reshape(len(self.seeds), *shape)

    def normal(self, *shape: int) -> np.ndarray:
        """Draw from a standard normal distribution (Box and Muller)."""
        radius, turn = self.uniform(*shape), self.uniform(*shape)
        return np.sqrt(-2 * np.log(radius)) * np.cos(2 * np.pi * turn)

    def order(self, count: int) -> np.ndarray:
        """Draw a random order of `count` things."""
        return np.argsort(self.uniform(count), axis=1)

    def sign(self, *shape: int) -> np.ndarray:
        """Draw -1, 0 or 1; zero as often as both others."""
        number = self.uniform(*shape)
        return np.where(number < 0.25, -1.0, np.where(number < 0.75, 0.0, 1.0))


def _mixed(z: Any) -> Any:
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


class SmoothCurve(NamedTuple):
    """The curve of one data set, as in `Curves`, up to the time `T`; or of many, with a
    first axis. The weights are those of `MatchingTarget`."""

    x: Any  # [INTERVALS + 1, k]
    slope: Any
    lowest: Any  # [k]
    highest: Any
    T: Any
    weight: Any
    start_weight: Any


def match(
    sets: Sets, theta: np.ndarray, tries: int = 1, held: np.ndarray | None = None
) -> np.ndarray:
    """Return the starts [sets, rows / tries, p] after gradient matching, each with its
    own delay: the best of `tries` rows for each start. Values that are `held` [p] stay.
    A row stays as it is if the equation is not finite there, or if it is a complete
    start of the user."""
    model, p = sets.template.model, sets.p
    count, rows = theta.shape[:2]
    held = np.zeros(p, bool) if held is None else held
    values = np.arange(p)
    held = held | np.isin(values, model.free.delays) | ~np.isin(values, model.direct)
    set_of, flat = np.repeat(np.arange(count), rows), theta.reshape(-1, p)
    box = Box(sets.lower[set_of], sets.upper[set_of], np.broadcast_to(held, flat.shape))
    shared = model, sets.delay_values
    found = run_rows(_match, shared, _curves(sets), (flat, box), set_of, sets.place)
    has_failed = found.status == NO_START
    better = np.where(has_failed[:, None], flat, found.theta)
    better = better.reshape(count, -1, tries, p)
    loss = found.normal.gram[:, 0, 0]
    loss = np.where(has_failed, np.inf, loss).reshape(count, -1, tries)
    best = np.argmin(loss, axis=2)[..., None, None]
    chosen = np.take_along_axis(better, best, axis=2)[:, :, 0]
    is_complete = np.isfinite(sets.guess).all(axis=1)
    chosen[is_complete, 0] = theta[is_complete, 0]
    return chosen


def _curves(sets: Sets) -> SmoothCurve:
    """Return the curves of all sets."""
    curves, every = sets.curves, _EVERY
    # Rows are contiguous in memory, so that a sum does not depend on other sets.
    slope = np.swapaxes(curves.slope[:, ::every], 1, 2).copy()
    x = np.swapaxes(curves.x[:, ::every], 1, 2).copy()
    mean_square, variance = np.mean(slope**2, axis=2), np.var(x, axis=2)
    start_variance = np.maximum(sets.noise**2, 1e-4 * variance + 1e-300)
    return SmoothCurve(
        curves.x,
        curves.slope,
        curves.lowest,
        curves.highest,
        sets.T,
        1 / np.where(mean_square > 0, mean_square, 1.0),
        1 / start_variance,
    )


# Every node of this number is a time of gradient matching.
_EVERY = INTERVALS // (TIMES - 1)


def _match(
    shared: tuple[LeastSquaresModel, tuple[int | float, ...]], curve: SmoothCurve, own
):
    """Match one row. The delays are free values (by number), or numbers."""
    (model, delay_values), (theta, box) = shared, own
    delays = [theta[d] if isinstance(d, int) else jnp.asarray(d) for d in delay_values]
    h = curve.T / INTERVALS

    def at(t):
        """Return the curve at the time t."""
        place = jnp.clip(jnp.floor(t / h).astype(int), 0, INTERVALS - 1)
        left, right = (
            (read(curve.x, place + end), read(curve.slope, place + end))
            for end in (0, 1)
        )
        x = hermite(t / h - place, left, right, h)
        return jnp.clip(x, curve.lowest, curve.highest)

    def earlier(j):
        t = j * _EVERY * h
        before = jnp.stack([t - delay for delay in delays])
        y = jnp.stack([at(jnp.maximum(t - delay, 0.0)) for delay in delays])
        return t, read(curve.x, j * _EVERY), read(curve.slope, j * _EVERY), y, before

    t, x, slope, y, before = lax.map(earlier, jnp.arange(TIMES))
    target = MatchingTarget(
        t,
        x,
        slope,
        y,
        before >= 0,
        read(curve.x, 0),
        curve.weight,
        curve.start_weight,
        jnp.zeros((1, 1)),  # for delays that vary
    )
    return match_one(model, theta, box, target, None)


def matched_starts(sets: Sets, count: int, random: Streams) -> np.ndarray:
    """Return the user's start values, then random ones, moved by gradient matching."""
    drawn = draw_starts(sets, count, TRIES, random)
    matched = match(sets, drawn, TRIES)
    # If the curve follows the data badly, unmatched starts may be better.
    is_unmatched = np.arange(count) % UNMATCHED_EVERY == UNMATCHED_EVERY - 1
    return np.where(is_unmatched[:, None], drawn[:, ::TRIES], matched)


def perturbed_starts(sets: Sets, good: Fits, count: int, random: Streams) -> np.ndarray:
    """Draw starts around the `good` fits of each set, used in turn. Three of four get a
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
    """Draw `starts` starts of each set, with `tries` rows of similar delays for each,
    [sets, starts * tries, p]. The rows of the first start have the user's start values,
    where there are any."""
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
    """Return the natural sizes of the free values, [sets, count, p]. Unknown exponents
    are drawn for each row."""
    logs = sets.curves.logs[:, None]
    found = np.zeros((len(sets), count, sets.p))
    for j, exponents in enumerate(sets.exponents):
        drawn = random.sign(count, len(exponents)) if np.isnan(exponents).any() else 0.0
        known = np.where(np.isnan(exponents), drawn, exponents)
        found[..., j] = np.sum(known * logs, axis=-1)
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
    """Draw values of free parameter j, [sets, count], by the rules of one search."""
    low, high = sets.lower[:, j, None], sets.upper[:, j, None]
    count, first = len(may_change_sign), random.uniform(len(may_change_sign))
    second = random.uniform(count)
    has_low, has_high = np.isfinite(low), np.isfinite(high)
    guess = guesses[:, j, None]
    has_guess = np.isfinite(guess) & (guess != 0)
    size = np.where(has_guess, np.abs(np.where(has_guess, guess, 1.0)), size)
    size = size * 10 ** (2 * first - 1)
    sign = np.where(has_guess, np.sign(guess), 1.0)
    sign = np.where(may_change_sign & (second < 0.4), -sign, sign)
    offset = np.where(np.arange(count) % 2 == 0, offsets[:, j, None], 0.0)
    value = np.where(has_guess, 0.0, offset) + size * sign
    value = np.where(has_low & ~(value > low), low + size, value)
    value = np.where(~has_low & has_high & ~(value < high), high - size, value)
    # Between two bounds values are spread over the interval, logarithmically where the
    # sign is known; half of them logarithmically if the interval begins at zero.
    is_between = has_low & has_high
    a, b = np.where(is_between, low, 1.0), np.where(is_between, high, 2.0)
    even = a + first * (b - a)
    ends = np.where(a > 0, a, np.where(b < 0, -b, 1.0))
    other = np.where(a > 0, b, np.where(b < 0, -a, 1.0))
    by_size = ends * (other / ends) ** first * np.where(b < 0, -1.0, 1.0)
    from_zero = np.where(second < 0.5, even, b * 10 ** (-3 * first))
    inside = np.where((a > 0) | (b < 0), by_size, np.where(a < 0, even, from_zero))
    return np.where(is_between, inside, value)
