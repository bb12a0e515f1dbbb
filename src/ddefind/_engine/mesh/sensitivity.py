r"""The solution on a mesh together with its derivatives for all free values.

This does for any number of delays, and for switches in time, what
`aligned/sensitivity.py` does for one constant delay. The step loop is that of
`aligned/march.py`, with a `MovingArray` for a state; the mesh and its pointers are
those of `mesh.py` and `march.py`.

A state depends on the free values theta in two ways: through the movers w, the delays
and switches, which move the nodes; and directly, while the nodes rest. Both kinds of
derivatives are kept apart,

$$\frac{dx}{d\theta} = \frac{\partial x}{\partial\theta}
  + \frac{\partial x}{\partial w}\,\frac{dw}{d\theta},$$

because the direct ones, of which there are many, are then as cheap as on a fixed grid.
The two are put together where the solution is compared with the data. In memory all of
them stand in one array, with the value first. The right-hand side and the history are
differentiated by one VJP for each component of the state. The explicit dependence of
the right-hand side on tau and t is part of the derivatives for the movers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ..._problem.delays import delay_vector, in_structure
from ..._problem.problem import Problem
from ..._util.arrays import read, write
from ..aligned.march import AbstractPast, March, MarchState, march_until
from ..aligned.path import AbstractRowTimes
from ..aligned.sensitivity import AbstractSensitivity
from .march import movers_of, stage_fractions, stage_time
from .mesh import Mesh, side_offset


@final
class MovingArray(eqx.Module):
    """An array with its derivatives for movers [..., w] and direct ones [..., q]."""

    value: jax.Array
    by_movers: jax.Array
    direct: jax.Array

    def __add__(self, other: "MovingArray") -> "MovingArray":
        return jax.tree.map(jnp.add, self, other)

    def packed(self) -> jax.Array:
        """Return all numbers in one array, [..., 1 + w + q]."""
        return jnp.concatenate(
            [self.value[..., None], self.by_movers, self.direct], axis=-1
        )


def unpacked(array: jax.Array, movers: int) -> MovingArray:
    """Undo `MovingArray.packed`."""
    return MovingArray(
        array[..., 0], array[..., 1 : 1 + movers], array[..., 1 + movers :]
    )


@final
class MovingTime(eqx.Module):
    """A time or a length of time, and its derivatives for the movers [w]."""

    value: jax.Array
    by_movers: jax.Array

    def __add__(self, other: "MovingTime") -> "MovingTime":
        return jax.tree.map(jnp.add, self, other)

    def __sub__(self, other: "MovingTime") -> "MovingTime":
        return jax.tree.map(jnp.subtract, self, other)

    def __mul__(self, other: Any) -> Any:
        """Multiply by a number, or by a `MovingArray` of one axis."""
        if not isinstance(other, MovingArray):
            return MovingTime(self.value * other, self.by_movers * other)
        return MovingArray(
            self.value * other.value,
            self.value * other.by_movers + other.value[:, None] * self.by_movers,
            self.value * other.direct,
        )


def between(left: MovingTime, right: MovingTime, c: Any) -> MovingTime:
    """Return the time at the fraction `c` between two others."""
    return left + (right - left) * c


def hermite_moving(
    s: MovingTime, t0: MovingTime, t1: MovingTime, left: MovingArray, right: MovingArray
) -> MovingArray:
    """Return the state at the time `s` of the Hermite piece between two rows (x, x') at
    the times `t0` and `t1`, with all derivatives; not finite for a piece of length
    zero, which is never used."""
    h = t1 - t0
    inverse = 1 / h.value
    u = (s.value - t0.value) * inverse
    v = 1 - u
    a1, b0, b1 = u * u * (3 - 2 * u), h.value * (u * v * v), -h.value * (u * u * v)

    def blend(left, right):
        return left[0] + a1 * (right[0] - left[0]) + b0 * left[1] + b1 * right[1]

    (x0, f0), (x1, f1) = left.value, right.value
    chord = inverse * (x1 - x0)
    slope = 6 * u * v * chord + v * (1 - 3 * u) * f0 + u * (3 * u - 2) * f1
    by_length = u * v * (v * f0 - u * f1)
    # As the ends move, the point moves within its piece, and the piece is stretched.
    moved = s.by_movers - t0.by_movers - u * h.by_movers
    by_movers = (
        blend(left.by_movers, right.by_movers)
        + slope[:, None] * moved
        + by_length[:, None] * h.by_movers
    )
    return MovingArray(
        blend(left.value, right.value), by_movers, blend(left.direct, right.direct)
    )


class MeshMemory(NamedTuple):
    """Memory of a march, used again by the next one. The last axis of `history` and
    `path` is that of a packed `MovingArray`.

    - `nodes`, [capacity, 1 + w]: the times of the rows and their derivatives.
    - `history`, [capacity, stages, k, d, ...]: the delayed states that are history.
    - `path`, [capacity, 2, d, ...]: x and x'.
    """

    nodes: jax.Array
    history: jax.Array
    path: jax.Array


def _time(nodes: jax.Array, i: Any) -> MovingTime:
    row = read(nodes, i)
    return MovingTime(row[0], row[1:])


def _uses(function: Callable, *arguments: jax.Array) -> list[bool]:
    """Find the arguments on which a function depends. The others need not be multiplied
    by zeros, at every stage of every step."""
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    used = [v for equation in jaxpr.eqns for v in equation.invars] + jaxpr.outvars
    return [any(v is argument for v in used) for argument in jaxpr.invars]


@final
@dataclass(frozen=True)
class _MovingTimes(AbstractRowTimes):
    """The times of the rows, as in `MeshTimes`; `side` is None without switches."""

    nodes: jax.Array
    side: Any

    def node(self, i):
        here = _time(self.nodes, i)
        if self.side is None:
            return here
        before = _time(self.nodes, jnp.maximum(i - 1, 0))
        seen = here.value + side_offset(here.value <= before.value, self.side)
        return MovingTime(seen, here.by_movers)

    def stage(self, i, c):
        t0, t1 = _time(self.nodes, i), _time(self.nodes, i + 1)
        time = t1 if c == 1 else between(t0, t1, c)
        if self.side is None:
            return time
        seen = stage_time(t0.value, t1.value, c, self.side)
        return MovingTime(seen, time.by_movers)

    def length(self, i, h):
        return _time(self.nodes, i + 1) - _time(self.nodes, i)


@final
@dataclass(frozen=True)
class _MovingPast(AbstractPast):
    """The delayed states of a march, as in `MeshPast`; `delays` [k, 1 + w] have their
    derivatives for the movers."""

    nodes: jax.Array
    fractions: tuple[float, ...]
    delays: jax.Array
    history: jax.Array
    after_history: jax.Array
    side: Any
    overlaps: bool

    @property
    def _movers(self) -> int:
        return self.nodes.shape[1] - 1

    def is_inside(self, i):
        length = read(self.nodes, i + 1)[0] - read(self.nodes, i)[0]
        return jnp.min(self.delays[:, 0]) < length

    def write(self, path, i, x, slope):
        return write(path, i, jnp.stack([x.packed(), slope.packed()]))

    def during_step(self, path, i, cursor):
        """Read the delayed states; the cursor is the vector of pointers."""
        at, moved = self._states(path, i, cursor, None)
        if not self.overlaps:
            return lambda _: (at, at[-1]), moved

        def states(own):
            at, _ = self._states(path, i, cursor, own)
            return at, at[-1]

        return states, moved

    def _states(self, path, i, cursor, own):
        """Return the delayed states of step `i` at the fractions, and the moved cursor.

        All reads of a step are one loop: it is compiled once, and XLA cannot repeat a
        read in each place that uses it."""
        k, stages = self.delays.shape[0], len(self.fractions)
        t0, t1 = _time(self.nodes, i), _time(self.nodes, i + 1)
        at_end = side_offset(t1.value <= t0.value, self.side)
        fractions = jnp.asarray(self.fractions)

        def one(m, carry):
            cursor, states = carry
            stage, q = m // k, m % k
            delay = _time(self.delays, q)
            s = between(t0, t1, read(fractions, stage)) - delay
            look = s.value + jnp.where(stage == stages - 1, at_end, 0.0)
            piece = lax.while_loop(
                lambda j: (j < i) & (read(self.nodes, j + 1)[0] <= look),
                lambda j: j + 1,
                read(cursor, q),
            )
            left, right = read(path, piece), read(path, piece + 1)
            if own is not None:
                right = jnp.where(
                    piece == i, jnp.stack([a.packed() for a in own]), right
                )
            left, right = (unpacked(row, self._movers) for row in (left, right))
            ends = _time(self.nodes, piece), _time(self.nodes, piece + 1)
            late = hermite_moving(s, *ends, left, right).packed()
            place = i, stage, q, *(0,) * (self.history.ndim - 3)
            early = lax.dynamic_slice(self.history, place, (1, 1, 1, *late.shape))
            is_early = i < read(self.after_history, q)
            state = jnp.where(is_early, early[0, 0, 0], late)
            return write(cursor, q, piece), write(states, m, state)

        states = jnp.zeros((stages * k, *path.shape[2:]))
        cursor, states = lax.fori_loop(0, stages * k, one, (cursor, states))
        at = [
            unpacked(states[stage * k : (stage + 1) * k], self._movers)
            for stage in range(stages)
        ]
        return at, cursor


@final
@dataclass(frozen=True)
class MeshSensitivity(AbstractSensitivity):
    """The functions of a system with their derivatives, solved on a mesh.

    `direct` are the free values on which something other than the delays depends."""

    mesh: Mesh
    direct: tuple[int, ...]

    def _problem(self, theta: jax.Array) -> Problem:
        return eqx.combine(self.join(theta), self.system.fixed)

    @cached_property
    def _movers(self) -> tuple[jax.Array, jax.Array]:
        """The movers w, and their derivatives for the free values [w, p]."""

        def movers(theta):
            return movers_of(self._problem(theta))

        return movers(self.theta), jax.jacrev(movers)(self.theta)

    @cached_property
    def _delays(self) -> jax.Array:
        """The delays with their derivatives for the movers, [k, 1 + w]."""
        delays = delay_vector(self._problem(self.theta).tau)
        w = self._movers[0].shape[0]
        return jnp.concatenate([delays[:, None], jnp.eye(delays.shape[0], w)], axis=1)

    def memory(self, capacity: int) -> MeshMemory:
        w, k = self._movers[0].shape[0], self._delays.shape[0]
        shape = (self.system.dimension, 1 + w + len(self.direct))
        stages = len(stage_fractions(self.system.solver))
        return MeshMemory(
            self.mesh.empty(),
            jnp.zeros((capacity, stages, k, *shape)),
            jnp.zeros((capacity, 2, *shape)),
        )

    def _pick(self, on_theta: jax.Array) -> jax.Array:
        """Pick the derivatives for the direct free values among those for all."""
        if len(self.direct) == on_theta.shape[0]:
            return on_theta
        if not self.direct:
            return on_theta[:0]
        return jnp.stack([on_theta[j] for j in self.direct])

    def slope(self, t: MovingTime, x: MovingArray, y: MovingArray) -> MovingArray:
        """Compute the right-hand side; y has the delayed states, [k, d]."""
        k = self._delays.shape[0]

        def function(theta, x, y, delays, t):
            params = self.join(theta)
            tau = eqx.combine(params.tau, self.system.fixed.tau)
            delayed = in_structure(tau, [y[q] for q in range(k)])
            numbers = in_structure(tau, [delays[q] for q in range(k)])
            return self.system.slope(params.rhs, x, delayed, numbers, t)

        arguments = self.theta, x.value, y.value, self._delays[:, 0], t.value
        value, vjp = jax.vjp(function, *arguments)
        *_, uses_delays, uses_time = _uses(function, *arguments)

        def derivatives(cotangent):
            on_theta, on_x, on_y, on_delays, on_t = vjp(cotangent)

            def through_states(of_x, of_y):
                return jnp.sum(on_x[:, None] * of_x, axis=0) + jnp.sum(
                    on_y[..., None] * of_y, axis=(0, 1)
                )

            by_movers = through_states(x.by_movers, y.by_movers)
            if uses_delays:
                by_movers += jnp.sum(on_delays[:, None] * self._delays[:, 1:], axis=0)
            if uses_time:
                by_movers += on_t * t.by_movers
            direct = self._pick(on_theta) + through_states(x.direct, y.direct)
            return by_movers, direct

        return MovingArray(value, *jax.vmap(derivatives)(jnp.eye(value.shape[0])))

    def _history(self, s: MovingTime) -> MovingArray:
        """Compute the history at the time `s`, without a rounding error beyond zero."""

        def function(theta, s):
            return self.system.history(self.join(theta).history, s)

        value, vjp = jax.vjp(function, self.theta, jnp.minimum(s.value, 0.0))
        on_theta, on_s = jax.vmap(vjp)(jnp.eye(value.shape[0]))
        direct = jax.vmap(self._pick)(on_theta)
        return MovingArray(value, on_s[:, None] * s.by_movers, direct)

    def _start(self) -> MovingArray:
        """Compute the state at time zero, at which no node moves."""

        def function(theta):
            return self.system.start(self.join(theta))

        value, vjp = jax.vjp(function, self.theta)
        direct = jax.vmap(lambda cotangent: self._pick(vjp(cotangent)[0]))(
            jnp.eye(value.shape[0])
        )
        w = self._movers[0].shape[0]
        return MovingArray(value, jnp.zeros((value.shape[0], w)), direct)

    def _write_history(self, nodes, steps, history):
        """Write the history at the stages of the first `steps` for each delay."""
        fractions = stage_fractions(self.system.solver)
        for q in range(self._delays.shape[0]):
            delay = _time(self._delays, q)

            def one(i, history, delay=delay, q=q):
                t0, t1 = _time(nodes, i), _time(nodes, i + 1)
                states = [
                    self._history(between(t0, t1, c) - delay).packed()
                    for c in fractions
                ]
                rows = jnp.stack(states)[None, :, None]
                place = i, 0, q, *(0,) * (history.ndim - 3)
                return lax.dynamic_update_slice(history, rows, place)

            history = lax.fori_loop(0, steps[q], one, history)
        return history

    def visit(self, points, rows, memory, add, total):
        movers, mesh = self._movers[0], self.mesh
        k = self._delays.shape[0]
        nodes, last, after_history = mesh.fill(movers, memory.nodes)
        has_room = (last < mesh.capacity) & jnp.all(self._delays[:, 0] > 0)
        last = jnp.minimum(last, mesh.capacity - 3)
        early = jnp.minimum(after_history, last + 1)
        history = self._write_history(nodes, early, memory.history)
        past = _MovingPast(
            nodes,
            stage_fractions(self.system.solver),
            self._delays,
            history,
            after_history,
            mesh.side,
            mesh.overlaps,
        )
        side = mesh.side if mesh.points.has_switches else None
        times = _MovingTimes(nodes, side)
        march = March(times, self.system.solver, self.slope, past, 1.0)
        before = jax.tree.map(
            lambda *states: jnp.stack(states),
            *(
                self._history(MovingTime(-delay[0], -delay[1:]))
                for delay in self._delays
            ),
        )

        def point(j, carry):
            state, row, total = carry
            t = read(points.times, j)
            row = lax.while_loop(
                lambda row: (row < last - 1) & (read(nodes, row + 1)[0] <= t),
                lambda row: row + 1,
                row,
            )
            # Both rows of the piece must be complete, with their slopes.
            state = march_until(march, state, row + 2)
            left, right = (
                unpacked(read(state.path, row + side), movers.shape[0])
                for side in (0, 1)
            )
            still = MovingTime(t, jnp.zeros_like(movers))
            ends = _time(nodes, row), _time(nodes, row + 1)
            x = hermite_moving(still, *ends, left, right)
            observed = self._observed(t, x)
            observed = jnp.where(has_room, observed, jnp.nan)
            return state, row, add(total, j, observed)

        cursor, zero = jnp.zeros(k, int), jnp.asarray(0)
        state = MarchState(zero, self._start(), before, memory.path, cursor)
        carry = state, zero, total
        state, _, total = lax.fori_loop(rows[0], rows[1], point, carry)
        return total, MeshMemory(nodes, history, state.path)

    def _observed(self, t: Any, x: MovingArray) -> jax.Array:
        """Compute what is observed of the state `x` at the time `t`, extended."""
        of_theta = self._movers[1]
        derivatives = jnp.sum(x.by_movers[:, :, None] * of_theta, axis=1)
        columns = [derivatives[:, j] for j in range(of_theta.shape[1])]
        for number, j in enumerate(self.direct):
            columns[j] = columns[j] + x.direct[:, number]
        extended = jnp.stack([x.value, *columns], axis=1)
        return self.push(
            lambda params, x: self.system.observe(params.observe, x, t), extended
        )
