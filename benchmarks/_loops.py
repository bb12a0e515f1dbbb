"""Loops as a fit compiles them: all epochs in one program that keeps its buffers."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

import ddefind as dd
from ddefind._engine.aligned.engine import AlignedEngine
from ddefind._engine.aligned.path import make_grid
from ddefind._engine.engine import System

from ._cases import STEPS_PER_DELAY, Case

# Small enough to stay where it started, too large for XLA to leave the step out.
RATE = 1e-9


def _setup(case: Case, loss, n: int):
    params, fixed = eqx.partition(case.problem, eqx.is_inexact_array)
    grid = make_grid(
        case.problem.initial is not None, case.data.T, n, float(case.problem.tau)
    )
    engine = AlignedEngine(dd.RK2())
    system = System(fixed, engine, grid, case.data.T, case.problem.dimension)
    return system, params, jax.tree.map(jnp.asarray, loss.prepare(case.data))


def _compiled(function, *arguments) -> Callable[[], object]:
    program = jax.jit(function).lower(*arguments).compile()
    return lambda: jax.block_until_ready(program(*arguments))


def gradient_loop(case: Case, loss, epochs: int, n: int = STEPS_PER_DELAY):
    """A job of `epochs` steps of gradient descent: value and gradient, nothing more."""
    system, params, target = _setup(case, loss, n)

    def descend(params, target):
        def epoch(_, carry):
            params, buffers = carry
            _, slope, buffers = dd.Discrete()(system, loss, target, params, buffers)
            return jax.tree.map(lambda p, g: p - RATE * g, params, slope), buffers

        carry = params, system.engine.buffers(system)
        return lax.fori_loop(0, epochs, epoch, carry)[0]

    return _compiled(descend, params, target)


def value_loop(case: Case, loss, epochs: int, n: int = STEPS_PER_DELAY):
    """A job of `epochs` losses without gradient; each moves `tau` for the next."""
    system, params, target = _setup(case, loss, n)

    def evaluate(params, target):
        def epoch(_, carry):
            tau, path = carry
            moved = eqx.tree_at(lambda p: p.tau, params, tau)
            cost = loss.path_cost(system, target)
            value, path = system.engine.loss(system, cost, moved, path)
            return tau - RATE * value, path

        start = params.tau, system.engine.path(system)
        return lax.fori_loop(0, epochs, epoch, start)[0]

    return _compiled(evaluate, params, target)
