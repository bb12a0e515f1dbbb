r"""The solution of a model together with its derivatives for all free values.

Beside the state x, the march solves the *sensitivities* dx / dtheta for the p free
values theta. An *extended* array has a last axis of length 1 + p: the value, then its p
derivatives. For a function f of the model's parameters q(theta) and of extended
arguments a,

$$\frac{df}{d\theta} = \frac{\partial f}{\partial q}\frac{dq}{d\theta}
  + \frac{\partial f}{\partial a}\frac{da}{d\theta}.$$

The partial derivatives come from one VJP for each component of f: a state has fewer
components than a model has parameters.

The step loop is that of `march.py`, with extended arrays for states. Two things differ
from the solution without derivatives:

- Time is counted in steps. A row holds x and h x', and the step size is 1. The step h =
  tau / n depends on tau, but enters through the slope alone, which is extended like all
  other functions.
- The rows are kept in a ring that holds the last delay only, and the data are visited
  in the order of time while the march goes on. No capacity limits the number of steps,
  and the number n of steps in a delay may differ from fit to fit."""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ..._problem.delays import delay_vector, in_structure
from ..._problem.problem import Problem
from ..._util.arrays import read, write
from ..engine import AbstractSensitivity
from .march import March, Past, begin, inner_fractions, march_until
from .path import RingPath, hermite, hermite_slope

# Time is counted in steps.
_STEP_SIZE = 1.0


class Ring(NamedTuple):
    """Memory of a march, used again by the next one. Nothing is read from it that was
    not written in the same march.

    - `rows`, [capacity, 2, d, 1 + p]: extended (x, h x').
    - `inside`, for each of the solver's fractions c other than 1 an array [capacity, d,
      1 + p]: the history at the fraction c of the first n steps.
    """

    rows: jax.Array
    inside: dict[float, jax.Array]


@final
@dataclass(frozen=True)
class Extended(AbstractSensitivity):
    """The solution on a grid that is aligned with one delay."""

    def memory(self, capacity: int) -> Ring:
        """Return memory for delays of up to `capacity` - 3 steps, a power of two."""
        shape = (self.system.dimension, 1 + self.theta.shape[0])
        inner = inner_fractions(self.system.solver)
        return Ring(
            jnp.zeros((capacity, 2, *shape)),
            {c: jnp.zeros((capacity, *shape)) for c in inner},
        )

    def tau(self, params: Problem) -> jax.Array:
        """Return the delay."""
        if isinstance(params.tau, jax.Array):
            return params.tau
        return delay_vector(eqx.combine(params.tau, self.system.fixed.tau))[0]

    def _structured(self, params: Problem, item: jax.Array) -> Any:
        """Put what belongs to the one delay into the structure of the delays."""
        if isinstance(params.tau, jax.Array):
            return item
        tau = eqx.combine(params.tau, self.system.fixed.tau)
        return in_structure(tau, [item])

    def start(self) -> jax.Array:
        """Compute x(0), extended."""
        return self.push(lambda params: self.system.start(params))

    def history(self, position: Any) -> jax.Array:
        """Compute the history at the time `position` * h < 0, extended."""

        def history(params):
            t = position * self.system.grid.step(self.tau(params))
            return self.system.history(params.history, t)

        return self.push(history)

    def slope(self, position: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        """Compute h F(x, y, tau, t) at the time t = `position` * h, extended."""

        def slope(params, x, y):
            tau = self.tau(params)
            h = self.system.grid.step(tau)
            delayed = self._structured(params, y)
            numbers = self._structured(params, tau)
            return h * self.system.slope(params.rhs, x, delayed, numbers, position * h)

        return self.push(slope, x, y)

    def observed(self, t: Any, node: Any, left: jax.Array, right: jax.Array):
        """Compute what is observed at the time `t`, extended, from the rows at the two
        ends of the step after `node`, in which t lies."""
        tau = self.tau(self.join(self.theta))
        position = t / self.system.grid.step(tau)
        u = position - node
        x = hermite(u, left, right, _STEP_SIZE)
        # The time t is fixed, so its position t / h falls as tau grows:
        # d position / d tau = - position / tau.
        of_log_tau = self.push(lambda p: jnp.log(self.tau(p))[None])[0, 1:]
        slope = hermite_slope(u, left, right, _STEP_SIZE)[:, :1]
        derivatives = x[:, 1:] - position * slope * of_log_tau
        x = jnp.concatenate([x[:, :1], derivatives], axis=1)
        return self.push(lambda p, x: self.system.observe(p.observe, x, t), x)

    def visit(self, points, rows, memory, add, total):
        system, grid = self.system, self.system.grid
        ring = _write_history(self, memory)
        storage = RingPath.for_one_delay(grid)
        past = Past(grid, system.solver.fractions, storage, ring.inside, _STEP_SIZE)
        march = March(grid, system.solver, self.slope, past, _STEP_SIZE)
        h = grid.step(self.tau(self.join(self.theta)))

        def point(j, carry):
            state, total = carry
            t = read(points.times, j)
            node = jnp.maximum(jnp.floor(t / h).astype(int), 0)
            row = grid.row(node)
            # Both rows of the piece must be complete, with their slopes.
            state = march_until(march, state, row + 2)
            left = storage.read(state.path, row + grid.delay_rows)
            right = storage.read(state.path, row + 1 + grid.delay_rows)
            return state, add(total, j, self.observed(t, node, left, right))

        carry = begin(past, self.start(), ring.rows), total
        state, total = lax.fori_loop(rows[0], rows[1], point, carry)
        return total, Ring(state.path, ring.inside)


def _write_history(extended: Extended, ring: Ring) -> Ring:
    """Write the history into the first rows of the ring and into `inside`."""
    grid = extended.system.grid

    def fill(i, ring):
        x = extended.history(i - grid.n)
        rows = write(ring.rows, i, jnp.stack([x, jnp.zeros_like(x)]))
        inside = {
            c: write(states, i, extended.history(i - grid.n + c))
            for c, states in ring.inside.items()
        }
        return Ring(rows, inside)

    return lax.fori_loop(0, grid.delay_rows, fill, ring)
