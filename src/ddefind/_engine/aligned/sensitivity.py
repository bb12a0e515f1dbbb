r"""The solution of a model together with its derivatives for all free values.

Beside the state x, the march solves the *sensitivities* dx / dtheta for the p free
values theta. An *extended* array has a last axis of length 1 + p: the value, then its p
derivatives. For a function f of the model's parameters q(theta) and of extended
arguments a,

$$\frac{df}{d\theta} = \frac{\partial f}{\partial q}\frac{dq}{d\theta}
  + \frac{\partial f}{\partial a}\frac{da}{d\theta}.$$

The partial derivatives come from one VJP for each component of f: a state has fewer
components than a model has parameters.

*On a grid* (`Extended`) the step loop is that of `march.py`, with extended arrays for
states. Two things differ from the solution without derivatives:

- Time is counted in steps. A row holds x and h x', and the step size is 1. The step h =
  tau / n depends on tau, but enters through the slope alone, which is extended like all
  other functions.
- The rows are kept in a ring that holds the last delay only, and the data are visited
  in the order of time while the march goes on. No capacity limits the number of steps,
  and the number n of steps in a delay may differ from fit to fit.

*With adaptive steps* (`AdaptiveSensitivity`) JAX differentiates the march of
`_adaptive` in forward mode, for all free values at once: the choice of the steps has no
derivatives, so that one march serves them all. Here the number n of a fit, which on a
grid is the number of steps in a delay, stands for the tolerance: the error of a method
of order 5 falls by $2^5$ if its steps are halved, and so does the tolerance if n is
doubled,

$$\mathrm{rtol}(n) = \mathrm{rtol}\,(3 / n)^5,$$

with the tolerance of the user's solver at n = 3, and a coarse one at n = 1."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ..._problem.delays import delay_vector, in_structure
from ..._problem.problem import Problem
from ..._util.arrays import read, write
from ..adaptive.equation import ExtendedEquation
from ..adaptive.march import REACHED_END, Tolerance, make_march
from ..adaptive.pieces import evaluate, find_piece, row_size, unpack
from .march import March, Past, System, begin, inner_fractions, march_until
from .path import Points, RingPath, hermite, hermite_slope

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


@dataclass(frozen=True)
class AbstractSensitivity(abc.ABC):
    """The functions of a system with their derivatives for the free values `theta`, and
    the march that solves them.

    `join(theta)` returns the parameters of the system with these free values."""

    system: System
    join: Callable[[jax.Array], Problem]
    theta: jax.Array

    @abc.abstractmethod
    def memory(self, capacity: int) -> Any:
        """Return memory for the first march, with `capacity` rows."""

    @abc.abstractmethod
    def visit(
        self,
        points: Points,
        rows: Any,
        memory: Any,
        add: Callable[[Any, Any, jax.Array], Any],
        total: Any,
    ) -> tuple[Any, Any]:
        """March through the data: `total = add(total, j, observed)` for each point j
        from `rows[0]` to `rows[1]` - 1, in the order of time, with what is observed
        there, extended. Return the last total, and the memory for the next march."""

    def push(self, function: Callable[..., jax.Array], *arguments: jax.Array):
        """Compute the vector `function(params, *arguments)` with its derivatives."""
        params, vjp_of_join = jax.vjp(self.join, self.theta)
        values = [a[..., 0] for a in arguments]
        value, vjp = jax.vjp(function, params, *values)

        def derivatives(cotangent):
            on_params, *on_arguments = vjp(cotangent)
            total = vjp_of_join(on_params)[0]
            for g, a in zip(on_arguments, arguments):
                # Not `jnp.dot`: XLA compiles a loop with one in it much worse.
                total += jnp.sum(g[:, None] * a[:, 1:], axis=0)
            return total

        jacobian = jax.vmap(derivatives)(jnp.eye(value.shape[0]))
        return jnp.concatenate([value[:, None], jacobian], axis=1)


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


# The numbers n of preliminary fits and of refinements.
COARSE, USUAL = 1, 3
# The usual number of rows of a path, and the number of tries for each.
ADAPTIVE_CAPACITY, _TRIES = 2048, 3
_LOWEST_RTOL, _HIGHEST_RTOL = 1e-12, 1e-3


@final
class AdaptiveSteps(eqx.Module):
    """The factor of the tolerance, and the room for steps."""

    factor: jax.Array
    capacity: int = eqx.field(static=True)

    def rtol(self, solver: Any) -> jax.Array:
        """Return the relative tolerance of a solver with these steps."""
        return jnp.clip(solver.rtol * self.factor, _LOWEST_RTOL, _HIGHEST_RTOL)


def adaptive_steps(n: Any, capacity: int) -> AdaptiveSteps:
    """Return the steps of a fit with the number `n`."""
    return AdaptiveSteps((USUAL / jnp.asarray(n, float)) ** 5, capacity)


class AdaptiveMemory(NamedTuple):
    """The path, and its derivatives for the p free values [p, capacity, row]. Nothing
    is read from them that was not written in the same march."""

    path: jax.Array
    derivatives: jax.Array


@final
@dataclass(frozen=True)
class AdaptiveSensitivity(AbstractSensitivity):
    """The solution with adaptive steps. The system's grid are its `AdaptiveSteps`."""

    def _problem(self, theta: jax.Array) -> Problem:
        return eqx.combine(self.join(theta), self.system.fixed)

    @property
    def _dimension(self) -> int:
        """The number of components of the extended state."""
        return ExtendedEquation(self._problem(self.theta)).dimension

    def memory(self, capacity: int) -> AdaptiveMemory:
        size = row_size(self.system.solver.degree, self._dimension)
        p = self.theta.shape[0]
        return AdaptiveMemory(
            jnp.zeros((capacity, size)), jnp.zeros((p, capacity, size))
        )

    def _march(self, theta: jax.Array, path: jax.Array):
        """Solve for the path, with the number of its rows and its status."""
        equation = ExtendedEquation(self._problem(theta))
        march = make_march(equation, self.system.solver, self.system.T)
        steps = self.system.grid
        atol = march.tolerance.atol * steps.factor
        tolerance = Tolerance(steps.rtol(self.system.solver), atol)
        march = eqx.tree_at(lambda m: m.tolerance, march, tolerance)
        result = march.run(path, _TRIES * path.shape[0])
        return result.path, (result.count, result.status)

    def visit(self, points, rows, memory, add, total):
        def one(direction, derivatives):
            return jax.jvp(
                self._march,
                (self.theta, memory.path),
                (direction, derivatives),
                has_aux=True,
            )

        path, derivatives, (count, status) = jax.vmap(one, out_axes=(None, 0, None))(
            jnp.eye(self.theta.shape[0]), memory.derivatives
        )
        d, is_solved = self._dimension, status == REACHED_END

        def point(j, carry):
            piece, total = carry
            t = read(points.times, j)
            piece = find_piece(path, count, t, piece)

            def state(row):
                coefficients, origin, length = unpack(row, d)
                u = (t - origin) / length
                return evaluate(coefficients, u)[0][: self.system.dimension]

            row = read(path, piece)
            directions = lax.dynamic_index_in_dim(derivatives, piece, 1, keepdims=False)
            slopes = jax.vmap(lambda each: jax.jvp(state, (row,), (each,))[1])
            extended = jnp.concatenate([state(row)[None], slopes(directions)]).T
            observed = self.push(
                lambda params, x: self.system.observe(params.observe, x, t), extended
            )
            observed = jnp.where(is_solved, observed, jnp.nan)
            return piece, add(total, j, observed)

        carry = jnp.asarray(0), total
        _, total = lax.fori_loop(rows[0], rows[1], point, carry)
        return total, AdaptiveMemory(path, derivatives)
