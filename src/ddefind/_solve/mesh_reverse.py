r"""Reverse mode on a mesh: the cotangents of all inputs of a march.

The loop visits the steps from the last to the first. Step i makes row i + 1 = (x, x')
from row i, from the delayed states that it has read, and from the times of its ends.
Its VJP gives the cotangents of all of these. Those of a delayed state are passed on to
the two rows between which it was read (or to the history), by reading, adding and
writing these rows of a buffer with the cotangents of the path.

Where a delay is shorter than the step, a delayed state depends on row i + 1 itself. The
step is then the solution z of z = G(z, u), and with the cotangent g of z those of u are

$$\Bigl(\frac{\partial G}{\partial u}\Bigr)^T \lambda, \qquad
  \lambda = g + \Bigl(\frac{\partial G}{\partial z}\Bigr)^T \lambda,$$

which is solved by iteration, like the step itself.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._util.buffers import read, write
from .grid import AbstractRowTimes
from .march import MOST_PASSES, largest_change, take_step
from .mesh import seen_from
from .mesh_past import (
    Cursor,
    add_two,
    hermite_at,
    pull_hermite,
    read_two,
    stage_time,
)
from .mesh_path import MarchInputs, MeshSystem, march_mesh


class _Step(NamedTuple):
    """What a step depends on: the parameters of the right-hand side, the delays, the
    state and the slope at its beginning, the times of both ends, and the delayed states
    that it reads, one after the other for each stage and delay. They are separate
    arrays: to take them from one array would be more work for the VJP."""

    rhs: Any
    delays: list[jax.Array]
    x: jax.Array
    first: jax.Array
    t0: jax.Array
    t1: jax.Array
    reads: list[jax.Array]


class _Carry(NamedTuple):
    i: jax.Array
    on_row: jax.Array  # the cotangent of row i
    on_path: jax.Array  # [capacity, 2, d]
    on_times: jax.Array  # [capacity]
    on_history: jax.Array  # [capacity, stages * k, d]
    on_rhs: Any
    on_delays: jax.Array


@final
@dataclass(frozen=True)
class _StepTimes(AbstractRowTimes):
    """The times of a single step, as `MeshTimes` gives them for all."""

    t0: Any
    t1: Any
    side: Any

    def node(self, i):
        return self.t0

    def stage(self, i, c):
        return stage_time(self.t0, self.t1, c, self.side)

    def length(self, i, h):
        return self.t1 - self.t0


def reverse_mesh(
    system: MeshSystem,
    inputs: MarchInputs,
    path: jax.Array,
    cursor: Cursor,
    last: Any,
    on_path: jax.Array,
) -> MarchInputs:
    """The cotangents of the inputs of a march, given those of its path."""
    past = system.past(inputs)
    k = inputs.delays.shape[0]
    fractions = jnp.asarray(past.fractions)
    reads = [(stage, q) for stage in range(len(past.fractions)) for q in range(k)]
    number = np.arange(len(reads))

    def one(step: _Step):
        """Row i + 1, from what step i depends on."""
        times = _StepTimes(step.t0, step.t1, system.side)

        def slope(t, x, y):
            return system.slope(step.rhs, step.delays, t, x, y)

        at = [step.reads[begin : begin + k] for begin in range(0, len(reads), k)]
        x = take_step(times, system.solver, slope, 1.0, 0, step.x, step.first, at)
        return x, slope(times.stage(0, 1.0), x, at[-1])

    def overlapping(i, pieces, step: _Step, after):
        """The VJP of step i, whose reads inside itself come from its own result."""

        def whole(step: _Step, after):
            left, right = jnp.stack([step.x, step.first]), jnp.stack(after)
            known = []
            for m, (stage, q) in enumerate(reads):
                length = step.t1 - step.t0
                s = step.t0 + past.fractions[stage] * length - step.delays[q]
                own = hermite_at(s, step.t0, step.t1, left, right)
                is_own = (pieces[m] == i) & ~past.reads_history(i, q)
                known.append(jnp.where(is_own, own, step.reads[m]))
            return one(step._replace(reads=known))

        return jax.vjp(whole, step, after)[1]

    def pull_step(i, pieces, step: _Step, on_after):
        """The cotangents of what step i depends on."""
        if not past.overlaps:
            return jax.vjp(one, step)[1](on_after)[0]
        pull = overlapping(i, pieces, step, tuple(read(path, i + 1)))

        def is_changing(carry):
            passes, change, _ = carry
            return (passes < MOST_PASSES) & (change > 0)

        def again(carry):
            passes, _, before = carry
            after = jax.tree.map(jnp.add, on_after, pull(before)[1])
            return passes + 1, largest_change(before, after), after

        carry = jnp.asarray(0), jnp.asarray(jnp.inf), on_after
        *_, multiplier = lax.while_loop(is_changing, again, carry)
        return pull(multiplier)[0]

    def body(carry: _Carry) -> _Carry:
        i = carry.i - 1
        pieces, seen = read(cursor.found, i), read(cursor.seen, i)
        t0, t1 = read(inputs.times, i), read(inputs.times, i + 1)
        x, first = read(path, i)
        states = [seen[m] for m in range(len(reads))]
        delays = [inputs.delays[q] for q in range(k)]
        step = _Step(inputs.rhs, delays, x, first, t0, t1, states)
        on_step = pull_step(i, pieces, step, tuple(carry.on_row))
        on_reads = jnp.stack(on_step.reads)
        is_early = (i < past.after_history)[number % k][:, None]
        is_elsewhere = is_early | (past.overlaps & (pieces == i))[:, None]
        passed_on = jnp.where(is_elsewhere, 0.0, on_reads)

        def pull_read(m, sums):
            """Pass the cotangent of read m on to the two rows that were read."""
            on_path, on_times, on_ends, on_delays = sums
            piece, q, c = read(pieces, m), m % k, read(fractions, m // k)
            rows, ends = read_two(path, piece), read_two(inputs.times, piece)
            s = t0 + c * (t1 - t0) - read(inputs.delays, q)
            by_rows, by_ends, by_s = pull_hermite(s, ends, rows, read(passed_on, m))
            return (
                add_two(on_path, piece, by_rows),
                add_two(on_times, piece, by_ends),
                on_ends + by_s * jnp.stack([1 - c, c]),
                write(on_delays, q, read(on_delays, q) - by_s),
            )

        sums = (
            carry.on_path,
            carry.on_times,
            jnp.stack([on_step.t0, on_step.t1]),
            carry.on_delays + jnp.stack(on_step.delays),
        )
        on_path, on_times, on_ends, on_delays = lax.fori_loop(
            0, len(reads), pull_read, sums
        )
        on_row = jnp.stack([on_step.x, on_step.first])
        return _Carry(
            i,
            on_row + read(on_path, i),
            on_path,
            add_two(on_times, i, on_ends),
            write(carry.on_history, i, jnp.where(is_early, on_reads, 0.0)),
            jax.tree.map(jnp.add, carry.on_rhs, on_step.rhs),
            on_delays,
        )

    carry = _Carry(
        last,
        read(on_path, last),
        on_path,
        jnp.zeros_like(inputs.times),
        jnp.zeros_like(cursor.seen),
        jax.tree.map(jnp.zeros_like, inputs.rhs),
        jnp.zeros_like(inputs.delays),
    )
    carry = lax.while_loop(lambda carry: carry.i > 0, body, carry)

    def first_row(rhs, delays, t, start, y):
        t = t + seen_from(True, system.side)
        return jnp.stack([start, system.slope(rhs, delays, t, start, y)])

    arguments = (
        inputs.rhs,
        inputs.delays,
        inputs.times[0],
        inputs.start,
        inputs.before_start,
    )
    by_rhs, by_delays, by_t, by_start, by_history = jax.vjp(first_row, *arguments)[1](
        carry.on_row
    )
    return MarchInputs(
        jax.tree.map(jnp.add, carry.on_rhs, by_rhs),
        carry.on_delays + by_delays,
        carry.on_times.at[0].add(by_t),
        carry.on_history.reshape(inputs.history.shape),
        by_history,
        by_start,
    )


@eqx.filter_custom_vjp
def rows_with_vjp(inputs: MarchInputs, system: MeshSystem, last: Any) -> jax.Array:
    """The rows of the solution, which JAX can differentiate in reverse mode."""
    return march_mesh(system, inputs, last)[0]


@rows_with_vjp.def_fwd
def _forward(perturbed, inputs, system, last):
    rows, cursor = march_mesh(system, inputs, last)
    return rows, (rows, cursor)


@rows_with_vjp.def_bwd
def _backward(saved, on_rows, perturbed, inputs, system, last):
    rows, cursor = saved
    return reverse_mesh(system, inputs, rows, cursor, last, on_rows)
