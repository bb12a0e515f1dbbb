"""Whether a fit whose residuals are not noise would do with another history.

The default, a constant history, does not suit a record that begins in mid-cycle: the
first delay of the record is then missed, though the equations may be right. Here the
model is fitted again, from its estimates, with a straight line for its history and, if
that does not do, with a smooth curve."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from .._data.smoothing import spread
from .._least_squares.other_history import continued, free_values, with_history
from .._least_squares.smooth_history import LENGTH, with_roughness_priors
from .._problem.history import AbstractHistory, Affine, Constant, Smooth
from .._problem.parameters import Fixed, Tied
from .._problem.problem import Problem
from .._problem.spline_basis import USUAL_CURVES
from .covariance import Uncertainty
from .evidence import effective_dimension
from .fitted_noise import deviances, prior_penalty

# An improvement that chance would give more often than this is not reported.
_LEVEL = 1e-3


class OtherHistory(NamedTuple):
    """A history with which the model fits better: its kind, the sums of squares with
    the constant history and with this one, the p-value of the difference, and whether
    the residuals then pass all tests."""

    kind: str
    before: float
    after: float
    p: float
    passes: bool


def other_history(
    uncertainty: Uncertainty, passes: Callable[[Uncertainty], bool]
) -> OtherHistory | None:
    """The simplest history with which a fit passes the tests of its residuals, or else
    the one that fits best; None if no other is clearly better, or if the history is not
    constant and learned. `passes` are the tests."""
    setup, result = uncertainty.setup, uncertainty.search_result
    model = setup.model
    if setup.joint is not None:
        # Every experiment has a history of its own.
        return None
    problem = model.free.problem_at(
        uncertainty.theta, eqx.combine(model.learned, model.fixed)
    )
    if not isinstance(problem.history, Constant) or not setup.is_history.any():
        return None
    best = None
    for kind, history, settings in _alternatives(uncertainty, problem):
        other, start = with_history(setup, problem, history, settings)
        theta = free_values(other, start)
        found = Uncertainty(other, continued(other, theta[None], result.noise, 0))
        if not np.isfinite(found.search_result.best.loss[0]):
            continue
        before, after, p = _compared(uncertainty, found)
        if p < _LEVEL and (best is None or after < best.after):
            best = OtherHistory(kind, before, after, p, passes(found))
            if best.passes:
                break
    return best


def _alternatives(
    uncertainty: Uncertainty, problem: Problem
) -> Iterator[tuple[str, AbstractHistory, dict[str, Any]]]:
    """The histories that are tried, with the settings of their parameters."""
    setup, b = uncertainty.setup, problem.history.b
    yield Affine.word, Affine(np.zeros(b.shape), b), {}
    delay = float(setup.delay(uncertainty.theta[None])[0])
    c = np.zeros((USUAL_CURVES, b.shape[0]))
    smooth = Smooth(np.zeros(b.shape), b, c, delay)
    is_single = any(array.name == "tau" for array in setup.model.free.arrays)
    settings = {"history.length": Tied("tau") if is_single else Fixed(LENGTH * delay)}
    other = eqx.tree_at(lambda p: p.history, problem, smooth)
    if not setup.model.observes and setup.measured.all():
        priors = with_roughness_priors(other, settings, spread(setup.data))
        yield Smooth.word, smooth, priors


def _compared(before: Uncertainty, after: Uncertainty) -> tuple[float, float, float]:
    """The sums of squares of two fits, without what priors add, and the p-value of
    their difference: by an F-test, or by a chi-square test where the noise is given."""
    from scipy.special import chdtrc, fdtrc

    squares = _squares(before, before), _squares(after, before)
    k = [
        effective_dimension(each.setup, each.search_result.best.gram[0])
        for each in (before, after)
    ]
    more = max(k[1] - k[0], 1e-3)
    fall = max(squares[0] - squares[1], 0.0)
    if before.setup.weights_are_absolute:
        return *squares, float(chdtrc(more, fall))
    freedom = max(before.setup.count - k[1], 1.0)
    ratio = fall / more / max(squares[1] / freedom, 1e-300)
    return *squares, float(fdtrc(more, freedom, ratio))


def _squares(uncertainty: Uncertainty, reference: Uncertainty) -> float:
    """The sum of squares, weighted as in the fit `reference`. Of one quantity without
    given noise it is the plain sum."""
    best, setup = uncertainty.search_result.best, reference.setup
    if setup.model.likelihood is not None:
        return float(deviances(uncertainty.setup, best)[0])
    if setup.weights_are_absolute:
        return float(best.loss[0]) - prior_penalty(uncertainty.setup, best.theta[0])
    squares, noise = best.squares[0], reference.search_result.noise
    return float(squares.sum() if len(squares) == 1 else np.sum(squares / noise**2))
