"""One step of an explicit pair of Runge-Kutta methods, with its dense output.

A step that reads its own piece solves c = P(c), by repetition. The cotangent of its
piece then solves $w = \\bar c + P_c^T w$, by repetition as well.
"""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._util.arrays import read, write
from .distributions import KernelSums
from .equation import ExtendedEquation, RowsOf, Scale, Step, StepStart
from .methods import AbstractAdaptive
from .pieces import StagePast

# How often a step is repeated that reads its own piece, and the change of the piece
# that does not matter: in units of the tolerance, and relative to the coefficients.
_MOST_PASSES, _NO_CHANGE, _ROUNDING = 80, 1e-8, 1e-13
# The same for the way back.
_MOST_PULLS, _ROUNDING_OF_PULLS = 100, 1e-15


@final
@dataclass(frozen=True)
class Stages:
    r"""The stages of an explicit pair, as numbers.

    - `a`, [stages, stages], and `c`, [stages]: stage s is evaluated at $t + c_s h$ in
      the state $x + h \sum_j a_{sj} k_j$.
    - `piece`, [stages, degree]: $c_m = h \sum_j p_{j,m-1} k_j$, for m from 1 on.
    """

    a: np.ndarray
    c: np.ndarray
    piece: np.ndarray


class Pass(NamedTuple):
    """The stages of a step: their slopes [stages, d], where each found its reads, the
    share of these from the step's own piece, and the least of each delay."""

    slopes: jax.Array
    hints: jax.Array
    inside: jax.Array
    delays: jax.Array


class AbstractExplicit(AbstractAdaptive):
    """An explicit pair: its stages as numbers, and the rule for its error."""

    pair: eqx.AbstractClassVar[Stages]
    is_for_stiff: ClassVar[bool] = False

    @abc.abstractmethod
    def error(self, slopes: jax.Array) -> jax.Array:
        """Return the error of a step over its length, [d], from the slopes of its
        stages."""

    @property
    def stages(self) -> int:
        return self.pair.piece.shape[0]

    @property
    def degree(self) -> int:
        return self.pair.piece.shape[1]

    def step(self, equation, rows_of, start, guess, hints, scale):
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
            # What is read must depend on n: XLA would otherwise move it out of this
            # loop, and copy the path.
            hints = jnp.where(n < 0, 0, before.hints)
            found = self._evaluate(equation, rows_of, start, guess, hints, kernels)
            piece = self._piece(start, found.slopes)
            change = found.inside * _piece_change(guess, piece, scale)
            return n + 1, change, piece, found

        kernels, hints = self._kernels(equation, rows_of, start, hints)
        zeros = jnp.zeros((self.stages, start.x.shape[0]))
        delays = jnp.zeros(len(equation.leaves))
        begin = Pass(zeros, hints, jnp.zeros(()), delays)
        carry = jnp.asarray(0), jnp.asarray(jnp.inf), guess, begin
        _, change, piece, found = lax.while_loop(is_changing, again, carry)
        length, slopes = lax.stop_gradient((start.length, found.slopes))
        error = length * self.error(slopes)
        return Step(piece, error, found.hints, change <= no_change(piece), found.delays)

    def reads(self, equation, rows_of, start, coefficients, hints):
        kernels, hints = self._kernels(equation, rows_of, start, hints)
        found = self._evaluate(equation, rows_of, start, coefficients, hints, kernels)
        return found.hints

    def piece(self, equation, rows_of, start, guess, hints):
        kernels, hints = self._kernels(equation, rows_of, start, hints)
        found = self._evaluate(equation, rows_of, start, guess, hints, kernels)
        return self._piece(start, found.slopes)

    def pull(self, pull, cotangent):
        def is_changing(carry):
            n, _, _, change = carry
            return (n == 0) | ((change > 0) & (n < _MOST_PULLS))

        def again(carry):
            n, w, _, _ = carry
            on_inputs, on_guess = pull(w)
            after = cotangent + on_guess
            difference = jnp.abs(after - w)
            size = _ROUNDING_OF_PULLS * jnp.max(jnp.abs(after))
            change = jnp.max(jnp.where(difference > size, 1.0, 0.0))
            return n + 1, after, on_inputs, change

        shapes = jax.eval_shape(pull, cotangent)[0]
        on_inputs = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        carry = jnp.asarray(0), cotangent, on_inputs, jnp.ones(())
        return lax.while_loop(is_changing, again, carry)[2]

    def _kernels(
        self,
        equation: ExtendedEquation,
        rows_of: RowsOf,
        start: StepStart,
        hints: jax.Array,
    ) -> tuple[list[KernelSums], jax.Array]:
        """Return the sums of distributed delays for all stages before the step is
        made."""
        times = start.t + jnp.asarray(self.pair.c) * start.length
        return equation.kernels(rows_of, times, start.t, hints)

    def _evaluate(
        self,
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
        a, c = jnp.asarray(self.pair.a), jnp.asarray(self.pair.c)

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

        slopes = jnp.zeros((self.stages, x.shape[0]))
        delays = jnp.full(len(equation.leaves), jnp.inf)
        begin = Pass(slopes, hints, jnp.zeros(()), delays)
        return lax.fori_loop(0, self.stages, stage, begin)

    def _piece(self, start: StepStart, slopes: jax.Array) -> jax.Array:
        """Return the coefficients of the piece with the slopes of all stages."""
        weights = jnp.asarray(self.pair.piece)
        higher = start.length * jnp.sum(weights[:, :, None] * slopes[:, None], axis=0)
        return jnp.concatenate([start.x[None], higher])


def _piece_change(before: jax.Array, after: jax.Array, scale: Scale) -> jax.Array:
    """Return how much two pieces differ, in units of the tolerance."""
    before, after = lax.stop_gradient((before, after))
    difference = jnp.sum(jnp.abs(after - before), axis=0)
    return jnp.max(difference / scale(jnp.sum(after, axis=0)))
