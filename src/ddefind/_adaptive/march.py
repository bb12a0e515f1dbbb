"""The march: the loop that solves an equation with steps of its own choice.

A step is tried, judged by its error, and made again if that is too large, if it crosses
a breaking point, or if a delay is negative in it. Nothing of this choice has
derivatives. What has them are the pieces of the steps, and the nodes on breaking
points: all other nodes rest.

Buffers are written at the beginning of a step and read afterwards, in inner loops only:
XLA would copy them otherwise.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from .._util.buffers import read, write
from .breaking_points import (
    HIGHEST,
    BreakingPoints,
    add_entry,
    entry,
    first_crossing,
    newton_correction,
    next_entry,
    pass_entries,
    passed_entries,
    sides_of,
)
from .equation import Equation
from .explicit_step import (
    STAGE_COUNT as EXPLICIT_STAGES,
    Step,
    StepStart,
    explicit_step,
)
from .implicit_step import STAGE_COUNT as IMPLICIT_STAGES, implicit_step
from .lookup import PathRows, hold
from .march_state import (
    NEGATIVE_DELAY,
    NO_ROOM,
    NOT_A_LANDING,
    REACHED_END,
    STEP_TOO_SHORT,
    TOO_MANY_TRIES,
    EndNode,
    MarchResult,
    MarchState,
    Target,
    Tolerance,
    recent_size,
    tolerance_of,
)
from .methods import AbstractAdaptive, Radau
from .pieces import Ending, continued, evaluate, pack, row_size, unpack

# A landing on a breaking point is good if Newton's correction is below this share of
# the step; the number of attempts is limited.
_LANDING, _MOST_ATTEMPTS = 1e-5, 12
# A delay may be negative by this share of a step, by errors of the state.
_NEGATIVE = 0.01


@final
class March(eqx.Module):
    """What stays the same in all steps of a march up to the time `T`."""

    equation: Equation
    tolerance: Tolerance
    switches: jax.Array
    T: jax.Array
    is_implicit: bool = eqx.field(static=True)

    @property
    def degree(self) -> int:
        """The degree of a piece."""
        return 3 if self.is_implicit else 5

    @property
    def stages(self) -> int:
        """The number of stages of a step."""
        return IMPLICIT_STAGES if self.is_implicit else EXPLICIT_STAGES

    @property
    def row_size(self) -> int:
        """The length of a row of the path."""
        return row_size(self.degree, self.equation.dimension)

    @property
    def tracked(self):
        """The reads that carry kinks."""
        return self.equation.plan.tracked

    def snap(self, t: Any) -> jax.Array:
        """Times that are closer than this count as equal."""
        return 1e-12 * jnp.abs(t) + 1e-16 * self.T

    # The beginning.

    def begin(self, path: jax.Array) -> MarchState:
        """A march at time zero, with a buffer for its path."""
        equation = self.equation
        x = equation.start()
        capacity, reads = path.shape[0], equation.plan.count
        jumps = 0.0 if equation.problem.has_jump else 1.0
        before = jnp.sum(hold(self.switches) < 0)
        table = jnp.zeros((capacity + self.switches.shape[0] + 1, 2))
        history = jnp.stack([self.switches, jnp.zeros_like(self.switches)], axis=1)
        table = lax.dynamic_update_slice_in_dim(table, history, 0, 0)
        pending = jnp.array([0.0, jumps])
        table = write(table, before, pending)
        number = jnp.asarray(0)
        points = BreakingPoints(table, before + 1, pending, jnp.zeros(0, int))
        zero = jnp.zeros(())
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
        coefficients = jnp.zeros((self.degree + 1, x.shape[0])).at[1].set(slope)
        row = pack(coefficients, zero, jnp.ones(()), Ending(-1, -1, -1))
        return MarchState(
            count=number,
            t=zero,
            x=x,
            h=1e-3 * self.T,
            row=row,
            path=path,
            hints=jnp.zeros((self.stages, reads), int),
            points=points,
            switch=before + jnp.sum(hold(self.switches) == 0),
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

    def target(self, state: MarchState) -> Target:
        """Where the next try shall end: where its length says, or on the next breaking
        point that is known in advance, or at T."""
        held, t = hold(self), hold(state.t)
        goal, landing = held.T, jnp.asarray(NOT_A_LANDING)
        b = jnp.asarray(0)
        points = hold(state.points)
        for n, tracked in enumerate(self.tracked):
            if tracked.is_constant:
                above = next_entry(points, tracked, points.passed[n])
                delay = -held.equation.delayed_time(tracked, 0.0, hold(state.x))
                time = jnp.where(
                    above < points.count, entry(points.table, above)[0] + delay, jnp.inf
                )
                is_next = time < goal - self.snap(t)
                goal, landing = (
                    jnp.where(is_next, time, goal),
                    jnp.where(is_next, n, landing),
                )
                b = jnp.where(is_next, above, b)
        if self.switches.shape[0] > 0:
            last = self.switches.shape[0] - 1
            time = read(held.switches, jnp.minimum(state.switch, last))
            is_next = (state.switch <= last) & (time < goal - self.snap(t))
            goal = jnp.where(is_next, time, goal)
            landing = jnp.where(is_next, len(self.tracked), landing)
        is_located = state.landing != NOT_A_LANDING
        h, rest = state.h, goal - t
        reaches = h >= rest - self.snap(t)
        # No sliver is left before the goal.
        h = jnp.where((h < rest) & (2 * h > rest) & ~is_located, 0.5 * rest, h)
        landing = jnp.where(reaches, landing, NOT_A_LANDING)
        return Target(
            jnp.where(is_located, t + state.h, jnp.where(reaches, goal, t + h)),
            jnp.where(is_located, state.landing, landing),
            jnp.where(is_located, state.landing_entry, b),
            reaches & ~is_located,
        )

    def attempt(self, state: MarchState, start: StepStart, scale: jax.Array) -> Step:
        """Try a step."""
        coefficients, _, length = unpack(hold(state.row), start.x.shape[0])
        held = hold(start)
        ratio = held.length / length
        slope = evaluate(coefficients, 1.0)[1] / length
        line = jnp.zeros_like(coefficients).at[0].set(held.x)
        line = line.at[1].set(held.length * slope)
        can_continue = ~state.is_after_kink & (ratio < 4)
        guess = jnp.where(can_continue, continued(coefficients, ratio), line)
        rows = PathRows(self.equation.dimension, False, state.path, state.count)
        take = implicit_step if self.is_implicit else explicit_step
        return take(self.equation, lambda _: rows, start, guess, state.hints, scale)

    def end_node(self, start: StepStart, coefficients, ending: Ending, goal) -> EndNode:
        """The node at the end of a step: on the breaking point with the time `goal`, if
        the step landed on one."""
        end = hold(start.t + start.length)
        x, slope = evaluate(coefficients, 1.0)
        slope = slope / start.length
        move = jnp.zeros(())
        for n, tracked in enumerate(self.tracked):
            delta = newton_correction(self.equation, tracked, goal, end, x, slope)
            move = jnp.where(ending.read == n, delta, move)
        if self.switches.shape[0] > 0:
            last = self.switches.shape[0] - 1
            switch = read(self.switches, jnp.clip(ending.entry, 0, last))
            move = jnp.where(ending.read == len(self.tracked), switch - end, move)
        is_landing = ending.read != NOT_A_LANDING
        moved = evaluate(coefficients, 1 + move / start.length)[0]
        return EndNode(end + move, jnp.where(is_landing, moved, x), hold(move))

    def jump_at(self, points: BreakingPoints, ending: Ending) -> jax.Array:
        """Which derivative jumps where a step ended."""
        order = hold(entry(points.table, ending.entry)[1])
        jump = jnp.zeros(()) + HIGHEST + 1
        for n, tracked in enumerate(self.tracked):
            jump = jnp.where(ending.read == n, order + tracked.smoothing, jump)
        return jnp.where(ending.read == len(self.tracked), 1.0, jump)

    def body(self, state: MarchState) -> MarchState:
        """Write what the last step found, and try the next one."""
        points = state.points
        table = write(points.table, points.count - 1, points.pending)
        points = points._replace(table=table)
        path = write(state.path, jnp.maximum(state.count - 1, 0), state.row)
        state = state._replace(path=path, points=points)
        target = self.target(state)
        if self.switches.shape[0] > 0:
            is_switch = target.landing == len(self.tracked)
            target = target._replace(
                entry=jnp.where(is_switch, state.switch, target.entry)
            )
        ending = Ending(target.landing, target.entry, -1)
        step = state.t, state.x, target.end - state.t
        before = state.row, state.count > 0
        sides = sides_of(self.equation, points.table, before, step, ending)
        start = StepStart(*step, sides)
        length = hold(start.length)
        scale = self.tolerance.scale(hold(state.x), state.size)
        step = self.attempt(state, start, hold(scale))
        new = evaluate(hold(step.coefficients), 1.0)[0]
        size = recent_size(state.size, new)
        error = step.error / self.tolerance.scale(new, size)
        error = hold(jnp.sqrt(jnp.mean(error**2)))
        is_negative = jnp.min(step.delays) < -_NEGATIVE * length
        is_whole = jnp.isfinite(error) & step.is_agreed & ~is_negative
        error = jnp.where(is_whole, error, 1e10)

        t = hold(state.t)
        crossing = first_crossing(
            hold(self.equation),
            hold(points),
            (t, length, hold(step.coefficients)),
            target.landing,
            self.snap(t) + 1e-9 * length,
        )
        goal = entry(points.table, target.entry)[0]
        node = self.end_node(start, step.coefficients, ending, goal)
        jump = self.jump_at(points, ending)
        is_close = jnp.abs(node.move) <= _LANDING * length
        is_close |= target.landing == NOT_A_LANDING
        crosses = (crossing.u < 1) & is_whole
        accept = (error <= 1) & is_close & ~crosses

        # The next length, and where it shall end.
        order = Radau.order if self.is_implicit else 5
        factor = 0.9 * jnp.maximum(error, 1e-10) ** (-1 / order)
        factor = jnp.clip(factor, 0.2, jnp.where(state.is_refused, 1.0, 5.0))
        h = length * factor
        h = jnp.where(accept & target.is_cut, jnp.maximum(h, state.h), h)
        retries = ~accept & (error <= 1) & ~is_close & ~crosses
        retries &= state.attempts < _MOST_ATTEMPTS
        h = jnp.where(retries, length + node.move, h)
        h = jnp.where(crosses, crossing.u * length, h)
        landing = jnp.where(crosses, crossing.n, NOT_A_LANDING)
        landing = jnp.where(retries, target.landing, landing)
        aim = jnp.where(crosses, crossing.b, target.entry)

        made = accept & (jump <= HIGHEST)
        made = jnp.where(made, points.count, NOT_A_LANDING)
        times = [
            hold(self.equation).delayed_time(tracked, hold(node.t), hold(node.x))
            for tracked in self.tracked
        ]
        passed = pass_entries(hold(points), times, ending, self.snap(hold(node.t)))
        points = add_entry(points, made, node.t, jump)
        points = points._replace(passed=jnp.where(accept, passed, points.passed))
        row = pack(step.coefficients, start.t, start.length, ending._replace(made=made))

        def keep(after, before):
            return jax.tree.map(lambda a, b: jnp.where(accept, a, b), after, before)

        is_switch = target.landing == len(self.tracked)
        tiny = 16 * 2.3e-16 * jnp.abs(t) + 1e-18 * self.T
        status = jnp.where(
            ~accept & (h < tiny),
            jnp.where(is_negative, NEGATIVE_DELAY, STEP_TOO_SHORT),
            state.status,
        )
        return MarchState(
            count=keep(state.count + 1, state.count),
            t=keep(node.t, state.t),
            x=keep(node.x, state.x),
            h=h,
            row=keep(row, state.row),
            path=path,
            hints=keep(step.hints, state.hints),
            points=points,
            switch=keep(state.switch + jnp.where(is_switch, 1, 0), state.switch),
            landing=landing,
            landing_entry=aim,
            attempts=jnp.where(landing == NOT_A_LANDING, 0, state.attempts + 1),
            size=keep(size, state.size),
            tries=state.tries + 1,
            is_refused=~accept & ~crosses & ~retries,
            is_after_kink=keep(jump <= 1, state.is_after_kink),
            delays=step.delays,
            status=status,
        )

    # The whole march.

    def run(self, path: jax.Array, most_tries: Any) -> MarchResult:
        """Solve up to T."""
        capacity = path.shape[0]

        def goes_on(state: MarchState):
            is_going = (hold(state.t) < self.T) & (state.status == REACHED_END)
            return is_going & (state.count < capacity) & (state.tries < most_tries)

        state = lax.while_loop(
            goes_on, lambda state: self.body(state), self.begin(path)
        )
        path = write(state.path, jnp.maximum(state.count - 1, 0), state.row)
        is_short = (state.status == REACHED_END) & (hold(state.t) < self.T)
        limit = jnp.where(state.count >= capacity, NO_ROOM, TOO_MANY_TRIES)
        status = jnp.where(is_short, limit, state.status)
        points = state.points
        table = write(points.table, points.count - 1, points.pending)
        return MarchResult(
            path,
            state.count,
            state.t,
            state.x,
            state.tries,
            status,
            state.delays,
            points._replace(table=table),
        )


def make_march(equation: Equation, solver: AbstractAdaptive, T: Any) -> March:
    """The march of an equation up to the time `T`."""
    times = equation.problem.switch_times
    order = jnp.argsort(hold(times))
    return March(
        equation,
        tolerance_of(solver),
        times[order],
        jnp.asarray(T, float),
        isinstance(solver, Radau),
    )
