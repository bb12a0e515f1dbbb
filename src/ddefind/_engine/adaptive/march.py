"""The march: the loop that solves an equation with steps of its own choice.

A step is tried, judged by its error, and made again if that is too large, if it crosses
a breaking point, or if a delay is negative in it. Nothing of this choice has
derivatives. What has them are the pieces of the steps, and the nodes on breaking
points: all other nodes rest.

Buffers are written at the beginning of a step and read afterwards, in inner loops only:
XLA would copy them otherwise.
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ..._util.arrays import read, write
from .breaking_points import (
    Crossing,
    MetPoints,
    Switches,
    add_entry,
    entry,
    first_crossing,
    first_points,
    jump_at,
    newton_correction,
    next_entry,
    pass_entries,
    passed_entries,
    passed_switches,
    sides_of,
    switches_of,
    write_pending,
)
from .equation import ExtendedEquation, Scale, Step, StepStart
from .methods import AbstractAdaptive
from .pieces import Ending, PathRows, continued, evaluate, hold, pack, row_size, unpack

# How a march ended.
REACHED_END, STEP_TOO_SHORT, NEGATIVE_DELAY, NO_ROOM, TOO_MANY_TRIES = range(5)
# A step that does not end on a breaking point.
NOT_A_LANDING = -1
# The share of the recent size of a component that remains after each step, and the
# share of a first try that counts as its size.
_REMEMBERED, _FIRST_SHARE = 0.8, 1e-3


def first_size(before: jax.Array, tried: jax.Array) -> jax.Array:
    """Return the size of each component before the first step, given that at the end of
    a try. A state that begins at zero has no size of its own yet, by which its errors
    could be judged: it gets a share of where the first tries led."""
    share = jnp.where(jnp.isfinite(tried), _FIRST_SHARE * tried, 0.0)
    return jnp.maximum(before, share)


@final
class Tolerance(eqx.Module):
    """The tolerated errors of a solver, as arrays. `atol` is negative where it follows
    from the recent sizes of the components."""

    rtol: jax.Array
    atol: jax.Array

    def scale(self, x: jax.Array, size: jax.Array) -> jax.Array:
        """Return the tolerated error of each component, given their recent sizes."""
        small = 1e-3 * size + 1e-12 * jnp.max(size)
        floor = jnp.where(self.atol < 0, self.rtol * small, self.atol)
        return floor + self.rtol * jnp.abs(x) + 1e-300


class AdaptiveState(NamedTuple):
    """The state of a march.

    - `count` rows are complete; the last of them is `row`, which is written next.
    - `t`, `x`, and the length `h` of the next try.
    - `landing` and `landing_entry`: the tracked read and the breaking point on which
      the next try ends, if it was located; and `attempts` at it.
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
    points: MetPoints
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
    points: MetPoints


class EndNode(NamedTuple):
    """The node at the end of a step: its time and state, and its move onto a breaking
    point."""

    t: jax.Array
    x: jax.Array
    move: jax.Array


class EndOfTry(NamedTuple):
    """Where a try ends."""

    end: jax.Array
    landing: jax.Array
    entry: jax.Array
    is_cut: jax.Array


class Trial(NamedTuple):
    """A trial step and the decision on it.

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


# A landing on a breaking point is good if Newton's correction is below this share of
# the step; the number of attempts is limited.
_LANDING, _MOST_ATTEMPTS = 1e-5, 12
# The number of factors in an octave by which a step may become longer or shorter.
# Programs that round differently, as those of the two modes of differentiation, then
# take the same steps.
_IN_AN_OCTAVE = 32
# A delay may be negative by this share of a step, by errors of the state.
_NEGATIVE = 0.01


@final
class AdaptiveMarch(eqx.Module):
    """The constants of all steps of a march up to the time `T`, with steps of at most
    `max_step`."""

    equation: ExtendedEquation
    tolerance: Tolerance
    switches: Switches
    T: jax.Array
    max_step: jax.Array
    solver: AbstractAdaptive = eqx.field(static=True)

    @property
    def row_size(self) -> int:
        """The length of a row of the path."""
        return row_size(self.solver.degree, self.equation.dimension)

    @property
    def tracked(self):
        """The reads that carry kinks."""
        return self.equation.plan.tracked

    def snap(self, t: Any) -> jax.Array:
        """Return the distance below which times count as equal."""
        return 1e-12 * jnp.abs(t) + 1e-16 * self.T

    # The beginning.

    def begin(self, path: jax.Array) -> AdaptiveState:
        """Start a march at time zero, with a buffer for its path."""
        equation = self.equation
        x = equation.start()
        reads, number, zero = equation.plan.count, jnp.asarray(0), jnp.zeros(())
        jump = 0.0 if equation.problem.has_jump else 1.0
        points = first_points(self.switches, jump, path.shape[0])
        held = hold(self)
        passed = [
            passed_entries(
                hold(points),
                number,
                held.equation.delayed_time(tracked, zero, hold(x)),
                self.snap(zero),
            )
            for tracked in self.tracked
        ]
        points = points._replace(
            passed=jnp.stack(passed) if passed else jnp.zeros(0, int)
        )
        slope = jnp.zeros_like(x)
        if equation.is_neutral:
            slope = hold(equation).history(zero)[1]
        coefficients = jnp.zeros((self.solver.degree + 1, x.shape[0])).at[1].set(slope)
        row = pack(coefficients, zero, jnp.ones(()), Ending(-1, -1, -1))
        return AdaptiveState(
            count=number,
            t=zero,
            x=x,
            h=jnp.minimum(1e-3 * self.T, self.max_step),
            row=row,
            path=path,
            hints=jnp.zeros((self.solver.stages, reads), int),
            points=points,
            switch=jnp.sum(hold(self.switches.times) <= 0),
            landing=number + NOT_A_LANDING,
            landing_entry=number,
            attempts=number,
            size=jnp.abs(hold(x)),
            tries=number,
            is_refused=jnp.asarray(False),
            is_after_kink=jnp.asarray(True),
            delays=jnp.zeros(len(equation.leaves)),
            status=number + REACHED_END,
        )

    # One try.

    def target(self, state: AdaptiveState) -> EndOfTry:
        """Return where the next try ends: where its length says, or on the next
        breaking point that is known in advance, or at T."""
        held, t = hold(self), hold(state.t)
        goal, landing = held.T, jnp.asarray(NOT_A_LANDING)
        b, highest = jnp.asarray(0), self.solver.highest
        points = hold(state.points)
        for n, tracked in enumerate(self.tracked):
            if tracked.is_constant:
                above = next_entry(points, tracked, points.passed[n], highest)
                delay = -held.equation.delayed_time(tracked, 0.0, hold(state.x))
                time = jnp.where(
                    above < points.count, entry(points.table, above)[0] + delay, jnp.inf
                )
                is_next = time < goal - self.snap(t)
                goal = jnp.where(is_next, time, goal)
                landing = jnp.where(is_next, n, landing)
                b = jnp.where(is_next, above, b)
        if self.switches.count > 0:
            last = self.switches.count - 1
            time = read(held.switches.times, jnp.minimum(state.switch, last))
            is_next = (state.switch <= last) & (time < goal - self.snap(t))
            goal = jnp.where(is_next, time, goal)
            landing = jnp.where(is_next, len(self.tracked), landing)
            b = jnp.where(is_next, state.switch, b)
        is_located = state.landing != NOT_A_LANDING
        h, rest = state.h, goal - t
        reaches = h >= rest - self.snap(t)
        # No sliver is left before the goal.
        h = jnp.where((h < rest) & (2 * h > rest) & ~is_located, 0.5 * rest, h)
        landing = jnp.where(reaches, landing, NOT_A_LANDING)
        return EndOfTry(
            jnp.where(is_located, t + state.h, jnp.where(reaches, goal, t + h)),
            jnp.where(is_located, state.landing, landing),
            jnp.where(is_located, state.landing_entry, b),
            reaches & ~is_located,
        )

    def attempt(self, state: AdaptiveState, start: StepStart, scale: Scale) -> Step:
        """Try a step."""
        coefficients, _, length = unpack(state.row, start.x.shape[0])
        ratio = start.length / length
        slope = evaluate(coefficients, 1.0)[1] / length
        line = jnp.zeros_like(coefficients).at[0].set(start.x)
        line = line.at[1].set(start.length * slope)
        can_continue = ~state.is_after_kink & (hold(ratio) < 4)
        guess = jnp.where(can_continue, continued(coefficients, ratio), line)
        rows = PathRows(self.equation.dimension, False, state.path, state.count)
        place = self.equation, lambda _: rows, start
        return self.solver.step(*place, guess, state.hints, scale)

    def end_node(self, start: StepStart, coefficients, ending: Ending, goal) -> EndNode:
        """Return the node at the end of a step: on the breaking point `goal`, if it
        landed."""
        end = hold(start.t + start.length)
        x, slope = evaluate(coefficients, 1.0)
        slope = slope / start.length
        move = jnp.zeros(())
        for n, tracked in enumerate(self.tracked):
            delta = newton_correction(self.equation, tracked, goal, end, x, slope)
            move = jnp.where(ending.read == n, delta, move)
        if self.switches.count > 0:
            last = self.switches.count - 1
            switch = read(self.switches.times, jnp.clip(ending.entry, 0, last))
            move = jnp.where(ending.read == len(self.tracked), switch - end, move)
        is_landing = ending.read != NOT_A_LANDING
        moved = evaluate(coefficients, 1 + move / start.length)[0]
        return EndNode(end + move, jnp.where(is_landing, moved, x), hold(move))

    def body(self, state: AdaptiveState) -> AdaptiveState:
        """Write the result of the last step, and try the next one."""
        points = write_pending(state.points)
        path = write(state.path, jnp.maximum(state.count - 1, 0), state.row)
        state = state._replace(path=path, points=points)
        trial = self._try(state)
        h, landing, aim = self._next_try(state, trial)
        tiny = 1e-15 * jnp.abs(hold(state.t)) + 1e-18 * self.T
        failure = jnp.where(trial.is_negative, NEGATIVE_DELAY, STEP_TOO_SHORT)
        after = state._replace(
            size=jnp.where(
                state.count == 0, first_size(state.size, trial.size), state.size
            ),
            h=h,
            landing=landing,
            landing_entry=aim,
            attempts=jnp.where(landing == NOT_A_LANDING, 0, state.attempts + 1),
            tries=state.tries + 1,
            is_refused=~(trial.accept | trial.crosses | trial.misses),
            delays=trial.step.delays,
            status=jnp.where(~trial.accept & (h < tiny), failure, state.status),
        )
        return self._advance(after, trial)

    def _try(self, state: AdaptiveState) -> Trial:
        """Try a step, and judge it."""
        target = self.target(state)
        ending = Ending(target.landing, target.entry, NOT_A_LANDING)
        step = state.t, state.x, target.end - state.t
        before = state.row, state.count > 0
        sides = sides_of(self.equation, state.points.table, before, step, ending)
        start = StepStart(*step, sides)
        t, length = hold((state.t, start.length))

        def scale(end):
            largest = jnp.maximum(jnp.abs(hold(state.x)), jnp.abs(hold(end)))
            return self.tolerance.scale(largest, state.size)

        step = self.attempt(state, start, scale)
        new = evaluate(hold(step.coefficients), 1.0)[0]
        size = jnp.maximum(jnp.abs(new), _REMEMBERED * state.size)
        error = step.error / self.tolerance.scale(new, size)
        error = hold(jnp.sqrt(jnp.mean(error**2)))
        is_negative = jnp.min(step.delays) < -_NEGATIVE * length
        is_whole = jnp.isfinite(error) & step.is_agreed & ~is_negative
        error = jnp.where(is_whole, error, 1e10)
        crossing = first_crossing(
            hold(self.equation),
            hold(state.points),
            (t, length, hold(step.coefficients)),
            target.landing,
            self.snap(t) + 1e-9 * length,
            self.solver.highest,
        )
        crosses = (crossing.u < 1) & is_whole
        goal = entry(state.points.table, target.entry)[0]
        node = self.end_node(start, step.coefficients, ending, goal)
        is_close = jnp.abs(node.move) <= _LANDING * length
        is_close |= target.landing == NOT_A_LANDING
        misses = (error <= 1) & ~is_close & ~crosses
        misses &= state.attempts < _MOST_ATTEMPTS
        return Trial(
            target.is_cut,
            start,
            step,
            error,
            size,
            ending,
            node,
            crossing,
            is_negative,
            crosses,
            misses,
            (error <= 1) & ~crosses & ~misses,
        )

    def _next_try(self, state: AdaptiveState, trial: Trial):
        """Return the length of the next try, and the read and the entry on which it
        lands."""
        length = hold(trial.start.length)
        factor = 0.9 * jnp.maximum(trial.error, 1e-10) ** (-1 / self.solver.power)
        factor = jnp.exp2(jnp.floor(_IN_AN_OCTAVE * jnp.log2(factor)) / _IN_AN_OCTAVE)
        factor = jnp.clip(factor, 0.2, jnp.where(state.is_refused, 1.0, 5.0))
        h = length * factor
        h = jnp.where(trial.accept & trial.is_cut, jnp.maximum(h, state.h), h)
        h = jnp.minimum(h, self.max_step)
        h = jnp.where(trial.misses, length + trial.node.move, h)
        h = jnp.where(trial.crosses, trial.crossing.u * length, h)
        landing = jnp.where(trial.misses, trial.ending.read, NOT_A_LANDING)
        landing = jnp.where(trial.crosses, trial.crossing.n, landing)
        aim = jnp.where(trial.crosses, trial.crossing.b, trial.ending.entry)
        return h, landing, aim

    def _advance(self, state: AdaptiveState, trial: Trial) -> AdaptiveState:
        """Return the state at the end of a trial step, if it was accepted."""
        node, ending, points = trial.node, trial.ending, state.points
        held, t, x = hold((self.equation, node.t, node.x))
        end = t + self.snap(t)
        highest, switches = self.solver.highest, hold(self.switches)
        switch, at_switch = passed_switches(switches, state.switch, end, highest)
        jump = jump_at(self.tracked, hold(points), ending, at_switch, highest)
        made = jnp.where(jump <= highest, points.count, NOT_A_LANDING)
        times = [held.delayed_time(tracked, t, x) for tracked in self.tracked]
        passed = pass_entries(hold(points), times, ending, self.snap(t))
        added = add_entry(points._replace(passed=passed), made, node.t, jump)
        after = state._replace(
            count=state.count + 1,
            t=node.t,
            x=node.x,
            row=pack(
                trial.step.coefficients,
                trial.start.t,
                trial.start.length,
                ending._replace(made=made),
            ),
            hints=trial.step.hints,
            switch=switch,
            size=trial.size,
            is_after_kink=jump <= 1,
        )

        def keep(after, before):
            if after is before:
                return before
            return jnp.where(trial.accept, after, before)

        # The buffers are not among what is chosen: they would be copied.
        points = points._replace(
            count=keep(added.count, points.count),
            pending=keep(added.pending, points.pending),
            passed=keep(added.passed, points.passed),
        )
        chosen = jax.tree.map(keep, after, state)
        return chosen._replace(path=state.path, points=points)

    # The whole march.

    def run(self, path: jax.Array, most_tries: Any) -> MarchResult:
        """Solve up to T."""
        capacity = path.shape[0]

        def goes_on(state: AdaptiveState):
            is_going = (hold(state.t) < self.T) & (state.status == REACHED_END)
            return is_going & (state.count < capacity) & (state.tries < most_tries)

        state = lax.while_loop(goes_on, lambda at: self.body(at), self.begin(path))
        path = write(state.path, jnp.maximum(state.count - 1, 0), state.row)
        is_short = (state.status == REACHED_END) & (hold(state.t) < self.T)
        limit = jnp.where(state.count >= capacity, NO_ROOM, TOO_MANY_TRIES)
        status = jnp.where(is_short, limit, state.status)
        return MarchResult(
            path,
            state.count,
            state.t,
            state.x,
            state.tries,
            status,
            state.delays,
            write_pending(state.points),
        )


def make_march(
    equation: ExtendedEquation,
    solver: AbstractAdaptive,
    T: Any,
    max_step: Any = jnp.inf,
) -> AdaptiveMarch:
    """Make the march of an equation up to the time `T`, with steps of at most
    `max_step`."""
    atol = -1.0 if solver.atol is None else solver.atol
    tolerance = Tolerance(jnp.asarray(float(solver.rtol)), jnp.asarray(float(atol)))
    limits = jnp.asarray(T, float), jnp.asarray(max_step, float)
    switches = switches_of(equation.problem, solver.highest)
    return AdaptiveMarch(equation, tolerance, switches, *limits, solver)
