"""The grid: where the nodes of a solution are in time, and in which rows of a path.

The equation has one constant delay tau, and a step has the length h = tau / n. Node k
is at the time k h. This has two consequences:

- the *breaking points* of the solution, the multiples of tau at which one of its
  derivatives jumps, are nodes, so that a solver keeps its order;
- one delay before a node there is another node, n steps earlier.

Two numberings are used throughout this folder. *Row* i >= 0 is the i-th node from time
zero on. A *path* stores the rows in order, after `delay_rows` rows with the history:
row i is at the place i + `delay_rows` of a path. Therefore the place i holds the
state one delay before row i, whatever tau is.
"""

import abc
from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp


class AbstractRowTimes(abc.ABC):
    """The times of the rows of a march."""

    @abc.abstractmethod
    def node(self, i: Any) -> Any:
        """Return the time of row `i`."""

    @abc.abstractmethod
    def stage(self, i: Any, c: float) -> Any:
        """Return the time at the fraction `c` of the step that begins at row `i`."""

    @abc.abstractmethod
    def length(self, i: Any, h: Any) -> Any:
        """Return the length of the step that begins at row `i`, in the unit of time of
        the slopes; `h` is the usual length of a step, where there is one."""


@final
@dataclass(frozen=True)
class Grid(AbstractRowTimes):
    """Nodes at the multiples of h = tau / n, and the rows in which they are kept.

    - `n`: the number of steps in a delay. It fixes the shape of a stored path and is
      then an integer; a march that keeps its rows in a ring may have a traced one.
    - `jump`: whether x(0) differs from the history at 0. The slope x' then jumps at
      every multiple of tau, and each of these nodes has two rows, one for each side,
      with a step of length zero between them.
    - `capacity`: how many rows a path has room for, beside the history.
    """

    n: Any
    jump: bool
    capacity: int

    @property
    def delay_rows(self) -> Any:
        """The number of rows in one delay."""
        return self.n + 1 if self.jump else self.n

    def step(self, tau: Any) -> Any:
        """Return the step size h."""
        return tau / self.n

    def node(self, i: Any) -> Any:
        """Return the number of the node in row `i`: its time divided by h."""
        return i - i // self.delay_rows if self.jump else i

    def stage(self, i: Any, c: float) -> Any:
        """Return the time at the fraction `c` of the step from row `i`, over h."""
        return self.node(i) + c

    def length(self, i: Any, h: Any) -> Any:
        """Return the length of the step from row `i`: `h`, or zero between the two rows
        of one node."""
        return jnp.where(i % self.delay_rows == self.n, 0.0, h) if self.jump else h

    def last(self, T: Any, tau: Any) -> Any:
        """Return the row of the first node at or after the time `T`."""
        # A T that is a multiple of h up to rounding must not cost a further step.
        steps = jnp.ceil(T / self.step(tau) - 1e-9).astype(int)
        return self.rows(jnp.maximum(steps, 1))

    def rows(self, steps: Any) -> Any:
        """Return the row at which step number `steps` ends, counted from one."""
        return steps + (steps - 1) // self.n if self.jump else steps

    def row(self, node: Any) -> Any:
        """Return the row at which the step after node number `node` begins."""
        return node + node // self.n if self.jump else node
