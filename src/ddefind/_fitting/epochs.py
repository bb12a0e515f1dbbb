"""The epochs of gradient descent as one compiled program, for one fit or for many.

The program runs a number of epochs and returns, so that Python can report progress,
enlarge buffers or stop. Everything that changes is in one `State`. Where many fits run
side by side, each array has a last axis over them.

A point whose loss or gradient is not finite, or whose delay is not positive, is not
accepted. The fit then goes back to the last accepted point and halves its step, until a
point is accepted or the step is too small to change anything.

The engine knows what moves the nodes, the *movers*, and where a march is possible."""

from typing import TYPE_CHECKING, Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from .._engine.engine import AbstractEngine, System
from .._loss.gradients import AbstractGradient
from .._loss.losses import AbstractLoss, Target
from .._problem.free_parameters import FreeParameters
from .._problem.problem import Problem
from .._problem.without_doses import without_doses
from .._util.arrays import write

if TYPE_CHECKING:
    from .optimizers import AbstractOptimizer


# A loss larger than the best one by more than this factor counts as non-finite.
_RUNAWAY = 1e10

RUNNING, FINISHED, REACHED, SETTLED, FAILED, NO_START = range(6)  # State.status


class EpochState(NamedTuple):
    """The state of a fit."""

    z: Any  # the unconstrained vector to evaluate next
    good: Any  # the last accepted one
    step: Any  # the optimiser's step from `good`
    share: Any  # the share of `step` that is taken, halved while points are refused
    best: Any
    best_loss: Any
    optimizer: Any
    epoch: Any
    status: Any


class EpochLog(NamedTuple):
    """The losses and points of one call, a row for each epoch."""

    loss: Any
    z: Any


@final
class Descent(eqx.Module):
    """What does not change while the program runs; all fits of a call share it."""

    free: FreeParameters = eqx.field(static=True)
    learned: Problem
    fixed: Problem
    loss: AbstractLoss
    optimizer: "AbstractOptimizer"
    gradient: AbstractGradient
    engine: AbstractEngine
    threshold: jax.Array
    epochs: int = eqx.field(static=True)
    dimension: int = eqx.field(static=True)

    @property
    def transformation(self):
        return self.optimizer.transformation(self.epochs)

    def params(self, z):
        """Return the learned parameters of an unconstrained vector."""
        return without_doses(self.free.join(z, self.learned))


@eqx.filter_jit
def begin(descent: Descent, z) -> EpochState:
    """Return the state before the first epoch, from one unconstrained vector or from a
    column for each fit."""
    lanes = z.shape[1:]
    init = descent.transformation.init
    init = jax.vmap(init, in_axes=-1, out_axes=-1) if lanes else init
    zero, one = jnp.zeros(lanes, int), jnp.ones(lanes)
    return EpochState(
        z, z, jnp.zeros_like(z), one, z, one * jnp.inf, init(z), zero, zero
    )


@eqx.filter_jit
def run(
    descent: Descent,
    state: EpochState,
    target: Target,
    T: jax.Array,
    stop: jax.Array,
    grid: Any,
    rows: int,
    keep_path: bool,
) -> tuple[EpochState, EpochLog, jax.Array, jax.Array, jax.Array]:
    """Run epochs until every fit has ended, `rows` epochs are over, epoch `stop` is
    reached, or a solution needs more rows than there is room for.

    Returns the state, the log if `keep_path`, the movers of the points that come next,
    the number of epochs that were run, and whether there was too little room."""
    lanes = state.z.shape[1] if state.z.ndim == 2 else None
    fixed = without_doses(descent.fixed)
    system = System(fixed, descent.engine, grid, T, descent.dimension, lanes)
    buffers = descent.gradient.buffers(system)
    log = EpochLog(
        jnp.full((rows, *jnp.shape(state.best_loss)), jnp.nan),
        jnp.zeros((rows, *state.z.shape)) if keep_path else None,
    )

    def going(carry):
        state, _, _, row, overflow = carry
        active = (state.status == RUNNING) & (state.epoch < stop)
        return jnp.any(active) & (row < rows) & ~overflow

    def epoch(carry):
        state, buffers, log, row, _ = carry
        # Without enough room the state stays, to be evaluated again with more.
        after, buffers, found, overflow = _epoch(
            descent, system, state, buffers, target
        )
        loss = write(log.loss, row, found)
        z = write(log.z, row, state.z) if keep_path else None
        row = jnp.where(overflow, row, row + 1)
        return after, buffers, EpochLog(loss, z), row, overflow

    carry = (state, buffers, log, jnp.asarray(0), jnp.asarray(False))
    state, _, log, row, overflow = lax.while_loop(going, epoch, carry)
    movers = _movers(descent, system, state.z)
    usable = descent.engine.is_feasible(system, movers)
    movers = jnp.where(usable, movers, _movers(descent, system, state.good))
    return state, log, movers, row, overflow


def _movers(descent: Descent, system: System, z):
    """Return the movers at an unconstrained vector."""
    return system.engine.movers(system, descent.params(z))


def _epoch(descent: Descent, system: System, state: EpochState, buffers, target):
    """Evaluate and step all fits that run. Nothing changes if a solution needs more
    rows than there are, which is the last result."""
    engine, movers = system.engine, _movers(descent, system, state.z)
    feasible = engine.is_feasible(system, movers)
    fits = feasible & (state.status == RUNNING)
    rows = engine.rows_needed(system, jnp.where(fits, movers, 1.0))
    overflow = jnp.any(jnp.where(fits, rows, 0) >= system.grid.capacity)
    # Where the delay cannot be solved with, the last accepted point is solved instead.
    point = jnp.where(feasible, state.z, state.good)
    rests = ~engine.is_feasible(system, _movers(descent, system, point)) | overflow
    loss, slope, buffers = _evaluate(descent, system, target, point, buffers, rests)
    overflow |= engine.lacked_rows(system, buffers)
    running = (state.status == RUNNING) & ~overflow
    finite = jnp.isfinite(loss) & jnp.all(jnp.isfinite(slope), axis=0)
    finite &= ~(loss > _RUNAWAY * state.best_loss)
    ok = running & feasible & finite

    update, optimizer = _update(descent, system, target, state, slope, loss, ok)
    share = jnp.where(ok, 1.0, 0.5 * state.share)
    step = jnp.where(ok, update, state.step)
    good = jnp.where(ok, state.z, state.good)
    z = good + share * step
    stuck = jnp.all(z == good, axis=0)
    better = ok & (loss < state.best_loss)
    is_last = state.epoch >= descent.epochs
    status = jnp.select(
        [
            ok & (loss < descent.threshold),
            ok & is_last,
            ok & stuck,
            ok,
            jnp.isinf(state.best_loss),
            is_last,
            stuck,
        ],
        [REACHED, FINISHED, SETTLED, RUNNING, NO_START, FINISHED, FAILED],
        RUNNING,
    )
    moves = status == RUNNING
    after = EpochState(
        z=jnp.where(moves, z, state.z),
        good=good,
        step=step,
        share=share,
        best=jnp.where(better, state.z, state.best),
        best_loss=jnp.where(better, loss, state.best_loss),
        optimizer=optimizer,
        epoch=jnp.where(moves, state.epoch + 1, state.epoch),
        status=status,
    )
    after = jax.tree.map(lambda new, old: jnp.where(running, new, old), after, state)
    shown = jnp.where(feasible & finite, loss, jnp.inf)
    return after, buffers, jnp.where(running, shown, jnp.nan), overflow


def _evaluate(descent: Descent, system: System, target, z, buffers, rests):
    """Compute the loss and its gradient for the unconstrained vector."""
    params, back = jax.vjp(descent.params, z)
    params = system.engine.at_rest(system, params, rests)
    loss, gradient, buffers = descent.gradient(
        system, descent.loss, target, params, buffers
    )
    (slope,) = back(gradient)
    return loss, slope, buffers


def _update(
    descent: Descent, system: System, target, state: EpochState, slope, loss, ok
):
    """Return the optimiser's step and its new state, where the point was accepted."""
    transformation = descent.transformation
    safe = jnp.where(ok, slope, 0.0)
    if descent.optimizer.elementwise:
        update = transformation.update
        if system.lanes is not None:
            update = jax.vmap(update, in_axes=-1, out_axes=-1)
        step, optimizer = update(safe, state.optimizer, state.z)
    else:
        step, optimizer = transformation.update(
            safe,
            state.optimizer,
            state.z,
            value=loss,
            grad=safe,
            value_fn=_line_search_value(descent, system, target),
        )
    optimizer = jax.tree.map(
        lambda new, old: jnp.where(ok, new, old), optimizer, state.optimizer
    )
    return jnp.where(ok, step, 0.0), optimizer


def _line_search_value(descent: Descent, system: System, target):
    """Return the loss as a function that JAX can differentiate by the chosen route. It
    is infinite where the grid has no room, so that a line search turns back there."""

    def both(z):
        engine, movers = system.engine, _movers(descent, system, z)
        feasible = engine.is_feasible(system, movers)
        rows = engine.rows_needed(system, jnp.where(feasible, movers, 1.0))
        feasible &= rows < system.grid.capacity
        buffers = descent.gradient.buffers(system)
        loss, slope, _ = _evaluate(descent, system, target, z, buffers, ~feasible)
        good = feasible & jnp.isfinite(loss)
        return jnp.where(good, loss, jnp.inf), jnp.where(good, slope, 0.0)

    @jax.custom_vjp
    def value(z):
        return both(z)[0]

    value.defvjp(both, lambda slope, cotangent: (cotangent * slope,))
    return value
