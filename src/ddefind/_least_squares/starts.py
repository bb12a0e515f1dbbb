"""Where a search starts: random values, moved by gradient matching; and good fits,
changed a little."""

from dataclasses import replace

import jax
import numpy as np

from .._data.smoothing import Curve, spread
from . import levenberg_marquardt as _levenberg
from .batches import BLOCK, in_blocks
from .gradient_matching import match_block, slopes
from .ranking import slow_limit
from .setup import FitSetup

# For each start so many draws are matched, and the best is kept.
_TRIES = 4
# One of so many starts is not matched.
_MATCHED = 4


def first_starts(
    setup: FitSetup, count: int, curve: Curve | None, noise: np.ndarray, random
) -> np.ndarray:
    """The user's start, and random ones; matched where there is a curve."""
    if curve is None:
        return draw(setup, count, 1, random)
    theta = draw(setup, count, _TRIES, random)
    matched = match(setup, theta, curve, noise, _TRIES)
    # Where the curve is a bad one, some starts are better as they were drawn.
    raw = np.arange(count) % _MATCHED == _MATCHED - 1
    return np.where(raw[:, None], theta[::_TRIES], matched)


def second_starts(
    setup: FitSetup,
    found: np.ndarray,
    count: int,
    curve: Curve | None,
    noise: np.ndarray,
    random,
) -> np.ndarray:
    """Good fits again: most with other histories, matched where there is a curve, and
    some moved a little."""
    theta = np.resize(found, (count, found.shape[1]))
    size = 0.3 * 10 ** -random.uniform(0, 1, (count, 1))
    moved = theta * np.exp(size * random.standard_normal(theta.shape))
    moved = np.clip(moved, setup.lower, setup.upper)
    if not setup.history.any():
        return moved
    drawn = draw(replace(setup, guess=setup.guess * np.nan), count, 1, random)
    other = np.where(setup.history, drawn, theta)
    # Most frequencies are fast ones, most of the true are not: half are drawn slow.
    some = np.arange(count) // len(found) % 2 == 0
    for omega in np.flatnonzero(setup.frequencies):
        low, high = setup.lower[omega], setup.upper[omega]
        high = np.minimum(slow_limit(setup, theta)[:, 0], high)
        slow = low + random.uniform(size=count) * np.maximum(high - low, 0.0)
        other[some, omega] = slow[some]
    if curve is not None:
        other = match(setup, other, curve, noise, held=~setup.history)
    most = np.arange(count) // len(found) % 4 != 3
    return np.where(most[:, None], other, moved)


def draw(setup: FitSetup, starts: int, tries: int, random) -> np.ndarray:
    """Starts, each drawn `tries` times with similar delays: the user's first, then
    random ones with delays spread over their range."""
    count = starts * tries
    # Most parameters are positive. All of many are so only where that is asked for.
    bold = np.arange(count) % 2 == 1
    columns = [_draw(setup, j, bold, random) for j in range(len(setup.lower))]
    theta = np.stack(columns, axis=1)
    if setup.tau is not None:
        low, high = setup.lower[setup.tau], setup.upper[setup.tau]
        share = (np.arange(count) + random.uniform(size=count)) / count
        # Half of the starts evenly, half of them by ratio: short delays count, too.
        even = low + share * (high - low)
        ratio = low * (high / low) ** share
        theta[:, setup.tau] = np.where(np.arange(count) // tries % 2, even, ratio)
    theta[:tries] = np.where(np.isnan(setup.guess), theta[:tries], setup.guess)
    return np.clip(theta, setup.lower, setup.upper)


def _draw(setup: FitSetup, j: int, bold: np.ndarray, random) -> np.ndarray:
    """Random values of one free parameter."""
    low, high, count = setup.lower[j], setup.upper[j], len(bold)
    if np.isfinite(low) and np.isfinite(high):
        if low > 0:
            return np.exp(random.uniform(np.log(low), np.log(high), count))
        if high < 0:
            return -np.exp(random.uniform(np.log(-high), np.log(-low), count))
        even = random.uniform(low, high, count)
        if low < 0:
            return even
        # From zero on: half of them by ratio, since the scale is not known.
        ratio = high * 10 ** -random.uniform(0, 3, count)
        return np.where(random.uniform(size=count) < 0.5, even, ratio)
    guess = setup.guess[j]
    known = np.isfinite(guess) and guess != 0
    if known:
        size = np.abs(guess) * np.ones(count)
    else:
        x, t = np.mean(spread(setup.data)), setup.data.T / 10
        size = random.choice([1.0, x, 1 / t, x / t, 1 / x, 1 / (x * t)], count)
    size = size * 10 ** random.uniform(-1, 1, count)
    if np.isfinite(low):
        return low + size
    if np.isfinite(high):
        return high - size
    usual = np.sign(guess) if known else 1.0
    return size * np.where(bold & (random.uniform(size=count) < 0.4), -usual, usual)


def match(
    setup: FitSetup,
    theta: np.ndarray,
    curve: Curve,
    noise: np.ndarray,
    tries: int = 1,
    held: np.ndarray | None = None,
) -> np.ndarray:
    """The starts after gradient matching, each with its own delay, and the best of its
    `tries`; a start where that fails, and the user's, stay as they are."""
    data = setup.data
    curves = slopes(curve, data.T, setup.delay(theta), noise)
    measured = setup.measured
    curves = curves._replace(
        weight=curves.weight * measured.all(),
        start_weight=curves.start_weight * measured,
    )
    held = np.zeros(len(setup.lower), bool) if held is None else held
    held = held | (np.arange(len(held)) == setup.tau)
    box = setup.box(len(theta), held)

    def block(rows):
        fill = np.resize(rows, BLOCK)
        tasks = jax.tree.map(lambda a: a[fill], (theta, box, curves))
        found = jax.tree.map(np.asarray, match_block(setup.model, *tasks))
        kept = found.theta, found.status, found.normal.gram[:, 0, 0]
        return jax.tree.map(lambda a: a[: len(rows)], kept)

    matched, status, loss = in_blocks(block, len(theta), setup.workers)
    keep = status == _levenberg.NO_START
    matched = np.where(keep[:, None], theta, matched)
    loss = np.where(keep, np.inf, loss).reshape(-1, tries)
    best = matched[np.arange(len(loss)) * tries + np.argmin(loss, axis=1)]
    if np.isfinite(setup.guess).all():
        best[0] = theta[0]
    return best
