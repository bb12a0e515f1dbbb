r"""The solution with adaptive steps together with its derivatives for all free values.

JAX differentiates the march in forward mode, for all free values at once: the choice of
the steps has no derivatives, so that one march serves them all."""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ..._problem.problem import Problem
from ..._util.arrays import read
from ..engine import AbstractSensitivity
from .equation import ExtendedEquation
from .march import REACHED_END, Tolerance, make_march
from .pieces import evaluate, find_piece, row_size, unpack

# The number of tries for each row of a path.
_TRIES = 3
_LOWEST_RTOL, _HIGHEST_RTOL = 1e-12, 1e-3


@final
class AdaptiveSteps(eqx.Module):
    """The factor of the tolerance, and the room for steps."""

    factor: jax.Array
    capacity: int = eqx.field(static=True)

    def rtol(self, solver: Any) -> jax.Array:
        """Return the relative tolerance of a solver with these steps."""
        return jnp.clip(solver.rtol * self.factor, _LOWEST_RTOL, _HIGHEST_RTOL)


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
