"""The contract of an engine: how a delay equation is solved, with its derivatives.

An engine is chosen once, in `choose.py`, for a problem and a solver. Whoever has one
calls its methods, and does not ask which one it is. An engine is data of a compiled
program, as is the *grid* that it makes for a march: of all else that a program needs to
know of a problem there is a `System`.

How the loss of a fit depends on a solved path is known to `_loss`. The contract of such
a cost stands here, since the gradient of an engine uses it.
"""

import abc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._problem.problem import Problem

# A fit that needs more rows than this steps back instead.
MAX_ROWS = 1 << 17
# The least number of steps over the whole record, and the number of steps per delay of
# a short preliminary fit. (The record may need more steps: see `FitSetup.rate`.)
STEPS_PER_RECORD, COARSE_STEPS = 100, 5
# The factor by which a delay that steps follow may become shorter before the number of
# steps of a fit is changed.
SHRINKAGE = 4.0
# How many step sizes are tried until a solution no longer changes.
STEP_SIZES = 5
# The relative change of a parameter for differences of a loss with fixed steps.
CHANGE = 1e-4


class Points(NamedTuple):
    """The values with which a trajectory is compared, ordered by time, and their
    weights."""

    times: Any  # [M]
    values: Any  # [M, k]
    weights: Any  # [M, k] or [M, 1]


@final
@dataclass(frozen=True)
class System:
    """The functions of a problem, with its engine, its grid and the end `T` of time.

    A problem is split into `params`, the arrays that are differentiated, and `fixed`,
    everything else: the methods take `params` as an argument. The grid is one that the
    engine has made. `dimension` is the number d of components of the state, and `lanes`
    the number of trajectories solved side by side, or None for a single one without the
    axis for them."""

    fixed: Problem
    engine: "AbstractEngine"
    grid: Any
    T: Any
    dimension: int
    lanes: int | None = None

    @property
    def solver(self) -> Any:
        """The solver of the engine."""
        return self.engine.solver

    @property
    def state_shape(self) -> tuple[int, ...]:
        """The shape of a state: (d,), or (d, lanes)."""
        return (self.dimension,) + (() if self.lanes is None else (self.lanes,))

    def lift(self, function: Callable) -> Callable:
        """Apply a `function` of one trajectory to every lane."""
        if self.lanes is None:
            return function
        return jax.vmap(function, in_axes=-1, out_axes=-1)

    def slope(
        self, rhs: Any, x: jax.Array, y: jax.Array, tau: jax.Array, t: Any
    ) -> jax.Array:
        """Return the right-hand side F(x, y, tau, t), where y = x(t - tau)."""

        def one(rhs, x, y, tau, t):
            return eqx.combine(rhs, self.fixed.rhs)(x, y, tau, t)

        return self.lift(one)(rhs, x, y, tau, t)

    def history(self, history: Any, t: Any) -> jax.Array:
        """Return the history X0(t)."""

        def one(history, t):
            return eqx.combine(history, self.fixed.history)(t)

        return self.lift(one)(history, t)

    def observe(self, observe: Any, x: jax.Array, t: Any) -> jax.Array:
        """Return what is measured of the state `x` at the time `t`."""

        def one(observe, x, t):
            function = eqx.combine(observe, self.fixed.observe)
            return x if function is None else function(x, t)

        return self.lift(one)(observe, x, t)

    def start(self, params: Problem) -> jax.Array:
        """Return the state x(0): the history at 0, or `initial` where given."""
        if callable(self.fixed.initial):
            return self.lift(lambda one: eqx.combine(one, self.fixed).start)(params)
        lanes = self.state_shape[1:]
        if params.initial is not None:
            return params.initial
        if self.fixed.initial is None:
            return self.history(params.history, jnp.zeros(lanes))
        columns = self.fixed.initial.reshape(-1, *(1,) * len(lanes))
        return jnp.broadcast_to(columns, (self.dimension, *lanes))


class PathCostState(NamedTuple):
    """The sums so far: the loss, and the gradients for tau and for the parameters of
    `observe`, which act on it beside the path. `more` is for the cost's own use."""

    loss: Any
    tau: Any
    observe: Any
    more: Any = ()


class AbstractPathGradient(abc.ABC):
    """The derivatives of a loss for the rows of an aligned path, for a loop that visits
    them from the last to the first."""

    @abc.abstractmethod
    def begin(self, params: Problem, path: jax.Array, last: Any) -> PathCostState:
        """Return the state before the last row is visited."""

    @abc.abstractmethod
    def visit(
        self, i: Any, state: PathCostState, params: Problem, path: jax.Array, last: Any
    ) -> tuple[PathCostState, jax.Array, jax.Array | None]:
        """Visit row `i`, after all later ones. Return the new state, and the cotangents
        of the row's state and of its slope (None for zero)."""


class AbstractPathCost(AbstractPathGradient):
    """The loss of a path, and its derivatives for the rows of the path."""

    @abc.abstractmethod
    def value(self, params: Problem, path: jax.Array, last: Any) -> jax.Array:
        """Return the loss of an aligned path that is complete up to row `last`."""


class MeshCost(NamedTuple):
    """A loss on a mesh, and its cotangents for the parameters of `observe`, the rows of
    the path and their times."""

    value: jax.Array
    on_observe: Any
    on_rows: jax.Array
    on_times: jax.Array


class AbstractPointCost(AbstractPathCost):
    """The loss of a path that is read at fixed times only, as a function of time: every
    engine has one."""

    @abc.abstractmethod
    def total(self, params: Problem, x: Callable[[Any], jax.Array]) -> jax.Array:
        """Return the loss of a trajectory, which is a function of time."""

    @abc.abstractmethod
    def on_mesh(self, params: Problem, path: Any) -> MeshCost:
        """Return the loss of a solution on a mesh, and its cotangents."""


@dataclass(frozen=True)
class AbstractSensitivity(abc.ABC):
    """The functions of a system with their derivatives for the free values `theta`, and
    the march that solves them.

    `join(theta)` returns the parameters of the system with these free values."""

    system: System
    join: Callable[[jax.Array], Problem]
    theta: jax.Array

    @abc.abstractmethod
    def memory(self, capacity: int) -> Any:
        """Return memory for the first march, with `capacity` rows."""

    @abc.abstractmethod
    def visit(
        self,
        points: Points,
        rows: Any,
        memory: Any,
        add: Callable[[Any, Any, jax.Array], Any],
        total: Any,
    ) -> tuple[Any, Any]:
        """March through the data: `total = add(total, j, observed)` for each point j
        from `rows[0]` to `rows[1]` - 1, in the order of time, with what is observed
        there, extended. Return the last total, and the memory for the next march."""

    def push(self, function: Callable[..., jax.Array], *arguments: jax.Array):
        """Compute the vector `function(params, *arguments)` with its derivatives."""
        params, vjp_of_join = jax.vjp(self.join, self.theta)
        values = [a[..., 0] for a in arguments]
        value, vjp = jax.vjp(function, params, *values)

        def derivatives(cotangent):
            on_params, *on_arguments = vjp(cotangent)
            total = vjp_of_join(on_params)[0]
            for g, a in zip(on_arguments, arguments):
                # Not `jnp.dot`: XLA compiles a loop with one in it much worse.
                total += jnp.sum(g[:, None] * a[:, 1:], axis=0)
            return total

        jacobian = jax.vmap(derivatives)(jnp.eye(value.shape[0]))
        return jnp.concatenate([value[:, None], jacobian], axis=1)


class AbstractGrids(abc.ABC):
    """The grids of many fits by gradient descent.

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
    def grid(self, block: np.ndarray) -> Any:
        """Return the grid on which the fits of a block run."""


def of_each(function: Callable[[Problem], Any], problems: Sequence[Problem]) -> list:
    """Apply a function to each problem, once where many fits share one."""
    known = {id(each): each for each in problems}
    found = {key: function(each) for key, each in known.items()}
    return [found[id(each)] for each in problems]


class AbstractEngine(eqx.Module):
    """How equations of one kind are solved, by a `solver`.

    The steps of a fit have a *number* n, whose unit is known to the engine alone: a
    larger one means finer steps. `is_costly` says that an evaluation takes many times
    as long as usual, and `in_arrays` that many fits can run as arrays of a program of
    its own."""

    solver: eqx.AbstractVar[Any]
    is_costly: eqx.AbstractClassVar[bool]
    in_arrays: eqx.AbstractClassVar[bool]

    # One problem with known values.

    @abc.abstractmethod
    def solve(
        self,
        problem: Problem,
        T: float,
        n: int,
        differentiate: str,
        max_steps: int | None,
    ) -> Any:
        """Return the path of a solution up to the time T, with `n` steps in a delay. In
        a compiled program its derivatives are those of one mode, `"reverse"` or
        `"forward"`."""

    @abc.abstractmethod
    def grid(self, problem: Problem, T: float, n: int, shrink: float = 1.0) -> Any:
        """Return the grid of a march up to the time T, with `n` steps in a delay, and
        with room for delays that are shorter by the factor `shrink`."""

    @abc.abstractmethod
    def larger_grid(self, grid: Any, problem: Problem, T: float, loss: Any) -> Any:
        """Return a grid with more room, if a march to this `loss` lacked some; else
        None. If there is no solution up to T, an error says why."""

    @abc.abstractmethod
    def finer_steps(self, delay: float, T: float, n: int) -> Iterator[dict[str, Any]]:
        """Yield arguments of `solve` for shorter and shorter steps, a quarter each time
        and `n` in a delay at first; a few, and not too many steps."""

    @abc.abstractmethod
    def refusal(self, problem: Problem, route: str) -> str:
        """Say why a route to the gradient that is a formula for one constant delay on
        an aligned grid cannot be used; nothing if it can."""

    @abc.abstractmethod
    def for_differences(self) -> tuple["AbstractEngine", float]:
        """Return the engine with which the loss is so smooth that its differences are
        derivatives, and the relative change of a parameter for them."""

    # A loss in a compiled program.

    @abc.abstractmethod
    def path(self, system: System) -> Any:
        """Allocate memory for the first call of `loss`."""

    @abc.abstractmethod
    def buffers(self, system: System) -> Any:
        """Allocate memory for the first call of `gradient`."""

    @abc.abstractmethod
    def loss(
        self, system: System, cost: Any, params: Problem, path: Any
    ) -> tuple[jax.Array, Any]:
        """Return the loss, which JAX differentiates in forward mode, and the used
        memory. The `cost` is an `AbstractPathCost`, and unless the grid is aligned an
        `AbstractPointCost`."""

    @abc.abstractmethod
    def gradient(
        self, system: System, cost: Any, params: Problem, buffers: Any
    ) -> tuple[jax.Array, Problem, Any]:
        """Return the loss, its gradient in the shape of `params` by the adjoint of
        every step, and the used memory."""

    # Gradient descent.

    @abc.abstractmethod
    def grids(
        self, problems: Sequence[Problem], T: np.ndarray, n: int
    ) -> AbstractGrids:
        """Return the grids of fits that start from these problems, up to the times T
        and with `n` steps in a delay."""

    @abc.abstractmethod
    def movers(self, system: System, params: Problem) -> jax.Array:
        """Return what moves the nodes, the delays first."""

    @abc.abstractmethod
    def is_feasible(self, system: System, movers: jax.Array) -> jax.Array:
        """Whether a march is possible: the delays are positive, say."""

    @abc.abstractmethod
    def rows_needed(self, system: System, movers: jax.Array) -> Any:
        """Count the rows that a march needs, as far as that is known in advance."""

    @abc.abstractmethod
    def lacked_rows(self, system: System, buffers: Any) -> jax.Array:
        """Whether an evaluation, which left these buffers, had too few rows and could
        have more."""

    @abc.abstractmethod
    def at_rest(self, system: System, params: Problem, rests: Any) -> Problem:
        """Return parameters with which a march takes as few steps as possible, where a
        fit `rests`."""

    # Least squares: the numbers of steps. `delay(theta)` is the longest delay of free
    # values [..., p]; theta has one row for each fit.

    @abc.abstractmethod
    def usual_steps(
        self, delay: Callable, theta: np.ndarray, T: Any, in_delay: int
    ) -> np.ndarray:
        """Return numbers that resolve both the delay, by `in_delay` steps where it is
        long, and the record up to T."""

    @abc.abstractmethod
    def coarse_steps(self, delay: Callable, theta: np.ndarray, T: Any) -> np.ndarray:
        """Return the numbers of short preliminary fits."""

    @abc.abstractmethod
    def steps_near(
        self, delay: Callable, theta: np.ndarray, place: np.ndarray, n: int
    ) -> np.ndarray:
        """Return numbers for steps that are as long as those with `n` at `place`."""

    @abc.abstractmethod
    def steps_at_rate(self, n: np.ndarray, rate: float, T: float) -> np.ndarray:
        """Return numbers for at least `rate` steps per unit of time, where `at_least`
        does not see to it."""

    @abc.abstractmethod
    def steps_in_record(
        self, delay: Callable, theta: np.ndarray, T: float, count: int
    ) -> np.ndarray:
        """Return numbers for about `count` steps in the record."""

    @abc.abstractmethod
    def later_steps(
        self, n: int, delays: Callable[[], tuple[float, float]], T: float
    ) -> tuple[int, float]:
        """Return the number for steps that are no longer than those of a fit with the
        number `n`, and their length, if the delay is the second of the `delays` in
        place of the first."""

    @abc.abstractmethod
    def reported_steps(
        self, n: int, in_delay: int, T: float
    ) -> tuple[int, float | None]:
        """Return the `steps_per_delay` and the `max_step` with which `solve` takes the
        steps of a fit with the number `n`."""

    @abc.abstractmethod
    def capacity(self, n: int, T: float) -> int:
        """Return how many rows a march has room for, with the number `n` and up to T.

        It is one of a few powers of two, since each needs a compilation."""

    @abc.abstractmethod
    def nearby(
        self, lower: np.ndarray, theta: np.ndarray, delays: Sequence[int]
    ) -> np.ndarray:
        """Return the lower bounds of fits from `theta` with these numbers of steps:
        raised for the free values that are `delays`, if steps follow them."""

    # Least squares in a compiled program.

    @abc.abstractmethod
    def steps(
        self, problem: Callable[[], Problem], n: Any, T: Any, capacity: int
    ) -> Any:
        """Return the steps of a march up to the time T with the number `n`, for a
        problem without doses."""

    @abc.abstractmethod
    def at_least(
        self, steps: Any, rate: Any, problem: Callable[[], Problem], capacity: int
    ) -> Any:
        """Return the steps, of which there are at least `rate` per unit of time."""

    @abc.abstractmethod
    def sensitivity(
        self,
        system: Callable[[Any], System],
        join: Callable[[jax.Array], Problem],
        theta: jax.Array,
        steps: Any,
        direct: tuple[int, ...],
    ) -> AbstractSensitivity:
        """Return the equation, ready to be solved together with its derivatives for the
        free values.

        `system(grid)` is the system on a grid, `join(theta)` returns its parameters,
        and the `direct` free values are those on which something other than the delays
        and what is observed depends."""

    @abc.abstractmethod
    def smoothness(self, steps: Any) -> tuple[Any, ...]:
        """Return the least relative reduction and gradient of S that are more than
        errors of these steps; nothing if S is smooth."""

    @abc.abstractmethod
    def part(self, e: Any) -> "AbstractEngine":
        """Return the engine of experiment `e` of a study."""

    # What a user sees.

    @abc.abstractmethod
    def explain(self, problem: Problem, T: float) -> None:
        """Raise an error that says why there is no solution up to T, if it is known."""

    @abc.abstractmethod
    def saved(self) -> dict[str, Any]:
        """Return what a file must tell to make the same engine again, beside the
        problem and the solver (see `choose.saved_engine`)."""
