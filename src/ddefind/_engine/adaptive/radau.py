r"""`Radau`, the adaptive solver for stiff equations: those with processes that are much
faster than the solution, such as a reaction that is almost in equilibrium.

The three stages $Z_s = x(t + c_s h) - x$ solve $Z = h A F(x + Z)$. The piece is the
cubic polynomial through them, and a read inside the step takes that very piece:
Newton's matrix is the Jacobian of the whole, so that delays shorter than the step are
implicit as well. The derivative of the solution of an implicit equation $G(Z; p) = 0$
is that of one more step of Newton's method with its matrix M held,

$$Z - M^{-1} G(Z; p).$$
"""

from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._util.arrays import read, write
from .equation import ExtendedEquation, RowsOf, Step, StepStart
from .methods import AbstractAdaptive, check_atol, check_rtol
from .pieces import StagePast, evaluate, hold

# Radau IIA of order 5 (Hairer and Wanner, 1996): Z_s = x(t + c_s h) - x solve
# Z = h A F(x + Z).
_ROOT6 = np.sqrt(6)
_C = np.array([(4 - _ROOT6) / 10, (4 + _ROOT6) / 10, 1.0])
_A = np.array(
    [
        [(88 - 7 * _ROOT6) / 360, (296 - 169 * _ROOT6) / 1800, (-2 + 3 * _ROOT6) / 225],
        [(296 + 169 * _ROOT6) / 1800, (88 + 7 * _ROOT6) / 360, (-2 - 3 * _ROOT6) / 225],
        [(16 - _ROOT6) / 36, (16 + _ROOT6) / 36, 1 / 9],
    ]
)
# From the values Z to the coefficients of u, u^2, u^3.
_PIECE = np.linalg.inv(_C[:, None] ** np.arange(1, 4))
# The embedded error estimate: (mu / h - J)^-1 (F(t, x) + error . Z / h).
_MU = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)
_ERROR = np.array([-13 - 7 * _ROOT6, -13 + 7 * _ROOT6, -1]) / 3
# The value at the beginning of the step of the parabola through the three stages.
_BEGINNING = np.array(
    [np.prod([-_C[j] / (_C[i] - _C[j]) for j in range(3) if j != i]) for i in range(3)]
)
# The largest number of Newton's steps, and the change of a stage, in units of the
# tolerance, after which there is one more.
_MOST_STEPS, _SMALL_CHANGE = 10, 1e-3
# The end of a stiff step is far better than its inside, which delays may read: this
# share of the distance between x and the parabola through the stages counts as error.
_INSIDE = 0.03


def _piece(x: jax.Array, Z: jax.Array) -> jax.Array:
    """Return the coefficients of the cubic polynomial through the stages."""
    higher = jnp.sum(_PIECE[:, :, None] * Z[None], axis=1)
    return jnp.concatenate([x[None], higher])


def _stage_equations(
    equation: ExtendedEquation,
    rows_of: RowsOf,
    start: StepStart,
    Z: jax.Array,
    hints: Any,
) -> tuple[jax.Array, Any, jax.Array]:
    """Return Z - h A F, [3, d]; where each stage found its reads; and the least of each
    delay."""
    t, x, length, sides = start
    c, piece = jnp.asarray(_C), _piece(x, Z)
    kernels, hints = equation.kernels(rows_of, t + c * length, t, hints)

    def stage(s, carry):
        slopes, hints, delays = carry
        fraction = read(c, s)
        past = StagePast(
            rows_of(s), equation.history, t, length, piece, fraction, sides
        )
        time = t + fraction * length
        sums = [known.stage(s) for known in kernels]
        slope = equation.slope(past, time, x + read(Z, s), read(hints, s), sums)
        delays = jnp.minimum(delays, lax.stop_gradient(slope.delays))
        slopes = write(slopes, s, slope.value)
        return slopes, write(hints, s, slope.hints), delays

    delays = jnp.full(len(equation.leaves), jnp.inf)
    carry = jnp.zeros_like(Z), hints, delays
    slopes, hints, delays = lax.fori_loop(0, len(_C), stage, carry)
    right = length * jnp.sum(_A[:, :, None] * slopes[None], axis=1)
    return Z - right, hints, delays


def _newton_matrix(
    equation: ExtendedEquation,
    rows_of: RowsOf,
    start: StepStart,
    Z: jax.Array,
    hints: Any,
) -> jax.Array:
    """Return the Jacobian of the stage equations, [3 d, 3 d]."""
    shape, size = Z.shape, Z.size

    def function(z):
        Z = z.reshape(shape)
        return _stage_equations(equation, rows_of, start, Z, hints)[0].ravel()

    def column(direction):
        return jax.jvp(function, (Z.ravel(),), (direction,))[1]

    return jax.vmap(column, out_axes=1)(jnp.eye(size))


def _held_rows(rows_of: RowsOf) -> RowsOf:
    """Return the same rows without their derivatives."""
    return lambda stage: rows_of(stage).held()


def _corrected_stages(
    equation: ExtendedEquation,
    rows_of: RowsOf,
    start: StepStart,
    Z: jax.Array,
    hints: Any,
) -> tuple[jax.Array, Any, jax.Array]:
    """Take one more step of Newton's method from the stages `Z`, with its matrix held.
    Return the stages with their derivatives; where the reads were found; the least
    delays."""

    def once(n, carry):
        hints = jnp.where(n < 0, 0, carry[1])
        held_equation, held = hold((equation, start))
        held_rows = _held_rows(rows_of)
        matrix = _newton_matrix(held_equation, held_rows, held, Z, hints)
        inverse = lax.stop_gradient(_solve_linear(matrix, jnp.eye(Z.size)))
        G, hints, delays = _stage_equations(equation, rows_of, start, Z, hints)
        step = jnp.sum(inverse * G.ravel()[None], axis=1)
        return Z - step.reshape(Z.shape), hints, delays

    # A loop, so that the path is read in an inner loop only, and not copied.
    delays = jnp.zeros(len(equation.leaves))
    return lax.fori_loop(0, 1, once, (jnp.zeros_like(Z), hints, delays))


def _error(
    equation: ExtendedEquation,
    rows_of: RowsOf,
    start: StepStart,
    Z: jax.Array,
    hints: Any,
) -> jax.Array:
    """Return the error of a step: Hairer and Wanner's estimate at its end, and a share
    of what may be wrong inside."""
    t, x, length, sides = start
    piece = _piece(x, Z)
    past = StagePast(
        rows_of(0), equation.history, t, length, piece, jnp.zeros(()), sides
    )

    def slope(x, n):
        first = jnp.where(n < 0, 0, hints[:1])
        kernels, first = equation.kernels(rows_of, t[None], t, first)
        sums = [known.stage(0) for known in kernels]
        return equation.slope(past, t, x, first[0], sums).value

    def once(n, carry):
        error, _ = carry
        at = x + error
        jacobian = jax.vmap(
            lambda direction: jax.jvp(lambda x: slope(x, n), (at,), (direction,))[1],
            out_axes=1,
        )(jnp.eye(x.shape[0]))
        matrix = _MU / length * jnp.eye(x.shape[0]) - jacobian
        right = slope(at, n) + jnp.sum(_ERROR[:, None] * Z, axis=0) / length
        error = _solve_linear(matrix, right)
        return error, error

    end = lax.fori_loop(0, 2, once, (jnp.zeros_like(x), jnp.zeros_like(x)))[1]
    inside = jnp.sum(_BEGINNING[:, None] * Z, axis=0)
    return jnp.maximum(jnp.abs(end), _INSIDE * jnp.abs(inside))


def _solve_linear(matrix: jax.Array, right: jax.Array) -> jax.Array:
    """Solve a small linear system, by elimination with pivots. It is a loop and not a
    library call, with which XLA would not compile the march to one kernel."""
    n = matrix.shape[0]
    number = jnp.arange(n)
    size = jnp.max(jnp.abs(matrix), axis=1)
    table = jnp.concatenate([matrix, right.reshape(n, -1)], axis=1) / size[:, None]

    def eliminate(k, carry):
        table, is_used = carry
        column = lax.dynamic_index_in_dim(table, k, 1, keepdims=False)
        candidates = jnp.where(is_used, -1.0, jnp.abs(column))
        best = jnp.max(candidates)
        pivot = jnp.min(jnp.where(candidates == best, number, n - 1))
        row = read(table, pivot)
        row = row / read(row, k)
        is_pivot = number == pivot
        reduced = table - column[:, None] * row[None]
        return jnp.where(is_pivot[:, None], row[None], reduced), is_used | is_pivot

    table, _ = lax.fori_loop(0, n, eliminate, (table, jnp.zeros(n, bool)))
    # Unknown k stands in the row whose entry k is one.
    is_pivot = jnp.abs(table[:, :n]) > 0.5
    solution = jnp.sum(jnp.where(is_pivot[:, :, None], table[:, None, n:], 0.0), axis=0)
    return solution.reshape(right.shape)


@final
class Radau(AbstractAdaptive):
    """The implicit method Radau IIA of order 5, with adaptive steps, for stiff
    equations.

    It is L-stable: a fast process does not limit its steps.

    >>> Radau(rtol=1e-8).rtol
    1e-08
    """

    rtol: float = eqx.field(converter=check_rtol, default=1e-6)
    atol: float | None = eqx.field(converter=check_atol, default=None)
    order: ClassVar[int] = 5
    power: ClassVar[int] = 4
    highest: ClassVar[int] = 4
    is_for_stiff: ClassVar[bool] = True

    @property
    def degree(self) -> int:
        return 3

    @property
    def stages(self) -> int:
        return 3

    def step(self, equation, rows_of, start, guess, hints, scale):
        """Make one step, by Newton's method from the stages of the piece `guess`.

        The iteration has no derivatives: `_corrected_stages` puts them in."""
        held_equation, held, guess = hold((equation, start, guess))
        held_rows = _held_rows(rows_of)

        def is_changing(carry):
            n, _, _, change, before = carry
            is_slow = (change > 2 * before) & (n >= 4)
            return (n < 1) | ((change > _SMALL_CHANGE) & (n < _MOST_STEPS) & ~is_slow)

        def again(carry):
            n, Z, hints, change, _ = carry
            # What is read must depend on n: see `explicit_step`.
            hints = jnp.where(n < 0, 0, hints)
            G, found, _ = _stage_equations(held_equation, held_rows, held, Z, hints)
            matrix = _newton_matrix(held_equation, held_rows, held, Z, hints)
            step = _solve_linear(matrix, G.ravel()).reshape(Z.shape)
            after = Z - step
            size = jnp.sqrt(jnp.mean((step / scale(held.x + after[-1])) ** 2))
            return n + 1, after, found, size, change

        Z = jnp.stack([evaluate(guess, c)[0] for c in _C]) - held.x
        carry = jnp.asarray(0), Z, hints, jnp.asarray(jnp.inf), jnp.asarray(jnp.inf)
        _, Z, hints, change, _ = lax.while_loop(is_changing, again, carry)
        Z = lax.stop_gradient(Z)
        corrected, hints, delays = _corrected_stages(equation, rows_of, start, Z, hints)
        error = _error(
            held_equation, held_rows, held, lax.stop_gradient(corrected), hints
        )
        piece = _piece(start.x, corrected)
        return Step(piece, error, hints, change <= 1.0, delays)

    def reads(self, equation, rows_of, start, coefficients, hints):
        Z = _stages_of(start, coefficients)
        return _corrected_stages(equation, rows_of, start, Z, hints)[1]

    def piece(self, equation, rows_of, start, guess, hints):
        Z = hold(_stages_of(start, guess))
        Z = _corrected_stages(equation, rows_of, start, Z, hints)[0]
        return _piece(start.x, Z)

    def pull(self, pull, cotangent):
        return pull(cotangent)[0]


def _stages_of(start: StepStart, coefficients: jax.Array) -> jax.Array:
    """Return the stages of a step, from its piece."""
    return jnp.stack([evaluate(coefficients, c)[0] for c in _C]) - hold(start.x)
