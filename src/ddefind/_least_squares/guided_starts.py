"""Starts that are found by guided fits: for hidden states, and where others fail.

Very many values are drawn, and the guided equation is solved once for each. The best of
them are fitted with a strong guide, the best of these with a weaker one, and so on (see
`guide.py`). The fits compare the trajectory with the smooth curve, not with the data
themselves: how far it is from the curve depends on the parameters alone."""

from dataclasses import replace

import jax
import numpy as np

from .._data.smoothing import Curve
from .._data.study_data import each_part
from .._loss.path_costs import Points
from .batches import RefinedFits, refine
from .guide import make_guide
from .natural_units import rate_of
from .setup import FitSetup
from .starts import draw_starts

# The gains of the guide, in units of the rate at which the data change; how many fits
# for each start enter a stage; and the number of evaluations of a fit.
_GAINS, _FITS_PER_START, _EVALUATIONS = (3.0, 1.0, 0.3), (6, 2, 1), 12
# The number of evaluations in which scales and offsets are found.
_LINEAR_EVALUATIONS = 4
# The least number of steps in the time in which a guided trajectory follows its curve.
_STEPS_PER_RESPONSE = 1.5


def guided_starts(
    setup: FitSetup,
    count: int,
    draws: int,
    points: Points,
    random: np.random.Generator,
) -> np.ndarray:
    """The best of `draws` random values after guided fits, at most `count` of them. The
    user's start values, if they are complete, are the first as they are."""
    theta = draw_starts(setup, draws, 1, random)
    target = points._replace(values=_on_curves(setup, points))
    # Draws are compared with the scales and offsets that are best for them.
    is_linear = setup.is_linear
    evaluations, held = (
        (_LINEAR_EVALUATIONS, ~is_linear) if is_linear.any() else (1, None)
    )
    fits = guided_fits(setup, theta, target, _GAINS[0], evaluations, held)
    for gain, entering in zip(_GAINS, _FITS_PER_START):
        theta = _best(fits, entering * count)
        fits = guided_fits(setup, theta, target, gain, _EVALUATIONS)
    theta = _best(fits, count)
    if np.isfinite(setup.guess).all():
        theta[0] = setup.guess
    return theta


def guided_fits(
    setup: FitSetup,
    theta: np.ndarray,
    target: Points,
    gain: float,
    evaluations: int,
    held: np.ndarray | None = None,
) -> RefinedFits:
    """Short fits with a guide of this gain, in units of the rate of the data."""
    rates = [rate_of(_curve(part), part.data.T, part.measured) for part in setup.parts]
    guides = [
        make_guide(_curve(part), part.data.T, part.measured, gain * rate)
        for part, rate in zip(setup.parts, rates)
    ]
    guide = guides[0]
    if setup.joint is not None:
        guide = jax.tree.map(lambda *arrays: np.stack(arrays), *guides)
    guided = replace(setup, model=replace(setup.model, guide=guide))
    n, rate = setup.coarse_steps(theta), _STEPS_PER_RESPONSE * gain * max(rates)
    if setup.model.mesh is not None:
        n = np.maximum(n, int(rate * setup.data.T))
    rate = max(rate, setup.rate)
    return refine(guided, theta, target, n, evaluations, held, rate)


def _curve(part: FitSetup) -> Curve:
    curve = part.quantity_curve
    assert curve is not None
    return curve


def _on_curves(setup: FitSetup, points: Points) -> np.ndarray:
    """The curves at the times of the data."""
    times = each_part(setup.data, np.asarray(points.times))
    values = [_curve(part).x(t) for part, (_, t) in zip(setup.parts, times)]
    return np.where(np.asarray(points.weights) > 0, np.concatenate(values), 0)


def _best(fits: RefinedFits, most: int) -> np.ndarray:
    """The free values of the best fits; at least one."""
    order = np.argsort(fits.loss, kind="stable")
    order = order[: max(min(most, int(np.isfinite(fits.loss).sum())), 1)]
    return fits.theta[order]
