"""Gradient matching for many data sets (see `_least_squares/gradient_matching.py`)."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._least_squares.gradient_matching import TIMES, MatchingTarget, match_one
from .._least_squares.levenberg_marquardt import NO_START, Box
from .._least_squares.normal_equations import LeastSquaresModel
from .._solve.hermite import hermite
from .._util.buffers import read
from .curves import INTERVALS
from .rows import run_rows
from .sets import Sets


class SmoothCurve(NamedTuple):
    """The curve of one data set, as in `Curves`; or those of many, with a first axis.

    `T` is where it ends. `weight` and `start_weight` are those of `MatchingTarget`."""

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
    """The starts [sets, rows / tries, p] after gradient matching, each with its own
    delay: of `tries` rows for each start the best. Values that are `held` [p] stay. A
    row stays as it is if the equation is not finite there, and so does the user's start
    if it is complete."""
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
    """The curves of all sets."""
    curves, every = sets.curves, _EVERY
    # Rows that lie together in memory, so that a sum does not depend on other sets.
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


# The times of gradient matching are nodes of the curve, one of so many.
_EVERY = INTERVALS // (TIMES - 1)


def _match(
    shared: tuple[LeastSquaresModel, tuple[int | float, ...]], curve: SmoothCurve, own
):
    """Gradient matching of one row. The delays are free values, or numbers."""
    (model, delay_values), (theta, box) = shared, own
    delays = [theta[d] if isinstance(d, int) else jnp.asarray(d) for d in delay_values]
    h = curve.T / INTERVALS

    def at(t):
        """The curve at the time t."""
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
