r"""How much a model explains, against a constant and a smooth curve, and by chance.

The share of the variance of quantity i that the model explains is the adjusted
$R^2 = 1 - s_1^2 / s_0^2$. Here $s_1^2$ is the variance of the residuals and $s_0^2$
that of the data, each over its degrees of freedom. With the variance around a smoothing
spline in place of $s_1^2$ it is what any smooth curve would explain.

A model with a delay has many shapes, and some of them follow any noise. It explains no
more than chance if noise around a constant would be followed as well. The statistic is
the likelihood ratio of the model and a constant for each quantity,

$$\Lambda = \sum_i n_i \log(S_{0i} / S_{1i}),$$

with the sums of squares S. Were the model linear in its k parameters, it would follow
an F distribution. Since the search takes the best of many shapes, it is larger: F gives
a lower bound of the p-value. Where this bound is above 5% the fit explains no more than
chance, and where it is tiny it explains more. In between, the same search is repeated
for shuffled data, which have no course in time: if any of 19 shuffled sets is followed
as well, the fit explains no more than chance. Noise passes all 19 in one case of
twenty.

`other_history` tests whether another history explains more. A constant history, the
default, does not suit a record that begins in mid-cycle: the first delay of the record
is then missed, though the equations may be right."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from .._data.smoothing import smooth_variance, spread
from .._data.study_data import Records, each_part, parts_of, with_parts
from .._problem.history import (
    USUAL_CURVES,
    AbstractHistory,
    Affine,
    Constant,
    Measured,
    Smooth,
)
from .._problem.parameters import Fixed, Tied
from .._problem.problem import Problem
from .._search.batches import score
from .._search.explore import explore
from .._search.other_history import (
    LENGTH,
    continued,
    free_values,
    with_history,
    with_roughness_priors,
)
from .._search.setup import FitSetup
from .covariance import Uncertainty

_LEVEL = 0.05
# The best of many shapes counts as at most this many independent ones: a p-value of F
# below the level by this factor leaves no doubt.
_MOST_SHAPES = 1000
# The number of shuffled sets, and the largest number of starts of a search in them.
_SHUFFLES, _STARTS = 19, 32
# Fewer values of a quantity show no smooth curve.
_FEWEST_VALUES = 12
# An improvement that chance would give more often than this is not reported.
_HISTORY_LEVEL = 1e-3


class Explained(NamedTuple):
    """How much a model explains.

    - `model`: the share of the variance of each quantity that the model explains; NaN
      where it is not known.
    - `curve`: the share that a smooth curve explains.
    - `by_chance`: whether noise around a constant would be fitted as well."""

    model: tuple[float, ...]
    curve: tuple[float, ...]
    by_chance: bool


def explained(uncertainty: Uncertainty, fitted: np.ndarray) -> Explained | None:
    """Compute what the model explains; None without degrees of freedom, if the data do
    not vary, or if some have no variance, being only known to be below a limit."""
    best = uncertainty.search_result.best
    # A likelihood is judged by the weighted least squares that explored for it.
    setup = uncertainty.setup.exploring
    is_finite = np.isfinite(best.loss[0]) and np.all(np.isfinite(fitted))
    if not is_finite or uncertainty.setup.data.below is not None:
        return None
    p = len(setup.lower)
    k = setup.free_count(uncertainty.information[:p, :p])
    around = _squares_around(setup.data, _constant(setup.data))
    left = _squares_around(setup.data, fitted)
    varies = setup.measured & (around > 0)
    if setup.count - k < 1 or not np.array_equal(varies, setup.measured):
        return None
    starts = uncertainty.search_result.starts
    by_chance = _is_chance(setup, starts, _log_ratio(setup.data, around, left), k)
    return Explained(*_shares(setup, around, left, k), by_chance)


def _weights(data: Records) -> np.ndarray:
    """Return the weight of each value, zero where nothing was measured."""
    sd = 1.0 if data.sd is None else np.where(np.isfinite(data.x), data.sd, 1.0)
    return np.isfinite(data.x) / np.square(sd)


def _constant(data: Records) -> np.ndarray:
    """Return the best constant of each quantity and experiment, like the data."""
    means = []
    for part, weights in each_part(data, _weights(data)):
        total = np.maximum(np.sum(weights, axis=0), 1e-300)
        mean = np.sum(weights * np.nan_to_num(part.x), axis=0) / total
        means.append(np.broadcast_to(mean, part.x.shape))
    return np.concatenate(means)


def _squares_around(data: Records, fitted: np.ndarray) -> np.ndarray:
    """Compute the sum of squares of each quantity around `fitted` values."""
    return np.sum(_weights(data) * (np.nan_to_num(data.x) - fitted) ** 2, axis=0)


def _shares(
    setup: FitSetup, around: np.ndarray, left: np.ndarray, k: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Compute the shares that the model and a smooth curve explain, from the sums of
    squares `around` a constant and those `left` by the model. The parameters are
    divided among the quantities in proportion to their numbers of values."""
    count = np.isfinite(setup.data.x).sum(axis=0)
    rest = np.maximum(count * (1 - k / setup.count), 1e-9)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = around / (count - len(parts_of(setup.data)))
        model = 1 - left / rest / variance
        curve = 1 - smooth_variance(setup.data, _weights(setup.data)) / variance
    model = np.where(setup.measured & (count > 1), model, np.nan)
    curve = np.where(count >= _FEWEST_VALUES, curve, np.nan)
    return tuple(model.tolist()), tuple(curve.tolist())


def _log_ratio(data: Records, around: np.ndarray, left: np.ndarray) -> float:
    """Compute the likelihood ratio per value, from the sums of squares around a
    constant and around the model; these are added up first if the noise is given."""
    count = np.isfinite(data.x).sum(axis=0)
    if data.sd is not None:
        around, left, count = around.sum()[None], left.sum()[None], np.ones(1)
    here = count > 0
    logs = np.log(around[here] / np.maximum(left[here], 1e-300))
    return float(np.sum(count[here] * logs) / np.sum(count[here]))


def _is_chance(setup: FitSetup, starts: int, ratio: float, k: float) -> bool:
    p = _least_p(setup, ratio, k)
    if p > _LEVEL or p < _LEVEL / _MOST_SHAPES:
        return p > _LEVEL
    if isinstance(setup.model.fixed.history, Measured) or setup.model.engine.is_costly:
        # A measured past cannot be shuffled, and some engines take too long.
        return False
    random, few = np.random.default_rng(0), min(starts, _STARTS)
    return any(_shuffled_ratio(setup, few, random) >= ratio for _ in range(_SHUFFLES))


def _least_p(setup: FitSetup, ratio: float, k: float) -> float:
    """Compute the p-value as if the model were linear in its k parameters."""
    from scipy.special import fdtrc

    more = max(k - int(setup.measured.sum()), 1.0)
    freedom = max(setup.count - k, 1.0)
    return float(fdtrc(more, freedom, max(np.expm1(ratio), 0.0) * freedom / more))


def _shuffled_ratio(setup: FitSetup, starts: int, random: np.random.Generator) -> float:
    """Compute the likelihood ratio of the best fit to shuffled data."""
    data = _shuffled(setup.data, random)
    other = replace(setup, data=data)
    count = np.maximum(np.isfinite(data.x).sum(axis=0), 1)
    around = _squares_around(data, _constant(data))
    noise = np.sqrt(np.where(setup.measured, around, 1.0) / count)
    seed = int(random.integers(2**31))
    stages = explore(other, starts, seed, other.points(noise), noise)
    fits = list(islice(stages, 2))[-1][0]
    best = int(np.argmin(score(other, fits)))
    if not np.isfinite(fits.loss[best]):
        return -np.inf
    left = fits.squares[best] if data.sd is None else fits.loss[best][None]
    return _log_ratio(data, around, left)


def _shuffled(data: Records, random: np.random.Generator) -> Records:
    """Shuffle the deviations from the mean, in units of noise, per experiment."""
    parts = []
    for part, mean in each_part(data, _constant(data)):
        x = part.x.copy()
        sd = np.ones_like(x) if part.sd is None else part.sd
        for column in range(x.shape[1]):
            here = np.isfinite(x[:, column])
            level, size = mean[here, column], sd[here, column]
            deviations = (x[here, column] - level) / size
            x[here, column] = level + random.permutation(deviations) * size
        parts.append(part.with_fields(x=x))
    return with_parts(data, parts)


class OtherHistory(NamedTuple):
    """History with which the model fits better: its kind, the sums of squares with the
    constant history and with this one, the p-value of the difference, and whether the
    residuals then pass all tests."""

    kind: str
    before: float
    after: float
    p: float
    passes: bool


def other_history(
    uncertainty: Uncertainty, passes: Callable[[Uncertainty], bool]
) -> OtherHistory | None:
    """Fit again, from the estimates, with a straight line and with a smooth curve for a
    learned constant history. Return the first history that `passes` the tests of the
    residuals, or else the best one; None if no other is clearly better."""
    setup, result = uncertainty.setup, uncertainty.search_result
    if len(setup.parts) > 1:
        # Every experiment has a history of its own.
        return None
    model = setup.model
    known = eqx.combine(model.learned, model.fixed)
    problem = model.free.problem_at(uncertainty.theta, known)
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
        if p < _HISTORY_LEVEL and (best is None or after < best.after):
            best = OtherHistory(kind, before, after, p, passes(found))
            if best.passes:
                break
    return best


def _alternatives(
    uncertainty: Uncertainty, problem: Problem
) -> Iterator[tuple[str, AbstractHistory, dict[str, Any]]]:
    """Yield the histories that are tried, with the settings of their parameters."""
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
    """Compare two fits: their sums of squares without priors, and the p-value of the
    difference."""
    noise = before.search_result.noise
    first, last = (
        each.setup.misfit.without_priors(each, noise) for each in (before, after)
    )
    k = [each.setup.effective_dimension(each.information) for each in (before, after)]
    more = max(k[1] - k[0], 1e-3)
    fall = max(first - last, 0.0)
    freedom = max(before.setup.count - k[1], 1.0)
    return first, last, before.setup.p_of_fall(fall, more, last, freedom)
