r"""The gradient of a march in reverse: the adjoint of every step.

Step i makes its piece and the next node from its beginning $(t_i, x_i)$, the parameters
p, the rows r that it reads, and the breaking point $\xi$ on which it lands. Going back,
the cotangents of its piece are complete once all later steps were visited, and

$$\bar p,\ \bar t_i,\ \bar x_i,\ \bar r,\ \bar\xi \mathrel{+}=
  \left(\frac{\partial(\text{piece}, t_{i+1}, x_{i+1})}{\partial(p, t_i, x_i, r,
  \xi)}\right)^{\!T} (\bar c_i, \bar t_{i+1}, \bar x_{i+1}).$$
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ..._problem.inputs import split_differentiable
from ..._util.arrays import read, write
from .breaking_points import sides_of
from .equation import StepStart
from .march import AdaptiveMarch, MarchResult
from .pieces import GivenRows, PathRows, ending_of, hold, unpack


class _Inputs(NamedTuple):
    """What a step depends on: the differentiable part of the march, its beginning, the
    rows that its stages read [stages, reads, size], and the time of the breaking point
    on which it lands."""

    march: Any
    t: jax.Array
    x: jax.Array
    rows: jax.Array
    goal: jax.Array


class _Adjoint(NamedTuple):
    """The cotangents of the rows, of the breaking points, of the march, and of the
    present node; and where reads were found last."""

    rows: jax.Array
    points: jax.Array
    march: Any
    t: jax.Array
    x: jax.Array
    hints: jax.Array


@eqx.filter_custom_vjp
def solve_with_vjp(
    march: AdaptiveMarch, path: jax.Array, most_tries: Any
) -> MarchResult:
    """Solve up to the end; JAX differentiates the rows of the path in reverse mode."""
    return march.run(path, most_tries)


@solve_with_vjp.def_fwd
def _forward(perturbed, march, path, most_tries):
    result = march.run(path, most_tries)
    return result, result


@solve_with_vjp.def_bwd
def _backward(result, cotangents, perturbed, march, path, most_tries):
    params, fixed = split_differentiable(march)
    on_rows = cotangents.path
    if on_rows is None:
        on_rows = jnp.zeros_like(result.path)
    zero, x = jnp.zeros(()), jnp.zeros(march.equation.dimension)
    on_t = zero if cotangents.t is None else cotangents.t
    on_x = x if cotangents.x is None else cotangents.x
    hints = jnp.full((march.solver.stages, march.equation.plan.count), result.count)
    adjoint = _Adjoint(
        on_rows,
        jnp.zeros(result.points.table.shape[0]),
        jax.tree.map(jnp.zeros_like, params),
        on_t,
        on_x,
        hints,
    )

    def visit(n, adjoint):
        return _visit(params, fixed, result, result.count - 1 - n, adjoint)

    adjoint = lax.fori_loop(0, result.count, visit, adjoint)
    # The beginning: the state at time zero, and the jumps of the history.
    _, pull = jax.vjp(lambda p: eqx.combine(p, fixed).equation.start(), params)
    total = jax.tree.map(jnp.add, adjoint.march, pull(adjoint.x)[0])
    count = march.switches.count
    if count > 0:
        is_history = hold(march.switches.times) < 0
        on_switches = jnp.where(is_history, adjoint.points[:count], 0.0)
        total = eqx.tree_at(
            lambda m: m.switches.times, total, total.switches.times + on_switches
        )
    return total


def _visit(params, fixed, result: MarchResult, i: Any, adjoint: _Adjoint) -> _Adjoint:
    """Go back over step `i`."""
    march, path = eqx.combine(params, fixed), result.path
    d = march.equation.dimension
    row = read(path, i)
    coefficients, origin, length = unpack(row, d)
    ending = ending_of(row)
    table = result.points.table
    before = read(path, jnp.maximum(i - 1, 0)), i > 0
    step = origin, coefficients[0], length
    sides = sides_of(march.equation, table, before, step, ending)
    start = StepStart(*step, sides)
    given = PathRows(d, False, path, i)
    place = march.equation, lambda _: given, start
    hints = march.solver.reads(*place, coefficients, adjoint.hints)
    rows = path[hints]
    goal = jnp.take(table[:, 0], ending.entry, mode="clip")
    inputs = _Inputs(params, origin, coefficients[0], rows, goal)
    end = origin + length

    def piece(inputs: _Inputs, guess: jax.Array) -> jax.Array:
        march = eqx.combine(inputs.march, fixed)
        start = StepStart(inputs.t, inputs.x, end - inputs.t, sides)

        def rows_of(stage):
            return GivenRows(d, True, read(inputs.rows, stage))

        return march.solver.piece(march.equation, rows_of, start, guess, hints)

    def node(inputs: _Inputs, coefficients: jax.Array):
        march = eqx.combine(inputs.march, fixed)
        start = StepStart(inputs.t, inputs.x, end - inputs.t, sides)
        end_node = march.end_node(start, coefficients, ending, inputs.goal)
        return end_node.t, end_node.x

    made = jnp.clip(ending.made, 0, adjoint.points.shape[0] - 1)
    on_made = jnp.where(ending.made >= 0, read(adjoint.points, made), 0.0)
    _, pull_node = jax.vjp(node, inputs, coefficients)
    total, on_piece = pull_node((adjoint.t + on_made, adjoint.x))
    on_row = read(adjoint.rows, i)
    on_coefficients, on_origin, on_length = unpack(on_row, d)
    on_coefficients = on_coefficients + on_piece
    _, pull_piece = jax.vjp(piece, inputs, coefficients)
    on_inputs = march.solver.pull(pull_piece, on_coefficients)
    total = jax.tree.map(jnp.add, total, on_inputs)
    entry = jnp.clip(ending.entry, 0, adjoint.points.shape[0] - 1)
    is_read = (ending.read >= 0) & (ending.read < len(march.tracked))
    on_goal = read(adjoint.points, entry) + jnp.where(is_read, total.goal, 0.0)
    return _Adjoint(
        _scatter(adjoint.rows, hints, total.rows),
        write(adjoint.points, entry, on_goal),
        jax.tree.map(jnp.add, adjoint.march, total.march),
        total.t + on_origin - on_length,
        total.x,
        hints,
    )


def _scatter(table: jax.Array, hints: jax.Array, rows: jax.Array) -> jax.Array:
    """Add each of the rows [stages, reads, size] to the row of the table that was
    read."""
    numbers, rows = hints.ravel(), rows.reshape(-1, rows.shape[-1])

    def add(n, table):
        j = read(numbers, n)
        return write(table, j, read(table, j) + read(rows, n))

    return lax.fori_loop(0, numbers.shape[0], add, table)
