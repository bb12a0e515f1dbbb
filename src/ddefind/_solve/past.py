"""The past: how a step gets the delayed states x(t - tau) that its stages need.

Step i leads from row i to row i + 1, while the delayed time moves from the place i of
the path to the place i + 1 (see `grid.py`). At the two ends of the step the delayed
state is therefore the state of a row. At a fraction c between them it is

- the history itself, in the first n steps: exact, and evaluated beforehand;
- the Hermite piece between the two rows, afterwards.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp

from .._problem.problem import Problem
from .._util.buffers import read
from .grid import Grid
from .hermite import hermite
from .path import AbstractPathStorage
from .runge_kutta import AbstractSolver
from .system import System


class HistoryStates(NamedTuple):
    """The history at every time at which the first n steps need it.

    - `rows`, [delay_rows, d]: the states with which a path begins.
    - `inside`, for each of the solver's fractions c other than 1 an array [n, d]: the
      states at the fraction c of each of these steps.
    """

    rows: jax.Array
    inside: dict[float, jax.Array]


def inner_fractions(solver: AbstractSolver) -> list[float]:
    """The fractions of a step, without its ends, at which a solver has stages."""
    return [c for c in solver.fractions if c != 1]


def history_states(system: System, params: Problem) -> HistoryStates:
    """The history of a problem, evaluated for the first n steps."""
    n, h = system.grid.n, system.grid.step(params.tau)

    def at(position):
        return system.history(params.history, (position - n) * h)

    positions = jnp.arange(n, dtype=h.dtype)
    return HistoryStates(
        jax.vmap(at)(jnp.arange(system.grid.delay_rows, dtype=h.dtype)),
        {c: jax.vmap(at)(positions + c) for c in inner_fractions(system.solver)},
    )


class AbstractPast(abc.ABC):
    """How a march keeps its rows and gets the delayed states of its steps.

    A cursor may be needed to find them; it is handed from step to step. `overlaps` says
    whether a delay may be shorter than a step."""

    overlaps: bool

    @abc.abstractmethod
    def write(self, path: Any, i: Any, x: Any, slope: Any) -> Any:
        """The path with row `i`."""

    @abc.abstractmethod
    def during_step(
        self, path: Any, i: Any, cursor: Any
    ) -> tuple[Callable[[Any], tuple[list, Any]], Any]:
        """A function that returns the delayed states of step `i`, at each of the
        solver's fractions and at its end; and the moved cursor. Where delays may be
        shorter than the step, the argument of the function are the state and the slope
        at the end of the step itself."""

    def is_inside(self, i: Any) -> Any:
        """Whether a delay is shorter than step `i`."""
        return False


@final
@dataclass(frozen=True)
class Past(AbstractPast):
    """Reads the delayed states from the rows of a path on an aligned grid.

    - `fractions`: those of the solver, in (0, 1].
    - `storage`: how the rows are kept.
    - `inside`: the history inside the first n steps, as in `HistoryStates`.
    - `step_size`: h in the unit of time of the slopes that the rows hold.
    """

    grid: Grid
    fractions: tuple[float, ...]
    storage: AbstractPathStorage
    inside: dict[float, jax.Array]
    step_size: Any

    # A delay is a whole number of steps.
    overlaps = False

    def write(self, path, i, x, slope):
        row = jnp.stack([x, slope])
        return self.storage.write(path, i + self.grid.delay_rows, row)

    def at_start(self, path: jax.Array) -> jax.Array:
        """The delayed state at time zero, the beginning of step 0."""
        return self.storage.read(path, 0)[0]

    def during_step(self, path: jax.Array, i: Any, cursor: tuple[()]):
        """Where the delayed states of step `i` stand follows from `i`: the cursor is
        empty."""
        left, right = self.piece(path, i)
        return lambda _: (self.at_fractions(i, left, right), right[0]), cursor

    def piece(self, path: jax.Array, i: Any) -> tuple[jax.Array, jax.Array]:
        """The two rows between which the delayed time moves during step `i`."""
        return self.storage.read(path, i), self.storage.read(path, i + 1)

    def at_fractions(self, i: Any, left: jax.Array, right: jax.Array):
        """The delayed state at each of the solver's fractions of step `i`, given the
        two rows of its piece."""

        def at(c: float):
            if c == 1:
                return right[0]
            early = read(self.inside[c], jnp.minimum(i, self.grid.n - 1))
            later = hermite(c, left, right, self.step_size)
            return jnp.where(i < self.grid.n, early, later)

        return [at(c) for c in self.fractions]
