"""Where the fits of a search start. All arrays of starts have the shape (starts, p).

- `matched_starts` draws random values and moves them by gradient matching.
- `perturbed_starts` changes fits that are already good.
- `guided_starts` serves hidden states, and where others fail: very many values are
  drawn, and the guided equation is solved once for each. The best of them are fitted
  with a strong guide, the best of these with a weaker one, and so on (see `guide.py`).
  The fits compare the trajectory with the smooth curve, not with the data themselves:
  how far it is from the curve depends on the parameters alone.
- `without_aliases` drops trajectories that pass through the data but oscillate unseen
  between them, like a wheel that seems to stand still. Short delays allow oscillations
  that are faster than the sampling, and some of these happen to be near every measured
  value. A trajectory is an alias if it turns more often than there are intervals
  between the times of the data, which is what the sampling theorem says."""

from dataclasses import replace
from typing import Any

import numpy as np

from .._data.smoothing import Curve, spread
from .._data.study_data import each_part, longest_part
from .._engine.engine import Points
from .._engine.solve import solve
from .._util import wording
from .batches import RefinedFits, map_in_blocks, refine, score, slow_frequency_limit
from .bounds import delays_to_try, usual_delays
from .gradient_matching import MatchingTarget, match_block, matching_targets
from .guide import make_guide
from .levenberg_marquardt import NO_START
from .setup import FitSetup
from .symmetries import rate_of

# The number of random draws per start; the best match is kept.
TRIES = 4
# One start in this many is not matched.
UNMATCHED_EVERY = 4
# How often starts are drawn again whose delays are not positive, or far from usual.
_REDRAWS = 20
# How precisely the slopes of the curve count as known beside the priors of weights.
_SLOPE_ERROR = 0.05


def matched_starts(
    setup: FitSetup, count: int, noise: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Return the user's start, then random ones moved by gradient matching."""
    drawn = draw_starts(setup, count, TRIES, random)
    matched = match_starts(setup, drawn, noise, TRIES)
    # If the curve follows the data badly, unmatched starts may be the better ones.
    is_unmatched = np.arange(count) % UNMATCHED_EVERY == UNMATCHED_EVERY - 1
    return np.where(is_unmatched[:, None], drawn[::TRIES], matched)


def perturbed_starts(
    setup: FitSetup,
    good: np.ndarray,
    count: int,
    noise: np.ndarray,
    random: np.random.Generator,
) -> np.ndarray:
    """Draw new starts from the `good` fits, of shape (fits, p), used in turn.

    Three of four get a new random history, moved by gradient matching if there are
    curves through all states; in the fourth every value is changed by a random factor.
    Without free values of the history all are of the second kind."""
    theta = np.resize(good, (count, good.shape[1]))
    size = 0.3 * 10 ** -random.uniform(0, 1, (count, 1))
    rescaled = theta * np.exp(size * random.standard_normal(theta.shape))
    rescaled = np.clip(rescaled, setup.lower, setup.upper)
    if not setup.is_history.any():
        return rescaled
    without_guess = replace(setup, guess=setup.guess * np.nan)
    drawn = draw_starts(without_guess, count, 1, random)
    new_history = np.where(setup.is_history, drawn, theta)
    # Most of the allowed range of frequencies is fast, but most true frequencies are
    # slow: half of the frequencies are drawn from the slow ones.
    turn = np.arange(count) // len(good)
    draws_slow = turn % 2 == 0
    for omega in np.flatnonzero(setup.is_frequency):
        low, high = setup.lower[omega], setup.upper[omega]
        high = np.minimum(slow_frequency_limit(setup, theta)[:, 0], high)
        slow = low + random.uniform(size=count) * np.maximum(high - low, 0.0)
        new_history[draws_slow, omega] = slow[draws_slow]
    if setup.has_curves:
        new_history = match_starts(setup, new_history, noise, held=~setup.is_history)
    has_new_history = turn % 4 != 3
    return np.where(has_new_history[:, None], new_history, rescaled)


def draw_starts(
    setup: FitSetup, starts: int, tries: int, random: np.random.Generator
) -> np.ndarray:
    """Draw `tries` rows for each of `starts` starts, with similar delays.

    The delays of all starts are spread over the range of delays. The rows of the first
    start hold the user's start values, where there are any. Computed delays are
    positive and in the usual range of delays, as far as such rows are found."""
    theta = _draw(setup, starts, tries, random)
    computed = list(setup.computed_delays.values())
    if not computed:
        return theta
    low, high = usual_delays(longest_part(setup.data))
    penalty = _from_usual_delays(setup, theta, computed, low, high)
    for _ in range(_REDRAWS):
        if np.all(penalty == 0):
            break
        other = _draw(setup, starts, tries, random)
        other_penalty = _from_usual_delays(setup, other, computed, low, high)
        is_better = other_penalty < penalty
        theta = np.where(is_better[:, None], other, theta)
        penalty = np.where(is_better, other_penalty, penalty)
    if np.all(np.isinf(penalty)):
        _raise_impossible(setup, theta)
    return theta


def _from_usual_delays(
    setup: FitSetup, theta: np.ndarray, computed: list[int], low: float, high: float
) -> np.ndarray:
    """Return how far the computed delays of each row are from the usual range, on a
    logarithmic scale; infinite where one is not positive."""
    delays = setup.delays(theta)[:, computed]
    is_positive = np.all((delays > 0) & np.isfinite(delays), axis=1)
    logs = np.log(np.where(delays > 0, delays, 1.0))
    away = np.maximum(np.log(low / 4) - logs, logs - np.log(high))
    return np.where(is_positive, np.sum(np.maximum(away, 0.0), axis=1), np.inf)


def _raise_impossible(setup: FitSetup, theta: np.ndarray) -> None:
    delays, names = setup.delays(theta[:1])[0], setup.model.free.names
    name, value = next(
        (name, delays[q])
        for name, q in setup.computed_delays.items()
        if not delays[q] > 0
    )
    values = ", ".join(f"{n} = {v:.4g}" for n, v in zip(names, theta[0]) if n in name)
    raise ValueError(
        f"A delay must be positive, but `{name}` is {value:.4g} at {values}, and the "
        "same is so for every start within the bounds. Change the bounds "
        f"{wording.BOUNDS}."
    )


def _draw(
    setup: FitSetup, starts: int, tries: int, random: np.random.Generator
) -> np.ndarray:
    count = starts * tries
    # Most parameters are positive. If every draw chose its signs at random, a model
    # with many parameters would hardly ever be drawn with all of them positive: only
    # every second row may have the other sign.
    may_change_sign = np.arange(count) % 2 == 1
    sizes, offsets = _natural_sizes(setup, count, random)
    columns = [
        _draw_value(setup, j, sizes[:, j], offsets[:, j], may_change_sign, random)
        for j in range(len(setup.lower))
    ]
    theta, longest = np.stack(columns, axis=1), longest_part(setup.data)
    for number, j in enumerate(setup.model.free.delays):
        low, high = delays_to_try(longest, setup.lower[j], setup.upper[j])
        share = (np.arange(count) + random.uniform(size=count)) / count
        if number > 0:
            # Every delay is spread over its own range, in an order of its own, so that
            # few starts meet many combinations.
            order = random.permutation(count // tries)
            share = share.reshape(-1, tries)[order].ravel()
        # Half of the starts have evenly spread delays, half logarithmically spread
        # ones, so that short delays are tried as well.
        even = low + share * (high - low)
        least = low if low > 0 else 1e-3 * high  # The shortest of delays may be zero.
        logarithmic = least * (high / least) ** share
        theta[:, j] = np.where(np.arange(count) // tries % 2, even, logarithmic)
    theta[:tries] = np.where(np.isnan(setup.guess), theta[:tries], setup.guess)
    return np.clip(theta, setup.lower, setup.upper)


def _natural_sizes(
    setup: FitSetup, count: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw natural sizes of the free values, and their shifts in every second row,
    [count, p]. Without natural units a size is a scale of the data: the spread x, a
    tenth of the record t, or products and quotients of them."""
    shape = (count, len(setup.lower))
    if setup.units is None:
        x, t = float(np.mean(spread(setup.data))), setup.data.T / 10
        scales = [1.0, x, 1 / t, x / t, 1 / x, 1 / (x * t)]
        return random.choice(scales, shape), np.zeros(shape)
    is_shifted = np.arange(count)[:, None] % 2 == 0
    return setup.units.sizes(count, random), is_shifted * setup.units.offsets


def _draw_value(
    setup: FitSetup,
    j: int,
    size: np.ndarray,
    offset: np.ndarray,
    may_change_sign: np.ndarray,
    random: np.random.Generator,
) -> np.ndarray:
    """Draw values of free parameter j, one for each element of `may_change_sign`.

    Between two bounds they are spread over the interval, logarithmically where its sign
    is known. Otherwise their size is within a factor of ten of the user's start value
    or, without one, of the natural `size`; this is added to a bound, or to an
    `offset`."""
    low, high, count = setup.lower[j], setup.upper[j], len(may_change_sign)
    if np.isfinite(low) and np.isfinite(high):
        if low > 0:
            return np.exp(random.uniform(np.log(low), np.log(high), count))
        if high < 0:
            return -np.exp(random.uniform(np.log(-high), np.log(-low), count))
        even = random.uniform(low, high, count)
        if low < 0:
            return even
        # The interval begins at zero and its scale is unknown: half of the values are
        # spread evenly, half logarithmically.
        logarithmic = high * 10 ** -random.uniform(0, 3, count)
        return np.where(random.uniform(size=count) < 0.5, even, logarithmic)
    guess = setup.guess[j]
    has_guess = np.isfinite(guess) and guess != 0
    size = (np.abs(guess) if has_guess else size) * 10 ** random.uniform(-1, 1, count)
    sign = np.sign(guess) if has_guess else 1.0
    flips = may_change_sign & (random.uniform(size=count) < 0.4)
    value = (0.0 if has_guess else offset) + size * np.where(flips, -sign, sign)
    if np.isfinite(low):
        return np.where(value > low, value, low + size)
    if np.isfinite(high):
        return np.where(value < high, value, high - size)
    return value


def _targets(setup: FitSetup, theta: np.ndarray, noise: np.ndarray) -> MatchingTarget:
    """Return the targets of each row of `theta` (and of each experiment)."""
    precision = _SLOPE_ERROR**-2 if setup.has_networks else 1.0
    targets = []
    for e, part in enumerate(setup.parts):
        assert part.curve is not None
        delays = part.delays(setup.local(theta, e))
        targets.append(
            matching_targets(part.curve, part.data.T, delays, noise, precision)
        )
    return setup.model.experiments.joined(targets, axis=1)


def match_starts(
    setup: FitSetup,
    theta: np.ndarray,
    noise: np.ndarray,
    tries: int = 1,
    held: np.ndarray | None = None,
) -> np.ndarray:
    """Move starts by gradient matching, each with its own delay.

    `theta` has `tries` rows for each start, of which the best is returned. Values that
    are `held` stay. A row stays as it is if the equation is not finite there, and so
    does the user's start if it is complete."""
    targets = _targets(setup, theta, noise)
    held = np.zeros(len(setup.lower), bool) if held is None else held
    # Delays, and values on which only delays depend, cannot be matched.
    free_values = np.arange(len(held))
    held = held | np.isin(free_values, setup.model.free.delays)
    held = held | ~np.isin(free_values, setup.model.direct)
    box = setup.box(len(theta), held)
    priors = setup.model.priors if setup.has_networks else None

    def match(block: Any, _: np.ndarray) -> Any:
        starts, boxes, curves = block
        found = match_block(setup.model, starts, boxes, curves, priors)
        return found.theta, found.status, np.asarray(found.normal.gram)[:, 0, 0]

    rows = theta, box, targets
    matched, status, loss = map_in_blocks(match, rows, setup.workers)
    has_failed = status == NO_START
    matched = np.where(has_failed[:, None], theta, matched)
    loss = np.where(has_failed, np.inf, loss).reshape(-1, tries)
    best = matched[np.arange(len(loss)) * tries + np.argmin(loss, axis=1)]
    if np.isfinite(setup.guess).all():
        best[0] = theta[0]
    return best


# Trajectories whose distance from the curve through the data is larger than their
# residuals by this factor, at this place between the times of the data, are looked at.
# (The place is no simple fraction: there, aliases might be near the curve, too.)
SUSPICIOUS, PLACE = 2.0, 0.382
# At how many times in an interval of the data and in all they are looked at, and how
# large a turn must be, as a share of the spread of the trajectory.
_TIMES, _MOST_TIMES, _TURN = 10, 4000, 0.2


def without_aliases(setup: FitSetup, fits: RefinedFits, points: Points) -> RefinedFits:
    """Drop the aliases that are better than the best of the other fits. If all are
    aliases, none is left."""
    engine = setup.model.engine
    if not setup.has_quantity_curves or engine.is_costly:
        return fits
    is_suspect = _leaves_curves(setup, fits, points)
    order = np.argsort(score(setup, fits), kind="stable").tolist()
    while order and is_suspect[order[0]]:
        theta = fits.theta[order[0]]
        each = enumerate(setup.parts)
        if not any(turns_too_often(p, setup.local(theta, e)) for e, p in each):
            break
        order.pop(0)
    return fits.take(np.array(order, int))


def _leaves_curves(setup: FitSetup, fits: RefinedFits, points: Points) -> np.ndarray:
    """Whether each trajectory is far from the curves between the times of the data."""
    times, values = [], []
    for part, (_, t) in zip(
        setup.parts, each_part(setup.data, np.asarray(points.times))
    ):
        times.append(np.append(t[:-1] + PLACE * np.diff(t), t[-1]))
        values.append(_curve(part).x(times[-1]))
    is_used = np.asarray(points.weights) > 0
    between = points._replace(
        times=np.concatenate(times),
        values=np.where(is_used, np.concatenate(values), 0.0),
    )
    there = refine(setup, fits.theta, between, fits.n, limit=1)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.isfinite(fits.loss) & (there.loss > SUSPICIOUS**2 * fits.loss)


def turns_too_often(setup: FitSetup, theta: np.ndarray) -> bool:
    """Whether a state has more extrema than the data of one experiment intervals."""
    data, model = setup.data, setup.model
    intervals = len(np.unique(data.t)) - 1
    count = min(_TIMES * intervals, _MOST_TIMES)
    t = np.linspace(data.t[0], data.T, count)
    problem = model.free.problem_at(theta, model.problem)
    solution = solve(problem, data.T, model.engine.solver, max_step=data.T / count)
    x = np.asarray(solution(t))
    checked = np.ones(x.shape[1], bool) if model.observes else setup.measured
    return any(_turns(column) > intervals for column in x[:, checked].T)


def _turns(x: np.ndarray) -> int:
    """Count the extrema of a sequence, without small ones."""
    is_extreme = np.diff(np.sign(np.diff(x))) != 0
    extrema = x[1:-1][is_extreme]
    return int(np.sum(np.abs(np.diff(extrema)) > _TURN * np.std(x)))


# The gains of the guide, in units of the rate at which the data change; how many fits
# for each start enter a stage; and the number of evaluations of a fit.
_GAINS, _FITS_PER_START, _EVALUATIONS = (3.0, 1.0, 0.3), (6, 2, 1), 12
# The number of evaluations in which scales and offsets are found.
_LINEAR_EVALUATIONS = 4
# The least number of steps in the time in which a guided trajectory follows its curve.
_STEPS_PER_RESPONSE = 1.5


def guided_starts(
    setup: FitSetup, count: int, draws: int, points: Points, random: np.random.Generator
) -> np.ndarray:
    """Return the best of `draws` random values after guided fits, at most `count`. The
    user's start values, if they are complete, come first and unchanged."""
    theta = draw_starts(setup, draws, 1, random)
    target = points._replace(values=_on_curves(setup, points))
    # Draws are compared with the scales and offsets that are best for them.
    evaluations, held = 1, None
    if setup.is_linear.any():
        evaluations, held = _LINEAR_EVALUATIONS, ~setup.is_linear
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
    """Make short fits with a guide of this gain, in units of the rate of the data."""
    curves = [(_curve(part), part.data.T, part.measured) for part in setup.parts]
    rates = [rate_of(*curve) for curve in curves]
    guides = [
        make_guide(curve, T, measured, gain * rate)
        for (curve, T, measured), rate in zip(curves, rates)
    ]
    guide = setup.model.experiments.joined(guides, axis=0)
    guided = replace(setup, model=replace(setup.model, guide=guide))
    n, rate = setup.coarse_steps(theta), _STEPS_PER_RESPONSE * gain * max(rates)
    n = setup.model.engine.steps_at_rate(n, rate, setup.data.T)
    rate = max(rate, setup.rate)
    return refine(guided, theta, target, n, evaluations, held, rate)


def _curve(part: FitSetup) -> Curve:
    curve = part.quantity_curve
    assert curve is not None
    return curve


def _on_curves(setup: FitSetup, points: Points) -> np.ndarray:
    """Evaluate the curves at the times of the data."""
    times = each_part(setup.data, np.asarray(points.times))
    values = [_curve(part).x(t) for part, (_, t) in zip(setup.parts, times)]
    return np.where(np.asarray(points.weights) > 0, np.concatenate(values), 0)


def _best(fits: RefinedFits, most: int) -> np.ndarray:
    """Return the free values of the best fits, at least one."""
    order = np.argsort(fits.loss, kind="stable")
    order = order[: max(min(most, int(np.isfinite(fits.loss).sum())), 1)]
    return fits.theta[order]
