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

from ..._util.arrays import read, write
from ..aligned.march import MOST_PASSES, largest_change, take_step
from ..aligned.path import AbstractRowTimes, add_two, hermite_at, pull_hermite, read_two
from .march import Cursor, MarchInputs, MeshPast, MeshSystem, march_mesh, stage_time
from .mesh import side_offset


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


class _Sums(NamedTuple):
    """The cotangents to which the reads of a step contribute; `on_ends` are for the
    times of its two ends."""

    on_path: jax.Array
    on_times: jax.Array
    on_ends: jax.Array
    on_delays: jax.Array


class _Carry(NamedTuple):
    """The cotangents that the loop back carries, at row i."""

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


@final
@dataclass(frozen=True)
class _ReverseMesh:
    """The VJPs of the steps of a march, and what is the same for all of them."""

    system: MeshSystem
    inputs: MarchInputs
    path: jax.Array
    cursor: Cursor

    @property
    def _past(self) -> MeshPast:
        return self.system.past(self.inputs)

    @property
    def _delays(self) -> list[jax.Array]:
        return [self.inputs.delays[q] for q in range(self.inputs.delays.shape[0])]

    def _result(self, step: _Step) -> tuple[jax.Array, jax.Array]:
        """Return row i + 1, from what step i depends on."""
        times = _StepTimes(step.t0, step.t1, self.system.side)

        def slope(t, x, y):
            return self.system.slope(step.rhs, step.delays, t, x, y)

        k, solver = len(step.delays), self.system.solver
        at = [step.reads[begin : begin + k] for begin in range(0, len(step.reads), k)]
        x = take_step(times, solver, slope, 1.0, 0, step.x, step.first, at)
        return x, slope(times.stage(0, 1.0), x, at[-1])

    def _result_inside(self, i: Any, pieces: jax.Array, step: _Step, after: Any):
        """Return the same, with reads inside the step from its own result `after`."""
        left, right = jnp.stack([step.x, step.first]), jnp.stack(after)
        k, reads = len(step.delays), []
        for m, known in enumerate(step.reads):
            c, q = self._past.fractions[m // k], m % k
            s = step.t0 + c * (step.t1 - step.t0) - step.delays[q]
            inside = hermite_at(s, step.t0, step.t1, left, right)
            is_own = (pieces[m] == i) & ~self._past.reads_history(i, q)
            reads.append(jnp.where(is_own, inside, known))
        return self._result(step._replace(reads=reads))

    def _pull_step(self, i: Any, pieces: jax.Array, step: _Step, on_after: Any):
        """Return the cotangents of what step i depends on."""
        if not self._past.overlaps:
            return jax.vjp(self._result, step)[1](on_after)[0]

        def result(step, after):
            return self._result_inside(i, pieces, step, after)

        _, pull = jax.vjp(result, step, tuple(read(self.path, i + 1)))

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

    def step(self, carry: _Carry) -> _Carry:
        """Go back through step i - 1, from the cotangent of row i."""
        i, inputs = carry.i - 1, self.inputs
        pieces, states = read(self.cursor.found, i), read(self.cursor.states, i)
        t0, t1 = read(inputs.times, i), read(inputs.times, i + 1)
        x, first = read(self.path, i)
        reads = [states[m] for m in range(states.shape[0])]
        step = _Step(inputs.rhs, self._delays, x, first, t0, t1, reads)
        on_step = self._pull_step(i, pieces, step, tuple(carry.on_row))
        on_reads = jnp.stack(on_step.reads)
        delay = np.arange(len(reads)) % inputs.delays.shape[0]
        is_early = (i < self._past.after_history)[delay][:, None]
        is_own = (self._past.overlaps & (pieces == i))[:, None]
        sums = _Sums(
            carry.on_path,
            carry.on_times,
            jnp.stack([on_step.t0, on_step.t1]),
            carry.on_delays + jnp.stack(on_step.delays),
        )
        on_rows = jnp.where(is_early | is_own, 0.0, on_reads)
        sums = self._pull_reads(t0, t1, pieces, on_rows, sums)
        on_row = jnp.stack([on_step.x, on_step.first])
        return _Carry(
            i,
            on_row + read(sums.on_path, i),
            sums.on_path,
            add_two(sums.on_times, i, sums.on_ends),
            write(carry.on_history, i, jnp.where(is_early, on_reads, 0.0)),
            jax.tree.map(jnp.add, carry.on_rhs, on_step.rhs),
            sums.on_delays,
        )

    def _pull_reads(self, t0, t1, pieces, on_reads, sums: "_Sums") -> "_Sums":
        """Pass the cotangents of all reads of a step, from `t0` to `t1`, on to the two
        rows between which each was read."""
        inputs, fractions = self.inputs, jnp.asarray(self._past.fractions)
        k = inputs.delays.shape[0]

        def one(m, sums: _Sums) -> _Sums:
            piece, q, c = read(pieces, m), m % k, read(fractions, m // k)
            rows, ends = read_two(self.path, piece), read_two(inputs.times, piece)
            s = t0 + c * (t1 - t0) - read(inputs.delays, q)
            by_rows, by_ends, by_s = pull_hermite(s, ends, rows, read(on_reads, m))
            return _Sums(
                add_two(sums.on_path, piece, by_rows),
                add_two(sums.on_times, piece, by_ends),
                sums.on_ends + by_s * jnp.stack([1 - c, c]),
                write(sums.on_delays, q, read(sums.on_delays, q) - by_s),
            )

        return lax.fori_loop(0, on_reads.shape[0], one, sums)

    def first_row(self, on_row: jax.Array):
        """Return the cotangents of what row 0 depends on: of the parameters of the
        right-hand side, the delays, its time, the delayed states and the state."""
        inputs = self.inputs

        def row(rhs, delays, t, y, start):
            t = t + side_offset(True, self.system.side)
            return jnp.stack([start, self.system.slope(rhs, delays, t, start, y)])

        before = [inputs.before_start[q] for q in range(len(self._delays))]
        arguments = inputs.rhs, self._delays, inputs.times[0], before, inputs.start
        return jax.vjp(row, *arguments)[1](on_row)


def reverse_mesh(
    system: MeshSystem,
    inputs: MarchInputs,
    path: jax.Array,
    cursor: Cursor,
    last: Any,
    on_path: jax.Array,
) -> MarchInputs:
    """Return the cotangents of the inputs of a march, given those of its path."""
    reverse = _ReverseMesh(system, inputs, path, cursor)
    carry = _Carry(
        last,
        read(on_path, last),
        on_path,
        jnp.zeros_like(inputs.times),
        jnp.zeros_like(cursor.states),
        jax.tree.map(jnp.zeros_like, inputs.rhs),
        jnp.zeros_like(inputs.delays),
    )
    carry = lax.while_loop(lambda carry: carry.i > 0, reverse.step, carry)
    by_rhs, by_delays, by_t, on_before, on_start = reverse.first_row(carry.on_row)
    return MarchInputs(
        jax.tree.map(jnp.add, carry.on_rhs, by_rhs),
        carry.on_delays + jnp.stack(by_delays),
        carry.on_times.at[0].add(by_t),
        carry.on_history.reshape(inputs.history.shape),
        jnp.stack(on_before),
        on_start,
    )


@eqx.filter_custom_vjp
def rows_with_vjp(inputs: MarchInputs, system: MeshSystem, last: Any) -> jax.Array:
    """Return the rows of the solution, differentiable in reverse mode."""
    return march_mesh(system, inputs, last)[0]


@rows_with_vjp.def_fwd
def _forward(perturbed, inputs, system, last):
    rows, cursor = march_mesh(system, inputs, last)
    return rows, (rows, cursor)


@rows_with_vjp.def_bwd
def _backward(saved, on_rows, perturbed, inputs, system, last):
    rows, cursor = saved
    return reverse_mesh(system, inputs, rows, cursor, last, on_rows)
