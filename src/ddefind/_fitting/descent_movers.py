"""What moves the nodes of a descent, and whether a point can be solved at all.

The *movers* are the delay on an aligned grid, the delays and switches on a mesh, and
the typical delays with adaptive steps, which need no more than to be shown."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._problem.general_delays import typical_delays
from .._problem.problem import Problem
from .._solve.adaptive_solution import GROWTH, AdaptiveRoom
from .._solve.mesh import Mesh
from .._solve.mesh_path import movers_of
from .._solve.system import System

# A fit that needs more rows than this steps back instead.
MAX_ROWS = 1 << 17


def movers_at(system: System, params: Problem) -> jax.Array:
    """The movers of the problem with these parameters."""
    if isinstance(system.grid, Mesh):
        return movers_of(eqx.combine(params, system.fixed))
    if isinstance(system.grid, AdaptiveRoom):
        problem = eqx.combine(params, system.fixed)
        return typical_delays(problem.tau, problem.start)
    return params.tau


def is_feasible(system: System, movers: jax.Array) -> jax.Array:
    """Which delays are positive and, on an aligned grid, need few enough rows. A delay
    that varies may begin with zero."""
    if isinstance(system.grid, Mesh):
        delays = system.grid.delays(movers)
        return jnp.all(delays > 0) & jnp.all(jnp.isfinite(movers))
    if isinstance(system.grid, AdaptiveRoom):
        return jnp.all(movers >= 0) & jnp.all(jnp.isfinite(movers))
    shortest = system.T * system.grid.n / (MAX_ROWS // 2)
    return (movers > shortest) & jnp.isfinite(movers)


def rows_needed(system: System, movers: jax.Array) -> Any:
    """The number of rows that are needed, as far as it is known in advance: with
    adaptive steps it is not."""
    if isinstance(system.grid, Mesh):
        return system.grid.rows_needed(movers)
    if isinstance(system.grid, AdaptiveRoom):
        return jnp.asarray(0)
    return system.grid.last(system.T, movers)


def lacked_rows(system: System, buffers: Any) -> jax.Array:
    """Whether an evaluation that left these buffers had too few rows, and could have
    more. Only with adaptive steps this is not known in advance."""
    if not isinstance(system.grid, AdaptiveRoom):
        return jnp.asarray(False)
    return ~buffers & (GROWTH * system.grid.capacity <= MAX_ROWS)
