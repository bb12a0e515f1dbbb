r"""Breaking points: where a derivative of the solution jumps.

The solution has one at time zero, at every switch and at every knot of an input, and
every delay carries it on: if the delayed time $\alpha(t) = t - \tau(t, x(t))$ passes a
breaking point $\xi$, the solution has a new one there, in the next derivative, or in a
neutral equation in the same one. A step must not cross it.

A constant delay gives the place of a new one in advance. For other delays a step that
crosses is tried again up to the root of $g(t) = \alpha(t) - \xi$ in its piece. A
breaking point moves with the parameters p, and so must the node on it:

$$\frac{d t}{d p} = -\frac{1}{g'}\,\frac{\partial g}{\partial p}, \qquad
  g' = \frac{d\alpha}{dt}.$$

This is the derivative of one step of Newton's method, which is what ends the search.

Jumps in derivatives above the `highest` one are left to the control of the error.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._problem.problem import Problem
from ..._util.arrays import write
from .equation import ExtendedEquation, TrackedRead
from .pieces import Ending, Sides, ending_of, evaluate, hold, unpack


class MetPoints(NamedTuple):
    """The breaking points that were met so far, in the order of time.

    - `table`, [capacity, 2]: the time, and which derivative of x jumps (0: x itself).
      The last entry is pending: it is written at the beginning of the next step.
    - `passed`, [reads]: for each tracked read the number of entries before its delayed
      time.
    """

    table: jax.Array
    count: jax.Array
    pending: jax.Array
    passed: jax.Array


class Switches(NamedTuple):
    """The times, in their order, at which the right-hand side, an input or the history
    jumps or has a kink.

    - `times`, [n].
    - `jumps`, [n]: the derivative of x that jumps there; or, if an input is read
      through a delay, that of the input, which is one lower.
    - `before`, [n]: the same for a time before zero.
    """

    times: jax.Array
    jumps: jax.Array
    before: jax.Array

    @property
    def count(self) -> int:
        return self.times.shape[0]


def switches_of(problem: Problem, highest: int) -> Switches:
    """Return the switches of a problem. A time before zero is one at which the history
    jumps, unless it is a knot of an input."""
    moving, tables = problem.moving_times, problem.known_times
    added = {known.mover for known in tables}
    alone = np.array([j for j in range(moving.shape[0]) if j not in added], int)
    ones: Any = np.ones(len(alone))
    times, jumps, before = [moving[alone]], [ones], [0 * ones]
    for known in tables:
        ones = np.ones(jnp.shape(known.times))
        is_delayed = bool(known.reads.delays)
        jump = known.derivative - 1 if is_delayed else known.derivative
        early = jump if is_delayed else highest + 1.0
        base = 0.0 if known.mover is None else moving[known.mover]
        times.append(jnp.asarray(known.times) + base)
        jumps.append(jump * ones)
        before.append((0.0 if known.is_switch else early) * ones)
    together = jnp.concatenate(times)
    order = jnp.argsort(lax.stop_gradient(together))
    rest = [jnp.asarray(np.concatenate(each))[order] for each in (jumps, before)]
    return Switches(together[order], *rest)


def first_points(switches: Switches, jump: float, capacity: int) -> MetPoints:
    """Return the breaking points at time zero, where the derivative `jump` jumps, and
    of the history, at the `switches` before; with room for `capacity` more."""
    before = jnp.sum(lax.stop_gradient(switches.times) < 0)
    table = jnp.zeros((capacity + switches.count + 1, 2))
    history = jnp.stack([switches.times, switches.before], axis=1)
    table = lax.dynamic_update_slice_in_dim(table, history, 0, 0)
    zero = jnp.array([0.0, jump])
    table = write(table, before, zero)
    return MetPoints(table, before + 1, zero, jnp.zeros(0, int))


def next_entry(points: MetPoints, read: TrackedRead, b: Any, highest: int) -> jax.Array:
    """Return the first entry from number `b` on that a read carries on visibly, or the
    number of all entries."""
    table, highest = points.table, highest - read.smoothing
    return lax.while_loop(
        lambda b: (b < points.count) & (entry(table, b)[1] > highest),
        lambda b: b + 1,
        jnp.asarray(b),
    )


def previous_entry(
    points: MetPoints, read: TrackedRead, b: Any, highest: int
) -> jax.Array:
    """Return the last entry before number `b` that a read carries on visibly, or -1."""
    table, highest = points.table, highest - read.smoothing
    return lax.while_loop(
        lambda b: (b >= 0) & (entry(table, b)[1] > highest),
        lambda b: b - 1,
        jnp.asarray(b) - 1,
    )


def entry(table: jax.Array, b: Any) -> jax.Array:
    """Return the time of a breaking point and the derivative that jumps there."""
    b = jnp.clip(b, 0, table.shape[0] - 1)
    return lax.dynamic_index_in_dim(table, b, 0, keepdims=False)


def passed_entries(points: MetPoints, b: Any, time: Any, snap: Any) -> jax.Array:
    """Return the number of entries up to a delayed time, sought from number `b`. An
    entry within the distance `snap` counts."""
    table = points.table
    b = lax.while_loop(
        lambda b: (b < points.count) & (entry(table, b)[0] <= time + snap),
        lambda b: b + 1,
        jnp.asarray(b),
    )
    return lax.while_loop(
        lambda b: (b > 0) & (entry(table, b - 1)[0] > time + snap), lambda b: b - 1, b
    )


def pass_entries(
    points: MetPoints, times: list[jax.Array], ending: Ending, snap: Any
) -> jax.Array:
    """Return for each tracked read the number of entries before its delayed time, after
    a step with this `ending`."""
    passed = []
    for n, time in enumerate(times):
        before = points.passed[n]
        after = passed_entries(points, before, time, snap)
        # On a breaking point rounding errors must not decide.
        goes_up = ending.entry >= before
        landed = jnp.where(goes_up, ending.entry + 1, ending.entry)
        passed.append(jnp.where(ending.read == n, landed, after))
    return jnp.stack(passed) if passed else points.passed


def add_entry(
    points: MetPoints, made: Any, time: jax.Array, jump: jax.Array
) -> MetPoints:
    """Add a breaking point of the number `made`, or none if that is negative."""
    is_new = made >= 0
    pending = jnp.where(is_new, jnp.stack([time, jump]), points.pending)
    count = points.count + jnp.where(is_new, 1, 0)
    return points._replace(count=count, pending=pending)


def jump_at(
    tracked: tuple[TrackedRead, ...],
    points: MetPoints,
    ending: Ending,
    at_switch: jax.Array,
    highest: int,
) -> jax.Array:
    """Return which derivative jumps where a step had this ending; one above `highest`
    if that is not a breaking point. By the switches that the step passed it is
    `at_switch`."""
    order = entry(points.table, ending.entry)[1]
    jump = jnp.zeros(()) + highest + 1
    for n, each in enumerate(tracked):
        jump = jnp.where(ending.read == n, order + each.smoothing, jump)
    return jnp.minimum(jump, at_switch)


def passed_switches(
    switches: Switches, number: Any, t: Any, highest: int
) -> tuple[jax.Array, jax.Array]:
    """Return the number of switches up to the time `t`, if it was `number` before; and
    which derivative jumps at those between."""
    if switches.count == 0:
        return number, jnp.asarray(highest + 1.0)
    after = jnp.maximum(jnp.sum(switches.times <= t), number)
    index = jnp.arange(switches.count)
    is_new = (index >= number) & (index < after)
    jump = jnp.min(jnp.where(is_new, switches.jumps, highest + 1.0))
    return after, jump


def write_pending(points: MetPoints) -> MetPoints:
    """Write the pending breaking point into the table."""
    table = write(points.table, points.count - 1, points.pending)
    return points._replace(table=table)


class Crossing(NamedTuple):
    """The crossing of a breaking point inside a step: at the fraction `u`, of entry
    `b`, by the tracked read `n`; u is larger than 1 if there is none."""

    u: jax.Array
    b: jax.Array
    n: jax.Array


def first_crossing(
    equation: ExtendedEquation,
    points: MetPoints,
    step: tuple[Any, Any, jax.Array],
    landing: Any,
    snap: Any,
    highest: int,
) -> Crossing:
    """Return the first crossing in a step of a breaking point not known in advance. The
    read `landing` is left out: its step may end a little behind the point."""
    zero = jnp.asarray(0)
    first = Crossing(jnp.asarray(2.0), zero, zero)
    for n, tracked in enumerate(equation.plan.tracked):
        if not tracked.is_constant:
            passed = points.passed[n]
            u, b = _find_crossing(
                equation, tracked, points, passed, step, snap, highest
            )
            found = Crossing(jnp.where(landing == n, 2.0, u), b, zero + n)
            pairs = zip(found, first)
            first = Crossing(*(jnp.where(found.u < first.u, *pair) for pair in pairs))
    return first


def _find_crossing(
    equation: ExtendedEquation,
    tracked: TrackedRead,
    points: MetPoints,
    passed: Any,
    step: tuple[Any, Any, jax.Array],
    snap: Any,
    highest: int,
) -> tuple[jax.Array, jax.Array]:
    """Return where a step, given by its time, length and coefficients, takes the
    delayed time across an entry: the fraction of the step, and the number of the entry.
    """
    t, length, coefficients = step

    def delayed(u):
        state = evaluate(coefficients, u)[0]
        return equation.delayed_time(tracked, t + u * length, state)

    before, after = delayed(0.0), delayed(1.0)
    above = next_entry(points, tracked, passed, highest)
    time_above = entry(points.table, above)[0]
    goes_up = (above < points.count) & (time_above > before + snap)
    goes_up &= after > time_above + snap
    below = previous_entry(points, tracked, passed, highest)
    time_below = entry(points.table, below)[0]
    goes_down = (below >= 0) & (time_below < before - snap)
    goes_down &= after < time_below - snap
    b = jnp.where(goes_up, above, below)
    goal = jnp.where(goes_up, time_above, time_below)
    crosses = (goes_up | goes_down) & jnp.isfinite(after)

    def halve(_, ends):
        low, high = ends
        middle = 0.5 * (low + high)
        is_beyond = (delayed(middle) > goal) == goes_up
        return jnp.where(is_beyond, low, middle), jnp.where(is_beyond, middle, high)

    low, high = lax.fori_loop(
        0, jnp.where(crosses, 45, 0), halve, (jnp.zeros(()), jnp.ones(()))
    )
    return jnp.where(crosses, 0.5 * (low + high), 2.0), b


def sides_of(
    equation: ExtendedEquation,
    table: jax.Array,
    before: tuple[jax.Array, Any],
    step: tuple[Any, jax.Array, Any],
    ending: Ending,
) -> Sides | None:
    """Return the sides of breaking points on which the reads stay in a step, which
    begins at the time and in the state of `step`, has its length and this
    `ending`. `before` is the row of the step before it, and whether there is one."""
    if all(tracked.is_constant for tracked in equation.plan.tracked):
        return None
    equation, table = hold((equation, table))
    row, has_before = hold(before)
    t, x, length = hold(step)
    coefficients, origin, _ = unpack(row, equation.dimension)
    first = ending_of(row)
    first = first._replace(read=jnp.where(has_before, first.read, -1))
    tiny = 1e-10 * length + 4e-16 * jnp.abs(t)

    def bounds(ending: Ending, t, x, goes_on: bool) -> list[jax.Array]:
        """Return the bounds on this side of the entry at which a step from `t` and `x`
        ends, or on the other side, if it `goes_on`."""
        low = jnp.full(equation.plan.count, -jnp.inf)
        high = -low
        time = entry(table, ending.entry)[0]
        for n, tracked in enumerate(equation.plan.tracked):
            if not tracked.is_constant:
                number = equation.plan.first[tracked.delay]
                is_above = (time > equation.delayed_time(tracked, t, x)) != goes_on
                here = ending.read == n
                bound = jnp.where(is_above, time - tiny, time + tiny)
                low = low.at[number].set(jnp.where(here & ~is_above, bound, -jnp.inf))
                high = high.at[number].set(jnp.where(here & is_above, bound, jnp.inf))
        return [low, high]

    return Sides(
        *bounds(ending, t, x, False), *bounds(first, origin, coefficients[0], True)
    )


def newton_correction(
    equation: ExtendedEquation,
    tracked: TrackedRead,
    goal: Any,
    t: Any,
    x: jax.Array,
    slope: jax.Array,
) -> jax.Array:
    """Return the change of the time `t` after which the delayed time is `goal`, given
    the state there and its slope. Zero if the delayed time does not move."""

    def along(e):
        held = lax.stop_gradient((t, x, slope))
        return equation.delayed_time(tracked, held[0] + e, held[1] + e * held[2])

    rate = lax.stop_gradient(jax.jvp(along, (0.0,), (1.0,))[1])
    distance = equation.delayed_time(tracked, t, x) - goal
    is_moving = jnp.abs(rate) > 1e-6
    return jnp.where(is_moving, -distance / jnp.where(is_moving, rate, 1.0), 0.0)
