r"""Levenberg-Marquardt: weighted least squares with bounds, as one compiled program.

Minimises $S(theta) = \sum_j r_j(theta)^2$ over the free values theta, within
bounds. With the Jacobian $J$ and $D^2 = \mathrm{diag}(J^T J)$ a step solves

$$(J^T J + \lambda D^2)\,p = -J^T r;$$

$\lambda$ falls as long as the quadratic model predicts S well and grows when a step is
refused (Nielsen's rule). A value at its bound whose descent points outwards is held
there. A point whose residuals are not finite is refused like a worse one."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .._util.buffers import read

# How a minimisation ended.
LIMIT, GRADIENT, STEP, EXACT, STUCK, NO_START = range(6)
_RUNNING = -1

# The cosine between the residuals and any column of the Jacobian, at convergence.
_COSINE = 1e-8
# The share of S that a full step still promises, at convergence: 1e-11 of a chi-square
# of a thousand moves no estimate by more than 1e-4 of its standard error.
_PROMISE = 1e-11
_LARGEST_DAMPING = 1e16
# A share so small that rounding errors of S may hide it, when no step lowers S.
_HIDDEN = 1e-7


class Normal(NamedTuple):
    """The normal equations at a point: `gram` = [r J]^T [r J], of all residuals and
    priors, and `squares`, the unweighted squares of each quantity's residuals, with
    outliers clipped where they count less."""

    gram: Any
    squares: Any


class Box(NamedTuple):
    """Where the free values may be; those that are `held` stay."""

    lower: Any
    upper: Any
    held: Any


class Found(NamedTuple):
    theta: Any
    normal: Normal
    evaluations: Any
    status: Any


class _State(NamedTuple):
    theta: Any
    trial: Any
    normal: Normal
    damping: Any
    growth: Any
    promise: Any  # the fall of S that the trial point promised
    evaluations: Any
    status: Any
    memory: Any


def minimise(
    evaluate: Callable, theta, box: Box, limit, quantities: int, tiny, memory
) -> Found:
    """The minimum of S near `theta`. `evaluate(theta, memory)` returns the normal
    equations and the memory, to be used again; S below `tiny` is rounding error."""
    size = 1 + theta.shape[0]
    state = _State(
        theta,
        theta,
        Normal(jnp.full((size, size), jnp.inf), jnp.zeros(quantities)),
        jnp.asarray(1e-3),
        jnp.asarray(2.0),
        jnp.asarray(1.0),
        jnp.asarray(0),
        jnp.asarray(_RUNNING),
        memory,
    )

    def going(state: _State):
        return (state.status == _RUNNING) & (state.evaluations < limit)

    def body(state: _State):
        tried, memory = evaluate(state.trial, state.memory)
        return _improve(box, tiny, state._replace(memory=memory), tried)

    state = lax.while_loop(going, body, state)
    status = jnp.where(state.status == _RUNNING, LIMIT, state.status)
    return Found(state.theta, state.normal, state.evaluations, status)


def _improve(box: Box, tiny, state: _State, tried: Normal) -> _State:
    """Judge the trial point, and propose the next."""
    before = state.normal.gram[0, 0]
    finite = jnp.all(jnp.isfinite(tried.gram))
    after = jnp.where(finite, tried.gram[0, 0], jnp.inf)
    accepted = after < before
    is_first = state.evaluations == 0
    gain = (before - after) / state.promise
    eased = state.damping * jnp.clip(1 - (2 * gain - 1) ** 3, 1 / 3, 2.0)
    damping = jnp.where(accepted, eased, state.damping * state.growth)
    damping = jnp.where(is_first, state.damping, jnp.maximum(damping, 1e-12))
    growth = jnp.where(accepted, 2.0, 2 * state.growth)
    theta = jnp.where(accepted, state.trial, state.theta)
    normal = jax.tree.map(
        lambda new, old: jnp.where(accepted, new, old), tried, state.normal
    )
    move = _propose(box, theta, normal, damping)
    S = normal.gram[0, 0]
    stuck = (damping > _LARGEST_DAMPING) | jnp.all(move.trial == theta)
    status = jnp.select(
        [
            is_first & ~accepted,
            S <= tiny,
            move.cosine <= _COSINE,
            accepted & (move.full <= _PROMISE * S),
            stuck & (move.full <= _HIDDEN * S),
            stuck,
        ],
        [NO_START, EXACT, GRADIENT, STEP, STEP, STUCK],
        _RUNNING,
    )
    return state._replace(
        theta=theta,
        trial=move.trial,
        normal=normal,
        damping=damping,
        growth=growth,
        promise=jnp.maximum(move.promise, 1e-300),
        evaluations=state.evaluations + 1,
        status=status,
    )


class _Move(NamedTuple):
    trial: Any
    promise: Any  # the fall of S that the quadratic model promises for the trial
    full: Any  # ... and for a step that is hardly damped
    cosine: Any


def _propose(box: Box, theta, normal: Normal, damping) -> _Move:
    S, slope = normal.gram[0, 0], normal.gram[0, 1:]
    square = normal.gram[1:, 1:]
    size = jnp.arange(theta.shape[0])
    on_diagonal = size[:, None] == size
    D = jnp.sqrt(jnp.sum(jnp.where(on_diagonal, square, 0.0), axis=1))
    D = jnp.where(D > 0, D, 1.0)
    outwards = ((theta <= box.lower) & (slope > 0)) | (
        (theta >= box.upper) & (slope < 0)
    )
    free = ~(outwards | box.held)
    scaled = jnp.where(free, slope / D, 0.0)
    matrix = jnp.where(free[:, None] & free, square / (D[:, None] * D), 0.0)

    def solve(damping):
        added = jnp.where(free, damping, 1.0)
        return _solve(matrix + jnp.where(on_diagonal, added[:, None], 0.0), -scaled)

    def promise(step):
        curved = jnp.sum(step[:, None] * matrix * step[None, :])
        return -(2 * jnp.sum(scaled * step) + curved)

    trial = jnp.clip(theta + solve(damping) / D, box.lower, box.upper)
    trial = jnp.where(free, trial, theta)
    cosine = jnp.max(jnp.abs(scaled)) / jnp.sqrt(S)
    full = -jnp.sum(scaled * solve(jnp.minimum(damping, 1e-9)))
    return _Move(trial, promise((trial - theta) * D), full, cosine)


def _solve(matrix, right):
    """Gauss-Jordan for a positive definite matrix: a LAPACK call would keep the whole
    loop from becoming one piece of machine code."""
    size = right.shape[0]
    number = jnp.arange(size)

    def eliminate(k, table):
        row = read(table, k)
        row = row / lax.dynamic_index_in_dim(row, k, keepdims=False)
        column = lax.dynamic_index_in_dim(table, k, axis=1)
        return jnp.where((number == k)[:, None], row[None], table - column * row[None])

    table = jnp.concatenate([matrix, right[:, None]], axis=1)
    return lax.fori_loop(0, size, eliminate, table)[:, size]
