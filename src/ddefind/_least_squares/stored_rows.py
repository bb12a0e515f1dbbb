r"""Least squares with very many free values, the weights of networks.

With hundreds of values the matrix $J^T J$ takes longer to add up, point by point, than
the equation takes to solve. Here the rows of the Jacobian J are stored, one for each of
the M measured values, and LAPACK solves for a step p. With the diagonal matrices A of
the priors and D of the scales, and $B = A + \lambda D^2$, it solves

$$(J^T J + B)\,p = -g, \qquad g = J^T r + A\,(\theta - m),$$

if there are no more values than rows. Otherwise the smaller system is that of the rows
(Woodbury's identity):

$$p = -B^{-1} g + B^{-1} J^T (I + J B^{-1} J^T)^{-1} J B^{-1} g.$$"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_factor, cho_solve

from .._loss.path_costs import Points
from .._util.buffers import read, write
from .experiments import pick
from .levenberg_marquardt import NormalEquations
from .prior_equations import Priors, prior_terms

# The system of the rows is solved with at least this damping, so that it stays accurate
# where a value has no prior.
_LEAST_IN_DUAL = 1e-6
# The c in the scale of values with a prior. With 0.3 network fits take half of the
# evaluations that they take with 1 or with scales of their own.
_SHARE_OF_LARGEST = 0.3
# From so many standard deviations on, a residual counts linearly in a robust model.
_OUTLYING = 1.345


class StoredRows(NamedTuple):
    """The sum of squares and its linearisation at one point, as a table.

    `rows` are [r J] for all weighted residuals, and `side` and `weight` what the priors
    add to J^T r and to the diagonal of J^T J; `corner` is what they add to S."""

    rows: Any  # [M, 1 + p]
    corner: Any
    side: Any  # [p]
    weight: Any  # [p]
    squares: Any  # [k]

    @property
    def S(self) -> jax.Array:
        """The sum of squares."""
        return jnp.sum(self.rows[:, 0] ** 2) + self.corner

    @property
    def is_finite(self) -> jax.Array:
        """Whether all numbers are finite."""
        return jnp.all(jnp.isfinite(self.rows)) & jnp.isfinite(self.corner)

    @property
    def gradient(self) -> jax.Array:
        """J^T r."""
        return self.rows[:, 1:].T @ self.rows[:, 0] + self.side

    @property
    def diagonal(self) -> jax.Array:
        """The diagonal of J^T J."""
        return jnp.sum(self.rows[:, 1:] ** 2, axis=0) + self.weight

    @property
    def scales(self) -> jax.Array:
        r"""D: the root of the diagonal of J^T J. For values with a prior of precision a
        it is $c \sqrt{a R}$, where R is the largest ratio of that diagonal to a: one
        length for all of them. With scales of their own, weights that hardly matter run
        far away, and a fit creeps along a curved valley."""
        diagonal, has_prior = self.diagonal, self.weight > 0
        ratio = diagonal / jnp.where(has_prior, self.weight, 1.0)
        largest = jnp.max(jnp.where(has_prior, ratio, 0.0))
        shared = _SHARE_OF_LARGEST * jnp.sqrt(self.weight * largest)
        return jnp.where(has_prior, shared, jnp.sqrt(diagonal))

    def equations(self, exist: jax.Array) -> NormalEquations:
        """The normal equations, infinite where they do not `exist`."""
        gram = self.rows.T @ self.rows
        corner, side = self.corner[None, None], self.side[None]
        gram += jnp.block([[corner, side], [side.T, jnp.diag(self.weight)]])
        return NormalEquations(jnp.where(exist, gram, jnp.inf), self.squares)

    def scaled(self, D: jax.Array, free: jax.Array) -> "ScaledRows":
        """J D^-1 for the values that are `free`; zero for the others."""
        J = jnp.where(free, self.rows[:, 1:] / D, 0.0)
        return ScaledRows(J, jnp.where(free, self.weight / D**2, 0.0), free)


class ScaledRows(NamedTuple):
    """The Jacobian and the priors in scaled variables."""

    J: Any  # [M, p]
    weight: Any  # [p]
    free: Any  # [p], boolean

    def solve(self, damping: Any, right: jax.Array) -> jax.Array:
        """The step that solves the damped equations."""
        M, p = self.J.shape
        B = jnp.where(self.free, self.weight + damping, 1.0)
        if p <= M:
            return _solve(self.J.T @ self.J + jnp.diag(B), right)
        # Values without a prior have a B of nothing but the damping.
        B = jnp.maximum(B, _LEAST_IN_DUAL)
        J_over_B = self.J / B
        inner = _solve(jnp.eye(M) + J_over_B @ self.J.T, J_over_B @ right)
        return right / B - J_over_B.T @ inner

    def curvature(self, step: jax.Array) -> jax.Array:
        """step^T (J^T J + A) step."""
        return jnp.sum((self.J @ step) ** 2) + jnp.sum(self.weight * step**2)


def row_equations(
    model: Any, theta: jax.Array, points: Points, steps: Any, memory: Any
) -> tuple[StoredRows, Any]:
    """The rows of a `LeastSquaresModel` at the free values `theta`; the arguments are
    those of `normal_equations`."""
    study, (count, k) = model.experiments, points.values.shape
    if study is None:
        observed = jnp.zeros((count, k, 1 + theta.shape[0]))
        marching = model.sensitivity(theta, steps, points.times[-1])
        observed, memory = marching.visit(points, (0, count), memory, write, observed)
    else:

        def march(e, carry):
            observed, memory = carry
            local, end = study.local(e, theta), read(study.ends, e)
            marching = model.part(e).sensitivity(local, pick(steps, e), end)
            rows = read(study.rows, e)
            return marching.visit(points, rows, memory, write, observed)

        observed = jnp.zeros((count, k, 1 + study.known.shape[1]))
        carry = lax.fori_loop(0, study.count, march, (observed, memory))
        count = jnp.arange(count)
        e = jnp.sum(count[:, None] >= study.rows[1:, 0], axis=1)
        observed, memory = jax.vmap(study.joint_of)(e, carry[0]), carry[1]
    squares, rows = _weighted(model.is_robust, points, observed)
    return stored_rows(rows, squares, model.priors, theta), memory


def stored_rows(
    rows: jax.Array, squares: jax.Array, priors: Priors | None, theta: jax.Array
) -> StoredRows:
    """The rows [r J] of all residuals, with what the priors add."""
    none = jnp.zeros(theta.shape[0])
    added = jnp.zeros(()), none, none
    if priors is not None:
        added = prior_terms(priors, theta)
    return StoredRows(rows, *added, squares)


def _weighted(
    is_robust: bool, points: Points, observed: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The sum of squared residuals of each quantity, and the weighted rows [r J], from
    what is observed at the data."""
    weight = jnp.asarray(points.weights).ravel()
    values = jnp.asarray(points.values).ravel()
    observed = observed.reshape(-1, observed.shape[-1])
    square, rows = residual_rows(is_robust, weight, values, observed)
    squares = jnp.sum(square.reshape(points.values.shape), axis=0)
    return squares, jnp.where(weight[:, None] > 0, jnp.sqrt(weight)[:, None] * rows, 0)


def residual_rows(
    is_robust: bool, weight: jax.Array, values: Any, observed: jax.Array
) -> tuple[jax.Array, jax.Array]:
    r"""The squares of residuals, and their rows [r J], from what is observed.

    In the robust fits that explore for Student's noise the squares of the rows are
    Huber's loss: beyond k standard deviations the residual r is replaced by the root of
    that loss, $\sqrt{k(2|r| - k)}$, and the Jacobian by the derivatives of the root.
    """
    residual = observed[:, 0] - values
    square = jnp.where(weight > 0, residual**2, 0.0)
    rows = jnp.concatenate([residual[:, None], observed[:, 1:]], axis=1)
    if not is_robust:
        return square, rows
    size = jnp.sqrt(weight) * jnp.abs(residual)
    is_outlier = size > _OUTLYING
    safe = jnp.where(is_outlier, size, _OUTLYING)
    root = jnp.sqrt(_OUTLYING * (2 * safe - _OUTLYING))
    first = jnp.where(is_outlier, root / safe, 1.0)
    others = jnp.where(is_outlier, _OUTLYING / root, 1.0)
    is_first = jnp.arange(rows.shape[1]) == 0
    return square, rows * jnp.where(is_first, first[:, None], others[:, None])


def _solve(matrix: jax.Array, right: jax.Array) -> jax.Array:
    return cho_solve(cho_factor(matrix, lower=True), right)
