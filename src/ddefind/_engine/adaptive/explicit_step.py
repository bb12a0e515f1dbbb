"""One step of the explicit method."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ..._util.arrays import read, write
from .distributions import KernelSums
from .equation import ExtendedEquation, RowsOf, Scale, Step, StepStart
from .methods import Stages
from .pieces import StagePast

STAGES = Stages()
STAGE_COUNT = len(STAGES.c)
# How often a step is repeated that reads its own piece, and the change of the piece
# that does not matter: in units of the tolerance, and relative to the coefficients.
_MOST_PASSES, _NO_CHANGE, _ROUNDING = 80, 1e-8, 1e-13
# Derivatives of the solution have no control of their own: their errors are some times
# larger than those of the solution, for which this margin allows.
_MARGIN = 1.5


class Pass(NamedTuple):
    """The stages of a step: their slopes [9, d], where each found its reads, the share
    of these from the step's own piece, and the least of each delay."""

    slopes: jax.Array
    hints: jax.Array
    inside: jax.Array
    delays: jax.Array


def known_kernels(
    equation: ExtendedEquation, rows_of: RowsOf, start: StepStart, hints: jax.Array
) -> tuple[list[KernelSums], jax.Array]:
    """Return the sums of distributed delays for all stages before the step is made."""
    times = start.t + jnp.asarray(STAGES.c) * start.length
    return equation.kernels(rows_of, times, start.t, hints)


def explicit_pass(
    equation: ExtendedEquation,
    rows_of: RowsOf,
    start: StepStart,
    guess: jax.Array,
    hints: Any,
    kernels: list[KernelSums],
) -> Pass:
    """Evaluate all stages of a step; what they read of the step itself is from
    `guess`."""
    t, x, length, sides = start
    a, c = jnp.asarray(STAGES.a), jnp.asarray(STAGES.c)

    def stage(s, before):
        state = x + length * jnp.sum(read(a, s)[:, None] * before.slopes, axis=0)
        fraction = read(c, s)
        past = StagePast(
            rows_of(s), equation.history, t, length, guess, fraction, sides
        )
        time = t + fraction * length
        sums = [known.stage(s) for known in kernels]
        slope = equation.slope(past, time, state, read(before.hints, s), sums)
        return Pass(
            write(before.slopes, s, slope.value),
            write(before.hints, s, slope.hints),
            jnp.maximum(before.inside, slope.inside),
            jnp.minimum(before.delays, lax.stop_gradient(slope.delays)),
        )

    slopes = jnp.zeros((STAGE_COUNT, x.shape[0]))
    delays = jnp.full(len(equation.leaves), jnp.inf)
    begin = Pass(slopes, hints, jnp.zeros(()), delays)
    return lax.fori_loop(0, STAGE_COUNT, stage, begin)


def explicit_piece(start: StepStart, slopes: jax.Array) -> jax.Array:
    """Return the coefficients of the piece with the slopes of all stages."""
    weights = jnp.asarray(STAGES.piece)
    higher = start.length * jnp.sum(weights[:, :, None] * slopes[:, None], axis=0)
    return jnp.concatenate([start.x[None], higher])


def explicit_step(
    equation: ExtendedEquation,
    rows_of: RowsOf,
    start: StepStart,
    guess: jax.Array,
    hints: jax.Array,
    scale: Scale,
) -> Step:
    """Make one step, repeated with its own piece for the past until that no longer
    changes."""

    def no_change(piece):
        size = _piece_change(jnp.zeros_like(piece), piece, scale)
        return jnp.maximum(_NO_CHANGE, _ROUNDING * size)

    def is_changing(carry):
        n, change, piece, _ = carry
        return (n == 0) | ((change > no_change(piece)) & (n < _MOST_PASSES))

    def again(carry):
        n, _, guess, before = carry
        # What is read must depend on n: XLA would otherwise move it out of this loop,
        # and copy the path.
        hints = jnp.where(n < 0, 0, before.hints)
        found = explicit_pass(equation, rows_of, start, guess, hints, kernels)
        piece = explicit_piece(start, found.slopes)
        change = found.inside * _piece_change(guess, piece, scale)
        return n + 1, change, piece, found

    kernels, hints = known_kernels(equation, rows_of, start, hints)
    zeros = jnp.zeros((STAGE_COUNT, start.x.shape[0]))
    delays = jnp.zeros(len(equation.leaves))
    begin = Pass(zeros, hints, jnp.zeros(()), delays)
    carry = jnp.asarray(0), jnp.asarray(jnp.inf), guess, begin
    _, change, piece, found = lax.while_loop(is_changing, again, carry)
    error = _error(lax.stop_gradient(start), lax.stop_gradient(found.slopes))
    return Step(piece, error, found.hints, change <= no_change(piece), found.delays)


def _piece_change(before: jax.Array, after: jax.Array, scale: Scale) -> jax.Array:
    """Return how much two pieces differ, in units of the tolerance."""
    before, after = lax.stop_gradient((before, after))
    difference = jnp.sum(jnp.abs(after - before), axis=0)
    return jnp.max(difference / scale(jnp.sum(after, axis=0)))


def _error(start: StepStart, slopes: jax.Array) -> jax.Array:
    """Return the error of a step: that of the embedded method, or the residual of the
    piece of order 4 with a margin for derivatives, whichever is larger."""
    embedded = jnp.abs(jnp.sum(STAGES.error[:, None] * slopes, axis=0))
    residuals = jnp.sum(STAGES.residuals[:, :, None] * slopes, axis=1)
    residual = jnp.max(jnp.abs(residuals), axis=0)
    return start.length * jnp.maximum(embedded, _MARGIN * residual)
