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
from jax import lax

from .._util.buffers import read, write
from .grid import AbstractRowTimes
from .march import MOST_PASSES, largest_change, take_step
from .mesh import seen_from
from .mesh_past import hermite_at, stage_time
from .mesh_path import MarchInputs, MeshSystem, march_mesh


class _Step(NamedTuple):
    """What a step depends on: the parameters of the right-hand side, the delays, the
    row at its beginning, the times of both ends, and the delayed states that it reads,
    [stages, k, d]."""

    rhs: Any
    delays: jax.Array
    row: jax.Array
    t0: jax.Array
    t1: jax.Array
    reads: jax.Array


class _Carry(NamedTuple):
    i: jax.Array
    on_row: jax.Array  # the cotangent of row i
    on_path: jax.Array  # [capacity, 2, d]
    on_times: jax.Array  # [capacity]
    on_history: jax.Array  # [capacity, stages, k, d]
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
    found: jax.Array,
    last: Any,
    on_path: jax.Array,
) -> MarchInputs:
    """The cotangents of the inputs of a march, given those of its path."""
    past = system.past(inputs)
    k = inputs.delays.shape[0]
    reads = [(stage, q) for stage in range(len(past.fractions)) for q in range(k)]

    def one(step: _Step):
        """Row i + 1, from what step i depends on."""
        times = _StepTimes(step.t0, step.t1, system.side)

        def slope(t, x, y):
            return system.slope(step.rhs, step.delays, t, x, y)

        at = [step.reads[stage] for stage in range(len(past.fractions))]
        x, first = step.row
        x = take_step(times, system.solver, slope, 1.0, 0, x, first, at)
        return jnp.stack([x, slope(times.stage(0, 1.0), x, at[-1])])

    def read_one(delays, left, right, ends, t0, t1, stage, q):
        """The delayed state between two rows, at the times `ends`."""
        c = past.fractions[stage]
        s = (t1 if c == 1 else t0 + c * (t1 - t0)) - delays[q]
        return hermite_at(s, ends[0], ends[1], left, right)

    def overlapping(i, pieces, step: _Step, after):
        """The delayed states of step i, those inside it from its own result."""

        def states(delays, row, t0, t1, after, known):
            all_reads = []
            for m, (stage, q) in enumerate(reads):
                own = read_one(delays, row, after, (t0, t1), t0, t1, stage, q)
                is_own = (pieces[m] == i) & ~past.reads_history(i, q)
                all_reads.append(jnp.where(is_own, own, known[stage, q]))
            return jnp.stack(all_reads).reshape(known.shape)

        def whole(step: _Step, after):
            known = states(step.delays, step.row, step.t0, step.t1, after, step.reads)
            return one(step._replace(reads=known))

        return jax.vjp(whole, step, after)[1]

    def pull_step(i, pieces, step: _Step, on_after):
        """The cotangents of what step i depends on."""
        if not past.overlaps:
            return jax.vjp(one, step)[1](on_after)[0]
        pull = overlapping(i, pieces, step, read(path, i + 1))

        def is_changing(carry):
            passes, change, _ = carry
            return (passes < MOST_PASSES) & (change > 0)

        def again(carry):
            passes, _, multiplier = carry
            after = on_after + pull(multiplier)[1]
            return passes + 1, largest_change(multiplier, after), after

        carry = jnp.asarray(0), jnp.asarray(jnp.inf), on_after
        *_, multiplier = lax.while_loop(is_changing, again, carry)
        return pull(multiplier)[0]

    def body(carry: _Carry) -> _Carry:
        i = carry.i - 1
        pieces = read(found, i)
        t0, t1 = read(inputs.times, i), read(inputs.times, i + 1)
        states = jnp.stack(
            [past.state(path, i, s, q, pieces[m]) for m, (s, q) in enumerate(reads)]
        )
        states = states.reshape(len(past.fractions), k, -1)
        step = _Step(inputs.rhs, inputs.delays, read(path, i), t0, t1, states)
        on_step = pull_step(i, pieces, step, carry.on_row)
        on_delays = carry.on_delays + on_step.delays
        on_t0, on_t1 = on_step.t0, on_step.t1
        on_path, on_times = carry.on_path, carry.on_times
        on_history = []
        for m, (stage, q) in enumerate(reads):
            on_read = on_step.reads[stage, q]
            is_early = past.reads_history(i, q)
            on_history.append(jnp.where(is_early, on_read, 0.0))
            is_own = (pieces[m] == i) & past.overlaps
            on_read = jnp.where(is_early | is_own, 0.0, on_read)
            rows = _two(path, pieces[m])
            ends = _two(inputs.times, pieces[m])

            def piece(delays, rows, ends, t0, t1, stage=stage, q=q):
                return read_one(delays, rows[0], rows[1], ends, t0, t1, stage, q)

            _, pull = jax.vjp(piece, inputs.delays, rows, ends, t0, t1)
            by_delays, by_rows, by_ends, by_t0, by_t1 = pull(on_read)
            on_delays, on_t0, on_t1 = (
                on_delays + by_delays,
                on_t0 + by_t0,
                on_t1 + by_t1,
            )
            on_path = _add_two(on_path, pieces[m], by_rows)
            on_times = _add_two(on_times, pieces[m], by_ends)
        on_times = _add_two(on_times, i, jnp.stack([on_t0, on_t1]))
        history = jnp.stack(on_history).reshape(states.shape)
        return _Carry(
            i,
            on_step.row + read(on_path, i),
            on_path,
            on_times,
            write(carry.on_history, i, history),
            jax.tree.map(jnp.add, carry.on_rhs, on_step.rhs),
            on_delays,
        )

    carry = _Carry(
        last,
        read(on_path, last),
        on_path,
        jnp.zeros_like(inputs.times),
        jnp.zeros_like(inputs.history),
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
        carry.on_history,
        by_history,
        by_start,
    )


def _two(buffer: jax.Array, i: Any) -> jax.Array:
    """The rows i and i + 1."""
    return lax.dynamic_slice_in_dim(buffer, i, 2, 0, allow_negative_indices=False)


def _add_two(buffer: jax.Array, i: Any, rows: jax.Array) -> jax.Array:
    """The buffer after adding to its rows i and i + 1."""
    return lax.dynamic_update_slice_in_dim(
        buffer, _two(buffer, i) + rows, i, 0, allow_negative_indices=False
    )


@eqx.filter_custom_vjp
def rows_with_vjp(inputs: MarchInputs, system: MeshSystem, last: Any) -> jax.Array:
    """The rows of the solution, which JAX can differentiate in reverse mode."""
    return march_mesh(system, inputs, last)[0]


@rows_with_vjp.def_fwd
def _forward(perturbed, inputs, system, last):
    rows, found = march_mesh(system, inputs, last)
    return rows, (rows, found)


@rows_with_vjp.def_bwd
def _backward(saved, on_rows, perturbed, inputs, system, last):
    rows, found = saved
    return reverse_mesh(system, inputs, rows, found, last, on_rows)
