"""What the networks of a fitted problem are called with along its trajectory."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._problem.delays import in_structure, is_delay
from .._problem.general_delays import (
    AbstractGammaDelay,
    AbstractKernel,
    AbstractVaryingDelay,
    has_slope,
)
from .._problem.network import networks_in, numbered_networks, probing
from .._problem.problem import Problem

# A mean over the past is that of so many delays, which are equally likely.
_LIKELY_DELAYS = 64
# The number of times at which a history is called.
_PAST_TIMES = 101

# The states at a vector of times, before time zero those of the history.
Trajectory = Callable[[Any], jax.Array]


def visited_arguments(
    problem: Problem, trajectory: Trajectory, t: np.ndarray
) -> dict[int, np.ndarray]:
    """What each network of a problem is called with at the times `t` of a trajectory,
    [calls, inputs], by its number among the networks of the problem. Networks of a
    history are called at times of the past that the longest delay reaches.

    Networks that are called inside of a condition or loop of JAX are left out, because
    what they are called with cannot be seen."""
    problem = numbered_networks(problem)
    leaves = jax.tree.leaves(problem.tau, is_leaf=is_delay)
    x = trajectory(t)
    states, lengths, longest = [], [], 0.0
    for leaf in leaves:
        state, length, earliest = _delayed(leaf, trajectory, t, x)
        states.append(state)
        lengths.append(length)
        longest = max(longest, float(earliest))
    past = in_structure(problem.tau, states), in_structure(problem.tau, lengths)
    times = np.linspace(-longest, 0.0, _PAST_TIMES)
    try:
        seen = _seen_in_equation(problem, (x, *past, jnp.asarray(t)))
        seen |= _seen_in_history(problem, jnp.asarray(times))
    except jax.errors.UnexpectedTracerError:
        return {}
    return {
        number: np.asarray(calls).reshape(-1, calls.shape[-1])
        for number, calls in seen.items()
    }


def _delayed(
    leaf: Any, trajectory: Trajectory, t: np.ndarray, x: jax.Array
) -> tuple[Any, Any, Any]:
    """What the right-hand side gets for a delay at the times `t`: the delayed states
    and the lengths of the delay; and the longest delay."""
    if isinstance(leaf, AbstractKernel):
        likely = _likely_delays(leaf)
        states = jnp.mean(jnp.stack([trajectory(t - s) for s in likely]), axis=0)
        mean = float(np.mean(likely))
        return states, jnp.full(len(t), mean), likely[-1]
    if isinstance(leaf, AbstractVaryingDelay):
        length = jax.vmap(leaf)(jnp.asarray(t), x)
    else:
        length = jnp.full(len(t), leaf() if is_delay(leaf) else leaf)
    earlier = t - length
    states = trajectory(earlier)
    if has_slope(leaf):
        slope = jax.jvp(trajectory, (earlier,), (jnp.ones_like(earlier),))[1]
        states = states, slope
    return states, length, jnp.max(length)


def _likely_delays(kernel: AbstractKernel) -> np.ndarray:
    """Delays that are equally likely under a density, in increasing order."""
    from scipy.special import gammaincinv

    first, second = map(float, kernel())
    shares = (np.arange(_LIKELY_DELAYS) + 0.5) / _LIKELY_DELAYS
    if isinstance(kernel, AbstractGammaDelay):
        return gammaincinv(second, shares) * first / second
    return first + shares * (second - first)


@eqx.filter_jit
def _seen_in_equation(problem: Problem, rows: Any) -> dict[int, jax.Array]:
    """What networks in the right-hand side, in delays and in `observe` are called with
    in each of the `rows` of x, y, tau and t."""

    def at(x: Any, y: Any, tau: Any, t: Any) -> Any:
        with probing(None) as probe:
            problem.rhs(x, y, tau, t)
            for leaf in jax.tree.leaves(problem.tau, is_leaf=is_delay):
                if isinstance(leaf, AbstractVaryingDelay):
                    leaf(t, x)
            if problem.observe is not None:
                problem.observe(x, t)
        return {number: jnp.stack(calls) for number, calls in probe.inputs.items()}

    # What is compiled inside of the functions would hide what networks are called with.
    with jax.disable_jit():
        return jax.vmap(at)(*rows)


@eqx.filter_jit
def _seen_in_history(problem: Problem, times: jax.Array) -> dict[int, jax.Array]:
    """What networks in the history are called with at some times."""
    if not networks_in(problem.history):
        return {}

    def at(t: Any) -> Any:
        with probing(None) as probe:
            problem.history(t)
        return {number: jnp.stack(calls) for number, calls in probe.inputs.items()}

    with jax.disable_jit():
        return jax.vmap(at)(times)
