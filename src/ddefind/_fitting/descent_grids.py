"""The time grids of many descents.

`AlignedGrids` serve problems with one constant delay: many fits run side by side, and
one grid with enough room serves them all. `Meshes` serve all other problems: each fit
has a mesh of its own, whose steps are chosen at its start and held, and runs alone.
`AdaptiveRooms` serve adaptive solvers: there is no grid, but room for the steps.
"""

import abc
from collections.abc import Sequence
from dataclasses import replace
from typing import final

import numpy as np

from .._adaptive.methods import AbstractAdaptive
from .._problem.general_delays import typical_delays
from .._problem.problem import Problem
from .._solve.adaptive_solution import GROWTH, AdaptiveRoom
from .._solve.grid import Grid
from .._solve.mesh import Mesh, make_mesh
from .._solve.runge_kutta import AbstractSolver
from .._solve.time_grid import make_grid, mover_values, needs_mesh, time_grid
from .request import distinct

# How much shorter the steps may become before a mesh needs more room.
_ROOM = 0.25


class AbstractGrids(abc.ABC):
    """The grids of many fits.

    - `movers`: one column for each fit: what moves the nodes, the delays first.
    - `delays`: the number of delays.
    - `side_by_side`: whether several fits can run in one program.
    """

    movers: np.ndarray
    delays: int
    side_by_side: bool

    @property
    def longest(self) -> np.ndarray:
        """The longest delay of each fit."""
        return self.movers[: self.delays].max(axis=0)

    @abc.abstractmethod
    def reserve(self, active: np.ndarray, overflow: bool) -> None:
        """Make room for the present movers of the `active` fits. `overflow` says that
        one of them found too few rows."""

    @abc.abstractmethod
    def grid(self, block: np.ndarray) -> Grid | Mesh | AdaptiveRoom:
        """The grid on which the fits of a block run."""


@final
class AlignedGrids(AbstractGrids):
    """One grid, aligned with the delay of each fit."""

    delays = 1
    side_by_side = True

    def __init__(self, movers: np.ndarray, T: np.ndarray, jump: bool, n: int):
        self.movers, self.T, self.jump, self.n = movers, T, jump, n
        self.capacity = 0

    def reserve(self, active: np.ndarray, overflow: bool) -> None:
        """Reserve rows for the shortest delay. When they run short, rows are reserved
        for a delay eight times shorter: rows cost nothing, but a program of another
        size is compiled again."""
        ratio = float(np.max(self.T[active] / self.movers[0, active]))
        if make_grid(self.jump, ratio, self.n, 0.5).capacity > self.capacity:
            self.capacity = make_grid(self.jump, ratio, self.n, 1 / 16).capacity

    def grid(self, block: np.ndarray) -> Grid:
        return Grid(self.n, self.jump, self.capacity)


@final
class Meshes(AbstractGrids):
    """One mesh for each fit."""

    side_by_side = False

    def __init__(
        self,
        problems: Sequence[Problem],
        T: np.ndarray,
        solver: AbstractSolver,
        n: int,
    ):
        self.movers = np.stack([mover_values(each) for each in problems], axis=1)
        self.meshes = [
            _mesh(each, float(end), solver, n) for each, end in zip(problems, T)
        ]
        self.delays = self.meshes[0].points.delays
        self._use_one_capacity(max(mesh.capacity for mesh in self.meshes))

    def _use_one_capacity(self, capacity: int) -> None:
        """Give all meshes the same room, so that one program serves them."""
        self.capacity = capacity
        self.meshes = [_with_capacity(mesh, capacity) for mesh in self.meshes]

    def reserve(self, active: np.ndarray, overflow: bool) -> None:
        """Give a fit whose rows have no room left a new mesh, and all more room. Where
        a step may soon be longer than a delay, the march is prepared for it."""
        for fit in active:
            shortest = np.min(self.movers[: self.delays, fit])
            if self.meshes[fit].longest_step(self.movers[:, fit]) > 0.5 * shortest:
                self.meshes[fit] = replace(self.meshes[fit], overlaps=True)
            while self._is_full(fit):
                mesh, movers = self.meshes[fit], self.movers[:, fit]
                self.meshes[fit] = make_mesh(
                    mesh.points,
                    movers,
                    float(mesh.T),
                    float(mesh.tail),
                    mesh.capacity,
                    mesh.overlaps,
                    np.asarray(mesh.constants),
                )
                self._use_one_capacity(2 * self.capacity)

    def _is_full(self, fit: int) -> bool:
        return bool(self.meshes[fit].rows_in(self.movers[:, fit]) >= self.capacity)

    def grid(self, block: np.ndarray) -> Mesh:
        return self.meshes[int(block[0])]


@final
class AdaptiveRooms(AbstractGrids):
    """Room for adaptive steps, the same for all fits."""

    side_by_side = False

    def __init__(self, problems: Sequence[Problem]):
        known = {
            id(each): np.asarray(typical_delays(each.tau, each.start))
            for each in distinct(problems)
        }
        self.movers = np.stack([known[id(each)] for each in problems], axis=1)
        self.delays = len(self.movers)
        self.room = AdaptiveRoom()

    def reserve(self, active: np.ndarray, overflow: bool) -> None:
        """The number of steps is known only after they were made."""
        if overflow:
            self.room = AdaptiveRoom(GROWTH * self.room.capacity)

    def grid(self, block: np.ndarray) -> AdaptiveRoom:
        return self.room


def _mesh(problem: Problem, T: float, solver: AbstractSolver, n: int) -> Mesh:
    mesh = time_grid(problem, T, solver, n, shrink=_ROOM)
    assert isinstance(mesh, Mesh)
    return mesh


def _with_capacity(mesh: Mesh, capacity: int) -> Mesh:
    return replace(mesh, capacity=capacity)


def make_grids(
    problems: Sequence[Problem],
    T: np.ndarray,
    solver: AbstractSolver | AbstractAdaptive,
    n: int,
) -> AbstractGrids:
    """The grids of fits that start from these problems."""
    if isinstance(solver, AbstractAdaptive):
        return AdaptiveRooms(problems)
    first = problems[0]
    if needs_mesh(first):
        return Meshes(problems, T, solver, n)
    known = {id(each): float(each.tau) for each in distinct(problems)}
    tau = np.array([known[id(problem)] for problem in problems])
    return AlignedGrids(tau[None], T, first.has_jump, n)
