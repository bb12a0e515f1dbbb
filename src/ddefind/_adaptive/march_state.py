"""Where a march stands, and what it returns."""

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from .breaking_points import BreakingPoints, Crossing
from .explicit_step import Step, StepStart
from .methods import AbstractAdaptive
from .pieces import Ending

# How a march ended.
REACHED_END, STEP_TOO_SHORT, NEGATIVE_DELAY, NO_ROOM, TOO_MANY_TRIES = range(5)

# A step that does not end on a breaking point.
NOT_A_LANDING = -1


# By how much the recent size of a component is forgotten in each step.
_FORGET = 0.8
# The share of a first try that counts as the size of a component.
_FIRST_SHARE = 1e-3


def recent_size(before: jax.Array, x: jax.Array) -> jax.Array:
    """The size of each component in recent steps, after a step to the state `x`."""
    return jnp.maximum(jnp.abs(x), _FORGET * before)


def first_size(before: jax.Array, tried: jax.Array) -> jax.Array:
    """The size of each component before the first step, given its size at the end of a
    try. A state that begins at zero has no size of its own yet, by which its errors
    could be judged: it gets a share of where the first tries led."""
    seen = jnp.where(jnp.isfinite(tried), _FIRST_SHARE * tried, 0.0)
    return jnp.maximum(before, seen)


@final
class Tolerance(eqx.Module):
    """The tolerated errors of a solver, as arrays. `atol` is negative where it follows
    from the recent sizes of the components."""

    rtol: jax.Array
    atol: jax.Array

    def scale(self, x: jax.Array, size: jax.Array) -> jax.Array:
        """The tolerated error of each component, given their recent sizes."""
        small = 1e-3 * size + 1e-12 * jnp.max(size)
        floor = jnp.where(self.atol < 0, self.rtol * small, self.atol)
        return floor + self.rtol * jnp.abs(x) + 1e-300


def tolerance_of(solver: AbstractAdaptive) -> Tolerance:
    """The tolerances of a solver."""
    atol = -1.0 if solver.atol is None else solver.atol
    return Tolerance(jnp.asarray(float(solver.rtol)), jnp.asarray(float(atol)))


class MarchState(NamedTuple):
    """Where a march stands.

    - `count` rows are complete; the last of them is `row`, which is written next.
    - `t`, `x`, and the length `h` of the next try.
    - `landing` and `landing_entry`: the tracked read and the breaking point on which
      the next try shall end, if it was located; and `attempts` at it.
    - `switch`: the number of the next switch.
    - `size`: of each component in recent steps.
    - `is_after_kink`: whether the piece before cannot be continued.
    - `delays`: the least delays of the last try that was refused.
    """

    count: jax.Array
    t: jax.Array
    x: jax.Array
    h: jax.Array
    row: jax.Array
    path: jax.Array
    hints: jax.Array
    points: BreakingPoints
    switch: jax.Array
    landing: jax.Array
    landing_entry: jax.Array
    attempts: jax.Array
    size: jax.Array
    tries: jax.Array
    is_refused: jax.Array
    is_after_kink: jax.Array
    delays: jax.Array
    status: jax.Array


class MarchResult(NamedTuple):
    """A solved path: its rows, how many are complete, the time and the state that were
    reached, the number of tries, how it ended, the last delays if it failed, and the
    breaking points."""

    path: jax.Array
    count: jax.Array
    t: jax.Array
    x: jax.Array
    tries: jax.Array
    status: jax.Array
    delays: jax.Array
    points: BreakingPoints


class EndNode(NamedTuple):
    """The node at the end of a step: its time and state, and by how much it was moved
    to be on a breaking point."""

    t: jax.Array
    x: jax.Array
    move: jax.Array


class Target(NamedTuple):
    """Where a try shall end."""

    end: jax.Array
    landing: jax.Array
    entry: jax.Array
    is_cut: jax.Array


class Trial(NamedTuple):
    """A step that was tried, and what is thought of it.

    - `is_cut`: whether it was shortened to end on a breaking point or at T.
    - `error`, in units of the tolerance; and the `size` of the components after it.
    - `crosses`: whether it crosses a breaking point, and `misses` whether it should
      have ended on one, and did not. It is then tried again.
    """

    is_cut: jax.Array
    start: StepStart
    step: Step
    error: jax.Array
    size: jax.Array
    ending: Ending
    node: EndNode
    crossing: Crossing
    is_negative: jax.Array
    crosses: jax.Array
    misses: jax.Array
    accept: jax.Array
