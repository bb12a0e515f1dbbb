r"""The engine for delays of every kind: steps that are chosen by their error.

The number n of a fit stands for the tolerance. The error of a method of order p falls
by $2^p$ if its steps are halved, and so does the tolerance if n is doubled,

$$\mathrm{rtol}(n) = \mathrm{rtol}\,(3 / n)^p,$$

with the tolerance of the user's solver at n = 3, and a coarse one at n = 1."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._problem.general_delays import is_general, typical_delays
from ..._problem.problem import Problem
from ..._problem.without_doses import without_doses
from ..engine import MAX_ROWS, AbstractEngine, AbstractGrids, System, of_each
from .methods import AbstractAdaptive
from .sensitivity import AdaptiveSensitivity, AdaptiveSteps
from .solution import FEW_ROWS, GROWTH, adaptive_path, solve_adaptive

# The numbers n of preliminary fits and of refinements.
_COARSE, _USUAL = 1, 3
# The usual number of rows of a path of a fit.
_CAPACITY = 2048
# The choice of the steps depends on the parameters, so that the error of a solution
# jumps. For differences it is made as small as this tolerance; and the relative change
# of a parameter for them.
_RTOL_OF_DIFFERENCES, _CHANGE = 1e-11, 1e-3


@final
@dataclass(frozen=True)
class AdaptiveRoom:
    """The largest number of rows of a path with adaptive steps, in place of a grid."""

    capacity: int = FEW_ROWS


@final
class AdaptiveEngine(AbstractEngine):
    """Adaptive steps, none of them longer than `max_step`."""

    solver: AbstractAdaptive
    max_step: float = eqx.field(static=True, default=math.inf)

    is_costly: ClassVar[bool] = True
    in_arrays: ClassVar[bool] = False

    def solve(self, problem, T, n, differentiate, max_steps):
        limits = max_steps, self.max_step
        return solve_adaptive(problem, T, self.solver, differentiate, *limits)

    def grid(self, problem, T, n, shrink=1.0):
        return AdaptiveRoom()

    def larger_grid(self, grid, problem, T, loss):
        if jnp.isfinite(loss):
            return None
        # Either the rows were too few, or there is no solution, or the loss of the
        # solution is not finite.
        problem = without_doses(problem)
        needed = solve_adaptive(problem, T, self.solver, "forward").rows.shape[0]
        return AdaptiveRoom(needed) if needed > grid.capacity else None

    def finer_steps(self, delay, T, n):
        return iter(())

    def refusal(self, problem, route):
        if is_general(problem.tau):
            return (
                f"`{route}()` is a formula for delays that are numbers, but this "
                "problem has a delay that depends on time or state, is neutral or "
                "distributed. Use `Discrete()` or `Forward()`."
            )
        name = type(self.solver).__name__
        return (
            f"`{route}()` is for fixed steps, and `{name}()` chooses its steps by "
            "the error. Use `Discrete()` or `Forward()`, or `solver=dd.RK4()`."
        )

    def for_differences(self):
        rtol = min(self.solver.rtol, _RTOL_OF_DIFFERENCES)
        return replace(self, solver=self.solver.with_tolerance(rtol)), _CHANGE

    # A loss in a compiled program. Its memory is only whether the path had enough rows.
    # There is no grid that a loss could use in advance: it reads the solved path as a
    # function of time, and JAX differentiates this reading.

    def path(self, system):
        return jnp.asarray(True)

    def buffers(self, system):
        return jnp.asarray(True)

    def loss(self, system, cost, params, path):
        return self._loss(system, cost, params, "forward")

    def _loss(self, system: System, cost: Any, params: Problem, differentiate: str):
        problem = eqx.combine(params, system.fixed)
        capacity = system.grid.capacity
        x, has_room = adaptive_path(
            problem, system.T, self.solver, differentiate, capacity
        )
        return cost.total(params, x), has_room

    def gradient(self, system, cost, params, buffers):
        def value(params):
            return self._loss(system, cost, params, "reverse")

        run = jax.value_and_grad(value, has_aux=True)
        (total, has_room), gradient = run(params)
        return total, gradient, has_room

    # Gradient descent.

    def grids(self, problems, T, n):
        return AdaptiveRooms(problems)

    def movers(self, system, params):
        """Return the typical delays, which are only shown."""
        problem = eqx.combine(params, system.fixed)
        return typical_delays(problem.tau, problem.start)

    def is_feasible(self, system, movers):
        """Whether the delays are not negative: one that varies may begin with zero."""
        return jnp.all(movers >= 0) & jnp.all(jnp.isfinite(movers))

    def rows_needed(self, system, movers):
        return jnp.asarray(0)

    def lacked_rows(self, system, buffers):
        return ~buffers & (GROWTH * system.grid.capacity <= MAX_ROWS)

    def at_rest(self, system, params, rests):
        return params

    # Least squares.

    def usual_steps(self, delay, theta, T, in_delay):
        return np.full(len(theta), _USUAL)

    def coarse_steps(self, delay, theta, T):
        return np.full(len(theta), _COARSE)

    def steps_near(self, delay, theta, place, n):
        return np.full(len(theta), n)

    def steps_at_rate(self, n, rate, T):
        return n

    def steps_in_record(self, delay, theta, T, count):
        return np.full(len(theta), _USUAL)

    def later_steps(self, n, delays, T):
        before, after = delays()
        n = int(np.ceil(n * max(after / before, 1.0)))
        return n, after / n

    def reported_steps(self, n, in_delay, T):
        return n, None

    def capacity(self, n, T):
        # There is room for steps of half the usual length.
        return _CAPACITY * (1 << max(n // (2 * _USUAL) - 1, 0).bit_length())

    def nearby(self, lower, theta, delays):
        return lower

    def steps(self, problem, n, T, capacity):
        factor = (_USUAL / jnp.asarray(n, float)) ** self.solver.order
        return AdaptiveSteps(factor, capacity)

    def at_least(self, steps, rate, problem, capacity):
        return steps

    def sensitivity(self, system, join, theta, steps, direct):
        return AdaptiveSensitivity(system(steps), join, theta)

    def smoothness(self, steps):
        # The experiments of a study have the same tolerance.
        rtol = jnp.max(steps.rtol(self.solver))
        return rtol, 1000 * rtol

    def part(self, e):
        return self

    def explain(self, problem, T):
        solve_adaptive(without_doses(problem), T, self.solver, "forward")

    def saved(self):
        return {"mesh": False}


@final
class AdaptiveRooms(AbstractGrids):
    """Room for adaptive steps, the same for all fits."""

    side_by_side = False

    def __init__(self, problems: Sequence[Problem]):
        def typical(problem: Problem) -> np.ndarray:
            return np.asarray(typical_delays(problem.tau, problem.start))

        self.movers = np.stack(of_each(typical, problems), axis=1)
        self.delays = len(self.movers)
        self.room = AdaptiveRoom()

    def reserve(self, active: np.ndarray, overflow: bool) -> None:
        """Grow after an overflow: the number of steps is not known in advance."""
        if overflow:
            self.room = AdaptiveRoom(GROWTH * self.room.capacity)

    def grid(self, block: np.ndarray) -> AdaptiveRoom:
        return self.room
