r"""The Levenberg-Marquardt method: nonlinear least squares within bounds.

`minimise` finds a local minimum of $S(\theta) = \sum_j r_j(\theta)^2$ over the free
parameter values $\theta$, within bounds, as one compiled loop. With the Jacobian $J$ of
the residuals $r$ and scales $D$, as a rule $D^2 = \mathrm{diag}(J^T J)$, a step $p$
solves

$$(J^T J + \lambda D^2)\,p = -J^T r.$$

The damping $\lambda$ decreases as long as the quadratic model predicts the change of S
well, and increases when a step is rejected (Nielsen's rule). A value on its bound whose
descent direction points outwards is kept there. A trial point with residuals that are
not finite is rejected like one with a larger S. `Priors` of the free values add to the
normal equations."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .._util.arrays import read


class Priors(NamedTuple):
    """Independent priors of the free values, each of which adds
    weight * (g(theta) - mean)^2 to S.

    g is the identity (a Gaussian prior), or the logarithm where `log` is true (a
    log-normal prior). A value whose `weight` is zero has no prior."""

    mean: Any  # [p]
    weight: Any  # [p]
    log: Any  # [p], boolean


def prior_terms(
    priors: Priors, theta: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Compute what the priors add to S, to J^T r and to the diagonal of J^T J; NaN
    where a value with a log-normal prior is not positive."""
    size = jnp.where(priors.log, jnp.where(theta > 0, theta, jnp.nan), 1.0)
    deviation = jnp.where(priors.log, jnp.log(size), theta) - priors.mean
    weight = priors.weight
    deviation = jnp.where(weight > 0, deviation, 0.0)
    slope = jnp.where(weight > 0, 1 / size, 0.0)
    added = jnp.sum(weight * deviation**2)
    return added, weight * deviation * slope, weight * slope**2


def prior_gram(priors: Priors, theta: jax.Array) -> jax.Array:
    """Compute what the priors add to `NormalEquations.gram`."""
    corner, side, diagonal = prior_terms(priors, theta)
    corner, side = corner[None, None], side[None]
    return jnp.block([[corner, side], [side.T, jnp.diag(diagonal)]])


# Why a minimisation ended:
# LIMIT     the number of evaluations is used up
# GRADIENT  the residuals are orthogonal to every column of the Jacobian
# STEP      the full step would lower S by a negligible amount
# EXACT     S is a rounding error: the model passes through the data
# STUCK     no step lowers S, although the gradient is not zero
# NO_START  S is not finite at the start
# KINK      no finite move lowers S, although the gradient is not zero (`search.py`)
# SLOW      several steps in a row have lowered S by a negligible amount
# PROBABLE  S is lower elsewhere, but the evidence is not (`evidence_intervals.py`)
LIMIT, GRADIENT, STEP, EXACT, STUCK, NO_START, KINK, SLOW, PROBABLE = range(9)
_RUNNING = -1

# Convergence (GRADIENT): the largest cosine between the residuals and a column of the
# Jacobian.
_COSINE_TOLERANCE = 1e-8
_LARGEST_DAMPING = 1e16
# A value stays where it is if doubling it changes the residuals by less than this
# share: it would run away, for nothing but rounding errors.
_NEGLIGIBLE = 1e-13
# This many slow steps in a row are convergence.
_SLOW_STEPS = 4


class Convergence(NamedTuple):
    """What counts as convergence (STEP), relative to S.

    - `reduction`: that a full step predicts. 1e-11 of a chi-square of a thousand moves
      no estimate by more than 1e-4 of its standard error.
    - `hidden`: when no step lowers S, a predicted reduction below this: the errors of S
      may hide it.
    - `slow`: the reductions of S by several accepted steps in a row."""

    reduction: Any = 1e-11
    hidden: Any = 1e-7
    slow: Any = 0.0


class NormalEquations(NamedTuple):
    """The sum of squares and its linearisation at one point.

    `gram` is [r J]^T [r J], over all weighted residuals and priors: S is at [0, 0], the
    vector J^T r at [0, 1:] and the matrix J^T J at [1:, 1:]. `squares` holds the
    unweighted sum of squared residuals of each measured quantity (with the residuals of
    outliers clipped in a robust fit)."""

    gram: Any  # [1 + p, 1 + p]
    squares: Any  # [k]

    @property
    def S(self) -> jax.Array:
        """The sum of squares."""
        return self.gram[0, 0]

    @property
    def is_finite(self) -> jax.Array:
        """Whether all numbers are finite."""
        return jnp.all(jnp.isfinite(self.gram))

    @property
    def gradient(self) -> jax.Array:
        """J^T r."""
        return self.gram[0, 1:]

    @property
    def diagonal(self) -> jax.Array:
        """The diagonal of J^T J."""
        information = self.gram[1:, 1:]
        return jnp.sum(jnp.where(_on_diagonal(information), information, 0.0), axis=1)

    @property
    def scales(self) -> jax.Array:
        """D, the root of the diagonal of J^T J."""
        return jnp.sqrt(self.diagonal)

    def equations(self, exist: jax.Array) -> "NormalEquations":
        """Return the same, with infinite elements where they do not `exist`."""
        return self._replace(gram=jnp.where(exist, self.gram, jnp.inf))

    def scaled(self, D: jax.Array, free: jax.Array) -> "ScaledMatrix":
        """Return D^-1 J^T J D^-1 for the values that are `free`; zero for others."""
        information = self.gram[1:, 1:] / (D[:, None] * D)
        return ScaledMatrix(jnp.where(free[:, None] & free, information, 0.0), free)


class ScaledMatrix(NamedTuple):
    """J^T J in scaled variables, in which it has a unit diagonal."""

    matrix: Any  # [p, p]
    free: Any  # [p], boolean

    def solve(self, damping: Any, right: jax.Array) -> jax.Array:
        """Solve the damped equations for a step."""
        added = jnp.where(self.free, damping, 1.0)
        on_diagonal = _on_diagonal(self.matrix)
        return _solve(self.matrix + jnp.where(on_diagonal, added[:, None], 0.0), right)

    def curvature(self, step: jax.Array) -> jax.Array:
        """Return step^T J^T J step."""
        return jnp.sum(step[:, None] * self.matrix * step[None, :])


def _on_diagonal(matrix: jax.Array) -> jax.Array:
    index = jnp.arange(matrix.shape[0])
    return index[:, None] == index


class Box(NamedTuple):
    """The bounds of the free values, and which values are held at their start."""

    lower: Any  # [p]
    upper: Any  # [p]
    held: Any  # [p], boolean


class MinimiserResult(NamedTuple):
    """The last accepted point, and why the minimisation ended (`LIMIT`, ...)."""

    theta: Any
    normal: NormalEquations
    evaluations: Any
    status: Any


class _State(NamedTuple):
    """The loop: the last accepted point, and the trial point to evaluate next."""

    theta: Any
    trial: Any
    S: Any  # at `theta`; infinite before the first evaluation
    normal: Any  # at `theta`
    damping: Any
    growth: Any  # the factor by which the next rejection increases the damping
    predicted: Any  # the reduction of S that the quadratic model predicts at `trial`
    slow: Any  # the number of slow steps up to here
    evaluations: Any
    status: Any
    memory: Any


def minimise(
    linearise: Callable[[jax.Array, Any], tuple[Any, Any]],
    theta: jax.Array,
    box: Box,
    limit: jax.Array | int,
    tiny: jax.Array | float,
    memory: Any,
    convergence: Convergence = Convergence(),
    scale: jax.Array | None = None,
) -> MinimiserResult:
    """Find the local minimum of S that descent from `theta` leads to.

    **Arguments**

    - `linearise(theta, memory)` returns the linearisation at `theta`, as
      `NormalEquations` or `StoredRows`, and the memory, a work buffer that is handed
      from one evaluation to the next.
    - `theta`: where to begin, of shape (p,).
    - `limit`: the largest number of evaluations.
    - `tiny`: an S below this is a rounding error of zero.
    - `memory`: for the first evaluation.
    - `convergence`: what counts as such.
    - `scale`: what S is compared with in these tests, if it is no sum of squares, and
      may be negative."""
    shapes = jax.eval_shape(linearise, theta, memory)[0]
    first = _State(
        theta=theta,
        trial=theta,
        S=jnp.asarray(jnp.inf),
        normal=jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes),
        damping=jnp.asarray(1e-3),
        growth=jnp.asarray(2.0),
        predicted=jnp.asarray(1.0),
        slow=jnp.asarray(0),
        evaluations=jnp.asarray(0),
        status=jnp.asarray(_RUNNING),
        memory=memory,
    )

    def is_running(state: _State) -> jax.Array:
        return (state.status == _RUNNING) & (state.evaluations < limit)

    def iterate(state: _State) -> _State:
        trial_normal, memory = linearise(state.trial, state.memory)
        state = state._replace(memory=memory)
        return _update(box, tiny, convergence, scale, state, trial_normal)

    last = lax.while_loop(is_running, iterate, first)
    status = jnp.where(last.status == _RUNNING, LIMIT, last.status)
    normal = last.normal.equations(jnp.isfinite(last.S))
    return MinimiserResult(last.theta, normal, last.evaluations, status)


def _update(
    box: Box,
    tiny,
    convergence: Convergence,
    scale: jax.Array | None,
    state: _State,
    trial_normal: Any,
) -> _State:
    """Accept or reject the trial point, test for convergence, propose the next."""
    before = state.S
    after = jnp.where(trial_normal.is_finite, trial_normal.S, jnp.inf)
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
    S = jnp.where(accepted, after, before)
    size = S if scale is None else scale
    is_slow = accepted & (before - after < convergence.slow * size)
    slow = jnp.where(is_slow, state.slow + 1, jnp.where(accepted, 0, state.slow))
    proposal = _propose(box, theta, normal, damping, size)
    stuck = (damping > _LARGEST_DAMPING) | jnp.all(proposal.trial == theta)
    status = jnp.select(
        [
            is_first & ~accepted,
            S <= tiny,
            proposal.cosine <= _COSINE_TOLERANCE,
            accepted & (proposal.predicted_undamped <= convergence.reduction * size),
            slow >= _SLOW_STEPS,
            stuck & (proposal.predicted_undamped <= convergence.hidden * size),
            stuck,
        ],
        [NO_START, EXACT, GRADIENT, STEP, SLOW, STEP, STUCK],
        _RUNNING,
    )
    return state._replace(
        theta=theta,
        trial=proposal.trial,
        S=S,
        normal=normal,
        damping=damping,
        growth=growth,
        predicted=jnp.maximum(proposal.predicted, 1e-300),
        slow=slow,
        evaluations=state.evaluations + 1,
        status=status,
    )


class _Proposal(NamedTuple):
    """The next trial point, and what the convergence tests need."""

    trial: Any
    predicted: Any  # the reduction of S predicted for the trial point ...
    predicted_undamped: Any  # ... and for a step with almost no damping
    cosine: Any  # the largest between the residuals and a column of the Jacobian


def _propose(box: Box, theta, normal: Any, damping, size) -> _Proposal:
    """Compute the damped step from `theta`, clipped to the bounds; `size` is that of S.

    The equations are solved in the scaled variables D theta, in which J^T J usually has
    a unit diagonal."""
    gradient, D = normal.gradient, normal.scales
    outwards = ((theta <= box.lower) & (gradient > 0)) | (
        (theta >= box.upper) & (gradient < 0)
    )
    is_negligible = D * jnp.abs(theta) < _NEGLIGIBLE * jnp.sqrt(size)
    is_negligible &= theta != 0
    free = ~(outwards | box.held | is_negligible)
    D = jnp.where(D > 0, D, 1.0)
    scaled_gradient = jnp.where(free, gradient / D, 0.0)
    scaled = normal.scaled(D, free)

    def predicted_reduction(step):
        return -(2 * jnp.sum(scaled_gradient * step) + scaled.curvature(step))

    step = scaled.solve(damping, -scaled_gradient)
    trial = jnp.clip(theta + step / D, box.lower, box.upper)
    trial = jnp.where(free, trial, theta)
    cosine = jnp.max(jnp.abs(scaled_gradient)) / jnp.sqrt(size)
    full_step = scaled.solve(jnp.minimum(damping, 1e-9), -scaled_gradient)
    undamped = -jnp.sum(scaled_gradient * full_step)
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
