"""Where a search starts: random values, moved by gradient matching."""

from typing import Any

import jax
import numpy as np

from . import _levenberg
from ._data import Data
from ._matching import match_block, slopes
from ._refine import BLOCK, in_blocks
from ._setting import Setting
from ._smooth import smooth, spread


def draw(setting: Setting, starts: int, random) -> np.ndarray:
    """Starts: the user's first, then random ones with delays spread over their
    range."""
    p = len(setting.lower)
    z = np.stack([_draw(setting, j, starts, random) for j in range(p)], axis=1)
    if setting.tau is not None:
        low, high = setting.lower[setting.tau], setting.upper[setting.tau]
        share = (np.arange(starts) + random.uniform(size=starts)) / starts
        # Half of the starts evenly, half of them by ratio: short delays count, too.
        even = low + share * (high - low)
        ratio = low * (high / low) ** share
        z[:, setting.tau] = np.where(np.arange(starts) % 2, even, ratio)
    z[0] = np.where(np.isnan(setting.guess), z[0], setting.guess)
    return np.clip(z, setting.lower, setting.upper)


def _draw(setting: Setting, j: int, count: int, random) -> np.ndarray:
    """Random values of one free parameter."""
    low, high = setting.lower[j], setting.upper[j]
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
    return size * np.where(random.uniform(size=count) < 0.8, usual, -usual)


def match(setting: Setting, z: np.ndarray, noise: np.ndarray, held=None) -> np.ndarray:
    """The starts after gradient matching, each with its own delay; a start where that
    fails, and the user's, stay as they are."""
    data, model = setting.data, setting.model
    if data.x.shape[1] != model.dimension or model.observes:
        return z
    measured = np.isfinite(data.x).any(axis=0)
    curve = smooth(_filled(data, measured))
    if curve is None:
        return z
    delays = setting.delay(z)
    curves = [slopes(curve, data.T, tau, noise) for tau in delays]
    curves = jax.tree.map(lambda *a: np.stack(a), *curves)
    whole = measured.all()
    curves = curves._replace(
        weight=curves.weight * whole, start_weight=curves.start_weight * measured
    )
    held = np.zeros(len(setting.lower), bool) if held is None else held
    held = held | (np.arange(len(held)) == setting.tau)
    box = setting.box(len(z), held)

    def block(rows):
        fill = np.resize(rows, BLOCK)
        tasks = jax.tree.map(lambda a: a[fill], (z, box, curves))
        found = jax.tree.map(np.asarray, match_block(model, *tasks))
        return jax.tree.map(lambda a: a[: len(rows)], (found.z, found.status))

    matched, status = in_blocks(block, len(z), setting.workers)
    keep = status == _levenberg.NO_START
    keep[0] |= bool(np.isfinite(setting.guess).all())
    return np.where(keep[:, None], z, matched)


def _filled(data: Data, measured: Any) -> Data:
    """The data with a harmless constant for what is not measured."""
    if measured.all():
        return data
    x = np.where(measured, data.x, 1.0)
    return Data(data.t, x)
