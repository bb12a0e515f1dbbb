r"""The least-squares problem of a model, linearised: residuals with all derivatives.

Beside the state $x$ its derivatives for the p free values are marched. An *extended*
array has a last axis of 1 + p: the value, then its p derivatives. For a function $f$ of
the parameters $\theta(theta)$ and of extended arguments $a$,

$$\frac{df}{dz} = \frac{\partial f}{\partial\theta}\frac{d\theta}{dz}
  + \frac{\partial f}{\partial a}\frac{da}{dz},$$

with the partial derivatives by one reverse pass for each component of $f$: a state has
fewer components than a model has parameters.

Time is counted in steps: rows hold x and h x', so that h = tau / n, which moves with
tau, enters through the slope alone. Only the last delay is kept, in a ring of rows, and
data are visited in the order of time: there is no capacity to outgrow, and n may differ
from fit to fit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jax import lax

from .._loss.path_costs import Points
from .._problem.problem import Problem
from .._solve.hermite import hermite, hermite_slope
from .._solve.march import System
from .._util.buffers import read, write


class Ring(NamedTuple):
    """Memory of the march; what it holds before is stale.

    `rows` is [capacity, 2, d, 1 + p], extended (x, h x') in turn; `inside`, [capacity,
    fractions, d, 1 + p], is the history inside the first steps."""

    rows: jax.Array
    inside: jax.Array


@final
@dataclass(frozen=True)
class Extended:
    """A system with derivatives for the free values `theta`: params = join(theta)."""

    system: System
    join: Callable[[jax.Array], Problem]
    theta: jax.Array

    @property
    def inner(self) -> list[float]:
        """Where a step asks for the past beside its ends."""
        return [c for c in self.system.solver.fractions if c != 1]

    def ring(self, capacity: int) -> Ring:
        """Room for delays of up to `capacity` - 3 steps; a power of two."""
        shape = (self.system.dimension, 1 + self.theta.shape[0])
        return Ring(
            jnp.zeros((capacity, 2, *shape)),
            jnp.zeros((capacity, len(self.inner), *shape)),
        )

    @property
    def mask(self):
        """Row number i stands at `i & mask`: as many rows as the delay needs, so that
        they stay in the cache."""
        needed = self.system.grid.delay_rows + 2
        return (1 << (64 - lax.clz(jnp.asarray(needed, jnp.int64)))) - 1

    def push(self, function: Callable, *arguments):
        """`function(params, *arguments)` of extended arguments, extended."""
        params, to_free = jax.vjp(self.join, self.theta)
        values = [a[..., 0] for a in arguments]
        value, back = jax.vjp(function, params, *values)

        def derivatives(cotangent):
            on_params, *on_arguments = back(cotangent)
            total = to_free(on_params)[0]
            for g, a in zip(on_arguments, arguments):
                # Not a dot: XLA compiles a loop with one in it much worse.
                total += jnp.sum(g[:, None] * a[:, 1:], axis=0)
            return total

        rows = jax.vmap(derivatives)(jnp.eye(value.shape[0]))
        return jnp.concatenate([value[:, None], rows], axis=1)

    def start(self):
        return self.push(lambda params: self.system.start(params))

    def past(self, node):
        """The history, `node` steps after time zero (a negative number)."""

        def history(params):
            t = node * self.system.grid.step(params.tau)
            return self.system.history(params.history, t)

        return self.push(history)

    def slope(self, node, x, y):
        """h F, `node` steps after time zero."""

        def slope(params, x, y):
            h = self.system.grid.step(params.tau)
            return h * self.system.slope(params.rhs, x, y, params.tau, node * h)

        return self.push(slope, x, y)

    def seen(self, s, left, right, node):
        """What is observed at time `s`, on the piece after `node`."""
        tau = self.join(self.theta).tau
        place = s / self.system.grid.step(tau)
        u = place - node
        x = hermite(u, left, right, 1.0)
        # As tau grows, a fixed time comes to stand fewer steps after zero.
        moved = self.push(lambda p: jnp.log(p.tau)[None])[0, 1:]
        x = x.at[:, 1:].add(-place * hermite_slope(u, left, right, 1.0)[:, :1] * moved)
        return self.push(lambda p, x: self.system.observe(p.observe, x, s), x)


def begin(extended: Extended, ring: Ring) -> Ring:
    """The history, in the first rows of the ring and inside the first steps."""
    grid = extended.system.grid

    def fill(i, ring):
        x = extended.past(i - grid.n)
        rows = write(ring.rows, i, jnp.stack([x, jnp.zeros_like(x)]))
        if not extended.inner:
            return Ring(rows, ring.inside)
        inside = [extended.past(i - grid.n + c) for c in extended.inner]
        return Ring(rows, write(ring.inside, i, jnp.stack(inside)))

    return lax.fori_loop(0, grid.delay_rows, fill, ring)


def step(extended: Extended, i, x, y, ring: Ring):
    """Complete row `i`, whose state is `x` and whose delayed state is `y`, and advance:
    the same for row i + 1, and the ring."""
    system, grid = extended.system, extended.system.grid
    mask = extended.mask
    first = extended.slope(grid.node(i), x, y)
    rows = write(ring.rows, (i + grid.delay_rows) & mask, jnp.stack([x, first]))
    left, right = read(rows, i & mask), read(rows, (i + 1) & mask)
    before = read(ring.inside, jnp.minimum(i, grid.n - 1))

    def past(c):
        if c == 1:
            return right[0]
        own = before[extended.inner.index(c)]
        return jnp.where(i < grid.n, own, hermite(c, left, right, 1.0))

    pasts = {c: past(c) for c in system.solver.fractions}

    def slope(c, x):
        return extended.slope(grid.node(i) + c, x, pasts[c])

    x = system.solver.step(slope, x, first, grid.length(i, jnp.asarray(1.0)))
    return x, right[0], Ring(rows, ring.inside)


def visit(extended: Extended, points: Points, ring: Ring, add: Callable, total: Any):
    """March through the data: `total = add(total, j, seen)` for each point j in order
    of time, with what is observed there, extended. Returns the total and the ring."""
    grid = extended.system.grid
    mask = extended.mask
    ring = begin(extended, ring)
    h = grid.step(extended.join(extended.theta).tau)

    def one(carry):
        i, x, y, ring = carry
        return i + 1, *step(extended, i, x, y, ring)

    def point(j, carry):
        march, total = carry
        s = read(points.times, j)
        node = jnp.maximum(jnp.floor(s / h).astype(int), 0)
        row = grid.row(node)
        # Both rows of the piece must be complete, with their slopes.
        march = lax.while_loop(lambda c: c[0] < row + 2, one, march)
        rows = march[-1].rows
        left = read(rows, (row + grid.delay_rows) & mask)
        right = read(rows, (row + 1 + grid.delay_rows) & mask)
        return march, add(total, j, extended.seen(s, left, right, node))

    march = jnp.asarray(0), extended.start(), read(ring.rows, 0)[0], ring
    march, total = lax.fori_loop(0, points.times.shape[0], point, (march, total))
    return total, march[-1]
