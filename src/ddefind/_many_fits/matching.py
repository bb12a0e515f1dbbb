"""Gradient matching for many data sets (see `_least_squares/gradient_matching.py`)."""

import jax
import numpy as np

from .._least_squares.gradient_matching import (
    TIMES,
    MatchingTarget,
    match_block,
)
from .._least_squares.levenberg_marquardt import NO_START, Box
from .curves import INTERVALS
from .refine import BLOCK
from .sets import Sets


def match(
    sets: Sets, theta: np.ndarray, tries: int = 1, held: np.ndarray | None = None
) -> np.ndarray:
    """The starts [sets, rows / tries, p] after gradient matching, each with its own
    delay: of `tries` rows for each start the best. Values that are `held` [p] stay. A
    row stays as it is if the equation is not finite there, and so does the user's start
    if it is complete."""
    model, p = sets.template.model, sets.p
    count, rows = theta.shape[:2]
    held = np.zeros(p, bool) if held is None else held
    values = np.arange(p)
    held = held | np.isin(values, model.free.delays) | ~np.isin(values, model.direct)
    owner = np.repeat(np.arange(count), rows)
    flat, matched = theta.reshape(-1, p), []
    for first in range(0, len(flat), BLOCK):
        part = np.arange(first, min(first + BLOCK, len(flat)))
        filled = np.resize(part, BLOCK)
        of, own = owner[filled], flat[filled]
        box = Box(sets.lower[of], sets.upper[of], np.broadcast_to(held, own.shape))
        found = match_block(model, own, box, _targets(sets, of, own), None)
        needed = found.theta, found.status, found.normal.gram[:, 0, 0]
        kept = len(part)
        matched.append(jax.tree.map(lambda a, k=kept: np.asarray(a)[:k], needed))
    better, status, loss = map(np.concatenate, zip(*matched))
    has_failed = status == NO_START
    better = np.where(has_failed[:, None], flat, better).reshape(count, -1, tries, p)
    loss = np.where(has_failed, np.inf, loss).reshape(count, -1, tries)
    best = np.argmin(loss, axis=2)[..., None, None]
    chosen = np.take_along_axis(better, best, axis=2)[:, :, 0]
    is_complete = np.isfinite(sets.guess).all(axis=1)
    chosen[is_complete, 0] = theta[is_complete, 0]
    return chosen


def _targets(sets: Sets, of: np.ndarray, theta: np.ndarray) -> MatchingTarget:
    """The targets of the rows `theta`, which belong to the sets `of`."""
    curves, T = sets.curves, sets.T[of]
    every = INTERVALS // (TIMES - 1)
    x, slope = curves.x[:, ::every], curves.slope[:, ::every]
    t = np.linspace(0, 1, TIMES) * T[:, None]
    delays = sets.delays(theta)
    earlier = t[:, :, None] - delays[:, None, :]
    delayed = np.moveaxis(earlier, 2, 0)
    mean_square = np.mean(np.swapaxes(slope, 1, 2).copy() ** 2, axis=2)
    variance = np.var(np.swapaxes(x, 1, 2).copy(), axis=2)
    start_variance = np.maximum(sets.noise**2, 1e-4 * variance + 1e-300)
    weight = 1 / np.where(mean_square > 0, mean_square, 1.0)
    return MatchingTarget(
        t,
        x[of],
        slope[of],
        np.stack([sets.curve_at(np.maximum(a, 0.0), of) for a in delayed], axis=2),
        earlier >= 0,
        x[of, 0],
        weight[of],
        1 / start_variance[of],
        np.zeros((len(of), 1, 1)),  # for delays that vary
    )
