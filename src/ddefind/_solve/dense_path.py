"""A solved path as a function of time: on an aligned grid, on a mesh, or with adaptive
steps."""

import abc
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._adaptive.pieces import origins, state_at
from .._problem.doses import Doses
from .._util.arrays import is_concrete
from .grid import Grid
from .mesh_path import MeshPath
from .path import DenseOutput


class AbstractDensePath(eqx.Module):
    """A solved path on [0, T]."""

    @abc.abstractmethod
    def __call__(self, t: jax.Array) -> jax.Array:
        """The state at the time `t`."""

    @abc.abstractmethod
    def nodes(self, T: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The times of the nodes and the states there, with T for the last node, which
        is repeated up to a fixed length."""

    @abc.abstractmethod
    def node_count(self) -> int | None:
        """The number of nodes, or None inside a compiled program."""


@final
class AlignedDensePath(AbstractDensePath):
    """A path on a grid that is aligned with the one delay `tau`."""

    tau: jax.Array
    last: jax.Array
    path: jax.Array
    grid: Grid = eqx.field(static=True)

    def __call__(self, t):
        return DenseOutput(self.grid, self.path, self.grid.step(self.tau), self.last)(t)

    def nodes(self, T):
        grid, final = self.grid, self.grid.node(self.last)
        node = jnp.minimum(jnp.arange(grid.capacity), final)
        t = jnp.where(node == final, T, node * grid.step(self.tau))
        inner = self.path[grid.row(node) + grid.delay_rows, 0]
        return t, jnp.where((node == final)[:, None], self(T), inner)

    def node_count(self):
        return int(self.grid.node(self.last)) + 1 if is_concrete(self.last) else None


@final
class MeshDensePath(AbstractDensePath):
    """A path on a mesh."""

    path: MeshPath

    def __call__(self, t):
        return self.path(t)

    def nodes(self, T):
        # Nodes with two rows count once. Behind the last node it is repeated.
        times = jnp.minimum(self.path.times, T)
        t = jnp.unique(times, size=times.shape[0], fill_value=T)
        return t, jax.vmap(self)(t)

    def node_count(self):
        if not is_concrete(self.path.last):
            return None
        times = np.asarray(self.path.times)[: int(self.path.last) + 1]
        return len(np.unique(times))


@final
class AdaptiveDensePath(AbstractDensePath):
    """A path of pieces with adaptive steps, of which `count` rows are complete. The
    state has `observed` of the `dimension` components of a piece."""

    rows: jax.Array
    count: jax.Array
    dimension: int = eqx.field(static=True)
    observed: int = eqx.field(static=True)

    def __call__(self, t):
        return state_at(self.rows, self.count, t, self.dimension)[: self.observed]

    def nodes(self, T):
        number = jnp.arange(self.rows.shape[0] + 1)
        times = jnp.append(origins(self.rows), T)
        t = jnp.where(number < self.count, times, T)
        return t, jax.vmap(self)(t)

    def node_count(self):
        return int(self.count) + 1 if is_concrete(self.count) else None


@final
class DosedDensePath(AbstractDensePath):
    """The path of a state with doses, from that of its continuous part."""

    path: AbstractDensePath
    doses: Doses

    def __call__(self, t):
        return self.doses.state(self.path(t), t)

    def nodes(self, T):
        t, z = self.path.nodes(T)
        return t, jax.vmap(self.doses.state)(z, t)

    def node_count(self):
        return self.path.node_count()
