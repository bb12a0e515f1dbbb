r"""The Levenberg-Marquardt method: nonlinear least squares within bounds.

`minimise` finds a local minimum of $S(\theta) = \sum_j r_j(\theta)^2$ over the free
parameter values $\theta$, within bounds, as one compiled loop. With the Jacobian $J$ of
the residuals $r$ and $D^2 = \mathrm{diag}(J^T J)$, a step $p$ solves

$$(J^T J + \lambda D^2)\,p = -J^T r.$$

The damping $\lambda$ decreases as long as the quadratic model predicts the change of S
well, and increases when a step is rejected (Nielsen's rule). A value on its bound whose
descent direction points outwards is kept there. A trial point with residuals that are
not finite is rejected like one with a larger S."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .._util.buffers import read

# Why a minimisation ended:
# LIMIT     the number of evaluations is used up
# GRADIENT  the residuals are orthogonal to every column of the Jacobian
# STEP      the full step would lower S by a negligible amount
# EXACT     S is a rounding error: the model passes through the data
# STUCK     no step lowers S, although the gradient is not zero
# NO_START  S is not finite at the start
# KINK      no finite move lowers S, although the gradient is not zero (`kinks.py`)
LIMIT, GRADIENT, STEP, EXACT, STUCK, NO_START, KINK = range(7)
_RUNNING = -1

# Convergence (GRADIENT): the largest cosine between the residuals and a column of the
# Jacobian.
_COSINE_TOLERANCE = 1e-8
_LARGEST_DAMPING = 1e16
# A value stays where it is if doubling it changes the residuals by less than this
# share: it would run away, for nothing but rounding errors.
_NEGLIGIBLE = 1e-13


class Convergence(NamedTuple):
    """What counts as convergence (STEP), relative to S.

    - `reduction`: that a full step predicts. 1e-11 of a chi-square of a thousand moves
      no estimate by more than 1e-4 of its standard error.
    - `hidden`: when no step lowers S, a predicted reduction below this: the errors of S
      may hide it."""

    reduction: Any = 1e-11
    hidden: Any = 1e-7


class NormalEquations(NamedTuple):
    """The sum of squares and its linearisation at one point.

    `gram` is [r J]^T [r J], over all weighted residuals and priors: S is at [0, 0], the
    vector J^T r at [0, 1:] and the matrix J^T J at [1:, 1:]. `squares` holds the
    unweighted sum of squared residuals of each measured quantity (with the residuals of
    outliers clipped in a robust fit)."""

    gram: Any  # [1 + p, 1 + p]
    squares: Any  # [k]


class Box(NamedTuple):
    """The bounds of the free values, and which values are held at their start."""

    lower: Any  # [p]
    upper: Any  # [p]
    held: Any  # [p], boolean


class MinimiserResult(NamedTuple):
    """The last accepted point, the normal equations there, the number of evaluations,
    and why the minimisation ended (`LIMIT`, `GRADIENT`, ...)."""

    theta: Any
    normal: NormalEquations
    evaluations: Any
    status: Any


class _State(NamedTuple):
    """The state of the loop: the last accepted point, and the trial point that is to be
    evaluated next."""

    theta: Any
    trial: Any
    normal: NormalEquations  # at `theta`
    damping: Any
    growth: Any  # the factor by which the next rejection increases the damping
    predicted: Any  # the reduction of S that the quadratic model predicts at `trial`
    evaluations: Any
    status: Any
    memory: Any


def minimise(
    linearise: Callable[[jax.Array, Any], tuple[NormalEquations, Any]],
    theta: jax.Array,
    box: Box,
    limit: jax.Array | int,
    quantities: int,
    tiny: jax.Array | float,
    memory: Any,
    convergence: Convergence = Convergence(),
    scale: jax.Array | None = None,
) -> MinimiserResult:
    """The local minimum of S that descent from `theta` leads to.

    **Arguments**

    - `linearise(theta, memory)` returns the normal equations at `theta` and the memory,
      a work buffer that is handed from one evaluation to the next.
    - `theta`: where to begin, of shape (p,).
    - `limit`: the largest number of evaluations.
    - `quantities`: the length of `NormalEquations.squares`.
    - `tiny`: an S below this is a rounding error of zero.
    - `memory`: for the first evaluation.
    - `convergence`: what counts as such.
    - `scale`: what S is compared with in these tests, if it is no sum of squares, and
      may be negative."""
    size = 1 + theta.shape[0]
    state = _State(
        theta,
        theta,
        NormalEquations(jnp.full((size, size), jnp.inf), jnp.zeros(quantities)),
        jnp.asarray(1e-3),
        jnp.asarray(2.0),
        jnp.asarray(1.0),
        jnp.asarray(0),
        jnp.asarray(_RUNNING),
        memory,
    )

    def is_running(state: _State):
        return (state.status == _RUNNING) & (state.evaluations < limit)

    def iterate(state: _State):
        trial_normal, memory = linearise(state.trial, state.memory)
        state = state._replace(memory=memory)
        return _update(box, tiny, convergence, scale, state, trial_normal)

    state = lax.while_loop(is_running, iterate, state)
    status = jnp.where(state.status == _RUNNING, LIMIT, state.status)
    return MinimiserResult(state.theta, state.normal, state.evaluations, status)


def _update(
    box: Box,
    tiny,
    convergence: Convergence,
    scale: jax.Array | None,
    state: _State,
    trial_normal: NormalEquations,
) -> _State:
    """Accept or reject the trial point, adapt the damping, test for convergence, and
    propose the next trial point."""
    before = state.normal.gram[0, 0]
    finite = jnp.all(jnp.isfinite(trial_normal.gram))
    after = jnp.where(finite, trial_normal.gram[0, 0], jnp.inf)
    accepted = after < before
    is_first = state.evaluations == 0
    gain = (before - after) / state.predicted
    reduced = state.damping * jnp.clip(1 - (2 * gain - 1) ** 3, 1 / 3, 2.0)
    damping = jnp.where(accepted, reduced, state.damping * state.growth)
    damping = jnp.where(is_first, state.damping, jnp.maximum(damping, 1e-12))
    growth = jnp.where(accepted, 2.0, 2 * state.growth)
    theta = jnp.where(accepted, state.trial, state.theta)
    normal = jax.tree.map(
        lambda new, old: jnp.where(accepted, new, old), trial_normal, state.normal
    )
    S = normal.gram[0, 0]
    size = S if scale is None else scale
    proposal = _propose(box, theta, normal, damping, size)
    stuck = (damping > _LARGEST_DAMPING) | jnp.all(proposal.trial == theta)
    status = jnp.select(
        [
            is_first & ~accepted,
            S <= tiny,
            proposal.cosine <= _COSINE_TOLERANCE,
            accepted & (proposal.predicted_undamped <= convergence.reduction * size),
            stuck & (proposal.predicted_undamped <= convergence.hidden * size),
            stuck,
        ],
        [NO_START, EXACT, GRADIENT, STEP, STEP, STUCK],
        _RUNNING,
    )
    return state._replace(
        theta=theta,
        trial=proposal.trial,
        normal=normal,
        damping=damping,
        growth=growth,
        predicted=jnp.maximum(proposal.predicted, 1e-300),
        evaluations=state.evaluations + 1,
        status=status,
    )


class _Proposal(NamedTuple):
    """The next trial point, and what the convergence tests need."""

    trial: Any
    predicted: Any  # the reduction of S predicted for the trial point ...
    predicted_undamped: Any  # ... and for a step with almost no damping
    cosine: Any  # the largest between the residuals and a column of the Jacobian


def _propose(box: Box, theta, normal: NormalEquations, damping, size) -> _Proposal:
    """The damped step from `theta`, clipped to the bounds. `size` is that of S.

    The equations are solved in the scaled variables D theta, in which J^T J has a unit
    diagonal."""
    gradient = normal.gram[0, 1:]
    information = normal.gram[1:, 1:]
    index = jnp.arange(theta.shape[0])
    on_diagonal = index[:, None] == index
    D = jnp.sqrt(jnp.sum(jnp.where(on_diagonal, information, 0.0), axis=1))
    outwards = ((theta <= box.lower) & (gradient > 0)) | (
        (theta >= box.upper) & (gradient < 0)
    )
    is_negligible = D * jnp.abs(theta) < _NEGLIGIBLE * jnp.sqrt(size)
    is_negligible &= theta != 0
    free = ~(outwards | box.held | is_negligible)
    D = jnp.where(D > 0, D, 1.0)
    scaled_gradient = jnp.where(free, gradient / D, 0.0)
    scaled_matrix = jnp.where(free[:, None] & free, information / (D[:, None] * D), 0.0)

    def solve(damping):
        added = jnp.where(free, damping, 1.0)
        matrix = scaled_matrix + jnp.where(on_diagonal, added[:, None], 0.0)
        return _solve(matrix, -scaled_gradient)

    def predicted_reduction(step):
        curvature = jnp.sum(step[:, None] * scaled_matrix * step[None, :])
        return -(2 * jnp.sum(scaled_gradient * step) + curvature)

    trial = jnp.clip(theta + solve(damping) / D, box.lower, box.upper)
    trial = jnp.where(free, trial, theta)
    cosine = jnp.max(jnp.abs(scaled_gradient)) / jnp.sqrt(size)
    undamped = -jnp.sum(scaled_gradient * solve(jnp.minimum(damping, 1e-9)))
    return _Proposal(trial, predicted_reduction((trial - theta) * D), undamped, cosine)


def _solve(matrix: jax.Array, right: jax.Array) -> jax.Array:
    """Solve a system with a positive definite matrix by Gauss-Jordan elimination.

    It is written out because a call of LAPACK would keep XLA from compiling the whole
    loop into one piece of machine code."""
    size = right.shape[0]
    row_index = jnp.arange(size)

    def eliminate(k, table):
        row = read(table, k)
        row = row / lax.dynamic_index_in_dim(row, k, keepdims=False)
        column = lax.dynamic_index_in_dim(table, k, axis=1)
        return jnp.where(
            (row_index == k)[:, None], row[None], table - column * row[None]
        )

    table = jnp.concatenate([matrix, right[:, None]], axis=1)
    return lax.fori_loop(0, size, eliminate, table)[:, size]
