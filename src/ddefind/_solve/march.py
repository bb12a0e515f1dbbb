"""The compiled core: the grid of a problem, its functions, and the march forward.

One constant delay, steps of h = tau / n. A *path* is a buffer of rows (x, x'): first
`delay_rows` rows of history, then a row for each node. The delayed state of node i then
stands in row i, whatever tau is. Everything is written for one trajectory; where many
run side by side (`lanes`), arrays have a last axis more and h, tau and t are vectors
over it.

What keeps XLA fast here (a factor of ten and more): one row written a step, buffers
read only after they were written, and no scatter. The shapes of buffers are fixed; the
number of steps is not."""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from .._problem.problem import Problem
from .._util.buffers import read, take, write
from .hermite import hermite
from .runge_kutta import AbstractSolver


@final
@dataclass(frozen=True)
class Grid:
    """The nodes k h, h = tau / n, as rows of a path.

    Where x(0) differs from the history, slopes jump at tau. Then a step of length zero
    stands at every multiple of tau, so that each side has a row of its own.
    """

    n: int
    jump: bool
    capacity: int

    @property
    def delay_rows(self) -> int:
        """Rows from a node back to the node one delay earlier."""
        return self.n + 1 if self.jump else self.n

    def step(self, tau):
        return tau / self.n

    def node(self, i):
        """The number of steps of length h before row `i`: its time over h."""
        return i - i // self.delay_rows if self.jump else i

    def length(self, i, h):
        """The length of the step that begins at row `i`."""
        return jnp.where(i % self.delay_rows == self.n, 0.0, h) if self.jump else h

    def last(self, T, tau):
        """The row of the first node at or after `T`."""
        # A T that is a multiple of h up to rounding must not cost a further step.
        steps = jnp.ceil(T / self.step(tau) - 1e-9).astype(int)
        return self.rows(jnp.maximum(steps, 1))

    def rows(self, steps):
        """The row at which step number `steps` ends."""
        return steps + (steps - 1) // self.n if self.jump else steps

    def row(self, node):
        """The row at which the step after node number `node` begins."""
        return node + node // self.n if self.jump else node


class Buffers(NamedTuple):
    """Memory that the loops use again and again; what it holds before is stale.

    `path` is [delay_rows + capacity, 2, d], states and slopes. `stages`, [capacity,
    fractions, d], and `starts`, [capacity, d], are the cotangents of the past inside
    each step and at its beginning."""

    path: jax.Array
    stages: jax.Array
    starts: jax.Array


@final
@dataclass(frozen=True)
class System:
    """A problem's functions, its solver and its grid; `fixed` is what is not
    learned."""

    fixed: Problem
    solver: AbstractSolver
    grid: Grid
    T: Any
    dimension: int
    lanes: int | None = None

    def lift(self, function):
        """A `function` of one trajectory, for all lanes."""
        if self.lanes is None:
            return function
        return jax.vmap(function, in_axes=-1, out_axes=-1)

    def slope(self, rhs, x, y, tau, t):
        """F(x, y, tau, t)."""

        def one(rhs, x, y, tau, t):
            return eqx.combine(rhs, self.fixed.rhs)(x, y, tau, t)

        return self.lift(one)(rhs, x, y, tau, t)

    def history(self, history, t):
        def one(history, t):
            return eqx.combine(history, self.fixed.history)(t)

        return self.lift(one)(history, t)

    def observe(self, observe, x, t):
        def one(observe, x, t):
            function = eqx.combine(observe, self.fixed.observe)
            return x if function is None else function(x, t)

        return self.lift(one)(observe, x, t)

    def start(self, params: Problem):
        """x(0)."""
        if not self.grid.jump:
            return self.history(params.history, jnp.zeros_like(params.tau))
        if params.initial is not None or self.fixed.initial is None:
            return params.initial
        columns = self.fixed.initial.reshape(-1, *(1,) * params.tau.ndim)
        return jnp.broadcast_to(columns, (self.dimension, *params.tau.shape))

    def path(self, grid: Grid | None = None):
        """An empty path, of this grid or another."""
        grid = self.grid if grid is None else grid
        shape = (self.dimension,) + (() if self.lanes is None else (self.lanes,))
        return jnp.zeros(
            (grid.delay_rows + grid.capacity, 2, *shape), jnp.result_type(float)
        )

    def buffers(self) -> Buffers:
        shape = (self.dimension,) + (() if self.lanes is None else (self.lanes,))
        rows, dtype = self.grid.capacity, jnp.result_type(float)
        fractions = len(self.solver.fractions)
        return Buffers(
            self.path(),
            jnp.zeros((rows, fractions, *shape), dtype),
            jnp.zeros((rows, *shape), dtype),
        )

    def past(self, params: Problem):
        """The history at the first rows of the path, and inside the first steps."""
        n, h = self.grid.n, self.grid.step(params.tau)
        inner = [c for c in self.solver.fractions if c != 1]

        def at(k):
            return self.history(params.history, (k - n) * h)

        rows = jax.vmap(at)(jnp.arange(self.grid.delay_rows, dtype=h.dtype))
        inside = [jax.vmap(at)(jnp.arange(n, dtype=h.dtype) + c) for c in inner]
        return rows, dict(zip(inner, inside))

    def first(self, rhs, tau, x, y, i):
        """x' at row `i`: the first stage of step `i`, and a slope of the dense
        output."""
        return self.slope(rhs, x, y, tau, self.grid.node(i) * self.grid.step(tau))

    def advance(self, rhs, tau, x, first, delayed, i):
        """x at row `i + 1`."""

        def slope(x, y, t):
            return self.slope(rhs, x, y, tau, t)

        h = self.grid.step(tau)
        return take_step(self.grid, self.solver, slope, h, x, first, delayed, i)


def delayed_states(grid: Grid, solver: AbstractSolver, i, left, right, inside, h):
    """The past inside step `i`, for each of the solver's fractions."""

    def at(c):
        if c == 1:
            return right[0]
        before = read(inside[c], jnp.minimum(i, grid.n - 1))
        return jnp.where(i < grid.n, before, hermite(c, left, right, h))

    return [at(c) for c in solver.fractions]


def take_step(grid: Grid, solver: AbstractSolver, slope, h, x, first, delayed, i):
    """x at row `i + 1`, where x' = slope(x, y, t)."""
    pasts = dict(zip(solver.fractions, delayed))

    def stage(c, x):
        return slope(x, pasts[c], (grid.node(i) + c) * h)

    return solver.step(stage, x, first, grid.length(i, h))


def locate(grid: Grid, s, h, last):
    """The node before time `s`, and its row in the path: where the piece with `s`
    begins."""
    node = jnp.clip(jnp.floor(s / h).astype(int), 0, grid.node(last) - 1)
    return node, grid.row(node) + grid.delay_rows


def dense(grid: Grid, path, h, last, t, form=hermite):
    """The state at time `t` between the nodes of a solved path; its slope, if `form` is
    `hermite_slope`. In lanes, each at a time of its own."""
    node, row = locate(grid, t, h, last)
    return form(t / h - node, take(path, row), take(path, row + 1), h)


def integrate(grid, solver, slope, h, past, start, last, path, correct=None):
    """Fill a path, whose node rows 0 ... `last` are then x' = slope(x, y, t) solved.

    `past` holds the states of the first `delay_rows` rows, and those inside the first
    steps.
    `correct(i, x)`, if given, is added to the state after step `i`.
    """
    rows, inside = past
    rows = jnp.stack([rows, jnp.zeros_like(rows)], 1)
    path = lax.dynamic_update_slice_in_dim(path, rows, 0, 0)

    def body(i, carry):
        path, x, y = carry
        first = slope(x, y, grid.node(i) * h)
        path = write(path, i + grid.delay_rows, jnp.stack([x, first]))
        left, right = read(path, i), read(path, i + 1)
        delayed = delayed_states(grid, solver, i, left, right, inside, h)
        after = take_step(grid, solver, slope, h, x, first, delayed, i)
        if correct is not None:
            after += correct(i, x)
        if jnp.ndim(last) > 0:
            # A lane past its end rests: were it to explode, 0 * inf would be NaN.
            after = jnp.where(i < last, after, x)
        # y is carried, not read at the next step: that would be before the next write.
        return path, after, right[0]

    carry = path, start, rows[0, 0]
    path, *_ = lax.fori_loop(0, jnp.max(last) + 1, body, carry)
    return path


def march(system: System, params: Problem, path):
    """Solve the problem forward: its path, and the row of its end."""
    grid, tau = system.grid, params.tau

    def slope(x, y, t):
        return system.slope(params.rhs, x, y, tau, t)

    last = grid.last(system.T, tau)
    past, start, h = system.past(params), system.start(params), grid.step(tau)
    path = integrate(grid, system.solver, slope, h, past, start, last, path)
    return path, last
