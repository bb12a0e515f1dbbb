"""Where a search starts: random values, moved by gradient matching; and good fits,
changed a little."""

from dataclasses import replace

import jax
import numpy as np

from . import _levenberg
from ._matching import match_block, slopes
from ._preference import slow_limit
from ._refine import BLOCK, in_blocks
from ._setting import Setting
from ._smooth import Curve, spread

# For each start so many draws are matched, and the best is kept.
_TRIES = 4
# One of so many starts is not matched.
_MATCHED = 4


def first_starts(
    setting: Setting, count: int, curve: Curve | None, noise: np.ndarray, random
) -> np.ndarray:
    """The user's start, and random ones; matched where there is a curve."""
    if curve is None:
        return draw(setting, count, 1, random)
    z = draw(setting, count, _TRIES, random)
    matched = match(setting, z, curve, noise, _TRIES)
    # Where the curve is a bad one, some starts are better as they were drawn.
    raw = np.arange(count) % _MATCHED == _MATCHED - 1
    return np.where(raw[:, None], z[::_TRIES], matched)


def second_starts(
    setting: Setting,
    found: np.ndarray,
    count: int,
    curve: Curve | None,
    noise: np.ndarray,
    random,
) -> np.ndarray:
    """Good fits again: most with other histories, matched where there is a curve, and
    some moved a little."""
    z = np.resize(found, (count, found.shape[1]))
    size = 0.3 * 10 ** -random.uniform(0, 1, (count, 1))
    moved = z * np.exp(size * random.standard_normal(z.shape))
    moved = np.clip(moved, setting.lower, setting.upper)
    if not setting.history.any():
        return moved
    drawn = draw(replace(setting, guess=setting.guess * np.nan), count, 1, random)
    other = np.where(setting.history, drawn, z)
    # Most frequencies are fast ones, most of the true are not: half are drawn slow.
    some = np.arange(count) // len(found) % 2 == 0
    for omega in np.flatnonzero(setting.frequencies):
        low, high = setting.lower[omega], setting.upper[omega]
        high = np.minimum(slow_limit(setting, z)[:, 0], high)
        slow = low + random.uniform(size=count) * np.maximum(high - low, 0.0)
        other[some, omega] = slow[some]
    if curve is not None:
        other = match(setting, other, curve, noise, held=~setting.history)
    most = np.arange(count) // len(found) % 4 != 3
    return np.where(most[:, None], other, moved)


def draw(setting: Setting, starts: int, tries: int, random) -> np.ndarray:
    """Starts, each drawn `tries` times with similar delays: the user's first, then
    random ones with delays spread over their range."""
    count = starts * tries
    # Most parameters are positive. All of many are so only where that is asked for.
    bold = np.arange(count) % 2 == 1
    columns = [_draw(setting, j, bold, random) for j in range(len(setting.lower))]
    z = np.stack(columns, axis=1)
    if setting.tau is not None:
        low, high = setting.lower[setting.tau], setting.upper[setting.tau]
        share = (np.arange(count) + random.uniform(size=count)) / count
        # Half of the starts evenly, half of them by ratio: short delays count, too.
        even = low + share * (high - low)
        ratio = low * (high / low) ** share
        z[:, setting.tau] = np.where(np.arange(count) // tries % 2, even, ratio)
    z[:tries] = np.where(np.isnan(setting.guess), z[:tries], setting.guess)
    return np.clip(z, setting.lower, setting.upper)


def _draw(setting: Setting, j: int, bold: np.ndarray, random) -> np.ndarray:
    """Random values of one free parameter."""
    low, high, count = setting.lower[j], setting.upper[j], len(bold)
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
    guess = setting.guess[j]
    known = np.isfinite(guess) and guess != 0
    if known:
        size = np.abs(guess) * np.ones(count)
    else:
        x, t = np.mean(spread(setting.data)), setting.data.T / 10
        size = random.choice([1.0, x, 1 / t, x / t, 1 / x, 1 / (x * t)], count)
    size = size * 10 ** random.uniform(-1, 1, count)
    if np.isfinite(low):
        return low + size
    if np.isfinite(high):
        return high - size
    usual = np.sign(guess) if known else 1.0
    return size * np.where(bold & (random.uniform(size=count) < 0.4), -usual, usual)


def match(
    setting: Setting,
    z: np.ndarray,
    curve: Curve,
    noise: np.ndarray,
    tries: int = 1,
    held: np.ndarray | None = None,
) -> np.ndarray:
    """The starts after gradient matching, each with its own delay, and the best of its
    `tries`; a start where that fails, and the user's, stay as they are."""
    data = setting.data
    curves = slopes(curve, data.T, setting.delay(z), noise)
    measured = setting.measured
    curves = curves._replace(
        weight=curves.weight * measured.all(),
        start_weight=curves.start_weight * measured,
    )
    held = np.zeros(len(setting.lower), bool) if held is None else held
    held = held | (np.arange(len(held)) == setting.tau)
    box = setting.box(len(z), held)

    def block(rows):
        fill = np.resize(rows, BLOCK)
        tasks = jax.tree.map(lambda a: a[fill], (z, box, curves))
        found = jax.tree.map(np.asarray, match_block(setting.model, *tasks))
        kept = found.z, found.status, found.normal.gram[:, 0, 0]
        return jax.tree.map(lambda a: a[: len(rows)], kept)

    matched, status, loss = in_blocks(block, len(z), setting.workers)
    keep = status == _levenberg.NO_START
    matched = np.where(keep[:, None], z, matched)
    loss = np.where(keep, np.inf, loss).reshape(-1, tries)
    best = matched[np.arange(len(loss)) * tries + np.argmin(loss, axis=1)]
    if np.isfinite(setting.guess).all():
        best[0] = z[0]
    return best
