"""Delays that are computed from parameters, such as `tau_1 - tau_2`.

Such a delay has no bound of its own, and it can become negative where its parameters
are within their bounds. A fit never goes there: the sum of squares is not finite, and
the step is rejected. Starts are drawn where these delays are positive, and a start
value at which one is not is an error. The same holds for distributed delays, whose two
numbers may not fit together.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np

from .._data.study_data import longest_part
from .._problem.delays import AbstractConstantDelay, delay_names, is_delay
from .._problem.general_delays import AbstractKernel
from .._util import wording
from .default_bounds import usual_delays
from .setup import FitSetup

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
