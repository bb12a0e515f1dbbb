"""The bounds of parameters to which the user gives none.

Delays and the frequencies of histories are sought where the sampling times can show
them, and the shapes of gamma distributions where they differ from a single delay.

Delays that are computed from parameters, such as `tau_1 - tau_2`.

Such a delay has no bound of its own, and it can become negative where its parameters
are within their bounds. A fit never goes there: the sum of squares is not finite, and
the step is rejected. Starts are drawn where these delays are positive, and a start
value at which one is not is an error. The same holds for distributed delays, whose two
numbers may not fit together."""

from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np

from .._data.data import Data
from .._data.study_data import longest_part
from .._problem.delays import AbstractConstantDelay, delay_names, is_delay
from .._problem.general_delays import AbstractKernel
from .._util import wording
from .setup import FitSetup

# The shapes of gamma distributions that are sought by default. A larger one is hardly
# different from a single delay.
_USUAL_SHAPES = 1.0, 50.0
# The shortest delays that are looked for, as shares of the distance between
# neighbouring times and of the record.
_SHARE_OF_SPACING, _SHORTEST = 0.05, 1e-3


def spacing(data: Data) -> float:
    """The median distance between neighbouring times."""
    return float(np.median(np.diff(np.unique(data.t))))


def usual_delays(data: Data) -> tuple[float, float]:
    """The range in which delays are looked for by default: from a small share of a
    sampling interval to 0.9 of the record."""
    return max(_SHARE_OF_SPACING * spacing(data), _SHORTEST * data.T), 0.9 * data.T


def possible_delays(data: Data) -> tuple[float, float]:
    """The range that a fit cannot leave. It is wider than that in which delays are
    looked for, so that no interval ends where the search began."""
    return 0.2 * _SHORTEST * data.T, 2 * data.T


def bound_delay(
    data: Data,
    lower: np.ndarray,
    upper: np.ndarray,
    guess: np.ndarray,
    name: str,
    tau: int,
) -> None:
    """Set the missing bounds of a delay, in place, to those of possible delays, widened
    where the user's start value lies outside of them."""
    if upper[tau] <= 0:
        raise ValueError(
            f"{wording.setting(name)} has the upper bound {upper[tau]:g}, but a delay "
            "is positive."
        )
    low, high = possible_delays(data)
    if np.isfinite(guess[tau]):
        low, high = min(low, guess[tau] / 4), max(high, 1.5 * guess[tau])
    low = min(low, upper[tau] / 10)
    lower[tau] = low if np.isinf(lower[tau]) else max(lower[tau], 1e-6 * data.T)
    upper[tau] = max(high, 2 * lower[tau]) if np.isinf(upper[tau]) else upper[tau]


def delays_to_try(data: Data, lower: float, upper: float) -> tuple[float, float]:
    """The range from which starts for a delay with these bounds are drawn: where a
    bound was not given, the usual one."""
    (least, most), (low, high) = possible_delays(data), usual_delays(data)
    low = max(low, lower) if lower <= least and low < upper else lower
    high = min(high, upper) if upper >= most and high > low else upper
    return low, high


def bound_shape(
    lower: np.ndarray, upper: np.ndarray, guess: np.ndarray, j: int
) -> None:
    """Set the missing bounds of the shape of a gamma distribution, in place, to the
    usual range, widened where the user's values lie outside of it."""
    least, most = _USUAL_SHAPES
    lower[j] = least if np.isinf(lower[j]) else lower[j]
    if np.isinf(upper[j]):
        upper[j] = max(most, 2 * lower[j], 1.5 * np.nan_to_num(guess[j]))


def bound_frequencies(
    data: Data, lower: np.ndarray, upper: np.ndarray, is_frequency: np.ndarray
) -> None:
    """Set the missing bounds of frequencies, in place.

    The histories of (A, omega) and (-A, -omega) are the same, so that omega is taken to
    be positive unless the user's bounds exclude it. Its upper bound is the sampling
    limit. Its lower bound is a period of twice the record: a slower sine is a straight
    line, from which A and omega cannot be estimated separately."""
    for j in np.flatnonzero(is_frequency):
        if upper[j] > 0:
            if np.isinf(upper[j]):
                upper[j] = max(np.pi / spacing(data), 2 * lower[j])
            slowest = min(np.pi / data.T, 0.1 * upper[j])
            lower[j] = lower[j] if lower[j] > 0 else slowest


# How often starts are drawn again whose delays are not positive, or far from usual.
_TRIES = 20


def computed_delays(setup: FitSetup) -> dict[str, int]:
    """The formulas of the computed and the distributed delays, and their numbers among
    all delays."""
    tau = eqx.combine(setup.model.learned.tau, setup.model.fixed.tau)
    leaves = jax.tree.leaves(tau, is_leaf=is_delay)
    names = delay_names(tau)
    kinds = AbstractConstantDelay | AbstractKernel
    return {names[q]: q for q, leaf in enumerate(leaves) if isinstance(leaf, kinds)}


def check_guess(setup: FitSetup) -> None:
    """Raise an error if a computed delay is not positive at the user's start values."""
    known = setup.delays(setup.guess[None])[0]
    for name, q in computed_delays(setup).items():
        if known[q] <= 0:
            raise ValueError(
                f"A delay must be positive, but `{name}` is {known[q]:.4g} at the "
                f"start values. Give others {wording.START_VALUES}."
            )


def draw_possible(setup: FitSetup, draw: Callable[[], np.ndarray]) -> np.ndarray:
    """Rows of free values, as `draw()` returns them, whose computed delays are positive
    and in the usual range of delays, as far as such rows are found."""
    theta = draw()
    computed = list(computed_delays(setup).values())
    if not computed:
        return theta
    low, high = usual_delays(longest_part(setup.data))
    penalty = _distance(setup, theta, computed, low, high)
    for _ in range(_TRIES):
        if np.all(penalty == 0):
            break
        other = draw()
        other_penalty = _distance(setup, other, computed, low, high)
        is_better = other_penalty < penalty
        theta = np.where(is_better[:, None], other, theta)
        penalty = np.where(is_better, other_penalty, penalty)
    if np.all(np.isinf(penalty)):
        _raise_impossible(setup, theta)
    return theta


def _distance(
    setup: FitSetup, theta: np.ndarray, computed: list[int], low: float, high: float
) -> np.ndarray:
    """How far the computed delays of each row are from the usual range, on a
    logarithmic scale; infinite where one is not positive."""
    delays = setup.delays(theta)[:, computed]
    is_positive = np.all((delays > 0) & np.isfinite(delays), axis=1)
    logs = np.log(np.where(delays > 0, delays, 1.0))
    away = np.maximum(np.log(low / 4) - logs, logs - np.log(high))
    return np.where(is_positive, np.sum(np.maximum(away, 0.0), axis=1), np.inf)


def _raise_impossible(setup: FitSetup, theta: np.ndarray) -> None:
    delays, names = setup.delays(theta[:1])[0], setup.model.free.names
    name = next(n for n, q in computed_delays(setup).items() if not delays[q] > 0)
    value = delays[computed_delays(setup)[name]]
    values = ", ".join(f"{n} = {v:.4g}" for n, v in zip(names, theta[0]) if n in name)
    raise ValueError(
        f"A delay must be positive, but `{name}` is {value:.4g} at {values}, and the "
        "same is so for every start within the bounds. Change the bounds "
        f"{wording.BOUNDS}."
    )
